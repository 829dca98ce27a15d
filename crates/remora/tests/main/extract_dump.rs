//! `remora extract --format dump` makes a folder that `remora load` takes and proves.

use std::path::Path;

use sandbox::{Product, Sandbox};

use crate::extract::{TABLES, data, execute, filled, folder, mariadb, run, session};
use crate::extract_backup::{back_up, place};
use crate::support::{Ended, start};

/// A table with everything that its rows do not show, and what belongs to it.
const RICH: &str = "CREATE TABLE parent (id INT AUTO_INCREMENT PRIMARY KEY, code VARCHAR(10) NOT NULL UNIQUE) COMMENT='it''s';
INSERT INTO parent VALUES (3, 'a'), (7, 'b');
CREATE TABLE rich (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, parent INT, at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), \
n INT DEFAULT (1 + 2) COMMENT 'a \"comment\"', f FLOAT(7,2), d DOUBLE, g DECIMAL(10,3) DEFAULT 1.5, e ENUM('x','','X') DEFAULT 'x', \
s SET('a','b') NOT NULL DEFAULT 'a,b', t TEXT CHARACTER SET latin1, u VARCHAR(20) COLLATE utf8mb4_general_ci, \
PRIMARY KEY (id), KEY u (u(5)), CONSTRAINT own FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE, CHECK (n > 0)) ROW_FORMAT=DYNAMIC;
INSERT INTO rich (parent, n, f, d, e, s, t, u) SELECT IF(seq % 2, 3, NULL), seq, seq / 7, -seq / 3, 1 + seq % 3, seq % 4, CONCAT('t', seq), seq FROM seq_1_to_3000;
DELETE FROM rich WHERE id > 2990;
CREATE VIEW shown AS SELECT id, n FROM rich;
CREATE TRIGGER before_it BEFORE INSERT ON rich FOR EACH ROW SET NEW.n = NEW.n + 1;
CREATE TABLE plain (id INT) ENGINE=MyISAM;
CREATE TRIGGER on_plain BEFORE INSERT ON plain FOR EACH ROW SET NEW.id = 1";

fn url(server: &Sandbox) -> String {
    format!("unix://root@{}", server.socket().display())
}

/// Loads a dump into a new server and compares it with the one that its files are of. Returns the
/// differences.
fn differences(from: &mut Sandbox, at: &Path, dump: &str, exclude: &[&str]) -> String {
    let target = start(from.product(), &[]);
    run(at, &["dump", "--check", dump]).exits(0);
    run(at, &["load", dump, "--no-users", "--url", &url(&target)]).exits(0);
    from.restart().unwrap();
    let compare = |one: &str| run(at, &[&["diff", one, &url(&target), "--no-users"], exclude].concat());
    compare(dump).exits(0);
    let ended = compare(&url(from));
    assert!([0, 4].contains(&ended.code), "{}", ended.err);
    ended.out
}

/// The definitions of all tables, as `remora dump` writes them.
fn definitions(server: &Sandbox, at: &Path) -> Ended {
    run(at, &["dump", "app", "-o", "defs", "--no-data", "--no-users", "--url", &url(server)]).exits(0)
}

const SCHEMA: &str = "defs/schema/1-tables.sql";

#[test]
fn the_files_of_a_stopped_server_become_a_dump_of_it() {
    for product in mariadb() {
        let folder = folder();
        let at = folder.path();
        let statements: Vec<&str> = TABLES.split(";\n").collect();
        let mut server = filled(product, &statements);
        definitions(&server, at);
        server.stop().unwrap();
        let data = data(&server);
        let read = |more: &[&str]| run(at, &[&["extract", &data, "--format", "dump"], more].concat());
        read(&["-o", "made"]).exits(1).says(&["foreign keys", "--schema"]);
        read(&["-o", "made.tsv", "--schema", SCHEMA]).exits(2).says(&["make a folder"]);
        read(&["-o", "made", "--schema", SCHEMA, "--deleted"]).exits(2).says(&["--deleted"]);
        let made = read(&["-o", "made", "--schema", SCHEMA]).exits(3);
        made.says(&["app`.`versioned`: 60 rows of the past left out", "rows of 25 tables"]);
        read(&["-o", "made", "--schema", SCHEMA]).exits(1).says(&["made exists already"]);
        assert_eq!(differences(&mut server, at, "made", &["--exclude", "app.versioned"]), "");
        server.stop().unwrap();
        let parquet = ["extract", &data, "--format", "parquet", "-o", "columns", "--schema", SCHEMA];
        run(at, &parquet).exits(3).says(&["rows of 25 tables"]);
        assert!(at.join("columns/app.node/00000.parquet").is_file());
        assert_eq!(differences(&mut server, at, "columns", &["--exclude", "app.versioned"]), "");
        // A definition in other words can't be compared with what a server makes of it.
        let text = std::fs::read_to_string(at.join(SCHEMA)).unwrap();
        let other = text.replace("  `uid` int(11)", "  `uid` INT(11)");
        assert_ne!(text, other);
        std::fs::write(at.join("other.sql"), other).unwrap();
        server.stop().unwrap();
        let refused = read(&["app.node", "-o", "other", "--schema", "other.sql"]).exits(1);
        refused.says(&["is not as SHOW CREATE TABLE prints it", "column `uid`"]);
    }
}

#[test]
fn large_tables_are_cut_into_chunks() {
    let folder = folder();
    let at = folder.path();
    let mut server = filled(
        Product::MariaDb1011,
        &[
            "CREATE TABLE big (n INT, k VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_swedish_ci, x CHAR(120), PRIMARY KEY (k, n))",
            "INSERT INTO big SELECT seq, CONCAT(IF(seq % 3, 'a', 'A'), MD5(seq)), REPEAT('x', 120) FROM seq_1_to_230000",
        ],
    );
    definitions(&server, at);
    server.stop().unwrap();
    run(at, &["extract", &data(&server), "--format", "dump", "-o", "made", "--schema", SCHEMA]).exits(0);
    let files = std::fs::read_dir(at.join("made/app.big")).unwrap().count();
    assert_eq!(files, 2, "of at most 32 MiB of text each");
    assert_eq!(differences(&mut server, at, "made", &[]), "");
}

#[test]
fn a_generation_that_had_to_be_recovered_becomes_a_dump() {
    for product in mariadb() {
        let Some(volume) = place() else { return };
        let at = volume.folder.path();
        let statements: Vec<&str> = RICH.split(";\n").collect();
        let mut server = filled(product, &statements);
        let mut open = session(&server);
        execute(&mut open, &["START TRANSACTION", "INSERT INTO parent VALUES (100, 'never')"]);
        server.kill().unwrap();
        back_up(&volume, &server);
        let read = |more: &[&str]| {
            let first = ["extract", "repo", "--format", "dump", "--server", product.id()];
            volume.remora(&[&first[..], more].concat())
        };
        let made = read(&["-o", "made"]).exits(3);
        made.says(&[
            "recovers a copy",
            "2992 rows of 2 tables",
            "`app`.`plain`: ",
            "on_plain`: its table is not",
        ]);
        let manifest = std::fs::read_to_string(at.join("made/manifest.json")).unwrap();
        for word in ["before_it", "shown", "ON DELETE CASCADE", "\"snapshot\": \"stopped\""] {
            assert!(manifest.contains(word), "{word}");
        }
        assert_eq!(differences(&mut server, at, "made", &["--exclude", "app.plain"]), "");
        // With definitions from a file, what they do not have is told.
        definitions(&server, at);
        server.stop().unwrap();
        // The next number is more than the largest one, and the table's file says so too.
        let text = std::fs::read_to_string(at.join(SCHEMA)).unwrap();
        assert_eq!(text.matches(" AUTO_INCREMENT=").count(), 2);
        let parts: Vec<&str> = text.split(" AUTO_INCREMENT=").collect();
        let parts = parts.iter().map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
        std::fs::write(at.join(SCHEMA), parts.collect::<String>()).unwrap();
        back_up(&volume, &server);
        let made = read(&["app.rich", "app.parent", "-o", "tables", "--schema", SCHEMA]).exits(3);
        made.says(&["triggers of table `app`.`rich`"]);
        let found =
            differences(&mut server, at, "tables", &["--exclude", "app.shown", "--exclude", "app.plain"]);
        assert!(
            found.starts_with("trigger `app`.`before_it`: only in") && found.lines().count() == 1,
            "{found}"
        );
    }
}
