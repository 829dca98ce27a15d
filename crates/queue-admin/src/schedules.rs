//! The schedules of a server.

use anyhow::Context;
use server::{Error, Session};

/// A message that is put into a queue again and again.
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// When: a cron expression.
    pub spec: String,
    /// The time zone of it.
    pub zone: String,
    /// The queue, as `db.table`.
    pub target: String,
    /// Whether it is delivered.
    pub is_enabled: bool,
    /// When it was delivered last, in UTC.
    pub last: Option<String>,
    /// When it comes next, in UTC.
    pub next: Option<String>,
    /// In how many seconds that is; less than 0 if it is late.
    pub until_s: Option<i64>,
    /// Why it is not delivered.
    pub error: Option<String>,
}

const STATEMENT: &str = "SELECT name, spec, zone, target, enabled, DATE_FORMAT(last_tick, '%Y-%m-%d %H:%i:%s'), \
     DATE_FORMAT(next_tick, '%Y-%m-%d %H:%i:%s'), TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), next_tick), error \
     FROM mysql.queue_schedule ORDER BY name";

/// All schedules of a server, by name.
///
/// # Errors
/// When the server has none, because sql/queue.sql was not run there, or may not show them.
pub fn schedules(session: &mut Session) -> anyhow::Result<Vec<Schedule>> {
    let rows = session.strings(STATEMENT).map_err(|error| match error {
        Error::Sql { code: 1146, .. } => anyhow::Error::new(error)
            .context("the server has no schedules; run sql/queue.sql of this version there"),
        error => error.into(),
    })?;
    rows.into_iter().map(|row| schedule(row).context("mysql.queue_schedule is of another version")).collect()
}

fn schedule(row: Vec<Option<String>>) -> Option<Schedule> {
    let [Some(name), Some(spec), Some(zone), Some(target), Some(enabled), last, next, until, error] =
        <[Option<String>; 9]>::try_from(row).ok()?
    else {
        return None;
    };
    let until_s = until.map(|text| text.parse()).transpose().ok()?;
    Some(Schedule { name, spec, zone, target, is_enabled: enabled != "0", last, next, until_s, error })
}
