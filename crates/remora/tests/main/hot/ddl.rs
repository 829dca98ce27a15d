//! Definitions that change after the pages were read and before the server stops that.

use super::step::Behind;
use super::{Scene, sound};
use crate::support::{connect, until};

/// Before the pages are read.
pub(super) const BEFORE: [&str; 12] = [
    "CREATE TABLE one (id INT PRIMARY KEY, text VARCHAR(20)) SELECT seq AS id, 'one' AS text FROM seq_1_to_100",
    "CREATE TABLE two (id INT PRIMARY KEY, text VARCHAR(20)) SELECT seq AS id, 'two' AS text FROM seq_1_to_50",
    "CREATE TABLE dropped (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_900",
    "CREATE TABLE emptied (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_900",
    "CREATE TABLE emptied_my (id INT PRIMARY KEY) ENGINE=MyISAM SELECT seq AS id FROM seq_1_to_900",
    "CREATE TABLE copied (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_900",
    "CREATE TABLE exported (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_900",
    "CREATE TABLE moved (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_900",
    "CREATE TABLE `odd #name-\u{e9}` (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION `p #1` VALUES LESS THAN (500), \
     PARTITION rest VALUES LESS THAN MAXVALUE) SELECT seq AS id FROM seq_1_to_900",
    "CREATE DATABASE gone",
    "CREATE TABLE gone.any (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_900",
    "CREATE DATABASE fresh",
];

/// What changes then.
pub(super) const THEN: [&str; 17] = [
    "RENAME TABLE one TO three, two TO one, three TO two",
    "UPDATE one SET text = 'was two' WHERE id = 1",
    "DROP TABLE dropped",
    "CREATE TABLE dropped (id INT PRIMARY KEY, more INT) SELECT seq AS id, 5 AS more FROM seq_1_to_7",
    "TRUNCATE TABLE emptied",
    "INSERT INTO emptied VALUES (1), (2)",
    "TRUNCATE TABLE emptied_my",
    "INSERT INTO emptied_my VALUES (3)",
    "ALTER TABLE copied ADD COLUMN more INT DEFAULT 8, ALGORITHM=COPY",
    "RENAME TABLE moved TO fresh.moved",
    "ALTER TABLE `odd #name-\u{e9}` REORGANIZE PARTITION rest INTO (PARTITION `m-n` VALUES LESS THAN (800), PARTITION rest VALUES \
     LESS THAN MAXVALUE)",
    "RENAME TABLE `odd #name-\u{e9}` TO `other@name`",
    "DROP DATABASE gone",
    "CREATE TABLE made (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_300",
    "CREATE VIEW seen AS SELECT * FROM made",
    "CREATE TRIGGER fires BEFORE INSERT ON made FOR EACH ROW SET NEW.id = NEW.id + 1000",
    "CREATE TABLE listed (a INT NOT NULL) ENGINE=CSV",
];

/// What a copy has then.
pub(super) const WANTED: [(&str, &str); 11] = [
    ("SELECT CONCAT(COUNT(*), MIN(text), MAX(text)) FROM one", "50twowas two"),
    ("SELECT CONCAT(COUNT(*), MIN(text), MAX(text)) FROM two", "100oneone"),
    ("SELECT CONCAT(COUNT(*), ' ', SUM(more)) FROM dropped", "7 35"),
    ("SELECT GROUP_CONCAT(id) FROM emptied", "1,2"),
    ("SELECT GROUP_CONCAT(id) FROM emptied_my", "3"),
    ("SELECT CONCAT(COUNT(*), ' ', SUM(more)) FROM copied", "900 7200"),
    ("SELECT COUNT(*) FROM exported", "900"),
    ("SELECT COUNT(*) FROM fresh.moved", "900"),
    ("SELECT CONCAT(COUNT(*), ' ', SUM(id)) FROM `other@name`", "900 405450"),
    ("SELECT COUNT(*) FROM seen", "300"),
    ("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'gone'", "0"),
];

/// Facts: `rename_swap`, `drop_recreate`, `truncate`, `cfg_vanishes`, `odd_names_partitions`, `xa_survives`.
#[test]
fn rename_swap_and_other_ddl_after_the_pages_were_read() {
    for product in super::servers() {
        let scene = Scene::new(product, &[]);
        let mut session = connect(scene.server.socket());
        session.execute("USE app").unwrap();
        BEFORE.iter().for_each(|sql| drop(session.execute(sql).unwrap()));
        // On the disk as they are, so that a page that is missed is seen. Not every server has this.
        session.execute("SET GLOBAL innodb_log_checkpoint_now = 1").ok();
        let mut exports = connect(scene.server.socket());
        exports.execute("FLUSH TABLES app.exported FOR EXPORT").unwrap();
        let mut prepared = connect(scene.server.socket());

        let behind = Behind { scene: &scene, there: None };
        let (gate, mut running) = behind.begin(Some(("BACKUP STAGE FLUSH".to_owned(), 0)));
        let way = gate.wait(&mut running);
        // Its .cfg goes.
        exports.execute("UNLOCK TABLES").unwrap();
        THEN.iter().for_each(|sql| drop(session.execute(sql).unwrap()));
        for sql in
            ["XA START 'x1'", "INSERT INTO app.w0 VALUES (77, 'prepared')", "XA END 'x1'", "XA PREPARE 'x1'"]
        {
            prepared.execute(sql).unwrap();
        }
        way.send(crate::gate::Way::On).unwrap();
        running.end().exits(0).says(&["mysql@1 (full)"]);

        let back = scene.back();
        let mut session = connect(back.socket());
        session.execute("USE app").unwrap();
        for (query, wanted) in WANTED {
            assert_eq!(session.value(query).unwrap().unwrap(), wanted, "{product}: {query}");
        }
        sound(&mut session);
        // What was prepared is neither lost nor done.
        assert_eq!(session.strings("XA RECOVER").unwrap().len(), 1, "{product}");
        assert_eq!(session.value("SELECT COUNT(*) FROM w0").unwrap().unwrap(), "0");
        session.execute("XA COMMIT 'x1'").unwrap();
        assert_eq!(session.value("SELECT id FROM w0").unwrap().unwrap(), "77");
    }
}

/// The same for definitions that are seldom: tables in the system tablespace, indexes of words, partitions
/// that are emptied, pages that become compressed, a database with an odd name.
#[test]
fn what_is_seldom_may_change_after_the_pages_were_read() {
    for product in super::servers() {
        let scene = Scene::new(product, &[]);
        let mut session = connect(scene.server.socket());
        let rows = "SELECT seq AS id, REPEAT(MD5(seq), 7) AS pad FROM app.seq_1_to_900";
        let parts = "(id INT PRIMARY KEY, pad VARCHAR(255)) PARTITION BY HASH (id) PARTITIONS 60";
        for sql in [
            "CREATE DATABASE `d-b \u{e9}`".to_owned(),
            "USE `d-b \u{e9}`".to_owned(),
            format!("CREATE TABLE packed (id INT PRIMARY KEY) {rows}"),
            format!("CREATE TABLE words (id INT PRIMARY KEY, FULLTEXT (pad)) {rows}"),
            format!("CREATE TABLE parts {parts} {rows}"),
            format!("CREATE TABLE discarded (id INT PRIMARY KEY) {rows}"),
            format!("CREATE TABLE replaced (id INT PRIMARY KEY) ENGINE=MyISAM {rows}"),
            format!("CREATE TABLE moved (id INT PRIMARY KEY) {rows}"),
            "SET GLOBAL innodb_file_per_table = OFF".to_owned(),
            format!("CREATE TABLE shared (id INT PRIMARY KEY) {rows}"),
            format!("CREATE TABLE shared_old (id INT PRIMARY KEY) {rows}"),
        ] {
            session.execute(&sql).unwrap();
        }
        session.execute("SET GLOBAL innodb_log_checkpoint_now = 1").ok();
        let behind = Behind { scene: &scene, there: None };
        let (gate, mut running) = behind.begin([("BACKUP STAGE FLUSH".to_owned(), 0)]);
        let way = gate.wait(&mut running);
        for sql in [
            "CREATE TABLE shared_new SELECT * FROM shared",
            "DROP TABLE shared_old",
            "ALTER TABLE shared ADD KEY (pad)",
            "SET GLOBAL innodb_file_per_table = ON",
            "ALTER TABLE packed PAGE_COMPRESSED=1",
            "UPDATE packed SET pad = 'x' WHERE id < 11",
            "ALTER TABLE words DROP KEY pad",
            "ALTER TABLE words ADD FULLTEXT (pad)",
            "INSERT INTO words VALUES (1000, 'unheard of')",
            "ALTER TABLE parts TRUNCATE PARTITION p7, p8",
            "ALTER TABLE parts ADD PARTITION PARTITIONS 1",
            "ALTER TABLE discarded DISCARD TABLESPACE",
            "CREATE OR REPLACE TABLE replaced (id INT PRIMARY KEY) SELECT 5 AS id",
            "ALTER TABLE moved FORCE",
        ] {
            session.strings(sql).unwrap();
        }
        let count = session.value("SELECT COUNT(*) FROM parts").unwrap();
        way.send(crate::gate::Way::On).unwrap();
        running.end().exits(0);
        let back = scene.back();
        let mut session = connect(back.socket());
        session.execute("USE `d-b \u{e9}`").unwrap();
        for (query, wanted) in [
            ("SELECT CONCAT(COUNT(*), ' ', SUM(pad = 'x')) FROM packed", "900 10"),
            ("SELECT COUNT(*) FROM words", "901"),
            ("SELECT id FROM words WHERE MATCH (pad) AGAINST ('unheard')", "1000"),
            ("SELECT COUNT(*) FROM parts", count.as_deref().unwrap()),
            ("SELECT GROUP_CONCAT(id) FROM replaced", "5"),
            ("SELECT COUNT(*) FROM moved", "900"),
            ("SELECT COUNT(DISTINCT pad) FROM shared FORCE INDEX (pad)", "900"),
            ("SELECT COUNT(*) FROM shared_new", "900"),
        ] {
            assert_eq!(session.value(query).unwrap().unwrap(), wanted, "{product}: {query}");
        }
        let tables = "packed, words, parts, replaced, moved, shared, shared_new";
        for row in session.strings(&format!("CHECK TABLE {tables} EXTENDED")).unwrap() {
            assert_eq!(row[3].as_deref(), Some("OK"), "{product}: {row:?}");
        }
        let line = ["verify", "repo", "--boot", "--work", ".", "--server", product.id()];
        scene.run(&line).exits(0).says(&["all sound"]);
    }
}

/// Facts: `alter_copy_dropped_late`. What an ALTER TABLE makes goes between the list of files and their
/// reading. A table between DISCARD and IMPORT is no damage.
#[test]
fn alter_copy_dropped_late_does_no_harm() {
    for product in super::servers() {
        let scene = Scene::new(product, &[]);
        let mut session = connect(scene.server.socket());
        for sql in [
            "USE app",
            "CREATE TABLE slow (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_900",
            "CREATE TABLE gone (id INT PRIMARY KEY)",
            "ALTER TABLE gone DISCARD TABLESPACE",
        ] {
            session.execute(sql).unwrap();
        }
        let made = || {
            let entries = std::fs::read_dir(scene.server.data().join("app")).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.starts_with("#sql")).count()
        };
        let behind = Behind { scene: &scene, there: None };
        let (gate, running) = behind.begin(None);
        running.end().exits(0);
        let all = gate.steps.lock().unwrap().clone();
        // After the list of files, before their reading; and later.
        for part in ["engine FROM information_schema.tables", "STAGE BLOCK_COMMIT", "SHOW MASTER STATUS"] {
            let step = all.iter().rfind(|step| step.0.contains(part)).unwrap();
            let mut other = connect(scene.server.socket());
            let id = other.value("SELECT CONNECTION_ID()").unwrap().unwrap();
            // Some milliseconds for each row. With other engines it would keep DDL from being stopped.
            let sql = "ALTER TABLE app.slow ADD COLUMN x BIGINT DEFAULT (CRC32(MD5(REPEAT(id, 5000000)))), ALGORITHM=COPY";
            let alter = std::thread::spawn(move || other.execute(sql).unwrap_err());
            until("it has made a definition and a tablespace", || made() == 2);
            // The tablespace has its number on the disk then.
            session.execute("SET GLOBAL innodb_log_checkpoint_now = 1").ok();
            let (gate, mut running) = behind.begin(Some(step.clone()));
            let way = gate.wait(&mut running);
            assert_eq!(made(), 2, "{product}: the ALTER has ended");
            session.execute(&format!("KILL QUERY {id}")).unwrap();
            until("what it has made is gone", || made() == 0);
            way.send(crate::gate::Way::On).unwrap();
            running.end().exits(0);
            let said = alter.join().unwrap().to_string();
            assert!(said.contains("interrupted"), "{said}");
            let back = scene.back();
            let count = connect(back.socket()).value("SELECT CONCAT(COUNT(*), ' ', SUM(id)) FROM app.slow");
            assert_eq!(count.unwrap().unwrap(), "900 405450", "{product}");
            drop(back);
            let line = ["verify", "repo", "--boot", "--work", ".", "--server", product.id()];
            scene.run(&line).exits(0).says(&["all sound", "`app`.`gone`: it has no rows"]);
        }
    }
}

/// The list of the binary log's files ends with the one in which the position is, whenever another is begun.
#[test]
fn a_binary_log_that_is_begun_while_nobody_commits_does_no_harm() {
    for product in super::servers() {
        let options = vec!["--log-bin=binlog".to_owned()];
        let scene = Scene { options, ..Scene::new(product, &[]) };
        let mut session = connect(scene.server.socket());
        let behind = Behind { scene: &scene, there: None };
        let (gate, running) = behind.begin(None);
        running.end().exits(0);
        let all = gate.steps.lock().unwrap().clone();
        for part in ["SHOW MASTER STATUS", "SHOW BINARY LOGS"] {
            let step = all.iter().rfind(|step| step.0.contains(part)).unwrap();
            let (gate, mut running) = behind.begin(Some(step.clone()));
            let way = gate.wait(&mut running);
            session.execute("FLUSH BINARY LOGS").unwrap();
            way.send(crate::gate::Way::On).unwrap();
            running.end().exits(0);
            let listed = scene.run(&["list", "repo", "--json"]).exits(0).out;
            let (_, noted) = listed.rsplit_once("\"file\":\"").unwrap();
            let noted = noted.split('"').next().unwrap();
            let back = scene.back();
            let mut session = connect(back.socket());
            let logs = session.strings("SHOW BINARY LOGS").unwrap();
            let names: Vec<&str> = logs.iter().filter_map(|row| row[0].as_deref()).collect();
            let at = names.iter().position(|name| name == &noted);
            // The server begins another one when it starts.
            assert_eq!(at, Some(names.len() - 2), "{product}, {part}: {noted} of {names:?}");
            session.strings(&format!("SHOW BINLOG EVENTS IN '{noted}'")).unwrap();
        }
    }
}

/// Makes a table of 500 rows with its name, and puts its tablespace, exported, and what the server says of
/// that into files.
pub(super) fn exported(scene: &Scene, table: &str, to: &std::path::Path) {
    let mut session = connect(scene.server.socket());
    session.execute("USE app").unwrap();
    let columns = "(id INT PRIMARY KEY, text VARCHAR(100), KEY (text)) STATS_PERSISTENT=0";
    session.execute(&format!("CREATE OR REPLACE TABLE {table} {columns}")).unwrap();
    session.execute(&format!("INSERT INTO {table} SELECT seq, '{table}' FROM seq_1_to_500")).unwrap();
    session.execute(&format!("FLUSH TABLES {table} FOR EXPORT")).unwrap();
    for end in ["ibd", "cfg"] {
        std::fs::copy(scene.server.data().join(format!("app/{table}.{end}")), to.with_extension(end))
            .unwrap();
    }
    session.execute("UNLOCK TABLES").unwrap();
}

/// The redo log has nothing of what IMPORT does to a file. It may have been in its place before the pages
/// were read, or not; and be of the table itself or of another one.
#[test]
fn import_recopied() {
    for product in super::servers() {
        let scene = Scene::new(product, &[]);
        let mut session = connect(scene.server.socket());
        session.execute("USE app").unwrap();
        let file = |name: &str| scene.folder.path().join(name);
        exported(&scene, "other", &file("other"));
        for table in ["own_early", "own_late", "other_early", "other_late"] {
            exported(&scene, table, &file(table));
            session.execute(&format!("UPDATE {table} SET text = 'lost'")).unwrap();
            session.execute(&format!("ALTER TABLE {table} DISCARD TABLESPACE")).unwrap();
        }
        let put = |table: &str| {
            let from = if table.starts_with("own") { table } else { "other" };
            for end in ["ibd", "cfg"] {
                let to = scene.server.data().join(format!("app/{table}.{end}"));
                std::fs::copy(file(from).with_extension(end), to).unwrap();
            }
        };
        put("own_early");
        put("other_early");
        super::since::pass_checkpoint(&mut session);
        let behind = Behind { scene: &scene, there: None };
        let (gate, mut running) = behind.begin([("BACKUP STAGE FLUSH".to_owned(), 0)]);
        let way = gate.wait(&mut running);
        put("own_late");
        put("other_late");
        for table in ["own_early", "own_late", "other_early", "other_late"] {
            session.strings(&format!("ALTER TABLE {table} IMPORT TABLESPACE")).unwrap();
            session.execute(&format!("INSERT INTO {table} VALUES (1000, 'later')")).unwrap();
            session.execute(&format!("UPDATE {table} SET text = 'new' WHERE id < 11")).unwrap();
        }
        way.send(crate::gate::Way::On).unwrap();
        // Of the file that was in its place, with the number that it has still, pages were read.
        running
            .end()
            .exits(1)
            .says(&["app/own_early.ibd was changed while it was read", "make the copy again"]);
        scene.backup(&[]).exits(0);
        let back = scene.back();
        let mut session = connect(back.socket());
        sound(&mut session);
        for table in ["own_early", "own_late", "other_early", "other_late"] {
            let query =
                format!("SELECT CONCAT_WS(' ', COUNT(*), SUM(text = 'new'), MAX(id)) FROM app.{table}");
            assert_eq!(session.value(&query).unwrap().unwrap(), "501 10 1000", "{product}: {table}");
        }
        assert!(!innodb_errors(&back), "{product}");
    }
}

/// Whether a server's InnoDB has told of an error.
fn innodb_errors(server: &sandbox::Sandbox) -> bool {
    let log = std::fs::read_to_string(server.error_log()).unwrap();
    log.lines()
        .filter(|line| line.contains("[ERROR] InnoDB"))
        .inspect(|line| crate::support::tell(line))
        .count()
        > 0
}
