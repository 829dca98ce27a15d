//! `remora verify --boot`: starts a server on a backup.

mod binary_log;

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use std::{fs, iter};

use anyhow::{Context, Result, bail, ensure};
use block::restore::{Request, to_new_file};
use block::{World, tree};
use disk::{Disk, RealDisk};
use progress::{Progress, count};
use sandbox::{Family, Product, Sandbox, Settings};
use serde_json::json;
use server::{Overrides, Session, Target};

use self::binary_log::{BinaryLog, Position};
use super::Arguments;
use crate::commands::sandbox::places;
use crate::exit::Exit;
use crate::report::Report;
use crate::repository::Named;
use crate::sound::{self, Checked};
use crate::{commands, repository};

/// How deep in a volume a data folder may be.
const DEPTH_MAX: usize = 4;
/// Offset of the flags of InnoDB's system tablespace in its first page: FIL_PAGE_DATA (38) and
/// FSP_SPACE_FLAGS (16).
const FLAGS_AT: u64 = 54;

pub(super) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    let text = arguments.repository.to_string_lossy();
    let (named, generation) = repository::one(&text)?;
    let stop = commands::stop_flag(report)?;
    let work = match &arguments.work {
        Some(folder) => tempfile::Builder::new().prefix("remora-boot-").tempdir_in(folder),
        None => tempfile::Builder::new().prefix("remora-boot-").tempdir(),
    };
    let work = work.context("a folder to work in")?;
    let request = Request::new(generation, arguments.jobs.unwrap_or_else(commands::cores));
    let world = World { stop: &stop, progress: report };
    let (restored, files) = files(&named, work.path(), request, world)?;
    let data = match &arguments.data_folder {
        Some(path) => files.top().join(path.strip_prefix("/").unwrap_or(path)),
        None => data_folder(files.top(), DEPTH_MAX)
            .context("there is no ibdata1 in the volume; --data-folder says where the data folder is")?,
    };
    report.phase("recovering", None);
    refuse_outside(&data)?;
    let log = BinaryLog::find(&data)?;
    let mut found = Found { seconds_to_recovery: None, position: None, checked: Checked::default() };
    match start(&data, log.as_ref(), arguments) {
        Ok(server) => {
            found.seconds_to_recovery = Some(began.elapsed().as_secs_f64());
            found.look(&server, log.as_ref(), (&stop, report))?;
        }
        Err(error) => found.checked.damages = why_not(error)?,
    }
    report.end();
    drop(files);
    let Found { seconds_to_recovery: recovered_s, position, checked: Checked { tables, damages, .. } } =
        found;
    for damage in &damages {
        if report.is_json() {
            report.message(&json!({"message_type": "damage", "name": named.name, "what": damage}))?;
        } else {
            report.data(damage)?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    if report.is_json() {
        let (file, offset) = position.clone().unzip();
        report.message(&json!({
            "message_type": "summary", "name": named.name, "generation": restored.generation, "tables": tables,
            "damages": damages.len(), "binlog_file": file, "binlog_offset": offset,
            "seconds_to_recovery": recovered_s, "seconds": seconds,
        }))?;
    } else {
        let place = position
            .map_or_else(String::new, |(file, offset)| format!("; binary log position {file} {offset}"));
        let sound = if damages.is_empty() { "all sound".to_owned() } else { count(damages.len(), "problem") };
        let what = format!("{}@{}", named.name, restored.generation);
        report.note(&match recovered_s {
            Some(recovered_s) => format!(
                "{what} has been booted: restored and recovered in {recovered_s:.1} s, {} checked, {sound}{place}",
                count(tables, "table")
            ),
            None => format!("{what} could not be booted: {sound}"),
        });
    }
    Ok(if damages.is_empty() { Exit::Done } else { Exit::Damaged })
}

/// What a server that was started on a generation has found.
struct Found {
    /// Counted from the first restored byte; none when the server did not start.
    seconds_to_recovery: Option<f64>,
    position: Option<Position>,
    checked: Checked,
}

impl Found {
    fn look(
        &mut self,
        server: &Sandbox,
        log: Option<&BinaryLog>,
        (stop, report): (&AtomicBool, &Report),
    ) -> Result<()> {
        let mut session = connect(server)?;
        let innodb = binary_log::innodb_position(&server.error_log())?;
        self.position = match log {
            Some(log) => Some(log.position(&mut session, innodb)?),
            None => innodb,
        };
        let tables = sound::tables(&mut session, false)?;
        self.checked = sound::check(&mut session, &tables, None, stop, report)?;
        let said = fs::read(server.error_log()).with_context(|| server.error_log().display().to_string())?;
        self.checked.damages.extend(sound::errors(&String::from_utf8_lossy(&said)));
        Ok(())
    }
}

/// What is wrong with data on which no server starts, if the server says so; else the error.
fn why_not(error: anyhow::Error) -> Result<Vec<String>> {
    let said = match error.downcast_ref() {
        Some(sandbox::Error::Start { log, .. }) => sound::errors(log),
        _ => Vec::new(),
    };
    if said.is_empty() {
        return Err(error);
    }
    Ok(iter::once(sound::NO_START.to_owned()).chain(said).collect())
}

/// The restored files.
enum Files {
    Mounted(Mounted),
    Folder(PathBuf),
}

impl Files {
    fn top(&self) -> &Path {
        match self {
            Files::Mounted(mounted) => &mounted.0,
            Files::Folder(folder) => folder,
        }
    }
}

/// Restores a generation into a folder of ours: its files, or a volume that is then mounted.
fn files(
    named: &Named,
    work: &Path,
    request: Request,
    world: World<'_>,
) -> Result<(block::restore::Summary, Files)> {
    if named.is_tree(request)? {
        let folder = work.join("tree");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let restored = tree::restore(&named.repository, (&disk, &RealDisk), &folder, request, world)?;
        return Ok((restored, Files::Folder(folder)));
    }
    let image = work.join("image");
    let restored = to_new_file(&named.repository, &RealDisk, &image, request, world)?;
    Ok((restored, Files::Mounted(Mounted::new(work, &image)?)))
}

/// A volume that is mounted only for us: nobody else sees it, and it is unmounted however we end.
struct Mounted(PathBuf);

impl Mounted {
    fn new(work: &Path, image: &Path) -> Result<Mounted> {
        ensure!(rustix::process::geteuid().is_root(), "to mount a volume takes root; try with sudo");
        disk::leave_mounts().context("mounts of our own")?;
        command("mount", &["--make-rprivate", "/"])?;
        let folder = work.join("volume");
        RealDisk.create_folder(&folder)?;
        // Its name is removed at once: the mount keeps the file open.
        let file =
            fs::OpenOptions::new().read(true).write(true).open(image).context("the restored volume")?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let kind = command("blkid", &["-p", "-o", "value", "-s", "TYPE", &path])
            .context("what is in the volume is no file system that is known here")?;
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
fn data_folder(root: &Path, depth: usize) -> Option<PathBuf> {
    let mut level = vec![root.to_owned()];
    for _ in 0..=depth {
        if let Some(found) = level.iter().find(|folder| folder.join("ibdata1").is_file()) {
            return Some(found.clone());
        }
        let below = level.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        level = folders.map(|entry| entry.path()).collect();
        level.sort();
    }
    None
}

/// Refuses links out of the data folder: a server follows them, and the original server may be using what is
/// there.
fn refuse_outside(data: &Path) -> Result<()> {
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_symlink() || path.extension().is_some_and(|end| end == "isl") {
                bail!(
                    "{} leads out of the volume: a server would work on what it finds there; restore the volume and \
                     what belongs to it to another machine and start it there",
                    path.display()
                );
            }
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// Starts a server that fits the data and that nobody else can reach.
fn start(data: &Path, log: Option<&BinaryLog>, arguments: &Arguments) -> Result<Sandbox> {
    let places = places()?;
    let product = arguments.server.map_or_else(|| product(data), Ok)?;
    let installation = sandbox::find(&places, product)?;
    let mut fitting = vec![
        "--skip-grant-tables".to_owned(),
        "--skip-slave-start".to_owned(),
        "--event-scheduler=OFF".to_owned(),
        format!("--innodb-page-size={}", page_size(data)?),
    ];
    if let Ok(log) = fs::metadata(data.join("ib_logfile0")) {
        fitting.push(format!("--innodb-log-file-size={}", log.len()));
    }
    // The binary log tells whether a prepared transaction was committed.
    match log {
        Some(log) => fitting.extend([format!("--log-bin={}", log.name), "--server-id=1".to_owned()]),
        None => fitting.push("--skip-log-bin".to_owned()),
    }
    fitting.extend(arguments.server_option.iter().cloned());
    let settings = Settings { data: Some(data.to_owned()), options: fitting, ..Settings::default() };
    Ok(Sandbox::start(&installation, &places, &settings)?)
}

/// The server for which the data were last upgraded.
fn product(data: &Path) -> Result<Product> {
    let notes = ["mariadb_upgrade_info", "mysql_upgrade_info"];
    let note = notes.iter().find_map(|name| fs::read_to_string(data.join(name)).ok()).unwrap_or_default();
    let version = note.trim_end_matches(['\n', '\0']);
    if data.join("mysql.ibd").exists() {
        bail!("the data are of MySQL 8 or later, and there is no such server here");
    }
    let number = |part: &str| part.parse::<u16>().unwrap_or(0);
    let mut parts = version.split('.');
    let series = (parts.next().map_or(0, number), parts.next().map_or(0, number));
    let family = match series {
        (5, _) if !version.contains("MariaDB") => Family::MySql,
        _ => Family::MariaDb,
    };
    Product::for_data(family, series).with_context(|| {
        format!("the data are of {family} {version}, and there is no server here that takes them; --server chooses one")
    })
}

/// InnoDB's page size in bytes, from the flags of its system tablespace (fsp0types.h, MariaDB's full_crc32
/// flags).
fn page_size(data: &Path) -> Result<u32> {
    let path = data.join("ibdata1");
    let mut flags = [0; 4];
    let count = RealDisk.open(&path)?.read_full_at(FLAGS_AT, &mut flags)?;
    ensure!(count == 4, "{} is cut off", path.display());
    let flags = u32::from_be_bytes(flags);
    let size = if flags & 1 << 4 == 0 { flags >> 6 & 15 } else { flags & 15 };
    Ok(if size == 0 { 16 << 10 } else { 512 << size })
}

fn connect(server: &Sandbox) -> Result<Session> {
    let overrides = Overrides {
        socket: Some(server.socket().to_owned()),
        user: Some("root".to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    Ok(Target::resolve(&overrides, &server::Environment::default())?.connect()?)
}
