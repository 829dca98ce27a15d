//! Advice about settings. Each rule needs evidence from this server, and cites a measurement or the
//! manual. Matters of taste are not rules.

mod memory;

use std::collections::BTreeMap;

use ::server::{Error, Session};

use super::{Snapshot, is_administrative, number, read_server};

/// What is known about a server.
#[derive(Debug)]
pub struct Facts {
    /// Its settings.
    pub settings: Snapshot,
    /// Its counters, by names in lower case.
    pub status: BTreeMap<String, String>,
    /// Data and indexes of InnoDB tables in bytes.
    pub innodb_bytes: u64,
    /// The memory of its machine in bytes, if it is this one.
    pub memory_bytes: Option<u64>,
}

/// A piece of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The rule's name.
    pub rule: &'static str,
    /// The evidence on this server.
    pub seen: String,
    /// Why that matters.
    pub why: &'static str,
    /// The source, or how it was measured.
    pub source: &'static str,
    /// What to type, or to write into the option file.
    pub remedy: String,
}

impl Facts {
    /// Reads the facts from a server.
    ///
    /// # Errors
    ///
    /// Errors of the session.
    pub fn read(session: &mut Session) -> Result<Facts, Error> {
        let settings = read_server(session)?;
        let status = crate::pairs(session, "SHOW GLOBAL STATUS")?.into_iter();
        let status = status.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let bytes = session.value(
            "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE engine = 'InnoDB'",
        )?;
        let innodb_bytes = bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        Ok(Facts { settings, status, innodb_bytes, memory_bytes: None })
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.settings.variables.get(name)?.value.as_deref()
    }

    fn number(&self, name: &str) -> Option<i128> {
        match number(self.value(name)?)? {
            super::Number::Whole(whole) => Some(whole),
            super::Number::Real(_) => None,
        }
    }

    fn is_on(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| super::value_equality::switch(value) == Some(true))
    }

    fn count(&self, name: &str) -> u64 {
        self.status.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

/// The advice for a server.
#[must_use]
pub fn advise(facts: &Facts) -> Vec<Advice> {
    let single = [
        redo_log(facts),
        binary_log(facts),
        torn_pages(facts),
        strict(facts),
        never_purged(facts),
        memory::connections(facts),
        memory::memory(facts),
        memory::table_cache(facts),
        memory::thread_cache(facts),
        memory::buffer_pool(facts),
        memory::log_buffer(facts),
        memory::binlog_cache(facts),
        memory::query_cache(facts),
        by_hand(facts),
    ];
    single.into_iter().flatten().chain(memory::session_buffers(facts)).collect()
}

fn redo_log(facts: &Facts) -> Option<Advice> {
    let value = facts.value("innodb_flush_log_at_trx_commit").filter(|value| matches!(*value, "0" | "2"))?;
    Some(Advice {
        rule: "redo log",
        seen: format!("innodb_flush_log_at_trx_commit = {value}"),
        why: "transactions that were committed in the last second are lost when the machine goes down; with 0 \
              also when the server does",
        source: "https://mariadb.com/kb/en/innodb-system-variables/#innodb_flush_log_at_trx_commit",
        remedy: "SET GLOBAL innodb_flush_log_at_trx_commit = 1".to_owned(),
    })
}

fn binary_log(facts: &Facts) -> Option<Advice> {
    let value = facts.number("sync_binlog").filter(|value| *value != 1 && facts.is_on("log_bin"))?;
    Some(Advice {
        rule: "binary log",
        seen: format!("sync_binlog = {value}, log_bin = ON"),
        why: "when the machine goes down the binary log may lack transactions that the replicas have seen, or \
              that InnoDB has kept: they differ from then on",
        source: "https://mariadb.com/kb/en/replication-and-binary-log-system-variables/#sync_binlog",
        remedy: "SET GLOBAL sync_binlog = 1".to_owned(),
    })
}

fn torn_pages(facts: &Facts) -> Option<Advice> {
    facts.value("innodb_doublewrite").filter(|value| super::value_equality::switch(value) == Some(false))?;
    Some(Advice {
        rule: "torn pages",
        seen: "innodb_doublewrite = OFF".to_owned(),
        why: "a page that is half written when the machine goes down can't be repaired, unless the disk writes 16 \
              KiB at once",
        source: "https://mariadb.com/kb/en/innodb-doublewrite-buffer/",
        remedy: "innodb_doublewrite = ON in the option file, then restart".to_owned(),
    })
}

fn strict(facts: &Facts) -> Option<Advice> {
    let mode = facts.value("sql_mode")?;
    let is_strict = ["STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL"];
    if is_strict.iter().any(|word| mode.contains(word)) {
        return None;
    }
    Some(Advice {
        rule: "strict mode",
        seen: format!("sql_mode = {mode:?}, without STRICT_TRANS_TABLES"),
        why: "values that do not fit are changed, and the statement succeeds: 300 into a TINYINT becomes 127",
        source: "measured: remora's tests insert 300 with and without it; https://mariadb.com/kb/en/sql-mode/",
        remedy: format!(
            "SET GLOBAL sql_mode = {}; try the application with it first",
            quoted(&["STRICT_TRANS_TABLES", mode])
        ),
    })
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    format!("'{}'", words.join(","))
}

fn never_purged(facts: &Facts) -> Option<Advice> {
    if !facts.is_on("log_bin") {
        return None;
    }
    let limits = ["expire_logs_days", "binlog_expire_logs_seconds", "max_binlog_total_size"];
    let known: Vec<_> = limits.into_iter().filter(|name| facts.value(name).is_some()).collect();
    let is_zero = |name: &str| facts.value(name).and_then(|value| value.parse::<f64>().ok()) == Some(0.0);
    if known.is_empty() || !known.iter().all(|name| is_zero(name)) {
        return None;
    }
    Some(Advice {
        rule: "binary logs stay",
        seen: format!("log_bin = ON, {} = 0", known.join(" = ")),
        why: "no binary log is ever removed; they grow until the disk is full",
        source: "https://mariadb.com/kb/en/replication-and-binary-log-system-variables/#expire_logs_days",
        remedy: "SET GLOBAL expire_logs_days = 14, or as long as replicas and backups need them".to_owned(),
    })
}

fn by_hand(facts: &Facts) -> Option<Advice> {
    let set = facts.settings.variables.iter().filter(|(name, variable)| {
        let origin = variable.origin.as_deref() == Some("SQL") && !variable.is_fixed;
        let value = variable.value.clone().unwrap_or_default();
        let is_default =
            variable.default.as_ref().is_some_and(|default| super::are_equal(variable, default, &value));
        origin && !is_administrative(name) && !is_default
    });
    let set: Vec<String> = set
        .map(|(name, variable)| format!("{name} = {}", variable.value.as_deref().unwrap_or_default()))
        .collect();
    if set.is_empty() {
        return None;
    }
    Some(Advice {
        rule: "lost at a restart",
        seen: format!("set by SET GLOBAL: {}", set.join("; ")),
        why: "MariaDB does not keep what was set while it ran; the next start has the old values",
        source: "information_schema.SYSTEM_VARIABLES of this server: GLOBAL_VALUE_ORIGIN is SQL",
        remedy: format!("into the option file, below [mysqld]: {}", set.join("; ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::Variable;

    fn facts(settings: &[(&str, &str)], status: &[(&str, &str)]) -> Facts {
        let mut snapshot = Snapshot::read("remora variables 1\ntitle\tx\nversion\tmariadb-1.2.3\n").unwrap();
        for (name, value) in settings {
            let variable = Variable { value: Some((*value).to_owned()), ..Variable::default() };
            snapshot.variables.insert((*name).to_owned(), variable);
        }
        let status = status.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Facts { settings: snapshot, status, innodb_bytes: 1 << 30, memory_bytes: Some(8 << 30) }
    }

    fn rules(settings: &[(&str, &str)], status: &[(&str, &str)]) -> Vec<&'static str> {
        advise(&facts(settings, status)).into_iter().map(|advice| advice.rule).collect()
    }

    #[test]
    fn a_rule_needs_something_that_was_seen() {
        let sound = [
            ("innodb_flush_log_at_trx_commit", "1"),
            ("log_bin", "ON"),
            ("sync_binlog", "1"),
            ("innodb_doublewrite", "ON"),
            ("sql_mode", "STRICT_TRANS_TABLES"),
            ("expire_logs_days", "10.000000"),
            ("binlog_expire_logs_seconds", "864000"),
            ("max_connections", "151"),
            ("query_cache_size", "1048576"),
            ("query_cache_type", "OFF"),
            ("innodb_buffer_pool_size", "134217728"),
            ("sort_buffer_size", "2097152"),
        ];
        let quiet =
            [("max_used_connections", "3"), ("innodb_log_waits", "0"), ("binlog_cache_disk_use", "0")];
        assert_eq!(rules(&sound, &quiet), Vec::<&str>::new());
        let full = [
            ("innodb_buffer_pool_reads", "50"),
            ("innodb_buffer_pool_read_requests", "1000"),
            ("innodb_buffer_pool_pages_free", "10"),
            ("innodb_buffer_pool_pages_total", "8192"),
        ];
        assert_eq!(rules(&sound, &full), ["buffer pool"]);
    }

    #[test]
    fn each_rule_fires() {
        for (setting, status, rule) in [
            (&[("innodb_flush_log_at_trx_commit", "2")][..], &[][..], "redo log"),
            (&[("sync_binlog", "0"), ("log_bin", "ON")], &[], "binary log"),
            (&[("innodb_doublewrite", "OFF")], &[], "torn pages"),
            (&[("sql_mode", "NO_ENGINE_SUBSTITUTION")], &[], "strict mode"),
            (&[("log_bin", "ON"), ("expire_logs_days", "0.000000")], &[], "binary logs stay"),
            (&[("max_connections", "10")], &[("max_used_connections", "11")], "connections"),
            (&[], &[("innodb_log_waits", "7")], "log buffer"),
            (&[], &[("binlog_cache_disk_use", "7"), ("binlog_cache_use", "99")], "binlog cache"),
            (&[("query_cache_type", "ON"), ("query_cache_size", "1048576")], &[], "query cache"),
            (&[("join_buffer_size", "67108864")], &[], "session buffer"),
            (&[("innodb_buffer_pool_size", "64G")], &[], "memory"),
            (&[("innodb_buffer_pool_size", "7G"), ("key_buffer_size", "1G")], &[], "memory"),
            (
                &[("table_open_cache", "10")],
                &[("table_open_cache_overflows", "90"), ("table_open_cache_hits", "9000")],
                "table cache",
            ),
            (&[("thread_cache_size", "0")], &[("threads_created", "7")], "thread cache"),
            // As much as is allowed is too much.
            (&[("max_connections", "10")], &[("max_used_connections", "10")], "connections"),
            (&[("max_connections", "10")], &[("connection_errors_max_connections", "1")], "connections"),
            (&[], &[("binlog_cache_disk_use", "1"), ("binlog_cache_use", "100")], "binlog cache"),
            (&[("sort_buffer_size", "33554432")], &[], "session buffer"),
        ] {
            assert_eq!(rules(setting, status), [rule], "{setting:?} {status:?}");
        }
    }

    #[test]
    fn a_rule_without_evidence_gives_no_advice() {
        for (setting, status) in [
            (&[("sync_binlog", "0"), ("log_bin", "OFF")][..], &[][..]),
            (&[("log_bin", "OFF"), ("expire_logs_days", "0")], &[]),
            (&[("log_bin", "ON")], &[]),
            (&[("log_bin", "ON"), ("expire_logs_days", "0"), ("binlog_expire_logs_seconds", "9")], &[]),
            (&[], &[("binlog_cache_disk_use", "1"), ("binlog_cache_use", "101")]),
            (&[("query_cache_type", "ON"), ("query_cache_size", "0")], &[]),
            (&[("join_buffer_size", "33554431")], &[]),
            (&[("innodb_buffer_pool_size", "7G")], &[]),
            (&[("table_open_cache", "10")], &[("table_open_cache_hits", "9000")]),
            (
                &[("table_open_cache", "10")],
                &[("table_open_cache_overflows", "89"), ("table_open_cache_hits", "9000")],
            ),
            (&[("thread_cache_size", "0"), ("thread_handling", "pool-of-threads")], &[]),
            (&[("thread_cache_size", "8")], &[]),
        ] {
            assert_eq!(rules(setting, status), Vec::<&str>::new(), "{setting:?} {status:?}");
        }
    }

    #[test]
    fn a_buffer_pool_is_small_when_full_and_read_again_and_again() {
        // 1 GiB of data, a pool of so much, so many pages free of 8000, so many reads for 1000 requests.
        let is_small = |pool: &str, free: &str, all: &str, reads: &str| {
            let status = [
                ("innodb_buffer_pool_reads", reads),
                ("innodb_buffer_pool_read_requests", "1000"),
                ("innodb_buffer_pool_pages_free", free),
                ("innodb_buffer_pool_pages_total", all),
            ];
            !rules(&[("innodb_buffer_pool_size", pool)], &status).is_empty()
        };
        assert!(is_small("128M", "399", "8000", "10"));
        assert!(!is_small("1G", "399", "8000", "10") && is_small("1023M", "399", "8000", "10"));
        assert!(!is_small("128M", "400", "8000", "10") && !is_small("128M", "0", "0", "10"));
        assert!(!is_small("128M", "399", "8000", "9"));
    }

    #[test]
    fn the_memory_of_another_machine_is_unknown() {
        let mut facts = facts(&[("innodb_buffer_pool_size", "64G")], &[]);
        assert_eq!(advise(&facts).len(), 1);
        facts.memory_bytes = None;
        assert_eq!(advise(&facts), []);
    }

    #[test]
    fn strict_mode_keeps_the_other_modes() {
        let remedy = |mode: &str| advise(&facts(&[("sql_mode", mode)], &[])).pop().unwrap().remedy;
        assert!(remedy("ANSI_QUOTES").contains("= 'STRICT_TRANS_TABLES,ANSI_QUOTES';"));
        assert!(remedy("").contains("= 'STRICT_TRANS_TABLES';"));
    }

    #[test]
    fn values_set_at_runtime_are_lost_at_a_restart() {
        let advice = |change: fn(&mut Variable)| {
            let mut facts =
                facts(&[("max_heap_table_size", "1"), ("hostname", "x"), ("sort_buffer_size", "7")], &[]);
            for name in ["max_heap_table_size", "hostname"] {
                facts.settings.variables.get_mut(name).unwrap().origin = Some("SQL".into());
            }
            change(facts.settings.variables.get_mut("max_heap_table_size").unwrap());
            advise(&facts).pop()
        };
        let told = advice(|_| {}).unwrap();
        assert_eq!(
            (told.rule, &*told.seen),
            ("lost at a restart", "set by SET GLOBAL: max_heap_table_size = 1")
        );
        assert_eq!(advice(|variable| variable.default = Some("2".into())).unwrap(), told);
        assert_eq!(advice(|variable| variable.default = Some("1".into())), None);
        assert_eq!(advice(|variable| variable.is_fixed = true), None);
    }
}
