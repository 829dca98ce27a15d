//! All data at a recovery target, as a new folder.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use block::RunContext;
use block::restore::Request;
use disk::{Disk, RealDisk};
use dump::Selection;
use humanize::text;
use instance::requirements::Requirements;
use instance::{Files, Wanted};
use progress::{Progress, Shared};
use repository::Named;
use sandbox::ServerChoice;

use crate::{Folders, Reached, Recovery, ReplayRequest};

/// Where the data go, and which server replays.
#[derive(Clone, Copy)]
pub struct WholeRequest<'a> {
    /// The new folder.
    pub target: &'a Path,
    /// Which server; none: the one that the data call for.
    pub server: Option<&'a ServerChoice>,
    /// Further options for it.
    pub server_options: &'a [String],
    /// Threads that restore.
    pub jobs: usize,
}

/// Restores all data. The folder gets its name when everything is proven. Returns the replay, and how many
/// tables there are.
///
/// # Errors
/// If it can't be restored, replayed or named. Then the folder is not there.
pub fn restore(
    named: &Named,
    recovery: Recovery<'_>,
    request: &WholeRequest<'_>,
    stop: &AtomicBool,
    report: &Shared,
) -> Result<(Reached, usize)> {
    let WholeRequest { target, server, server_options, jobs } = *request;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let work = parent.unwrap_or(Path::new("."));
    let needs = Requirements::of(&named.repository, Some(recovery.generation))?;
    let options = needs.options(server_options)?;
    let wanted = Wanted {
        data_folder: None,
        server,
        options: &options,
        work: Some(work),
        needs: &needs,
        account: None,
    };
    let work = wanted.work_folder()?;
    let tree = work.path().join(instance::TREE);
    let request = Request::new(Some(recovery.generation), jobs);
    if named.is_tree(request)? {
        instance::files(named, work.path(), request, RunContext { stop, progress: &**report })?;
    } else {
        let to = instance::Work { folder: work.path(), jobs, is_lazy: true };
        instance::out_of_volume(named, recovery.generation, &to, stop, report)?;
    }
    let data = instance::data(&Files::Folder(tree.clone()), wanted)?;
    report.phase("recovering", None);
    instance::refuse_outside(&data)?;
    let folders = Folders { data: &data, work: work.path() };
    let request = ReplayRequest { wanted, only: &Selection::default() };
    let replayed = recovery.replay(folders, request, stop, report)?;
    finish(&tree, &data, target)?;
    Ok(replayed)
}

/// Gives the data to their owner, and the folder its name.
fn finish(tree: &Path, data: &Path, target: &Path) -> Result<()> {
    let owner = fs::metadata(data.join("ibdata1"))?;
    if rustix::process::geteuid().is_root() {
        own(data, (owner.uid(), owner.gid()))?;
    }
    if let Some(batch) = RealDisk.batch(tree)? {
        batch.sync()?;
    }
    RealDisk.rename(tree, target).with_context(|| text::path(target))?;
    Ok(())
}

/// Gives the files in a folder to a user: the private server made them as our user.
fn own(folder: &Path, (uid, gid): (u32, u32)) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let now = entry.metadata()?;
        if now.is_dir() {
            own(&entry.path(), (uid, gid))?;
        }
        if (now.uid(), now.gid()) != (uid, gid) {
            lchown(entry.path(), Some(uid), Some(gid))?;
        }
    }
    Ok(())
}
