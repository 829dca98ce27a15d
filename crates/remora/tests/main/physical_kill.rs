//! Remora and the server are killed at each statement that changes something while a written file is
//! imported.

use sandbox::Sandbox;

use crate::gate::{Gate, PARTS, Step, Victim, Way};
use crate::physical::{TABLE, files, same, text};
use crate::support::{Place, Running, mariadbs, of_today, on_products, part_of_today, start, tell};

/// Starts the import behind a gate.
fn begin(place: &Place, stop: Option<Step>) -> (Gate, Running) {
    let socket = place.path("gate.sock");
    let gate = Gate::open(&socket, &place.socket, stop);
    let import = ["rows.csv", "--into", "t", "--physical", "--time-zone", "+00:00"];
    (gate, place.spawn_at(&socket, &import))
}

/// The steps that change something, from the template table on.
fn steps(place: &Place) -> Vec<Step> {
    let (gate, running) = begin(place, None);
    running.end().exits(0);
    let all = gate.steps.lock().unwrap().clone();
    let is_first = |(text, _): &Step| text.starts_with("CREATE TABLE") && text.contains("`_remora_ibd_");
    let first = all.iter().rposition(is_first).unwrap();
    let only_reads = |text: &str| ["SELECT", "SHOW"].iter().any(|word| text.starts_with(word));
    let steps: Vec<Step> = all.into_iter().skip(first).filter(|step| !only_reads(&step.0)).collect();
    for word in ["FOR EXPORT", "IMPORT TABLESPACE", "CHECK TABLE", "ADD KEY", "ANALYZE", "RENAME"] {
        assert!(steps.iter().any(|step| step.0.contains(word)), "no {word} in {steps:?}");
    }
    steps
}

/// Kills somebody at a step.
fn kill(place: &Place, server: &mut Sandbox, step: &Step, victim: Victim) {
    let (gate, mut running) = begin(place, Some(step.clone()));
    let way = gate.wait(&mut running);
    // Others commit until the last moment.
    place.sql(&["INSERT INTO others VALUES ()"]);
    match victim {
        Victim::Remora => {
            running.kill();
            way.send(Way::Cut).unwrap();
        }
        Victim::Server | Victim::ServerAtWork => {
            way.send(if matches!(victim, Victim::ServerAtWork) { Way::On } else { Way::Cut }).unwrap();
            server.kill().unwrap();
            running.end();
            server.restart().unwrap();
        }
    }
}

#[test]
fn a_kill_at_any_step_leaves_the_old_table_or_the_new_one() {
    let here: Vec<_> = of_today(mariadbs());
    // The oldest puts the file in place of one that is discarded, the newest takes a stranger's table.
    let ends: Vec<_> =
        here.first().into_iter().chain(here.last().filter(|_| here.len() > 1)).copied().collect();
    on_products(&ends, |product| {
        let mut server = start(product, &[]);
        let place = Place::new(&server);
        place.file("rows.csv", text(1..3000));
        place.sql(&[
            &format!("CREATE TABLE t {TABLE}"),
            "CREATE TABLE others (id INT AUTO_INCREMENT PRIMARY KEY)",
        ]);
        let steps = steps(&place);
        place.sql(&["CREATE TABLE straight LIKE t", "TRUNCATE TABLE t"]);
        place.import(&["rows.csv", "--into", "straight", "--time-zone", "+00:00"]).exits(0);
        let folder = server.data().join(&place.schema);
        let mut commits = 0;
        let cases = steps.iter().enumerate().flat_map(|(number, step)| {
            let server = Victim::of_servers(number, ends.first() == Some(&product));
            [(step, server), (step, Victim::Remora)]
        });
        for (step, victim) in part_of_today(cases.collect(), PARTS) {
            tell(format!("{product}: {victim:?} at {step:?}"));
            kill(&place, &mut server, step, victim);
            commits += 1;
            assert_eq!(place.count("others"), commits);
            // The server may still work for the one who was killed.
            let working = "info LIKE '%remora%' AND info NOT LIKE '%processlist%'";
            place.until(&format!("SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE {working}"));
            let is_in = place.count("t") > 0;
            if is_in {
                same(&place, "t", "straight");
                place.sql(&["TRUNCATE TABLE t"]);
            }
            let import = ["rows.csv", "--into", "t", "--physical", "--time-zone", "+00:00"];
            let mut ended = place.import(&import);
            if ended.code == 11 {
                let way = if is_in { "--restart" } else { "--resume" };
                ended = place.import(&[&import[..], &[way]].concat());
            }
            ended.exits(0);
            same(&place, "t", "straight");
            assert_eq!((place.leftovers(), files(&folder)), (Vec::new(), Vec::new()));
            place.sql(&["TRUNCATE TABLE t"]);
        }
    });
}
