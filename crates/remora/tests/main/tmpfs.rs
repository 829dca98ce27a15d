//! Small file systems in memory, for tests that fill a disk.

use std::path::Path;
use std::process::Command;

/// A file system that goes when this is dropped. Only root can make one.
pub(crate) struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    pub(crate) fn new(at: &Path, megabytes: u32) -> Mounted<'_> {
        mount(&["-t", "tmpfs", "-o", &format!("size={megabytes}M"), "none"], at);
        Mounted(at)
    }

    /// Gives it another size.
    pub(crate) fn resize(&self, megabytes: u32) {
        mount(&["-o", &format!("remount,size={megabytes}M")], self.0);
    }
}

fn mount(words: &[&str], at: &Path) {
    assert!(Command::new("mount").args(words).arg(at).status().unwrap().success());
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0).status().unwrap();
    }
}
