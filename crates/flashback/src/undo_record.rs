//! What is kept until all of it can be written, the last first.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::{Result, anyhow};

use crate::spool::Spool;
use crate::table_form::TableForm;

/// Rows and bytes of an INSERT with several rows.
const ROWS_MAX: u64 = 500;
const BYTES_MAX: usize = 1 << 16;

/// The longest statement that any server takes, in bytes.
pub(crate) const STATEMENT_MAX: u64 = 1 << 30;

const NOTE: u8 = b'#';
const STATEMENT: u8 = b'S';
const INSERT: u8 = b'I';
const SETTING: u8 = b'=';

/// A part of the script.
pub(crate) enum Record<'a> {
    /// What follows in the script is of this transaction.
    Note(&'a str),
    /// A statement that changes one row.
    Statement(&'a str),
    /// A setting of the session.
    Setting(&'a str),
}

/// The parts of the script.
pub struct Records {
    spool: Spool,
    /// Rows that are inserted in the order of the log, once all of them are there.
    in_order: Option<Spool>,
    /// The beginnings of INSERT statements, and their numbers.
    heads: BTreeMap<String, u32>,
    longest: u64,
}

impl Records {
    pub(crate) fn new(spool: Spool) -> Records {
        Records { spool, in_order: None, heads: BTreeMap::new(), longest: 0 }
    }

    /// No statement has more bytes than that.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    pub(crate) fn add(&mut self, record: &Record<'_>) -> Result<()> {
        let (kind, text) = match record {
            Record::Note(text) => (NOTE, text),
            Record::Statement(text) => (STATEMENT, text),
            Record::Setting(text) => (SETTING, text),
        };
        self.longest = self.longest.max(text.len() as u64);
        self.spool.add(&[&[kind], text.as_bytes()])?;
        Ok(())
    }

    /// Rows that are added from now on are inserted in the same order, the first one first, until
    /// [`Records::end_order`]. A log has a row that a foreign key deletes before those that refer to it,
    /// which come back after it. Rows that it changed are changed back behind all of these, the last change
    /// first: two foreign keys may have changed a row one after the other.
    pub(crate) fn begin_order(&mut self) -> Result<()> {
        if self.in_order.is_none() {
            self.in_order = Some(self.spool.another()?);
        }
        Ok(())
    }

    /// What is added from now on is taken back in the opposite order again.
    pub(crate) fn end_order(&mut self) -> Result<()> {
        let Some(in_order) = self.in_order.take() else { return Ok(()) };
        Ok(in_order.backwards(|record| self.spool.add(&[record]))?)
    }

    /// A row to insert.
    pub fn insert(&mut self, form: &TableForm, tuple: &str) -> Result<()> {
        let names: Vec<&str> = form.columns.iter().map(|column| column.name.as_str()).collect();
        let head = format!("INSERT INTO {} ({}) VALUES", form.name, names.join(", "));
        // It is added to one that has this many already.
        self.longest = self.longest.max((head.len() + tuple.len() + BYTES_MAX) as u64);
        let next = u32::try_from(self.heads.len())?;
        let number = *self.heads.entry(head).or_insert(next);
        let spool = self.in_order.as_mut().unwrap_or(&mut self.spool);
        spool.add(&[&[INSERT], &number.to_le_bytes(), tuple.as_bytes()])?;
        Ok(())
    }

    /// Writes all statements, the last first. Returns how many.
    pub fn write(self, out: &mut dyn Write) -> Result<u64> {
        let heads: BTreeMap<u32, String> =
            self.heads.into_iter().map(|(head, number)| (number, head)).collect();
        let mut script = Script { heads: &heads, out, statements: 0, open: None };
        self.spool.backwards(|record| script.record(record))?;
        script.close()?;
        Ok(script.statements)
    }
}

/// An INSERT that more rows may be added to.
struct Open {
    head: u32,
    rows: u64,
    bytes: usize,
}

struct Script<'a> {
    heads: &'a BTreeMap<u32, String>,
    out: &'a mut dyn Write,
    statements: u64,
    open: Option<Open>,
}

impl Script<'_> {
    fn record(&mut self, record: &[u8]) -> Result<()> {
        match record.split_first() {
            Some((&NOTE, text)) => {
                self.close()?;
                self.out.write_all(b"\n-- ")?;
                self.out.write_all(text)?;
                self.out.write_all(b"\n")?;
            }
            Some((&STATEMENT, text)) => {
                self.close()?;
                self.out.write_all(text)?;
                self.end(1)?;
            }
            Some((&SETTING, text)) => {
                self.close()?;
                self.out.write_all(&[b"SET ", text, b";\n"].concat())?;
            }
            Some((&INSERT, rest)) => {
                let (number, tuple) =
                    rest.split_first_chunk::<4>().ok_or_else(|| anyhow!("a record is cut"))?;
                self.insert(u32::from_le_bytes(*number), tuple)?;
            }
            _ => return Err(anyhow!("a record is of no kind")),
        }
        Ok(())
    }

    fn insert(&mut self, head: u32, tuple: &[u8]) -> Result<()> {
        let fits =
            |open: &Open| open.head == head && open.rows < ROWS_MAX && open.bytes + tuple.len() <= BYTES_MAX;
        if self.open.as_ref().is_some_and(fits) {
            self.out.write_all(b",\n  ")?;
        } else {
            self.close()?;
            let text = self.heads.get(&head).ok_or_else(|| anyhow!("a record is of no table"))?;
            self.out.write_all(text.as_bytes())?;
            self.out.write_all(b"\n  ")?;
            self.open = Some(Open { head, rows: 0, bytes: 0 });
        }
        self.out.write_all(tuple)?;
        if let Some(open) = &mut self.open {
            open.rows += 1;
            open.bytes += tuple.len();
        }
        Ok(())
    }

    /// Ends the INSERT that is open.
    fn close(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => Ok(self.end(open.rows)?),
            None => Ok(()),
        }
    }

    /// Ends a statement, and notes its number if it did not change so many rows.
    fn end(&mut self, rows: u64) -> io::Result<()> {
        self.statements += 1;
        let number = self.statements;
        writeln!(
            self.out,
            ";\nSET @remora = IF(ROW_COUNT() = {rows}, @remora, LEFT(CONCAT(@remora, ': statement {number}'), 300));"
        )
    }
}
