//! `remora restore --until TIME`: which generation is not later than that.

use std::fs;
use std::process::Stdio;

use sandbox::Product;

use crate::recovery_scene::Scene;
use crate::support::{Running, remora, until};

/// The server's clock is ahead of ours, by the times in its log.
#[test]
fn a_generation_with_later_transactions_is_not_used() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    let at = |second: i64| 1_900_000_000 + second;
    let shown = |second: i64| jiff::Timestamp::from_second(at(second)).unwrap().to_string();
    let insert = |scene: &mut Scene, id: u32, second: i64| {
        let clock = format!("SET timestamp = {}", at(second));
        scene.does(&[&clock, &format!("INSERT INTO app.t VALUES ({id}, 'x')")]);
        scene.moment()
    };
    scene.backup();
    let early = insert(&mut scene, 10, 0);
    let late = insert(&mut scene, 11, 60);
    scene.backup();
    // The file of this one has no transaction before it.
    scene.does(&["FLUSH BINARY LOGS"]);
    scene.backup();
    insert(&mut scene, 12, 100);
    scene.archive();
    scene.came(None);
    fs::remove_file(scene.folder.path().join("repo/db/log/000001/binlog.000002.arrived")).unwrap();
    let (found, ended) = scene.restored(&["--until", &shown(30)]);
    assert_eq!(found, early.sums);
    ended.says(&["db@1 at", &format!("next would be {}", late.gtid)]);
    for named in ["repo/db@2", "repo/db@3"] {
        let plan =
            |second: i64| scene.run(&["restore", named, "--to", "back", "--until", &shown(second), "--plan"]);
        plan(59).exits(1).says(&["not surely of that time", &format!("this is in it: {}", late.gtid)]);
        plan(60).exits(0).says(&["0 transactions"]);
    }
    scene.restore(&["--until", &shown(60), "--plan"]).exits(0).says(&["db@3 at"]);
}

/// The log does not go back to any transaction of the generation, so only the time of the backup is known.
#[test]
fn a_generation_without_logged_transactions_has_the_time_of_its_backup() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.does(&["FLUSH BINARY LOGS"]);
    // The server needs it itself for a while.
    until("the first file is purged", || {
        scene.does(&["PURGE BINARY LOGS TO 'binlog.000002'"]);
        !scene.server.data().join("binlog.000001").exists()
    });
    scene.backup();
    scene.archive();
    let plan = |until| scene.run(&["restore", "repo/db@1", "--to", "back", "--until", until, "--plan"]);
    plan("2001-01-01").exits(1).says(&["not surely of that time", "it was made at"]);
    plan("2037-01-01").exits(3).says(&["db@1 at", "nothing later than that time"]);
}

/// A copy has what was there at its end.
#[test]
fn a_hot_copy_has_the_time_of_its_end() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.backup();
    scene.does(&[
        "SET sql_log_bin = 0",
        "CREATE TABLE app.large (id INT PRIMARY KEY, a VARBINARY(4000))",
        "INSERT INTO app.large SELECT seq, RANDOM_BYTES(1000) FROM app.seq_1_to_20000",
        "SET sql_log_bin = 1",
    ]);
    let mut command = remora(scene.folder.path());
    command.args(["backup", "mysql:", "--way", "copy", "--name", "db", "--to", "repo", "--rate", "2M"]);
    command.args(["--no-defaults", "-u", "root", "-S"]).arg(scene.server.socket());
    let mut running = Running::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    until("the server knows of a backup", || {
        running.must_run();
        scene.server.data().join("ddl.log").exists()
    });
    let time = scene.session.value("SELECT UNIX_TIMESTAMP() + 1 + SLEEP(3)").unwrap().unwrap();
    let time = jiff::Timestamp::from_second(time.parse().unwrap()).unwrap().to_string();
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    let late = scene.moment();
    running.must_run();
    running.end().exits(0);
    scene.archive();
    let next = format!("next would be {}", late.gtid);
    scene.restore(&["--until", &time, "--plan"]).exits(0).says(&["db@1 at", &next]);
    let named = ["restore", "repo/db@2", "--to", "back", "--until", &time];
    scene.run(&named).exits(1).says(&["not surely of that time", &late.gtid]);
    assert!(!scene.folder.path().join("back").exists());
}
