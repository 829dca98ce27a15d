//! The files of a generation, restored or mounted, for a server or a program.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use block::restore::{Request, to_new_file};
use block::{RepositoryReader, RunContext, tree};
use disk::{Disk, RealDisk};
use mount::{InodeTable, Mount, Warn, WriteFolder};
use progress::{Progress, Shared};
use repository::Named;

/// How deep in a volume a data folder may be.
pub const DEPTH_MAX: usize = 4;
/// The restored files, in the folder to work in.
pub const TREE: &str = "tree";

/// The restored files.
pub enum Files {
    /// A volume, mounted.
    Mounted(Mounted),
    /// A folder with the files.
    Folder(PathBuf),
    /// Not restored, but read where somebody touches them.
    Lazy(Lazy),
}

impl Files {
    /// The topmost folder.
    pub fn top(&self) -> &Path {
        match self {
            Files::Mounted(mounted) => &mounted.0,
            Files::Folder(folder) => folder,
            Files::Lazy(lazy) => lazy.inside.as_ref().map_or(&lazy.top, |mounted| &mounted.0),
        }
    }
}

/// A generation that is mounted only for us, and can be written to.
pub struct Lazy {
    /// The generation's folder.
    top: PathBuf,
    /// The file system in it, if it is a volume. Unmounted before what it is read from.
    inside: Option<Mounted>,
    /// The mounted tree.
    pub inodes: Arc<InodeTable>,
    _mount: Mount,
}

/// Mounts a generation in a folder of ours, without reading more of it than is touched. Returns its number.
pub fn lazy(named: &Named, generation: Option<u64>, work: &Path, warn: Warn) -> Result<(u64, Files)> {
    let is_tree = named.is_tree(Request::new(generation, 1))?;
    let repository = repository::at(&named.home, named.key.as_ref())?;
    let number = RepositoryReader::open(repository)?.content(generation)?.generation();
    own_mounts()?;
    let folder = work.join("mount");
    RealDisk.create_folder(&folder)?;
    let inodes = InodeTable::new(
        vec![(named.name.clone(), named.home.clone())],
        named.key.clone(),
        Some(WriteFolder::new(work)),
        warn,
    );
    let inodes = Arc::new(inodes);
    let mount = Mount::new(&inodes, &folder, true, false)?;
    let top: PathBuf = inodes.names().map(|name| folder.join(name).join(number.to_string())).collect();
    let begin = || {
        fs::read_dir(&top).with_context(|| format!("generation {number} can't be read"))?;
        Ok(if is_tree { None } else { Some(Mounted::new(work, &top.join(mount::VOLUME))?) })
    };
    let inside = begin().map_err(|error: anyhow::Error| match inodes.is_damaged() {
        // What is wrong with it was reported, and the kernel's word for it says less.
        true => failure::damage(format!("generation {number} can't be read, because it is damaged")),
        false => error,
    })?;
    Ok((number, Files::Lazy(Lazy { top, inside, inodes, _mount: mount })))
}

/// Mounts that only we and our children see from now on, and that end with us.
fn own_mounts() -> Result<()> {
    disk::unshare_mounts().context("mounts of our own")?;
    command("mount", &["--make-rprivate", "/"])?;
    Ok(())
}

/// Restores a generation into a folder of ours: its files, or a volume that is then mounted.
pub fn files(
    named: &Named,
    work: &Path,
    request: Request,
    world: RunContext<'_>,
) -> Result<(block::restore::Summary, Files)> {
    if named.is_tree(request)? {
        let folder = work.join(TREE);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let restored = tree::restore(
            &named.repository,
            tree::NewFolder { disk: &disk, tree: &RealDisk, path: &folder },
            request,
            world,
        )?;
        return Ok((restored, Files::Folder(folder)));
    }
    // Before what may take hours.
    ensure!(rustix::process::geteuid().is_root(), "to mount a volume takes root; try with sudo");
    let image = work.join("image");
    let restored = to_new_file(&named.repository, &RealDisk, &image, request, world)?;
    Ok((restored, Files::Mounted(Mounted::new(work, &image)?)))
}

/// Where and how files are restored.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The folder to work in.
    pub folder: &'a Path,
    /// Threads that restore.
    pub jobs: usize,
    /// Whether files may be read only where somebody touches them.
    pub is_lazy: bool,
}

/// The files of the generation: mounted, or restored if nothing can be mounted here.
pub fn readable(
    named: &Named,
    generation: Option<u64>,
    work: &Work<'_>,
    stop: &AtomicBool,
    report: &Shared,
) -> Result<(u64, Files)> {
    if work.is_lazy && mount::is_possible() {
        let warn = report.clone();
        return lazy(named, generation, work.folder, Box::new(move |what| warn.warn(what)));
    }
    report.note(if work.is_lazy {
        "without root and /dev/fuse nothing can be mounted, so all of it is restored first"
    } else {
        "it has tables with DATA DIRECTORY, which a replay may alter, so all of it is restored first"
    });
    let world = RunContext { stop, progress: report };
    let (restored, files) = files(named, work.folder, Request::new(generation, work.jobs), world)?;
    Ok((restored.generation, files))
}

/// Copies the data folder out of a volume, as the restored files of a tree would be: what is not in it is not
/// read.
pub fn out_of_volume(
    named: &Named,
    generation: u64,
    work: &Work<'_>,
    stop: &AtomicBool,
    report: &Shared,
) -> Result<()> {
    let (_, files) = readable(named, Some(generation), work, stop, report)?;
    let data = data_folder(files.top(), DEPTH_MAX)
        .with_context(|| format!("there is no ibdata1 in the volume {}@{generation}", named.name))?;
    report.phase("copying the data folder out of the volume", None);
    let (from, to) = (data.display().to_string(), work.folder.join(TREE).display().to_string());
    let copied = command("cp", &["-a", "--sparse=always", &from, &to]).map(drop);
    match &files {
        // The file system in it may have hidden the error.
        Files::Lazy(lazy) if lazy.inodes.is_damaged() => {
            let text =
                format!("what is needed of {}@{generation} is damaged; nothing is restored", named.name);
            Err(failure::damage(&text))
        }
        _ => copied,
    }
}

/// A volume that is mounted only for us: nobody else sees it, and it is unmounted however we end.
pub struct Mounted(PathBuf);

impl Mounted {
    fn new(work: &Path, image: &Path) -> Result<Mounted> {
        own_mounts()?;
        let folder = work.join("volume");
        RealDisk.create_folder(&folder)?;
        // Its name is removed at once: the mount keeps the file open.
        let file =
            fs::OpenOptions::new().read(true).write(true).open(image).context("the restored volume")?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let ran = Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE", &path]).output();
        let ran = ran.context("blkid can't be started")?;
        let kind = String::from_utf8_lossy(&ran.stdout).into_owned();
        ensure!(ran.status.success(), "there is no file system in the volume that blkid knows");
        let options = match kind.trim() {
            // The original may be mounted too.
            "xfs" => "loop,nouuid",
            _ => "loop",
        };
        command("mount", &["-t", kind.trim(), "-o", options, &path, &folder.display().to_string()])?;
        RealDisk.remove(image)?;
        Ok(Mounted(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // If this fails, the mount ends with this process.
        command("umount", &[&self.0.display().to_string()]).ok();
    }
}

fn command(program: &str, arguments: &[&str]) -> Result<String> {
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let ran = ran.with_context(|| format!("{program} can't be started"))?;
    let errors = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{program} {}: {}", arguments.join(" "), errors.trim());
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// The first folder with InnoDB's system tablespace, topmost first.
pub(crate) fn data_folder(root: &Path, depth: usize) -> Option<PathBuf> {
    let mut level = vec![root.to_owned()];
    for _ in 0..=depth {
        if let Some(data) = level.iter().find(|folder| folder.join("ibdata1").is_file()) {
            return Some(data.clone());
        }
        let below = level.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        level = folders.map(|entry| entry.path()).collect();
        level.sort();
    }
    None
}
