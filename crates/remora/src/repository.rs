//! Repositories on the command line: a folder with a folder for each name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use block::{Folder, Generation, Repository};
use disk::RealDisk;

use crate::exit;

/// Backups of one name.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) repository: Repository,
}

impl Named {
    /// Whether what is to be restored is a tree of files.
    pub(crate) fn is_tree(&self, request: block::restore::Request) -> Result<bool> {
        let all = self.repository.list()?.generations;
        let number = request.generation;
        let found = all.iter().rfind(|found| number.is_none_or(|number| found.number == number));
        if !request.keep_going {
            return Ok(found.is_some_and(is_tree));
        }
        // Where the note is damaged the others tell: a name is of one kind.
        let note = block::restore::note(&self.repository, request)?;
        Ok(note_says_tree(&note).unwrap_or_else(|| all.iter().any(is_tree)))
    }
}

/// Backups called `name` in the folder `root`.
pub(crate) fn named(root: &Path, name: &str) -> Repository {
    Repository::new(Box::new(Folder::new(Arc::new(RealDisk), root.join(name))))
}

/// A word that no other name in any repository has: what a run makes elsewhere is marked with it, so that it
/// is known again when the run is killed.
pub(crate) fn mark(root: &Path, name: &str) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    // Where a machine has no number of its own its name must do.
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    hasher.update(machine.trim().as_bytes());
    hasher.update(rustix::system::uname().nodename().to_bytes_with_nul());
    hasher.update(root.join(name).canonicalize()?.as_os_str().as_encoded_bytes());
    Ok(hasher.finalize().to_hex().chars().take(16).collect())
}

/// Whether a generation is one of a tree of files, and not of a volume.
pub(crate) fn is_tree(generation: &Generation) -> bool {
    note_says_tree(&generation.note) == Some(true)
}

/// None when it is no note.
fn note_says_tree(note: &str) -> Option<bool> {
    let note: serde_json::Value = serde_json::from_str(note).ok()?;
    Some(note.get("tree").and_then(serde_json::Value::as_bool) == Some(true))
}

/// Whether a folder holds the backups of one name, told by its files.
fn holds_backups(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| Path::new(&entry.file_name()).extension().is_some_and(|end| end == "blk"))
}

/// All names in a repository. `root` may also be the folder of one name itself.
pub(crate) fn all(root: &Path) -> Result<Vec<Named>> {
    if !root.is_dir() {
        return Err(missing(root));
    }
    let open = |folder: PathBuf| Named {
        name: folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned(),
        repository: Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder))),
    };
    if holds_backups(root) {
        return Ok(vec![open(root.to_owned())]);
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_dir() && holds_backups(&path) {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders.into_iter().map(open).collect())
}

/// That a folder is not there, with the names that are, if it was to be one of a repository's.
fn missing(root: &Path) -> anyhow::Error {
    let above = root.parent().filter(|above| above.is_dir() && !holds_backups(above));
    let names = above.and_then(|above| all(above).ok()).unwrap_or_default();
    let (Some(name), false) = (root.file_name(), names.is_empty()) else {
        return anyhow::anyhow!("{}: there is no such folder", root.display());
    };
    let names: Vec<&str> = names.iter().map(|named| &*named.name).collect();
    let (name, above) = (name.display(), above.unwrap_or(root).display());
    anyhow::anyhow!("{above} has no backups called {name}; it has those of {}", names.join(", "))
}

/// The same, when there is nothing to be done without any.
pub(crate) fn some(root: &Path) -> Result<Vec<Named>> {
    let found = all(root)?;
    if found.is_empty() {
        bail!("there is no backup in {}", root.display());
    }
    Ok(found)
}

/// The one that `REPO/NAME@GENERATION` means; the newest generation if none is named, the only name if
/// there is but one.
pub(crate) fn one(argument: &str) -> Result<(Named, Option<u64>)> {
    let (path, generation) =
        match argument.rsplit_once('@').map(|(path, number)| (path, number.parse::<u64>())) {
            // A folder may be called so.
            Some(_) if Path::new(argument).is_dir() => (argument, None),
            Some((path, Ok(number))) => (path, Some(number)),
            _ => (argument, None),
        };
    let mut found = some(Path::new(path))?;
    match found.pop() {
        Some(only) if found.is_empty() => Ok((only, generation)),
        last => {
            let names: Vec<String> = found.into_iter().chain(last).map(|named| named.name).collect();
            let example = names.first().cloned().unwrap_or_default();
            Err(exit::usage(format!(
                "{path} holds backups of {}; say which: {path}/{example}",
                names.join(", ")
            )))
        }
    }
}
