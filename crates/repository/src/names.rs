//! Repositories on the command line: a folder that contains a folder for each name, or the same in a store.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use binlog::archive::FOLDER;
use block::{EncryptedStore, Error, Generation, Repository};
use bucket::Bucket;
use seal::Key;

use crate::address;
use crate::address::Address;
use crate::location::Location;

/// The backups of one name.
pub struct Named {
    /// The name.
    pub name: String,
    /// Where they are.
    pub home: Location,
    /// The backups.
    pub repository: Repository,
    /// What opens it, if it is encrypted.
    pub key: Option<Key>,
}

impl Named {
    /// The backups of a name.
    pub fn open((name, home): (String, Location), key: Option<&Key>) -> Result<Named, Error> {
        let repository = at(&home, key)?;
        Ok(Named { name, home, repository, key: key.cloned() })
    }
}

impl Named {
    /// Whether a tree of files will be restored.
    pub fn is_tree(&self, request: block::restore::Request) -> Result<bool> {
        let all = self.repository.list()?.generations;
        let number = request.generation;
        let found = all.iter().rfind(|found| number.is_none_or(|number| found.number == number));
        if let Some(found) = found.filter(|_| !request.keep_going) {
            return Ok(is_tree(found));
        }
        let note = block::restore::note(&self.repository, request)?;
        // If the note is damaged the other generations tell: all generations of a name are of one kind.
        Ok(note_says_tree(&note).unwrap_or_else(|| all.iter().any(is_tree)))
    }
}

/// The backups of a name in the repository `root`, which may be the first of that name. With a key they are
/// encrypted then.
pub fn named(root: &Path, home: Location, key: Option<&Key>) -> Result<Repository, Error> {
    if key.is_none() {
        may_be_in_clear(root, &home)?;
    }
    at(&home, key)
}

/// An error if this name is new and the others in the repository `root` are encrypted: whoever encrypts has
/// forgotten the key this time.
pub fn may_be_in_clear(root: &Path, home: &Location) -> Result<(), Error> {
    let beside = beside(root, home);
    let beside = beside.map_err(|source| Error::Store { name: root.display().to_string(), source })?;
    for other in beside {
        if other.is_encrypted()? {
            return Err(Error::Key(format!(
                "the other backups in {} are encrypted: give the key with --key FILE, or use another repository",
                root.display()
            )));
        }
    }
    Ok(())
}

/// The other names, if this one has no backup yet.
fn beside(root: &Path, home: &Location) -> io::Result<Vec<Location>> {
    let bucket = match home {
        Location::Folder(folder) if holds_backups(folder) => return Ok(Vec::new()),
        Location::Folder(_) => {
            let beside = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
            let holds_any = |other: &PathBuf| holds_backups(other) || holds_log(&other.join(FOLDER));
            return Ok(beside.filter(holds_any).map(Location::Folder).collect());
        }
        Location::Bucket(bucket) => bucket,
    };
    if bucket.folders()?.get("").is_some_and(|files| has_backups(files)) {
        return Ok(Vec::new());
    }
    let Ok(Address::Bucket(root)) = address::of(root) else { return Ok(Vec::new()) };
    Ok(places_in(&root)?.into_iter().map(|(_, home)| home).collect())
}

/// The backups in the place of a name.
pub fn at(home: &Location, key: Option<&Key>) -> Result<Repository, Error> {
    let (store, is_encrypted) = (home.store(), home.is_encrypted()?);
    match key {
        Some(key) => Ok(Repository::new(Box::new(EncryptedStore::open(store, key)?))),
        None if is_encrypted => Err(Error::Key(format!(
            "{} is encrypted: give its key with --key FILE, or name the file in REMORA_KEY",
            home.shown()
        ))),
        None => Ok(Repository::new(store)),
    }
}

/// A word that is unique to this name in this repository. It marks what a run creates elsewhere, so that a
/// later run recognises it if this one is killed.
pub fn mark(root: &Path, name: &str) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    // If a machine has no id, its name must do.
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    hasher.update(machine.trim().as_bytes());
    hasher.update(rustix::system::uname().nodename().to_bytes_with_nul());
    let place = root.join(name);
    let place = if address::is_in_store(root) { place } else { place.canonicalize()? };
    hasher.update(place.as_os_str().as_encoded_bytes());
    Ok(hasher.finalize().to_hex().chars().take(16).collect())
}

/// Where a backup says that its data are in the server's binary log: the file, and the offset in it.
pub fn position(generation: &Generation) -> Option<(String, u64)> {
    let note: serde_json::Value = serde_json::from_str(&generation.note).ok()?;
    let file = note.pointer("/position/file")?.as_str().filter(|file| !file.is_empty())?.to_owned();
    Some((file, note.pointer("/position/offset")?.as_u64()?))
}

/// The last transaction of each domain that a generation has, as far as it says it.
pub fn gtid(generation: &Generation) -> String {
    let note: serde_json::Value = serde_json::from_str(&generation.note).unwrap_or_default();
    note.pointer("/position/gtid").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// Whether a generation is a tree of files and not a volume.
pub fn is_tree(generation: &Generation) -> bool {
    note_says_tree(&generation.note) == Some(true)
}

/// None when it is not a note.
pub fn note_says_tree(note: &str) -> Option<bool> {
    let note: serde_json::Value = serde_json::from_str(note).ok()?;
    Some(note.get("tree").and_then(serde_json::Value::as_bool) == Some(true))
}

/// Whether a folder contains the backups of one name, judged by its files.
fn holds_backups(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        // The folder of a name may be called like a file of backups.
        entry.file_name().to_str().is_some_and(block::is_backup_file) && entry.path().is_file()
    })
}

/// Whether a folder contains the archive of a log. A name may be called like such a folder: a volume's `log`.
fn holds_log(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_in_archive))
}

/// Whether only the archive of a log has such a file or folder: a timeline, a segment, a note of either.
fn is_in_archive(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(name) || name.ends_with(".log") || name.starts_with("caught-up")
}

/// The folders of a repository that may be of a name, and their names. `root` may also be the folder of one
/// name itself.
pub fn folders(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let is_one = holds_backups(root) || holds_log(&root.join(FOLDER));
    let mut folders = Vec::new();
    if is_one {
        folders.push(root.to_owned());
    } else {
        for entry in std::fs::read_dir(root)? {
            folders.extend(Some(entry?.path()).filter(|path| path.is_dir()));
        }
    }
    folders.sort();
    let named = |folder: PathBuf| {
        (folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned(), folder)
    };
    Ok(folders.into_iter().map(named).collect())
}

/// All places of a repository that may be of a name, with backups or an archive of a log, and their names.
/// `root` may also be that of one name itself.
pub fn places(root: &Path) -> Result<Vec<(String, Location)>> {
    let bucket = match address::of(root)? {
        Address::Folder(root) => {
            let folders = folders(&root)?.into_iter();
            return Ok(folders.map(|(name, folder)| (name, Location::Folder(folder))).collect());
        }
        Address::Bucket(bucket) => bucket,
    };
    let found = bucket.folders()?;
    if found.get(FOLDER).is_some_and(|files| has_log(files))
        || found.get("").is_some_and(|files| has_backups(files))
    {
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(vec![(name, Location::Bucket(bucket))]);
    }
    places_in(&bucket).map_err(Into::into)
}

/// The same in a place of a store that is that of a repository.
pub fn places_in(root: &Bucket) -> io::Result<Vec<(String, Location)>> {
    let names = root.folders()?.into_keys().filter(|name| !name.is_empty());
    Ok(names.map(|name| (name.clone(), Location::Bucket(root.below(&name)))).collect())
}

/// The names in a place of a store that have backups.
pub fn in_bucket(root: &Bucket) -> io::Result<Vec<(String, Location)>> {
    let mut found = root.folders()?;
    found.retain(|name, files| !name.is_empty() && has_backups(files));
    Ok(found.into_keys().map(|name| (name.clone(), Location::Bucket(root.below(&name)))).collect())
}

fn has_log(files: &[String]) -> bool {
    files.iter().any(|file| file.split('/').next().is_some_and(is_in_archive))
}

fn has_backups(files: &[String]) -> bool {
    files.iter().any(|file| block::is_backup_file(file))
}

/// All names in a repository that have backups, and where these are. `root` may also be that of one name.
pub fn names(root: &Path) -> Result<Vec<(String, Location)>> {
    match address::of(root)? {
        Address::Bucket(bucket) => {
            if bucket.folders()?.get("").is_some_and(|files| has_backups(files)) {
                let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Ok(vec![(name, Location::Bucket(bucket))]);
            }
            let found = in_bucket(&bucket)?;
            if found.is_empty() && is_below_names(root) {
                return Err(missing(root));
            }
            Ok(found)
        }
        Address::Folder(root) if !root.is_dir() => Err(missing(&root)),
        Address::Folder(root) => {
            let found = folders(&root)?.into_iter().filter(|(_, folder)| holds_backups(folder));
            Ok(found.map(|(name, folder)| (name, Location::Folder(folder))).collect())
        }
    }
}

/// Whether a place of a store is below that of other names.
fn is_below_names(root: &Path) -> bool {
    let above = root.parent().and_then(|above| address::of(above).ok());
    matches!(above, Some(Address::Bucket(above)) if in_bucket(&above).is_ok_and(|found| !found.is_empty()))
}

/// Refuses a repository that has names where the place of one name is meant: what is put there would hide
/// them.
pub fn must_be_of_one(root: &Path, home: &Location) -> Result<()> {
    let Ok(found) = names(root) else { return Ok(()) };
    let is_own = match home {
        Location::Folder(folder) => holds_backups(folder),
        Location::Bucket(_) => has_backups(&home.store().list()?),
    };
    if found.is_empty() || is_own { Ok(()) } else { Err(which(&root.display().to_string(), found)) }
}

/// The error for a repository with several names where one is meant.
fn which(path: &str, found: Vec<(String, Location)>) -> anyhow::Error {
    let names: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
    let example = names.first().cloned().unwrap_or_default();
    failure::usage(format!("{path} holds backups of {}; say which: {path}/{example}", names.join(", ")))
}

/// The error for a folder that does not exist, with the names that do if it should be one of a repository's.
fn missing(root: &Path) -> anyhow::Error {
    let is_repository =
        |above: &&Path| address::is_in_store(above) || above.is_dir() && !holds_backups(above);
    let above = root.parent().filter(is_repository);
    let names = above.and_then(|above| names(above).ok()).unwrap_or_default();
    let (Some(name), false) = (root.file_name(), names.is_empty()) else {
        return anyhow::anyhow!("{}: there is no such folder", root.display());
    };
    let names: Vec<&str> = names.iter().map(|(name, _)| &**name).collect();
    let (name, above) = (name.to_string_lossy(), above.unwrap_or(root).display());
    if let Some((start, number)) = name.rsplit_once('@').filter(|(start, _)| names.contains(start)) {
        return failure::usage(match number.parse::<u64>() {
            Ok(_) => format!(
                "here no generation can be chosen: write {above}/{start}; @{number} is for commands that read one, \
                 such as restore, list --files and verify --boot"
            ),
            Err(_) => {
                format!("'{number}' is no number of a generation: 'remora list {above}/{start}' shows them")
            }
        });
    }
    anyhow::anyhow!("{above} has no backups called {name}; it has those of {}", names.join(", "))
}

/// All names, but fails if there are none.
pub fn some_names(root: &Path) -> Result<Vec<(String, Location)>> {
    let found = names(root)?;
    if found.is_empty() {
        bail!("there is no backup in {}", root.display());
    }
    Ok(found)
}

/// The same, opened.
pub fn some(root: &Path, key: Option<&Key>) -> Result<Vec<Named>> {
    some_names(root)?.into_iter().map(|named| Ok(Named::open(named, key)?)).collect()
}

/// The path and the generation in `REPO/NAME@GENERATION`.
fn split(argument: &str) -> (&str, Option<u64>) {
    match argument.rsplit_once('@').map(|(path, number)| (path, number.parse::<u64>())) {
        // A folder or file may have such a name.
        Some(_) if Path::new(argument).exists() => (argument, None),
        Some((path, Ok(number))) => (path, Some(number)),
        _ => (argument, None),
    }
}

/// `REPO/NAME@GENERATION`, of an argument that may say another generation or none.
pub fn at_generation(argument: &str, generation: u64) -> String {
    format!("{}@{generation}", split(argument).0)
}

/// Whether an argument that may also be the path of something else names backups.
pub fn is_named(argument: &str) -> bool {
    let (path, generation) = split(argument);
    let path = Path::new(path);
    // A wrong name in a repository is one too, so that the error lists the names.
    let place = if path.exists() { Some(path) } else { path.parent().filter(|above| !holds_backups(above)) };
    generation.is_some()
        || address::is_in_store(path)
        || place.is_some_and(|place| names(place).is_ok_and(|found| !found.is_empty()))
}

/// The backups that `REPO/NAME@GENERATION` names; without a generation the newest one, without a name the
/// only one.
pub fn one(argument: &str, key: Option<&Key>) -> Result<(Named, Option<u64>)> {
    let (path, generation) = split(argument);
    let mut found = names(Path::new(path))?;
    match found.pop() {
        None => bail!("there is no backup in {path}"),
        Some(only) if found.is_empty() => Ok((Named::open(only, key)?, generation)),
        last => Err(which(path, found.into_iter().chain(last).collect())),
    }
}

#[cfg(test)]
mod tests {
    use disk::{Disk, RealDisk};

    use super::*;

    #[test]
    fn a_name_called_log_is_no_archive_of_a_log() {
        let found = |files: &[&str]| {
            let root = tempfile::tempdir().unwrap();
            for file in files {
                let path = root.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                drop(RealDisk.create(&path).unwrap());
            }
            let names = folders(root.path()).unwrap().into_iter().map(|(name, _)| name);
            let own = root.path().file_name().unwrap().to_string_lossy().into_owned();
            names.map(|name| if name == own { ".".to_owned() } else { name }).collect::<Vec<_>>()
        };
        // The place of one name, with only the archive of a log.
        assert_eq!(found(&["log/writer.lock", "log/000001/timeline.json"]), ["."]);
        assert_eq!(found(&["log/0000000001-0000000016.log", "log/first.note"]), ["."]);
        // A repository with a name that is called log: backups, an archive, nothing yet.
        assert_eq!(found(&["a/000001.blk", "log/000001.blk", "log/newest.note"]), ["a", "log"]);
        assert_eq!(found(&["a/000001.blk", "log/log/000001/timeline.json"]), ["a", "log"]);
        assert_eq!(found(&["a/000001.blk", "log/writer.lock"]), ["a", "log"]);
        // And one that is called like a file of backups.
        assert_eq!(found(&["a/000001.blk", "newest.note/000001.blk"]), ["a", "newest.note"]);
    }
}
