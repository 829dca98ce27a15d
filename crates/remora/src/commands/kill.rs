//! `remora kill`

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use failure::usage;
use locks::Picture;
use locks::kill::{How, Limits, Outcome, Selection, Target, choose};
use locks::text::{Text, loss, seen, unhelped};
use progress::{Progress, count, pause};
use serde_json::json;
use server::Session;

use crate::args::ServerArgs;
use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::report::Report;
use crate::way_in::enter;
use screen::terminal;

const EXAMPLES: &str = "EXAMPLES
  remora kill 4711                    what ending connection 4711 takes back; nothing is ended
  remora kill 4711 --yes              ends it, and waits until its transaction is rolled back
  remora kill 4711 --query --yes      ends only the statement that it runs
  remora kill --blocking --yes        those whom others wait for
  remora kill --of-user app           which connections of an account that would be
  remora kill --idle-transactions 10m --yes     transactions that nobody has used for ten minutes";

/// How long to wait between two looks at a rollback.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// End connections or their statements; show first which ones, and what would be rolled back
///
/// Nothing is ended without --yes. A connection that has begun something else since it was shown is left
/// alone, and so are remora's own, the server's threads, and replication.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[group(id = "whom", required = true, multiple = true, args = ["ids", "blocking", "user_of", "idle_transactions"])]
pub(crate) struct Arguments {
    /// Numbers of connections, as in the process list
    #[arg(value_name = "ID", conflicts_with_all = ["blocking", "idle_transactions"])]
    ids: Vec<u64>,

    /// Those for whom others wait, and who wait for nobody themselves
    #[arg(long)]
    blocking: bool,

    /// Connections of this account; together with other conditions, only those of this account
    #[arg(long = "of-user", value_name = "NAME")]
    user_of: Option<String>,

    /// Connections that have been idle for this long with an open transaction, such as 10m
    #[arg(long, value_name = "AGE")]
    idle_transactions: Option<String>,

    /// End them; without this option they are only shown
    #[arg(long)]
    yes: bool,

    /// End the statements that they run, not the connections: their transactions stay
    #[arg(long)]
    query: bool,

    /// End threads of replication, too
    #[arg(long)]
    replication: bool,

    /// Do not wait until the server has rolled back what they changed
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Whom the arguments mean.
fn selection(arguments: &Arguments) -> Result<Selection> {
    let Arguments { ids, blocking, user_of, idle_transactions, .. } = arguments;
    let idle = idle_transactions.as_deref().map(humanize::date_time::duration_s).transpose();
    let idle_s = idle.map_err(|error| usage(format!("--idle-transactions: {error}")))?;
    Ok(Selection { ids: ids.clone(), blocking: *blocking, user: user_of.clone(), idle_s })
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let selection = selection(arguments)?;
    let mut session = enter(&arguments.server, password, report)?;
    let picture = Picture::read(&mut session)?;
    for gap in picture.gaps.iter().filter(|gap| gap.hides_waiters || selection.blocking) {
        report.warn(&gap.what);
    }
    let limits = Limits { own: session.connection_id().into(), replication: arguments.replication };
    let how = if arguments.query { How::Query } else { How::Connection };
    // What is not seen may be those who are asked for.
    let is_blind = selection.blocking && !(picture.gaps.is_empty() && picture.unexplained.is_empty());
    let mut run = Run { how, left_out: 0, is_blind, report };
    let missing = selection.ids.iter().filter(|id| !picture.connections.contains_key(id));
    missing.for_each(|id| run.leave_out(&format!("there is no connection {id}")));
    let mut targets = Vec::new();
    for target in choose(&picture, &selection) {
        match target.objection(run.how, &limits) {
            // Nobody asked for it by name.
            Some(_) if target.connection.id == limits.own && selection.ids.is_empty() => {}
            Some(why) => run.leave_out(&why),
            None => targets.push(target),
        }
    }
    if selection.blocking && selection.user.is_none() && selection.idle_s.is_none() {
        run.tell_of_others(&picture, targets.is_empty());
    }
    run.show(&picture, &targets)?;
    if !arguments.yes && !targets.is_empty() {
        let what = count(targets.len(), if arguments.query { "statement" } else { "connection" });
        return Err(usage(format!("nothing was ended: --yes ends {what}")));
    }
    let stop = stop_flag(report)?;
    let ended = run.end(&mut session, targets)?;
    if !arguments.no_wait && !run.follow(&mut session, &ended, &stop)? {
        report.note("the server continues to roll back");
        return Ok(stopped());
    }
    run.finish(ended.len())
}

/// What was done so far.
struct Run<'a> {
    how: How,
    left_out: usize,
    /// Whether the server does not say all of who waits for whom.
    is_blind: bool,
    report: &'a Report,
}

impl Run<'_> {
    fn leave_out(&mut self, why: &str) {
        self.left_out += 1;
        self.report.warn(why);
    }

    /// Says who waits for somebody that is not ended, and why not.
    fn tell_of_others(&mut self, picture: &Picture, is_nobody_ended: bool) {
        let reasons = unhelped(picture);
        if is_nobody_ended && (self.is_blind || !reasons.is_empty()) {
            self.report.note(&seen(picture));
        }
        reasons.iter().for_each(|why| self.leave_out(why));
    }

    /// Shows whom, and what is lost by it.
    fn show(&self, picture: &Picture, targets: &[Target]) -> Result<()> {
        let width = Some(terminal::width().unwrap_or(terminal::USUAL_WIDTH));
        for target in targets {
            let connection = &target.connection;
            if self.report.is_json() {
                self.report.message(&json!({
                    "message_type": "connection", "connection": connection.id, "user": connection.user,
                    "host": connection.host, "idle": connection.is_idle(), "seconds": connection.seconds,
                    "statement": connection.statement, "last_statement": connection.last_statement,
                    "rows_changed": target.transaction.as_ref().map(|one| one.rows_modified),
                    "waiting_behind": target.waiting,
                }))?;
                continue;
            }
            let node = locks::Node::alone(locks::Party::Connection(connection.id), 0);
            Text { picture, width }.node(&node).iter().try_for_each(|line| self.report.data(line))?;
            self.report.data(&format!("      {}", loss(self.how, target)))?;
        }
        Ok(())
    }

    /// Tells the server to end them. Returns those that it was told of.
    fn end(&mut self, session: &mut Session, targets: Vec<Target>) -> Result<Vec<Target>> {
        let mut told = Vec::new();
        for target in targets {
            match target.end(session, self.how)? {
                Outcome::LeftOut(why) => self.leave_out(&why),
                Outcome::Told => told.push(target),
            }
        }
        Ok(told)
    }

    /// Waits until the server has ended them and rolled back what they changed. Returns false if the user
    /// stopped it.
    fn follow(&self, session: &mut Session, ended: &[Target], stop: &AtomicBool) -> Result<bool> {
        for target in ended {
            let total = usize::try_from(target.rows_to_roll_back()).unwrap_or(usize::MAX);
            self.report.phase(&format!("rolling back {}", target.connection.id), None);
            while let Some(left) = target.remaining(session, self.how)? {
                let left = usize::try_from(left).unwrap_or(usize::MAX).min(total);
                self.report.step(total - left, total, "row");
                if !pause(LOOK_AGAIN, stop) || stop.load(Ordering::Relaxed) {
                    self.report.end();
                    return Ok(false);
                }
            }
        }
        self.report.end();
        Ok(true)
    }

    fn finish(&self, ended: usize) -> Result<Exit> {
        let Run { report, left_out, is_blind, .. } = self;
        if report.is_json() {
            report.message(&json!({"message_type": "summary", "ended": ended, "left_out": left_out}))?;
        } else {
            let what = count(ended, if self.how == How::Query { "statement" } else { "connection" });
            report.note(&format!("ended {what}; left out {left_out}"));
        }
        match (ended, left_out) {
            _ if *is_blind => Ok(Exit::Partial),
            (_, 0) => Ok(Exit::Done),
            (0, _) => bail!("nothing was ended; the reasons are above"),
            _ => Ok(Exit::Partial),
        }
    }
}
