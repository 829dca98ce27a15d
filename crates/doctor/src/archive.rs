//! The binary log, and its archive.

use std::time::Duration;

use humanize::date_time;
use progress::count;

use crate::facts::{Archive, Encryption, Facts, Repository, Server};
use crate::finding::{Finding, Fix, bad, good, warning};

/// How far an archive may be behind, in seconds. It notes each minute that it has everything.
const BEHIND_MAX_S: i64 = 180;
/// How long the server must keep its log, so that an archive that was stopped continues without a gap.
const KEPT_MIN_S: u64 = 86_400;

/// What the server writes into its log, and how long it keeps that.
pub(crate) fn binary_log(facts: &Facts) -> Vec<Finding> {
    let server = &facts.server;
    if !server.is_on("log_bin") {
        let what = "it is off: what is committed after a backup can't be brought back, and remora log, binlog, reverse and restore \
                    --until have nothing to read";
        return vec![bad("log_bin", what, Some(Fix::Restart("log_bin=binlog".to_owned())))];
    }
    let mut lines = vec![good("log_bin", "it is on"), format(server)];
    lines.extend(image(server));
    lines.extend(metadata(server));
    lines.push(expiry(facts));
    lines.extend(left_out(server));
    lines
}

fn format(server: &Server) -> Finding {
    const NAME: &str = "binlog_format";
    match server.text(NAME) {
        "ROW" => good(NAME, "ROW: every changed row is in the log"),
        other => warning(
            NAME,
            format!(
                "{other}: remora reverse refuses what is logged as statements, log does not see its rows, and a replay of \
                 it may differ"
            ),
            Fix::set(NAME, "'ROW'"),
        ),
    }
}

fn image(server: &Server) -> Option<Finding> {
    const NAME: &str = "binlog_row_image";
    Some(match server.settings.get(NAME)?.as_str() {
        full @ ("FULL" | "FULL_NODUP") => good(NAME, format!("{full}: rows are in the log as they were")),
        other => warning(
            NAME,
            format!("{other}: not all values of a row are in the log, so remora reverse refuses it"),
            Fix::set(NAME, "'FULL'"),
        ),
    })
}

fn metadata(server: &Server) -> Option<Finding> {
    const NAME: &str = "binlog_row_metadata";
    Some(match server.settings.get(NAME)?.as_str() {
        "FULL" => good(NAME, "FULL: the names of columns are in the log"),
        other => warning(
            NAME,
            format!(
                "{other}: the log does not name columns: log calls them @1, @2, and reverse needs the definitions, from a backup \
                 beside the archive or with --schema"
            ),
            Fix::set(NAME, "'FULL'"),
        ),
    })
}

/// How long the server keeps its log, in seconds; 0 for ever.
fn kept_s(server: &Server) -> u64 {
    let seconds = server.number("binlog_expire_logs_seconds");
    // These may have a fraction.
    let days = server.text("expire_logs_days").parse::<f64>().unwrap_or(0.0);
    let of_days = Duration::try_from_secs_f64(days * 86_400.0).unwrap_or_default().as_secs();
    seconds.filter(|seconds| *seconds > 0).unwrap_or(of_days)
}

fn expiry(facts: &Facts) -> Finding {
    const SUBJECT: &str = "expiry of the log";
    let server = &facts.server;
    if let Some(total) = server.number("max_binlog_total_size").filter(|total| *total > 0) {
        let what = format!(
            "the server keeps {} of its log (max_binlog_total_size): a busy hour may remove what is not archived yet",
            progress::size(total)
        );
        return warning(SUBJECT, what, Fix::set("max_binlog_total_size", "0"));
    }
    match kept_s(server) {
        0 => good(SUBJECT, "the server removes none of its log by itself"),
        kept if kept < KEPT_MIN_S => {
            let name = match server.settings.get("binlog_expire_logs_seconds") {
                Some(_) => ("binlog_expire_logs_seconds", "604800"),
                None => ("expire_logs_days", "7"),
            };
            let what = format!(
                "the server keeps its log for {}: an archive that is stopped for longer has a gap",
                long(kept)
            );
            warning(SUBJECT, what, Fix::set(name.0, name.1))
        }
        kept => good(SUBJECT, format!("the server keeps its log for {}", long(kept))),
    }
}

/// `7 days`, `3 hours`
fn long(seconds: u64) -> String {
    match seconds {
        KEPT_MIN_S.. => count(seconds / KEPT_MIN_S, "day"),
        3600.. => count(seconds / 3600, "hour"),
        _ => count(seconds, "second"),
    }
}

/// What the log does not have.
fn left_out(server: &Server) -> Vec<Finding> {
    let mut lines = Vec::new();
    if !server.filters.is_empty() {
        lines.push(warning(
            "log filters",
            format!("changes of some databases are not logged ({})", server.filters.join(", ")),
            Some(Fix::Restart("without binlog_do_db and binlog_ignore_db".to_owned())),
        ));
    }
    if server.is_replica == Some(true) && !server.is_on("log_slave_updates") {
        lines.push(warning(
            "log_slave_updates",
            "it is OFF: what this replica gets from its source is not in its log",
            Some(Fix::Restart("log_slave_updates=ON".to_owned())),
        ));
    }
    lines
}

/// The archive beside the backups.
pub(crate) fn archived(found: &Repository, facts: &Facts) -> Option<Finding> {
    const SUBJECT: &str = "archive";
    let (server, shown) = (&facts.server, &found.shown);
    let is_unopened = found.encryption == Encryption::Unopened;
    if !server.is_on("log_bin") || found.error.is_some() || is_unopened {
        return None;
    }
    let command =
        Some(Fix::Command(format!("remora binlog {shown} (let the system start it, and start it again)")));
    let attached = match server.receivers {
        Some(0) => "; nobody receives the server's log now",
        _ => "",
    };
    Some(match &found.archive {
        Archive::None => warning(
            SUBJECT,
            format!(
                "the binary log is not archived: what was committed after the newest backup goes with the server{attached}"
            ),
            command,
        ),
        Archive::There(None) => bad(SUBJECT, format!("it never had all of the log{attached}"), command),
        Archive::There(Some(when)) => {
            let behind = facts.now_s - when;
            let at = date_time::shown(*when);
            let kept = i64::try_from(kept_s(server)).unwrap_or(i64::MAX);
            match behind {
                ..=BEHIND_MAX_S => good(SUBJECT, format!("it had everything at {at}")),
                _ if kept > 0 && behind > kept / 2 => bad(
                    SUBJECT,
                    format!(
                        "it last had everything at {at}, and the server removes the rest of its log soon{attached}"
                    ),
                    command,
                ),
                _ => bad(SUBJECT, format!("it last had everything at {at}{attached}"), command),
            }
        }
    })
}
