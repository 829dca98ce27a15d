//! Prints a table for the rows.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::{ColumnKind, ColumnType};

/// The longest name of a column, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Bytes per character in utf8mb4, as the server counts them for its limits.
const UTF8MB4_BYTES: usize = 4;

/// A column of a table that will be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, not quoted.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// The tightest type that holds its values, for lack of room.
    pub tight: ColumnKind,
    /// The type as SQL, when the user gave it.
    pub sql: Option<String>,
}

impl Column {
    /// A column; `tight` is the smallest type that will do.
    #[must_use]
    pub fn new(name: &str, column_type: ColumnType, tight: ColumnKind, sql: Option<String>) -> Column {
        Column { name: name.to_owned(), column_type, tight, sql }
    }
}

/// A table that will be created, without its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// Its columns in order.
    pub columns: Vec<Column>,
    /// The names of the primary key's columns; none for no key.
    pub key: Vec<String>,
}

/// The server's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest key of one column in an index, in bytes: 767 in MySQL 5.6, 3072 since.
    pub index_bytes: usize,
    /// The longest row as declared, in bytes, without large objects.
    pub row_bytes: usize,
    /// The longest row that InnoDB stores within a page, in bytes: half of the room in a page.
    pub page_bytes: usize,
    /// The longest type of varying length, in bytes, whose values never go to pages of their own.
    pub in_page_bytes: usize,
    /// The bytes that a value on pages of its own may leave in the row, without its length.
    pub reference_bytes: usize,
}

impl Limits {
    /// The limits of MariaDB with this InnoDB page size; 0 if unknown.
    #[must_use]
    pub fn of_page(page_bytes: u64) -> Limits {
        let page = usize::try_from(page_bytes).unwrap_or(0);
        // A page's headers and its directory take 132 bytes; and a record of 16 KiB is too long for any page.
        let half = page.saturating_sub(132) / 2;
        let limits = Limits::default();
        if page == 0 { limits } else { Limits { page_bytes: half.min(16_383), ..limits } }
    }

    /// These limits as MySQL has them, which counts 40 bytes of any value that is longer than that.
    #[must_use]
    pub fn of_mysql(self) -> Limits {
        Limits { in_page_bytes: 40, reference_bytes: 40, ..self }
    }

    /// The bytes that a TEXT takes of a row in a page, as InnoDB counts them when a table is created.
    #[must_use]
    pub fn text_bytes(self) -> usize {
        self.reference_bytes + 1
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            index_bytes: 3072,
            row_bytes: 65_535,
            page_bytes: 8126,
            in_page_bytes: 255,
            reference_bytes: 20,
        }
    }
}

/// Makes `count` valid column names from a header, which may have fewer or more names.
///
/// Names are trimmed and cut to 64 characters. Control characters and characters beyond the basic plane,
/// which names can't have, become `_`. An empty name becomes `col_` and its position. A repeated name
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

/// The statement that creates the table, over several lines and without a semicolon. `quoted_name` is
/// inserted unchanged.
///
/// If a row is too long with roomy types, all columns get the tightest types. Then the widest VARCHARs become
/// TEXT until the row fits, except key columns. Key columns are NOT NULL, and text among them is compared
/// byte by byte; a key that does not fit an index is left out.
pub fn create_table(quoted_name: &str, schema: &Schema, limits: Limits) -> String {
    let key = usable_key(schema, limits);
    let kinds = fit_row(schema, &key, limits);
    let mut sql = format!("CREATE TABLE {quoted_name} (");
    for (position, (column, kind)) in schema.columns.iter().zip(kinds).enumerate() {
        let in_key = key.contains(&column.name);
        let comma = if position == 0 { "" } else { "," };
        let collation =
            if in_key && matches!(kind, ColumnKind::Varchar { .. }) { " COLLATE utf8mb4_bin" } else { "" };
        let null = if column.column_type.nullable && !in_key { "NULL" } else { "NOT NULL" };
        if let Some(given) = &column.sql {
            write!(sql, "{comma}\n  {} {given}", quote_name(&column.name)).unwrap_or_default();
            continue;
        }
        // Writing to a String can't fail.
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

/// The key, or nothing if one of its columns is missing or too wide.
fn usable_key(schema: &Schema, limits: Limits) -> Vec<String> {
    let fits = |name: &String| {
        let column = schema.columns.iter().find(|column| column.name == *name);
        column.is_some_and(|column| column.sql.is_some() || fits_index(column.tight, limits))
    };
    if schema.key.iter().all(fits) { schema.key.clone() } else { Vec::new() }
}

/// The bytes of a column in an index; `None` for types that can't be indexed as a whole.
fn key_bytes(kind: ColumnKind) -> Option<usize> {
    match kind {
        ColumnKind::Varchar { chars } => Some(chars as usize * UTF8MB4_BYTES),
        ColumnKind::Varbinary { bytes } => Some(bytes as usize),
        ColumnKind::Text | ColumnKind::MediumText | ColumnKind::LongText => None,
        ColumnKind::Blob | ColumnKind::MediumBlob | ColumnKind::LongBlob => None,
        other => Some(row_bytes(other)),
    }
}

fn fits_index(kind: ColumnKind, limits: Limits) -> bool {
    key_bytes(kind).is_some_and(|bytes| bytes <= limits.index_bytes)
}

/// The types of the columns, changed so that the row is within the limits if possible.
fn fit_row(schema: &Schema, key: &[String], limits: Limits) -> Vec<ColumnKind> {
    let in_key = |column: &Column| key.contains(&column.name);
    let mut kinds: Vec<ColumnKind> = schema
        .columns
        .iter()
        .map(|column| match column.column_type.kind {
            wide if in_key(column) && !fits_index(wide, limits) => column.tight,
            kind => kind,
        })
        .collect();
    let null_bits =
        schema.columns.iter().filter(|column| column.column_type.nullable).count().div_ceil(8).max(1);
    let in_page = |kind| page_bytes(kind, limits);
    for (bytes, overhead, limit) in [
        (&row_bytes as &dyn Fn(ColumnKind) -> usize, null_bits, limits.row_bytes),
        (&in_page, null_bits + PAGE_OVERHEAD_BYTES, limits.page_bytes),
    ] {
        let size = |kinds: &[ColumnKind]| overhead + kinds.iter().map(|&kind| bytes(kind)).sum::<usize>();
        if size(&kinds) > limit {
            kinds
                .iter_mut()
                .zip(&schema.columns)
                .for_each(|(kind, column)| *kind = smaller(*kind, column.tight, bytes));
        }
        let mut total = size(&kinds);
        while total > limit {
            let widest = (0..kinds.len())
                .filter(|&at| !in_key(&schema.columns[at]))
                .filter(|&at| bytes(off_row(kinds[at])) < bytes(kinds[at]))
                .max_by_key(|&at| (bytes(kinds[at]), std::cmp::Reverse(at)));
            let Some(at) = widest else { break };
            total -= bytes(kinds[at]) - bytes(off_row(kinds[at]));
            kinds[at] = off_row(kinds[at]);
        }
    }
    kinds
}

/// The tight type if it takes less.
fn smaller(kind: ColumnKind, tight: ColumnKind, bytes: &dyn Fn(ColumnKind) -> usize) -> ColumnKind {
    if bytes(tight) < bytes(kind) { tight } else { kind }
}

/// What InnoDB adds to a row: its header, the row id if there is no key, transaction id and undo pointer.
const PAGE_OVERHEAD_BYTES: usize = 5 + 6 + 6 + 7;

/// The most bytes of a column in a page, as InnoDB counts them when a table is created with
/// ROW_FORMAT=DYNAMIC (`dict_index_t::record_size_info()` of MariaDB 10.11; of MySQL 9.7 it was measured).
fn page_bytes(kind: ColumnKind, limits: Limits) -> usize {
    match kind {
        ColumnKind::Varchar { chars } if chars as usize * UTF8MB4_BYTES > limits.in_page_bytes => {
            limits.text_bytes()
        }
        ColumnKind::Varbinary { bytes } if bytes as usize > limits.in_page_bytes => limits.text_bytes(),
        ColumnKind::Text | ColumnKind::MediumText | ColumnKind::LongText => limits.text_bytes(),
        ColumnKind::Blob | ColumnKind::MediumBlob | ColumnKind::LongBlob => limits.text_bytes(),
        other => row_bytes(other),
    }
}

/// The type for the same content stored outside the row.
fn off_row(kind: ColumnKind) -> ColumnKind {
    match kind {
        ColumnKind::Varchar { .. } => ColumnKind::Text,
        ColumnKind::Varbinary { .. } => ColumnKind::Blob,
        other => other,
    }
}

/// What a column adds to the row size, as the server counts it when a table is created (manual, "Limits on
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

/// Nine digits take four bytes; the remaining digits take half as many bytes.
fn decimal_bytes(digits: usize) -> usize {
    digits / 9 * 4 + (digits % 9).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Written;

    fn column(name: &str, kind: ColumnKind) -> Column {
        let column_type =
            ColumnType { kind, nullable: false, max_chars: 0, max_bytes: 0, written: Written::Plainly };
        Column::new(name, column_type, kind, None)
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
    fn short_texts_that_are_too_many_for_a_page_leave_it() {
        let many = |count: usize, chars| {
            let columns: Vec<Column> =
                (0..count).map(|at| column(&format!("c{at}"), ColumnKind::Varchar { chars })).collect();
            let sql = create_table("t", &Schema { columns, key: Vec::new() }, Limits::default());
            (sql.matches("TEXT").count(), sql.matches("VARCHAR").count())
        };
        // As many as MariaDB 10.11 accepts without TEXT.
        assert_eq!(many(100, 20), (0, 100));
        assert_eq!(many(197, 10), (0, 197));
        assert_eq!(many(32, 63), (0, 32));
        assert_eq!(many(101, 20), (2, 99));
        let (texts, rest) = many(250, 20);
        assert_eq!(texts + rest, 250);
        assert!(texts * 21 + rest * 81 <= 8126, "{texts} {rest}");
        assert_eq!(Limits::of_page(16_384), Limits::default());
        assert_eq!((Limits::of_page(4096).page_bytes, Limits::of_page(65_536).page_bytes), (1982, 16_383));
    }

    #[test]
    fn room_is_given_up_where_there_is_none() {
        let column_type = ColumnType {
            kind: ColumnKind::Varchar { chars: 255 },
            nullable: true,
            max_chars: 9,
            max_bytes: 9,
            written: Written::Plainly,
        };
        let tight = ColumnKind::Varchar { chars: 9 };
        let columns: Vec<Column> =
            (0..90).map(|at| Column::new(&format!("c{at}"), column_type, tight, None)).collect();
        let schema = Schema { columns, key: vec!["c0".to_owned()] };
        let sql = create_table("t", &schema, Limits { index_bytes: 767, ..Limits::default() });
        assert!(
            sql.contains("`c0` VARCHAR(9) COLLATE utf8mb4_bin NOT NULL,\n  `c1` VARCHAR(9) NULL"),
            "{sql}"
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
    fn a_column_takes_as_many_bytes_as_the_server_counts() {
        use ColumnKind::*;
        // In a row, in a page, and in an index.
        for (kind, row, page, index) in [
            (Boolean, 1, 1, Some(1)),
            (Int { bytes: 3, unsigned: true }, 3, 3, Some(3)),
            (Decimal { precision: 5, scale: 2 }, 3, 3, Some(3)),
            (Decimal { precision: 20, scale: 0 }, 9, 9, Some(9)),
            (Decimal { precision: 31, scale: 20 }, 14, 14, Some(14)),
            (Decimal { precision: 2, scale: 2 }, 1, 1, Some(1)),
            (Double, 8, 8, Some(8)),
            (Date, 3, 3, Some(3)),
            (Time { fraction: 0 }, 3, 3, Some(3)),
            (Time { fraction: 5 }, 6, 6, Some(6)),
            (DateTime { fraction: 0, utc: false }, 5, 5, Some(5)),
            (DateTime { fraction: 3, utc: true }, 7, 7, Some(7)),
            (Varchar { chars: 63 }, 253, 253, Some(252)),
            (Varchar { chars: 64 }, 258, 21, Some(256)),
            (Varbinary { bytes: 255 }, 256, 256, Some(255)),
            (Varbinary { bytes: 256 }, 258, 21, Some(256)),
            (Text, 10, 21, None),
            (Blob, 10, 21, None),
            (MediumText, 11, 21, None),
            (MediumBlob, 11, 21, None),
            (LongText, 12, 21, None),
            (LongBlob, 12, 21, None),
        ] {
            let counted = (row_bytes(kind), page_bytes(kind, Limits::default()), key_bytes(kind));
            assert_eq!(counted, (row, page, index), "{kind}");
        }
        // MySQL 9.7 takes 196 columns of any of the first three kinds, and 197 of none.
        let mysql = Limits::default().of_mysql();
        for (kind, page) in [
            (Text, 41),
            (Varchar { chars: 19 }, 41),
            (Varchar { chars: 10 }, 41),
            (Varchar { chars: 9 }, 37),
            (Varbinary { bytes: 41 }, 41),
            (Double, 8),
        ] {
            assert_eq!(page_bytes(kind, mysql), page, "{kind}");
        }
    }

    #[test]
    fn a_row_that_just_fits_keeps_its_types() {
        let room = |chars, tight: u32, nullable| {
            let mut column = column("a", ColumnKind::Varchar { chars });
            column.tight = ColumnKind::Varchar { chars: tight };
            column.column_type.nullable = nullable;
            column
        };
        let kinds = |columns: Vec<Column>, key: &[&str], limits| {
            let key: Vec<String> = key.iter().map(|name| (*name).to_owned()).collect();
            let kinds = fit_row(&Schema { columns, key: key.clone() }, &key, limits);
            kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        // A byte for NULLs, and a text with its length; then the same with the header of a record.
        for (limits, wanted) in [
            (Limits { row_bytes: 42, ..Limits::default() }, "VARCHAR(10)"),
            (Limits { row_bytes: 41, ..Limits::default() }, "VARCHAR(5)"),
            (Limits { row_bytes: 22, ..Limits::default() }, "VARCHAR(5)"),
            (Limits { row_bytes: 21, ..Limits::default() }, "TEXT"),
            (Limits { page_bytes: 66, ..Limits::default() }, "VARCHAR(10)"),
            (Limits { page_bytes: 65, ..Limits::default() }, "VARCHAR(5)"),
        ] {
            assert_eq!(kinds(vec![room(10, 5, true)], &[], limits), wanted, "{limits:?}");
        }
        // Nine columns that may be NULL need two bytes for that.
        let nine = |row_bytes| {
            let limits = Limits { row_bytes, ..Limits::default() };
            kinds((0..9).map(|_| room(10, 5, true)).collect(), &[], limits).matches("(10)").count()
        };
        assert_eq!((nine(9 * 41 + 2), nine(9 * 41 + 1)), (9, 0));
        // A key column has room if that fits an index too.
        let index = |index_bytes| {
            kinds(vec![room(10, 5, false)], &["a"], Limits { index_bytes, ..Limits::default() })
        };
        assert_eq!((index(40).as_str(), index(39).as_str()), ("VARCHAR(10)", "VARCHAR(5)"));
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
