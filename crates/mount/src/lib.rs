//! Generations as a file system: `remora mount`, and servers that are started on a backup without a restore.

mod file_data;
mod fuse;
mod inode_table;
mod overlay;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use failure::usage;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, Rlimit};

pub use file_data::WriteFolder;
pub use inode_table::{InodeTable, Warn};
pub use overlay::VOLUME;

/// Threads that answer the kernel.
const THREADS: usize = 4;

/// Waits until we have ended, and unmounts what is left then: $1 is the name that the mount has, $2 its
/// folder. A line says that nothing is left.
const WATCH: &str = r#"trap '' HUP INT TERM
read -r line && exit 0
grep -q "^$1 " /proc/self/mounts || exit 0
umount -l -- "$2" || fusermount3 -u -z -- "$2""#;

/// A mounted tree. It is unmounted when this is dropped, and also if we are killed.
pub struct Mount {
    session: Option<BackgroundSession>,
    folder: PathBuf,
    ended: Arc<AtomicBool>,
    watch: Option<Child>,
}

impl Mount {
    /// Mounts a tree on an empty folder. `for_all`: also for other users, as the rights of the files allow.
    pub fn new(inodes: &Arc<InodeTable>, folder: &Path, is_writable: bool, for_all: bool) -> Result<Mount> {
        more_files();
        let name = format!("remora-{}", std::process::id());
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(name.clone()),
            MountOption::Subtype("remora".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
            if is_writable { MountOption::RW } else { MountOption::RO },
        ];
        config.acl = if for_all { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(THREADS);
        let (kernel, ended) = fuse::new(Arc::clone(inodes));
        let mut watch = Command::new("sh");
        watch.args(["-c", WATCH, "sh", &name]).arg(folder).process_group(0);
        watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let watch = watch.spawn().context("sh can't be started")?;
        let mut mount = Mount { session: None, folder: folder.to_owned(), ended, watch: Some(watch) };
        let session = fuser::spawn_mount(kernel, folder, &config);
        mount.session = Some(session.map_err(|error| {
            let why = fuse::explain(&error);
            anyhow::Error::new(error)
                .context(format!("nothing can be mounted on {}: {why}", folder.display()))
        })?);
        Ok(mount)
    }

    /// Whether somebody has unmounted it.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            if !self.has_ended() {
                // Even while somebody uses it: nobody finds it from now on, and files that are open fail.
                unmount(&self.folder);
            }
            drop(session);
        }
        if let Some(mut watch) = self.watch.take() {
            watch.stdin.take().and_then(|mut pipe| pipe.write_all(b"\n").ok());
            watch.wait().ok();
        }
    }
}

/// Unmounts a folder. If that is impossible, our end does it.
fn unmount(folder: &Path) {
    if rustix::mount::unmount(folder, UnmountFlags::DETACH).is_err() {
        let mut program = Command::new("fusermount3");
        program.args(["-u", "-z", "--"]).arg(folder).stderr(Stdio::null()).status().ok();
    }
}

/// Lets us open as many files as we may: a repository has a file for each generation.
fn more_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
}

/// Whether this process may mount.
pub fn is_possible() -> bool {
    rustix::process::geteuid().is_root()
        && std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
}

/// Checks a folder to mount on. What a run that was killed together with its watcher has left is unmounted.
/// Returns whether there was any.
pub fn free(folder: &Path) -> Result<bool> {
    let is_dead = |error: &std::io::Error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
    let was_dead = std::fs::read_dir(folder).err().is_some_and(|error| is_dead(&error));
    if was_dead {
        unmount(folder);
    }
    let mut entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            return Err(usage(format!("{}: {error}; mount on an empty folder", folder.display())));
        }
    };
    if entries.next().is_some() {
        return Err(usage(format!("{} is not empty; mount on an empty folder", folder.display())));
    }
    Ok(was_dead)
}
