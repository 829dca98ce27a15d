//! Dead letters that go back to a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Result, bail};
use relay::column::{Column, columns};
use relay::{Route, Rows, To, queue_table};
use server::{Session, TableName, Target};

use crate::{rows, tries};

/// Which rows go back to which queue.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The queue with the rows that failed.
    pub queue: TableName,
    /// The queue that gets them.
    pub into: TableName,
    /// Only rows that this condition matches, in which the columns of FAILED and WHY may be named.
    pub condition: Option<String>,
    /// At most so many rows.
    pub limit: Option<u64>,
}

/// A retry that was checked: both are queues, each row fits, and rows that come later are left alone.
#[derive(Debug)]
pub struct Plan {
    /// What was asked for.
    pub wanted: Wanted,
    from: Target,
    /// The condition as `queue_wait` takes it.
    condition: Option<String>,
    /// The number of the first row that came too late.
    end: i64,
}

impl Plan {
    /// Checks a retry on a server. `session` is one of it.
    pub fn make(from: Target, session: &mut Session, wanted: Wanted) -> Result<Plan> {
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
    pub fn count(&self, session: &mut Session) -> Result<u64> {
        let route = self.route(Arc::default(), Arc::default());
        route.connect()?.check_condition(&route)?;
        let Wanted { queue, condition, limit, .. } = &self.wanted;
        session.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")?;
        let found = rows::count(session, queue, condition.as_deref())?;
        Ok(limit.map_or(found, |limit| limit.min(found)))
    }

    /// What moves the rows, until `stop` is set; `moved` counts them.
    pub fn route(&self, stop: Arc<AtomicBool>, moved: Arc<AtomicU64>) -> Route {
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
