//! `remora log --to`: changes as files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use changes::{Format, LogPosition, Start};
use clap::{Args, ValueEnum};
use dump::Manifest;
use failure::usage;
use humanize::{date_time, text};
use progress::{Progress, count};
use repository::AnyDisk;
use serde_json::json;

use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::log_request::Request;
use crate::report::Report;

/// How often the log is looked at for more.
const EVERY: &str = "60s";

/// Where changes go, and in which form.
#[derive(Debug, Args)]
#[command(next_help_heading = "Changes as files")]
pub(super) struct PublishArguments {
    /// Write the changes of rows as files into this folder, or into s3://BUCKET/FOLDER. The next run
    /// continues where the last one ended
    #[arg(long, value_name = "FOLDER", requires = "format", conflicts_with_all = [
        "rows", "statements", "stat", "since", "until", "gtid", "conditions", "statement",
    ])]
    pub(super) to: Option<PathBuf>,

    /// With --to: jsonl for JSON lines in Debezium's envelope, or parquet
    #[arg(long, value_name = "NAME", requires = "to")]
    format: Option<FormatName>,

    /// With --to: look for more, for ever
    #[arg(long, requires = "to")]
    follow: bool,

    /// With --follow: how often to look, which is how often there are new files: 10s, 5m
    #[arg(long, value_name = "TIME", requires = "follow", value_parser = interval, default_value = EVERY)]
    every: Duration,

    /// With --to: begin with the changes after this dump, which was made of the same server, here or at
    /// s3://BUCKET/FOLDER. Without it, the first run begins with the first file of the log
    #[arg(long, value_name = "DUMP", requires = "to", conflicts_with = "position")]
    after: Option<PathBuf>,

    /// With --to: begin at this position, between two transactions
    #[arg(long, value_name = "FILE:OFFSET", requires = "to")]
    position: Option<LogPosition>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    Jsonl,
    Parquet,
}

fn interval(text: &str) -> Result<Duration, String> {
    date_time::duration_s(text).map(Duration::from_secs).map_err(|error| error.to_string())
}

/// The position of a dump in its server's log.
fn after(disk: &AnyDisk, folder: &Path) -> Result<LogPosition> {
    disk.check(folder)?;
    let manifest = Manifest::read(disk, folder)?;
    let position = manifest.source.position;
    let position = position.with_context(|| {
        format!("{}: the dump has no position in a binary log: was log_bin off?", folder.display())
    })?;
    Ok(LogPosition { timeline: 0, file: position.file, at: position.offset })
}

/// What the log is called: the last part of its name.
fn name(request: &Request) -> String {
    request.first().map_or_else(String::new, |path| {
        path.file_name().map_or_else(|| text::path(path), |name| name.to_string_lossy().into_owned())
    })
}

pub(super) fn run(options: &PublishArguments, to: &Path, request: &Request, report: &Report) -> Result<Exit> {
    let format = match options.format.context("--to needs --format")? {
        FormatName::Jsonl => Format::Jsonl,
        FormatName::Parquet => Format::Parquet,
    };
    let disk = AnyDisk::default();
    disk.check(to)?;
    let start = match (&options.after, &options.position) {
        (Some(folder), _) => Start::At(after(&disk, folder)?),
        (None, Some(position)) => Start::At(position.clone()),
        (None, None) => Start::First,
    };
    let (known, filter) = (request.known()?, request.filter());
    let stop = stop_flag(report)?;
    let wanted = changes::Request {
        name: name(request),
        files: &|| request.files(false),
        filter: &filter,
        known: &known,
        to: to.to_owned(),
        format,
        start,
        every: options.follow.then_some(options.every),
        batch_bytes: changes::BATCH_BYTES,
    };
    if options.every.is_zero() {
        return Err(usage("--every needs at least a second"));
    }
    report.phase("changes", None);
    let summary = changes::publish(&wanted, &disk, report, &stop)?;
    report.end();
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "folder": to, "changes": summary.rows, "files": summary.files,
            "next": summary.next,
        }))?;
    } else {
        report.note(&format!(
            "{} in {} of {}, up to {}",
            count(summary.rows, "change"),
            count(summary.files, "file"),
            to.display(),
            summary.next
        ));
    }
    let is_stopped = stop.load(std::sync::atomic::Ordering::Relaxed);
    Ok(if is_stopped { stopped() } else { Exit::Done.after(summary.completeness) })
}
