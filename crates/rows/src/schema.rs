//! A table for the rows.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::{ColumnKind, ColumnType};

/// The longest name of a column, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Bytes per character of utf8mb4, as the server counts them for its limits.
const UTF8MB4_BYTES: usize = 4;

/// A column of a table to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, not quoted.
    pub name: String,
    /// What it holds.
    pub column_type: ColumnType,
}

/// A table to be created, without its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// Its columns in order.
    pub columns: Vec<Column>,
    /// The names of the primary key's columns; none for no key.
    pub key: Vec<String>,
}

/// What a server refuses to exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest key of one column in an index, in bytes: 767 in MySQL 5.6, 3072 since.
    pub index_bytes: usize,
    /// The longest row as declared, in bytes, large objects not counted.
    pub row_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { index_bytes: 3072, row_bytes: 65_535 }
    }
}

/// Makes `count` usable column names of a header, which may be shorter or longer than that.
///
/// Names are trimmed and cut to 64 characters; control characters and those beyond the basic plane, which no
/// name can have, become `_`; an empty name becomes `col_` and its position; a name that was there before
/// (regardless of case) gets `_2`, `_3` and so on.
pub fn column_names(header: &[String], count: usize) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::with_capacity(count);
    for position in 0..count {
        let wanted = clean(header.get(position).map_or("", String::as_str), position);
        let mut name = wanted.clone();
        let mut number = 2;
        while !taken.insert(name.to_lowercase()) {
            let suffix = format!("_{number}");
            name = wanted.chars().take(NAME_CHARS_MAX - suffix.len()).chain(suffix.chars()).collect();
            number += 1;
        }
        names.push(name);
    }
    names
}

fn clean(name: &str, position: usize) -> String {
    let allowed = |c: char| if c.is_control() || c > '\u{ffff}' { '_' } else { c };
    let cut: String = name.trim().chars().map(allowed).take(NAME_CHARS_MAX).collect();
    let trimmed = cut.trim_end();
    if trimmed.is_empty() { format!("col_{}", position + 1) } else { trimmed.to_owned() }
}

/// The statement that creates the table, over several lines and without a semicolon. `quoted_name` goes in as
/// it is.
///
/// The widest VARCHARs become TEXT until the row fits, key columns last. Key columns are NOT NULL, and text
/// among them is compared byte by byte; a key that does not fit an index is left out.
pub fn create_table(quoted_name: &str, schema: &Schema, limits: Limits) -> String {
    let key = usable_key(schema, limits);
    let kinds = fit_row(schema, &key, limits);
    let mut sql = format!("CREATE TABLE {quoted_name} (");
    for (position, (column, kind)) in schema.columns.iter().zip(kinds).enumerate() {
        let in_key = key.contains(&column.name);
        let collation =
            if in_key && matches!(kind, ColumnKind::Varchar { .. }) { " COLLATE utf8mb4_bin" } else { "" };
        let null = if column.column_type.nullable && !in_key { "NULL" } else { "NOT NULL" };
        let comma = if position == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        write!(sql, "{comma}\n  {} {kind}{collation} {null}", quote_name(&column.name)).unwrap_or_default();
    }
    if !key.is_empty() {
        let names: Vec<String> = key.iter().map(|name| quote_name(name)).collect();
        write!(sql, ",\n  PRIMARY KEY ({})", names.join(", ")).unwrap_or_default();
    }
    sql.push_str("\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4");
    sql
}

fn quote_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The key, or nothing when one of its columns is missing or too wide.
fn usable_key(schema: &Schema, limits: Limits) -> Vec<String> {
    let fits = |name: &String| {
        let column = schema.columns.iter().find(|column| column.name == *name);
        column
            .and_then(|column| key_bytes(column.column_type.kind))
            .is_some_and(|bytes| bytes <= limits.index_bytes)
    };
    if schema.key.iter().all(fits) { schema.key.clone() } else { Vec::new() }
}

/// What a column takes in an index; `None` for types that cannot be indexed whole.
fn key_bytes(kind: ColumnKind) -> Option<usize> {
    match kind {
        ColumnKind::Varchar { chars } => Some(chars as usize * UTF8MB4_BYTES),
        ColumnKind::Varbinary { bytes } => Some(bytes as usize),
        ColumnKind::Text | ColumnKind::MediumText | ColumnKind::LongText => None,
        ColumnKind::Blob | ColumnKind::MediumBlob | ColumnKind::LongBlob => None,
        other => Some(row_bytes(other)),
    }
}

/// The kinds of the columns, changed so that the row is within its limit if that is possible at all.
fn fit_row(schema: &Schema, key: &[String], limits: Limits) -> Vec<ColumnKind> {
    let mut kinds: Vec<ColumnKind> = schema.columns.iter().map(|column| column.column_type.kind).collect();
    let null_bits = schema.columns.iter().filter(|column| column.column_type.nullable).count().div_ceil(8);
    let mut total = null_bits.max(1) + kinds.iter().map(|&kind| row_bytes(kind)).sum::<usize>();
    while total > limits.row_bytes {
        let widest = (0..kinds.len())
            .filter(|&at| !key.contains(&schema.columns[at].name))
            .filter(|&at| row_bytes(off_row(kinds[at])) < row_bytes(kinds[at]))
            .max_by_key(|&at| (row_bytes(kinds[at]), std::cmp::Reverse(at)));
        let Some(at) = widest else { break };
        total -= row_bytes(kinds[at]) - row_bytes(off_row(kinds[at]));
        kinds[at] = off_row(kinds[at]);
    }
    kinds
}

/// The same content kept outside of the row.
fn off_row(kind: ColumnKind) -> ColumnKind {
    match kind {
        ColumnKind::Varchar { .. } => ColumnKind::Text,
        ColumnKind::Varbinary { .. } => ColumnKind::Blob,
        other => other,
    }
}

/// What a column adds to the row's size as the server counts it when a table is created (manual, "Limits on
/// Table Column Count and Row Size", and "Data Type Storage Requirements").
fn row_bytes(kind: ColumnKind) -> usize {
    let with_length = |bytes: usize| bytes + if bytes > 255 { 2 } else { 1 };
    match kind {
        ColumnKind::Boolean => 1,
        ColumnKind::Int { bytes, .. } => usize::from(bytes),
        ColumnKind::Decimal { precision, scale } => {
            decimal_bytes(usize::from(precision - scale.min(precision))) + decimal_bytes(usize::from(scale))
        }
        ColumnKind::Double => 8,
        ColumnKind::Date => 3,
        ColumnKind::Time { fraction } => 3 + usize::from(fraction.div_ceil(2)),
        ColumnKind::DateTime { fraction, .. } => 5 + usize::from(fraction.div_ceil(2)),
        ColumnKind::Varchar { chars } => with_length(chars as usize * UTF8MB4_BYTES),
        ColumnKind::Varbinary { bytes } => with_length(bytes as usize),
        ColumnKind::Text | ColumnKind::Blob => 10,
        ColumnKind::MediumText | ColumnKind::MediumBlob => 11,
        ColumnKind::LongText | ColumnKind::LongBlob => 12,
    }
}

/// Nine digits take four bytes, and what is left over half of its digits.
fn decimal_bytes(digits: usize) -> usize {
    digits / 9 * 4 + (digits % 9).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, kind: ColumnKind) -> Column {
        let column_type = ColumnType { kind, nullable: false, max_chars: 0, max_bytes: 0 };
        Column { name: name.to_owned(), column_type }
    }

    #[test]
    fn names_are_distinct_and_allowed() {
        let header = ["a", " A ", "", "a", "b\nc", "\u{1f600}", "a_2"].map(str::to_owned);
        assert_eq!(column_names(&header, 8), ["a", "A_2", "col_3", "a_3", "b_c", "_", "a_2_2", "col_8"]);
        let long = vec!["n".repeat(70), "n".repeat(70)];
        let names = column_names(&long, 2);
        assert_eq!(names, ["n".repeat(64), format!("{}_2", "n".repeat(62))]);
        assert_eq!(column_names(&header, 1), ["a"]);
    }

    #[test]
    fn the_widest_texts_leave_the_row_first() {
        let text = |chars| ColumnKind::Varchar { chars };
        let columns = vec![column("a", text(9000)), column("b", text(10_000)), column("c", text(3000))];
        let schema = Schema { columns, key: Vec::new() };
        let sql = create_table("`t`", &schema, Limits::default());
        assert_eq!(
            sql,
            "CREATE TABLE `t` (\n  `a` VARCHAR(9000) NOT NULL,\n  `b` TEXT NOT NULL,\n  `c` VARCHAR(3000) NOT NULL\n\
             ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
        );
    }

    #[test]
    fn key_columns_stay_in_the_row_and_are_never_null() {
        let text = |chars| ColumnKind::Varchar { chars };
        let mut columns = vec![column("k", text(700)), column("a", text(600)), column("b", text(600))];
        columns[0].column_type.nullable = true;
        let schema = Schema { columns, key: vec!["k".to_owned()] };
        let sql = create_table("t", &schema, Limits { row_bytes: 6000, ..Limits::default() });
        let expected = "`k` VARCHAR(700) COLLATE utf8mb4_bin NOT NULL,\n  `a` TEXT NOT NULL,\n  `b` VARCHAR(600) NOT NULL";
        assert!(sql.contains(expected), "{sql}");
    }

    #[test]
    fn text_keys_are_compared_by_bytes_and_only_if_they_fit() {
        let columns = vec![column("k`", ColumnKind::Varchar { chars: 200 })];
        let schema = Schema { columns, key: vec!["k`".to_owned()] };
        let sql = create_table("t", &schema, Limits::default());
        assert!(
            sql.contains("`k``` VARCHAR(200) COLLATE utf8mb4_bin NOT NULL,\n  PRIMARY KEY (`k```)"),
            "{sql}"
        );
        let sql = create_table("t", &schema, Limits { index_bytes: 767, ..Limits::default() });
        assert!(!sql.contains("KEY") && !sql.contains("COLLATE"), "{sql}");
    }
}
