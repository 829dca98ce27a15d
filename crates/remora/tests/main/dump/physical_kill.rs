//! Remora and the server are killed at each statement that changes something while a load writes a table's
//! file.

use std::process::Stdio;

use super::Pair;
use crate::gate::{Gate, PARTS, Step, Victim, Way};
use crate::physical::{TABLE, files};
use crate::support::{Ended, Running, mariadbs, of_today, on_products, part_of_today, remora, tell, until};

/// Rows of so many bytes in a text make a table large enough for a file of its own.
const ROWS: u64 = 150;

fn make(pair: &Pair) {
    let mut source = pair.source();
    for statement in [
        "CREATE DATABASE far",
        &format!("CREATE TABLE far.t {TABLE} ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"),
        &format!(
            "INSERT INTO far.t (id, name, price, kind, note) SELECT seq, CONCAT('Zo\u{eb} ', seq * 7919 % 1009), seq / 7, 'b', \
             REPEAT(CHAR(65 + seq % 26), 65000) FROM far.seq_1_to_{ROWS}"
        ),
    ] {
        source.execute(statement).unwrap();
    }
    pair.dump(&["far", "-o", "far.dump", "--no-users"]).exits(0);
    pair.target().execute("CREATE DATABASE others").unwrap();
    pair.target().execute("CREATE TABLE others.t (id INT AUTO_INCREMENT PRIMARY KEY)").unwrap();
}

/// Starts the load behind a gate.
fn begin(pair: &Pair, stop: Option<Step>) -> (Gate, Running) {
    let socket = pair.path("gate.sock");
    let gate = Gate::open(&socket, pair.to.socket(), stop);
    let mut command = remora(pair.folder.path());
    command.args(["load", "--no-defaults", "-u", "root", "-S"]).arg(&socket);
    command.args(["far.dump", "--physical", "--sessions", "2"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (gate, Running::new(command.spawn().unwrap()))
}

/// The steps that change something, from the ledger's note that the file is written on.
fn steps(pair: &Pair) -> Vec<Step> {
    let (gate, running) = begin(pair, None);
    running.end().exits(0).says(&["mariadb-backup"]);
    let all = gate.steps.lock().unwrap().clone();
    let first =
        all.iter().position(|(text, _)| text.starts_with("INSERT") && text.ends_with(", -2)")).unwrap();
    let is_quiet = |text: &str| ["SELECT", "SHOW", "SET"].iter().any(|word| text.starts_with(word));
    // A key is added under modes of its own: SET STATEMENT ... FOR ALTER TABLE.
    let only_reads = |text: &str| is_quiet(text) && !text.contains("ALTER TABLE");
    let mut steps: Vec<Step> = all.into_iter().skip(first).filter(|step| !only_reads(&step.0)).collect();
    steps.dedup();
    for word in ["FOR EXPORT", "IMPORT TABLESPACE", "CHECK TABLE", "ANALYZE", "RENAME", "DROP DATABASE"] {
        assert!(steps.iter().any(|step| step.0.contains(word)), "no {word} in {steps:?}");
    }
    steps
}

/// Kills somebody at a step.
fn kill(pair: &mut Pair, step: &Step, victim: Victim) {
    let (gate, mut running) = begin(pair, Some(step.clone()));
    let way = gate.wait(&mut running);
    // Others commit until the last moment.
    pair.target().execute("INSERT INTO others.t VALUES ()").unwrap();
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

/// The rows that the table has; none if there is no table.
fn rows(pair: &Pair) -> Option<u64> {
    pair.target().value("SELECT COUNT(*) FROM far.t").ok()?.unwrap().parse().ok()
}

/// Runs the load to its end, however far the killed one was.
fn go_on(pair: &Pair) -> Ended {
    let mut ended = None;
    until("a load that nobody else holds up", || {
        // The server may still work for the one who was killed.
        ended = Some(pair.load(&["far.dump", "--resume", "--physical"]));
        ended.as_ref().is_some_and(|ended| ended.code != 11)
    });
    ended.unwrap()
}

#[test]
fn a_kill_at_any_step_leaves_the_table_empty_or_complete_and_the_next_run_ends_the_load() {
    let here: Vec<_> = of_today(mariadbs());
    // The oldest puts the file in place of one that is discarded, the newest takes a stranger's table.
    let ends: Vec<_> =
        here.first().into_iter().chain(here.last().filter(|_| here.len() > 1)).copied().collect();
    on_products(&ends, |product| {
        let mut pair = Pair::new(product, product, &["--innodb-flush-log-at-trx-commit=1"]);
        make(&pair);
        let folder = pair.to.data().join("far");
        let steps = steps(&pair);
        let mut commits = 0;
        let cases = steps.iter().enumerate().flat_map(|(number, step)| {
            let server = Victim::of_servers(number, ends.first() == Some(&product));
            [(step, server), (step, Victim::Remora)]
        });
        for (step, victim) in part_of_today(cases.collect(), PARTS) {
            tell(format!("{product}: {victim:?} at {step:?}"));
            pair.target().execute("DROP DATABASE far").unwrap();
            kill(&mut pair, step, victim);
            commits += 1;
            let others = pair.target().value("SELECT COUNT(*) FROM others.t").unwrap();
            assert_eq!(others, Some(commits.to_string()));
            let found = rows(&pair);
            assert!([None, Some(0), Some(ROWS)].contains(&found), "{found:?}");
            let ended = go_on(&pair);
            if ended.code != 0 {
                // It was over, but for its last word.
                assert!(
                    found == Some(ROWS) && ended.err.contains("no stopped load of this dump"),
                    "{}",
                    ended.err
                );
            }
            pair.diff("far.dump", &[]).exits(0);
            let mut target = pair.target();
            let checked = target.strings("CHECK TABLE far.t EXTENDED").unwrap();
            assert_eq!(checked[0].last().unwrap().as_deref(), Some("OK"));
            assert_eq!(files(&folder), []);
            let left = "SELECT COUNT(*) FROM information_schema.tables \
                            WHERE table_name LIKE '\\_remora%' OR table_schema = '_remora'";
            assert_eq!(target.value(left).unwrap().as_deref(), Some("0"));
            // Nothing counts on from elsewhere.
            target.execute("INSERT INTO far.t (name) VALUES ('next')").unwrap();
            let next = target.value("SELECT MAX(id) FROM far.t").unwrap();
            assert_eq!(next, Some((ROWS + 1).to_string()));
        }
    });
}
