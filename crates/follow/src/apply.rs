//! The session on the target: rows and position in one transaction.

use progress::count;
use server::Session;

use crate::form::Form;
use crate::window::{Folded, InOrder, Window};
use crate::{Error, Reached, State};

/// Bytes of a statement, about, unless one row has more.
const STATEMENT_BYTES_MAX: usize = 1 << 20;
/// Rows that a DELETE names: a server gives up looking for many keys one by one.
const KEYS_MAX: usize = 500;
/// Missing keys that are named.
const NAMED_MAX: usize = 3;
/// Duplicate entry.
const DUPLICATE: u16 = 1062;

/// Applies changes.
pub(crate) struct Applier<'a> {
    session: Session,
    state: &'a State,
    /// Whether a transaction is open.
    is_open: bool,
    statement_bytes: usize,
}

/// What is wrong on the target, without the place in the log.
pub(crate) enum Failed {
    /// A server's error.
    Server(server::Error),
    /// The target is not as the log says.
    Different(String),
}

impl From<server::Error> for Failed {
    fn from(error: server::Error) -> Failed {
        Failed::Server(error)
    }
}

impl Failed {
    /// The same with the place in the log.
    pub(crate) fn at(self, place: &str) -> Error {
        match self {
            Failed::Server(error) => error.into(),
            Failed::Different(what) => Error::Different { place: place.to_owned(), what },
        }
    }
}

impl<'a> Applier<'a> {
    pub(crate) fn new(mut session: Session, state: &'a State) -> Result<Applier<'a>, Error> {
        let packet = session.value("SELECT @@max_allowed_packet")?;
        let packet: usize = packet.and_then(|packet| packet.parse().ok()).unwrap_or(STATEMENT_BYTES_MAX);
        let statement_bytes = STATEMENT_BYTES_MAX.min(packet / 2);
        Ok(Applier { session, state, is_open: false, statement_bytes })
    }

    fn begin(&mut self) -> Result<(), server::Error> {
        if !self.is_open {
            self.session.execute("START TRANSACTION")?;
            self.is_open = true;
        }
        Ok(())
    }

    /// Deletes and inserts what a window has, in the open transaction or a new one.
    pub(crate) fn rows(&mut self, window: &mut Window) -> Result<(), Failed> {
        for Folded { form, deleted, inserted, lax } in window.take() {
            self.begin()?;
            for keys in parts(&deleted, (KEYS_MAX, self.statement_bytes)) {
                self.delete(&form, &keys)?;
            }
            self.insert(&form, &inserted)?;
            if !lax.is_empty() {
                self.lax(|applier| applier.insert(&form, &lax))?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, form: &Form, rows: &[String]) -> Result<(), Failed> {
        for rows in parts(rows, (usize::MAX, self.statement_bytes)) {
            let sql = format!("INSERT INTO {} {} VALUES {}", form.target, form.names, rows.join(", "));
            self.execute(form, &sql)?;
        }
        Ok(())
    }

    /// Does something without a strict `sql_mode`.
    fn lax<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R, Failed>) -> Result<R, Failed> {
        self.session.execute("SET SESSION sql_mode = REPLACE(@@sql_mode, 'STRICT_ALL_TABLES', '')")?;
        let done = work(self)?;
        self.session.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')")?;
        Ok(done)
    }

    fn delete(&mut self, form: &Form, keys: &[&str]) -> Result<(), Failed> {
        let sql = format!("DELETE FROM {} WHERE {}", form.target, form.condition(keys));
        let deleted = self.session.execute(&sql)?.affected;
        if deleted == keys.len() as u64 {
            return Ok(());
        }
        // The rows that were found are there again then.
        self.session.execute("ROLLBACK")?;
        let mut missing = Vec::new();
        for key in keys {
            let sql = format!("SELECT 1 FROM {} WHERE {}", form.target, form.condition(&[key]));
            if missing.len() < NAMED_MAX && self.session.value(&sql)?.is_none() {
                missing.push(form.condition(&[key]));
            }
        }
        let named =
            if missing.is_empty() { String::new() } else { format!(", such as {}", missing.join("; ")) };
        Err(Failed::Different(format!(
            "{} has {deleted} of {} that the source has changed or deleted{named}",
            form.target,
            count(keys.len(), "row"),
        )))
    }

    /// Executes a statement that changes one row, and others through foreign keys.
    pub(crate) fn in_order(&mut self, statement: &InOrder) -> Result<(), Failed> {
        let InOrder { form, sql, is_lax, is_unchecked, .. } = statement;
        self.begin()?;
        if !is_unchecked {
            self.session.execute("SET SESSION foreign_key_checks = 1")?;
        }
        let done = match is_lax {
            true => self.lax(|applier| applier.execute(form, sql))?,
            false => self.execute(form, sql)?,
        };
        // An UPDATE may set what the row has.
        let found = match done.info.strip_prefix("Rows matched: ") {
            Some(info) => info.split(' ').next().and_then(|found| found.parse().ok()).unwrap_or(0),
            None => done.affected,
        };
        if !is_unchecked {
            self.session.execute("SET SESSION foreign_key_checks = 0")?;
        }
        if found == 1 {
            return Ok(());
        }
        Err(Failed::Different(format!(
            "{found} rows instead of 1 were found by: {}",
            crate::scope::shown(sql)
        )))
    }

    /// Executes a statement. What only another row can refuse is a difference.
    fn execute(&mut self, form: &Form, sql: &str) -> Result<server::Done, Failed> {
        self.session.execute(sql).map_err(|error| match &error {
            server::Error::Sql { code: DUPLICATE, message, .. } => {
                Failed::Different(format!("{} has a row that the source has not: {message}", form.target))
            }
            _ => Failed::Server(error),
        })
    }

    /// Ends the transaction with a position.
    pub(crate) fn commit(&mut self, reached: &Reached) -> Result<(), server::Error> {
        self.begin()?;
        self.state.advance(&mut self.session, reached)?;
        self.session.execute("COMMIT")?;
        self.is_open = false;
        Ok(())
    }
}

/// Texts in groups: of so many texts and bytes at most, but at least one text.
fn parts(texts: &[String], (count_max, bytes_max): (usize, usize)) -> Vec<Vec<&str>> {
    let mut parts: Vec<Vec<&str>> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        match parts.last_mut() {
            Some(part) if part.len() < count_max && bytes + text.len() <= bytes_max => part.push(text),
            _ => {
                parts.push(vec![text]);
                bytes = 0;
            }
        }
        bytes += text.len();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn statements_have_a_limit_of_rows_and_bytes_and_at_least_one_row() {
        let texts: Vec<String> = ["aaaa", "bb", "cc", "dddddddd", "e", "f", "g"].map(str::to_owned).into();
        let joined = |max| parts(&texts, max).iter().map(|part| part.concat()).collect::<Vec<_>>();
        assert_eq!(joined((2, 6)), ["aaaabb", "cc", "dddddddd", "ef", "g"]);
        assert_eq!(joined((usize::MAX, 6)), ["aaaabb", "cc", "dddddddd", "efg"]);
        assert!(parts(&[], (2, 6)).is_empty());
    }
}
