//! The way in where the server does not allow LOAD DATA LOCAL: INSERT of many rows at a time.

use std::fmt::Write;

use server::{Session, TableName, Warning, quote_name};

use crate::job::Job;
use crate::request::FieldTarget;
use crate::{Error, careful};

/// A statement is sent when it is this long: longer ones are no faster.
const STATEMENT_BYTES: usize = 512 * 1024;

/// The INSERT of a job.
pub(crate) struct Statement {
    head: String,
    /// Each field that is sent: a column, or a variable of this name.
    fields: Vec<FieldTarget>,
    set: Vec<String>,
}

impl Statement {
    pub(crate) fn new(job: &Job, table: &TableName) -> Statement {
        let fields: Vec<_> = job
            .fields
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
        let head = format!("INSERT INTO {table} ({}) VALUES ", names.join(", "));
        Statement { head, fields, set: job.set.iter().map(|(_, expression)| expression.clone()).collect() }
    }

    /// Inserts rows given as lines of LOAD DATA's dialect. Returns how many went in when the server had no
    /// complaint about any; otherwise adds its complaints to `warnings`.
    pub(crate) fn run(
        &self,
        session: &mut Session,
        lines: &[u8],
        stop: &dyn Fn() -> bool,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<u64>, Error> {
        let mut sql = self.head.clone();
        let (mut pending, mut total, mut clean) = (0_u64, 0_u64, true);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if stop() {
                return Err(Error::Stopped);
            }
            let mut values = String::new();
            let variables = self.write_row(line, &mut values);
            // Variables are set for one row, so such rows go one by one.
            let full = pending > 0 && (!variables.is_empty() || sql.len() + values.len() > STATEMENT_BYTES);
            if full {
                clean &= self.flush(session, &mut sql, &mut pending, warnings)?;
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
            clean &= self.flush(session, &mut sql, &mut pending, warnings)?;
        }
        Ok(clean.then_some(total))
    }

    fn flush(
        &self,
        session: &mut Session,
        sql: &mut String,
        pending: &mut u64,
        warnings: &mut Vec<Warning>,
    ) -> Result<bool, Error> {
        let done = session.execute(sql)?;
        let clean = done.affected == *pending && done.warnings == 0;
        if !clean {
            // Row numbers count from the start of this statement; the caller's begin elsewhere.
            let complaints = session.warnings()?.into_iter().map(|mut warning| {
                warning.message = careful::without_row(&warning.message).to_owned();
                warning
            });
            warnings.extend(complaints);
        }
        sql.truncate(self.head.len());
        *pending = 0;
        Ok(clean)
    }

    /// Appends `(1,'a',...)` for a line; returns the assignments of its variables.
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

/// A value as SQL. Bytes that are not UTF-8 can't stand in a statement and go as hexadecimal digits.
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
