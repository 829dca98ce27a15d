//! `remora backup`

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use block::backup::{Request, Summary};
use block::{Feed, Repository, World};
use clap::Args;
use progress::Progress;
use serde_json::json;

use crate::exit::{self, Exit};
use crate::host::Machine;
use crate::report::{self, Report};
use crate::volume::snapshot::Watched;
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

    /// Room for what changes in an lvm: volume while it is read [default: a fifth of the volume, or what is free]
    #[arg(long, value_name = "BYTES", value_parser = calendar::bytes)]
    snapshot_size: Option<u64>,

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
    if let (Some(_), Some(source)) =
        (arguments.snapshot_size, arguments.sources.iter().find(|source| !source.takes_room()))
    {
        return Err(exit::usage(format!("{source}: --snapshot-size is for lvm:/dev/... only")));
    }
    if arguments.nice {
        // The I/O scheduler goes by this too.
        rustix::process::setpriority_process(None, 19)?;
    }
    let stop = commands::stop_flag(report)?;
    let world = World { stop: &stop, progress: report };
    let (mut failures, mut partial) = (Vec::new(), false);
    for (source, name) in arguments.sources.iter().zip(&names) {
        let run = Run { source, name, arguments, world, report };
        match run.go() {
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

/// The backup of one source.
struct Run<'a> {
    source: &'a Source,
    name: &'a str,
    arguments: &'a Arguments,
    world: World<'a>,
    report: &'a Report,
}

impl Run<'_> {
    /// False when it is backed up but what had to be done after it was not.
    fn go(&self) -> Result<bool, block::Error> {
        let began = Instant::now();
        let machine = self.reach()?;
        let mut clean = true;
        let made = match hook(&machine, self.arguments.before.as_deref()) {
            Ok(()) => self.still(&machine, &mut clean),
            Err(error) => Err(self.source.failed(error)),
        };
        clean &= self.finally(&machine, made.is_err(), "--after failed", |machine| {
            hook(machine, self.arguments.after.as_deref())
        });
        tell(&self.source.to_string(), self.name, &made?, began.elapsed().as_secs_f64(), self.report);
        Ok(clean)
    }

    fn reach(&self) -> Result<Machine, block::Error> {
        self.source.reach(&self.arguments.ssh_option, self.arguments.nice)
    }

    /// Whatever happened: what was made for the backup is to go. A connection that broke can't be used for that.
    fn finally(
        &self,
        machine: &Machine,
        failed: bool,
        what: &str,
        mut act: impl FnMut(&Machine) -> io::Result<()>,
    ) -> bool {
        let mut done = act(machine);
        if done.is_err() && failed {
            done = self.reach().map_err(io::Error::other).and_then(|anew| act(&anew));
        }
        if let Err(error) = &done {
            self.report.warn(&format!("{}: {what}: {error}", self.source));
        }
        done.is_ok()
    }

    /// Reads the source, or a snapshot of it that is made and removed again.
    fn still(&self, machine: &Machine, clean: &mut bool) -> Result<Summary, block::Error> {
        let mut repository = repository::named(&self.arguments.to, self.name);
        let Some(mut snapshot) = self.source.snapshot(machine, self.arguments.snapshot_size)? else {
            return self.store(&repository, &mut *self.source.open(machine, None)?, machine);
        };
        repository.hold()?;
        let mark = repository::mark(&self.arguments.to, self.name).map_err(|source| block::Error::Store {
            name: self.arguments.to.display().to_string(),
            source,
        })?;
        let made = snapshot
            .prepare(machine, &mark, self.world.progress)
            .and_then(|()| snapshot.make(machine))
            .map_err(|error| self.source.failed(error))
            .and_then(|()| {
                let feed = self.source.open(machine, Some(&*snapshot))?;
                self.store(&repository, &mut Watched::new(feed, &*snapshot, machine), machine)
            });
        let left = "its snapshot is still there, and the next run removes it";
        *clean &= self.finally(machine, made.is_err(), left, |machine| snapshot.remove(machine));
        made
    }

    fn store(
        &self,
        repository: &Repository,
        feed: &mut dyn Feed,
        machine: &Machine,
    ) -> Result<Summary, block::Error> {
        let shown = self.source.to_string();
        let request = Request {
            name: &shown,
            taken_s: calendar::now_s(),
            note: json!({"source": shown, "host": machine.name()}).to_string(),
            full: self.arguments.full,
            changed: None,
            live: self.arguments.live,
            jobs: self.arguments.jobs.unwrap_or_else(commands::cores),
            rate: self.arguments.rate,
        };
        block::backup(repository, feed, &request, self.world).map_err(|error| match error {
            // With what ssh said of it.
            block::Error::Source { name, source } => {
                block::Error::Source { name, source: machine.explain(source) }
            }
            error => error,
        })
    }
}

/// Runs a command of the user's in a shell of the source's machine.
fn hook(machine: &Machine, command: Option<&str>) -> io::Result<()> {
    let Some(command) = command else { return Ok(()) };
    machine.run(&["sh", "-c", command].map(OsStr::new)).map(drop)
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
