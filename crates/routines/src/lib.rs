//! A collection of stored routines for DBAs: `sql/routines`, a folder for each with its SQL, its page and its
//! tests.

use std::borrow::Cow;

use server::{About, Flavour};

/// A stored routine.
#[derive(Clone, Copy, Debug)]
pub struct Routine {
    /// Its name.
    pub name: &'static str,
    /// Comments, then one statement.
    text: &'static str,
    /// The same for MySQL 8 and later, if more differs than [`MYSQL_8`] says.
    mysql_8: Option<&'static str>,
}

macro_rules! text {
    ($name:literal, $file:literal) => {
        include_str!(concat!("../../../sql/routines/", $name, "/", $file))
    };
}

macro_rules! routine {
    ($name:literal) => {
        Routine { name: $name, text: text!($name, "routine.sql"), mysql_8: None }
    };
    ($name:literal, $file:literal) => {
        Routine { mysql_8: Some(text!($name, $file)), ..routine!($name) }
    };
}

/// All routines, in the order of the list.
pub static ALL: &[Routine] = &[
    routine!("gstatus"),
    routine!("report"),
    routine!("sizes"),
    routine!("fragmentation"),
    routine!("no_primary_key", "mysql_8.sql"),
    routine!("duplicate_indexes"),
    routine!("unused_indexes"),
    routine!("counters_near_end"),
    routine!("blockers"),
    routine!("long_transactions"),
    routine!("replication"),
];

/// What MySQL 8 and later have in the place of what the routines read elsewhere. Their performance_schema
/// keeps the counters of statements apart from the others, and locks in pairs where a pair of transactions is
/// wanted.
const MYSQL_8: [(&str, &str); 4] = [
    (
        "information_schema.global_status",
        "(SELECT variable_name, variable_value FROM performance_schema.global_status
      UNION ALL SELECT CONCAT('Com_', SUBSTRING(event_name, 15)), count_star
        FROM performance_schema.events_statements_summary_global_by_event_name
        WHERE event_name LIKE 'statement/sql/%')",
    ),
    (
        "information_schema.innodb_lock_waits",
        "(SELECT DISTINCT requesting_engine_transaction_id AS requesting_trx_id,
          blocking_engine_transaction_id AS blocking_trx_id FROM performance_schema.data_lock_waits)",
    ),
    (
        "(SELECT variable_value FROM information_schema.global_variables WHERE variable_name = 'USERSTAT') = 'ON'",
        "FALSE",
    ),
    ("SHOW SLAVE STATUS", "SHOW REPLICA STATUS"),
];

/// Kinds of servers for which a routine is written in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MariaDB.
    MariaDb,
    /// MySQL before 8.0.
    MySql5,
    /// MySQL 8.0 and later.
    MySql8,
}

impl Kind {
    /// The kind of a server.
    pub fn of(about: &About) -> Kind {
        match about.flavour {
            Flavour::MariaDb => Kind::MariaDb,
            Flavour::MySql if about.version.major < 8 => Kind::MySql5,
            Flavour::MySql => Kind::MySql8,
        }
    }
}

/// The beginning of a comment that marks a routine as ours; the checksum of its text follows.
pub const MARK: &str = "remora routine ";

impl Routine {
    /// `FUNCTION` or `PROCEDURE`.
    pub fn kind(&self) -> &'static str {
        if self.text.contains("CREATE FUNCTION ") { "FUNCTION" } else { "PROCEDURE" }
    }

    /// Its purpose, and how to call it.
    pub fn about(&self) -> &'static str {
        let line = self.text.lines().next().unwrap_or_default();
        line.trim_start_matches("-- ")
    }

    /// Whether servers of this kind have what it needs.
    pub fn is_for(&self, kind: Kind) -> bool {
        !self.text.contains("-- Servers: mariadb") || kind == Kind::MariaDb
    }

    /// Its text for a kind of servers.
    fn text_for(&self, kind: Kind) -> Cow<'static, str> {
        if kind != Kind::MySql8 {
            return Cow::Borrowed(self.text);
        }
        let text = self.mysql_8.unwrap_or(self.text).to_owned();
        Cow::Owned(MYSQL_8.iter().fold(text, |text, (old, new)| text.replace(old, new)))
    }

    /// Its comment on the server, which changes with its text.
    pub fn comment(&self, kind: Kind) -> String {
        let purpose = self.text.split_once(&format!("COMMENT '{MARK}1: ")).map_or("", |(_, rest)| rest);
        let purpose = purpose.split('\'').next().unwrap_or_default();
        format!("{MARK}{}: {purpose}", &blake3::hash(self.text_for(kind).as_bytes()).to_hex()[..8])
    }

    /// The statement that creates it in a database; `db` is quoted. MariaDB replaces the one that is there.
    pub fn statement(&self, db: &str, kind: Kind) -> String {
        let text = self.text_for(kind);
        let start = text.find("CREATE ").unwrap_or(0);
        let head = format!("CREATE {} {}(", self.kind(), self.name);
        let replace = if kind == Kind::MariaDb { "OR REPLACE " } else { "" };
        let new = format!("CREATE {replace}{} {db}.`{}`(", self.kind(), self.name);
        let old = text.split_once("COMMENT '").map_or("", |(_, rest)| rest).split('\'').next();
        let statement = text[start..].trim_end().replacen(&head, &new, 1);
        statement.replacen(old.unwrap_or_default(), &self.comment(kind), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_one_statement_with_its_mark() {
        let each = |routine| {
            [Kind::MariaDb, Kind::MySql5, Kind::MySql8].into_iter().map(move |kind| (routine, kind))
        };
        for (routine, kind) in ALL.iter().flat_map(each) {
            let (text, statement) = (routine.text_for(kind), routine.statement("`m`", kind));
            let replace = if kind == Kind::MariaDb { "OR REPLACE " } else { "" };
            let head = format!("CREATE {replace}{} `m`.`{}`(", routine.kind(), routine.name);
            assert!(statement.starts_with(&head), "{}: {statement}", routine.name);
            assert!(statement.contains(&format!("COMMENT '{}'", routine.comment(kind))), "{statement}");
            for word in ["READS SQL DATA", "SQL SECURITY INVOKER"] {
                assert!(statement.contains(word), "{}: {word}", routine.name);
            }
            // In some SQL modes these are quotes, and in others something else.
            assert!(!text.contains('"') && !text.contains("||"), "{}", routine.name);
            assert!(routine.about().contains(routine.name) && routine.comment(kind).len() > 30);
        }
        let names: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/routines"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names.len(), ALL.len(), "{names:?}");
        assert!(names.iter().all(|name| ALL.iter().any(|routine| routine.name == name)), "{names:?}");
    }

    #[test]
    fn what_mysql_8_lacks_is_replaced() {
        for (old, _) in MYSQL_8 {
            assert!(ALL.iter().any(|routine| routine.text.contains(old)), "{old}");
            for routine in ALL {
                assert!(!routine.text_for(Kind::MySql8).contains(old), "{}: {old}", routine.name);
                let elsewhere = routine.text.contains(old);
                assert_eq!(routine.text_for(Kind::MySql5).contains(old), elsewhere, "{}", routine.name);
            }
        }
    }
}
