//! A file system in memory for the tests' files.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::setup;

/// Names the folder for files that tests make.
pub(super) const SCRATCH: &str = "TMPDIR";

/// The name of the file system in memory, before the id of its run. Then where it is, which is short because
/// servers cut messages with paths. Then its size, which must be free: several times as much as the tests
/// were seen to take.
const MEMORY: &str = "remora-tests-";
pub(super) const PLACE: &str = "/tmp/rt";
const MEMORY_KIB: u64 = 12 << 20;

/// A file system in memory. It is gone when this is dropped, with everything on it.
pub(super) struct Memory;

impl Memory {
    /// For the tests' files, if this is root, enough memory is free, and the user names no folder. Servers
    /// sync at each commit, and on a slow disk the tests would wait for that most of their time. Not
    /// /dev/shm: a MariaDB that finds its redo log there takes it for persistent memory, and writes it in
    /// another way.
    pub(super) fn mount() -> Result<Option<Memory>> {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let free =
            memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
        let free: u64 = free.and_then(|kib| kib.parse().ok()).unwrap_or_default();
        if free < MEMORY_KIB || !setup::is_root() || std::env::var_os(SCRATCH).is_some() {
            return Ok(None);
        }
        // What a run that was killed has left; or another run is there.
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        for owner in mounts.lines().filter_map(|line| line.strip_prefix(MEMORY)?.split(' ').next()) {
            if Path::new("/proc").join(owner).is_dir() {
                return Ok(None);
            }
            drop(Memory);
        }
        std::fs::create_dir_all(PLACE)?;
        let (size, name) = (format!("size={MEMORY_KIB}k"), format!("{MEMORY}{}", std::process::id()));
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, &name, PLACE]).output()?;
        if mounted.status.success() {
            return Ok(Some(Memory));
        }
        // A container may not allow it.
        std::fs::remove_dir(PLACE)?;
        Ok(None)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        drop(Command::new("umount").args(["-l", PLACE]).status());
        drop(std::fs::remove_dir(PLACE));
    }
}
