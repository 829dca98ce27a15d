//! The transactions and rows of binary logs that the command line selects.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use dump::{Pattern, Selection};
use failure::usage;
use humanize::point_in_time;
use repository::{Named, log_archive};
use transactions::{self, Condition, Filter, Found, Known, Range, Times, Wording};

use crate::keys::KeyArguments;

/// Which transactions and rows of which files.
#[derive(Debug, Args)]
pub(crate) struct Request {
    /// Binary logs or relay logs in their order, a .index file, a data folder with one,
    /// or REPO/NAME with an archive, in which REPO may be s3://BUCKET/PREFIX
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,

    /// Transactions that ended then or later: 2026-11-22, '2026-11-22 19:05', 2026-11-22T18:05:00Z, or -10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = point_in_time::parse)]
    since: Option<i64>,

    /// Transactions that ended before that ('restore --until' has those of that second too)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = point_in_time::parse)]
    until: Option<i64>,

    /// Transactions: 0-1-42, or UUID:42 of MySQL; or those of a domain from one to another: 0-1-42-0-1-50.
    /// Several are separated by commas
    #[arg(long, value_name = "GTID", value_delimiter = ',')]
    gtid: Vec<Range>,

    /// Tables: db or db.table with * and ?, or /regex/ looked for in db.table. May be given several times
    #[arg(long, value_name = "NAME")]
    table: Vec<Pattern>,

    /// Rows with this value before or after the change: COLUMN=VALUE or @N=VALUE. May be given several times:
    /// all must hold
    #[arg(long = "where", value_name = "COL=VALUE")]
    conditions: Vec<Condition>,

    /// Transactions with this text in a statement, in upper or lower case. Quotes, spaces, comments and a
    /// database before a name do not count
    #[arg(long, value_name = "TEXT")]
    statement: Option<String>,

    /// A file with the CREATE TABLE of tables, as SHOW CREATE TABLE and mariadb-dump --no-data print it, for
    /// the names of their columns
    #[arg(long, value_name = "FILE.sql")]
    schema: Option<PathBuf>,

    #[command(flatten)]
    key: KeyArguments,
}

impl Request {
    /// The first place that is named.
    pub(crate) fn first(&self) -> Option<&Path> {
        self.paths.first().map(PathBuf::as_path)
    }

    /// Whether it says which transactions, and not only which rows.
    pub(crate) fn names_transactions(&self) -> bool {
        !self.gtid.is_empty() || self.since.is_some() || self.until.is_some() || self.statement.is_some()
    }

    /// Fails if no transaction can be meant.
    pub(crate) fn must_be_possible(&self) -> Result<()> {
        match (self.since, self.until) {
            (Some(since), Some(until)) if since >= until => {
                Err(usage("--since is not before --until, so there can be no transaction"))
            }
            _ => Ok(()),
        }
    }

    /// The files. `shows_times`: warns if transactions can't have ended at the times that they have.
    pub(crate) fn files(&self, shows_times: bool) -> Result<Found> {
        self.must_be_possible()?;
        let needs_notes = shows_times || self.since.is_some() || self.until.is_some();
        transactions::files(
            &self.paths,
            &self.key.file(),
            if needs_notes { Times::Noted } else { Times::Said },
        )
    }

    /// The repository that has the log, for who needs its backups too: the backups of a name, which
    /// generation of them, and which timeline of the log, if somebody says so.
    pub(crate) fn repository(&self) -> Result<(Named, Option<u64>, Option<u32>)> {
        let [path] = self.paths.as_slice() else {
            return Err(usage("name one place, and no files"));
        };
        let (path, timeline) = log_archive::timeline(path)
            .map_or((path.as_path(), None), |(name, timeline)| (name, Some(timeline)));
        let text = path.to_str().ok_or_else(|| usage(format!("{} is not UTF-8", path.display())))?;
        let (named, generation) = repository::one(text, self.key.read_full()?.as_ref())?;
        Ok((named, generation, timeline))
    }

    /// What is known of tables that the log may not say.
    pub(crate) fn known(&self) -> Result<Known> {
        transactions::read_definitions(self.schema.as_deref())
    }

    /// What is asked for.
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            since: self.since,
            until: self.until,
            gtid: self.gtid.clone(),
            tables: Selection { include: self.table.clone(), exclude: Vec::new(), no_accounts: true },
            conditions: self.conditions.clone(),
            statement: self.statement.as_deref().map(Wording::new),
        }
    }
}
