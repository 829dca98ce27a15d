//! The files of the cache and of the sandboxes. Only this file creates, renames and copies them. All of it
//! can be recreated, so nothing here is synced.

#![expect(
    clippy::disallowed_methods,
    reason = "a sandbox is thrown away; the disk crate is for what must last"
)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::At;

/// How many lines of a log an error shows.
const LINES_SHOWN: usize = 20;

/// The size of a copied folder, to notice that somebody deleted or truncated files of the original.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Extent {
    files: u64,
    bytes: u64,
}

/// Takes the lock file `path`, and waits as long as another thread or process holds it. The lock is held
/// until it is dropped, or until its holder dies.
pub(crate) fn lock(path: &Path) -> Result<File, Error> {
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(path).at("cannot open", path)?;
    file.lock().at("cannot lock", path)?;
    Ok(file)
}

/// Creates a folder and its parents; it may exist.
pub(crate) fn create(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).at("cannot create folder", path)
}

/// Creates a folder that other users can't enter: whoever reaches the server's socket is root to the server.
pub(crate) fn create_private(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).at("cannot create folder", path)
}

/// Removes a folder with everything in it; it need not exist.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("cannot remove", path),
        _ => Ok(()),
    }
}

/// Removes a file; it need not exist.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("cannot remove", path),
        _ => Ok(()),
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).at("cannot rename", from)
}

/// Writes a file so that a reader sees either the old content or the new one.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    fs::write(&new, content).at("cannot write", &new)?;
    rename(&new, path)
}

/// Copies a file so that whoever has the old one open keeps it.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<(), Error> {
    let new = to.with_extension("new");
    fs::copy(from, &new).at("cannot copy", from)?;
    rename(&new, to)
}

/// A file to which another process appends its output.
pub(crate) fn log_file(path: &Path) -> Result<File, Error> {
    OpenOptions::new().create(true).append(true).open(path).at("cannot create", path)
}

/// Length of a file in bytes, 0 when there is none.
pub(crate) fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Copies a folder of plain files and folders. The file system shares the blocks if it can.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<Extent, Error> {
    create(to)?;
    walk(from, &mut |file| {
        let target = to.join(file.strip_prefix(from).unwrap_or(file));
        if file.is_dir() {
            return create(&target).map(|()| 0);
        }
        fs::copy(file, &target).at("cannot copy", file)
    })
}

/// Counts the files in a folder and their total bytes.
pub(crate) fn measure(path: &Path) -> Result<Extent, Error> {
    walk(path, &mut |file| Ok(if file.is_dir() { 0 } else { len(file) }))
}

/// Visits every entry, a folder before its contents; `visit` returns the bytes of a file.
fn walk(path: &Path, visit: &mut impl FnMut(&Path) -> Result<u64, Error>) -> Result<Extent, Error> {
    let mut extent = Extent::default();
    for entry in fs::read_dir(path).at("cannot read folder", path)? {
        let entry = entry.at("cannot read folder", path)?.path();
        let bytes = visit(&entry)?;
        if entry.is_dir() {
            let below = walk(&entry, visit)?;
            extent.files += below.files;
            extent.bytes += below.bytes;
        } else {
            extent.files += 1;
            extent.bytes += bytes;
        }
    }
    Ok(extent)
}

/// The lines of a log that explain a failure: from the first error on, else the last ones. What was in the
/// file before `start_byte` belongs to an earlier run.
pub(crate) fn read_log(path: &Path, start_byte: u64) -> String {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(start_byte))?;
        file.read_to_end(&mut text)
    });
    match read {
        Ok(_) => tell(&String::from_utf8_lossy(&text)),
        Err(error) => format!("(cannot read {}: {error})", path.display()),
    }
}

/// See [`read_log`].
pub(crate) fn tell(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines
        .iter()
        .position(|line| line.contains("ERROR"))
        .unwrap_or_else(|| lines.len().saturating_sub(LINES_SHOWN));
    let told: Vec<&str> = lines.into_iter().skip(first).take(LINES_SHOWN).collect();
    if told.is_empty() { "(nothing)".to_owned() } else { told.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::{LINES_SHOWN, tell};

    #[test]
    fn a_log_is_shown_from_its_first_error() {
        let log = format!("[Note] a\n\n[ERROR] unknown option\n{}", "[Note] going down\n".repeat(50));
        let told = tell(&log);
        assert!(told.starts_with("[ERROR] unknown option\n"), "{told}");
        assert_eq!(told.lines().count(), LINES_SHOWN);
    }

    #[test]
    fn a_log_without_error_is_shown_from_its_end() {
        let log: String = (0..100).map(|number| format!("line {number}\n")).collect();
        let told = tell(&log);
        assert!(told.starts_with("line 80\n") && told.ends_with("line 99"), "{told}");
        assert_eq!(tell("\n"), "(nothing)");
    }
}
