//! Copies from server to server: the same as a dump that is loaded, also after any kind of kill.

use std::process::{Command, Stdio};

use sandbox::{Product, Sandbox};
use server::Session;

use super::interrupt::many_chunks_of;
use super::{Gate, Pair, assert_equal, case, described, fill, run_sql};
use crate::schema;
use crate::support::{Ended, Running, of_today, on_products, part_of_today, products, remora, until};

/// The address of a server.
pub(super) fn url(server: &Sandbox) -> String {
    format!("unix://{}", server.socket().display())
}

fn command(pair: &Pair, arguments: &[&str]) -> Command {
    let mut command = remora(pair.folder.path());
    command.args(["copy", "--no-defaults", "-u", "root", &url(&pair.from), &url(&pair.to)]).args(arguments);
    command
}

/// Copies from the one server to the other.
pub(super) fn copy(pair: &Pair, arguments: &[&str]) -> Ended {
    Ended::of(&command(pair, arguments).output().unwrap())
}

pub(super) fn spawn(pair: &Pair, arguments: &[&str]) -> Running {
    let mut command = command(pair, arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::new(command.spawn().unwrap())
}

/// Starts a copy of many small chunks, and stops its process when some are in.
pub(super) fn halfway(pair: &Pair, arguments: &[&str], chunks: u64) -> Running {
    // So slow that it can't be over before it is looked at.
    let slowly = ["--chunk", "32K", "-j", "2", "--max-rate", "800K"];
    let mut running = spawn(pair, &[arguments, &slowly].concat());
    until("chunks in the ledger", || {
        running.must_run();
        pair.chunks().is_some_and(|count| count >= chunks)
    });
    running.signal("STOP");
    running
}

#[track_caller]
fn is_clean(pair: &Pair) {
    let left = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE '%remora%'";
    assert_eq!(pair.target().value(left).unwrap().as_deref(), Some("0"));
}

/// A server's number of statements of a kind.
pub(super) fn statements(pair: &Pair, name: &str) -> u64 {
    let rows = pair.target().strings(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).unwrap();
    rows[0][1].as_ref().unwrap().parse().unwrap()
}

#[test]
fn a_killed_copy_is_resumed_and_takes_what_changed_meanwhile() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        many_chunks_of(&pair, "keys");
        let mut source = pair.source();
        for sql in [
            "CREATE TABLE `keys`.altered (id INT PRIMARY KEY, a INT)",
            "INSERT INTO `keys`.altered VALUES (1, 1)",
            "CREATE TABLE `keys`.dropped (id INT PRIMARY KEY)",
        ] {
            source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        halfway(&pair, &["keys"], 5).kill();
        copy(&pair, &["keys"]).exits(1).says(&["--resume continues it"]);
        // Other names are another copy.
        copy(&pair, &["keys.altered", "--resume"]).exits(1).says(&["no stopped copy"]);
        let mut tables = source
            .strings("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'keys'")
            .unwrap();
        tables.retain(|row| !["altered", "dropped"].contains(&row[0].as_deref().unwrap()));
        for row in &tables {
            // Rows leave, so that chunks which are there have too many.
            let table = row[0].as_ref().unwrap().replace('`', "``");
            source.execute(&format!("DELETE FROM `keys`.`{table}` LIMIT 3")).unwrap();
        }
        for sql in ["ALTER TABLE `keys`.altered ADD b INT DEFAULT 2", "DROP TABLE `keys`.dropped"] {
            source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        // A table of somebody else is not taken for one of the copy.
        source.execute("CREATE TABLE `keys`.other (id INT PRIMARY KEY)").unwrap();
        pair.target().execute("CREATE TABLE `keys`.other (id INT PRIMARY KEY)").unwrap();
        let resume = ["keys", "--chunk", "32K", "--resume"];
        copy(&pair, &resume).exits(1).says(&["table `keys`.`other` exists", "not of the stopped copy"]);
        pair.target().execute("DROP TABLE `keys`.other").unwrap();
        // Nor is one that has the name of one of the copy.
        for name in ["altered", "dropped"] {
            for sql in [
                "DROP TABLE `keys`.{}",
                "CREATE TABLE `keys`.{} (own INT)",
                "INSERT INTO `keys`.{} VALUES (7)",
            ] {
                pair.target().execute(&sql.replace("{}", name)).unwrap();
            }
            let refused = format!("table `keys`.`{name}` on the target has columns that neither");
            copy(&pair, &resume).exits(1).says(&[&refused]);
            let own = pair.target().value(&format!("SELECT own FROM `keys`.{name}")).unwrap();
            assert_eq!(own.as_deref(), Some("7"));
            pair.target().execute(&format!("DROP TABLE `keys`.{name}")).unwrap();
        }
        copy(&pair, &resume).exits(0);
        assert_equal(&pair, "keys");
        is_clean(&pair);
        copy(&pair, &["keys", "--resume"]).exits(1).says(&["no stopped copy"]);
    });
}

#[test]
fn a_copy_is_resumed_after_either_server_was_killed_and_sends_only_what_is_missing() {
    on_products(&of_today(products()), |product| {
        let mut pair = Pair::new(product, product, &["--innodb-flush-log-at-trx-commit=1"]);
        let mut source = pair.source();
        fill(&mut source, 13);
        source.execute("CREATE TABLE d.log (day INT)").unwrap();
        let sql = "CREATE TRIGGER d.notes AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.log VALUES (1)";
        source.execute(sql).unwrap();
        let running = halfway(&pair, &["d"], 6);
        running.signal("INT");
        running.signal("CONT");
        running.end().exits(130).says(&["start again with --resume"]);
        let before = pair.chunks().unwrap();
        let running = halfway(&pair, &["d", "--resume"], before + 6);
        pair.to.kill().unwrap();
        running.signal("CONT");
        running.end().exits(1).says(&["--resume"]);
        pair.to.restart().unwrap();
        let before = pair.chunks().unwrap();
        assert!(before >= 12);
        let running = halfway(&pair, &["d", "--resume"], before + 12);
        pair.from.kill().unwrap();
        running.signal("CONT");
        running.end().exits(1).says(&["--resume"]);
        pair.from.restart().unwrap();
        let there: u64 = pair.target().value("SELECT COUNT(*) FROM d.t").unwrap().unwrap().parse().unwrap();
        let written = statements(&pair, "Handler_write");
        copy(&pair, &["d", "--resume", "--chunk", "32K"]).exits(0);
        assert_equal(&pair, "d");
        is_clean(&pair);
        // Answers about definitions are written into temporary tables.
        let written = statements(&pair, "Handler_write") - written;
        assert!(there > 2500 && written < 8192 - there + 1000, "{written} rows written, {there} were there");
    });
}

#[test]
fn ddl_during_a_copy_ends_it_and_the_next_run_takes_the_new_definition() {
    // MySQL before 8 does not notice all DDL, which waits there.
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut gate = Gate::close(&pair);
    gate.run(&["CREATE TABLE d.u (id INT PRIMARY KEY)", "INSERT INTO d.u VALUES (1)"]);
    gate.run(&["CREATE VIEW d.v AS SELECT id FROM d.u", "CREATE VIEW d.w AS SELECT id FROM d.u"]);
    let condition = Gate::condition();
    let arguments = ["d", "--chunk", "32K", "-j", "1", "--where", &condition];
    let mut running = spawn(&pair, &arguments);
    gate.until_reached(&mut running);
    gate.run(&["ALTER TABLE d.u ADD a INT DEFAULT 7", "DROP VIEW d.w"]);
    gate.open();
    running.end().exits(1).says(&["table `d`.`u` was changed by DDL", "--resume"]);
    copy(&pair, &[&arguments[..], &["--resume"]].concat()).exits(0);
    assert_equal(&pair, "d");
    is_clean(&pair);
}

#[test]
fn programs_of_a_stopped_copy_are_made_again_and_do_not_fire_meanwhile() {
    let pair = Pair::new(products()[0], products()[0], &[]);
    let run = |sql: &str| drop(pair.source().execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")));
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "CREATE TABLE d.log (id INT)",
        "CREATE TRIGGER d.notes AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.log VALUES (NEW.id)",
        "CREATE VIEW d.gone AS SELECT id FROM d.t",
        "CREATE EVENT d.zzz ON SCHEDULE EVERY 1 DAY DO SELECT 1",
    ] {
        run(sql);
    }
    // The event can't be made as long as somebody keeps it locked on the target, and comes last.
    pair.target().execute("CREATE DATABASE d").unwrap();
    let mut holder = pair.target();
    holder.execute("CREATE EVENT d.zzz ON SCHEDULE EVERY 2 DAY DO SELECT 1").unwrap();
    copy(&pair, &["d"]).exits(1).says(&["event `d`.`zzz`"]);
    holder.execute("DROP EVENT d.zzz").unwrap();
    let made = "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'd'";
    assert_eq!(pair.target().value(made).unwrap().as_deref(), Some("1"));
    run("INSERT INTO d.t VALUES (1), (2)");
    run("DROP VIEW d.gone");
    copy(&pair, &["d", "--resume"]).exits(0);
    assert_equal(&pair, "d");
    is_clean(&pair);
}

#[test]
fn a_copy_across_servers_equals_a_dump_that_is_loaded() {
    let all = products();
    let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to)));
    let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
    let count = pairs.len();
    for (from, to) in part_of_today(pairs, count) {
        let pair = Pair::new(from, to, &[]);
        for name in part_of_today(vec!["values", "keys", "texts", "rental", "programs"], 2) {
            run_sql(&pair.from, name, &case(name));
            pair.dump(&[name, "-o", name, "--chunk", "64K"]).exits(0);
            let loaded = pair.load(&[name]);
            let wanted = described(&mut pair.target(), name, true);
            let mut target = pair.target();
            target.execute("SET foreign_key_checks = 0").unwrap();
            target.execute(&format!("DROP DATABASE IF EXISTS `{name}`")).unwrap();
            drop(target.execute("DROP DATABASE IF EXISTS _remora"));
            let copied = copy(&pair, &[name, "--chunk", "64K"]);
            assert_eq!(copied.code, loaded.code, "{from} to {to}: {name}: {} {}", copied.err, loaded.err);
            assert_eq!(described(&mut pair.target(), name, true), wanted, "{from} to {to}: {name}");
        }
    }
}

#[test]
fn a_copy_that_makes_no_sense_is_refused_before_anything_is_written() {
    let pair = Pair::new(products()[0], products()[0], &[]);
    for sql in ["CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "INSERT INTO d.t VALUES (1)"] {
        pair.source().execute(sql).unwrap();
    }
    let (from, to) = (url(&pair.from), url(&pair.to));
    let root = ["copy", "--no-defaults", "-u", "root"];
    let run = |arguments: &[&str]| pair.run(&[&root[..], arguments].concat());
    run(&["db1", &to]).exits(2).says(&["is no address of a server"]);
    run(&[&from, &from, "d"]).exits(1).says(&["the same server"]);
    run(&[&from, &to, "e"]).exits(1).says(&["no such database"]);
    run(&[&from, &to, "d", "--where", "nothing = 1"]).exits(1).says(&["not a valid condition"]);
    run(&[&from, &to, "d", "--resume"]).exits(1).says(&["no stopped copy"]);
    let plan = run(&[&from, &to, "d", "--dry-run"]).exits(0).out;
    assert!(plan.starts_with("1 table and 1 other object: about 1 row and "), "{plan}");
    is_clean(&pair);
    let some = ["d", "--where", "d.t:id > 1", "--json"];
    for further in [&["--dry-run"][..], &[]] {
        let ended = run(&[&[from.as_str(), &to], &some[..], further].concat()).exits(0);
        schema::check("copy", &ended.out).unwrap();
    }
    assert_eq!(pair.target().value("SELECT COUNT(*) FROM d.t").unwrap().as_deref(), Some("0"));
    let exists = "table `d`.`t` exists on the target";
    run(&[&from, &to, "d"]).exits(1).says(&[exists]);
    let plan = run(&[&from, &to, "d", "--dry-run"]).exits(1).out;
    assert!(plan.starts_with(&format!("refused: {exists}")), "{plan}");
    is_clean(&pair);
}

#[test]
fn a_copy_waits_while_the_source_is_busy() {
    let pair = Pair::new(products()[0], products()[0], &[]);
    let mut holder = pair.source();
    for sql in ["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)"] {
        holder.execute(sql).unwrap();
    }
    assert!(holder.lock("busy", 100).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| pair.source().execute("DO GET_LOCK('busy', 300)").unwrap());
        }
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
        until("six busy sessions", || holder.value(waits).unwrap().as_deref() == Some("6"));
        let mut running = spawn(&pair, &["d", "-j", "1", "--max-threads-running", "2"]);
        let asked = |session: &mut Session| -> u64 {
            let rows = session.strings("SHOW GLOBAL STATUS LIKE 'Com_show_status'").unwrap();
            rows[0][1].as_ref().unwrap().parse().unwrap()
        };
        // Each of our questions counts, too.
        let (before, mut own) = (asked(&mut holder), 0);
        until("a copy that asks again and again", || {
            running.must_run();
            own += 1;
            asked(&mut holder) >= before + own + 5
        });
        assert_eq!(pair.target().value("SELECT COUNT(*) FROM d.t").unwrap().as_deref(), Some("0"));
        holder.unlock("busy").unwrap();
        running.end().exits(0);
    });
    assert_equal(&pair, "d");
}
