//! Loads rows where the server does not allow LOAD DATA LOCAL: INSERT with many rows at a time.

use std::fmt::Write;

use server::{About, Done, Flavour, Session, TableName, Warning, error_code, quote_name};

use crate::job::{Field, Job};
use crate::request::{FieldTarget, OnDuplicate};
use crate::{Duplicates, Error, server_warnings};

/// A statement is sent when it has this many bytes: longer ones are no faster.
const STATEMENT_BYTES: usize = 512 * 1024;

/// The most rows that one INSERT IGNORE may leave out, because each has a warning that must be read.
pub(crate) const IGNORED_MAX: u64 = 5000;

/// The INSERT of a job.
pub(crate) struct Statement {
    head: String,
    /// What follows the rows: what to do with a row whose key already exists.
    tail: String,
    on_duplicate: OnDuplicate,
    /// The target of each field that is sent: a column, or a variable of this name.
    fields: Vec<FieldTarget>,
    set: Vec<String>,
}

impl Statement {
    pub(crate) fn new(job: &Job, fields: &[Field], table: &TableName, about: &About) -> Statement {
        let fields: Vec<_> = fields
            .iter()
            .map(|field| field.target.clone())
            .filter(|target| *target != FieldTarget::Skip)
            .collect();
        let mut names: Vec<String> = Vec::new();
        for field in &fields {
            if let FieldTarget::Column(name) = field {
                names.push(quote_name(name));
            }
        }
        names.extend(job.set.iter().map(|(column, _)| quote_name(column)));
        let verb = match job.on_duplicate {
            OnDuplicate::Error | OnDuplicate::Update => "INSERT",
            // IGNORE also allows other errors than duplicate keys, but never without a warning.
            OnDuplicate::Ignore => "INSERT IGNORE",
            OnDuplicate::Replace => "REPLACE",
        };
        let head = format!("{verb} INTO {table} ({}) VALUES ", names.join(", "));
        let tail = match job.on_duplicate {
            OnDuplicate::Update => update(&names, about),
            _ => String::new(),
        };
        let on_duplicate = job.on_duplicate;
        Statement {
            head,
            tail,
            on_duplicate,
            fields,
            set: job.set.iter().map(|(_, expression)| expression.clone()).collect(),
        }
    }

    /// Inserts rows that are given as lines of LOAD DATA's dialect. Without warnings, returns how many were
    /// inserted and how many had an existing key; otherwise adds the warnings to `warnings`.
    pub(crate) fn run(
        &self,
        session: &mut Session,
        lines: &[u8],
        stop: &dyn Fn() -> bool,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<(u64, Duplicates)>, Error> {
        let mut sql = self.head.clone();
        let (mut pending, mut total, mut clean) = (0_u64, 0_u64, true);
        let mut duplicates = Duplicates::default();
        let rows_max = self.rows_max(session)?;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if stop() {
                return Err(Error::Stopped);
            }
            let mut values = String::new();
            let variables = self.write_row(line, &mut values);
            // Variables are set for a single row, so rows with variables are sent one by one.
            let long = sql.len() + values.len() > STATEMENT_BYTES || pending >= rows_max;
            if pending > 0 && (!variables.is_empty() || long) {
                let flushed = self.flush(session, &mut sql, &mut pending, warnings)?;
                clean &= flushed.is_some();
                duplicates.add(&flushed.unwrap_or_default());
            }
            if !variables.is_empty() {
                session.execute(&format!("SET {variables}"))?;
            }
            if pending > 0 {
                sql.push(',');
            }
            sql.push_str(&values);
            pending += 1;
            total += 1;
        }
        if pending > 0 {
            let flushed = self.flush(session, &mut sql, &mut pending, warnings)?;
            clean &= flushed.is_some();
            duplicates.add(&flushed.unwrap_or_default());
        }
        Ok(clean.then(|| (total.saturating_sub(duplicates.ignored), duplicates)))
    }

    /// Rows per statement. Each ignored row has a warning or two, and a session keeps only a limited number
    /// of them.
    fn rows_max(&self, session: &mut Session) -> Result<u64, Error> {
        if self.on_duplicate != OnDuplicate::Ignore {
            return Ok(u64::MAX);
        }
        let kept =
            session.value("SELECT @@SESSION.max_error_count")?.and_then(|kept| kept.parse::<u64>().ok());
        Ok(kept.map_or(1, |kept| (kept / 2).clamp(1, IGNORED_MAX)))
    }

    /// Sends the statement. Returns how many rows had an existing key, or nothing when the server warns
    /// about any row.
    fn flush(
        &self,
        session: &mut Session,
        sql: &mut String,
        pending: &mut u64,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<Duplicates>, Error> {
        sql.push_str(&self.tail);
        let done = session.execute(sql)?;
        let sent = std::mem::take(pending);
        sql.truncate(self.head.len());
        let mut complaints = if done.warnings == 0 { Vec::new() } else { session.warnings()? };
        // The session keeps no more warnings, so some are unknown.
        let unknown = complaints.len() < usize::from(done.warnings);
        // The order of rows on replicas does not matter here.
        complaints.retain(|warning| warning.code != error_code::BINLOG_UNSAFE_STATEMENT);
        if self.on_duplicate == OnDuplicate::Ignore {
            complaints.retain(|warning| warning.code != error_code::DUP_ENTRY);
        }
        if let Some(duplicates) = self.counted(sent, &done).filter(|_| complaints.is_empty() && !unknown) {
            return Ok(Some(duplicates));
        }
        // Row numbers count from the start of this statement; the caller counts from elsewhere.
        warnings.extend(complaints.into_iter().map(|mut warning| {
            warning.message = server_warnings::without_row(&warning.message).to_owned();
            warning
        }));
        Ok(None)
    }

    /// What happened to rows with an existing key, from the server's counts; `None` when these are
    /// impossible.
    fn counted(&self, sent: u64, done: &Done) -> Option<Duplicates> {
        let none = Duplicates::default();
        match self.on_duplicate {
            OnDuplicate::Error => (done.affected == sent).then_some(none),
            OnDuplicate::Ignore => Some(Duplicates { ignored: sent.checked_sub(done.affected)?, ..none }),
            OnDuplicate::Replace => Some(Duplicates { replaced: done.affected.checked_sub(sent)?, ..none }),
            OnDuplicate::Update => {
                // An updated row counts twice, an unchanged one not at all. The number of updated rows is in
                // "Records: 3 Duplicates: 1 Warnings: 0", which a statement of one row lacks.
                let updated = match sent {
                    1 => u64::from(done.affected == 2),
                    _ => number_after(&done.info, "Duplicates: ")?,
                };
                let new = done.affected.checked_sub(2 * updated)?;
                Some(Duplicates { updated, unchanged: sent.checked_sub(new + updated)?, ..none })
            }
        }
    }

    /// Appends `(1,'a',...)` for a line. Returns the assignments of its variables.
    fn write_row(&self, line: &[u8], values: &mut String) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut variables = String::new();
        let mut text = Vec::new();
        let mut separator = "(";
        for (field, raw) in self.fields.iter().zip(line.split(|byte| *byte == b'\t')) {
            let value = (raw != b"\\N").then(|| {
                text.clear();
                rows::unescape_load_data(raw, &mut text);
                text.as_slice()
            });
            let literal = literal(value);
            if let FieldTarget::Variable(name) = field {
                let comma = if variables.is_empty() { "" } else { ", " };
                write!(variables, "{comma}@{} = {literal}", quote_name(name)).ok();
                continue;
            }
            write!(values, "{separator}{literal}").ok();
            separator = ",";
        }
        for expression in &self.set {
            write!(values, "{separator}{expression}").ok();
            separator = ",";
        }
        values.push(')');
        variables
    }
}

/// The clause that gives an existing row the values of the new one.
fn update(names: &[String], about: &About) -> String {
    let version = (about.version.major, about.version.minor, about.version.patch);
    // MySQL has replaced VALUES() by a name for the new row, and warns about VALUES().
    let named = about.flavour == Flavour::MySql && version >= (8, 0, 19);
    let sets = names.iter().map(|name| match named {
        true => format!("{name} = new.{name}"),
        false => format!("{name} = VALUES({name})"),
    });
    let sets: Vec<_> = sets.collect();
    format!("{} ON DUPLICATE KEY UPDATE {}", if named { " AS new" } else { "" }, sets.join(", "))
}

/// The number after certain words in the server's message.
fn number_after(info: &str, words: &str) -> Option<u64> {
    let rest = info.split_once(words)?.1;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// A value as SQL. Bytes that are not UTF-8 can't be in a statement and are written as hexadecimal digits.
fn literal(value: Option<&[u8]>) -> String {
    let mut out = Vec::new();
    rows::write_sql_literal(value, false, &mut out);
    String::from_utf8(out).unwrap_or_else(|_| {
        let mut hex = String::from("x'");
        for byte in value.unwrap_or_default() {
            write!(hex, "{byte:02x}").ok();
        }
        hex + "'"
    })
}
