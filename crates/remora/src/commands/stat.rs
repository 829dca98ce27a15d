//! `remora stat`

mod data;
mod list;
mod listen;
mod options;
mod output;
mod report;
mod statements;
mod table;
pub(crate) mod top;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use failure::usage;
use monitor::fleet::{Event, Fleet, Times, samplers};
use monitor::recording::{self, Recorder};
use progress::Progress;
use server::Target;
use status::counter::record::Recorded;
use status::counter::sampler::SampleRequest;
use status::counter::view::{self, VIEWS, View};

use self::list::Filter;
use self::options::{HostArgs, RecordingArgs};
use self::output::{Follow, Output, Silent, Wanted};
use self::statements::Statements;
use crate::args::{ServerArgs, is_address};
use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::report::Report;
use crate::way_in::way_in;
use screen::terminal;

const EXAMPLES: &str = "EXAMPLES
  remora stat                         what matters, a line each second
  remora stat 10 6                    six lines, one every ten seconds
  remora stat --view redo,lock        other columns; --view help names the views
  remora stat 5 1 --top 20            the 20 counters that grew most within five seconds
  remora stat --like 'Handler%' --changed      counters by pattern, those that changed
  remora stat 1 mysql://mon@db1 mysql://mon@db2 --csv     two servers, as a table for programs
  remora stat --live                  a screen with all of it; remora top is the same
  remora stat --digests 5             with the five statements that took the most time
  remora stat 10 --record db1.stat    keep the samples; --replay db1.stat shows them again
  remora stat report db1.stat -o db1.html     a page with plots of the recording
  remora stat --listen 127.0.0.1:9104 mysql://mon@db1 mysql://mon@db2     for Prometheus

A counter is shown as its change per second, over the time that really passed; a gauge as its
value. What remora's own questions add is subtracted. After a restart or FLUSH STATUS a line says so
instead of numbers, and when replication stops or runs again a line gives the error.";

/// The default interval between samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// A server that does not answer for this long is reported.
const SILENT: Duration = Duration::from_secs(5);

/// Show what a server does, per second: statements, also slow ones, locks, how late a replica is
///
/// Watches one server or several, without writing anything to them, until it is stopped or has shown COUNT
/// intervals.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// Seconds between two looks [default: 1], how many intervals to show [default: until stopped], and
    /// servers as mysql://user@host:port, unix:///path or sandbox:NAME [default: as the options and option
    /// files say]
    #[arg(value_name = "INTERVAL [COUNT] | SERVER")]
    words: Vec<String>,

    /// Columns to show: one or more views, or all; "help" explains them
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with_all = ["all", "like", "top"])]
    view: Vec<String>,

    /// Show every status variable
    #[arg(long)]
    all: bool,

    /// Show the status variables whose name matches, upper or lower case; % stands for anything. May be given
    /// several times
    #[arg(long, value_name = "PATTERN")]
    like: Vec<String>,

    /// Show the N counters that grew most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,

    /// Leave out what did not change in the interval
    #[arg(long)]
    changed: bool,

    /// Print comma-separated values, a line for each interval and server
    #[arg(long, conflicts_with_all = ["json", "top"])]
    csv: bool,

    /// Also show the N statements that took the most time, where the server has performance_schema
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "csv")]
    digests: Option<u32>,

    /// Draw a screen: what runs, who waits for whom, replication, deadlocks, all counters; ? there explains
    /// the keys. With --replay it shows the recording
    #[arg(long, conflicts_with_all = ["view", "all", "like", "top", "changed", "csv", "digests", "listen"])]
    live: bool,

    #[command(flatten)]
    host: HostArgs,

    #[command(flatten)]
    recording: RecordingArgs,

    /// Serve OpenMetrics at http://ADDR:PORT/metrics until stopped; each scrape asks the servers
    #[arg(long, value_name = "ADDR:PORT",
        conflicts_with_all = ["view", "all", "like", "top", "changed", "csv", "digests", "record", "replay"])]
    listen: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

impl Arguments {
    /// Those of `--live`.
    fn live(words: Vec<String>, recording: RecordingArgs, host: HostArgs, server: ServerArgs) -> Arguments {
        Arguments {
            action: None,
            words,
            view: Vec::new(),
            all: false,
            like: Vec::new(),
            top: None,
            changed: false,
            csv: false,
            digests: None,
            live: true,
            host,
            recording,
            listen: None,
            server,
        }
    }

    /// The status variables to ask for: those of the views that are shown, or none for all.
    fn names(&self, views: &[&'static View], is_live: bool) -> Vec<&'static str> {
        let lists = self.all || self.top.is_some() || !self.like.is_empty();
        if lists || self.recording.record.is_some() || self.listen.is_some() {
            return Vec::new();
        }
        // A screen shows all views; while it shows a list of counters, it asks for the others, too.
        if is_live { view::names(&VIEWS.each_ref()) } else { view::names(views) }
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    Report(report::Arguments),
}

/// The arguments without an option name, by their meaning.
struct Words {
    /// `None` if not given.
    interval: Option<Duration>,
    count: Option<u64>,
    servers: Vec<String>,
}

impl Words {
    fn read(words: &[String]) -> Result<Words> {
        let mut numbers = Vec::new();
        let mut servers = Vec::new();
        for word in words {
            match word.parse::<f64>() {
                Ok(number) => numbers.push((word, number)),
                Err(_) if is_address(word) => servers.push(word.clone()),
                Err(_) => {
                    return Err(usage(format!(
                        "{word}: neither seconds nor a server; a server is written as mysql://host, unix:///path or sandbox:NAME"
                    )));
                }
            }
        }
        let interval = match numbers.first() {
            None => None,
            Some((word, seconds)) => Some(
                Duration::try_from_secs_f64(*seconds)
                    .ok()
                    .filter(|interval| (0.1..=86_400.0).contains(&interval.as_secs_f64()))
                    .ok_or_else(|| usage(format!("INTERVAL {word}: give 0.1 to 86400 seconds")))?,
            ),
        };
        let count = match numbers.get(1) {
            None => None,
            Some((word, _)) => Some(
                word.parse::<u64>()
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or_else(|| usage(format!("COUNT {word}: give a whole number from 1 on")))?,
            ),
        };
        if let Some((word, _)) = numbers.get(2) {
            return Err(usage(format!("{word}: INTERVAL and COUNT were given already")));
        }
        Ok(Words { interval, count, servers })
    }
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    if let Some(Action::Report(arguments)) = &arguments.action {
        return report::run(arguments, report);
    }
    let words = Words::read(&arguments.words)?;
    if arguments.view.iter().any(|name| name == "help") {
        return explain(report);
    }
    let views = views(&arguments.view)?;
    let is_terminal = std::io::stdout().is_terminal() && !report.is_json();
    let is_live = arguments.live && is_terminal && !terminal::is_dumb();
    let names = arguments.names(&views, is_live);
    let mut output = output(arguments, views, report)?;
    arguments.host.check(arguments.live, words.servers.len())?;
    if arguments.live && !is_live {
        let why = if is_terminal {
            "TERM says that this terminal can't be drawn on"
        } else {
            "this is no terminal"
        };
        report.note(&format!("{why}: lines follow instead of a screen"));
    }
    let stop = stop_flag(report)?;
    if let Some(file) = arguments.recording.replay.as_ref().filter(|_| is_live) {
        if words.count.is_some() || !words.servers.is_empty() {
            return Err(usage("--live --replay shows all of a recording: give no COUNT and no server"));
        }
        return Ok(screen::servers::replay(file, words.interval.unwrap_or_default(), &stop)?.into());
    }
    if let Some(file) = &arguments.recording.replay {
        return replay(file, &words, output.as_mut(), &stop, report);
    }
    let digests = arguments.digests.is_some() || is_live;
    // A recording tells later who waited, as the screen does now.
    let is_attended = is_live || arguments.recording.record.is_some();
    let wants = SampleRequest { names, digests, processes: is_attended, applied: is_attended };
    let mut targets = targets(&arguments.server, password.as_deref(), &words.servers)?;
    if is_live {
        targets = targets.into_iter().map(|target| way_in(target, report)).collect();
    }
    let watches = samplers(targets.clone(), &wants)?;
    if let Some(address) = &arguments.listen {
        if words.interval.is_some() {
            return Err(usage("--listen asks the servers at each scrape: give no INTERVAL"));
        }
        return listen::run(watches, address, &stop, report);
    }
    let mut recorder = arguments.recording.open()?;
    if is_live {
        let interval = words.interval.unwrap_or(INTERVAL);
        let fleet = Fleet::attending(watches, arguments.host.elsewhere(interval));
        let shown = screen::servers::Shown { fleet: &fleet, targets: &targets, interval, count: words.count };
        let ended = screen::servers::run(&shown, &stop, recorder.as_mut());
        recorder.map_or(Ok(()), Recorder::finish)?;
        return Ok(ended?.into());
    }
    let feed = if is_attended { Fleet::attending(watches, None) } else { Fleet::of(watches) };
    let mut follow = Follow::new(feed.names().to_vec());
    let ended = watch(&feed, &words, &stop, report, &mut |event| {
        for note in &event.notes {
            report.warn(&follow.say(event.server, note));
        }
        if let (Some(recorder), Ok(sample)) = (&mut recorder, &event.what) {
            recorder.add(follow.named(event.server).name, sample, &event.incident)?;
        }
        follow.take(event, output.as_mut(), report)
    });
    recorder.map_or(Ok(()), Recorder::finish)?;
    ended
}

/// Shows a recording. Samples that follow the last shown one within less than INTERVAL are skipped: the
/// changes of the next one include theirs.
fn replay(
    file: &Path,
    words: &Words,
    output: &mut dyn Output,
    stop: &AtomicBool,
    report: &Report,
) -> Result<Exit> {
    if !words.servers.is_empty() {
        return Err(usage("--replay shows the recorded servers: name none"));
    }
    let (names, _) = recording::survey(file)?;
    let mut follow = Follow::new(names.clone());
    let least = words.interval.unwrap_or_default();
    let mut left = vec![words.count.unwrap_or(u64::MAX); names.len()];
    recording::replay(file, Some(report), &mut |Recorded { server, sample, .. }| {
        let server = names.iter().position(|name| *name == server).unwrap_or_default();
        if left[server] > 0 {
            let wanted = Wanted { least, left: left[server] };
            left[server] -= follow.merge((server, sample), wanted, output, report)?;
        }
        Ok(!stop.load(Ordering::Relaxed) && left.iter().any(|left| *left > 0))
    })?;
    if left.iter().any(|left| *left > 0) {
        follow.finish(output, report)?;
    }
    Ok(if stop.load(Ordering::Relaxed) { stopped() } else { Exit::Done })
}

/// Takes samples at regular times until stopped, or for a number of intervals. A server that has not answered
/// in time is not asked again before it does, and does not delay the others.
fn watch(
    feed: &Fleet,
    words: &Words,
    stop: &AtomicBool,
    report: &Report,
    take: &mut dyn FnMut(Event) -> Result<bool>,
) -> Result<Exit> {
    let mut times = Times::new(words.interval.unwrap_or(INTERVAL));
    let mut shown = vec![0; feed.names().len()];
    let mut ever = vec![false; shown.len()];
    let mut failed = ever.clone();
    loop {
        feed.ask();
        let next = times.advance();
        for server in feed.silent(SILENT) {
            let seconds = SILENT.as_secs();
            report.warn(&format!("{}: no answer for {seconds} seconds; still waiting", feed.names()[server]));
        }
        loop {
            let events = feed.batch(next, stop);
            if events.is_empty() {
                break;
            }
            for event in events {
                let server = event.server;
                match event.what {
                    Ok(_) => ever[server] = true,
                    Err(error) => {
                        failed[server] = true;
                        if failed.iter().all(|it| *it) && !ever.contains(&true) {
                            // None of them answers from the start: that is a failure and not a lost
                            // connection.
                            return Err(error.into());
                        }
                        // Time passes even for a server that is unreachable.
                        shown[server] += 1;
                        take(Event { what: Err(error), ..event })?;
                        continue;
                    }
                }
                shown[server] += u64::from(take(event)?);
            }
            if words.count.is_some_and(|count| shown.iter().all(|shown| *shown >= count)) {
                return Ok(if ever.contains(&false) { Exit::Partial } else { Exit::Done });
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(stopped());
        }
    }
}

/// The output for the intervals, as the options say.
fn output(arguments: &Arguments, views: Vec<&'static View>, report: &Report) -> Result<Box<dyn Output>> {
    let filter = Filter::new(arguments.all, &arguments.like, arguments.top, arguments.changed);
    if filter.is_none() && arguments.changed {
        return Err(usage("--changed goes with --all, --like or --top"));
    }
    if report.is_quiet() && arguments.recording.record.is_some() {
        return Ok(Box::new(Silent));
    }
    let digests = arguments.digests.and_then(|count| usize::try_from(count).ok());
    let is_json = report.is_json();
    let mut output: Box<dyn Output> = match (filter, is_json, arguments.csv) {
        (filter, true, _) => Box::new(data::Json::new(filter, views, digests)),
        (filter, _, true) => Box::new(data::Csv::new(filter, views)),
        (Some(filter), ..) => Box::new(list::List::new(filter)),
        (None, ..) => Box::new(table::Table::new(views, terminal::width())),
    };
    if !arguments.like.is_empty() {
        output = Box::new(list::Patterns::new(output, &arguments.like));
    }
    Ok(match digests.filter(|_| !is_json) {
        Some(count) => Box::new(Statements::new(output, count)),
        None => output,
    })
}

fn views(names: &[String]) -> Result<Vec<&'static View>> {
    if names.is_empty() {
        return Ok(view::of("overview").into_iter().collect());
    }
    let mut views = Vec::new();
    for name in names {
        match (name.as_str(), view::of(name)) {
            ("all", _) => views.extend(&VIEWS),
            (_, Some(view)) => views.push(view),
            (_, None) => {
                let known: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
                return Err(usage(format!(
                    "--view {name}: there is no such view; there are {}, and all",
                    known.join(", ")
                )));
            }
        }
    }
    Ok(views)
}

/// Explains every column of every view.
fn explain(report: &Report) -> Result<Exit> {
    for view in &VIEWS {
        report.data(&format!("{}: {}", view.name, view.what))?;
        for column in view.columns {
            report.data(&format!("  {:<8} {:<28} {}", column.head, column.name(), column.what))?;
        }
        report.data("")?;
    }
    Ok(Exit::Done)
}

/// The servers that addresses name, or the one from the options.
fn targets(server: &ServerArgs, password: Option<&str>, addresses: &[String]) -> Result<Vec<Target>> {
    let all: Vec<ServerArgs> = match addresses {
        [] => vec![server.clone()],
        addresses => addresses.iter().map(|address| server.at(address)).collect(),
    };
    all.iter().map(|server| Ok(server.target(password.map(str::to_owned))?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_count_and_servers_are_recognised() {
        let read = |words: &[&str]| Words::read(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        let words = read(&["mysql://a", "0.5", "unix:///b", "7"]).unwrap();
        assert_eq!((words.interval, words.count), (Some(Duration::from_millis(500)), Some(7)));
        assert_eq!(words.servers, ["mysql://a", "unix:///b"]);
        for wrong in
            [&["0"][..], &["-1"], &["1", "0"], &["1", "1.5"], &["1", "2", "3"], &["db1"], &["nan"], &["inf"]]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
