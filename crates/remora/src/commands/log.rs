//! `remora log`

mod publish;
mod rows;
mod show;

use anyhow::Result;
use clap::Args;
use progress::{Progress, count};
use transactions::{Again, Asked, LogFile, Take, Transaction, Walk};

use self::publish::PublishArguments;
use self::show::Show;
use crate::exit::Exit;
use crate::log_request::Request;
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
      which tables were changed most, and the largest transactions
  remora log /backup/shop --follow --format parquet --to s3://lake/changes
      what is changed from now on, as files for DuckDB, Spark and others";

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
    #[command(flatten)]
    request: Request,

    /// Also show the rows, before and after
    #[arg(long, conflicts_with = "stat")]
    rows: bool,

    /// Do not cut statements to the width of the terminal
    #[arg(long)]
    statements: bool,

    /// Only sums: bytes, transactions, rows of each table, the largest transactions
    #[arg(long)]
    stat: bool,

    #[command(flatten)]
    publish: PublishArguments,
}

/// Shows transactions.
struct Lines<'a> {
    files: &'a [LogFile],
    again: Again<'a>,
    show: Show,
    /// Statements that were left out because their tables are not in the log.
    untold: u64,
    /// Whether rows are chosen by their values.
    looks_at_values: bool,
}

impl Take for Lines<'_> {
    fn transaction(&mut self, whole: &Transaction, asked: Asked) -> Result<()> {
        match asked {
            Asked::No => return Ok(()),
            Asked::WithoutRows => {
                self.untold += u64::from(!whole.statements.is_empty() && !self.looks_at_values);
                return Ok(());
            }
            Asked::Yes => self.show.transaction(whole, self.files)?,
        }
        if self.show.wants_rows() && !whole.tables.is_empty() {
            self.again.rows(whole, |row| rows::show(row, whole, &mut self.show))?;
        }
        Ok(())
    }
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let request = &arguments.request;
    if let Some(to) = &arguments.publish.to {
        return publish::run(&arguments.publish, to, request, report);
    }
    let found = request.files(report.is_json())?;
    let (known, filter) = (request.known()?, request.filter());
    let mut exit = Exit::Done;
    for line in &found.missing {
        report.warn(line);
        exit = Exit::Partial;
    }
    for damage in &found.damages {
        report.warn(damage);
        exit = Exit::Damaged;
    }
    let show = Show::new(arguments.statements, arguments.stat, arguments.rows, report)?;
    if !show.is_on_terminal() {
        report.phase("reading", Some(found.bytes()?));
    }
    let again = Again::new(&found.files, &filter, &known);
    let looks_at_values = filter.looks_at_values();
    let mut lines = Lines { files: &found.files, again, show, untold: 0, looks_at_values };
    let mut walk = Walk::new(&found.files, &filter, &known, &mut lines, report);
    let walked = walk.all()?;
    if walk.lacks_columns() {
        exit = exit.and_left_out();
    }
    for line in walk.missing() {
        report.warn(&line);
        exit = exit.and_left_out();
    }
    if lines.untold > 0 {
        report.note(&format!(
            "{} left out, because the log does not say which tables they change; --statement searches them",
            count(lines.untold, "statement")
        ));
    }
    lines.show.end(&found.files, report)?;
    report.end();
    Ok(exit.after(walked))
}
