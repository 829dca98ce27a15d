//! Rows of a table as SQL for the target.

#[cfg(test)]
pub(crate) mod tests;

use binlog::column::Type;
use binlog::event::table::{BINARY, Column as LogColumn, Table as LogTable};
use binlog::literal::{self, Letters};
use binlog::row::{Cell, Image, Row, Value};
use dump::ValueMask;
use innodb::table::collation::Collation;
use server::catalogue::{Column as Defined, Origin};
use server::{Flavour, quote_name};
use transactions::HASH_COLUMN;

use crate::Followed;
use crate::row_condition::RowCondition;
use crate::rules::TableRules;

/// The primary key of a row.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// As the log stores it: what tells two keys apart.
    pub(crate) bytes: Vec<u8>,
    /// As SQL: a value, or a condition if the key has several columns.
    pub(crate) text: String,
}

/// The values of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    /// In parentheses.
    pub(crate) text: String,
    /// Whether the target may store one only without a strict `sql_mode`: what is no member of its ENUM, 1900
    /// in YEAR(2), and the largest number of FLOAT(5,2), which is rounded to one that is out of range.
    pub(crate) is_lax: bool,
}

/// How rows of a table become SQL.
pub(crate) struct Form {
    /// The table on the source, for messages.
    pub(crate) source: String,
    /// The table on the target, quoted.
    pub(crate) target: String,
    /// The columns that are written: `(a, b)`.
    pub(crate) names: String,
    columns: Vec<Column>,
    /// The columns of the key, in their order in the table.
    key: Vec<Column>,
    /// The columns to which foreign keys refer that change other rows along with these.
    cascades: Vec<usize>,
    /// Which rows the target has, if not all, and the columns that decide it.
    condition: Option<(RowCondition, Vec<Column>)>,
    target_flavour: Flavour,
}

#[derive(Clone, Debug)]
struct Column {
    /// Which of the table in the log.
    at: usize,
    /// Quoted.
    name: String,
    letters: Letters,
    /// The character set of a text.
    charset: Option<String>,
    /// Whether it rounds numbers, as FLOAT(5,2).
    rounds: bool,
    /// Whether it is YEAR(2), which takes 0 for 2000.
    is_short_year: bool,
    /// What is stored instead of its values.
    mask: Option<ValueMask>,
}

/// The condition that holds for the rows with these keys, which have these columns.
pub(crate) fn condition(columns: &[String], keys: &[&str]) -> String {
    match columns {
        [column] => format!("{column} IN ({})", keys.join(", ")),
        _ => keys.join(" OR "),
    }
}

impl Column {
    fn new((at, column): (usize, &LogColumn), defined: &Defined, mask: Option<ValueMask>) -> Column {
        let is_real = matches!(column.kind, Type::Float | Type::Double);
        Column {
            at,
            name: quote_name(&defined.name),
            letters: Letters::of(column),
            charset: defined.character_set.clone(),
            rounds: is_real && defined.column_type.contains('('),
            is_short_year: defined.column_type.eq_ignore_ascii_case("year(2)"),
            mask,
        }
    }
}

impl Form {
    /// `table` has the names of its columns.
    pub(crate) fn new(
        table: &LogTable,
        followed: &Followed,
        rules: TableRules,
        target_flavour: Flavour,
    ) -> Result<Form, String> {
        let TableRules { condition, mut masks } = rules;
        let own = &followed.table;
        let mut columns = Vec::with_capacity(table.columns.len());
        let (mut key, mut cascades) = (Vec::new(), Vec::new());
        for (at, column) in table.columns.iter().enumerate() {
            let Some(name) = &column.name else {
                return Err(format!("the log does not name column {} of table {}", at + 1, own.name));
            };
            let Some(defined) = own.columns.iter().find(|defined| defined.name == *name) else {
                if name.starts_with(HASH_COLUMN) {
                    continue;
                }
                return Err(format!(
                    "table {} had no column {} when it was copied",
                    own.name,
                    quote_name(name)
                ));
            };
            if column.is_unsigned.is_none() && matches!(column.kind, Type::Int(_)) {
                return Err(format!(
                    "the log does not say whether column {} of table {} is signed",
                    quote_name(name),
                    own.name
                ));
            }
            if defined.origin != Origin::Stored {
                continue;
            }
            let column = Column::new((at, column), defined, masks.remove(name));
            if followed.cascades.contains(name) {
                cascades.push(at);
            }
            if own.key.contains(name) {
                key.push(column.clone());
            }
            columns.push(column);
        }
        if key.len() != own.key.len() || key.is_empty() {
            return Err(format!("the log has not all columns of the key of table {}", own.name));
        }
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let deciding = |condition: RowCondition| {
            let asked = condition.columns().map(|name| {
                let name = quote_name(name);
                let found = columns.iter().find(|column| column.name == name).cloned();
                found.ok_or_else(|| format!("the log has no column {name} of table {}", own.name))
            });
            let asked = asked.collect::<Result<_, String>>()?;
            Ok::<_, String>((condition, asked))
        };
        Ok(Form {
            condition: condition.map(deciding).transpose()?,
            source: own.name.to_string(),
            target: followed.target.to_string(),
            names: format!("({})", names.join(", ")),
            cascades,
            columns,
            key,
            target_flavour,
        })
    }

    /// Whether foreign keys may change other rows along with this one.
    pub(crate) fn cascades(&self, row: &Row<'_>) -> bool {
        match (row.before, row.after) {
            (Some(before), Some(after)) => {
                let is_changed = |at: &usize| {
                    let (old, new) = (before.cell(*at), after.cell(*at));
                    old.map(|cell| cell.bytes) != new.map(|cell| cell.bytes)
                };
                self.cascades.iter().any(is_changed)
            }
            _ => !self.cascades.is_empty(),
        }
    }

    /// Whether the target has a row.
    ///
    /// # Errors
    /// Which of its values is not understood.
    pub(crate) fn has(&self, image: &Image<'_>) -> Result<bool, String> {
        let Some((condition, columns)) = &self.condition else { return Ok(true) };
        let cells = self.cells(columns, image)?;
        let values = columns.iter().zip(&cells).map(|(column, cell)| self.decoded(column, cell));
        let is_met = condition.is_met(&values.collect::<Result<Vec<_>, String>>()?);
        is_met.map_err(|why| format!("whether a row of {} is copied can't be decided: {why}", self.source))
    }

    /// The key of a row.
    ///
    /// # Errors
    /// Why it can't be written.
    pub(crate) fn key(&self, image: &Image<'_>) -> Result<Key, String> {
        let (mut bytes, mut parts) = (Vec::new(), Vec::with_capacity(self.key.len()));
        let cells = self.cells(&self.key, image)?;
        for (column, cell) in self.key.iter().zip(&cells) {
            let stored = cell.bytes.ok_or_else(|| self.why(column, "it is NULL in a key"))?;
            bytes.extend_from_slice(&(stored.len() as u64).to_le_bytes());
            bytes.extend_from_slice(stored);
            let value = self.compared(column, cell)?;
            parts.push(match self.key.len() {
                1 => value,
                _ => format!("{} = {value}", column.name),
            });
        }
        let text = if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(" AND ")) };
        Ok(Key { bytes, text })
    }

    /// The condition that holds for the rows with these keys.
    pub(crate) fn condition(&self, keys: &[&str]) -> String {
        let names: Vec<String> = self.key.iter().map(|column| column.name.clone()).collect();
        condition(&names, keys)
    }

    /// All values of a row.
    ///
    /// # Errors
    /// Why they can't be written.
    pub(crate) fn values(&self, image: &Image<'_>) -> Result<Values, String> {
        let (stored, is_lax) = self.stored(image)?;
        Ok(Values { text: format!("({})", stored.join(", ")), is_lax })
    }

    /// All values of a row, as UPDATE sets them.
    ///
    /// # Errors
    /// Why they can't be written.
    pub(crate) fn assignments(&self, image: &Image<'_>) -> Result<Values, String> {
        let (stored, is_lax) = self.stored(image)?;
        let set = |(column, value): (&Column, String)| format!("{} = {value}", column.name);
        let text = self.columns.iter().zip(stored).map(set).collect::<Vec<_>>().join(", ");
        Ok(Values { text, is_lax })
    }

    fn stored(&self, image: &Image<'_>) -> Result<(Vec<String>, bool), String> {
        let cells = self.cells(&self.columns, image)?;
        let mut is_lax = false;
        let mut stored = Vec::with_capacity(cells.len());
        for (column, cell) in self.columns.iter().zip(&cells) {
            let value = self.decoded(column, cell)?;
            if let Some(mask) = column.mask.as_ref().filter(|_| value != Value::Null) {
                stored.push(self.masked(column, mask, &value)?);
                continue;
            }
            is_lax |= match value {
                Value::Enum(number, _) => number == 0,
                Value::Year(year) => column.is_short_year && year == 0,
                _ => column.rounds,
            };
            // MariaDB stores the text of a JSON document.
            let is_text = matches!(value, Value::Json(_)) && self.target_flavour == Flavour::MariaDb;
            let is_storable = is_text || matches!(value, Value::Enum(..));
            if let Some(why) = literal::unstorable(&value).filter(|_| !is_storable) {
                return Err(self.why(column, why));
            }
            stored.push(self.written(column, &value)?);
        }
        Ok((stored, is_lax))
    }

    /// The values of these columns, which are in order.
    fn cells<'a>(&self, columns: &[Column], image: &Image<'a>) -> Result<Vec<Cell<'a>>, String> {
        let mut cells = image.cells();
        let mut found = Vec::with_capacity(columns.len());
        for column in columns {
            let cell = cells.find(|cell| cell.at >= column.at).filter(|cell| cell.at == column.at);
            found.push(cell.ok_or_else(|| {
                self.why(
                    column,
                    "the row was not logged whole (binlog_row_image of its session was not FULL)",
                )
            })?);
        }
        Ok(found)
    }

    fn why(&self, column: &Column, why: &str) -> String {
        format!("a value of {} in {} can't be applied: {why}", column.name, self.source)
    }

    fn decoded<'a>(&self, column: &Column, cell: &Cell<'a>) -> Result<Value<'a>, String> {
        cell.value().map_err(|error| self.why(column, &error.to_string()))
    }

    fn masked(&self, column: &Column, mask: &ValueMask, value: &Value<'_>) -> Result<String, String> {
        Ok(match value {
            Value::Int(number) => mask.literal(number.to_string().as_bytes()),
            Value::Unsigned(number) => mask.literal(number.to_string().as_bytes()),
            Value::Bytes(bytes, Some(BINARY)) => mask.literal(bytes),
            Value::Bytes(bytes, number) => {
                let collation = number.and_then(|number| Collation::of_number(u16::try_from(number).ok()?));
                let text = collation.and_then(|collation| collation.charset().text(bytes));
                let text = text.ok_or_else(|| self.why(column, "it is no text of its character set"))?;
                mask.literal(text.as_bytes())
            }
            Value::Either(..) => return Err(self.why(column, "it is unknown whether it is signed")),
            // Only NULL masks other types.
            _ => mask.literal(&[]),
        })
    }

    fn written(&self, column: &Column, value: &Value<'_>) -> Result<String, String> {
        if column.is_short_year && *value == Value::Year(0) {
            return Ok("'1900'".to_owned());
        }
        let mut text = String::new();
        literal::write(value, column.letters, &mut text).map_err(|why| self.why(column, why))?;
        Ok(text)
    }

    /// A value that is compared with a key, so that the server finds it by the key: a text has the character
    /// set of its column.
    fn compared(&self, column: &Column, cell: &Cell<'_>) -> Result<String, String> {
        let value = self.decoded(column, cell)?;
        let text = self.written(column, &value)?;
        Ok(match &column.charset {
            Some(charset) if text.starts_with("x'") => format!("_{charset} {text}"),
            _ => text,
        })
    }
}
