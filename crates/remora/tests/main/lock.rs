//! `remora lock` against real servers.

use std::process::{Command, Stdio};

use sandbox::{Family, Product};

use crate::support::{Ended, Place, Running, of_today, products, remora, tell, until};

/// Locks concern a whole server, so these tests have servers of their own.
#[test]
fn a_lock_is_held_on_every_server() {
    for product in of_today(products()) {
        tell(product);
        let server = crate::support::start(product, &["--log-bin=binlog", "--server-id=1"]);
        writes_wait_while_the_command_runs(&Place::new(&server));
        the_lock_is_released_when_the_program_is_killed(&Place::new(&server));
        a_lost_lock_is_a_failure_whatever_the_command_did(&Place::new(&server));
        a_blocking_statement_is_named_and_the_command_does_not_run(&Place::new(&server));
        the_position_and_the_other_statements(&Place::new(&server));
        a_lock_that_the_server_does_not_have_is_refused(&Place::new(&server));
    }
}

fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = remora(&place.path(""));
    command.arg("lock").args(["--no-defaults", "-u", "root", "-S"]).arg(&place.socket).args(arguments);
    command
}

fn run(place: &Place, arguments: &[&str]) -> Ended {
    Ended::of(&command(place, arguments).stdin(Stdio::null()).output().unwrap())
}

fn start(place: &Place, arguments: &[&str]) -> Running {
    let mut command = command(place, arguments);
    Running::new(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// A command that waits until a file is there, or until the test is gone.
fn until_file(place: &Place, name: &str) -> String {
    let (started, go) = (place.path(&format!("{name}.started")), place.path(&format!("{name}.go")));
    let folder = place.path("");
    format!(
        "touch {}; while [ -d {} ] && ! [ -e {} ]; do sleep 0.05; done; exit 3",
        started.display(),
        folder.display(),
        go.display()
    )
}

fn a_lock_that_the_server_does_not_have_is_refused(place: &Place) {
    let (mode, words) = match (place.product, place.product.family()) {
        (Product::MySql97, _) => ("backup-stage", ["MariaDB 10.4.1", "use --mode instance"]),
        (_, Family::MariaDb) => ("instance", ["MySQL 8.0 and later", "use --mode backup-stage"]),
        (_, Family::MySql) => ("instance", ["MySQL 8.0 and later", "use --mode global"]),
    };
    run(place, &["--mode", mode, "--", "false"]).exits(2).says(&words);
}

fn writes_wait_while_the_command_runs(place: &Place) {
    place.sql(&["CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB"]);
    let script = until_file(place, "one");
    // MySQL 8 and later have a gentler lock, under which rows are written and tables are not changed.
    let newest = place.product == Product::MySql97;
    let mode = if newest { "global" } else { "auto" };
    let running = start(place, &["--mode", mode, "--", "sh", "-c", &script]);
    until("the command runs", || place.path("one.started").exists());
    let mut writer = place.session();
    writer.execute("SET SESSION lock_wait_timeout = 1").unwrap();
    let insert = writer.execute("INSERT INTO t VALUES (1)");
    assert_eq!(insert.unwrap_err().code(), Some(1205), "a write has to wait");
    place.file("one.go", "");
    let ended = running.end().exits(3);
    assert!(ended.err.contains("was held for"), "{}", ended.err);
    place.sql(&["INSERT INTO t VALUES (2)"]);
    if newest {
        let script = until_file(place, "gentle");
        let running = start(place, &["--", "sh", "-c", &script]);
        until("the command runs", || place.path("gentle.started").exists());
        writer.execute("INSERT INTO t VALUES (3)").unwrap();
        assert_eq!(
            writer.execute("CREATE TABLE u (id INT)").unwrap_err().code(),
            Some(1205),
            "DDL has to wait"
        );
        place.file("gentle.go", "");
        running.end().exits(3).says(&["lock (instance) was held for"]);
    }
}

fn the_lock_is_released_when_the_program_is_killed(place: &Place) {
    place.sql(&["CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB"]);
    let script = until_file(place, "two");
    let running = start(place, &["--mode", "global", "--", "sh", "-c", &script]);
    until("the command runs", || place.path("two.started").exists());
    running.kill();
    place.sql(&["INSERT INTO t VALUES (1)"]);
    place.file("two.go", "");
}

fn a_lost_lock_is_a_failure_whatever_the_command_did(place: &Place) {
    place.sql(&["CREATE TABLE session (id BIGINT)"]);
    let script = until_file(place, "three").replace("exit 3", "exit 0");
    let note = format!("INSERT INTO {}.session VALUES (CONNECTION_ID())", place.schema);
    let running = start(place, &["--mode", "global", "--before", &note, "--", "sh", "-c", &script]);
    until("the command runs", || place.path("three.started").exists());
    place.sql(&[&format!("KILL {}", place.value("SELECT id FROM session"))]);
    place.file("three.go", "");
    running.end().exits(1).says(&["the lock was lost"]);
}

fn a_blocking_statement_is_named_and_the_command_does_not_run(place: &Place) {
    place.sql(&["CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO t VALUES (1)"]);
    let mut long = place.session();
    let id = long.connection_id();
    std::thread::scope(|scope| {
        scope.spawn(move || long.execute("UPDATE t SET id = id + SLEEP(600)"));
        place.until(&format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info IS NOT NULL"
        ));
        let touched = place.path("four").display().to_string();
        let ended = run(place, &["--mode", "global", "--wait", "1", "--", "touch", &touched]);
        place.sql(&[&format!("KILL {id}")]);
        ended.exits(11).says(&[&format!("connection {id}"), "UPDATE t SET", "--wait"]);
        assert!(!place.path("four").exists());
    });
}

/// A session holds LOCK TABLES and is idle. Where the server shows who holds which lock, the message names
/// that session; elsewhere it names the tables, and the sessions that may have locked them.
#[test]
fn the_session_that_holds_lock_tables_is_named() {
    const WATCH: [&str; 2] =
        ["--performance-schema=ON", "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON"];
    for product in of_today(products()) {
        tell(product);
        let mariadb = product.family() == Family::MariaDb;
        for watched in [false, true] {
            let server = crate::support::start(product, if watched && mariadb { &WATCH } else { &[] });
            let place = Place::new(&server);
            place.sql(&["CREATE TABLE t (id INT) ENGINE=InnoDB", "CREATE TABLE u (id INT) ENGINE=InnoDB"]);
            let plugin = watched && place.session().execute("INSTALL SONAME 'metadata_lock_info'").is_ok();
            let mut holder = place.session();
            holder.execute("LOCK TABLES t WRITE, u READ").unwrap();
            let (id, schema) = (holder.connection_id(), &place.schema);
            let told = [
                format!("waiting for the lock, blocked by connection {id} of root@localhost"),
                format!("and holds a lock on {schema}.t; have it UNLOCK TABLES or COMMIT, or KILL {id}"),
            ];
            let guessed =
                [format!("somebody who has locked {schema}.t"), format!("{id} of root@localhost for")];
            let words = if watched && mariadb || product == Product::MySql97 { told } else { guessed };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            // The gentle lock of newer MySQL does not wait for LOCK TABLES.
            let modes = if product == Product::MySql97 { &["global"][..] } else { &["auto", "global"] };
            for mode in modes {
                run(&place, &["--mode", *mode, "--wait", "1", "--", "true"])
                    .exits(11)
                    .says(&words)
                    .says(&["--wait"]);
            }
            if watched && mariadb && !plugin {
                tell("metadata_lock_info is not installed here: the performance schema tells");
            }
            holder.execute("UNLOCK TABLES").unwrap();
            run(&place, &["--wait", "60", "--", "true"]).exits(0);
        }
    }
}

fn the_position_and_the_other_statements(place: &Place) {
    place.sql(&["CREATE TABLE said (what VARCHAR(9))"]);
    let say = |what: &str| format!("INSERT INTO {}.said VALUES ('{what}')", place.schema);
    let (before, after) = (say("before"), say("after"));
    let file = place.path("position").display().to_string();
    let line = ["--before", &before, "--after", &after, "--position", &file, "--", "sh", "-c", "kill -9 $$"];
    run(place, &line).exits(137);
    assert_eq!(place.rows("SELECT what FROM said"), ["before", "after"]);
    let position: serde_json::Value = serde_json::from_str(&place.read("position")).unwrap();
    assert!(position["file"].as_str().unwrap().starts_with("binlog."), "{position}");
    assert!(position["offset"].as_u64().unwrap() > 100, "{position}");
    run(place, &["--", "/no/such/program"]).exits(1).says(&["can't run /no/such/program"]);
    // What was stopped before is started again, also when the rest of --before fails.
    place.sql(&["DELETE FROM said"]);
    let unused = place.path("unused").display().to_string();
    let twice = ["--before", &before, "--before", "GARBAGE", "--after", &after, "--after", "RUBBISH"];
    let ended = run(place, &[&twice[..], &["--", "touch", &unused]].concat()).exits(1);
    ended.says(&["GARBAGE", "--after failed, too", "RUBBISH"]);
    assert_eq!(place.rows("SELECT what FROM said"), ["before", "after"]);
    assert!(!place.path("unused").exists());
}
