//! Columns by the SQL of their type.

use innodb::table::{Column, Version, sql};

pub(crate) const VERSION: Version = Version(110_806);

/// The column `v` of a latin1 table of this server.
pub(crate) fn column_of(kind: &str, version: Version) -> Column {
    let text = format!("CREATE TABLE t (v {kind}) ENGINE=InnoDB DEFAULT CHARSET=latin1");
    sql::parse(&text, version).unwrap().columns()[0].clone()
}

pub(crate) fn column(kind: &str) -> Column {
    column_of(kind, VERSION)
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
