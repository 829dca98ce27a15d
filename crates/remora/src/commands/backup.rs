//! `remora backup`

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use block::World;
use block::backup::{Request, Summary};
use clap::Args;
use progress::Progress;
use serde_json::json;

use crate::exit::{self, Exit};
use crate::host::Machine;
use crate::report::{self, Report};
use crate::volume::{Source, is_name};
use crate::{calendar, commands, repository};

const EXAMPLES: &str = "EXAMPLES
  remora backup file:/vm/disk.img --to /backup        full the first time, then what changed
  remora backup block:/dev/vg/snap --to /backup --name data --nice
  remora backup block:ssh://root@db1/dev/vg/snap --to /backup --name db1 \\
    --before 'lvcreate -q -s -L 5G -n snap vg/data' --after 'lvremove -qf vg/snap'
  remora backup file:/vm/a.img file:/vm/b.img --to /backup --rate 50M
  remora list /backup";

/// Back up a volume: full the first time, then only what changed
///
/// The volume is read once. Blocks of 16 KiB that are not as in the generation before are stored, compressed,
/// changed database pages as the difference to what they were. Nothing that is stored already is touched: a
/// run that fails or is killed leaves the repository as it was.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What to back up: file:PATH or block:/dev/..., where a path may be ssh://user@host/PATH
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<Source>,

    /// The repository, a folder; it is made when it is not there
    #[arg(long, value_name = "REPO")]
    to: PathBuf,

    /// Name of the backups in the repository [default: the last part of the path]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Store everything anew instead of what changed
    #[arg(long)]
    full: bool,

    /// Accept a file that changes while it is read: a copy of no one moment
    #[arg(long)]
    live: bool,

    /// A shell command to run on the source's machine before it is read, such as one that makes a snapshot
    #[arg(long, value_name = "COMMAND")]
    before: Option<String>,

    /// A shell command to run there when it has been read, or could not be
    #[arg(long, value_name = "COMMAND")]
    after: Option<String>,

    /// Read at most so many bytes in a second, such as 50M
    #[arg(long, value_name = "BYTES", value_parser = calendar::bytes)]
    rate: Option<u64>,

    /// Let all other programs go first
    #[arg(long)]
    nice: bool,

    /// An option for ssh, as behind its -o, such as ProxyJump=bastion
    #[arg(long, value_name = "OPTION")]
    ssh_option: Vec<String>,

    /// Threads that compress [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> anyhow::Result<Exit> {
    let names = names(arguments)?;
    if arguments.nice {
        // The I/O scheduler goes by this too.
        rustix::process::setpriority_process(None, 19)?;
    }
    let stop = commands::stop_flag(report)?;
    let world = World { stop: &stop, progress: report };
    let (mut failures, mut partial) = (Vec::new(), false);
    for (source, name) in arguments.sources.iter().zip(&names) {
        match one(source, name, arguments, world, report) {
            Ok(done) => partial |= !done,
            Err(error @ block::Error::Stopped) => return Err(error.into()),
            Err(error) => failures.push((source, error)),
        }
    }
    report.end();
    if failures.len() == arguments.sources.len()
        && let Some((_, error)) = failures.pop()
    {
        failures
            .iter()
            .for_each(|(source, error)| report.warn(&format!("{source} is not backed up: {error}")));
        return Err(error.into());
    }
    failures.iter().for_each(|(source, error)| report.warn(&format!("{source} is not backed up: {error}")));
    Ok(if failures.is_empty() && !partial { Exit::Done } else { Exit::Partial })
}

/// A name for each source.
fn names(arguments: &Arguments) -> anyhow::Result<Vec<String>> {
    if let Some(name) = &arguments.name {
        if arguments.sources.len() > 1 {
            return Err(exit::usage("--name is for one source; several take the last parts of their paths"));
        }
        if !is_name(name) {
            return Err(exit::usage(format!(
                "'{name}' can't be a name: no slash, no @, no dot or dash in front"
            )));
        }
        return Ok(vec![name.clone()]);
    }
    let mut names: Vec<String> = Vec::new();
    for source in &arguments.sources {
        let name = source.default_name().ok_or_else(|| {
            exit::usage(format!("{source}: its last part can't be a name; give one with --name"))
        })?;
        if names.contains(&name) {
            return Err(exit::usage(format!(
                "two sources would be called {name}; back them up one by one with --name"
            )));
        }
        names.push(name);
    }
    Ok(names)
}

/// Backs one source up. False when it is backed up but what had to be done after it was not.
fn one(
    source: &Source,
    name: &str,
    arguments: &Arguments,
    world: World<'_>,
    report: &Report,
) -> Result<bool, block::Error> {
    let began = Instant::now();
    let reach = || source.reach(&arguments.ssh_option, arguments.nice);
    let machine = reach()?;
    let made = hook(&machine, arguments.before.as_deref())
        .map_err(|error| source.failed(error))
        .and_then(|()| read(source, name, arguments, &machine, world));
    // Whatever happened: what --before has made is to go. A connection that broke can't be used for that.
    let mut after = hook(&machine, arguments.after.as_deref());
    if after.is_err() && made.is_err() {
        after = reach().map_err(io::Error::other).and_then(|anew| hook(&anew, arguments.after.as_deref()));
    }
    if let Err(error) = &after {
        report.warn(&format!("{source}: --after failed: {error}"));
    }
    tell(&source.to_string(), name, &made?, began.elapsed().as_secs_f64(), report);
    Ok(after.is_ok())
}

/// Runs a command of the user's in a shell of the source's machine.
fn hook(machine: &Machine, command: Option<&str>) -> io::Result<()> {
    let Some(command) = command else { return Ok(()) };
    machine.run(&["sh", "-c", command].map(OsStr::new)).map(drop)
}

fn read(
    source: &Source,
    name: &str,
    arguments: &Arguments,
    machine: &Machine,
    world: World<'_>,
) -> Result<Summary, block::Error> {
    let mut feed = source.open(machine)?;
    let shown = source.to_string();
    let request = Request {
        name: &shown,
        taken_s: calendar::now_s(),
        note: json!({"source": shown, "host": machine.name()}).to_string(),
        full: arguments.full,
        changed: None,
        live: arguments.live,
        jobs: arguments.jobs.unwrap_or_else(commands::cores),
        rate: arguments.rate,
    };
    let made = block::backup(&repository::named(&arguments.to, name), &mut *feed, &request, world);
    made.map_err(|error| match error {
        // With what ssh said of it.
        block::Error::Source { name, source } => {
            block::Error::Source { name, source: machine.explain(source) }
        }
        error => error,
    })
}

fn tell(source: &str, name: &str, made: &Summary, seconds: f64, report: &Report) {
    if report.is_json() {
        let line = json!({
            "message_type": "summary", "source": source, "name": name, "generation": made.generation,
            "parent": made.parent, "bytes": made.len, "blocks_changed": made.changed,
            "blocks_reused": made.reused, "bytes_written": made.written, "seconds": seconds,
        });
        // A reader that is gone does not undo the backup.
        report.message(&line).ok();
        return;
    }
    let kind = match made.parent {
        0 => "full".to_owned(),
        parent => format!("changes to {parent}"),
    };
    let size = report::size;
    report.note(&format!(
        "{name}@{} ({kind}): {}, {} blocks changed, {} written, {seconds:.1} s",
        made.generation,
        size(made.len),
        made.changed,
        size(made.written),
    ));
}
