//! The sessions of an import, and their settings.

use server::{Flavour, Session};

use crate::context::Context;
use crate::job::{Job, LoadStrategy};
use crate::request::{OnDuplicate, Request};
use crate::{Error, insert};

/// SQL modes that change the meaning of remora's own statements: `'\\'`, and `''` for an empty string.
const NOT_OURS: [&str; 2] = ["NO_BACKSLASH_ESCAPES", "EMPTY_STRING_IS_NULL"];

/// Prepares the session that creates tables, keeps the ledger and renames tables.
pub(crate) fn prepare(session: &mut Session) -> Result<(), Error> {
    session.execute("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION', wait_timeout = 31536000")?;
    if session.about.flavour == Flavour::MariaDb {
        // A member of a cluster then has what an import through another one has done before. And to import,
        // check or copy a large table takes long.
        session.execute("SET SESSION wsrep_sync_wait = 1, max_statement_time = 0")?;
    }
    Ok(())
}

/// Sets whether a session writes to the binary log. Either all sessions of an import do or none: a swap
/// without the rows would empty the table on every replica.
pub(crate) fn log(session: &mut Session, logged: bool) -> Result<(), Error> {
    session.execute(&format!("SET SESSION sql_log_bin = {}", u8::from(logged)))?;
    Ok(())
}

/// A session that is ready to load the rows of a job.
pub(crate) fn for_rows(request: &Request, context: &Context<'_>, job: &Job) -> Result<Session, Error> {
    let mut session = (context.connect)()?;
    let about = &session.about;
    let asked = job.sql_mode.as_ref().or(request.sql_mode.as_ref()).unwrap_or(&about.sql_mode);
    let mut modes: Vec<&str> = asked.split(',').filter(|mode| !NOT_OURS.contains(&mode.trim())).collect();
    modes.extend(["STRICT_ALL_TABLES", "NO_AUTO_VALUE_ON_ZERO"]);
    let mut set = vec![
        format!("sql_mode = '{}'", modes.join(",").trim_start_matches(',')),
        "wait_timeout = 31536000".to_owned(),
        "net_read_timeout = 600".to_owned(),
        "net_write_timeout = 600".to_owned(),
    ];
    if about.flavour == Flavour::MariaDb {
        set.push("max_statement_time = 0".to_owned());
    }
    if matches!(job.strategy, LoadStrategy::Shadow | LoadStrategy::ShadowUnsafe) {
        // Here only our own sessions wait for each other, for two rows with the same key.
        set.push("innodb_lock_wait_timeout = 3600".to_owned());
    }
    if let Some(zone) = job.time_zone.as_ref().or(request.time_zone.as_ref()) {
        set.push(format!("time_zone = {}", session.quote(zone)));
    }
    if job.no_binlog {
        set.push("sql_log_bin = 0".to_owned());
    }
    if request.defer_checks {
        set.push("foreign_key_checks = 0".to_owned());
    }
    session.execute(&format!("SET SESSION {}", set.join(", ")))?;
    // Only warnings tell what INSERT IGNORE leaves out. MySQL lets only administrators set their number.
    let ignored = job.on_duplicate == OnDuplicate::Ignore;
    let warnings = if ignored { 2 * insert::IGNORED_MAX } else { 1000 };
    session.set_where_known(&[&format!("max_error_count = {warnings}")])?;
    Ok(session)
}
