//! `remora reverse`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use disk::{Output, RealDisk, Tree};
use failure::{Completeness, usage};
use flashback::{Cascades, FromBackups, Origin, Query, Records, Spool, Sums, Undo, script};
use humanize::text;
use pitr::Log;
use progress::{Progress, count};
use serde_json::json;
use transactions::{Definitions, Found, Known, Walk};

use crate::commands;
use crate::exit::Exit;
use crate::log_request::Request;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora log /var/lib/mysql --since -1h --statement 'delete from orders'
      find the transaction first
  remora reverse /var/lib/mysql --gtid 0-1-90113 --to undo.sql
      what takes it back; read undo.sql, then run it: mariadb --binary-mode shop < undo.sql
  remora reverse /var/lib/mysql --since '2026-11-22 19:00' --until '2026-11-22 19:10' --table shop.orders --to undo.sql
      everything that was done to one table in ten minutes
  remora reverse binlog.0000* --gtid 0-1-90113 --table shop.orders --where id=4711 --schema orders.sql
      one row; orders.sql is what SHOW CREATE TABLE says
  remora reverse /backup/db1 --gtid 0-1-90113 --children --to undo.sql
      with the rows that foreign keys deleted by cascade, from a backup and the log archived beside it";

/// Write SQL that undoes what transactions changed, such as a wrong DELETE
///
/// Deleted rows are inserted again, inserted ones deleted, changed ones set back, the last change first.
/// The log must have whole rows (binlog_row_image=FULL, binlog_format=ROW) and the names of the columns
/// (binlog_row_metadata=FULL), or --schema tells the names. Nothing is executed.
///
/// Name all files of the log up to its end, so that remora sees whether a table was altered or emptied
/// since. The script is one transaction. It commits only if every statement changed exactly its rows: if
/// somebody changed one of them since, nothing is changed. It also stops where triggers, foreign keys or
/// tables without transactions would do more than it says.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: Request,

    /// The file to write, which must not exist yet; without it the script goes to standard output
    #[arg(long, value_name = "FILE.sql")]
    to: Option<PathBuf>,

    /// Also what foreign keys changed by cascade (ON DELETE CASCADE, SET NULL), which no log has. A private
    /// server replays the archived log on a backup to just before each transaction. Needs REPO/NAME, or
    /// REPO/NAME@N for generation N
    #[arg(long)]
    children: bool,

    /// Continue although a table was altered or emptied, because its columns are the same as before
    #[arg(long)]
    despite_ddl: bool,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let request = &arguments.request;
    if !request.names_transactions() {
        return Err(usage(
            "say which transactions: --gtid, --since and --until, or --statement (remora log shows them)",
        ));
    }
    let to = arguments.to.as_deref();
    match to {
        Some(path) => must_be_new(path)?,
        None => {
            report.output()?;
        }
    }
    let (origin, found) = log(arguments, report)?;
    for damage in &found.damages {
        report.warn(damage);
    }
    let backups = origin.as_ref().map(FromBackups::beside).transpose()?;
    let (known, filter) = (request.known()?, request.filter());
    let further = backups.clone().map(|backups| backups as Rc<dyn Definitions>);
    let known = further.into_iter().fold(known, Known::and);
    let folder = to.map_or_else(std::env::temp_dir, folder);
    let spool = Spool::new(&folder).with_context(|| text::path(&folder))?;
    // Without a server there is nothing that must be ended.
    let stop = if arguments.children { commands::stop_flag(report)? } else { Arc::default() };
    let shared = report.shared();
    let mut undo = Undo::new(&found.files, &filter, &known, spool);
    (undo.despite_ddl, undo.sums.has_cascades) = (arguments.despite_ddl, arguments.children);
    if let Some(origin) = origin.filter(|_| arguments.children) {
        let query = Query { filter: &filter, known: &known, work: &folder };
        undo.cascades = Cascades::start(origin, &query, &stop, &shared)?;
    }
    report.phase("reading", Some(found.bytes()?));
    let mut walk = Walk::new(&found.files, &filter, &known, &mut undo, report);
    let walked = walk.all();
    let (is_nameless, missing) = (walk.is_nameless(), walk.missing());
    let walked = match undo.cascades.take() {
        Some(cascades) => {
            undo.sums.by_statement = cascades.by_statement();
            cascades.judge(walked)
        }
        None => walked,
    };
    match walked? {
        Completeness::Complete => {}
        Completeness::Damaged => {
            return Err(failure::damage("the log can't be read whole, so nothing is written"));
        }
        _ => return Err(anyhow!("the log can't be read whole, so nothing is written")),
    }
    if !missing.is_empty() {
        return Err(anyhow!("{}; nothing is written", missing.join(", and ")));
    }
    if is_nameless {
        return Err(anyhow!(
            "a column of --where is unknown in some tables, or can't be compared, so rows may be missing; nothing is written"
        ));
    }
    let (records, sums) = undo.finish()?;
    if sums.tables.is_empty() {
        return Err(anyhow!(
            "nothing to take back: no row of these transactions is asked for; remora log shows what they did"
        ));
    }
    write(records, &sums, to, report)?;
    report.end();
    if let Some(backups) = &backups {
        tell_of(backups, &sums, report);
    }
    tell(&sums, to, report)?;
    Ok(Exit::Done)
}

/// The files of the log, and the backups beside it, if there are some.
fn log(arguments: &Arguments, report: &Report) -> Result<(Option<Origin>, Found)> {
    let place = arguments.request.repository();
    if arguments.children || place.is_ok() {
        let (named, generation, timeline) =
            place.context("--children needs a backup with the archived log beside it, as REPO/NAME")?;
        if generation.is_some() && !arguments.children {
            return Err(usage("@N is for --children: the log is that of all generations; write REPO/NAME"));
        }
        arguments.request.must_be_possible()?;
        let log = Log::find(&named, timeline, &report.shared())?;
        let files = log.files.clone();
        return Ok((Some(Origin { named, generation, log }), Found { files, ..Found::default() }));
    }
    let found = arguments.request.files(false)?;
    match found.missing.first() {
        None => Ok((None, found)),
        Some(missing) => {
            Err(anyhow!("{missing}; what was done to the tables in it is unknown, so nothing is written"))
        }
    }
}

fn must_be_new(path: &Path) -> Result<()> {
    match RealDisk.entry(path) {
        Ok(_) => Err(anyhow!("{} exists; give another name, or remove it", text::path(path))),
        Err(_) => Ok(()),
    }
}

/// The folder that a file is in.
fn folder(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

fn write(records: Records, sums: &Sums, to: Option<&Path>, report: &Report) -> Result<()> {
    report.phase("writing", None);
    let Some(path) = to else {
        let mut out = std::io::BufWriter::new(report.output()?);
        script::write(records, sums, "undo.sql", &mut out)?;
        return Ok(out.flush()?);
    };
    let file = Output::create(&RealDisk, path).with_context(|| text::path(path))?;
    let mut out = std::io::BufWriter::new(file);
    script::write(records, sums, &text::path(path), &mut out).with_context(|| text::path(path))?;
    let file = out.into_inner().map_err(std::io::IntoInnerError::into_error);
    must_be_new(path)?;
    file.and_then(Output::finish).with_context(|| text::path(path))
}

/// Says where the definitions of tables come from.
fn tell_of(backups: &FromBackups, sums: &Sums, report: &Report) {
    for table in sums.tables.keys() {
        if let Some(backup) = backups.used(table) {
            report.note(&format!("the columns of {}.{} are those that it has in {backup}", table.0, table.1));
        }
    }
}

/// Says what the script does.
fn tell(sums: &Sums, to: Option<&Path>, report: &Report) -> Result<()> {
    if report.is_json() {
        let tables = sums.tables.iter().map(|((schema, table), sum)| {
            let [insert, update, delete] = sum.rows;
            json!({
                "schema": schema, "table": table, "insert": insert, "update": update, "delete": delete,
                "taken_along": sum.taken_along,
            })
        });
        let line = json!({
            "message_type": "summary", "transactions": sums.transactions, "tables": tables.collect::<Vec<_>>(),
            "to": to.map(text::path),
        });
        return Ok(report.message(&line)?);
    }
    for line in script::remarks(sums) {
        report.warn(&line);
    }
    let rows: u64 = sums.tables.values().flat_map(|sum| sum.rows).sum();
    let mut what = format!("{} of {}", count(rows, "row"), count(sums.transactions, "transaction"));
    let along: u64 = sums.tables.values().map(|sum| sum.taken_along).sum();
    if along > 0 {
        what.push_str(&format!(", {along} of them changed by cascades of foreign keys"));
    }
    match to.map(text::path) {
        Some(path) => report.note(&format!(
            "{path} takes back {what}; nothing was executed. Read it, then run it: {}",
            script::command(sums, &path)
        )),
        None => report.note(&format!("the script takes back {what}; nothing was executed")),
    }
    Ok(())
}
