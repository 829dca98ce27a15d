//! Sums over transactions: by table, and the largest.

use std::collections::BTreeMap;

use humanize::date_time;
use progress::size;
use serde_json::json;

use crate::{Transaction, names};

/// How many of the largest transactions are shown.
const LARGEST_MAX: usize = 5;

/// A large transaction.
struct Large {
    bytes: u64,
    rows: u64,
    time: i64,
    name: String,
}

/// Sums over transactions.
#[derive(Default)]
pub struct Sums {
    /// How many.
    pub transactions: u64,
    /// Rows that they changed.
    pub rows: u64,
    /// Bytes in the log.
    pub bytes: u64,
    statements: u64,
    /// By name: transactions; rows inserted, updated, deleted.
    tables: BTreeMap<String, (u64, [u64; 3])>,
    largest: Vec<Large>,
}

impl Sums {
    /// Adds a transaction. `place` names it if it has no GTID.
    pub fn add(&mut self, whole: &Transaction, place: &str) {
        self.transactions += 1;
        self.rows += whole.rows();
        self.bytes += whole.bytes;
        self.statements += whole.statements.len() as u64;
        for table in &whole.tables {
            let (transactions, rows) =
                self.tables.entry(format!("{}.{}", table.schema, table.name)).or_default();
            *transactions += 1;
            rows.iter_mut().zip(table.rows).for_each(|(sum, rows)| *sum += rows);
        }
        let is_large = self.largest.len() < LARGEST_MAX
            || self.largest.last().is_some_and(|least| whole.bytes > least.bytes);
        if is_large {
            let name = names::gtid(whole.name).unwrap_or_else(|| place.to_owned());
            self.largest.push(Large { bytes: whole.bytes, rows: whole.rows(), time: whole.time, name });
            self.largest.sort_by_key(|large| std::cmp::Reverse(large.bytes));
            self.largest.truncate(LARGEST_MAX);
        }
    }

    /// The tables with most rows come first.
    fn tables(&self) -> Vec<(&String, u64, [u64; 3])> {
        let mut all: Vec<_> = self.tables.iter().map(|(name, (count, rows))| (name, *count, *rows)).collect();
        all.sort_by_key(|(_, _, rows)| std::cmp::Reverse(rows.iter().sum::<u64>()));
        all
    }

    /// The sums as lines, or as one line of JSON.
    #[must_use]
    pub fn lines(&self, is_json: bool) -> Vec<String> {
        if is_json {
            return vec![self.json().to_string()];
        }
        let mut lines = vec![
            format!("transactions {:>12}", self.transactions),
            format!("statements   {:>12}", self.statements),
            format!("rows         {:>12}", self.rows),
            format!("bytes        {:>12}", self.bytes),
        ];
        if !self.tables.is_empty() {
            let head = ["inserted", "updated", "deleted", "transactions"];
            lines.push(String::new());
            lines.push(format!("{:>12} {:>12} {:>12} {:>12}  table", head[0], head[1], head[2], head[3]));
        }
        for (name, count, [inserted, updated, deleted]) in self.tables() {
            lines.push(format!("{inserted:>12} {updated:>12} {deleted:>12} {count:>12}  {name}"));
        }
        if !self.largest.is_empty() {
            lines.push(String::new());
            lines.push("the largest transactions:".to_owned());
        }
        for large in &self.largest {
            let time = date_time::shown(large.time);
            let noun = if large.rows == 1 { "row " } else { "rows" };
            lines.push(format!(
                "{:>12} {:>12} {noun}  {time}  {}",
                size(large.bytes),
                large.rows,
                large.name
            ));
        }
        lines
    }

    fn json(&self) -> serde_json::Value {
        let table = |(name, count, [inserted, updated, deleted]): (&String, u64, [u64; 3])| {
            json!({
                "table": name, "transactions": count, "inserted": inserted, "updated": updated, "deleted": deleted,
            })
        };
        let tables: Vec<_> = self.tables().into_iter().map(table).collect();
        let large = |large: &Large| {
            json!({
                "name": large.name, "time": date_time::machine(large.time), "bytes": large.bytes, "rows": large.rows,
            })
        };
        let largest: Vec<_> = self.largest.iter().map(large).collect();
        json!({
            "message_type": "summary", "transactions": self.transactions, "statements": self.statements,
            "rows": self.rows, "bytes": self.bytes, "tables": tables, "largest": largest,
        })
    }
}
