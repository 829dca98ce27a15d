//! The copy takes over from its source, or the source is as it was.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use server::Session;

use super::Pair;
use super::copy::url;
use super::copy_follow::{
    LOG, Random, assert_same, command, execute, made, make, next, once, spawn, transact,
};
use crate::schema;
use crate::support::{
    Ended, of_today, on_products, part_of_today, pause_writer, products, remora, tell, until,
};

/// Lets B take over.
fn cut_over(pair: &Pair, arguments: &[&str]) -> Ended {
    let all = [&["--resume", "--cut-over", "--watch", "0s"], arguments].concat();
    Ended::of(&command(pair, &all).output().unwrap())
}

/// Asks B for its copies.
fn status(pair: &Pair) -> Command {
    let mut command = remora(pair.folder.path());
    command.args(["copy", "--no-defaults", "-u", "root", "status", &url(&pair.to)]);
    command
}

/// What B says of its copies, and whether the JSON says it, too.
#[track_caller]
fn assert_status(pair: &Pair, words: &[&str]) {
    let run = |further: &[&str]| Ended::of(&status(pair).args(further).output().unwrap()).exits(0).out;
    let said = run(&[]);
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    schema::check("copy", &run(&["--json"])).unwrap();
}

fn read_only(session: &mut Session) -> String {
    session.value("SELECT @@GLOBAL.read_only").unwrap().unwrap()
}

/// What can't be made on a copy before it takes over.
fn add_programs(pair: &Pair) {
    add_programs_of(pair, pair.is_mariadb());
}

fn add_programs_of(pair: &Pair, has_sequences: bool) {
    let mut source = pair.source();
    execute(
        &mut source,
        &[
            "CREATE TABLE d.counted (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO d.counted (v) VALUES (1), (2), (3)",
            "DELETE FROM d.counted WHERE id = 3",
            "CREATE TABLE d.log (id INT PRIMARY KEY, what INT) ENGINE=InnoDB",
            "CREATE TRIGGER d.second AFTER INSERT ON d.counted FOR EACH ROW INSERT INTO d.log VALUES (NEW.id, NEW.v)",
            "CREATE EVENT d.later ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01' DO DELETE FROM d.log",
        ],
    );
    if has_sequences {
        execute(&mut source, &["CREATE SEQUENCE d.s START WITH 5 CACHE 10", "SELECT NEXT VALUE FOR d.s"]);
    }
}

#[test]
fn the_copy_takes_over_with_all_that_belongs_to_it() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        add_programs(&pair);
        once(&pair, &[]).exits(3);
        // A number that was given and is not in the table any more.
        execute(
            &mut pair.source(),
            &["INSERT INTO d.counted (v) VALUES (9)", "DELETE FROM d.counted WHERE v = 9"],
        );
        assert_status(&pair, &["does not run", "not verified"]);
        let ended = Ended::of(
            &command(
                &pair,
                &["--json", "--resume", "--cut-over", "--watch", "0s", "--hook", "test $REMORA_POSITION"],
            )
            .output()
            .unwrap(),
        );
        let ended = ended.exits(0);
        schema::check("copy", &ended.out).unwrap();
        assert!(ended.out.contains("\"cut_over\":true"), "{}", ended.out);
        assert_same(&pair);
        let (mut source, mut target) = (pair.source(), pair.target());
        assert_eq!((read_only(&mut source), read_only(&mut target)), ("1".to_owned(), "0".to_owned()));
        // The numbers continue behind those that were given, and the trigger writes.
        execute(&mut target, &["INSERT INTO d.counted (v) VALUES (4)"]);
        assert_eq!(target.value("SELECT MAX(id) FROM d.counted").unwrap().as_deref(), Some("5"));
        assert_eq!(target.value("SELECT what FROM d.log WHERE id = 5").unwrap().as_deref(), Some("4"));
        let events = "SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_NAME = 'later'";
        assert_eq!(target.value(events).unwrap().as_deref(), Some("1"));
        if pair.is_mariadb() {
            assert_eq!(target.value("SELECT NEXT VALUE FOR d.s").unwrap().as_deref(), Some("15"));
        }
        assert_status(&pair, &["has taken over", "applied up to", "UTC: "]);
        for arguments in [&["--once", "--resume"][..], &["--resume", "--cut-over"]] {
            Ended::of(&command(&pair, arguments).output().unwrap())
                .exits(1)
                .says(&["has taken over already"]);
        }
    });
}

/// Writes rows until the source refuses them or is gone. Returns the numbers of those that were acknowledged.
fn write(mut session: Session, first: u32, is_over: &AtomicBool) -> Vec<u32> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let id = first + number * 10;
        if is_over.load(Ordering::Relaxed)
            || session.execute(&format!("INSERT INTO d.entry VALUES ({id})")).is_err()
        {
            break;
        }
        acknowledged.push(id);
        pause_writer();
    }
    acknowledged
}

/// While others write, something happens. All rows that were acknowledged must be on a server then.
fn under_writers(pair: &Pair, first: u32, work: impl FnOnce()) -> Vec<u32> {
    let (is_over, all) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (session, is_over, all) = (pair.source(), &is_over, &all);
            scope.spawn(move || {
                let acknowledged = write(session, first + thread, is_over);
                all.lock().unwrap().extend(acknowledged);
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        done.unwrap();
    });
    let mut all = all.into_inner().unwrap();
    all.sort_unstable();
    all
}

/// All rows that were acknowledged are there, and no other one.
#[track_caller]
fn assert_entries(mut session: Session, acknowledged: &[u32]) {
    let rows = session.strings("SELECT id FROM d.entry ORDER BY id").unwrap();
    let there: BTreeSet<u32> = rows.into_iter().flatten().flatten().map(|id| id.parse().unwrap()).collect();
    let acknowledged: BTreeSet<u32> = acknowledged.iter().copied().collect();
    let missing: Vec<_> = acknowledged.difference(&there).collect();
    let strange: Vec<_> = there.difference(&acknowledged).collect();
    assert!(missing.is_empty() && strange.is_empty(), "missing: {missing:?}, strange: {strange:?}");
}

#[test]
fn no_acknowledged_row_is_missing_or_doubled_after_a_cut_over() {
    on_products(&of_today(products()), |product| {
        for to in part_of_today(vec![product, next(product)], 3) {
            tell(format!("{product} to {to}"));
            let pair = Pair::new(product, to, &LOG);
            make(&pair);
            execute(&mut pair.source(), &["CREATE TABLE d.entry (id INT PRIMARY KEY) ENGINE=InnoDB"]);
            once(&pair, &[]).exits(0);
            // An account with all privileges, in the middle of a transaction and at its end.
            let mut open = pair.source();
            execute(&mut open, &["START TRANSACTION", "INSERT INTO d.entry VALUES (1000000009)"]);
            let acknowledged = under_writers(&pair, 0, || {
                let ended = cut_over(&pair, &["--within", "30s"]);
                ended.exits(0).says(&["cut over: writes were refused for", "the source stays read-only"]);
            });
            assert!(!acknowledged.is_empty());
            open.execute("COMMIT").unwrap_err();
            assert_entries(pair.target(), &acknowledged);
            assert_entries(pair.source(), &acknowledged);
            assert_same(&pair);
        }
    });
}

/// A statement for which a lock waits. Returns its connection.
fn slow_statement(pair: &Pair) -> (u32, std::thread::JoinHandle<()>) {
    let mut session = pair.source();
    execute(&mut session, &["REPLACE INTO d.word VALUES ('slow', 1)"]);
    let id = session.connection_id();
    let running = std::thread::spawn(move || {
        drop(session.execute("UPDATE d.word SET n = n + SLEEP(100) WHERE w = 'slow'"))
    });
    let mut watcher = pair.source();
    let is_running = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE 'UPDATE%'"
    );
    until("it runs", || watcher.value(&is_running).unwrap().as_deref() == Some("1"));
    (id, running)
}

/// What keeps the copy from taking over: arguments, and what is said.
const FAILURES: [(&[&str], &str); 3] = [
    (&["--hook", "exit 7"], "ended with exit status: 7"),
    (&["--hook", "sleep 100", "--within", "1s"], "did not end in time"),
    (&["--within", "1s"], "could not be locked within 1 s"),
];

#[test]
fn whatever_fails_leaves_the_source_as_it_was() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        add_programs(&pair);
        once(&pair, &[]).exits(3);
        let mut random = Random(9);
        for (arguments, words) in part_of_today(FAILURES.to_vec(), 2) {
            let mut source = pair.source();
            (0..20).for_each(|_| transact(&mut source, &mut random));
            let mut open = pair.source();
            execute(&mut open, &["START TRANSACTION", "INSERT INTO d.two VALUES ('open', 1, NULL)"]);
            let slow = words.contains("locked").then(|| slow_statement(&pair));
            cut_over(&pair, arguments).exits(1).says(&["no cut-over", words, "the source is as it was"]);
            if let Some((id, running)) = slow {
                execute(&mut source, &[&format!("KILL QUERY {id}")]);
                running.join().unwrap();
            }
            assert_eq!(read_only(&mut source), "0");
            assert_eq!(read_only(&mut pair.target()), "0");
            // Even a transaction that was open.
            execute(&mut open, &["COMMIT", "DELETE FROM d.two WHERE k = 'open'"]);
            let triggers = "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'd'";
            assert_eq!(pair.target().value(triggers).unwrap().as_deref(), Some("0"));
            (0..20).for_each(|_| transact(&mut source, &mut random));
            once(&pair, &["--resume"]).exits(0);
            assert_same(&pair);
        }
        // What the log does not have is found at the latest now.
        execute(&mut pair.source(), &["SET sql_log_bin = 0", "INSERT INTO d.log VALUES (77, 7)"]);
        cut_over(&pair, &[]).exits(4).says(&["table `d`.`log` has 1 differing row, key \"77\""]);
        assert_eq!(read_only(&mut pair.source()), "0");
    });
}

#[test]
fn a_cut_over_that_is_killed_can_be_taken_back_or_has_happened() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        add_programs(&pair);
        execute(&mut pair.source(), &["CREATE TABLE d.entry (id INT PRIMARY KEY) ENGINE=InnoDB"]);
        once(&pair, &[]).exits(3);
        let cut_over = ["--resume", "--cut-over", "--watch", "0s", "--within", "60s"];
        // While a trigger waits for a reader: the lock ends with the connection.
        let mut acknowledged = under_writers(&pair, 0, || {
            let mut holder = pair.target();
            execute(&mut holder, &["START TRANSACTION", "SELECT * FROM d.counted"]);
            let running = spawn(&pair, &cut_over);
            let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'CREATE%TRIGGER%' \
                         AND STATE LIKE 'Waiting for table%'";
            let mut watcher = pair.target();
            until("a trigger waits", || watcher.value(waits).unwrap().as_deref() == Some("1"));
            let mut source = pair.source();
            let count = "SELECT COUNT(*) FROM d.entry";
            let before = source.value(count).unwrap();
            running.kill();
            until("others write again", || source.value(count).unwrap() != before);
        });
        assert_eq!(read_only(&mut pair.source()), "0");
        assert_entries(pair.source(), &acknowledged);
        until("nobody waits any more", || once(&pair, &["--resume"]).code == 0);
        // While the command runs: the source is closed, and given back.
        let mark = pair.folder.path().join("hook");
        let hook = format!("touch {}; sleep 100", mark.display());
        let later = under_writers(&pair, 100_000_000, || {
            let running = spawn(&pair, &[&cut_over[..], &["--hook", &hook]].concat());
            until("the command runs", || mark.exists());
            // Nobody else gives the source back meanwhile.
            once(&pair, &["--resume"]).exits(11);
            assert_eq!(read_only(&mut pair.source()), "1");
            assert_status(&pair, &["takes over now"]);
            running.kill();
        });
        assert_eq!(read_only(&mut pair.source()), "1");
        acknowledged.extend(later);
        assert_entries(pair.source(), &acknowledged);
        until("nobody else follows", || {
            let ended = once(&pair, &["--resume"]);
            assert!([0, 11].contains(&ended.code), "{}", ended.err);
            ended.code == 0
        });
        assert_same(&pair);
        // After the source was closed, and before the note that B has taken over.
        let (mut source, mut target) = (pair.source(), pair.target());
        let notes = target
            .value("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME LIKE 'follow%notes'")
            .unwrap()
            .unwrap();
        let note = r#"{"is_over":false,"variables":[["read_only","0"],["event_scheduler","ON"]],"undo":["DROP TRIGGER IF EXISTS `d`.`left_over`"],"source":{"file":"","offset":0,"gtid":""},"target":null}"#;
        execute(&mut target, &[&format!("REPLACE INTO _remora.{notes} VALUES ('cut-over', '{note}')")]);
        execute(
            &mut target,
            &["CREATE TRIGGER d.left_over AFTER INSERT ON d.counted FOR EACH ROW SET @a = 1"],
        );
        execute(&mut source, &["SET GLOBAL read_only = 1"]);
        once(&pair, &["--resume"]).exits(0).says(&["A can be written again"]);
        assert_eq!(read_only(&mut source), "0");
        let triggers = "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'd'";
        assert_eq!(target.value(triggers).unwrap().as_deref(), Some("0"));
        execute(&mut source, &["INSERT INTO d.counted (v) VALUES (5)"]);
        let mut running = spawn(&pair, &["--resume", "--cut-over", "--watch", "600s"]);
        running.until_says("cut over: ");
        assert_same(&pair);
        // Nobody needs the source any more.
        let mut pair = pair;
        pair.from.kill().unwrap();
        running.end().exits(0).says(&["late writes to the source can't be looked for"]);
    });
}

/// A row that the source changes after all rows were compared, and that the target does not take as it is.
#[test]
fn what_was_changed_last_is_compared_before_the_copy_takes_over() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        let mut holder = pair.source();
        execute(&mut holder, &["REPLACE INTO d.word VALUES ('slow', 1)"]);
        once(&pair, &[]).exits(0);
        execute(
            &mut pair.target(),
            &["CREATE TRIGGER d.strange BEFORE INSERT ON d.word FOR EACH ROW SET NEW.n = 77"],
        );
        assert!(holder.lock("hold", 0).unwrap());
        let mut slow = pair.source();
        std::thread::scope(|scope| {
            let update = "UPDATE d.word SET n = n + 1 + 0 * GET_LOCK('hold', 1000) WHERE w = 'slow'";
            scope.spawn(move || execute(&mut slow, &[update]));
            let mut watcher = pair.source();
            let mut until_runs = |what: &str| {
                let query =
                    format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '{what}%'");
                until(what, || watcher.value(&query).unwrap().as_deref() == Some("1"));
            };
            until_runs("UPDATE d.word");
            let running = spawn(&pair, &["--resume", "--cut-over", "--within", "60s"]);
            until_runs("FLUSH LOCAL TABLES");
            holder.unlock("hold").unwrap();
            let words = ["at the cut-over", "table `d`.`word` has 1 differing row, key \"slow\""];
            running.end().exits(4).says(&words);
        });
        assert_eq!(read_only(&mut pair.source()), "0");
    });
}

#[test]
fn the_way_back_may_begin_at_once() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        let mut running = spawn(&pair, &["--cut-over", "--watch", "0s", "--way-back"]);
        running.until_says("A took over from B at");
        // A later run can't begin there once more.
        until("that has served", || Ended::of(&status(&pair).output().unwrap()).exits(0).out.is_empty());
        execute(&mut pair.target(), &["INSERT INTO d.two VALUES ('back', 1, NULL)"]);
        let mut source = pair.source();
        let found = "SELECT COUNT(*) FROM d.two WHERE k = 'back'";
        until("it is on the old source", || source.value(found).unwrap().as_deref() == Some("1"));
        running.signal("INT");
        running.end().exits(130);
        assert_same(&pair);
    });
}

#[test]
fn what_is_written_to_the_source_afterwards_is_told() {
    on_products(&of_today(products()), |product| {
        let pair = made(product);
        once(&pair, &[]).exits(0);
        let mut running = spawn(&pair, &["--resume", "--cut-over", "--watch", "60s"]);
        running.until_says("cut over: ");
        let mut source = pair.source();
        if product == sandbox::Product::MySql97 {
            execute(&mut source, &["SET GLOBAL super_read_only = 0"]);
        }
        execute(&mut source, &["INSERT INTO d.two VALUES ('late', 1, NULL)"]);
        running.until_says("written to the source after the cut-over, and not on the target");
        running.signal("INT");
        running.end().exits(4);
        let found = pair.target().value("SELECT COUNT(*) FROM d.two WHERE k = 'late'").unwrap();
        assert_eq!(found.as_deref(), Some("0"));
    });
}

/// The same command with both servers in the other order.
fn back(pair: &Pair, arguments: &[&str]) -> Ended {
    let mut command = remora(pair.folder.path());
    let own =
        ["copy", "--no-defaults", "-u", "root", &url(&pair.to), &url(&pair.from), "d", "--follow", "apply"];
    Ended::of(&command.args(own).args(arguments).output().unwrap())
}

#[test]
fn the_move_can_be_undone_and_done_again() {
    on_products(&of_today(products()), |product| {
        for to in part_of_today(vec![product, next(product)], 3) {
            tell(format!("{product} to {to}"));
            let pair = Pair::new(product, to, &LOG);
            make(&pair);
            let has_sequences = pair.is_mariadb() && pair.target().about.flavour == server::Flavour::MariaDb;
            add_programs_of(&pair, has_sequences);
            once(&pair, &[]).exits(3);
            cut_over(&pair, &[]).exits(0);
            let (mut source, mut target) = (pair.source(), pair.target());
            let mut random = Random(17);
            let mut work = |session: &mut Session, number: u32| {
                (0..50).for_each(|_| transact(session, &mut random));
                execute(session, &[&format!("INSERT INTO d.counted (v) VALUES ({number})")]);
                let found =
                    session.value(&format!("SELECT COUNT(*) FROM d.log WHERE what = {number}")).unwrap();
                assert_eq!(found.as_deref(), Some("1"), "{number}");
            };
            work(&mut target, 100);
            back(&pair, &["--once"]).exits(2).says(&["--resume applies to B what A has committed"]);
            back(&pair, &["--once", "--resume"]).exits(0).says(&["A took over from B at"]);
            assert_same(&pair);
            work(&mut target, 101);
            // What can't be applied is copied again, as in the other direction.
            execute(&mut target, &["ALTER TABLE d.word ADD note INT", "UPDATE d.word SET note = n"]);
            back(&pair, &["--once", "--resume"]).exits(1).says(&["DDL: ALTER TABLE d.word"]);
            back(&pair, &["--once", "--resume"]).exits(3);
            assert_same(&pair);
            back(&pair, &["--resume", "--cut-over", "--watch", "0s"]).exits(0);
            assert_same(&pair);
            assert_eq!((read_only(&mut source), read_only(&mut target)), ("0".to_owned(), "1".to_owned()));
            work(&mut source, 102);
            once(&pair, &["--resume"]).exits(0).says(&["A took over from B at"]);
            assert_same(&pair);
        }
    });
}
