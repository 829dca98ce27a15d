//! What belongs to a server's data but is not in their folder: settings, links, and tables with folders of
//! their own.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use disk::Kind;
use host::Machine;
use server::{Flavour, Session, Version};

use crate::file_system::FileSystem;

/// Settings with a folder without which the data are useless.
const FOLDERS: [&str; 7] = [
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_doublewrite_dir",
    "aria_log_dir_path",
    "rocksdb_datadir",
    "rocksdb_wal_dir",
];
/// The setting with InnoDB's system tablespace: paths, each followed by a colon with sizes and more.
const FILES: &str = "innodb_data_file_path";
/// Settings with files that a restored server can do without, and what is then missing.
const APART: [(&str, &str); 3] = [
    ("log_bin_basename", "the binary log, so nothing that is committed after the backup"),
    ("relay_log_basename", "the relay log, which a replica fetches again"),
    ("file_key_management_filename", "the keys without which encrypted tables can't be read"),
];
/// The extension of files that say where a table's data are (InnoDB).
const LINK_FILE: &str = "isl";
/// The longest file that says where a table is.
const PATH_MAX: u64 = 4096;

/// What a snapshot of the data will contain.
pub enum Reach<'a> {
    /// Everything below these folders.
    Folders(&'a [&'a Path]),
    /// Everything on the volume with these device numbers.
    Volume(&'a str),
}

impl Reach<'_> {
    fn has(&self, machine: &Machine, path: &Path) -> io::Result<bool> {
        match self {
            Reach::Folders(folders) => Ok(folders.iter().any(|folder| path.starts_with(folder))),
            Reach::Volume(device) => {
                // For a name that is only the prefix of file names, the file itself does not exist.
                let there = path.ancestors().find(|path| machine.tree().entry(path).is_ok());
                Ok(FileSystem::of(machine, there.unwrap_or(Path::new("/")))?.device == *device)
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Reach::Folders(_) => "not in the data folder",
            Reach::Volume(_) => "on another volume than the data folder",
        }
    }
}

/// Fails with the name of something without which the data are useless and which the snapshot will not
/// contain. Returns lines about other things that it will not contain.
pub fn check_settings(
    session: &mut Session,
    machine: &Machine,
    data: &Path,
    reach: &Reach<'_>,
) -> io::Result<Vec<String>> {
    let needed = needed(session)?;
    let paths: Vec<PathBuf> = needed.iter().map(|(_, path)| data.join(path)).collect();
    for ((name, _), path) in needed.iter().zip(resolve(machine, &paths)?) {
        if !reach.has(machine, &path)? {
            return Err(refusal(name, &path, data, reach));
        }
    }
    let (mut apart, mut paths) = (Vec::new(), Vec::new());
    for (name, what) in APART {
        if let Some(value) = setting(session, name)?.filter(|value| !value.is_empty()) {
            apart.push((name, what));
            paths.push(data.join(value));
        }
    }
    let mut lines = Vec::new();
    for ((name, what), path) in apart.into_iter().zip(resolve(machine, &paths)?) {
        if !reach.has(machine, &path)? {
            lines.push(format!("{name} is {}: the backup lacks {what}", path.display()));
        }
    }
    Ok(lines)
}

/// Fails with the name of something in a data folder that leads outside of the snapshot, and exists there.
/// `data` is the folder's name for people. Returns whether something leads to another place inside the
/// snapshot.
pub fn check_links(machine: &Machine, top: &Path, data: &Path, reach: &Reach<'_>) -> io::Result<bool> {
    let tree = machine.tree();
    let device = tree.entry(top)?.device;
    let (mut links, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let entries = match tree.entries(&top.join(&folder)) {
            // Its database was dropped since the folder above was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != Path::new("") => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = folder.join(&entry.name);
            match entry.kind {
                Kind::Folder if entry.device != device => {
                    return Err(io::Error::other(format!(
                        "{} is on another file system than the data folder: a backup without it would be of no use",
                        data.join(path).display()
                    )));
                }
                Kind::Folder => folders.push(path),
                Kind::Link(_) => links.push((path.clone(), top.join(path))),
                Kind::File if path.extension().is_some_and(|end| end == LINK_FILE) => {
                    links.push((path.clone(), top.join(text(machine, &top.join(&path))?)));
                }
                _ => {}
            }
        }
    }
    let targets: Vec<PathBuf> = links.iter().map(|(_, target)| target.clone()).collect();
    for ((path, _), target) in links.iter().zip(resolve(machine, &targets)?) {
        // A link that leads to nothing is none of the server's.
        let is_there = !matches!(tree.entry(&target), Err(error) if error.kind() == io::ErrorKind::NotFound);
        if is_there && !reach.has(machine, &target)? {
            return Err(refusal(&data.join(path).display().to_string(), &target, data, reach));
        }
    }
    Ok(!links.is_empty())
}

fn refusal(name: &str, path: &Path, data: &Path, reach: &Reach<'_>) -> io::Error {
    io::Error::other(format!(
        "{name} leads to {}, which is {} {}: a backup without it would be of no use; move it there, or dump the server with \
         'remora dump'",
        path.display(),
        reach.name(),
        data.display(),
    ))
}

/// Paths without which the data are useless, with the names of the settings or tables that give them.
/// Relative paths are relative to the data folder.
fn needed(session: &mut Session) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for name in FOLDERS {
        if let Some(value) = setting(session, name)?.filter(|value| !value.is_empty()) {
            found.push((name.to_owned(), value.into()));
        }
    }
    let files = setting(session, FILES)?.unwrap_or_default();
    let files =
        files.split(';').filter_map(|file| file.split(':').next()).filter(|file| file.starts_with('/'));
    found.extend(files.map(|file| (FILES.to_owned(), file.into())));
    // Since 5.7 a tablespace does not need a file in the data folder that leads to it.
    let about = &session.about;
    if about.flavour != Flavour::MariaDb && about.version >= (Version { major: 5, minor: 7, patch: 0 }) {
        let query = "SELECT file_name FROM information_schema.files WHERE file_name LIKE '/%'";
        for row in session.strings(query).map_err(io::Error::other)? {
            let path = row.into_iter().flatten().next().unwrap_or_default();
            found.push(("a tablespace".to_owned(), path.into()));
        }
    }
    Ok(found)
}

/// The value of a variable of the server; `None` if it is empty or there is no such variable.
pub fn setting(session: &mut Session, name: &str) -> io::Result<Option<String>> {
    let rows = session.strings(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'")).map_err(io::Error::other)?;
    Ok(rows.into_iter().next().and_then(|row| row.into_iter().nth(1)?))
}

/// The path in a file that contains nothing else.
fn text(machine: &Machine, path: &Path) -> io::Result<PathBuf> {
    let mut bytes = Vec::new();
    machine.disk().open(path)?.take(PATH_MAX).read_to_end(&mut bytes)?;
    Ok(OsString::from_vec(bytes.trim_ascii().to_vec()).into())
}

/// The targets of paths after following links.
pub fn resolve(machine: &Machine, paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    // A command line has a limited length.
    for some in paths.chunks(200) {
        let words = ["readlink", "--canonicalize-missing", "--zero", "--"].map(OsStr::new);
        let words: Vec<&OsStr> = words.into_iter().chain(some.iter().map(|path| path.as_os_str())).collect();
        let told = machine.tool(&words)?;
        let lines = told.strip_suffix(b"\0").unwrap_or(&told).split(|byte| *byte == 0);
        all.extend(lines.map(|line| PathBuf::from(OsStr::from_bytes(line))));
    }
    if all.len() == paths.len() {
        Ok(all)
    } else {
        Err(io::Error::other("readlink said something that is not understood"))
    }
}
