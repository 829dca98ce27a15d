//! Files of the model folder, read so that nothing in it can hold a statement up.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opening does not wait for the other end of a pipe (`asm-generic/fcntl.h`).
const O_NONBLOCK: i32 = 0o4000;
/// Longest file that is read: models end before 2^24, with a note of 64 KiB.
const FILE_MAX: u64 = 32 << 20;

/// What tells that a file or folder has changed: which it is, its length, the times of its content and of its
/// rights. `None` if there is none.
pub(crate) type Stamp = Option<(u64, u64, u64, [i64; 4])>;

/// The stamp of what a path leads to now.
pub(crate) fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    Some((found.dev(), found.ino(), found.len(), times))
}

/// The content of a regular file; anything else is an error, at once.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    let mut content = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut content)?;
    Ok(content)
}
