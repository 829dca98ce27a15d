//! `remora dump`

mod inspect;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use codec::Codec;
use disk::RealDisk;
use dump::{
    ColumnNames, Conditions, Definer, DumpRequest, DumpSummary, EncodingSet, Format, Limits, OddPolicy,
    ParquetRequest, Pattern, ReadRequest, Selection,
};
use failure::usage;
use progress::{Progress, count};
use repository::AnyDisk;
use serde_json::json;

use crate::args::{MaskArgs, ServerArgs};
use crate::commands::{self, stop_flag};
use crate::exit::Exit;
use crate::report::{self, Report};

/// The highest level of zstd.
const ZSTD_LEVEL_MAX: u32 = 22;

const EXAMPLES: &str = "EXAMPLES
  remora dump -o /backup/monday
      everything the server holds, users and grants too
  remora dump shop web.hits -o shop.dump
      database shop with its routines and events, and one table of web
  remora dump --exclude '*.tmp_*' -o monday.dump
      everything but some tables
  remora dump '/^shop_[0-9]+\\./' --exclude '/_(log|tmp)$/' -o shops.dump
      names by regular expression, looked for in db.table
  remora dump shop --no-data -o shop.schema
      definitions only
  remora dump shop.orders --where 'day >= \"2026-01-01\"' -o year.dump
      some rows of a table
  remora dump shop --where 'shop.log*:day >= \"2026-01-01\"' -o small.dump
      some rows of some tables, all of the others
  remora dump shop --mask 'shop.users.email=fake:email' --mask '*.*.password=null' -o test.dump
      a dump for tests, with masked addresses and without passwords
  remora dump -o /backup/monday --resume
      go on with a dump that was stopped
  remora dump shop --format parquet -o shop.parquet
      files for DuckDB, Spark, Trino, ClickHouse, pandas; load takes them, too
  remora dump shop -o s3://company-dumps/monday
      into an object store; load, diff and --check take it from there
  remora dump --check /backup/monday
      whether all files of a dump are what they were";

/// Dump a server into a folder: parallel, one state of the data, a hash for every chunk
///
/// All sessions read one snapshot. On MariaDB with a binary log this takes no lock at all; elsewhere commits
/// wait for some milliseconds. The folder holds the schema as plain SQL, data as files that LOAD DATA reads,
/// and a manifest that is written last: a folder without one is no dump.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Databases and tables: db or db.table with * and ?, or /regex/; everything if none is named
    #[arg(value_name = "NAME")]
    names: Vec<Pattern>,

    /// The folder to make, here or in an object store: s3://BUCKET/FOLDER
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["list", "check"])]
    output: Option<PathBuf>,

    /// Show what is in a dump, here or at s3://BUCKET/FOLDER, without a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "names", "check"])]
    list: Option<PathBuf>,

    /// Read all of a dump, here or at s3://BUCKET/FOLDER, and compare it with its manifest, without a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "names"])]
    check: Option<PathBuf>,

    /// Leave these out: db or db.table with * and ?, or /regex/. May be given several times
    #[arg(long, value_name = "NAME")]
    exclude: Vec<Pattern>,

    /// Leave roles, users and grants out
    #[arg(long)]
    no_users: bool,

    /// Definitions only
    #[arg(long, conflicts_with = "condition")]
    no_data: bool,

    /// Make this account the definer of views, routines, triggers and events [default: unchanged]
    #[arg(long, value_name = "USER@HOST", value_parser = account)]
    definer: Option<Definer>,

    /// Leave the old rows of system-versioned tables out
    #[arg(long)]
    no_history: bool,

    /// Only rows that meet this SQL condition, in every table; or in some: db.table:SQL, with * and ?. May be
    /// given several times
    #[arg(long = "where", value_name = "[TABLE:]SQL")]
    condition: Vec<String>,

    #[command(flatten)]
    masks: MaskArgs,

    /// Continue a stopped dump into this folder: complete tables are kept, the rest is read from a new
    /// snapshot
    #[arg(long)]
    resume: bool,

    /// Format of the data files: tsv, csv, sql for other clients, or parquet for DuckDB, Spark and the like
    #[arg(long, value_name = "NAME", default_value = "tsv", value_parser = format)]
    format: Format,

    /// What becomes of values that Parquet can't hold, such as the date 0000-00-00. keep: NULL in the files,
    /// and in the folder odd, from which load puts them back. fail: the dump ends [default: keep]
    #[arg(long, value_name = "HOW")]
    odd: Option<OddPolicy>,

    /// Put rows into folders by the value of this column, as Hive does: day=2026-11-28. The column is in the
    /// names of the folders then, and in no file. In every table that has it, or in some: db.table:COLUMN,
    /// with * and ?. May be given several times, for other tables
    #[arg(long, value_name = "[TABLE:]COLUMN")]
    partition: Vec<String>,

    /// Write Bloom filters for this column, by which a reader that looks for one value leaves most of a file
    /// out. In every table that has it, or in some: db.table:COLUMN, with * and ?. May be given several times
    #[arg(long, value_name = "[TABLE:]COLUMN")]
    bloom: Vec<String>,

    /// Encodings of Parquet that are tried for each column. known: those that all readers know. new: also
    /// numbers split into their bytes, which Spark 3.5 can't read [default: known]
    #[arg(long, value_name = "SET")]
    encodings: Option<EncodingSet>,

    /// zstd, lz4, gzip, column or none, with a level after a colon: zstd:3. Column mode makes the smallest
    /// files, which only remora reads. Parquet takes zstd or none [default: zstd:1, for parquet zstd:3]
    #[arg(long, value_name = "CODEC", value_parser = compression)]
    compress: Option<(Codec, u32)>,

    /// Sessions that read at the same time [default: one for each processor]
    #[arg(short = 'j', long, value_name = "N")]
    sessions: Option<std::num::NonZeroU16>,

    /// Bytes of a table that make a chunk, such as 16M [default: as fits the sessions]
    #[arg(long, value_name = "SIZE", value_parser = super::import::size)]
    chunk: Option<usize>,

    /// Read at most this many bytes of text per second, such as 20M
    #[arg(long, value_name = "SIZE", value_parser = super::import::size)]
    max_rate: Option<usize>,

    /// Begin no chunk while more threads than this run in the server, besides ours
    #[arg(long, value_name = "N")]
    max_threads_running: Option<u64>,

    /// Block DDL on the dumped tables until their rows are read. Without it DDL continues, and a table that
    /// is altered between its chunks can't be dumped in this state
    #[arg(long)]
    block_ddl: bool,

    /// Seconds to wait for a lock
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    lock_wait: u32,

    /// Kill queries that delay the lock for longer than that
    #[arg(long)]
    kill_long_queries: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    if let Some(folder) = &arguments.list {
        return inspect::list(folder, report);
    }
    if let Some(folder) = &arguments.check {
        return inspect::check(
            folder,
            arguments.sessions.map_or(0, |count| usize::from(count.get())),
            report,
        );
    }
    let began = Instant::now();
    let target = arguments.server.target(password)?;
    let world = world(report, arguments.output.as_deref())?;
    let request = DumpRequest {
        read: ReadRequest {
            selection: Selection {
                include: arguments.names.clone(),
                exclude: arguments.exclude.clone(),
                no_accounts: arguments.no_users,
            },
            sessions: sessions(arguments.sessions, 0),
            conditions: conditions(&arguments.condition)?,
            masks: arguments.masks.masks()?,
            data: !arguments.no_data,
            history: !arguments.no_history,
            chunk_bytes: arguments.chunk.map(|bytes| bytes as u64),
            limits: Limits {
                bytes_per_second: arguments.max_rate.map(|bytes| bytes as u64),
                threads_running: arguments.max_threads_running,
            },
            lock_wait: Duration::from_secs(arguments.lock_wait.into()),
            block_ddl: arguments.block_ddl,
            kill_long_queries: arguments.kill_long_queries,
        },
        folder: arguments.output.clone().unwrap_or_default(),
        resume: arguments.resume,
        format: arguments.format,
        codec: compress(arguments)?,
        parquet: parquet(arguments)?,
        definer: arguments.definer.clone().unwrap_or_default(),
    };
    let summary = dump::dump(&world, &target, &request)?;
    report.end();
    summary.manifest.states().iter().for_each(|line| report.warn(line));
    for line in &summary.omitted {
        report.warn(&format!("not in the dump: {line}"));
    }
    let odd = summary.manifest.odd();
    odd.iter().for_each(|line| report.warn(line));
    summary.manifest.mistaken().iter().for_each(|line| report.note(line));
    summarise(&request, &summary, began.elapsed().as_secs_f64(), report)?;
    Ok(if summary.omitted.is_empty() && odd.is_empty() { Exit::Done } else { Exit::Partial })
}

/// The surroundings for dumps, loads and comparisons. `folders`: those of dumps, which may be in a store.
pub(crate) fn world<'a>(
    report: &Report,
    folders: impl IntoIterator<Item = &'a Path>,
) -> anyhow::Result<dump::Context> {
    let disk = AnyDisk::default();
    folders.into_iter().try_for_each(|folder| disk.check(folder))?;
    Ok(dump::Context {
        disk: Arc::new(disk),
        server: Arc::new(RealDisk),
        stop: stop_flag(report)?,
        progress: Arc::new(report.clone()),
    })
}

/// The given number of sessions, or else one for each processor and `more` besides.
pub(crate) fn sessions(given: Option<std::num::NonZeroU16>, more: usize) -> usize {
    given.map_or_else(|| commands::cores() + more, |sessions| usize::from(sessions.get()))
}

fn summarise(
    request: &DumpRequest,
    summary: &DumpSummary,
    seconds: f64,
    report: &Report,
) -> anyhow::Result<()> {
    let manifest = &summary.manifest;
    let rate = report::as_f64(summary.rows) / seconds;
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "folder": request.folder, "tables": manifest.tables.len(),
            "objects": manifest.objects.len(), "rows": summary.rows, "text_bytes": summary.text_bytes,
            "file_bytes": summary.file_bytes, "seconds": seconds, "rows_per_second": rate,
            "position": manifest.source.position, "earlier": manifest.earlier, "snapshot": manifest.source.snapshot, "omitted": summary.omitted, "odd": manifest.odd(),
        }))?;
        return Ok(());
    }
    report.note(&format!(
        "{} and {} in {}: {}, {} of text in {}, {seconds:.1} s, {}",
        count(manifest.tables.len(), "table"),
        count(manifest.objects.len(), "other object"),
        request.folder.display(),
        count(summary.rows, "row"),
        report::size(summary.text_bytes),
        report::size(summary.file_bytes),
        report::rate(rate),
    ));
    Ok(())
}

pub(super) fn conditions(texts: &[String]) -> anyhow::Result<Conditions> {
    let mut conditions = Conditions::default();
    for text in texts {
        conditions.add(text).map_err(|why| usage(format!("--where: {why}")))?;
    }
    Ok(conditions)
}

fn format(text: &str) -> Result<Format, String> {
    Format::ALL
        .into_iter()
        .find(|format| format.extension() == text)
        .ok_or_else(|| "tsv, csv, sql or parquet".to_owned())
}

/// What is only for files of Parquet.
fn parquet(arguments: &Arguments) -> anyhow::Result<ParquetRequest> {
    let given = [
        ("--odd", arguments.odd.is_some()),
        ("--partition", !arguments.partition.is_empty()),
        ("--bloom", !arguments.bloom.is_empty()),
        ("--encodings", arguments.encodings.is_some()),
    ];
    if arguments.format != Format::Parquet
        && let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given)
    {
        return Err(usage(format!("{option} goes with --format parquet")));
    }
    let columns = |texts: &[String]| {
        let mut columns = ColumnNames::default();
        texts.iter().for_each(|text| columns.add(text));
        columns
    };
    Ok(ParquetRequest {
        odd: arguments.odd.unwrap_or_default(),
        partition: columns(&arguments.partition),
        bloom: columns(&arguments.bloom),
        encodings: arguments.encodings.unwrap_or_default(),
    })
}

/// The compression that was asked for, or what is usual for the format.
fn compress(arguments: &Arguments) -> anyhow::Result<(Codec, u32)> {
    match (arguments.format, arguments.compress) {
        (Format::Parquet, None) => Ok(dump::PARQUET_CODEC),
        (_, None) => Ok((Codec::Zstd, 1)),
        (Format::Parquet, Some((Codec::Zstd, level))) if (1..=ZSTD_LEVEL_MAX).contains(&level) => {
            Ok((Codec::Zstd, level))
        }
        (Format::Parquet, Some((Codec::Plain, _))) => Ok((Codec::Plain, 0)),
        (Format::Parquet, Some(_)) => {
            Err(usage("--format parquet is compressed inside: --compress zstd:1 to zstd:22, or none"))
        }
        (_, Some(codec)) => Ok(codec),
    }
}

fn compression(text: &str) -> Result<(Codec, u32), String> {
    let (name, level) = match text.split_once(':') {
        None => (text, None),
        Some((name, level)) => {
            (name, Some(level.parse::<u32>().map_err(|_| "the level is a number".to_owned())?))
        }
    };
    let (codec, usual) = match name {
        "zstd" => (Codec::Zstd, 1),
        "lz4" => (Codec::Lz4, 1),
        "gzip" => (Codec::Gzip, 6),
        "column" => (Codec::Column, 3),
        "none" => (Codec::Plain, 0),
        _ => return Err("zstd, lz4, gzip, column or none".to_owned()),
    };
    Ok((codec, level.unwrap_or(usual)))
}

/// An account as the definer.
pub(super) fn account(text: &str) -> Result<Definer, String> {
    match text.rsplit_once('@') {
        Some((user, host)) if !user.is_empty() && !host.is_empty() => {
            Ok(Definer::Account(format!("{}@{}", server::quote_name(user), server::quote_name(host))))
        }
        _ => Err("an account is user@host".to_owned()),
    }
}
