//! What `remora list` says of an archived binary log.

use anyhow::Result;
use binlog::archive::BeginReason;
use humanize::date_time;
use progress::Progress;
use repository::log_summary::{LogSummary, TimelineSummary};
use serde_json::json;

use super::shown_until;
use crate::report::{self, Report};

/// Says what is damaged or missing, as far as it is seen without reading all of it. Returns whether
/// something is.
pub(super) fn warn_of_damage(log: &LogSummary, report: &Report) -> bool {
    log.damages.iter().for_each(|damage| report.warn(&format!("{}: {damage}", log.name)));
    !log.damages.is_empty()
}

/// One line of output for each timeline.
pub(super) fn show(log: &LogSummary, report: &Report) -> Result<()> {
    for (at, timeline) in log.timelines.iter().enumerate() {
        let caught_up = log.caught_up.filter(|_| at + 1 == log.timelines.len());
        show_timeline(log, timeline, caught_up, report)?;
    }
    Ok(())
}

fn show_timeline(
    log: &LogSummary,
    timeline: &TimelineSummary,
    caught_up: Option<i64>,
    report: &Report,
) -> Result<()> {
    let info = &timeline.info;
    if report.is_json() {
        let mut shown = json!({
            "message_type": "log", "name": log.name, "timeline": timeline.number, "reason": info.reason,
            "began": date_time::machine(info.began_s), "server": info.server, "first_file": timeline.first,
            "last_file": timeline.last, "files": timeline.files, "bytes": timeline.bytes,
            "caught_up": caught_up.map(date_time::machine),
        });
        if log.is_retained {
            shown["retained_until"] = json!(timeline.until_s.map(date_time::machine));
        }
        return Ok(report.message(&shown)?);
    }
    let place = format!("{} log, timeline {}", log.name, timeline.number);
    let what = match info.reason {
        BeginReason::First => "log",
        BeginReason::Fork => "log after a fork",
        BeginReason::Gap => "log after a gap",
    };
    let [first, last] = [&timeline.first, &timeline.last].map(|file| file.as_deref().unwrap_or_default());
    let caught_up = caught_up.map(|when| format!("  caught up {}", date_time::shown(when)));
    let until = if log.is_retained { shown_until(timeline.until_s) } else { String::new() };
    report.data(&format!(
        "{place:<24} {}  {what:<16} {:>9}  {first} to {last}{}{until}",
        date_time::shown(info.began_s),
        report::size(timeline.bytes),
        caught_up.unwrap_or_default(),
    ))?;
    Ok(())
}

/// Why the archive may lack more than what was committed in the last seconds, if it may.
pub(super) fn too_old(log: &LogSummary, limit: u64, now_s: i64) -> Option<String> {
    let Some(when) = log.caught_up else { return Some("the log was never archived whole".to_owned()) };
    let is_old = u64::try_from(now_s - when).is_ok_and(|age| age > limit);
    is_old.then(|| {
        let when = date_time::shown(when);
        format!("the archive of the log last had everything at {when}: is 'remora binlog' still running?")
    })
}
