//! The folder of a sandbox, and what it must contain before the server starts.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::At;
use crate::state::{self, State};
use crate::{Error, Places, Settings, folder};

/// The requested folder, and its guard if it is temporary.
pub(crate) fn choose(places: &Places, settings: &Settings) -> Result<(PathBuf, Option<TempDir>), Error> {
    let Settings { folder, name, .. } = settings;
    if let Some(name) = name {
        check_name(name)?;
        let entry = places.sandboxes().join(name);
        let known = entry.canonicalize().ok();
        return match (folder, known) {
            (None, None) => {
                // A link whose sandbox is gone would be in the way.
                folder::remove_file(&entry)?;
                Ok((entry, None))
            }
            (None, Some(known)) => Ok((known, None)),
            (Some(folder), Some(known)) if folder.canonicalize().ok().as_ref() != Some(&known) => {
                Err(Error::Occupied { why: format!("the sandbox {name} is there"), folder: known })
            }
            (Some(folder), _) => Ok((folder.clone(), None)),
        };
    }
    if let Some(folder) = folder {
        return Ok((folder.clone(), None));
    }
    let folder = tempfile::Builder::new().prefix("remora-sandbox-").tempdir();
    let folder = folder.at("cannot create", Path::new("a temporary folder"))?;
    Ok((folder.path().to_owned(), Some(folder)))
}

/// The longest name: a file's has 255 bytes, and others have this one at their beginning.
const NAME_MAX: usize = 200;

/// Whether a sandbox can have this name.
///
/// # Errors
///
/// [`Error::Name`] if not.
pub fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric();
    let good = name.len() <= NAME_MAX
        && name.starts_with(plain)
        && name.chars().all(|c| plain(c) || "-_.".contains(c));
    if good { Ok(()) } else { Err(Error::Name { name: name.to_owned() }) }
}

/// Ensures that the folder contains a stopped sandbox of this server, with its own data or given ones.
pub(crate) fn prepare(
    folder: &Path,
    wanted: &State,
    given: Option<&Path>,
    fill: &dyn Fn(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let occupied = |why: String| Error::Occupied { folder: folder.to_owned(), why };
    let data = state::data(folder);
    match State::read(folder) {
        Ok(found) => {
            if let Some(process) = found.process(folder) {
                return Err(Error::Running { folder: folder.to_owned(), pid: process.pid() });
            }
            if found.installation.title() != wanted.installation.title() {
                return Err(occupied(format!("it is a sandbox of {}", found.installation.title())));
            }
        }
        Err(Error::NoSandbox { .. }) => {
            // The lock file is ours.
            if std::fs::read_dir(folder).at("cannot read folder", folder)?.nth(1).is_some() {
                return Err(occupied("it holds other files".to_owned()));
            }
            wanted.write(folder)?;
        }
        Err(error) => return Err(error),
    }
    folder::create(&temp(folder))?;
    if data.is_dir() {
        return Ok(());
    }
    if let Some(given) = given {
        return symlink(given, &data).at("cannot link", &data);
    }
    let new = folder.join("data.new");
    folder::remove(&new)?;
    fill(&new)?;
    folder::rename(&new, &data)
}

/// Makes [`crate::list`] find a named sandbox in another folder.
pub(crate) fn enlist(places: &Places, name: &str, folder: &Path) -> Result<(), Error> {
    let shelf = places.sandboxes();
    folder::create(&shelf)?;
    let entry = shelf.join(name);
    if entry.exists() {
        return Ok(());
    }
    folder::remove_file(&entry)?;
    symlink(folder, &entry).at("cannot link", &entry)
}

/// Removes what a start has created in an empty folder, and the sandbox's entry in the list.
pub(crate) fn clear(folder: &Path, places: &Places, name: Option<&str>) -> Result<(), Error> {
    let entries = std::fs::read_dir(folder).at("cannot read folder", folder)?;
    for entry in entries {
        let path = entry.at("cannot read folder", folder)?.path();
        match path.is_dir() && !path.is_symlink() {
            true => folder::remove(&path)?,
            false => folder::remove_file(&path)?,
        }
    }
    name.map_or(Ok(()), |name| forget(places, name))
}

/// Takes a sandbox without data off the list.
pub(crate) fn forget(places: &Places, name: &str) -> Result<(), Error> {
    let entry = places.sandboxes().join(name);
    if entry.is_symlink() {
        return folder::remove_file(&entry);
    }
    folder::remove(&entry)
}

/// Waits until nobody else is starting a server in the folder.
pub(crate) fn lock(folder: &Path) -> Result<File, Error> {
    folder::lock(&folder.join("lock"))
}

/// The folder for the server's temporary tables.
pub(crate) fn temp(folder: &Path) -> PathBuf {
    folder.join("tmp")
}
