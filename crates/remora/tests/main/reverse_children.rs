//! `remora reverse --children`: rows that foreign keys changed by cascade come back too.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use sandbox::{Product, Sandbox};
use server::Session;

use crate::mount::is_possible;
use crate::recovery_scene::{Scene, on_mariadb};
use crate::reverse::VALUES;
use crate::support::{Ended, tell};

const ROWS: [&str; 2] = ["--binlog-format=ROW", "--binlog-row-metadata=FULL"];
const COMPRESSED: [&str; 2] = ["--log-bin-compress=1", "--log-bin-compress-min-len=10"];

/// Runs a script as a user does.
pub(crate) fn run_script(server: &Sandbox, script: &Path) -> Ended {
    let mut client = Command::new(sandbox::client().unwrap());
    client.args(["--no-defaults", "--binary-mode", "-u", "root", "-S"]).arg(server.socket());
    Ended::of(&client.stdin(File::open(script).unwrap()).output().unwrap())
}

/// The rows of all tables of a database, and the server's checksums.
pub(crate) fn state(session: &mut Session) -> BTreeMap<String, (Vec<String>, Option<String>)> {
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'app' AND table_type = 'BASE TABLE'";
    let mut state = BTreeMap::new();
    for table in session.strings(tables).unwrap().into_iter().flatten().flatten() {
        let rows = session.strings(&format!("SELECT * FROM app.`{table}`")).unwrap();
        let mut rows: Vec<String> = rows.into_iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        let sum = session.strings(&format!("CHECKSUM TABLE app.`{table}` EXTENDED")).unwrap();
        state.insert(table, (rows, sum[0][1].clone()));
    }
    state
}

/// A scene with these tables and rows in its first backup.
pub(crate) fn scene(product: Product, statements: &[&str]) -> Scene {
    let mut scene = Scene::new(product, &ROWS);
    scene.does(statements);
    scene.backup();
    scene
}

pub(crate) trait Children {
    fn done(&mut self, statements: &[&str]) -> String;
    fn children(&mut self, arguments: &[&str]) -> Ended;
    fn runs(&mut self) -> Ended;
    fn without_checks(&mut self) -> String;
    fn back(&mut self, arguments: &[&str]) -> String;
    fn refused(&mut self, arguments: &[&str], words: &[&str]);
    fn now(&mut self) -> BTreeMap<String, (Vec<String>, Option<String>)>;
}

impl Children for Scene {
    /// Does it, and returns the GTID.
    fn done(&mut self, statements: &[&str]) -> String {
        self.does(statements);
        self.session.value("SELECT @@last_gtid").unwrap().unwrap()
    }

    /// Asks for a script.
    fn children(&mut self, arguments: &[&str]) -> Ended {
        self.archive();
        std::fs::remove_file(self.folder.path().join("undo.sql")).ok();
        self.run(&[&["reverse", "repo/db", "--children", "--to", "undo.sql"][..], arguments].concat())
    }

    fn runs(&mut self) -> Ended {
        run_script(&self.server, &self.folder.path().join("undo.sql"))
    }

    /// Deletes the checks of foreign keys from the script, as it allows. Returns it.
    fn without_checks(&mut self) -> String {
        let path = self.folder.path().join("undo.sql");
        let script = std::fs::read_to_string(&path).unwrap();
        let (parts, check) = (script.split("\n\n"), "-- These foreign keys would");
        let script = parts.filter(|part| !part.starts_with(check)).collect::<Vec<_>>().join("\n\n");
        std::fs::write(path, &script).unwrap();
        script
    }

    /// Takes it back, and returns the script.
    fn back(&mut self, arguments: &[&str]) -> String {
        self.children(arguments).exits(0).says(&["nothing was executed"]);
        let script = self.without_checks();
        let ended = self.runs();
        assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
        assert!(
            ended.out.contains("committed") && !ended.out.contains("changed by cascade"),
            "{}",
            ended.out
        );
        script
    }

    /// It is refused with these words, and nothing is left.
    fn refused(&mut self, arguments: &[&str], words: &[&str]) {
        self.children(arguments).exits(1).says(words);
        let left = std::fs::read_dir(self.folder.path()).unwrap();
        let left: Vec<String> =
            left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(left, ["repo"]);
    }

    fn now(&mut self) -> BTreeMap<String, (Vec<String>, Option<String>)> {
        state(&mut self.session)
    }
}

/// Tables below `p` and `c`, in every way in which foreign keys depend on each other.
const TABLES: [&str; 13] = [
    "CREATE TABLE app.g (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES app.c (id) ON DELETE CASCADE)",
    "CREATE TABLE app.nulled (id INT PRIMARY KEY, p INT, g INT, t TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE \
     CURRENT_TIMESTAMP, FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE SET NULL ON UPDATE CASCADE, FOREIGN KEY (g) REFERENCES \
     app.g (id) ON DELETE SET NULL)",
    "CREATE TABLE app.line (p INT, no INT, PRIMARY KEY (p, no), FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE ON UPDATE \
     CASCADE)",
    "CREATE TABLE app.part (p INT, no INT, x VARCHAR(5), PRIMARY KEY (p, no, x), FOREIGN KEY (p, no) REFERENCES \
     app.line (p, no) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE app.tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES app.tree (id) ON DELETE CASCADE)",
    "CREATE TABLE app.staff (id INT PRIMARY KEY, boss INT, FOREIGN KEY (boss) REFERENCES app.staff (id) ON DELETE SET NULL)",
    "CREATE TABLE app.`by code` (id INT PRIMARY KEY, `the code` VARCHAR(9) COLLATE utf8mb4_general_ci, FOREIGN KEY (`the code`) REFERENCES app.p (code) \
     ON DELETE CASCADE)",
    // Rows that must wait for rows of another table that come back.
    "CREATE TABLE app.a_late (id INT PRIMARY KEY, p INT, g INT, FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE \
     ON UPDATE CASCADE, FOREIGN KEY (g) REFERENCES app.g (id) ON DELETE CASCADE)",
    "CREATE TABLE app.held (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES app.p (id))",
    "CREATE TABLE app.x (id INT PRIMARY KEY, y INT)",
    "CREATE TABLE app.y (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES app.x (id) ON DELETE CASCADE)",
    // Deleted before what it refers to, though nothing says so: the names of keys decide.
    "CREATE TABLE app.z_pinned (id INT PRIMARY KEY, p INT, c INT, CONSTRAINT a1 FOREIGN KEY (p) REFERENCES app.p (id) \
     ON DELETE CASCADE ON UPDATE CASCADE, CONSTRAINT a2 FOREIGN KEY (c) REFERENCES app.c (id))",
    // Its file is called nul@@@.
    "CREATE TABLE app.nul (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
];

const ROWS_BELOW: [&str; 15] = [
    "INSERT INTO app.g VALUES (100, 10), (101, 10), (200, 20), (300, 30), (301, 30), (500, 50), (999, NULL)",
    "INSERT INTO app.nulled (id, p, g, t) VALUES (1, 1, 500, '2001-01-01'), (2, 1, 100, '2002-01-01'), (3, 5, 200, '2003-01-01'), \
     (4, 4, 500, '2004-01-01'), (5, NULL, NULL, '2005-01-01'), (6, 3, 301, '2006-01-01')",
    "INSERT INTO app.line VALUES (1, 1), (1, 2), (2, 1), (4, 1), (4, 2), (5, 1)",
    "INSERT INTO app.part VALUES (1, 1, 'a'), (1, 1, 'b'), (1, 2, ''), (4, 1, 'x'), (4, 2, 'x'), (5, 1, 'y')",
    "INSERT INTO app.tree VALUES (1, 1), (2, 1), (3, 2), (4, 3), (5, 2), (9, NULL)",
    "INSERT INTO app.staff VALUES (1, NULL), (2, 1), (3, 1), (4, 2)",
    "INSERT INTO app.`by code` VALUES (1, 'one'), (2, 'two'), (4, 'four')",
    "INSERT INTO app.a_late VALUES (1, 1, 100), (2, 2, 101), (3, 5, 200), (4, 4, NULL)",
    "INSERT INTO app.held VALUES (1, 3)",
    "INSERT INTO app.x VALUES (1, NULL), (2, NULL)",
    "INSERT INTO app.y VALUES (1, 2)",
    "UPDATE app.x SET y = 1 WHERE id = 1",
    "ALTER TABLE app.x ADD FOREIGN KEY (y) REFERENCES app.y (id)",
    "INSERT INTO app.z_pinned VALUES (1, 1, 10), (2, 5, 50)",
    "INSERT INTO app.nul VALUES (1, 1)",
];

/// The tables and rows, with two rows of each type among those that cascades change.
fn filled(product: Product) -> Scene {
    let names = (0..VALUES.len()).map(|at| format!("c{at}")).collect::<Vec<_>>().join(", ");
    let columns = VALUES.iter().enumerate().map(|(at, (kind, ..))| format!("c{at} {kind}"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let first = VALUES.map(|(_, first, _)| first).join(", ");
    let second = VALUES.map(|(_, _, second)| second).join(", ");
    let table = format!(
        "CREATE TABLE app.c (id INT PRIMARY KEY, p INT, {columns}, twice INT AS (id * 2) STORED, \
         FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    );
    let rows = format!(
        "INSERT INTO app.c (id, p, {names}) VALUES (10, 1, {first}), (11, 1, {second}), (20, 2, {first}), (30, 3, {first}), \
         (40, 4, {first}), (50, 5, {second})"
    );
    let own = [
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+02:00'",
        "CREATE TABLE app.p (id INT PRIMARY KEY, code VARCHAR(9) COLLATE utf8mb4_general_ci UNIQUE)",
        &table,
    ];
    let parents = "INSERT INTO app.p VALUES (1, 'one'), (2, 'TWO'), (3, NULL), (4, 'four'), (5, 'five')";
    scene(product, &[&own[..], &TABLES, &[parents, &rows], &ROWS_BELOW].concat())
}

#[test]
fn rows_deleted_by_cascades_come_back() {
    on_mariadb(|product| {
        tell(product);
        let mut scene = filled(product);
        scene.does(&["INSERT INTO app.g VALUES (201, 20)"]);
        let before = scene.now();
        let first = scene.done(&["DELETE FROM app.p WHERE id IN (1, 2)"]);
        scene.done(&[
            "BEGIN",
            // What the log has, too: rows that came, went and moved before the one they refer to.
            "INSERT INTO app.g VALUES (302, 30)",
            "DELETE FROM app.g WHERE id = 300",
            "UPDATE app.nulled SET g = 302 WHERE id = 6",
            // It would forbid the next.
            "DELETE FROM app.held WHERE id = 1",
            "DELETE FROM app.p WHERE id = 3",
            "INSERT INTO app.p VALUES (3, 'again')",
            "INSERT INTO app.line VALUES (3, 1)",
            "DELETE FROM app.p WHERE id = 3",
            "COMMIT",
        ]);
        scene.done(&["UPDATE app.p SET id = 44 WHERE id = 4"]);
        scene.done(&["INSERT INTO app.line VALUES (44, 3)"]);
        scene.done(&["DELETE FROM app.tree WHERE id = 1"]);
        // The cascade of the second row changes rows that the first referred to.
        scene.done(&["DELETE FROM app.x ORDER BY id"]);
        // The second row was changed by the first.
        let last = scene.done(&["DELETE FROM app.staff WHERE id < 3"]);
        let after = scene.now();
        for table in [
            "c", "g", "nulled", "line", "part", "tree", "staff", "by code", "a_late", "z_pinned", "x", "y",
            "nul",
        ] {
            assert_ne!(after[table], before[table], "{table}");
        }
        let script = scene.back(&["--gtid", &format!("{first}-{last}")]);
        let now = scene.now();
        for (table, state) in &before {
            assert_eq!(now[table], *state, "{table}\n{script}");
        }
        assert!(
            script.contains("app.tree: insert 5 (4 of them were changed by cascades of foreign keys)"),
            "{script}"
        );
    });
}

/// Rows that are not selected do not come back, and neither do their children.
#[test]
fn only_children_of_the_selected_rows_come_back() {
    on_mariadb(|product| {
        let mut scene = scene(
            product,
            &[
                "CREATE TABLE app.p (id INT PRIMARY KEY)",
                "CREATE TABLE app.q (id INT PRIMARY KEY)",
                "CREATE TABLE app.c (id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE, \
                 FOREIGN KEY (q) REFERENCES app.q (id) ON DELETE CASCADE)",
                "CREATE TABLE app.alone (id INT PRIMARY KEY)",
                "INSERT INTO app.p VALUES (1), (2), (3)",
                "INSERT INTO app.q VALUES (1)",
                "INSERT INTO app.c VALUES (1, 1, NULL), (2, 1, NULL), (3, 2, NULL), (4, NULL, 1), (5, 3, NULL)",
                "INSERT INTO app.alone VALUES (1)",
            ],
        );
        let gtid = scene.done(&[
            "BEGIN",
            "DELETE FROM app.p WHERE id < 3",
            "DELETE FROM app.q",
            "DELETE FROM app.alone",
            "COMMIT",
        ]);
        // Nothing refers to it.
        let script = scene.back(&["--gtid", &gtid, "--table", "app.alone"]);
        assert!(!script.contains("INTO `app`.`c`") && !script.contains("along"), "{script}");
        let script = scene.back(&["--gtid", &gtid, "--table", "app.p", "--where", "id=1"]);
        assert!(script.contains("app.q too"), "{script}");
        let ids = |scene: &mut Scene| {
            let ids = scene.session.strings("SELECT id FROM app.c ORDER BY id").unwrap();
            ids.into_iter().flatten().flatten().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(&mut scene), "1 2 5");
        let ended =
            scene.children(&["--gtid", &gtid, "--table", "app.p", "--where", "id=2", "--json"]).exits(0);
        let line: serde_json::Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&line["tables"][0]["table"], &line["tables"][0]["taken_along"]),
            (&"c".into(), &1.into())
        );
        scene.runs().exits(0);
        assert_eq!(ids(&mut scene), "1 2 3 5");
        // A log does not always say names.
        scene.does(&["SET GLOBAL binlog_row_metadata = NO_LOG", "UPDATE app.c SET p = NULL WHERE id = 5"]);
        scene.does(&["SET GLOBAL binlog_row_metadata = FULL"]);
        scene.children(&["--gtid", &gtid, "--table", "app.p", "--where", "id=2"]).exits(0);
        // A child that was changed otherwise since is not overwritten.
        scene.does(&["INSERT INTO app.c VALUES (4, 3, NULL)"]);
        scene.children(&["--gtid", &gtid, "--table", "app.q"]).exits(0);
        let before = scene.now();
        scene.runs().exits(1).says(&["Duplicate entry '4'"]);
        assert_eq!(scene.now(), before);
        // A table that was altered since is another one, also if it is only a child.
        scene.does(&["DELETE FROM app.c WHERE id = 4", "ALTER TABLE app.c ADD n INT"]);
        scene.refused(
            &["--gtid", &gtid, "--table", "app.q"],
            &["app.c is another table now", "--despite-ddl"],
        );
        scene.back(&["--gtid", &gtid, "--table", "app.q", "--despite-ddl"]);
        assert_eq!(ids(&mut scene), "1 2 3 4 5");
        // A foreign key that is made between two transactions.
        let first = scene.done(&["DELETE FROM app.alone"]);
        scene.does(&[
            "CREATE TABLE app.late (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES app.alone (id) ON DELETE CASCADE)",
            "INSERT INTO app.alone VALUES (7)",
            "INSERT INTO app.late VALUES (7)",
        ]);
        let last = scene.done(&["DELETE FROM app.alone"]);
        scene.back(&["--gtid", &format!("{first},{last}")]);
        assert_eq!(scene.session.value("SELECT id FROM app.late").unwrap().as_deref(), Some("7"));
    });
}

/// A key that a foreign key set to NULL when the other one changed is set again.
#[test]
fn a_key_that_another_key_set_to_null_is_set_back() {
    on_mariadb(|product| {
        let mut scene = scene(
            product,
            &[
                "CREATE TABLE app.p (id INT PRIMARY KEY)",
                "CREATE TABLE app.r (id INT PRIMARY KEY)",
                "CREATE TABLE app.n (id INT PRIMARY KEY, p INT UNIQUE, FOREIGN KEY (p) REFERENCES app.p (id) ON UPDATE SET NULL)",
                "CREATE TABLE app.m (id INT PRIMARY KEY, n INT, FOREIGN KEY (n) REFERENCES app.n (p) ON UPDATE CASCADE)",
                "CREATE TABLE app.k (p INT PRIMARY KEY, v INT, FOREIGN KEY (p) REFERENCES app.p (id) ON UPDATE CASCADE)",
                "CREATE TABLE app.both (p INT PRIMARY KEY, q INT, FOREIGN KEY (p) REFERENCES app.p (id) ON UPDATE CASCADE, \
                 FOREIGN KEY (q) REFERENCES app.r (id) ON UPDATE SET NULL)",
                "INSERT INTO app.p VALUES (1), (2), (3), (4)",
                "INSERT INTO app.n VALUES (1, 1), (2, 2)",
                "INSERT INTO app.m VALUES (1, 1), (2, 1), (3, 2)",
                "INSERT INTO app.k VALUES (1, 10), (2, 20)",
                "INSERT INTO app.r VALUES (1)",
                "INSERT INTO app.both VALUES (3, 1), (4, 1)",
            ],
        );
        let before = scene.now();
        let gtid = scene.done(&["UPDATE app.p SET id = id + 10 WHERE id = 2"]);
        let after = scene.now();
        assert!(["n", "m", "k"].iter().all(|table| after[*table] != before[*table]));
        scene.back(&["--gtid", &gtid]);
        assert_eq!(scene.now(), before);
        let gtid = scene.done(&[
            "BEGIN",
            "UPDATE app.p SET id = 13 WHERE id = 3",
            "UPDATE app.r SET id = 2",
            "COMMIT",
        ]);
        scene.refused(&["--gtid", &gtid], &["`app`.`both`", "changed the primary key", "restore --tables"]);
        let gtid = scene.done(&[
            "SET foreign_key_checks = 0",
            "DELETE FROM app.p WHERE id = 1",
            "SET foreign_key_checks = 1",
        ]);
        let script = scene.back(&["--gtid", &gtid]);
        assert!(!script.contains("along"), "{script}");
    });
}

#[test]
fn cascades_that_are_not_known_exactly_are_refused() {
    let product = Product::MariaDb1011;
    let mut scene = Scene::new(product, &ROWS);
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    let early = scene.done(&["DELETE FROM app.t WHERE id = 3"]);
    scene.does(&[
        "CREATE TABLE app.p (id INT PRIMARY KEY, first INT)",
        "CREATE TABLE app.nokey (p INT, FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE)",
        "CREATE TABLE app.x (id INT PRIMARY KEY, y INT)",
        "CREATE TABLE app.y (id INT PRIMARY KEY, x INT, z INT, FOREIGN KEY (x) REFERENCES app.x (id) ON DELETE CASCADE, FOREIGN KEY (z) \
         REFERENCES app.y (id) ON DELETE CASCADE)",
        "CREATE TABLE app.dept (id INT PRIMARY KEY, head INT)",
        "CREATE TABLE app.person (id INT PRIMARY KEY, dept INT, FOREIGN KEY (dept) REFERENCES app.dept (id) ON DELETE CASCADE)",
        "ALTER TABLE app.dept ADD FOREIGN KEY (head) REFERENCES app.person (id) ON DELETE SET NULL",
        "INSERT INTO app.dept VALUES (1, NULL), (2, NULL)",
        "INSERT INTO app.person VALUES (1, 1), (2, 1), (3, 2)",
        "UPDATE app.dept SET head = 2",
        "CREATE TABLE app.up (id INT PRIMARY KEY)",
        "CREATE TABLE app.down (up INT PRIMARY KEY, FOREIGN KEY (up) REFERENCES app.up (id) ON DELETE CASCADE)",
        "INSERT INTO app.up VALUES (1)",
        "CREATE TABLE app.`left` (id INT PRIMARY KEY)",
        "CREATE TABLE app.`right` (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES app.`left` (id) ON DELETE CASCADE)",
        "INSERT INTO app.`left` VALUES (1)",
        "INSERT INTO app.p VALUES (1, NULL)",
        "INSERT INTO app.nokey VALUES (1), (1)",
        "INSERT INTO app.x VALUES (1, NULL)",
        "INSERT INTO app.y VALUES (1, 1, NULL), (2, 1, 1)",
        "UPDATE app.y SET z = 2 WHERE id = 1",
    ]);
    scene.backup();
    let gtid = scene.done(&["DELETE FROM app.p"]);
    scene.refused(&["--gtid", &gtid], &["`app`.`nokey` has no primary key", "restore --tables"]);
    let gtid = scene.done(&["DELETE FROM app.x"]);
    scene.refused(&["--gtid", &gtid], &["circle", "`app`.`y`", "restore --tables"]);
    let gtid = scene.done(&["DELETE FROM app.dept WHERE id = 1"]);
    scene.refused(&["--gtid", &gtid], &["circle", "`app`.`dept`"]);
    let gtid = scene.done(&[
        "SET binlog_format = MIXED",
        "BEGIN",
        "INSERT INTO app.down VALUES (1)",
        // Not safe as a statement.
        "DELETE FROM app.up LIMIT 1",
        "COMMIT",
    ]);
    scene.refused(&["--gtid", &gtid, "--table", "app.up"], &["INSERT INTO app.down", "restore --tables"]);
    scene.does(&[
        "SET sql_log_bin = 0",
        "ALTER TABLE app.`left` ADD n INT",
        "SET sql_log_bin = 1, binlog_format = ROW",
    ]);
    let gtid = scene.done(&["DELETE FROM app.`left`"]);
    scene.refused(&["--gtid", &gtid], &["`app`.`left` has other columns in the log", "restore --tables"]);
    scene.refused(&["--gtid", &early], &["in the log after the generation"]);
    scene.refused(&["--gtid", "9-9-9"], &["there is no transaction 9-9-9 in this log"]);
    let wrong = |paths: &[&str], code: i32, why: &str| {
        let line = [&["reverse"], paths, &["--gtid", &gtid, "--children", "--to", "undo.sql"]].concat();
        scene.run(&line).exits(code).says(&[why]);
    };
    wrong(&["repo/db", "repo/db"], 2, "REPO/NAME: name one place, and no files");
    wrong(&["repo/db@7"], 1, "db@7 is not");
    wrong(&[&scene.server.data().display().to_string()], 1, "there is no backup in");
    assert!(!scene.folder.path().join("undo.sql").exists());
}

/// An encrypted backup, and a segmented archive, of a log whose events are compressed.
#[test]
fn children_come_out_of_an_encrypted_repository() {
    let mut scene = Scene::new(Product::MariaDb1011, &[&ROWS[..], &COMPRESSED].concat());
    scene.run(&["key", "new", "full.key"]).exits(0);
    scene.does(&[
        "CREATE TABLE app.p (id INT PRIMARY KEY, v VARCHAR(100))",
        "CREATE TABLE app.c (id INT PRIMARY KEY, p INT, v VARCHAR(100), FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE)",
        "INSERT INTO app.p SELECT seq, REPEAT('p', 100) FROM app.seq_1_to_3",
    ]);
    let key = ["--key", "full.key"];
    let backup = ["backup", "mysql:", "--way", "copy", "--name", "db", "--to", "repo"];
    scene.with_server(&[&backup[..], &key].concat());
    scene.does(&[
        "INSERT INTO app.c SELECT seq, 1 + seq % 3, REPEAT('c', 100) FROM app.seq_1_to_30",
        "FLUSH BINARY LOGS",
    ]);
    let before = scene.now();
    let gtid = scene.done(&["DELETE FROM app.p WHERE id > 1"]);
    scene.with_server(&[&["binlog", "repo/db", "--once"][..], &key].concat());
    let line = ["reverse", "repo/db", "--gtid", &gtid, "--children", "--to", "undo.sql"];
    scene.run(&[&line[..], &key].concat()).exits(0).says(&["22 rows", "20 of them changed by cascades"]);
    scene.runs().exits(0);
    assert_eq!(scene.now(), before);
}

#[test]
fn a_damaged_block_makes_no_script() {
    if !is_possible() {
        return;
    }
    let mut scene = scene(
        Product::MariaDb1011,
        &[
            "CREATE TABLE app.p (id INT PRIMARY KEY)",
            "CREATE TABLE app.c (id INT PRIMARY KEY, p INT, v VARBINARY(900), FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE)",
            "INSERT INTO app.p VALUES (1)",
            "INSERT INTO app.c SELECT seq, 1, RANDOM_BYTES(900) FROM app.seq_1_to_2000",
        ],
    );
    let needle = scene.session.value("SELECT HEX(v) FROM app.c WHERE id = 1000").unwrap().unwrap();
    let bytes = (0..100).map(|at| u8::from_str_radix(&needle[2 * at..2 * at + 2], 16).unwrap());
    let needle: Vec<u8> = bytes.collect();
    let gtid = scene.done(&["DELETE FROM app.p"]);
    let file = scene.folder.path().join("repo/db/000001.blk");
    let mut stored = std::fs::read(&file).unwrap();
    // The log in the backup has the row, too.
    let places: Vec<usize> =
        stored.windows(100).enumerate().filter(|(_, found)| *found == needle).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| stored[*at] ^= 1);
    std::fs::write(&file, stored).unwrap();
    let ended = scene.children(&["--gtid", &gtid]).exits(4);
    assert!(ended.err.contains("damaged"), "{}", ended.err);
    assert!(!scene.folder.path().join("undo.sql").exists());
}
