//! `remora restore --until`: any point in time is restored from a generation and the archived log.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use sandbox::Product;

use crate::extract::session;
use crate::mount::is_possible;
use crate::queue::library;
use crate::recovery_scene::{Scene, on_mariadb, sums};
use crate::support::{Running, remora, start, until};
use crate::verify_boot::volume;

/// Statements of every kind that a log can hold, in steps.
pub(crate) fn zoo(load: &str) -> Vec<Vec<String>> {
    let steps: [&[&str]; 15] = [
        &["INSERT INTO app.t VALUES (3, 'three')"],
        &[
            "CREATE TABLE app.m (id INT PRIMARY KEY, text VARCHAR(50)) ENGINE=MyISAM",
            "INSERT INTO app.m VALUES (1, 'x')",
        ],
        &[load],
        &[
            "SET binlog_format = ROW",
            "BEGIN",
            "UPDATE app.t SET text = CONCAT(text, '!')",
            "DELETE FROM app.t WHERE id = 2",
            "COMMIT",
        ],
        &[
            "SET binlog_format = STATEMENT",
            "CREATE TEMPORARY TABLE app.x (a INT)",
            "INSERT INTO app.x VALUES (7), (8)",
        ],
        &["INSERT INTO app.t SELECT a, 'of x' FROM app.x"],
        &[
            "DROP TEMPORARY TABLE app.x",
            "SET binlog_format = MIXED",
            "CREATE USER who@localhost IDENTIFIED BY 'secret'",
        ],
        &["GRANT SELECT ON app.* TO who@localhost", "FLUSH BINARY LOGS"],
        &["SET NAMES latin1", "INSERT INTO app.t VALUES (20, _latin1 x'E4')", "SET NAMES utf8mb4"],
        &[
            "SET sql_mode = 'ANSI_QUOTES'",
            "INSERT INTO \"app\".\"t\" VALUES (21, 'ansi')",
            "SET sql_mode = DEFAULT",
        ],
        &[
            "CREATE TABLE app.p (id INT PRIMARY KEY)",
            "CREATE TABLE app.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE)",
            "INSERT INTO app.p VALUES (1), (2)",
            "INSERT INTO app.c VALUES (1, 1), (2, 2)",
        ],
        &["DELETE FROM app.p WHERE id = 1"],
        &[
            "CREATE TRIGGER app.g AFTER INSERT ON app.p FOR EACH ROW INSERT INTO app.c VALUES (NEW.id, NEW.id)",
            "INSERT INTO app.p VALUES (5)",
            "SET binlog_format = ROW",
            "INSERT INTO app.p VALUES (6)",
            "SET binlog_format = MIXED",
        ],
        &[
            "CREATE DATABASE app2",
            "CREATE TABLE app2.u AS SELECT * FROM app.t",
            "ALTER TABLE app.t ADD COLUMN n INT DEFAULT 5",
            "TRUNCATE app.m",
        ],
        &[
            "XA START 'a'",
            "INSERT INTO app2.u VALUES (99, 'xa')",
            "XA END 'a'",
            "XA PREPARE 'a'",
            "XA COMMIT 'a'",
            "FLUSH BINARY LOGS",
        ],
    ];
    steps.iter().map(|step| step.iter().map(ToString::to_string).collect()).collect()
}

#[test]
fn every_transaction_can_be_a_recovery_target() {
    on_mariadb(|product| {
        let packed: &[&str] = match product {
            Product::MariaDb1011 => &[],
            _ => &["--log-bin-compress=1", "--log-bin-compress-min-len=10"],
        };
        let mut scene = Scene::new(product, packed);
        let file = scene.folder.path().join("rows.txt");
        fs::write(&file, "5\tfive\n6\tsix\n").unwrap();
        scene.backup();
        let mut moments = vec![scene.moment()];
        let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE app.m (id, text)", file.display());
        for step in zoo(&load) {
            for sql in &step {
                if sql.starts_with("LOAD") {
                    let mut client = std::process::Command::new(sandbox::client().unwrap());
                    let socket = scene.server.socket().to_str().unwrap();
                    client.args(["--no-defaults", "--local-infile=1", "-uroot", "-S", socket, "-e", sql]);
                    assert!(client.status().unwrap().success());
                } else {
                    scene.does(&[sql]);
                }
            }
            moments.push(scene.moment());
        }
        scene.archive();
        for (number, moment) in moments.iter().enumerate() {
            // By GTID, then by position; each restore starts three servers.
            let until = if number % 2 == 0 { &moment.position } else { &moment.gtid };
            if number % 3 == product.id().len() % 3 || number + 1 == moments.len() {
                let (found, ended) = scene.restored(&["--until", until]);
                assert_eq!(found, moment.sums, "{until}: {}", ended.err);
            }
        }
        let (found, ended) = scene.restored(&["--until", "end"]);
        assert_eq!(found, moments.last().unwrap().sums);
        assert!(ended.err.contains("the end of the archived log"), "{}", ended.err);
        let last = &moments.last().unwrap().gtid;
        let (found, ended) = scene.restored(&["--before", last]);
        assert_eq!(found, moments[moments.len() - 2].sums);
        assert!(ended.err.contains(&format!("next would be {last}")), "{}", ended.err);
    });
}

/// The tables that a cascade went through come back as they were before it, and the large one beside them is
/// not fetched.
#[test]
fn some_tables_of_a_point_in_time_are_dumped() {
    on_mariadb(|product| {
        let mut scene = Scene::new(product, &["--binlog-format=ROW"]);
        scene.does(&[
            "CREATE TABLE app.p (id INT PRIMARY KEY)",
            "CREATE TABLE app.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES app.p (id) ON DELETE CASCADE)",
            "CREATE TABLE app.large (id INT PRIMARY KEY, a VARBINARY(4000))",
            // The log in the backup is read, to prove that it is the archived one.
            "SET sql_log_bin = 0",
            "INSERT INTO app.large SELECT seq, RANDOM_BYTES(1000) FROM app.seq_1_to_40000",
            "SET sql_log_bin = 1",
            "INSERT INTO app.p SELECT seq FROM app.seq_1_to_100",
            // As in restore_tables: nothing is left to purge, which would change every row.
            "SET GLOBAL innodb_fast_shutdown = 0",
        ]);
        scene.server.stop().unwrap();
        scene.server.restart().unwrap();
        scene.session = session(&scene.server);
        scene.backup();
        scene.does(&["INSERT INTO app.c SELECT seq, 1 + seq % 100 FROM app.seq_1_to_1000"]);
        let before = scene.moment();
        scene.does(&["DELETE FROM app.p WHERE id <= 50"]);
        let wrong = scene.moment();
        scene.does(&["INSERT INTO app.p VALUES (1000)"]);
        scene.archive();
        let line = ["restore", "repo/db", "--tables", "app.p", "app.c", "--before", &wrong.gtid];
        let plan = scene.run(&[&line[..], &["--to", "dump", "--plan"]].concat()).exits(0);
        plan.says(&["would be restored", &format!("next would be {}", wrong.gtid)]);
        assert!(!scene.folder.path().join("dump").exists());
        let done = scene.run(&[&line[..], &["--to", "dump", "--json"]].concat()).exits(0).out;
        let summary: serde_json::Value = serde_json::from_str(done.lines().last().unwrap()).unwrap();
        assert_eq!((summary["tables"].as_u64(), summary["rows"].as_u64()), (Some(2), Some(1100)));
        assert_eq!((&summary["gtid"], summary["transactions"].as_u64()), (&before.gtid.into(), Some(1)));
        if let Some(fetched) = summary["bytes_fetched"].as_u64() {
            let stored = fs::metadata(scene.folder.path().join("repo/db/000001.blk")).unwrap().len();
            assert!(stored > 40_000_000 && fetched < stored / 4, "{fetched} of {stored} bytes");
        }
        let other = start(product, &["--local-infile=1"]);
        let url = format!("unix://root@{}", other.socket().display());
        scene.run(&["load", "dump", "--url", &url, "--no-defaults"]).exits(0);
        let found = sums(&mut crate::support::connect(other.socket()));
        for table in ["app.p", "app.c"] {
            assert_eq!(found[table], before.sums[table], "{table}");
        }
        assert!(!found.contains_key("app.large"));
        let left: Vec<_> =
            fs::read_dir(scene.folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    });
}

#[test]
fn a_volume_too() {
    if !is_possible() {
        return;
    }
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.server.stop().unwrap();
    volume(scene.server.folder(), &scene.folder.path().join("volume"));
    scene.server.restart().unwrap();
    scene.session = session(&scene.server);
    scene.does(&["INSERT INTO app.t VALUES (3, 'three'), (4, 'four')"]);
    let moment = scene.moment();
    scene.does(&["DELETE FROM app.t"]);
    scene.archive();
    scene.run(&["backup", "file:volume", "--name", "db", "--to", "repo"]).exits(0);
    let until = ["--until", &moment.position];
    let whole = ["restore", "repo/db@1", "--to", "back"];
    scene.run(&[&whole[..], &until].concat()).exits(0).says(&["2 transactions to", "next would be"]);
    let (own, back) = (scene.server.data().join("app/t.ibd"), scene.folder.path().join("back/app/t.ibd"));
    assert_eq!(fs::metadata(own).unwrap().uid(), fs::metadata(back).unwrap().uid());
    assert_eq!(scene.found(), moment.sums);
    let file = scene.folder.path().join("repo/db/000001.blk");
    let sound = fs::read(&file).unwrap();
    let mut damaged = sound.clone();
    damaged[sound.len() / 2] ^= 1;
    fs::write(&file, damaged).unwrap();
    scene.run(&[&whole[..], &until].concat()).exits(4).says(&["000001.blk at byte", "nothing is restored"]);
    assert!(!scene.folder.path().join("back").exists());
    fs::write(&file, sound).unwrap();
    let tables = ["restore", "repo/db@1", "--tables", "*", "--to", "dump"];
    let done = scene.run(&[&tables[..], &until].concat()).exits(0);
    done.says(&["2 transactions to", "next would be", "4 rows"]);
}

#[test]
fn the_newest_generation_before_the_target_is_used_and_a_target_ends_a_transaction() {
    let packed = ["--binlog-format=ROW", "--log-bin-compress=1", "--log-bin-compress-min-len=10"];
    let mut scene = Scene::new(Product::MariaDb1011, &packed);
    scene.backup();
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    let early = scene.moment();
    scene.does(&["DELETE FROM app.t WHERE id < 3", "INSERT INTO app.t VALUES (1, 'again')"]);
    scene.backup();
    scene.does(&["DELETE /* wrong */ FROM app.t", "INSERT INTO app.t VALUES (9, 'nine')"]);
    scene.archive();
    let (found, ended) = scene.restored(&["--until", &early.gtid]);
    assert_eq!(found, early.sums);
    assert!(ended.err.contains("db@1 at"), "{}", ended.err);
    let ended = scene.restore(&["--before-statement", "DELETE", "--plan"]);
    assert!(ended.err.contains("db@2 at") && ended.err.contains("/* wrong */"), "{}", ended.err);
    let ended =
        scene.run(&["restore", "repo/db@1", "--to", "back", "--before-statement", "delete", "--plan"]);
    assert!(
        ended.err.contains("/* wrong */") && ended.err.contains("1 earlier transaction"),
        "{}",
        ended.err
    );
    assert!(!scene.folder.path().join("back").exists());
    scene.does_not_restore(&["--before-statement", "nowhere"], 1, "no statement");
    scene.does_not_restore(&["--until", "0-7-99"], 1, "there is no transaction 0-7-99 in the log after");
    scene.does_not_restore(&["--until", "2001-01-01"], 1, "no generation of db is before that moment");
    let (file, at) = early.position.split_once(':').unwrap();
    let within = format!("{file}:{}", at.parse::<u64>().unwrap() - 1);
    scene.does_not_restore(&["--until", &within], 1, "is within a transaction, which is from");
    scene.does_not_restore(&["--plan"], 2, "need --until");
    scene.does_not_restore(&["--until", "end", "--delta"], 2, "new folder");
    scene.does_not_restore(&["--until", "end", "--timeline", "4"], 2, "has no timeline 4");
}

#[test]
fn a_target_time_selects_by_the_ends_of_transactions() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    // It is a replica too; where it was is no place for what comes back.
    scene.does(&["CHANGE MASTER TO MASTER_HOST = '127.0.0.9', MASTER_USER = 'nobody'"]);
    scene.backup();
    let zone = 1_900_000_000_i64;
    let at = |second: i64| format!("SET timestamp = {}", zone + second);
    scene.does(&[&at(0), "INSERT INTO app.t VALUES (10, 'a')"]);
    scene.does(&[&at(60), "INSERT INTO app.t VALUES (11, 'b')"]);
    let moment = scene.moment();
    scene.does(&[&at(61), "INSERT INTO app.t VALUES (12, 'c')"]);
    let moment_of_all = scene.moment().sums;
    scene.archive();
    scene.came(None);
    let time = |second: i64| jiff::Timestamp::from_second(zone + second).unwrap().to_string();
    let (found, _) = scene.restored(&["--until", &time(60)]);
    assert_eq!(found, moment.sums);
    let open = ["restore", "repo/db", "--until", &time(600)];
    for more in [&["--plan"][..], &["--to", "back"]] {
        scene.run(&[&open[..], more].concat()).exits(3).says(&["nothing later than that time"]);
    }
    assert_eq!(scene.found(), moment_of_all);
    // A session with a timestamp of its own would cut off everything behind it.
    scene.does(&[&at(3600), "INSERT INTO app.t VALUES (13, 'of the future')"]);
    scene.does(&[&at(120), "INSERT INTO app.t VALUES (14, 'd')"]);
    scene.archive();
    scene.came(None);
    scene.does_not_restore(&["--until", &time(300)], 1, "contradict one another");
}

#[test]
fn logs_that_would_be_replayed_wrongly_are_refused() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=STATEMENT"]);
    scene.does(&["CREATE TEMPORARY TABLE app.x (a INT)", "INSERT INTO app.x VALUES (7)"]);
    scene.does_not_restore(&["--until", "end"], 1, "no such folder");
    scene.backup();
    scene.does_not_restore(&["--until", "end"], 2, "no log is archived");
    scene.archive();
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    scene.archive();
    let (_, ended) = scene.restored(&["--until", "end"]);
    assert!(ended.err.contains("1 of them is logged as statements"), "{}", ended.err);
    // The server's number in the log: it would skip everything.
    scene.does_not_restore(
        &["--until", "end", "--server-option=--server-id=7"],
        1,
        "it would skip those events",
    );
    scene.does(&["INSERT INTO app.t SELECT a, 'of x' FROM app.x"]);
    scene.archive();
    scene.does_not_restore(&["--until", "end"], 1, "temporary table that was made before the backup");
}

/// The kind of the last event of a log. It need not be the end of a transaction: the server notes a
/// checkpoint when it comes to that.
fn last_kind(log: &[u8]) -> u8 {
    let (mut place, mut kind) = (4, 0);
    while let Some(header) = log.get(place..place + 19) {
        kind = header[4];
        place += u32::from_le_bytes(header[9..13].try_into().unwrap()) as usize;
    }
    kind
}

/// The last file of the log ends without an event that says so, as one does whose server was killed.
#[test]
fn a_log_without_a_last_event_is_replayed_with_parallel_threads() {
    on_mariadb(|product| {
        let mut scene = Scene::new(product, &["--sync-binlog=1"]);
        scene.backup();
        scene.does(&["FLUSH BINARY LOGS", "INSERT INTO app.t VALUES (3, 'three')"]);
        scene.does(&["INSERT INTO app.t VALUES (4, 'four')"]);
        let moment = scene.moment();
        scene.archive();
        scene.server.kill().unwrap();
        let log = fs::read(scene.folder.path().join("repo/db/log/000001/binlog.000002")).unwrap();
        assert!(![3, 4].contains(&last_kind(&log)), "neither a stop nor a rotation");
        let parallel = "--server-option=--slave-parallel-threads=4";
        for more in [&[][..], &[parallel]] {
            let (found, ended) = scene.restored(&[&["--until", "end"], more].concat());
            assert_eq!(found, moment.sums, "{}", ended.err);
        }
    });
}

#[test]
fn an_event_that_cannot_be_applied_is_named_with_its_place() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.backup();
    scene.does(&["SET sql_log_bin = 0", "CREATE TABLE app.h (a INT)", "SET sql_log_bin = 1"]);
    scene.does(&["INSERT INTO app.h VALUES (1)"]);
    scene.archive();
    scene.does_not_restore(&["--until", "end"], 1, "can't apply the event at");
    scene.does_not_restore(&["--until", "end"], 1, "repo/db/log/000001/binlog.000001:");
}

#[test]
fn an_existing_table_is_not_replaced() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.does(&["SET sql_log_bin = 0", "CREATE TABLE app.h (a INT)"]);
    scene.backup();
    scene.does(&["DROP TABLE app.h", "SET sql_log_bin = 1", "CREATE TABLE app.h (b INT)"]);
    scene.archive();
    scene.does_not_restore(&["--until", "end"], 1, "already exists");
}

#[test]
fn a_killed_or_stopped_replay_leaves_no_target_and_can_be_repeated() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.does(&["CREATE TABLE app.big (a INT PRIMARY KEY, b CHAR(100))"]);
    scene.backup();
    for part in 0..8 {
        let sql = format!("INSERT INTO app.big SELECT seq + 100000 * {part}, seq FROM seq_1_to_100000");
        scene.does(&[&sql]);
    }
    let moment = scene.moment();
    scene.archive();
    let top = scene.folder.path().to_owned();
    let works = || {
        let names = fs::read_dir(&top).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_string_lossy().contains("remora-boot-")).collect::<Vec<_>>()
    };
    let replaying = || {
        let mut command = remora(&top);
        command.args(["restore", "repo/db", "--to", "back", "--until", "end"]);
        let running = Running::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        until("it replays", || works().iter().any(|work| work.join("log/relay-log.info").exists()));
        running
    };
    let stopped = replaying();
    stopped.signal("TERM");
    let ended = stopped.end();
    assert_eq!(ended.code, 143, "{}", ended.err);
    assert!(works().is_empty() && !top.join("back").exists(), "{}", ended.err);
    replaying().kill();
    assert!(!top.join("back").exists());
    // What a killed run leaves is in nobody's way.
    assert_eq!(works().len(), 1);
    let (found, _) = scene.restored(&["--until", "end"]);
    assert_eq!(found, moment.sums);
}

/// The server says of these that a temporary table might be in them.
#[test]
fn dropped_and_replaced_tables_are_replayed() {
    for format in ["ROW", "MIXED"] {
        let mut scene = Scene::new(Product::MariaDb1011, &[&format!("--binlog-format={format}")]);
        scene.does(&["CREATE TABLE app.old (i INT)", "INSERT INTO app.old VALUES (1)"]);
        scene.backup();
        scene.does(&[
            "DROP TABLE app.old",
            "DROP TABLE IF EXISTS app.old",
            "CREATE TABLE app.r (i INT)",
            "CREATE OR REPLACE TABLE app.r (i INT, j INT)",
            "INSERT INTO app.r VALUES (1, 2)",
            "CREATE SEQUENCE app.s",
            "CREATE OR REPLACE SEQUENCE app.s START WITH 7",
            "DROP SEQUENCE app.s",
            "CREATE OR REPLACE TABLE app.r AS SELECT id AS i, id AS j FROM app.t",
            "CREATE TABLE app.few (id INT)",
            "INSERT INTO app.few VALUES (2)",
            "DELETE app.r FROM app.r JOIN app.few ON app.r.i = app.few.id",
            "DELETE FROM app.few USING app.few JOIN app.r ON app.r.i = app.few.id",
            "UPDATE app.t SET text = CONCAT(text, CONNECTION_ID()) WHERE id = 1",
            "CREATE DATABASE appended",
            "CREATE TABLE appended.t (i INT)",
            "DROP DATABASE appended",
        ]);
        scene.archive();
        let end = sums(&mut scene.session);
        let (found, ended) = scene.restored(&["--until", "end"]);
        assert_eq!(found, end, "{format}: {}", ended.err);
    }
}

/// A plan writes nothing, so it needs no target.
#[test]
fn a_plan_needs_no_target() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.backup();
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    let moment = scene.moment();
    scene.archive();
    let plan = ["restore", "repo/db", "--plan"];
    for goal in [["--until", "end"], ["--before", &moment.gtid], ["--before-statement", "insert"]] {
        for tables in [&[][..], &["--tables", "app.t"]] {
            let goal = [&plan[..], &goal, tables].concat();
            scene.run(&goal).exits(0).says(&["would be restored"]);
            // With a target it says what is wrong with that.
            scene.run(&[&goal[..], &["--to", "repo"]].concat()).exits(2).says(&["exists already"]);
        }
    }
    scene.run(&["restore", "repo/db", "--until", "end"]).exits(2).says(&["--to"]);
    scene.run(&plan).exits(2).says(&["need --until"]);
}

/// A server replaces an engine that it lacks by another one if the log allows it.
#[test]
fn a_table_of_a_missing_engine_is_not_created_with_another() {
    let Some(library) = library("a_table_of_an_engine_that_is_not_there", Product::MariaDb1011) else {
        return;
    };
    let plugins = format!("--plugin-dir={}", library.parent().unwrap().display());
    let mut scene = Scene::new(Product::MariaDb1011, &[&plugins, "--plugin-load-add=ha_queue"]);
    scene.backup();
    scene.does(&["SET sql_mode = ''", "CREATE TABLE app.q (v INT) ENGINE=QUEUE"]);
    scene.archive();
    scene.does_not_restore(&["--until", "end"], 1, "there are queues (ENGINE=QUEUE)");
    let plugins = format!("--server-option={plugins}");
    assert_eq!(scene.restore(&["--until", "end", &plugins]).code, 0);
    let back = scene.folder.path().join("back/app");
    assert!(back.join("q.frm").is_file() && !back.join("q.ibd").exists());
    fs::remove_dir_all(scene.folder.path().join("back")).unwrap();
    scene.does(&["CREATE TABLE app.n (v INT) ENGINE = Nothing"]);
    scene.archive();
    scene.restore(&["--until", "end", &plugins]).exits(0).says(&["makes a table with ENGINE=NOTHING"]);
}
