//! `remora restore --until`: a generation, and the archived log from there to any point in time.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use failure::usage;
use humanize::date_time;
use pitr::whole::WholeRequest;
use pitr::{Found, Reached, Recovery, RecoveryTarget, ReplayPlan, Start, single};
use progress::{Progress, count};
use repository::Named;
use serde_json::{Value, json};
use transactions::{Range, Wording};

use crate::commands;
use crate::exit::Exit;
use crate::report::{self, Report};

/// The heading of the options for a recovery target.
const HEADING: &str =
    "To a point in time between or after backups, with the log that 'remora binlog' archived";

/// The options for a recovery target.
#[derive(Debug, Args)]
pub(super) struct TargetOptions {
    /// Replay the archived log until a TIME, a GTID (or one of each domain, separated by commas),
    /// FILE:POSITION, or 'end'. Transactions that ended at TIME or before are in
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true, help_heading = HEADING,
        conflicts_with_all = ["before", "before_statement"])]
    until: Option<RecoveryTarget>,

    /// Replay it until just before this transaction
    #[arg(long, value_name = "GTID", help_heading = HEADING, value_parser = single, conflicts_with = "before_statement")]
    before: Option<Range>,

    /// Replay it until just before the newest transaction with this text in a statement. Quotes, spaces,
    /// comments and a database before a name do not count
    #[arg(long, value_name = "TEXT", help_heading = HEADING)]
    before_statement: Option<String>,

    /// Which timeline of the archive [default: the newest]
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(super) timeline: Option<u32>,

    /// Say what would be done and what would come next, and do nothing. Needs no --to
    #[arg(long, help_heading = HEADING)]
    pub(super) plan: bool,

    /// Which server of this machine replays, or reads for --tables, named as in 'sandbox start', or the path
    /// of its program [default: the one that the data folder calls for]
    #[arg(long, value_name = "NAME|PATH")]
    pub(super) server: Option<sandbox::ServerChoice>,

    /// An option for that server, such as --lower-case-table-names=1
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(super) server_option: Vec<String>,
}

impl TargetOptions {
    /// The recovery target, if one is given.
    pub(super) fn recovery_target(&self) -> Option<RecoveryTarget> {
        let before = self.before.clone().map(RecoveryTarget::Before);
        let statement =
            || self.before_statement.as_deref().map(|it| RecoveryTarget::BeforeStatement(Wording::new(it)));
        self.until.clone().or(before).or_else(statement)
    }

    /// Refuses options that have a meaning only with a recovery target. `server`: a server is started in any
    /// case.
    pub(super) fn refuse_without_target(&self, server: bool) -> Result<()> {
        if self.timeline.is_some() || self.plan {
            return Err(usage("--timeline and --plan need --until, --before or --before-statement"));
        }
        if !server && (self.server.is_some() || !self.server_option.is_empty()) {
            return Err(usage(
                "--server and --server-option need --tables, --until, --before or --before-statement",
            ));
        }
        Ok(())
    }
}

pub(super) fn run(target: &RecoveryTarget, arguments: &super::Arguments, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    let own = &arguments.until;
    let (named, wanted) = repository::one(&arguments.from, arguments.key.read_full()?.as_ref())?;
    if arguments.delta || arguments.overwrite || arguments.keep_going || !arguments.path.is_empty() {
        return Err(usage(
            "--until, --before and --before-statement restore all files into a new folder, and only what is sound: leave out \
             --path, --delta, --overwrite and --keep-going",
        ));
    }
    if let Some(to) = &arguments.to {
        if to.host.is_some() {
            return Err(usage(
                "the replay needs the data on this machine: restore here, and copy the folder",
            ));
        }
        if to.path.symlink_metadata().is_ok() {
            return Err(usage(format!("{} exists already; a new folder is needed", to.path.display())));
        }
    }
    let stop = commands::stop_flag(report)?;
    let recovery = Recovery::find((&named, wanted), target, own.timeline, &report.shared())?;
    if own.plan {
        return plan(&named, &recovery, report);
    }
    let mut summary = ReplaySummary::new(&named, &recovery);
    let request = WholeRequest {
        target: arguments.target()?.path.as_path(),
        server: own.server.as_ref(),
        server_options: &own.server_option,
        jobs: arguments.jobs.unwrap_or_else(commands::cores),
    };
    let (reached, tables) = pitr::whole::restore(&named, recovery, &request, &stop, &report.shared())?;
    report.end();
    summary.tables = Some(tables);
    summary.seconds = Some(began.elapsed().as_secs_f64());
    summary.tell("is restored", &reached, report)?;
    tell_prepared(&reached.found.plan, report);
    Ok(exit(&reached.found))
}

/// The exit code: if the archive may not reach the target time, the result is partial.
pub(super) fn exit(found: &Found) -> Exit {
    if found.is_open { Exit::Partial } else { Exit::Done }
}

/// Says what would be done.
pub(super) fn plan(named: &Named, recovery: &Recovery<'_>, report: &Report) -> Result<Exit> {
    let reached = recovery.plan()?;
    ReplaySummary::new(named, recovery).tell("would be restored", reached, report)?;
    tell_prepared(&reached.found.plan, report);
    Ok(exit(&reached.found))
}

/// The summary of a replay, or of its plan.
pub(super) struct ReplaySummary {
    name: String,
    generation: u64,
    timeline: String,
    /// How many tables were checked.
    pub(super) tables: Option<usize>,
    pub(super) seconds: Option<f64>,
}

impl ReplaySummary {
    pub(super) fn new(named: &Named, recovery: &Recovery<'_>) -> ReplaySummary {
        let (name, timeline) = (named.name.clone(), recovery.log.timeline.clone());
        ReplaySummary { name, generation: recovery.generation, timeline, tables: None, seconds: None }
    }

    /// The same as JSON.
    pub(super) fn json(&self, reached: &Reached) -> Value {
        let ReplaySummary { name, generation, timeline, .. } = self;
        let Reached { start, found } = reached;
        let (replay, (file, offset)) = (&found.plan, &start.own);
        let mut message = json!({
            "message_type": "summary", "name": name, "generation": generation, "timeline": timeline,
            "from_file": file, "from_offset": offset, "transactions": replay.transactions,
            "bytes_of_log": replay.bytes, "gtid": last(replay), "time": replay.time.map(date_time::machine),
            "next": replay.next, "by_arrival_time": found.judged.count,
            "backup_timeline": start.timeline, "missing_transactions": start.lacks,
            "prepared": replay.prepared.keys().map(server::xa_literal).collect::<Vec<_>>(),
        });
        if let Some(tables) = self.tables {
            message["tables"] = tables.into();
        }
        if let Some(seconds) = self.seconds {
            message["seconds"] = seconds.into();
        }
        message
    }

    pub(super) fn tell(&self, done: &str, reached: &Reached, report: &Report) -> Result<()> {
        if report.is_json() {
            report.message(&self.json(reached))?;
            return Ok(());
        }
        let ReplaySummary { name, generation, .. } = self;
        let Reached { start, found } = reached;
        let (file, offset) = &start.own;
        let (replay, last) = (&found.plan, last(&found.plan));
        let when = replay.time.map(|time| format!(" ({})", date_time::shown(time))).unwrap_or_default();
        let to = if last.is_empty() { String::new() } else { format!(" to {last}{when}") };
        let tables = self.tables.map(|number| format!("; {} checked", count(number as u64, "table")));
        let tables = tables.unwrap_or_default();
        let seconds = self.seconds.map(|seconds| format!(", {seconds:.1} s")).unwrap_or_default();
        report.note(&format!(
            "{name}@{generation} at {file}:{offset} {done}, with {} of log: {}{to}{tables}{seconds}",
            report::size(replay.bytes),
            count(replay.transactions, "transaction"),
        ));
        tell_other(start, &self.timeline, report);
        match &replay.next {
            Some(next) => report.note(&format!("next would be {next}")),
            None if found.is_open => report.warn(
                "the archived log has nothing later than that time, and did not have everything up to it: what the server wrote \
                 after the last transaction is not archived yet",
            ),
            None => report.note("that is the end of the archived log"),
        }
        found.judged.tell(report);
        if found.others > 0 {
            let others = count(found.others, "earlier transaction");
            report.note(&format!(
                "the text is in {others} too: see 'remora log --statement'; --before chooses one"
            ));
        }
        if replay.by_statement > 0 {
            report.note(&format!(
                "{} as statements, as DDL always is: the result of a statement may differ",
                if replay.by_statement == 1 {
                    "1 of them is logged".to_owned()
                } else {
                    format!("{} of them are logged", replay.by_statement)
                }
            ));
        }
        Ok(())
    }
}

/// Says that the timeline that is replayed is of another server than the generation, and what it lacks.
fn tell_other(
    Start { own, here, timeline: backup_timeline, lacks }: &Start,
    timeline: &str,
    report: &Report,
) {
    let Some(backup_timeline) = backup_timeline else { return };
    report.note(&format!(
        "the generation is in the log of another server, timeline {backup_timeline}: timeline {timeline} has the same \
         transactions up to {}:{}",
        here.0, here.1
    ));
    if !lacks.is_empty() {
        report.warn(&format!(
            "timeline {timeline} lacks transactions that timeline {backup_timeline} has after {}:{}: {}. That server has not \
             logged them, so they are not replayed; '--timeline {backup_timeline}' replays timeline {backup_timeline} instead",
            own.0,
            own.1,
            lacks.join(", ")
        ));
    }
}

/// Says what the transactions in XA PREPARE need: because of their locks nobody can change their rows.
fn tell_prepared(replay: &ReplayPlan, report: &Report) {
    if replay.prepared.is_empty() {
        return;
    }
    let shown = replay.prepared.iter().map(|(xa, gtid)| format!("{} ({gtid})", server::xa_literal(xa)));
    let shown: Vec<String> = shown.collect();
    report.warn(&format!(
        "in XA PREPARE at that point in time, neither committed nor rolled back, and holding locks: {}. A server with these data lists them \
         with XA RECOVER; XA COMMIT or XA ROLLBACK with the name that is shown here ends each",
        shown.join("; ")
    ));
}

/// The last transaction of each domain.
fn last(replay: &ReplayPlan) -> String {
    replay.last.values().map(String::as_str).collect::<Vec<&str>>().join(",")
}
