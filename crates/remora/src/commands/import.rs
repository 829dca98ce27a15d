//! `remora import`

mod file_format;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use disk::Disk;
use file_format::FileFormatArgs;
use import::option_value::{self, Delimiter, Maybe, assignment, columns};
use import::source::Stdin;
use import::{Duplicates, Indexes, Input, Mode, OnDuplicate, Physical, Request, Summary};
use progress::{Progress, count};
use repack::InterruptibleStdin;
use repository::AnyDisk;
use rows::{Habits, Hints, Json, Nulls};
use serde_json::json;
use server::Target;

use crate::args::{MachineArgs, ServerArgs};
use crate::commands::table_name;
use crate::exit::Exit;
use crate::report::{self, Report};
pub(super) use import::option_value::size;

/// Rejects that are listed one by one on the terminal; the file has all.
const REJECTS_SHOWN: usize = 20;

const EXAMPLES: &str = "EXAMPLES
  remora import hits.csv.zst --into web.hits --create
      make web.hits with types that hold every value of the file, and load it
  remora import 'part-*.tsv' --into shop.orders --replace
      load several files as one, then put them in place of what the table holds
  zcat day.csv.gz | remora import - --into shop.orders --append --max-rejects 100
      add rows from a pipe; up to 100 bad ones go to stdin.rejects
  remora import 'trips-*.parquet' --into taxi.trips --create
      make the table with the types of the files' columns, and load them
  remora import dirty.csv --into t.people --columns 'name,-,@born' --set 'born=STR_TO_DATE(@born,\"%d.%m.%Y\")'
      leave the second field out, compute a column from the third
  remora import stock.csv --into shop.stock --append --on-duplicate update
      add what is new, and give rows whose key is there the values of the file
  remora import nodes.tsv.zst --into osm.nodes --physical
      write the table's file instead of sending rows, on the server's own machine: about twice as fast
  remora import hits.csv --into web.hits --create --dry-run
      print the CREATE TABLE and what was recognised, change nothing";

/// Load CSV, TSV, JSON lines, Parquet or Arrow into a table: fast, all or nothing, bad rows named
///
/// Text files may be plain or compressed with gzip, zstd, lz4, xz or bzip2. Delimiter, quotes, line ends,
/// header and encoding are recognised and reported in one line; each of them can be given instead. Parquet
/// and Arrow IPC files (Feather) say themselves what their columns are; --create makes the same types.
///
/// Rows go into a staging table, which takes the target's name when all of them are in: readers see the old
/// table or the new one, and a failed import leaves the old one. A table with triggers or foreign keys is
/// loaded in one transaction instead. remora compares the server's counts with what it sent, so no row is
/// dropped or changed silently. --resume continues an import that was killed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files, patterns such as 'day-*.csv.gz', both also in an object store as s3://BUCKET/day-*.csv.gz, or -
    /// for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,

    /// The table: db.table, or table with --database
    #[arg(long, value_name = "TABLE")]
    into: String,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    file_format: FileFormatArgs,

    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Table")]
struct TableArgs {
    /// Make the table, with types that hold every value of the whole file and have room for somewhat larger
    /// ones
    #[arg(long)]
    create: bool,

    /// With --create: also make the database, if there is none. It stays when the import fails
    #[arg(long, requires = "create")]
    create_database: bool,

    /// With --create: the tightest types that hold every value
    #[arg(long, requires = "create")]
    tight: bool,

    /// With --create: the type of a column, such as 'price=DECIMAL(12,4) NOT NULL'. May be given several
    /// times
    #[arg(long = "type", value_name = "COLUMN=SQL", requires = "create")]
    types: Vec<String>,

    /// Primary key of a table that is made [default: the first column, if its values are unique]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', requires = "create")]
    key: Option<Vec<String>>,

    /// Make the table without a primary key
    #[arg(long, requires = "create", conflicts_with = "key")]
    no_key: bool,

    /// Replace the rows of the table by these, all at once
    #[arg(long)]
    replace: bool,

    /// Add the rows to those in the table: all or nothing, in one transaction
    #[arg(long, conflicts_with_all = ["replace", "create"])]
    append: bool,

    /// With --append: several sessions that commit as they go; faster, and readers see rows come in
    #[arg(long, requires = "append")]
    by_chunk: bool,

    /// What to do with a row whose key exists already: error (it is a bad row), ignore (leave it out),
    /// replace (the row that exists) or update (the row that exists gets its values) [default: error]
    #[arg(long, value_name = "WHAT", default_value = "error", value_parser = option_value::on_duplicate, hide_default_value = true)]
    on_duplicate: OnDuplicate,

    /// Where each field goes, in the order of the file: a column, - to leave it out, @name to use it in --set
    #[arg(long, value_name = "LIST")]
    columns: Option<String>,

    /// Compute a column from fields: total=@price*@count. May be given several times
    #[arg(long, value_name = "COLUMN=SQL")]
    set: Vec<String>,

    /// When plain secondary indexes are built: auto, before or after the rows
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = option_value::indexes)]
    indexes: Indexes,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
struct RunArgs {
    /// Write up to N bad rows to FILE.rejects and continue; ends with exit code 3
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_rejects: u64,

    /// Continue an import that was stopped or killed, also by a crash of the server
    #[arg(long, conflicts_with = "restart")]
    resume: bool,

    /// Remove what a stopped import left, and begin again
    #[arg(long)]
    restart: bool,

    /// Sessions that load at the same time [default: one more than cores, up to 9]
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    sessions: Option<u16>,

    /// Bytes that are loaded and committed at once [default: 8M, less for small files]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    chunk: Option<usize>,

    /// Write the table's file and let the server import it, instead of sending rows to the server: about
    /// twice as fast. For MariaDB on this machine, or on that of --server-at. Where that can't be done,
    /// remora says why, and with 'only' the import ends, with 'auto' it sends the rows [without WHEN: only]
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "only", value_parser = option_value::physical)]
    physical: Option<Physical>,

    #[command(flatten)]
    machine: MachineArgs,

    /// Let commits not wait for the disk while loading: server-wide settings, which are restored afterwards
    /// (see remora undo)
    #[arg(long)]
    relax_durability: bool,

    /// Keep the whole import out of the binary log: replicas will have neither the rows nor the table
    #[arg(long)]
    no_binlog: bool,

    /// Database for the staging table and the ledger while the import runs [default: the target's]
    #[arg(long, value_name = "DB")]
    work_database: Option<String>,

    /// Check foreign keys once at the end instead of at every row
    #[arg(long)]
    defer_checks: bool,

    /// Time zone of TIMESTAMP values in the files, such as +00:00 [default: the server's]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,

    /// sql_mode to load with, such as ALLOW_INVALID_DATES; strictness is added [default: the server's]
    #[arg(long, value_name = "MODES")]
    sql_mode: Option<String>,

    /// Let the server silently round and complete values: 5.4 becomes 5 in an INT, fractions of a second are
    /// cut, 70 is a YEAR [default: such a row is a bad row]
    #[arg(long)]
    round: bool,

    /// Print the CREATE TABLE and what was recognised, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(arguments: Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let mut target = arguments.server.target(password)?;
    let disk = AnyDisk::default();
    let request = arguments.request(&target, &disk)?;
    if request.create_database {
        // No session can begin in a database that is still to be made.
        target.database = None;
    }
    let stop = crate::commands::stop_flag(report)?;
    let folder = std::env::current_dir().context("the current folder")?;
    let stdin = request.inputs.contains(&Input::Stdin).then(|| Stdin {
        reader: Box::new(InterruptibleStdin { stop: Arc::clone(&stop) }),
        spool: std::env::temp_dir(),
    });
    let machine = arguments.run.machine.reach()?;
    let (connect, files) = (|| target.connect(), machine.files());
    let world = import::Context {
        disk: &disk,
        server: &*files,
        connect: &connect,
        folder,
        cores: super::cores(),
        stop,
        progress: report,
    };
    if arguments.run.dry_run {
        let preview = import::preview(&request, stdin, &world)?;
        report.end();
        let statement = preview.create.map(|sql| sql + ";");
        if report.is_json() {
            report.message(
                &json!({"message_type": "preview", "create": statement, "findings": preview.findings}),
            )?;
        } else if let Some(statement) = statement {
            report.data(&statement)?;
        }
        return Ok(Exit::Done);
    }
    let result = import::import(&request, stdin, &world);
    report.end();
    if let (Err(import::Error::Rejects { rejects, .. }), true) = (&result, report.is_json()) {
        // For people the error lists the rejects itself.
        tell_rejects(rejects, report)?;
    }
    let summary = result?;
    tell_rejects(&summary.rejects, report)?;
    summarise(&request, &summary, began.elapsed().as_secs_f64(), report)?;
    Ok(if summary.rejects.is_empty() { Exit::Done } else { Exit::Partial })
}

fn tell_rejects(rejects: &[import::Reject], report: &Report) -> anyhow::Result<()> {
    if report.is_json() {
        for reject in rejects {
            report.message(&json!({
                "message_type": "reject", "file": reject.name, "line": reject.line, "column": reject.column,
                "value": reject.value, "reason": reject.reason,
            }))?;
        }
        return Ok(());
    }
    for reject in rejects.iter().take(REJECTS_SHOWN) {
        report.warn(&reject.to_string());
    }
    if rejects.len() > REJECTS_SHOWN {
        report.warn(&format!("and {}", count(rejects.len() - REJECTS_SHOWN, "more bad row")));
    }
    Ok(())
}

fn summarise(request: &Request, summary: &Summary, seconds: f64, report: &Report) -> anyhow::Result<()> {
    let new = summary.rows.saturating_sub(summary.resumed_rows);
    let rate = report::as_f64(new) / seconds;
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "table": format!("{}.{}", request.table.schema, request.table.table),
            "rows": summary.rows, "rows_resumed": summary.resumed_rows, "rejects": summary.rejects.len(),
            "duplicates": summary.duplicates,
            "reject_files": summary.reject_files, "bytes": summary.bytes, "seconds": seconds, "rows_per_second": rate,
        }))?;
        return Ok(());
    }
    let resumed = match summary.resumed_rows {
        0 => String::new(),
        rows => format!(" ({rows} of them by the run before)"),
    };
    report.note(&format!(
        "{} into {}.{}{resumed}{}, {} rejected, {:.1} s, {}, {} of text",
        count(summary.rows, "row"),
        request.table.schema,
        request.table.table,
        duplicates(request.on_duplicate, &summary.duplicates),
        summary.rejects.len(),
        seconds,
        report::rate(rate),
        report::size(summary.bytes),
    ));
    for file in &summary.reject_files {
        report.note(&format!("rejected rows are in {0}, the reasons in {0}.why", file.display()));
    }
    Ok(())
}

/// What happened to rows whose key already existed.
fn duplicates(on: OnDuplicate, found: &Duplicates) -> String {
    match on {
        OnDuplicate::Error => String::new(),
        OnDuplicate::Ignore => format!(", {} ignored because their key was there", found.ignored),
        OnDuplicate::Replace => format!(", in place of {} that had their keys", found.replaced),
        OnDuplicate::Update => format!(
            ", of which {} updated the row with their key and {} found it unchanged",
            found.updated, found.unchanged
        ),
    }
}

impl Arguments {
    fn request(&self, target: &Target, disk: &AnyDisk) -> anyhow::Result<Request> {
        let (table, file_format, run) = (&self.table, &self.file_format, &self.run);
        // Clap accepts them together with options that conflict with --create.
        let of_new = table.tight || table.no_key || table.key.is_some() || !table.types.is_empty();
        if of_new && !table.create {
            return Err(failure::usage(
                "--tight, --type, --key and --no-key are for a table that is made: add --create",
            ));
        }
        let mode = match (table.replace, table.append) {
            (true, _) => Mode::Replace,
            (_, true) => Mode::Append { by_chunk: table.by_chunk },
            _ => Mode::New,
        };
        Ok(Request {
            inputs: inputs(&self.files, disk)?,
            table: table_name("--into", &self.into, target)?,
            mode,
            create: table.create,
            create_database: table.create_database,
            key: if table.no_key { Some(Vec::new()) } else { table.key.clone() },
            types: assignments("--type", &table.types)?,
            habits: Habits {
                date_order: file_format.date_order,
                decimal_comma: file_format.decimal_comma,
                roomy: !table.tight,
                ..Habits::default()
            },
            on_duplicate: table.on_duplicate,
            work_database: run.work_database.clone(),
            columns: table.columns.as_deref().map(columns).transpose().map_err(failure::usage)?,
            set: assignments("--set", &table.set)?,
            hints: Hints {
                delimiter: match &file_format.delimiter {
                    Some(Delimiter::Byte(byte)) => Some(*byte),
                    _ => None,
                },
                lenient: file_format.lenient(),
                json: file_format.fields.as_ref().map(|_| true).or(file_format.format),
                json_keys: file_format.fields.clone().map(|keys| Json { keys, leave_out: true }),
                skip_lines: file_format.skip_lines,
                quote: file_format.quote.map(|Maybe(byte)| byte),
                escape: file_format.escape.map(|Maybe(byte)| byte),
                line_end: file_format.line_end,
                header: if file_format.header { Some(true) } else { file_format.no_header.then_some(false) },
                encoding: file_format.encoding,
                ..Hints::default()
            },
            nulls: nulls(file_format),
            skip_repeated_header: file_format.repeated_header,
            nested_json: file_format.nested.is_some(),
            int96: file_format.int96,
            hive: file_format.hive,
            member: file_format.member.clone(),
            rejects_max: run.max_rejects,
            sessions: run.sessions.map(usize::from),
            chunk_bytes: run.chunk,
            resume: run.resume,
            restart: run.restart,
            indexes: table.indexes,
            physical: run.physical.unwrap_or_default(),
            relax_durability: run.relax_durability,
            no_binlog: run.no_binlog,
            defer_checks: run.defer_checks,
            time_zone: run.time_zone.clone(),
            sql_mode: run.sql_mode.clone(),
            round: run.round,
        })
    }
}

/// Columns and what they get, of an option that may be given several times.
fn assignments<C: FromIterator<(String, String)>>(option: &str, texts: &[String]) -> anyhow::Result<C> {
    texts.iter().map(|text| assignment(option, text).map_err(failure::usage)).collect()
}

/// Files, patterns and `-` as inputs; a pattern without a match is a mistake.
fn inputs(files: &[String], disk: &AnyDisk) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for file in files {
        if file == "-" {
            inputs.push(Input::Stdin);
            continue;
        }
        let path = Path::new(file);
        disk.check(path)?;
        let pattern = file.contains(['*', '?', '[']) && disk.stat(path).is_err();
        if !pattern {
            inputs.push(Input::Path(path.to_owned()));
            continue;
        }
        let paths = disk.matching(file)?;
        if paths.is_empty() {
            return Err(failure::usage(format!("{file}: no file matches")));
        }
        inputs.extend(paths.into_iter().map(Input::Path));
    }
    Ok(inputs)
}

fn nulls(file_format: &FileFormatArgs) -> Option<Nulls> {
    if file_format.no_null {
        return Some(Nulls { empty: false, words: Vec::new() });
    }
    if file_format.null.is_empty() {
        return None;
    }
    let words = file_format.null.iter().filter(|word| !word.is_empty()).map(|word| word.as_bytes().to_vec());
    Some(Nulls { empty: file_format.null.iter().any(String::is_empty), words: words.collect() })
}
