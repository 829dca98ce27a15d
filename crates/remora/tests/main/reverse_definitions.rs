//! `remora reverse REPO/NAME`: what the log does not say of columns comes from the backup beside it.

use crate::extract::execute;
use crate::recovery_scene::Scene;
use crate::reverse::Play;
use crate::reverse_children::run_script;
use crate::support::{Ended, mariadbs};

fn reverse(scene: &Scene, arguments: &[&str]) -> Ended {
    scene.archive();
    std::fs::remove_file(scene.folder.path().join("undo.sql")).ok();
    scene.run(&[&["reverse", "repo/db", "--to", "undo.sql"][..], arguments].concat())
}

fn done(scene: &mut Scene, statements: &[&str]) -> String {
    scene.does(statements);
    scene.session.value("SELECT @@last_gtid").unwrap().unwrap()
}

fn rows(scene: &mut Scene, table: &str) -> Vec<String> {
    let rows = scene.session.strings(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
    rows.into_iter().map(|row| format!("{row:?}")).collect()
}

#[test]
fn definitions_come_from_the_backup_before() {
    let product = mariadbs()[0];
    let mut scene = Scene::new(product, &["--binlog-format=ROW", "--binlog-row-metadata=NO_LOG"]);
    scene.does(&[
        "CREATE TABLE app.g (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20) CHARACTER SET latin1, half DOUBLE AS (id / 2) STORED, \
         virtual_one BIGINT AS (id + 1), kind ENUM('big', 'small'), INDEX (half))",
        "INSERT INTO app.g (id, name, kind) VALUES (4000000000, 'gr\u{fc}n', 'big'), (2, 'it''s', 'small')",
        "CREATE TABLE app.altered (a INT PRIMARY KEY, b INT)",
        "INSERT INTO app.altered VALUES (1, 2)",
    ]);
    scene.archive();
    scene.backup();
    let before = rows(&mut scene, "app.g");
    let gone = done(&mut scene, &["DELETE FROM app.g"]);
    reverse(&scene, &["--gtid", &gone])
        .exits(0)
        .says(&["the columns of app.g are those that it has in db@1"]);
    let script = scene.folder.path().join("undo.sql");
    assert_eq!(run_script(&scene.server, &script).code, 0);
    assert_eq!(rows(&mut scene, "app.g"), before);
    // By name, and members too.
    let changed = done(&mut scene, &["UPDATE app.g SET name = CONCAT(name, '!')"]);
    let ended = reverse(&scene, &["--gtid", &changed, "--where", "kind=small"]).exits(0);
    assert!(ended.err.contains("takes back 1 row of 1 transaction"), "{}", ended.err);

    // What was changed since the backup is not what the backup says, though it has as many columns.
    scene.does(&["ALTER TABLE app.altered CHANGE a aa INT, CHANGE b a INT"]);
    let altered = done(&mut scene, &["DELETE FROM app.altered"]);
    reverse(&scene, &["--gtid", &altered]).exits(1).says(&[
        "app.altered",
        "it was changed since db@1: ALTER TABLE",
        "--schema",
    ]);
    let made =
        done(&mut scene, &["CREATE TABLE app.made (id INT PRIMARY KEY)", "INSERT INTO app.made VALUES (1)"]);
    reverse(&scene, &["--gtid", &made])
        .exits(1)
        .says(&["app.made", "it was changed since db@1: CREATE TABLE"]);
    // TRUNCATE leaves columns as they are, and the next backup has the new ones.
    scene.does(&["TRUNCATE TABLE app.g"]);
    let new = done(&mut scene, &["INSERT INTO app.g (id) VALUES (7)"]);
    reverse(&scene, &["--gtid", &new]).exits(0).says(&["in db@1"]);
    scene.backup();
    let later = done(&mut scene, &["INSERT INTO app.altered VALUES (5, 6)"]);
    reverse(&scene, &["--gtid", &later]).exits(0).says(&["in db@2"]);
    let text = std::fs::read_to_string(&script).unwrap();
    assert!(text.contains("`aa` = 5 AND `a` = 6"), "{text}");
    // Here the definition was changed without the log.
    let hidden = done(
        &mut scene,
        &[
            "SET sql_log_bin = 0",
            "ALTER TABLE app.altered MODIFY a BIGINT",
            "SET sql_log_bin = 1",
            "DELETE FROM app.altered",
        ],
    );
    reverse(&scene, &["--gtid", &hidden])
        .exits(1)
        .says(&["has another type of a in its definition than in the log"]);
    // What the user says counts.
    let schema = "USE app;\nCREATE TABLE altered (x INT, y BIGINT, PRIMARY KEY (x));\n";
    std::fs::write(scene.folder.path().join("s.sql"), schema).unwrap();
    reverse(&scene, &["--gtid", &hidden, "--schema", "s.sql"]).exits(0);
    assert!(std::fs::read_to_string(&script).unwrap().contains("(`x`, `y`)"));
}

/// A row that is longer than a packet stops the script before anything is changed, and says what to set.
#[test]
fn a_script_with_a_long_row_says_which_max_allowed_packet_it_needs() {
    let product = mariadbs()[0];
    let mut play = Play::new(product, &["--max-allowed-packet=64M"]);
    execute(&mut play.session, &["CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)"]);
    execute(&mut play.session, &["INSERT INTO t VALUES (1, REPEAT(x'FF', 9000000))"]);
    let before = play.state("t");
    let gtid = play.done(&["DELETE FROM t"]);
    let ended = play.reverse(&["--gtid", &gtid]).exits(0);
    assert!(ended.err.contains("--max-allowed-packet=33554432"), "{}", ended.err);
    execute(&mut play.session, &["SET GLOBAL max_allowed_packet = 16777216"]);
    play.stops("t", &["SET GLOBAL max_allowed_packet = 33554432"]);
    execute(&mut play.session, &["SET GLOBAL max_allowed_packet = 33554432"]);
    play.run(&["--max-allowed-packet=33554432"]).exits(0);
    assert_eq!(play.state("t"), before);
}
