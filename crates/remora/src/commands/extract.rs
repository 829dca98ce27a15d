//! `remora extract`

mod file_copies;
mod folder;
mod output;
mod place;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use block::RunContext;
use clap::Args;
use dump::{Pattern, Selection};
use failure::usage;
use physical::{Counts, File, Format, RowReader, Source, Table, TableFiles};
use progress::{Part, Progress, count};
use repository::AnyDisk;
use repository::address::is_in_store;
use serde_json::json;
use server::TableName;
use server::catalogue::{self, Wanted};

use self::folder::Folder;
use self::output::Output;
use self::place::Place;
use crate::commands::{self, stop_flag};
use crate::exit::Exit;
use crate::keys::KeyArguments;
use crate::report::{self, Report};

const EXAMPLES: &str = "EXAMPLES
  remora extract /var/lib/mysql -o rows
      all tables of a server that is stopped, a file for each in folder rows
  remora extract /var/lib/mysql shop.orders -o - | head
      one table, to standard output
  remora extract /copy/mysql 'shop.*' --exclude '*.tmp_*' --format csv -o shop
      some tables, as CSV
  remora extract /copy/shop/orders.ibd -o orders.tsv
      one file of FLUSH TABLES shop.orders FOR EXPORT, with its .cfg and .frm beside it
  remora extract /backup/db1@12 shop.orders -o orders.tsv
      one table as it was in generation 12 of a backup
  remora extract /backup/db1 'shop.*' --format dump -o shop && remora load shop
      a database of the newest generation, as a dump, into a server
  remora extract orders.ibd --schema orders.sql -o orders.tsv
      without the .frm: orders.sql is what SHOW CREATE TABLE says
  remora extract /var/lib/mysql shop.orders --force --deleted -o found
      after a wrong DELETE: what is still in the pages, in found/shop.orders.deleted.tsv";

/// The server's own databases, which are read only if they are named.
const SYSTEM: [&str; 4] = ["mysql", "sys", "performance_schema", "information_schema"];

/// Read the rows of InnoDB tables out of their files, without a server
///
/// The files must be those of a stopped server (mariadb-admin shutdown), or must have been copied while FLUSH
/// TABLES ... FOR EXPORT held its locks. remora sees in the files whether that is so, and refuses others.
/// Every page is proven by its checksum and its place in the tree; a damaged one is named by file and number.
///
/// Of a backup only the blocks of the tables are read. If it was taken while the server ran, all of it is
/// restored into a temporary folder, and a private server is started on it once, so that InnoDB recovers it.
///
/// Rows are written in the order of the primary key: as LOAD DATA reads them with CHARACTER SET binary and
/// time_zone '+00:00', the same text as in `remora dump`, or as CSV. Computed columns are left out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A data folder, the folder of a database, a folder of exported files, an .ibd file, or REPO/NAME@N for
    /// generation N of a backup [default: the newest], in which REPO may be s3://BUCKET/PREFIX
    #[arg(value_name = "SOURCE")]
    source: PathBuf,

    /// Tables: db or db.table with * and ?, or /regex/ looked for in db.table [default: all but the server's
    /// own]
    #[arg(value_name = "NAME")]
    names: Vec<Pattern>,

    /// A folder to make, with a file for each table. A name that ends with .tsv or .csv is a file for one
    /// table, - is standard output. With --format dump or parquet also s3://BUCKET/FOLDER
    #[arg(short, long, value_name = "DIR|FILE")]
    output: PathBuf,

    /// Leave these out: db or db.table with * and ?, or /regex/. May be given several times
    #[arg(long, value_name = "NAME")]
    exclude: Vec<Pattern>,

    /// A file with the CREATE TABLE of the tables, as SHOW CREATE TABLE prints it, instead of their .frm
    /// files. MySQL 8 and later has definitions in its .ibd files
    #[arg(long, value_name = "FILE.sql")]
    schema: Option<PathBuf>,

    /// Format of the output: tsv, as LOAD DATA reads it, csv, or a folder that 'remora load' takes: dump, or
    /// parquet, whose files DuckDB, Spark and the like read
    #[arg(long, value_name = "NAME", default_value = "tsv", value_parser = format)]
    format: Form,

    /// Also write what is left of deleted rows, into a file of its own for each table: how each was found,
    /// the page, then the columns. With --force the files are copied first
    #[arg(long)]
    deleted: bool,

    /// Read files that may be of different times, and leave damaged pages out. Each is reported
    #[arg(long)]
    force: bool,

    /// Where in the backup the data folder is [default: found by itself]
    #[arg(long, value_name = "PATH")]
    data_folder: Option<PathBuf>,

    /// Which server of this machine recovers a backup that was not of a stopped server, named as in 'sandbox
    /// start', or the path of its program [default: the one that the data folder calls for]
    #[arg(long, value_name = "NAME|PATH")]
    server: Option<sandbox::ServerChoice>,

    /// An option for that server, such as --innodb-data-file-path=ibdata1:1G;ibdata2:1G:autoextend
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    server_option: Vec<String>,

    /// A folder with room for the whole backup, if it has to be recovered, or for the files that --deleted
    /// copies [default: the one for temporary files]
    #[arg(long, value_name = "FOLDER")]
    work: Option<PathBuf>,

    /// Threads that read and decode [default: one for each processor]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<std::num::NonZeroU16>,

    #[command(flatten)]
    key: KeyArguments,
}

/// The result.
struct Outcome {
    tables: usize,
    sum: Counts,
    left_out: LeftOut,
    /// The generation that was read, if it was one of a backup.
    generation: Option<u64>,
}

/// A table to read.
struct Wish {
    name: TableName,
    table: Table,
    files: Vec<File>,
    /// Its description in a dump.
    described: Option<catalogue::Table>,
    /// Whether there is a file with triggers.
    has_triggers: bool,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Files of rows.
    Rows(Format),
    /// A dump folder, with data files of this format.
    Dump(dump::Format),
}

impl Form {
    /// The form of rows.
    fn rows(self) -> Format {
        match self {
            Form::Rows(format) => format,
            Form::Dump(_) => Format::Tsv,
        }
    }

    fn is_dump(self) -> bool {
        matches!(self, Form::Dump(_))
    }
}

/// Where rows go.
enum To<'a> {
    Files(Output),
    Dump(Box<Folder<'a>>),
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let disk = AnyDisk::default();
    if arguments.format.is_dump() {
        folder::check(arguments, &disk)?;
    } else if is_in_store(&arguments.output) {
        return Err(usage("-o s3://... goes with --format dump or parquet"));
    }
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).with_context(|| format!("--schema {}", path.display()))
    };
    let statements = arguments.schema.as_ref().map(read).transpose()?;
    let stop = stop_flag(report)?;
    let world = RunContext { stop: &stop, progress: report };
    let place = Place::find(arguments, report, world)?;
    let tables = chosen(arguments, &place.source)?.len();
    let output = match arguments.format {
        Form::Rows(format) => {
            Some(Output::new((&arguments.output, format), tables, arguments.deleted, report)?)
        }
        Form::Dump(_) => None,
    };
    let place = place.trusted(arguments, report, world)?;
    if arguments.format.is_dump() {
        folder::check_definitions(arguments, &place)?;
    }
    let (wishes, mut left_out) = wishes(arguments, statements.as_deref(), &place)?;
    // Before anything is made.
    if wishes.is_empty() {
        refuse_nothing(&left_out, report)?;
    }
    let mut to = match output {
        Some(output) => To::Files(output.prepare()?),
        None => To::Dump(Box::new(Folder::begin(arguments, &disk, &place, &wishes)?)),
    };
    let bytes: u64 = wishes.iter().flat_map(|wish| &wish.files).map(File::len).sum();
    report.phase("extracting", Some(bytes * if arguments.deleted { 2 } else { 1 }));
    let mut sum = Counts::default();
    let mut done = 0;
    for wish in &wishes {
        match extract(arguments, wish, &mut to, &stop, report) {
            Ok(counts) => {
                sum += counts;
                done += 1;
            }
            Err(error) if wishes.len() == 1 || stop.load(Ordering::Relaxed) || !is_of_table(&error) => {
                return Err(error);
            }
            Err(error) => {
                left_out.push((format!("{}: {}", wish.name, failure::text(&error)), Exit::of(&error)))
            }
        }
    }
    report.end();
    if let To::Dump(folder) = to {
        let more = folder.finish(left_out.iter().map(|(line, _)| line.clone()))?;
        left_out.extend(more.into_iter().map(|line| (line, Exit::Partial)));
    }
    if done == 0 {
        refuse_nothing(&left_out, report)?;
    }
    tell(&left_out, report);
    let outcome = Outcome { tables: done, sum, left_out, generation: place.generation() };
    summarise(arguments, &outcome, began.elapsed().as_secs_f64(), report)?;
    let left_out = outcome.left_out;
    let damaged = sum.damaged > 0 || left_out.iter().any(|(_, exit)| *exit == Exit::Damaged);
    Ok(match damaged {
        true => Exit::Damaged,
        false if left_out.is_empty() => Exit::Done,
        false => Exit::Partial,
    })
}

fn selection(include: Vec<Pattern>, exclude: Vec<Pattern>) -> Selection {
    Selection { include, exclude, no_accounts: true }
}

/// The requested tables.
fn chosen<'a>(arguments: &Arguments, source: &'a Source) -> anyhow::Result<Vec<&'a TableFiles>> {
    for pattern in &arguments.names {
        let alone = selection(vec![pattern.clone()], Vec::new());
        if !source.tables.iter().any(|table| alone.table(&table.schema, &table.name)) {
            return Err(usage(format!(
                "{pattern}: there is no such table in {}",
                arguments.source.display()
            )));
        }
    }
    let all = selection(arguments.names.clone(), arguments.exclude.clone());
    let is_chosen = |table: &&TableFiles| {
        let own =
            arguments.names.is_empty() && source.data.is_some() && SYSTEM.contains(&table.schema.as_str());
        !own && all.table(&table.schema, &table.name)
    };
    Ok(source.tables.iter().filter(is_chosen).collect())
}

/// What can't be read, each with its reason, and the exit code of that alone.
type LeftOut = Vec<(String, Exit)>;

/// Opens the files of the tables.
fn wishes(
    arguments: &Arguments,
    statements: Option<&str>,
    place: &Place,
) -> anyhow::Result<(Vec<Wish>, LeftOut)> {
    let (disk, chosen) = (&*place.disk, chosen(arguments, &place.source)?);
    // A named table that does not exist was an error already.
    let unread = place.unread.iter().filter(|_| arguments.names.is_empty());
    let mut left_out: LeftOut = unread.map(|line| (line.clone(), Exit::Partial)).collect();
    let mut wishes = Vec::new();
    for files in &chosen {
        let name = TableName { schema: files.schema.clone(), table: files.name.clone() };
        let opened = open(arguments, files, statements, place);
        let opened = opened.and_then(|opened| {
            let Some((table, opened)) = opened else { return Ok(None) };
            let mut described = None;
            if arguments.format.is_dump() {
                described = folder::described(files, &table, statements, place)?;
                if described.is_none() {
                    return Ok(None);
                }
            }
            let triggers = files.files.first().map(|path| path.with_extension("TRG"));
            let has_triggers = triggers.is_some_and(|path| disk.stat(&path).is_ok());
            Ok(Some(Wish { name: name.clone(), table, files: opened, described, has_triggers }))
        });
        match opened {
            // A view has no rows, and a sequence is no table.
            Ok(None) => {}
            Ok(Some(wish)) => wishes.push(wish),
            Err(error) if chosen.len() == 1 => return Err(error.into()),
            Err(error) => {
                let error = anyhow::Error::from(error);
                left_out.push((format!("{name}: {}", failure::text(&error)), Exit::of(&error)));
            }
        }
    }
    Ok((wishes, left_out))
}

/// Opens the files of a table. None for a view.
fn open(
    arguments: &Arguments,
    files: &TableFiles,
    statements: Option<&str>,
    place: &Place,
) -> Result<Option<(Table, Vec<File>)>, physical::Error> {
    // The definition may be in a file that a server is writing to, too.
    let paths = files.files.iter().map(|path| place.path(path).to_owned()).collect();
    let copied = TableFiles { files: paths, ..files.clone() };
    let Some(table) = copied.definition(&*place.disk, statements)? else { return Ok(None) };
    let files = copied.files.iter().map(|path| File::open(&*place.disk, path));
    let files = files.collect::<Result<Vec<File>, _>>()?;
    // A single file may be one of several partitions.
    if arguments.source.extension().is_none_or(|end| end != "ibd") {
        check_complete(&table, &files)?;
    }
    Ok(Some((table, files)))
}

/// Checks that each tablespace of the table is there, if its definition says which it has.
fn check_complete(table: &Table, files: &[File]) -> Result<(), physical::Error> {
    let is_there = |id: &u32| files.iter().any(|file| file.space().id == *id);
    match table.spaces().iter().find(|id| !is_there(id)) {
        None => Ok(()),
        Some(id) => {
            Err(physical::Error::Missing(format!("the file of its tablespace {id} is not beside the others")))
        }
    }
}

fn tell(left_out: &LeftOut, report: &Report) {
    for (line, _) in left_out {
        report.warn(&format!("not extracted: {line}"));
    }
}

/// Fails when there were tables and none could be read.
fn refuse_nothing(left_out: &LeftOut, report: &Report) -> anyhow::Result<()> {
    tell(left_out, report);
    anyhow::ensure!(left_out.is_empty(), "no table was extracted");
    Ok(())
}

/// Whether the error concerns only this table, so that the next one can still be read.
fn is_of_table(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(physical::Error::File { .. } | physical::Error::Io { .. }))
}

fn extract(
    arguments: &Arguments,
    wish: &Wish,
    to: &mut To<'_>,
    stop: &AtomicBool,
    report: &Report,
) -> anyhow::Result<Counts> {
    let rows = RowReader {
        table: &wish.table,
        format: arguments.format.rows(),
        threads: arguments.threads.map_or_else(commands::cores, |threads| usize::from(threads.get())),
        lenient: arguments.force,
        stop,
        progress: report,
    };
    let mut sum = Counts::default();
    let write = |out: &mut dyn Write| {
        for file in &wish.files {
            sum += rows.write(file, out)?;
        }
        Ok(())
    };
    match to {
        To::Files(output) => output.write(&wish.name, "", write)?,
        To::Dump(folder) => folder.table(wish, write)?,
    }
    if sum.past > 0 {
        let line = format!("{}: {} of the past left out", wish.name, count(sum.past, "row"));
        match to {
            To::Files(_) => report.note(&line),
            To::Dump(folder) => folder.omit(line),
        }
    }
    if let (true, To::Files(output)) = (arguments.deleted, to) {
        let mut found = 0;
        output.write(&wish.name, ".deleted", |out| {
            for file in &wish.files {
                found += rows.write_deleted(file, out)?.rows;
            }
            Ok(())
        })?;
        report.note(&format!("{}: {} left of deleted ones", wish.name, count(found, "row")));
    }
    let name = wish.name.to_string();
    let bytes = wish.files.iter().map(File::len).sum();
    report.part(&Part { name: &name, rows: sum.rows, bytes: sum.bytes, bytes_total: bytes, is_whole: true });
    Ok(sum)
}

fn summarise(arguments: &Arguments, outcome: &Outcome, seconds: f64, report: &Report) -> anyhow::Result<()> {
    let Outcome { tables, sum, left_out, generation } = outcome;
    let rate = report::as_f64(sum.rows) / seconds;
    if report.is_json() {
        let left_out: Vec<&String> = left_out.iter().map(|(line, _)| line).collect();
        report.message(&json!({
            "message_type": "summary", "output": arguments.output, "generation": generation, "tables": tables, "rows": sum.rows,
            "text_bytes": sum.bytes, "damaged_pages": sum.damaged, "omitted": left_out, "seconds": seconds,
            "rows_per_second": rate,
        }))?;
        return Ok(());
    }
    report.note(&format!(
        "{} of {}, {} of text in {seconds:.1} s, {}",
        count(sum.rows, "row"),
        count(*tables, "table"),
        report::size(sum.bytes),
        report::rate(rate),
    ));
    Ok(())
}

fn format(text: &str) -> Result<Form, String> {
    match text {
        "tsv" => Ok(Form::Rows(Format::Tsv)),
        "csv" => Ok(Form::Rows(Format::Csv)),
        "dump" => Ok(Form::Dump(dump::Format::Tsv)),
        "parquet" => Ok(Form::Dump(dump::Format::Parquet)),
        _ => Err("tsv, csv, dump or parquet".to_owned()),
    }
}
