//! `remora queue retry`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Result, bail};
use clap::Args;
use progress::{Progress, count};
use relay::column::{Column, columns};
use relay::{Route, Rows, To, queue_table};
use serde_json::json;
use server::{Session, TableName, Target};

use super::forwarded;
use super::{rows, tries};
use crate::args::ServerArgs;
use crate::commands::{stop_flag, table_name};
use crate::exit::Exit;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The queue with the rows that failed: db.table, or a table of -D
    #[arg(value_name = "DEAD")]
    queue: String,

    /// The queue that gets them, on the same server and with the same columns
    #[arg(long = "to", value_name = "QUEUE")]
    into: String,

    /// Only rows that this condition of queue_wait() matches, which may name the columns of FAILED and
    /// WHY; see docs/manual/queue.md#conditions
    #[arg(long = "where", value_name = "COND")]
    condition: Option<String>,

    /// At most so many rows, in the order of the queue
    #[arg(short = 'n', long = "rows", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Say how many rows it would be, and move none
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Which rows go back to which queue.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The queue with the rows that failed.
    pub(crate) queue: TableName,
    /// The queue that gets them.
    pub(crate) into: TableName,
    /// Only rows that this condition matches, in which the columns of FAILED and WHY may be named.
    pub(crate) condition: Option<String>,
    /// At most so many rows.
    pub(crate) limit: Option<u64>,
}

/// A retry that was checked: both are queues, each row fits, and rows that come later are left alone.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) wanted: Wanted,
    from: Target,
    /// The condition as `queue_wait` takes it.
    condition: Option<String>,
    /// The number of the first row that came too late.
    end: i64,
}

impl Plan {
    /// Checks a retry on a server. `session` is one of it.
    pub(crate) fn make(from: Target, session: &mut Session, wanted: Wanted) -> Result<Plan> {
        let Wanted { queue, into, condition, .. } = &wanted;
        queue_table::must_be_queue(session, queue)?;
        queue_table::must_be_queue(session, into)?;
        must_fit(session, queue, into)?;
        let definition = session.definition(queue)?;
        let condition = condition.as_deref().map(|condition| tries::asked(condition, &definition));
        let end = rows::end(session, queue)?;
        Ok(Plan { wanted, from, condition, end })
    }

    /// How many rows would move. Afterwards the session reads times as the relay does: as UTC.
    pub(crate) fn count(&self, session: &mut Session) -> Result<u64> {
        let route = self.route(Arc::default(), Arc::default());
        route.connect()?.check_condition(&route)?;
        let Wanted { queue, condition, limit, .. } = &self.wanted;
        session.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")?;
        let found = rows::count(session, queue, condition.as_deref())?;
        Ok(limit.map_or(found, |limit| limit.min(found)))
    }

    /// What moves the rows, until `stop` is set; `moved` counts them.
    pub(crate) fn route(&self, stop: Arc<AtomicBool>, moved: Arc<AtomicU64>) -> Route {
        let Wanted { queue, into, limit, .. } = self.wanted.clone();
        let rows = Rows {
            reader: None,
            condition: self.condition.clone(),
            once: true,
            limit,
            before: Some(self.end),
        };
        Route { from: self.from.clone(), queue, to: To::Queue(self.from.clone(), into), rows, stop, moved }
    }
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let target = arguments.server.target(password)?;
    let wanted = Wanted {
        queue: table_name("DEAD", &arguments.queue, &target)?,
        into: table_name("--to", &arguments.into, &target)?,
        condition: arguments.condition.clone(),
        limit: arguments.limit,
    };
    let mut session = target.connect()?;
    let plan = Plan::make(target, &mut session, wanted)?;
    let Wanted { queue, into, .. } = &plan.wanted;
    if arguments.dry_run {
        let rows = plan.count(&mut session)?;
        if report.is_json() {
            report.message(&json!({ "message_type": "summary", "rows": rows, "dry_run": true }))?;
        } else {
            report.note(&format!("{} would move from {queue} to {into}", count(rows, "row")));
        }
        return Ok(Exit::Done);
    }
    let route = plan.route(stop_flag(report)?, Arc::default());
    forwarded::tell(&format!("moved from {queue} to {into}"), route.run(report)?, report)
}

/// Each row has to fit unchanged: values that are cut off or left out could not be recovered.
fn must_fit(session: &mut Session, queue: &TableName, into: &TableName) -> Result<()> {
    let mut own =
        |table| Ok::<_, anyhow::Error>(columns(session, table)?.into_iter().filter(|one| !one.filled));
    let (from, to): (Vec<Column>, Vec<Column>) = (own(queue)?.collect(), own(into)?.collect());
    for (these, others, table, other) in [(&from, &to, queue, into), (&to, &from, into, queue)] {
        if let Some(column) = these.iter().find(|column| !others.iter().any(|one| one.is_like(column))) {
            bail!(
                "{table} has the column {} {}, and {other} has none of that name and type: ALTER one of them, or move \
                 the rows yourself with INSERT ... SELECT ... WHERE queue_wait(...)",
                column.name,
                column.written,
            );
        }
    }
    Ok(())
}
