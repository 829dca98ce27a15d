//! `remora log`

mod feed;
mod filter;
mod find;
mod known;
mod names;
mod rows;
mod show;
mod sums;
mod transaction;
mod walk;
mod when;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use dump::{Pattern, Selection};
use progress::Progress;

use self::filter::{Condition, Filter, Range};
use self::show::Show;
use self::walk::Walk;
use crate::exit::Exit;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora log /var/lib/mysql --since -10m
      what the server's last ten minutes changed: a line for each transaction and table
  remora log binlog.000042 --table 'shop.*' --since '2026-11-22 19:00' --until '2026-11-22 19:10'
      some tables, in some minutes
  remora log /var/lib/mysql --statement 'delete from orders' --statements
      who deleted, with the whole statements
  remora log binlog.0000* --gtid 0-1-90113 --rows
      the rows of one transaction, before and after
  remora log /copy/binlog.index --table shop.orders --where id=4711 --schema orders.sql --rows
      what happened to one row; orders.sql is what SHOW CREATE TABLE says
  remora log /var/lib/mysql --since -1h --stat
      which tables were changed most, and the largest transactions";

/// Look into binary logs: who changed which rows, and when
///
/// The files are read without a server; one that runs is not disturbed, and what it has written so far is
/// shown. Every event is proven by its checksum. A transaction is shown when its end is there.
///
/// Names of columns are in the log only with binlog_row_metadata=FULL. Otherwise the columns are called @1,
/// @2 and so on, or --schema tells their names. The statement of a row change is in the log if
/// binlog_annotate_row_events was on.
///
/// A transaction has the time of its end, in this machine's time zone. TIMESTAMP values are shown in UTC.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Binary logs or relay logs in their order, a .index file, or a data folder with one
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,

    /// Transactions that ended then or later: 2026-11-22, '2026-11-22 19:05', 2026-11-22T18:05:00Z, or -10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    since: Option<i64>,

    /// Transactions that ended before that
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    until: Option<i64>,

    /// One transaction: 0-1-42, or UUID:42 of MySQL; or those of a domain from one to another: 0-1-42-0-1-50
    #[arg(long, value_name = "GTID")]
    gtid: Option<Range>,

    /// Tables: db or db.table with * and ?, or /regex/ looked for in db.table. May be given several times
    #[arg(long, value_name = "NAME")]
    table: Vec<Pattern>,

    /// Rows with this value before or after the change: COLUMN=VALUE or @N=VALUE. May be given several times:
    /// all must hold
    #[arg(long = "where", value_name = "COL=VALUE")]
    conditions: Vec<Condition>,

    /// Transactions with this text in a statement, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    statement: Option<String>,

    /// A file with the CREATE TABLE of tables, for the names of their columns
    #[arg(long, value_name = "FILE.sql")]
    schema: Option<PathBuf>,

    /// Also show the rows, before and after
    #[arg(long, conflicts_with = "stat")]
    rows: bool,

    /// Do not cut statements to the width of the terminal
    #[arg(long)]
    statements: bool,

    /// Only sums: bytes, transactions, rows of each table, the largest transactions
    #[arg(long)]
    stat: bool,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let found = find::files(&arguments.paths)?;
    let mut exit = Exit::Done;
    for line in &found.missing {
        report.warn(line);
        exit = Exit::Partial;
    }
    let known = known::read(arguments.schema.as_deref())?;
    let filter = Filter {
        since: arguments.since,
        until: arguments.until,
        gtid: arguments.gtid.clone(),
        tables: Selection { include: arguments.table.clone(), exclude: Vec::new(), no_accounts: true },
        conditions: arguments.conditions.clone(),
        statement: arguments.statement.as_ref().map(|text| text.to_lowercase()),
    };
    let show = Show::new(arguments.statements, arguments.stat, arguments.rows, report)?;
    let mut walk = Walk::new(&found.files, &filter, &known, show, report);
    let walked = walk.all()?;
    report.end();
    Ok(match walked {
        Exit::Done => exit,
        worse => worse,
    })
}
