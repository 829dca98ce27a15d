//! `remora verify --replay`: a generation and the archived log from there must be the next generation. What
//! was changed without the log is in the next one only, and a recovery would silently lack it.

use std::time::Instant;

use anyhow::Result;
use pitr::log_check::{LogCheck, pair};
use pitr::must_replay_all;
use progress::{Progress, count};
use serde_json::json;

use super::Arguments;
use crate::commands;
use crate::exit::Exit;
use crate::report::{self, Report};

/// The mark of a difference in a table's counter alone. Such a difference is no defect: inserts that were
/// rolled back advance the counter, and are in no log.
const COUNTER: &str = ": AUTO_INCREMENT is ";

pub(super) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    must_replay_all(&arguments.server_option)?;
    let text = arguments.repository.to_string_lossy();
    let (named, number) = repository::one(&text, arguments.key.read_full()?.as_ref())?;
    let (before, after) = pair(&named, number)?;
    let stop = commands::stop_flag(report)?;
    let check = LogCheck {
        named: &named,
        server: arguments.server.as_ref(),
        server_options: &arguments.server_option,
        work: arguments.work.as_deref(),
        jobs: arguments.jobs.unwrap_or_else(commands::cores),
        sessions: commands::cores(),
        stop: &stop,
        report: &report.shared(),
    };
    let found = match check.compare(&before, &after) {
        Ok(found) => found,
        Err(error) => return super::after_damage(error, &named, commands::cores(), (&stop, report)),
    };
    report.end();
    let name = &named.name;
    let (before, after) = (before.number, after.number);
    let seconds = began.elapsed().as_secs_f64();
    let lines: Vec<&String> = found.lines.iter().filter(|line| !line.contains(COUNTER)).collect();
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "name": name, "generation": after, "before": before, "tables": found.tables,
            "rows": found.rows, "differences": lines, "seconds": seconds,
        }))?;
    } else {
        lines.iter().try_for_each(|line| report.data(line))?;
        let differences = match lines.len() {
            0 => "all equal".to_owned(),
            number => count(number as u64, "difference"),
        };
        report.note(&format!(
            "{name}@{before} and the archived log up to {name}@{after}: {}, {}, {differences}, {seconds:.1} s",
            count(found.tables as u64, "table"),
            report::rows(found.rows),
        ));
    }
    if lines.is_empty() {
        return Ok(Exit::Done);
    }
    report.warn(&format!(
        "what {name}@{after} has and the log lacks was changed without the log (sql_log_bin=0, log_bin off for a while, \
         binlog_ignore_db), or a statement in the log makes something else each time (binlog_format=STATEMENT or MIXED). A recovery \
         from {name}@{before} would lack it too: one from {name}@{after} or later does not"
    ));
    Ok(Exit::Damaged)
}
