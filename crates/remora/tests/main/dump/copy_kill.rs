//! Remora and the target are killed at each statement of a copy that changes something.

use std::process::Stdio;

use sandbox::Product;

use super::copy::{copy, url};
use super::{Pair, assert_equal, described};
use crate::gate::{Gate, Step, Victim, Way};
use crate::support::{Ended, Running, of_today, on_products, part_of_today, products, remora, tell, until};

/// In how many parts the steps and those who are killed are divided: a check takes another one each day.
const PARTS: usize = 24;

fn make(pair: &Pair) {
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, w CHAR(100) DEFAULT 'x', KEY (v)) DEFAULT CHARSET latin1",
        "CREATE TABLE d.my (id INT, v INT) ENGINE=MyISAM",
        "CREATE TABLE d.log (id INT)",
        "INSERT INTO d.t (id, v) VALUES (1, 1)",
        "INSERT INTO d.my VALUES (1, 1), (2, 2)",
    ] {
        source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for doubling in 0..9 {
        let sql = format!("INSERT INTO d.t (id, v) SELECT id + {}, v FROM d.t", 1 << doubling);
        source.execute(&sql).unwrap();
    }
    source.strings("ANALYZE TABLE d.t").unwrap();
    for sql in [
        "CREATE TRIGGER d.notes AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.log VALUES (NEW.id)",
        "CREATE VIEW d.seen AS SELECT v FROM d.t",
        "CREATE PROCEDURE d.p() SELECT 1",
    ] {
        source.execute(sql).unwrap();
    }
}

/// Starts the copy behind a gate.
fn begin(pair: &Pair, stop: Option<Step>) -> (Gate, Running) {
    let socket = pair.path("gate.sock");
    let gate = Gate::open(&socket, pair.to.socket(), stop);
    let mut command = remora(pair.folder.path());
    let to = format!("unix://{}", socket.display());
    command.args(["copy", "--no-defaults", "-u", "root", &url(&pair.from), &to, "d", "--chunk", "32K"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (gate, Running::new(command.spawn().unwrap()))
}

/// The statements that change something on the target.
fn steps(pair: &Pair) -> Vec<Step> {
    let (gate, running) = begin(pair, None);
    running.end().exits(0);
    let mut steps = gate.steps.lock().unwrap().clone();
    let is_quiet = |text: &str| ["SELECT", "SHOW", "SET", "USE"].iter().any(|word| text.starts_with(word));
    steps.retain(|(text, _)| !is_quiet(text));
    for word in ["CREATE TABLE `t`", "COMMIT", "TRIGGER", "VIEW", "DROP TABLE", "DROP DATABASE"] {
        assert!(steps.iter().any(|step| step.0.contains(word)), "no {word} in {steps:?}");
    }
    steps
}

fn kill(pair: &mut Pair, step: &Step, victim: Victim) {
    let (gate, mut running) = begin(pair, Some(step.clone()));
    let way = gate.wait(&mut running);
    match victim {
        Victim::Remora => {
            running.kill();
            way.send(Way::Cut).unwrap();
        }
        Victim::Server | Victim::ServerAtWork => {
            way.send(if matches!(victim, Victim::ServerAtWork) { Way::On } else { Way::Cut }).unwrap();
            pair.to.kill().unwrap();
            running.end();
            pair.to.restart().unwrap();
        }
    }
}

/// Runs the copy to its end, as soon as the server no longer works for the one who was killed.
fn go_on(pair: &Pair, resume: &[&str]) -> Ended {
    let mut ended = None;
    until("a copy that nobody else holds up", || {
        ended = Some(copy(pair, &[&["d", "--chunk", "32K"], resume].concat()));
        ended.as_ref().is_some_and(|ended| ended.code != 11)
    });
    ended.unwrap()
}

#[test]
fn a_kill_at_any_step_of_a_copy_loses_nothing_and_the_next_run_ends_it() {
    on_products(&of_today(products()), |product| {
        let mut pair = Pair::new(product, product, &["--innodb-flush-log-at-trx-commit=1"]);
        make(&pair);
        let cases: Vec<_> = steps(&pair).into_iter().enumerate().collect();
        let cases = cases
            .iter()
            .flat_map(|(number, step)| [(step, Victim::of_servers(*number, true)), (step, Victim::Remora)]);
        for (step, victim) in part_of_today(cases.collect(), PARTS) {
            tell(format!("{product}: {victim:?} at {step:?}"));
            drop(pair.target().execute("DROP DATABASE d"));
            let before = described(&mut pair.source(), "d", true);
            kill(&mut pair, step, victim);
            // Without a ledger there is nothing yet, or it was over but for its last word.
            let is_begun = pair.chunks().is_some();
            if !is_begun {
                let there = described(&mut pair.target(), "d", true);
                assert!(there.len() < 2 || there == before, "{there:?}");
                drop(pair.target().execute("DROP DATABASE d"));
            }
            let mut source = pair.source();
            source.execute("UPDATE d.t SET v = v + 1 WHERE id IN (3, 400)").unwrap();
            source.execute("DELETE FROM d.t ORDER BY id LIMIT 1").unwrap();
            source.execute("INSERT INTO d.my VALUES (3, 3)").unwrap();
            let resume: &[&str] = if is_begun { &["--resume"] } else { &[] };
            let mut ended = go_on(&pair, resume);
            if product == Product::MySql56 && remove_empty(&pair, &ended) {
                ended = go_on(&pair, resume);
            }
            ended.exits(0);
            assert_equal(&pair, "d");
        }
    });
}

/// Removes files that a crash has left empty on MySQL 5.6: no statement does, and a copy names them.
fn remove_empty(pair: &Pair, ended: &Ended) -> bool {
    let Some((_, rest)) = ended.err.split_once("has left an empty file ") else { return false };
    let name = rest.split(' ').next().unwrap();
    std::fs::remove_file(pair.to.data().join("d").join(name)).unwrap();
    true
}

/// MySQL 5.6 makes the file of a definition, the tablespace and its own entry apart: a crash may leave only
/// one or both of the files, or a part of the first.
#[test]
fn a_table_of_which_a_crash_has_left_only_files_is_copied_again() {
    let old = products().into_iter().filter(|product| *product == Product::MySql56).collect::<Vec<_>>();
    on_products(&old, |product| {
        let mut pair = Pair::new(product, product, &[]);
        make(&pair);
        let step = steps(&pair).into_iter().find(|(text, _)| text.contains("TRIGGER")).unwrap();
        for (left, len) in [
            (&["frm"][..], usize::MAX),
            (&["ibd"], usize::MAX),
            (&["frm", "ibd"], usize::MAX),
            (&["frm"], 100),
            (&["frm", "ibd"], 0),
        ] {
            drop(pair.target().execute("DROP DATABASE d"));
            kill(&mut pair, &step, Victim::Remora);
            let folder = pair.to.data().join("d");
            let files: Vec<_> = left
                .iter()
                .map(|end| folder.join(format!("log.{end}")))
                .map(|path| (std::fs::read(&path).unwrap(), path))
                .collect();
            pair.target().execute("DROP TABLE d.log").unwrap();
            for (bytes, path) in &files {
                let len = if path.ends_with("log.frm") { bytes.len().min(len) } else { bytes.len() };
                std::fs::write(path, &bytes[..len]).unwrap();
            }
            let refused = pair.target().execute("SELECT 1 FROM d.log").unwrap_err();
            assert!([Some(1146), Some(1033)].contains(&refused.code()), "{left:?}: {refused}");
            let mut ended = go_on(&pair, &["--resume"]);
            assert_eq!(remove_empty(&pair, &ended), len == 0, "{}", ended.err);
            if len == 0 {
                ended = go_on(&pair, &["--resume"]);
            }
            let ended = ended.exits(0);
            if left.contains(&"frm") && len == usize::MAX {
                ended.says(&["of the stopped copy can't be continued"]);
            }
            assert_equal(&pair, "d");
        }
    });
}
