//! `remora restore --until`: whether the generation and the archived log are of one history.

use std::fs;

use sandbox::Product;

use crate::recovery_scene::Scene;

#[test]
fn a_log_of_another_history_is_not_replayed() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.backup();
    let other_domain =
        ["SET gtid_domain_id = 5", "INSERT INTO app.t VALUES (3, 'three')", "SET gtid_domain_id = 0"];
    scene.does(&other_domain);
    let moment = scene.moment();
    scene.archive();
    // Statements of the same lengths, so that only the bytes differ.
    scene.does(&["SET sql_log_bin = 0", "DROP TABLE app.t", "SET sql_log_bin = 1", "RESET MASTER"]);
    scene.does(&["CREATE DATABASE IF NOT EXISTS app CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]);
    scene.does(&["CREATE TABLE app.t (id INT PRIMARY KEY, text VARCHAR(50))"]);
    scene.does(&["INSERT INTO app.t VALUES (1, 'eno'), (2, 'owt')"]);
    let rows = (100..130).map(|id| format!("INSERT INTO app.t VALUES ({id}, 'more')"));
    rows.for_each(|sql| scene.does(&[&sql]));
    scene.archive();
    scene.does_not_restore(&["--until", "end"], 1, "it is another history with the same GTIDs");
    let (found, _) = scene.restored(&["--until", "end", "--timeline", "1"]);
    assert_eq!(found, moment.sums);
    // A user who names a point in time of the older timeline need not know that.
    let plan = scene.run(&["restore", "repo/db", "--until", "5-7-1", "--plan"]).exits(0);
    plan.says(&["not in timeline 2 of the archived log, but in timeline 1", "1 transaction to 5-7-1"]);
}

/// Its own log has no transaction, so only the beginning of that can tell.
#[test]
fn a_generation_at_the_beginning_of_a_log_is_compared_by_the_logs_start() {
    let mut scene = Scene::new(Product::MariaDb1011, &[]);
    scene.does(&["RESET MASTER"]);
    scene.backup();
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    scene.archive();
    let first = scene.moment();
    let (found, _) = scene.restored(&["--until", "end"]);
    assert_eq!(found, first.sums);
    // The same files and offsets, in another second.
    scene.does(&["DO SLEEP(1.1)", "RESET MASTER", "INSERT INTO app.t VALUES (4, 'four')"]);
    scene.archive();
    scene.does_not_restore(&["--until", "end"], 1, "no transaction that both logs have");
    fs::remove_dir_all(scene.folder.path().join("repo/db/log/000001")).unwrap();
    scene.does_not_restore(&["--until", "end"], 1, "another history");
}

/// A server's own recovery remembers greater names of its log from before.
#[test]
fn a_generation_after_reset_master_is_replayed() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    for id in 100..140 {
        scene.does(&[&format!("INSERT INTO app.t VALUES ({id}, 'before')"), "FLUSH BINARY LOGS"]);
    }
    scene.does(&["RESET MASTER", "INSERT INTO app.t VALUES (3, 'three')"]);
    scene.backup();
    scene.does(&["INSERT INTO app.t VALUES (4, 'four')"]);
    let moment = scene.moment();
    scene.archive();
    let (found, _) = scene.restored(&["--until", "end"]);
    assert_eq!(found, moment.sums);
}
