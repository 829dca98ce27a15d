//! Files of the model folder, read in a way that never makes a statement wait.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// With this flag opening a pipe does not wait for its other end (`asm-generic/fcntl.h`).
const O_NONBLOCK: i32 = 0o4000;
/// Longest file that is read: models end before 2^24, plus a note of 64 KiB.
const FILE_MAX: u64 = 32 << 20;

/// Tells whether a file or folder has changed: its identity, its length, and the times when its content and
/// its permissions changed. `None` if there is none.
pub(crate) type Stamp = Option<(u64, u64, u64, [i64; 4])>;

/// The stamp of what is at a path now.
pub(crate) fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    Some((found.dev(), found.ino(), found.len(), times))
}

/// The content of a regular file; for anything else it fails at once.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    let mut content = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut content)?;
    Ok(content)
}
