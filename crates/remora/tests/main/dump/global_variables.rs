//! A server's global variables don't change what remora does.

use std::process::Stdio;

use super::{Alone, described};
use crate::support::{Ended, remora};

/// Values for variables that have no list of values, and for those where the rule would choose a harmless
/// one.
const HOSTILE: [(&str, [&str; 2]); 12] = [
    ("character_set_client", ["latin1", "gbk"]),
    ("character_set_connection", ["latin1", "gbk"]),
    ("character_set_results", ["latin1", "gbk"]),
    ("character_set_server", ["latin1", "ucs2"]),
    ("collation_connection", ["latin1_bin", "gbk_bin"]),
    ("default_storage_engine", ["MyISAM", "MEMORY"]),
    ("lc_messages", ["de_DE", "fr_FR"]),
    ("lc_time_names", ["de_DE", "fr_FR"]),
    (
        "sql_mode",
        [
            "ORACLE,NO_BACKSLASH_ESCAPES,EMPTY_STRING_IS_NULL",
            "MAXDB,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE",
        ],
    ),
    ("old_mode", ["", "ZERO_DATE_TIME_CAST"]),
    ("system_versioning_asof", ["2001-02-03 04:05:06", "2002-02-03 04:05:06"]),
    ("time_zone", ["+05:30", "-11:00"]),
];

/// Variables that limit what any session can do, or are not about statements, with the reason.
const LEFT_ALONE: [(&str, &str); 9] = [
    ("max_allowed_packet", "a session can't change it; remora asks for it"),
    ("max_session_mem_used", "no session has enough memory then"),
    ("max_user_connections", "it allows no connection"),
    ("tmp_disk_table_size", "the server's own tables don't fit"),
    ("sql_slave_skip_counter", "it is about replication"),
    ("sql_log_bin", "a session gets it from nowhere"),
    ("storage_engine", "another name for default_storage_engine"),
    ("debug_no_thread_alarm", "it is for those who work on the server"),
    ("log_disabled_statements", "it is about logs"),
];

/// The statement that sets a global variable to something that is not its default, in one of two ways.
fn hostile(way: usize, row: &[Option<String>]) -> Option<String> {
    let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let (name, now, kind, least) = (text(0).to_lowercase(), text(1), text(2), text(3));
    if LEFT_ALONE.iter().any(|(left, _)| *left == name) || name.starts_with("wsrep_") {
        return None;
    }
    let chosen = HOSTILE.iter().find(|(known, _)| *known == name);
    let value = match (chosen, kind.as_str()) {
        (Some((_, values)), _) => format!("'{}'", values[way]),
        (None, "BOOLEAN") if way == 0 => if now == "ON" { "0" } else { "1" }.to_owned(),
        (None, "ENUM") => {
            let list = text(4);
            let mut values: Vec<&str> =
                list.split(',').filter(|value| *value != now && !value.is_empty()).collect();
            if way == 0 {
                values.reverse();
            }
            format!("'{}'", values.first()?)
        }
        (None, kind) if kind.contains("INT") || kind == "DOUBLE" => {
            let least: f64 = least.parse().ok()?;
            // For some 0 means no limit.
            if way == 0 || least > 0.0 { format!("{least}") } else { "1".to_owned() }
        }
        _ => return None,
    };
    Some(format!("SET GLOBAL {name} = {value}"))
}

fn import(alone: &Alone, arguments: &[&str]) -> Ended {
    let mut command = remora(alone.folder.path());
    command.args(["import", "--no-defaults", "-u", "root", "-D", "d", "-S"]).arg(alone.server.socket());
    Ended::of(&command.args(arguments).stdin(Stdio::null()).output().unwrap())
}

/// Every variable that a session begins with is set to something hostile, all of them at once, in two ways.
#[test]
fn no_global_variable_changes_the_result() {
    let alone = Alone::new(&["--log-bin=binlog"]);
    alone.sql(&[
        "CREATE DATABASE d CHARACTER SET utf8mb4",
        "CREATE TABLE d.parent (id INT PRIMARY KEY, f FLOAT, s VARCHAR(200) COLLATE utf8mb4_bin, at TIMESTAMP NULL) ENGINE=InnoDB",
        "CREATE TABLE d.child (id INT AUTO_INCREMENT PRIMARY KEY, p INT, e ENUM('a','b'), j BLOB, CONSTRAINT c CHECK (p > 0), \
         CONSTRAINT f FOREIGN KEY (p) REFERENCES parent (id), KEY (e)) ENGINE=InnoDB",
        "CREATE TABLE d.past (id INT PRIMARY KEY, v INT) ENGINE=InnoDB WITH SYSTEM VERSIONING",
        "CREATE TABLE d.plain (id INT, v CHAR(9)) ENGINE=MyISAM",
        "INSERT INTO d.parent SELECT seq, seq / 7, CONCAT('\\\\', CHAR(39), REPEAT('\u{e4}', seq % 50), ' '), '2026-01-01 00:00:00' + INTERVAL seq HOUR \
         FROM d.seq_1_to_3000",
        "INSERT INTO d.child (p, e, j) SELECT id, 1 + id % 2, CHAR(id) FROM d.parent",
        "SET check_constraint_checks = 0, foreign_key_checks = 0",
        "INSERT INTO d.child (p) VALUES (-1)",
        "INSERT INTO d.past VALUES (1, 1), (2, 2)",
        "UPDATE d.past SET v = v + 1",
        "INSERT INTO d.plain VALUES (1, ''), (2, ' x')",
        "CREATE VIEW d.v AS SELECT COUNT(*) AS n, SUM(f) AS s FROM d.parent",
        "CREATE TRIGGER d.tr BEFORE UPDATE ON d.plain FOR EACH ROW SET NEW.v = 'new'",
        "CREATE PROCEDURE d.p() SELECT \"a\\\\b\"",
        "CREATE EVENT d.e ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01' DO DO 1",
    ]);
    std::fs::write(alone.path("rows.csv"), "id,f,s,at\n9001,1.5,x y,2026-01-01 00:00:00\n9002,,,\n").unwrap();
    let before = described(&mut alone.session(), "d", true);
    let mut session = alone.session();
    let variables = session
        .strings(
            "SELECT VARIABLE_NAME, GLOBAL_VALUE, VARIABLE_TYPE, NUMERIC_MIN_VALUE, ENUM_VALUE_LIST \
             FROM information_schema.SYSTEM_VARIABLES \
             WHERE SESSION_VALUE IS NOT NULL AND GLOBAL_VALUE IS NOT NULL AND READ_ONLY = 'NO'",
        )
        .unwrap();
    for way in [0, 1] {
        let set = variables.iter().filter_map(|row| hostile(way, row));
        let taken = set.filter(|sql| session.execute(sql).is_ok()).count();
        // In the second way the switches are at rest.
        assert!(taken >= [120, 80][way], "{taken} variables are set");
        let name = ["a", "b"][way];
        alone.run("dump", &["d", "-o", name, "-j", "2", "--chunk", "32K"]).exits(0);
        alone.diff(name, &[]).exits(0);
        session.execute("DROP DATABASE d").unwrap();
        alone.run("load", &[name, "-j", "2"]).exits(0);
        import(&alone, &["rows.csv", "--into", "parent", "--append"]).exits(0);
        assert_eq!(
            alone.value("SELECT COUNT(*) FROM d.parent WHERE id > 9000 AND (s = 'x y' OR f IS NULL)"),
            "2"
        );
        session.execute("DELETE FROM d.parent WHERE id > 9000").unwrap();
        import(&alone, &["rows.csv", "--into", "made", "--create"]).exits(0);
        assert_eq!(alone.value("SELECT COUNT(*) FROM d.made"), "2");
        session.execute("DROP TABLE d.made").unwrap();
        for row in &variables {
            let [Some(name), Some(value), Some(kind), ..] = row.as_slice() else { panic!("{row:?}") };
            let quote = if kind.contains("INT") || kind == "DOUBLE" { "" } else { "'" };
            session.execute(&format!("SET GLOBAL {name} = {quote}{value}{quote}")).ok();
        }
        // A server shows definitions as its sql_mode says.
        assert_eq!(described(&mut alone.session(), "d", true), before);
    }
}
