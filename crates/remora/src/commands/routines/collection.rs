//! The routines of this program: `sql/routines`, a folder for each with its SQL, its page and its tests.

use server::Flavour;

/// A stored routine.
pub(super) struct Routine {
    pub(super) name: &'static str,
    /// Comments, then one statement.
    pub(super) text: &'static str,
}

macro_rules! routines {
    ($($name:literal),+ $(,)?) => {
        &[$(Routine {
            name: $name,
            text: include_str!(concat!("../../../../../sql/routines/", $name, "/routine.sql")),
        }),+]
    };
}

/// All routines, in the order of the list.
pub(super) static ALL: &[Routine] = routines![
    "gstatus",
    "report",
    "sizes",
    "fragmentation",
    "no_primary_key",
    "duplicate_indexes",
    "unused_indexes",
    "counters_near_end",
    "blockers",
    "long_transactions",
    "replication",
];

/// The beginning of a comment that marks a routine as ours; the checksum of its text follows.
pub(super) const MARK: &str = "remora routine ";

impl Routine {
    /// `FUNCTION` or `PROCEDURE`.
    pub(super) fn kind(&self) -> &'static str {
        if self.text.contains("CREATE FUNCTION ") { "FUNCTION" } else { "PROCEDURE" }
    }

    /// Its purpose, and how to call it.
    pub(super) fn about(&self) -> &'static str {
        let line = self.text.lines().next().unwrap_or_default();
        line.trim_start_matches("-- ")
    }

    /// Whether servers of this family have what it needs.
    pub(super) fn is_for(&self, flavour: Flavour) -> bool {
        !self.text.contains("-- Servers: mariadb") || flavour == Flavour::MariaDb
    }

    /// Its comment on the server, which changes with its text.
    pub(super) fn comment(&self) -> String {
        let purpose = self.text.split_once(&format!("COMMENT '{MARK}1: ")).map_or("", |(_, rest)| rest);
        let purpose = purpose.split('\'').next().unwrap_or_default();
        format!("{MARK}{}: {purpose}", &blake3::hash(self.text.as_bytes()).to_hex()[..8])
    }

    /// The statement that creates it in a database; `db` is quoted.
    pub(super) fn statement(&self, db: &str, or_replace: bool) -> String {
        let start = self.text.find("CREATE ").unwrap_or(0);
        let head = format!("CREATE {} {}(", self.kind(), self.name);
        let replace = if or_replace { "OR REPLACE " } else { "" };
        let new = format!("CREATE {replace}{} {db}.`{}`(", self.kind(), self.name);
        let old = self.text.split_once("COMMENT '").map_or("", |(_, rest)| rest).split('\'').next();
        let text = self.text[start..].trim_end().replacen(&head, &new, 1);
        text.replacen(old.unwrap_or_default(), &self.comment(), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_one_statement_with_its_mark() {
        for routine in ALL {
            let statement = routine.statement("`m`", true);
            let head = format!("CREATE OR REPLACE {} `m`.`{}`(", routine.kind(), routine.name);
            assert!(statement.starts_with(&head), "{}: {statement}", routine.name);
            assert!(statement.contains(&format!("COMMENT '{}'", routine.comment())), "{statement}");
            for word in ["READS SQL DATA", "SQL SECURITY INVOKER"] {
                assert!(statement.contains(word), "{}: {word}", routine.name);
            }
            // In some SQL modes these are quotes, and in others something else.
            assert!(!routine.text.contains('"') && !routine.text.contains("||"), "{}", routine.name);
            assert!(routine.about().contains(routine.name) && routine.comment().len() > 30);
        }
        let names: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/routines"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names.len(), ALL.len(), "{names:?}");
        assert!(names.iter().all(|name| ALL.iter().any(|routine| routine.name == name)), "{names:?}");
    }
}
