//! Changes of rows, folded by key: of each row only whether it was there before, and what it is in the end.

use std::collections::BTreeMap;
use std::rc::Rc;

use binlog::row;

use crate::form::{Form, Key, Values};

/// A change of a row.
pub(crate) enum Change {
    /// It may be folded with others: the key that a row had, and the key and values that it has now.
    Folded {
        /// Its table.
        form: Rc<Form>,
        /// The row that was there.
        removed: Option<Key>,
        /// The row that is there now.
        added: Option<(Key, Values)>,
    },
    /// A statement that has its place among the others.
    InOrder(InOrder),
}

/// A statement that changes one row of a table, and others through foreign keys.
pub(crate) struct InOrder {
    /// Its table.
    pub(crate) form: Rc<Form>,
    /// The statement.
    pub(crate) sql: String,
    /// Whether it needs an `sql_mode` that is not strict.
    pub(crate) is_lax: bool,
    /// Whether the source's session did not check foreign keys.
    pub(crate) is_unchecked: bool,
    /// The keys that the row had and has.
    pub(crate) keys: Vec<Key>,
}

/// What became of a row.
struct Row {
    /// The key as SQL, if the row was there before the window.
    was: Option<String>,
    /// The values that it has in the end.
    is: Option<Values>,
}

/// The rows of a table.
struct Rows {
    form: Rc<Form>,
    by_key: BTreeMap<Vec<u8>, Row>,
}

/// The rows that transactions have changed.
#[derive(Default)]
pub(crate) struct Window {
    /// By the name of the table on the target.
    tables: BTreeMap<String, Rows>,
    /// Bytes of SQL, about.
    pub(crate) bytes: usize,
}

/// The rows of a table that are deleted and inserted, as SQL.
pub(crate) struct Folded {
    /// The table.
    pub(crate) form: Rc<Form>,
    /// Keys of rows that must be there.
    pub(crate) deleted: Vec<String>,
    /// Values of rows.
    pub(crate) inserted: Vec<String>,
    /// The same of rows that need an `sql_mode` that is not strict.
    pub(crate) lax: Vec<String>,
}

impl Window {
    /// Takes up a change: first what was there, then what is.
    pub(crate) fn fold(&mut self, form: &Rc<Form>, removed: Option<Key>, added: Option<(Key, Values)>) {
        let rows = self
            .tables
            .entry(form.target.clone())
            .or_insert_with(|| Rows { form: Rc::clone(form), by_key: BTreeMap::new() });
        if let Some(Key { bytes, text }) = removed {
            self.bytes += bytes.len() + text.len();
            rows.by_key.entry(bytes).or_insert_with(|| Row { was: Some(text), is: None }).is = None;
        }
        if let Some((Key { bytes, .. }, values)) = added {
            self.bytes += bytes.len() + values.text.len();
            rows.by_key.entry(bytes).or_insert(Row { was: None, is: None }).is = Some(values);
        }
    }

    /// What is to be done, a table after the other; it is empty then.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Folded> + use<> {
        let tables = std::mem::take(self).tables;
        tables.into_values().map(|Rows { form, by_key }| {
            let (mut deleted, mut inserted, mut lax) = (Vec::new(), Vec::new(), Vec::new());
            for row in by_key.into_values() {
                deleted.extend(row.was);
                if let Some(Values { text, is_lax }) = row.is {
                    if is_lax { lax.push(text) } else { inserted.push(text) }
                }
            }
            Folded { form, deleted, inserted, lax }
        })
    }
}

impl Change {
    /// What a row of the log changes, to be folded with other changes of it.
    pub(crate) fn folded(form: &Rc<Form>, row: &row::Row<'_>) -> Result<Change, String> {
        let removed = match row.before {
            Some(before) if form.has(&before)? => Some(form.key(&before)?),
            _ => None,
        };
        let added = match row.after {
            Some(after) if form.has(&after)? => Some((form.key(&after)?, form.values(&after)?)),
            _ => None,
        };
        Ok(Change::Folded { form: Rc::clone(form), removed, added })
    }

    /// The same as a statement, where foreign keys change other rows along.
    pub(crate) fn in_order(
        form: &Rc<Form>,
        row: &row::Row<'_>,
        is_unchecked: bool,
    ) -> Result<Change, String> {
        let Some(before) = row.before else { return Change::folded(form, row) };
        let mut keys = vec![form.key(&before)?];
        let found = form.condition(&[&keys[0].text]);
        let (sql, is_lax) = match row.after {
            None => (format!("DELETE FROM {} WHERE {found}", form.target), false),
            Some(after) => {
                keys.push(form.key(&after)?);
                let values = form.assignments(&after)?;
                (format!("UPDATE {} SET {} WHERE {found}", form.target, values.text), values.is_lax)
            }
        };
        Ok(Change::InOrder(InOrder { form: Rc::clone(form), sql, is_lax, is_unchecked, keys }))
    }

    /// Its table, and the keys that the row had and has.
    pub(crate) fn keys(&self) -> (&Form, Vec<&Key>) {
        match self {
            Change::Folded { form, removed, added } => {
                (form, removed.iter().chain(added.iter().map(|(key, _)| key)).collect())
            }
            Change::InOrder(InOrder { form, keys, .. }) => (form, keys.iter().collect()),
        }
    }

    /// Bytes of its SQL, about.
    pub(crate) fn bytes(&self) -> usize {
        let of_key = |key: &Key| key.bytes.len() + key.text.len();
        match self {
            Change::Folded { removed, added, .. } => {
                removed.as_ref().map_or(0, of_key)
                    + added.as_ref().map_or(0, |(key, values)| of_key(key) + values.text.len())
            }
            Change::InOrder(statement) => statement.sql.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Folded, InOrder, Key, Rc, Values, Window};
    use crate::form::tests::form;

    fn key(text: &str) -> Key {
        Key { bytes: text.as_bytes().to_vec(), text: format!("'{text}'") }
    }

    fn values(text: &str, is_lax: bool) -> Values {
        Values { text: text.to_owned(), is_lax }
    }

    #[test]
    fn of_each_row_only_its_first_and_last_state_count() {
        let (form, mut window) = (Rc::new(form()), Window::default());
        for (removed, added) in [
            (None, Some(("a", "(1)"))),
            (Some("a"), Some(("a", "(2)"))),
            (Some("b"), Some(("b", "(3)"))),
            (Some("c"), None),
            (Some("d"), Some(("e", "(4)"))),
            (None, Some(("old", "(5)"))),
            (Some("old"), None),
            (None, Some(("c", "(6)"))),
        ] {
            let added = added.map(|(text, row)| (key(text), values(row, text == "e")));
            window.fold(&form, removed.map(key), added);
        }
        // The key of what is removed twice, once as SQL; of what is added once, with its values.
        assert_eq!(window.bytes, 4 * (1 + 3) + (3 + 5) + 5 * (1 + 3) + (3 + 3));
        let folded: Vec<Folded> = window.take().collect();
        let [Folded { deleted, inserted, lax, .. }] = folded.as_slice() else { panic!("several tables") };
        assert_eq!(deleted, &["'b'", "'c'", "'d'"]);
        assert_eq!(
            (inserted.as_slice(), lax.as_slice()),
            (&["(2)", "(3)", "(6)"].map(str::to_owned)[..], &["(4)".to_owned()][..])
        );
        assert!(window.bytes == 0 && window.take().next().is_none());
    }

    #[test]
    fn a_change_knows_the_bytes_of_its_sql() {
        let form = Rc::new(form());
        let folded = |removed, added| Change::Folded { form: Rc::clone(&form), removed, added }.bytes();
        assert_eq!(folded(Some(key("abc")), None), 3 + 5);
        assert_eq!(folded(None, Some((key("ab"), values("(1)", false)))), 2 + 4 + 3);
        assert_eq!(folded(Some(key("abc")), Some((key("ab"), values("(1)", false)))), 8 + 9);
        let sql = "DELETE FROM t".to_owned();
        let statement = InOrder { form, sql, is_lax: false, is_unchecked: false, keys: Vec::new() };
        assert_eq!(Change::InOrder(statement).bytes(), 13);
    }
}
