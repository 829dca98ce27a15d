//! `remora restore`

mod part;
mod tables;
mod until;

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use block::restore::{Request, Summary, in_place, to_new_file};
use block::{RunContext, tree};
use clap::Args;
use disk::Disk;
use failure::Failure;
use host::{Call, Machine};
use humanize::text;
use instance::requirements::{KEY_PLUGIN, Requirements};
use pitr::must_replay_all;
use progress::{Progress, count};
use repository::Named;
use serde_json::{Value, json};
use snapshot::{Place, identity};

use crate::chosen::Chosen;
use crate::commands;
use crate::exit::Exit;
use crate::keys::KeyArguments;
use crate::loss;
use crate::report::{self, Report};

const EXAMPLES: &str = "EXAMPLES
  remora restore /backup/disk.img --to /vm/new.img           the newest generation into a new file
  remora restore /backup/disk.img@12 --to /vm/new.img        generation 12
  remora restore /backup/data --to /dev/vg/data --delta      write only the blocks that differ
  remora restore /backup/data --to /data --keep-going        what is proven good of a damaged backup
  remora restore /backup/data --to ssh://root@db2/dev/vg/data --overwrite
  remora restore /backup/data@12 --path etc/my.cnf 'app/*.ibd' --to /tmp/some     only these files
  remora restore /backup/db1@12 --tables 'app.orders' --to /tmp/orders && remora load /tmp/orders
  remora restore /backup/db1 --tables app.orders --to /tmp/orders --before 0-1-90113     as it was just before that
  remora restore /backup/db1 --to /data --until end          a server's data with every archived commit
  remora restore /backup/db1 --to /data --until '2026-11-22 19:05'
  remora restore /backup/db1 --to /data --before-statement 'DELETE FROM orders'
  remora restore /backup/db1 --until 0-1-90113 --plan        only say what would be done";

/// Restore a backup: all of it, some tables or files, or a server as at a point in time
///
/// Each block is checked by its hash before it is written, and all of them together by the hash of the
/// volume. A new file gets its name only when it is complete. What already exists is overwritten only if you
/// ask for it.
///
/// With --until, --before or --before-statement a server's data, or some tables, come back as they were at
/// any point in time: a private server replays the log that 'remora binlog' archived beside the backups.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The backup: REPO/NAME, or REPO if it holds only one name; @N for generation N [default: the newest].
    /// REPO is a folder or s3://BUCKET/PREFIX
    #[arg(value_name = "REPO[@GENERATION]")]
    from: String,

    /// A file or a block device, or a new folder for a tree of files, here or at ssh://user@host/PATH; file:
    /// or block: may come first, as for backup. --plan needs none
    #[arg(long, value_name = "PATH", value_parser = target, required_unless_present = "plan")]
    to: Option<Place>,

    /// Write into an existing target, all of it
    #[arg(long, conflicts_with = "delta")]
    overwrite: bool,

    /// Write into an existing target, but only the blocks that differ
    #[arg(long)]
    delta: bool,

    /// Only these files and folders, into a new folder: paths from the top, or patterns such as 'app/*.ibd'.
    /// Nothing else is fetched
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["overwrite", "delta", "keep_going"])]
    path: Vec<Chosen>,

    /// Only these tables of a server's data, as a dump that 'remora load' takes: db.table, a whole db, with *
    /// and ?, or /regex/. A private server reads them; only what it touches is fetched
    #[arg(long, value_name = "NAME", num_args = 1..,
        conflicts_with_all = ["overwrite", "delta", "keep_going", "path"])]
    tables: Vec<dump::Pattern>,

    /// If the backup is damaged, bring back everything that is proven good, name the rest, and exit with 4
    #[arg(long)]
    keep_going: bool,

    /// An option for ssh, as after its -o, such as ProxyJump=bastion
    #[arg(long, value_name = "OPTION")]
    ssh_option: Vec<String>,

    /// Threads that decompress and write [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,

    #[command(flatten)]
    key: KeyArguments,

    #[command(flatten)]
    until: until::TargetOptions,
}

impl Arguments {
    /// Where to restore to.
    fn target(&self) -> Result<&Place> {
        self.to.as_ref().ok_or_else(|| failure::usage("--to PATH is missing: only --plan needs none"))
    }
}

fn target(text: &str) -> Result<Place, String> {
    ["file:", "block:"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text).parse()
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    let has_tables = !arguments.tables.is_empty();
    let recovery_target = arguments.until.recovery_target();
    match recovery_target {
        None => arguments.until.refuse_without_target(has_tables)?,
        Some(_) => must_replay_all(&arguments.until.server_option)?,
    }
    if has_tables {
        return tables::run(recovery_target.as_ref(), arguments, report);
    }
    if let Some(target) = recovery_target {
        return until::run(&target, arguments, report);
    }
    if !arguments.path.is_empty() {
        return part::run(arguments, report);
    }
    let (named, generation) = repository::one(&arguments.from, arguments.key.read_full()?.as_ref())?;
    if generation.is_none() {
        identity::warn_of_mixed(&named.name, &named.repository.list()?.generations, report);
    }
    let stop = commands::stop_flag(report)?;
    let world = RunContext { stop: &stop, progress: report };
    let jobs = arguments.jobs.unwrap_or_else(commands::cores);
    let (delta, keep_going) = (arguments.delta, arguments.keep_going);
    let request = Request { generation, delta, keep_going, jobs };
    let place = arguments.target()?;
    let target = place.to_string();
    let machine =
        Machine::reach(place.host.as_ref(), &Call { options: &arguments.ssh_option, ..Call::default() })?;
    let (disk, path) = (machine.disk(), place.path.as_path());
    let there = !matches!(disk.stat(path), Err(error) if error.kind() == ErrorKind::NotFound);
    let restored = if named.is_tree(request)? {
        if there {
            return Err(failure::usage(format!(
                "{target} exists already, and a tree of files needs a new folder, such as {target}/restored"
            )));
        }
        tree::restore(
            &named.repository,
            tree::NewFolder { disk: &disk, tree: &*machine.tree(), path },
            request,
            world,
        )
    } else if there && disk.list(path).is_ok() {
        return Err(failure::usage(format!("{target} is a folder; a volume needs a file or a block device")));
    } else if !there {
        to_new_file(&named.repository, &*disk, path, request, world)
    } else if arguments.overwrite || arguments.delta {
        refuse_mounted(&machine, path)?;
        refuse_open(&*disk, path)?;
        let volume = disk.volume(path).map_err(|error| busy(error, &target))?;
        in_place(&named.repository, &*volume, &target, request, world)
    } else {
        return Err(failure::usage(format!(
            "{target} exists already; --delta writes only the blocks that differ, --overwrite writes all"
        )));
    };
    report.end();
    let restored = restored.map_err(|error| advise(error, keep_going))?;
    tell_losses(&restored, report)?;
    tell(&named.name, &restored, &target, began.elapsed().as_secs_f64(), report)?;
    tell_of_copy(&named, restored.generation, report);
    Ok(match (restored.is_verified, restored.altered.is_empty()) {
        (false, _) => Exit::Damaged,
        (true, false) => Exit::Partial,
        (true, true) => Exit::Done,
    })
}

/// What to do about damage.
fn advise(error: block::Error, keep_going: bool) -> anyhow::Error {
    let damaged = matches!(error, block::Error::Corrupt { .. }) && !keep_going;
    let error = anyhow::Error::new(error);
    if damaged {
        error.context("the backup is damaged; --keep-going brings back what is proven good")
    } else {
        error
    }
}

/// Lists what could not be restored.
fn tell_losses(restored: &Summary, report: &Report) -> Result<()> {
    for damage in &restored.damages {
        report.warn(damage);
    }
    for loss in &restored.losses {
        let Range { start, end } = loss.bytes;
        if report.is_json() {
            let path = loss.path.as_ref().map(|path| path.display().to_string());
            report.message(&json!({"message_type": "loss", "path": path, "from": start, "to": end}))?;
        } else {
            report.data(&format!("lost: {}", loss::shown(loss)))?;
        }
    }
    for (path, what) in &restored.altered {
        report.warn(&format!("{}: {what}", text::path(path)));
    }
    if !restored.is_verified && restored.losses.is_empty() {
        report
            .warn("no block is known to be lost, but it is not proven that the whole is what was backed up");
    }
    Ok(())
}

/// Says what the first server on a copy of a running one must do.
fn tell_of_copy(named: &Named, generation: u64, report: &Report) {
    // The restore is done, whatever else is wrong with the repository.
    let Ok(all) = named.repository.list() else { return };
    let Some(found) = all.generations.iter().find(|found| found.number == generation) else { return };
    let note: Value = serde_json::from_str(&found.note).unwrap_or_default();
    let Some(size) = note.pointer("/log/size").and_then(Value::as_u64) else { return };
    let size = size >> 20;
    report.note(&format!(
        "it was copied while the server ran: a server that starts on it recovers it first; for that, give it \
         --innodb-log-file-size={size}M or more"
    ));
    if let Some(folder) = note.pointer("/log/folder").and_then(Value::as_str) {
        report.note(&format!(
            "its redo log, which was in {folder}, is in the data folder now: start it without \
             innodb_log_group_home_dir, or move ib_logfile0 there first"
        ));
    }
    tell_of_needs(&note, &Requirements::noted(&found.note), report);
    match found.booted {
        Some(true) => {}
        Some(false) => report.warn("a server that was started on this generation found it NOT SOUND"),
        None => report.note("no server has recovered this generation yet: 'remora verify --boot' tries it"),
    }
}

/// Says with which options a server starts on it, and where the files are that were outside of the data
/// folder.
fn tell_of_needs(note: &Value, needs: &Requirements, report: &Report) {
    if let Some(keys) = needs.keys() {
        report.note(&format!(
            "its tablespaces are encrypted: start it with --plugin-load-add={KEY_PLUGIN} and the keys that were in {}, which are \
             not in the backup",
            keys.file
        ));
    }
    if let Some(files) = needs.system() {
        report.note(&format!("start it with --innodb-data-file-path='{files}'"));
    }
    let folders = note.pointer("/outside/folders").and_then(Value::as_array);
    let Some(folders) = folders else { return };
    let folders: Vec<&str> = folders.iter().filter_map(Value::as_str).collect();
    report.note(&format!(
        "what was outside of its data folder, in {}, is in it now: start it without innodb_data_home_dir, \
         innodb_undo_directory and aria_log_dir_path",
        folders.join(", ")
    ));
    let tables = note.pointer("/outside/tables").and_then(Value::as_u64).unwrap_or(0);
    if tables > 0 {
        report.note(&format!(
            "{} of tables with DATA DIRECTORY: what was in /x is in .x, where the .isl files lead, and the server refuses to alter \
             such a table there. SET sql_mode='NO_DIR_IN_CREATE' and ALTER TABLE ... FORCE, ALGORITHM=COPY move one to the other tables. To \
             put the tables back where they were, start a server on the folder once and stop it, move the files, and replace the first \
             dot in each .isl file by /",
            count(tables, "file")
        ));
    }
}

fn tell(name: &str, restored: &Summary, target: &str, seconds: f64, report: &Report) -> Result<()> {
    let lost: u64 = restored.losses.iter().map(|loss| loss.bytes.end - loss.bytes.start).sum();
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "name": name, "generation": restored.generation, "target": target,
            "bytes": restored.len, "bytes_written": restored.written, "bytes_lost": lost,
            "proven": restored.is_verified, "seconds": seconds,
        }))?;
        return Ok(());
    }
    let lost = if lost > 0 { format!(", {} of it lost", report::size(lost)) } else { String::new() };
    report.note(&format!(
        "{name}@{} restored to {target}: {}, {} of it written{lost}, {seconds:.1} s",
        restored.generation,
        report::size(restored.len),
        report::size(restored.written),
    ));
    Ok(())
}

fn busy(error: std::io::Error, target: &str) -> anyhow::Error {
    let in_use = error.kind() == ErrorKind::ResourceBusy;
    let text = if in_use {
        format!("{target} is mounted or otherwise in use; unmount it first")
    } else {
        target.to_owned()
    };
    anyhow::Error::new(error).context(text)
}

/// Refuses a file that another program has open for writing, such as a virtual machine or a server that runs
/// on it: both would write to it.
fn refuse_open(disk: &dyn Disk, path: &Path) -> Result<()> {
    // If the kernel can't be asked, writing shows it.
    let is_file = disk.stat(path).is_ok_and(|stat| stat.regular);
    if is_file && disk.open(path).is_ok_and(|file| file.is_written_to() == Some(true)) {
        let text = format!(
            "{} is open for writing in another program, such as a virtual machine or a server that runs on it; stop that first: fuser(1) names it",
            path.display()
        );
        return Err(Failure::Busy(text).into());
    }
    Ok(())
}

/// A file behind a loop device must not change while it is mounted. The kernel refuses this for devices.
fn refuse_mounted(machine: &Machine, path: &Path) -> Result<()> {
    let disk = machine.disk();
    let resolved = machine.run(
        &["readlink", "-f", "--"]
            .map(OsStr::new)
            .iter()
            .copied()
            .chain([path.as_os_str()])
            .collect::<Vec<_>>(),
    )?;
    let resolved = String::from_utf8_lossy(&resolved);
    for device in disk.list(Path::new("/sys/block")).unwrap_or_default() {
        let file = Path::new("/sys/block").join(&device).join("loop/backing_file");
        let mut backing = String::new();
        if let Ok(mut source) = disk.open(&file) {
            source.read_to_string(&mut backing).with_context(|| file.display().to_string())?;
        }
        if !backing.is_empty() && backing.trim_end_matches('\n') == resolved.trim_end_matches('\n') {
            let device = device.display();
            anyhow::bail!("{} is in use as /dev/{device}; losetup -d /dev/{device} first", path.display());
        }
    }
    Ok(())
}
