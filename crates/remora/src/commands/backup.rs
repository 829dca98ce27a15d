//! `remora backup`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backup::{Backup, Output, Request};
use block::RunContext;
use block::backup::Summary;
use clap::Args;
use failure::Completeness;
use host::Machine;
use humanize::date_time;
use instance::boot::BootResult;
use progress::{Progress, count};
use repository::location::Location;
use seal::Key;
use serde_json::json;
use snapshot::identity::Identity;
use snapshot::server::Login;
use snapshot::{Source, is_name};

use crate::args::{Account, ServerArgs};
use crate::commands;
use crate::exit::Exit;
use crate::keys::KeyArguments;
use crate::report::{self, Report};
use crate::retain::RetainArguments;

const EXAMPLES: &str = "EXAMPLES
  remora backup file:/vm/disk.img --to /backup        full the first time, then what changed
  remora backup mysql: --to /backup                   a server that runs, under its own lock
  remora backup mysql:/run/mysqld/second.sock --to /backup
  remora backup mysql: --to /backup --way copy --prove   without a snapshot: any file system
  remora backup mysql:ssh://root@db1 --to /backup --track
  remora backup lvm:ssh://root@db1/dev/vg/data --to /backup --name db1 --nice
  remora backup btrfs:/srv/files --to /backup
  remora backup mysql: --to s3://company-backups/db      straight into an object store
  remora backup mysql: --to s3://company-backups/db --retain 30d     which nobody can remove for 30 days
  remora backup block:/dev/mapper/snap --to /backup --before './make-snap' --after './drop-snap'
  remora list /backup";

/// Back up a server while it runs, or a volume: only what changed, encrypted, to a folder or S3
///
/// The source is read once, from a snapshot if one can be made. Only blocks of 16 KiB that differ from the
/// generation before are stored: compressed, or as the difference to what they were. Nothing that is already
/// stored is touched: a run that fails or is killed leaves the repository as it was.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What to back up: file:PATH, block:/dev/..., lvm:/dev/VG/LV, btrfs:FOLDER, xfs:FOLDER; any of these
    /// paths may be ssh://user@host/PATH. Or a whole server: mysql: for the usual one here,
    /// mysql:/path/to.sock, sandbox:NAME, mysql:ssh://user@host and
    /// mysql:ssh://user@host/path/to.sock
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<Source>,

    /// The repository: a folder, which is created if it does not exist, or s3://BUCKET/PREFIX; 'remora mirror
    /// --help' says where the key of a store is read
    #[arg(long, value_name = "REPO")]
    to: PathBuf,

    /// The name of these backups in the repository [default: the last part of the path; for a server its
    /// machine's name, and that of its socket if it is not the usual one]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Continue a name that has backups of another source or another machine, because this one has taken its
    /// place, as after the machine was installed again. Needed only once
    #[arg(long)]
    adopt: bool,

    /// Store everything again, not only what changed
    #[arg(long)]
    full: bool,

    /// Accept a file that changes while it is read: the copy then mixes several points in time
    #[arg(long)]
    live: bool,

    /// A shell command to run on the source's machine before reading, such as one that makes a snapshot
    #[arg(long, value_name = "COMMAND")]
    before: Option<String>,

    /// A shell command to run there after reading, even if that failed
    #[arg(long, value_name = "COMMAND")]
    after: Option<String>,

    /// A shell command that holds a lock while it runs another command, such as 'remora lock --'; the
    /// snapshot is made under that lock
    #[arg(long, value_name = "COMMAND")]
    lock: Option<String>,

    /// Read only what has changed since the last run. The snapshot stays until the next run; a server that is
    /// copied without a snapshot finds the changes in its redo log
    #[arg(long)]
    track: bool,

    /// Room for changes in an lvm: volume while it is read [default: a fifth of the volume, or what is free
    /// if that is less]
    #[arg(long, value_name = "BYTES", value_parser = date_time::bytes)]
    snapshot_size: Option<u64>,

    /// Read at most this many bytes per second, such as 50M
    #[arg(long, value_name = "BYTES", value_parser = date_time::bytes)]
    rate: Option<u64>,

    /// Run at the lowest priority, so that all other programs go first
    #[arg(long)]
    nice: bool,

    /// An option for ssh, as after its -o, such as ProxyJump=bastion
    #[arg(long, value_name = "OPTION")]
    ssh_option: Vec<String>,

    /// Threads that compress [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,

    /// How to copy a server (mysql:): from a snapshot of its file system, or file by file while it runs
    /// [default: a snapshot where one can be made]
    #[arg(long, value_enum, value_name = "WAY")]
    way: Option<Way>,

    /// How many seconds to try for the lock of a server (mysql:)
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,

    /// How many seconds a server on XFS may be stopped while its files are cloned; remora refuses to stop it
    /// for longer
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    still: f64,

    /// Start a server on a copy of the snapshot and check its tables before storing it: the default for
    /// mysql: on btrfs and XFS. With --way copy it is started on this machine, on the restored generation,
    /// and all tables are checked. If that can't be done the exit code is 3
    #[arg(long, conflicts_with = "no_prove")]
    prove: bool,

    /// Don't start a server on a copy, and don't ask for it
    #[arg(long)]
    no_prove: bool,

    /// How long to check tables there; if that is too short for all tables, each run checks different ones
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = date_time::duration_s)]
    prove_for: u64,

    #[command(flatten)]
    retain: RetainArguments,

    #[command(flatten)]
    key: KeyArguments,

    #[command(flatten)]
    server: ServerArgs,
}

impl Arguments {
    fn request(&self) -> Request {
        Request {
            to: self.to.clone(),
            adopt: self.adopt,
            full: self.full,
            live: self.live,
            before: self.before.clone(),
            after: self.after.clone(),
            lock: self.lock.clone(),
            track: self.track,
            snapshot_size: self.snapshot_size,
            rate: self.rate,
            nice: self.nice,
            ssh_option: self.ssh_option.clone(),
            jobs: self.jobs.unwrap_or_else(commands::cores),
            way: self.way.map(backup::Way::from),
            prove: self.prove,
            no_prove: self.no_prove,
            prove_for_s: self.prove_for,
        }
    }
}

/// How a server is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// From a snapshot of LVM, btrfs or XFS
    Snapshot,
    /// File by file: on any file system, MariaDB 10.8 and later
    Copy,
}

impl From<Way> for backup::Way {
    fn from(way: Way) -> backup::Way {
        match way {
            Way::Snapshot => backup::Way::Snapshot,
            Way::Copy => backup::Way::Copy,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "write a number of seconds up to 3600, such as 10 or 0.5".to_owned())
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let mut names = names(arguments)?;
    let request = arguments.request();
    // A store without its credentials is reported before anything is done.
    arguments.retain.on(Location::of(&arguments.to)?)?;
    check(arguments, &request)?;
    if arguments.nice {
        // The I/O scheduler also uses this priority.
        rustix::process::setpriority_process(None, 19)?;
    }
    let key = arguments.key.read()?;
    if arguments.name.is_none() {
        for (source, name) in arguments.sources.iter().zip(&mut names) {
            continue_former_name(source, name, arguments, key.as_ref())?;
        }
    }
    let stop = commands::stop_flag(report)?;
    let world = RunContext { stop: &stop, progress: report };
    let wait = Duration::from_secs(arguments.wait.into());
    let still = Duration::from_secs_f64(arguments.still);
    let servers = arguments.sources.iter().map(|source| server_of(source, &arguments.server));
    let servers = servers.collect::<anyhow::Result<Vec<_>>>()?;
    let (mut failures, mut worst) = (Vec::new(), Exit::Done);
    for ((source, name), server) in arguments.sources.iter().zip(&names).zip(&servers) {
        let login = Login {
            server: &Account { server, password: password.clone() },
            wait,
            still,
            stop: Arc::clone(&stop),
            report: report.shared(),
        };
        let home = Location::new(&arguments.to, name).and_then(|home| arguments.retain.on(home));
        let made = home.map_err(|error| block::Error::Unfit(error.to_string())).and_then(|home| {
            let (request, login, key) = (&request, &login, key.as_ref());
            Backup { source, name, home, request, login, key, world, output: report }.run()
        });
        match made {
            Ok(Completeness::Complete) => {}
            // Unsound data are worse than missing files.
            Ok(Completeness::Partial) if worst == Exit::Damaged => {}
            Ok(made) => worst = Exit::Done.after(made),
            Err(error @ block::Error::Stopped) => return Err(no_backup_made(source, error)),
            Err(error) => failures.push((source, error)),
        }
    }
    report.end();
    if failures.len() == arguments.sources.len()
        && let Some((source, error)) = failures.pop()
    {
        failures
            .iter()
            .for_each(|(source, error)| report.warn(&format!("{source} is not backed up: {error}")));
        return Err(no_backup_made(source, error));
    }
    failures.iter().for_each(|(source, error)| report.warn(&format!("{source} is not backed up: {error}")));
    Ok(if worst == Exit::Done && !failures.is_empty() { Exit::Partial } else { worst })
}

/// Refuses options that do not go together.
fn check(arguments: &Arguments, request: &Request) -> anyhow::Result<()> {
    if let (Some(_), Some(source)) =
        (arguments.snapshot_size, arguments.sources.iter().find(|source| !source.takes_room()))
    {
        return Err(failure::usage(format!("{source}: --snapshot-size is for lvm:/dev/... only")));
    }
    if let Some(source) = arguments.sources.iter().find(|source| !source.is_held_still())
        && (arguments.lock.is_some() || arguments.track)
    {
        return Err(failure::usage(format!(
            "{source} is read without a snapshot: --lock and --track are only for snapshots"
        )));
    }
    if let (Some(_), Some(source)) =
        (arguments.way, arguments.sources.iter().find(|source| !source.is_server()))
    {
        return Err(failure::usage(format!("{source}: --way is for mysql: only")));
    }
    if arguments.way == Some(Way::Copy) && request.needs_snapshot() {
        return Err(failure::usage("--lock and --snapshot-size are for snapshots, not for --way copy"));
    }
    Ok(())
}

/// Adds to an error that there is no new generation, because it may not say so itself.
fn no_backup_made(source: &Source, error: block::Error) -> anyhow::Error {
    let says_nothing = matches!(error, block::Error::Store { .. } | block::Error::Stopped);
    let error = anyhow::Error::from(error);
    if !says_nothing {
        return error;
    }
    error.context(format!(
        "no backup was made of {source}; earlier generations are unchanged, and in a folder the next run continues with what this one stored"
    ))
}

/// How to reach the server of a source.
pub(crate) fn server_of(source: &Source, server: &ServerArgs) -> anyhow::Result<ServerArgs> {
    let Some(address) = source.server() else { return Ok(server.clone()) };
    if address.is_absolute() {
        return Ok(server.through(address));
    }
    let name = address.to_string_lossy();
    server.sandbox(&name).map_err(|error| {
        failure::usage(format!("{source}: {error}; a server of another machine is mysql:ssh://user@{name}"))
    })
}

/// A name for each source.
fn names(arguments: &Arguments) -> anyhow::Result<Vec<String>> {
    if let Some(name) = &arguments.name {
        if arguments.sources.len() > 1 {
            return Err(failure::usage(
                "--name is for one source; several take the last parts of their paths",
            ));
        }
        if !is_name(name) {
            return Err(failure::usage(format!(
                "'{name}' can't be a name: it must not contain / or @, or begin with a dot or dash"
            )));
        }
        return Ok(vec![name.clone()]);
    }
    let mut names: Vec<String> = Vec::new();
    let here = Machine::Here.name();
    for source in &arguments.sources {
        let name = source.default_name(&here).ok_or_else(|| {
            failure::usage(format!("{source}: its last part can't be a name; give one with --name"))
        })?;
        if names.contains(&name) {
            return Err(failure::usage(format!(
                "two sources would be called {name}; back them up one by one with --name"
            )));
        }
        names.push(name);
    }
    Ok(names)
}

/// A server of this machine keeps the name that its backups had before it was made of the machine's.
fn continue_former_name(
    source: &Source,
    name: &mut String,
    arguments: &Arguments,
    key: Option<&Key>,
) -> anyhow::Result<()> {
    let Some(former) = source.former_name() else { return Ok(()) };
    let has_backups = |name: &str| -> anyhow::Result<Option<Location>> {
        let home = Location::new(&arguments.to, name)?;
        let has = home.store().list()?.iter().any(|file| block::is_backup_file(file));
        Ok(has.then_some(home))
    };
    let (None, Some(home)) = (has_backups(name)?, has_backups(former)?) else { return Ok(()) };
    // Without the key that opens it, nobody can continue it.
    let repository = match repository::at(&home, key) {
        Err(block::Error::Key(_)) => return Ok(()),
        opened => opened?,
    };
    let newest = repository.list()?.generations.pop();
    if newest.is_none_or(|newest| Identity::of(&newest).host == Machine::Here.name()) {
        former.clone_into(name);
    }
    Ok(())
}

impl Output for Report {
    fn stored(&self, source: &Source, name: &str, made: &Summary, took: Duration) {
        tell(&source.to_string(), name, made, took.as_secs_f64(), self);
    }

    fn booted(&self, name: &str, result: &BootResult) -> anyhow::Result<()> {
        commands::verify::boot::tell(name, result, self)
    }
}

fn tell(source: &str, name: &str, made: &Summary, seconds: f64, report: &Report) {
    if report.is_json() {
        let line = json!({
            "message_type": "summary", "source": source, "name": name, "generation": made.generation,
            "parent": made.parent, "bytes": made.len, "blocks_changed": made.changed,
            "blocks_reused": made.reused, "blocks_healed": made.healed, "bytes_written": made.written,
            "damages": made.damages, "seconds": seconds,
        });
        // If nobody reads the output any more, the backup still counts.
        report.message(&line).ok();
        return;
    }
    let kind = match made.parent {
        0 => "full".to_owned(),
        parent => format!("changes to {parent}"),
    };
    let size = report::size;
    report.note(&format!(
        "{name}@{} ({kind}): {}, {} changed, {} written, {seconds:.1} s",
        made.generation,
        size(made.len),
        count(made.changed, "block"),
        size(made.written),
    ));
    if made.healed > 0 {
        let text = "stored again, because the stored copy is damaged";
        report.note(&format!("{name}@{}: {} {text}", made.generation, count(made.healed, "block")));
    }
    if !made.damages.is_empty() {
        report.warn(&format!(
            "{name}@{} is whole, but the repository is damaged: 'remora verify' says what is lost",
            made.generation
        ));
    }
}
