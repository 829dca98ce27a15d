//! What whole logs have: each transaction with its place, its statements and the rows that it changed.

use failure::Completeness;
use transactions::LogFile;

use crate::support::{all, recorded, walk};

/// Logs of each kind of server. What they have is in `tests/cases`, as mariadb-binlog and the tables of
/// `binlog/tests/cases` say it.
const LOGS: [&str; 7] = [
    "mariadb-10.11",
    "mariadb-10.11-no-sums",
    "mariadb-11.8",
    "mysql-5.6",
    "mysql-9.7",
    "mysql-9.7-compressed",
    "mysql-9.7-json",
];

#[test]
fn each_transaction_of_a_log_is_found() {
    for name in LOGS {
        let path = recorded(name);
        let said = walk(&[LogFile::new(path.clone())], &all());
        let case = format!("{}/tests/cases/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let expected = std::fs::read_to_string(&case).unwrap();
        assert_eq!(said.shown.concat(), expected, "{name}");
        assert_eq!(said.completeness, Completeness::Complete, "{name}");
        assert!(said.reported.is_empty() && said.others.is_empty() && said.missing.is_empty(), "{name}");
        // All but the four bytes in front of the first event. That is too little to report it in parts.
        assert_eq!(said.bytes, [path.metadata().unwrap().len() - 4], "{name}");
        assert!(!said.is_nameless && !said.lacks_columns, "{name}");
    }
}
