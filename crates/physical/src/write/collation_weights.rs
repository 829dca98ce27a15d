//! Keys whose collation only the server knows: it is asked for WEIGHT_STRING of their values.

use std::sync::Mutex;

use innodb::key_order::{KeyOrder, weight_collation};
use innodb::table::{Length, Table};
use innodb::write::{RecordBuilder, Row, append_number};
use server::{Error as Refusal, Session, hex_literal};

use crate::Error;
use crate::sort::Sorter;

/// How many rows and how many bytes of their texts the server gets at once.
const ROWS: usize = 1000;
const BYTES: usize = 256 << 10;

/// Asks for weights; several threads use it.
pub(super) struct Weigher<'a> {
    session: Mutex<&'a mut Session>,
    pub(super) builder: &'a RecordBuilder,
    order: KeyOrder,
    /// The fields of the key that are compared by weights.
    texts: Vec<WeightedField>,
}

/// A field that is compared by weights.
struct WeightedField {
    field: usize,
    charset: &'static str,
    collation: String,
    /// What pads weights to one length, so that spaces at the end mean nothing.
    pad: String,
}

impl WeightedField {
    /// A value as the server takes it from a binary expression.
    fn of(&self, value: &str) -> String {
        format!("CONVERT({value} USING {}) COLLATE {}", self.charset, self.collation)
    }
}

/// Rows that wait until enough of them are there.
#[derive(Default)]
pub(super) struct PendingRows {
    rows: Vec<(u64, Row)>,
    bytes: usize,
}

impl<'a> Weigher<'a> {
    /// `None` if no weights are needed, or none are enough.
    pub(super) fn of(
        session: &'a mut Session,
        table: &Table,
        builder: &'a RecordBuilder,
    ) -> Option<Weigher<'a>> {
        let order = KeyOrder::by_weights(table, table.clustered()).filter(|_| builder.order().is_none())?;
        let fields = table.clustered().fields.iter().take(table.clustered().key_fields);
        let text = |(field, known): (usize, &innodb::table::Field)| {
            let collation = weight_collation(&table.columns().get(known.column?)?.kind)?;
            let charset = collation.charset();
            let bytes = match known.length {
                Length::Fixed(bytes) => u64::from(bytes),
                Length::Variable { max, .. } => u64::from(max),
            };
            let name = collation.name();
            let pad = if name.contains("nopad") {
                String::new()
            } else {
                format!(" AS CHAR({})", (bytes / u64::from(charset.max)).max(1))
            };
            Some(WeightedField { field, charset: charset.name, collation: name, pad })
        };
        let texts = fields.enumerate().filter_map(text).collect();
        Some(Weigher { session: Mutex::new(session), builder, order, texts })
    }

    /// Takes a row, and sorts those that wait when they are enough.
    pub(super) fn push(
        &self,
        (row, place): (&Row, u64),
        waiting: &mut PendingRows,
        sorter: &mut Sorter,
    ) -> Result<(), Error> {
        let values = self.texts.iter().filter_map(|text| self.builder.key_value(text.field, row));
        waiting.bytes += values.map(<[u8]>::len).sum::<usize>();
        waiting.rows.push((place, row.clone()));
        if waiting.rows.len() < ROWS && waiting.bytes < BYTES { Ok(()) } else { self.flush(waiting, sorter) }
    }

    /// Sorts all rows that wait.
    pub(super) fn flush(&self, waiting: &mut PendingRows, sorter: &mut Sorter) -> Result<(), Error> {
        let PendingRows { rows, .. } = std::mem::take(waiting);
        if rows.is_empty() {
            return Ok(());
        }
        let weights = self.weights(&rows)?;
        let mut key = Vec::new();
        for ((place, row), weights) in rows.iter().zip(&weights) {
            key.clear();
            for field in 0..self.builder.layout().key_fields() {
                let text = self.texts.iter().position(|text| text.field == field);
                let value = match text {
                    Some(text) => weights.get(text).map(Vec::as_slice),
                    None => self.builder.key_value(field, row),
                };
                self.order.append(field, value, &mut key);
            }
            sorter.push(&key, |out| {
                append_number(*place, out);
                row.pack(out);
            })?;
        }
        Ok(())
    }

    /// The weights of each row's texts.
    fn weights(&self, rows: &[(u64, Row)]) -> Result<Vec<Vec<Vec<u8>>>, Error> {
        let names: String = (0..self.texts.len()).map(|at| format!(", v{at}")).collect();
        let mut query = format!("WITH t(n{names}) AS (VALUES ");
        for (number, (_, row)) in rows.iter().enumerate() {
            query += if number == 0 { "(" } else { ", (" };
            query += &number.to_string();
            for text in &self.texts {
                query += ", ";
                query += &hex_literal(self.builder.key_value(text.field, row).unwrap_or_default());
            }
            query += ")";
        }
        query += ") SELECT n";
        for (at, text) in self.texts.iter().enumerate() {
            query += &format!(", WEIGHT_STRING({}{})", text.of(&format!("v{at}")), text.pad);
        }
        query += " FROM t";
        let mut all = vec![Vec::new(); rows.len()];
        for row in self.ask(|session| session.rows(&query))? {
            let mut cells = row.into_iter();
            let number = cells.next().flatten().and_then(|cell| String::from_utf8(cell).ok()?.parse().ok());
            let weights: Option<Vec<Vec<u8>>> = cells.collect();
            match (number.and_then(|number: usize| all.get_mut(number)), weights) {
                (Some(place), Some(weights)) => *place = weights,
                _ => return Err(Error::Rejected("the server has no weights for a key".to_owned())),
            }
        }
        if all.iter().all(|weights| weights.len() == self.texts.len()) {
            return Ok(all);
        }
        Err(Error::Rejected("the server has not told the weights of all keys".to_owned()))
    }

    /// Whether the server takes two rows with the same weights for equal in their key. Weights are cut off
    /// where letters make more of them than there are letters.
    pub(super) fn are_equal(&self, one: &Row, other: &Row) -> Result<bool, Error> {
        let equal = |text: &WeightedField| {
            let value = |row| hex_literal(self.builder.key_value(text.field, row).unwrap_or_default());
            let side = |row| text.of(&value(row));
            format!("{} = {}", side(one), side(other))
        };
        let all: Vec<String> = self.texts.iter().map(equal).collect();
        let query = format!("SELECT {}", all.join(" AND "));
        Ok(self.ask(|session| session.value(&query))?.as_deref() == Some("1"))
    }

    fn ask<T>(&self, ask: impl FnOnce(&mut Session) -> Result<T, Refusal>) -> Result<T, Error> {
        let mut session = self.session.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(ask(&mut session)?)
    }
}
