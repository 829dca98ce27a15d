//! Some tables of a generation, or at a recovery target, as a dump: a private server is started on the
//! generation where it is, so only what it touches is fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use codec::Codec;
use disk::{Disk, Guard, RealDisk, Share};
use dump::{
    Conditions, Definer, DumpRequest, DumpSummary, Format, Limits, ParquetRequest, Pattern, ReadRequest,
    Selection,
};
use failure::Failure;
use humanize::text;
use instance::binary_log::BinaryLog;
use instance::requirements::Requirements;
use instance::{Files, Wanted};
use progress::{Progress, Shared, WithoutNotes};
use sandbox::ServerChoice;

use crate::{Folders, Reached, Recovery, ReplayRequest};

/// How long to wait for a lock that only our own sessions can hold.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// What DATA DIRECTORY of a table says is a folder of the copy, which no other server has.
const WITHOUT_FOLDERS: &str = "--sql-mode=NO_DIR_IN_CREATE";

/// The dump in the folder to work in.
pub const DUMP: &str = "dump";

/// A folder beside the target, for this target alone. Leftovers of a killed run are removed.
pub struct Work {
    /// The folder.
    pub folder: PathBuf,
    _alone: Box<dyn Guard>,
}

impl Work {
    /// The folder for a target.
    ///
    /// # Errors
    /// If another run has it, or it can't be made.
    pub fn new(target: &Path) -> Result<Work> {
        let name = target.file_name().with_context(|| format!("{} has no name", target.display()))?;
        let mut own = std::ffi::OsString::from(".");
        own.push(name);
        own.push(".remora");
        let folder = target.with_file_name(own);
        RealDisk.make_folder(&folder).with_context(|| text::path(&folder))?;
        let lock = folder.join("lock");
        let alone = RealDisk.lock(&lock, Share::Exclusive)?;
        let busy = || Failure::Busy(format!("another run is making {}", target.display()));
        let alone = alone.ok_or_else(busy).map_err(anyhow::Error::new)?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(&path).with_context(|| text::path(&path))?;
            } else if path != lock {
                RealDisk.remove(&path)?;
            }
        }
        Ok(Work { folder, _alone: alone })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// What was dumped.
pub struct Dumped {
    /// What was written.
    pub summary: DumpSummary,
    /// How many transactions are in XA PREPARE.
    pub prepared: usize,
    /// The replay to the recovery target.
    pub reached: Option<Reached>,
}

/// The files of the generation, and the server for them.
pub struct Opened<'a> {
    /// The files.
    pub files: &'a Files,
    /// A folder to work in.
    pub work: &'a Path,
    /// What the server needs.
    pub needs: &'a Requirements,
    /// Options for the server.
    pub options: Vec<String>,
    /// Which server; none: the one that the data call for.
    pub server: Option<&'a ServerChoice>,
    /// The tables.
    pub tables: Vec<Pattern>,
    /// Sessions that dump.
    pub sessions: usize,
}

/// Replays the log up to the recovery target, starts a server on the files, and dumps from it.
///
/// # Errors
/// If the log can't be replayed, no server runs on the files, or they can't be dumped.
pub fn dump(
    opened: Opened<'_>,
    recovery: Option<Recovery<'_>>,
    stop: &Arc<AtomicBool>,
    report: &Shared,
) -> Result<Dumped> {
    let Opened { files, work, needs, options, server, tables, sessions } = opened;
    let options: Vec<String> = instance::FRUGAL.map(str::to_owned).into_iter().chain(options).collect();
    let wanted = Wanted { data_folder: None, server, options: &options, work: None, needs, account: None };
    let selection = Selection { include: tables, exclude: Vec::new(), no_accounts: true };
    let data = instance::data(files, wanted)?;
    report.phase("recovering", None);
    instance::refuse_outside(&data)?;
    let folders = Folders { data: &data, work };
    let request = ReplayRequest { wanted, only: &selection };
    let replay = |recovery: Recovery<'_>| recovery.replay(folders, request, stop, report);
    let reached = recovery.map(replay).transpose()?.map(|(reached, _)| reached);
    let log = BinaryLog::find(&data, needs.log())?;
    let options: Vec<String> =
        [WITHOUT_FOLDERS.to_owned()].into_iter().chain(options.iter().cloned()).collect();
    let server = instance::start(&data, log.as_ref(), Wanted { options: &options, ..wanted })?;
    instance::settle(&server, stop)?;
    let prepared = server::prepared_xa(&mut instance::connect(&server)?)?.len();
    let world = ::dump::Context {
        disk: Arc::new(RealDisk),
        server: Arc::new(RealDisk),
        stop: Arc::clone(stop),
        // Notes about the private server say nothing about the server that was backed up.
        progress: Arc::new(WithoutNotes(Arc::clone(report))),
    };
    let request = DumpRequest {
        read: ReadRequest {
            selection,
            sessions,
            masks: ::dump::Masks::default(),
            conditions: Conditions::default(),
            data: true,
            history: true,
            chunk_bytes: None,
            limits: Limits { bytes_per_second: None, threads_running: None },
            lock_wait: LOCK_WAIT,
            block_ddl: false,
            kill_long_queries: false,
        },
        folder: work.join(DUMP),
        format: Format::Tsv,
        codec: (Codec::Zstd, 1),
        parquet: ParquetRequest::default(),
        resume: false,
        definer: Definer::default(),
    };
    let summary = ::dump::dump(&world, &instance::target(&server)?, &request)?;
    Ok(Dumped { summary, prepared, reached })
}
