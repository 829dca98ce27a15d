//! Arrival times of an archived log: they are noted, and decide about transactions whose own time is wrong.

use std::fs;
use std::process::Command;

use sandbox::Product;

use crate::recovery_scene::Scene;
use crate::segments::{self, Play, SEALED};
use crate::support::until;

/// The first time of the transactions, which set their timestamps themselves.
const ZERO: i64 = 1_900_000_000;

fn shown(second: i64) -> String {
    jiff::Timestamp::from_second(ZERO + second).unwrap().to_string()
}

#[test]
fn an_archiver_notes_when_bytes_arrived_and_when_it_had_caught_up() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    let clock = |scene: &mut Scene| {
        scene.session.value("SELECT UNIX_TIMESTAMP()").unwrap().unwrap().parse::<i64>().unwrap()
    };
    let began = clock(&mut scene);
    let mut running = scene.archiver();
    running.until_says("caught up");
    let place =
        |scene: &mut Scene| -> u64 { scene.moment().position.rsplit_once(':').unwrap().1.parse().unwrap() };
    let silent = place(&mut scene);
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    let end = place(&mut scene);
    let timeline = scene.folder.path().join("repo/db/log/000001");
    until("it is archived", || fs::metadata(timeline.join("binlog.000001")).unwrap().len() == end);
    running.signal("TERM");
    running.end().exits(143);
    let ended = clock(&mut scene);
    let notes = fs::read_to_string(timeline.join("binlog.000001.arrived")).unwrap();
    let mut seen = Vec::new();
    for note in notes.lines() {
        let words: Vec<&str> = note.split(' ').collect();
        let (at, time): (u64, i64) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        // Clocks are read by the second, one after the other.
        assert!((began - 1..=ended + 1).contains(&time), "{began} {ended} {notes}");
        seen.push((at, words.get(2) == Some(&"all")));
    }
    assert!(seen.contains(&(silent, true)) && seen.last().unwrap().0 == end, "{silent} {end} {notes}");
    // Without a time as the target the notes are not needed.
    fs::remove_file(timeline.join("binlog.000001.arrived")).unwrap();
    fs::create_dir(timeline.join("binlog.000001.arrived")).unwrap();
    scene.run(&["log", "repo/db"]).exits(0);
    for asks in [&["log", "repo/db", "--json"][..], &["log", "repo/db", "--until", "2037-01-01"]] {
        scene.run(asks).exits(1);
    }
}

/// One session sets a timestamp an hour later, another one sets one of long ago.
#[test]
fn transactions_with_a_wrong_time_are_placed_by_their_arrival() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.backup();
    let mut moments = Vec::new();
    for (id, says) in [(10, 0), (11, 3600), (12, 60), (13, -1_000_000), (14, 120), (15, 118)] {
        scene.does(&[
            &format!("SET timestamp = {}", ZERO + says),
            &format!("INSERT INTO app.t VALUES ({id}, 'x')"),
        ]);
        moments.push(scene.moment());
    }
    scene.archive();
    let place = |number: usize| moments[number].position.rsplit_once(':').unwrap().1;
    let note =
        |number: usize, second: i64, more: &str| format!("{} {}{more}\n", place(number), ZERO + second);
    let before =
        [note(0, 1, ""), note(0, 2, " all"), note(1, 31, ""), note(2, 61, ""), note(2, 100, " all")].concat();
    let notes = [&*before, &note(3, 111, ""), &note(4, 121, ""), &note(5, 122, "")].concat();
    scene.came(Some(&notes));
    let plan = |second: i64| scene.restore(&["--until", &shown(second), "--plan"]);
    let next = |number: usize| format!("next would be {} ", moments[number].gtid);
    let says = |number: usize| format!("{} says that it ended at", moments[number].gtid);
    // The transaction with a future time arrived before, and the one with a past time after it.
    let ended = plan(70).exits(0).says(&[&next(3), &says(1), &says(3)]);
    assert!(!ended.err.contains(&says(2)), "{}", ended.err);
    plan(35).exits(0).says(&[&next(2), &says(1), &says(3)]);
    plan(115).exits(0).says(&[&next(4), &says(1)]);
    plan(10).exits(1).says(&["can't be proven", &moments[1].gtid]);
    // Between the last note that nothing more was there and the arrival.
    plan(105).exits(1).says(&["can't be proven", &moments[3].gtid]);
    // A later arrival shows that it was earlier.
    scene.came(Some(&[&*before, &note(3, 200, ""), &note(4, 201, ""), &note(5, 202, "")].concat()));
    plan(130).exits(3).says(&["nothing later than that time", &says(1)]);
    plan(119).exits(1).says(&["can't be proven", &moments[3].gtid]);
    // Nothing arrived later.
    let last = [&note(3, 111, ""), &note(4, 121, ""), &note(4, 140, " all"), &note(5, 160, "")];
    scene.came(Some(&(before.clone() + &last.map(String::as_str).concat())));
    plan(150).exits(1).says(&["can't be proven", &moments[5].gtid]);
    // Transactions after the next one are not replayed, so nothing is reported about them.
    let early = [note(0, -4, ""), note(1, -4, ""), note(2, 61, ""), note(2, 100, " all"), note(5, 122, "")];
    scene.came(Some(&early.concat()));
    let ended = plan(-3).exits(0).says(&[&next(0)]);
    assert!(!ended.err.contains(&says(1)), "{}", ended.err);
    scene.came(None);
    plan(70).exits(1).says(&["contradict one another"]);
    scene.came(Some(&notes));
    let (found, _) = scene.restored(&["--until", &shown(70)]);
    assert_eq!(found, moments[2].sums);
    let log = |since: i64, until: i64| {
        scene.run(&["log", "repo/db", "--since", &shown(since), "--until", &shown(until)]).exits(0)
    };
    let ended = log(20, 70);
    assert_eq!(ended.out.lines().count(), 2, "{}", ended.out);
    assert!(ended.out.contains(&moments[1].gtid) && ended.out.contains(&moments[2].gtid), "{}", ended.out);
    ended.says(&[&says(1)]);
    // What is known of one archive says nothing of another one.
    let copy = ["-r", "repo/db", "repo/other"];
    assert!(Command::new("cp").args(copy).current_dir(scene.folder.path()).status().unwrap().success());
    fs::remove_file(scene.folder.path().join("repo/other/log/000001/binlog.000001.arrived")).unwrap();
    let both = ["log", "repo/db", "repo/other", "--since", &shown(20), "--until", &shown(70)];
    assert_eq!(scene.run(&both).exits(0).out.lines().count(), 3);
    let ended = log(-2_000_000, -10).exits(0);
    assert!(ended.out.is_empty(), "{}", ended.out);
    ended.says(&[&says(3), "was between"]);
    let json = scene.run(&["log", "repo/db", "--gtid", &moments[3].gtid, "--json"]).exits(0).out;
    assert!(json.contains(&format!("\"ended\":[\"{}\",\"{}\"]", shown(100), shown(111))), "{json}");
}

/// The same with a segmented archive. Here the clocks are real: no transaction ends years after its arrival.
#[test]
fn segments_have_arrival_times() {
    let mut play = Play::new(SEALED, &[]);
    play.does(&[
        segments::TABLE,
        "SET timestamp = 2145916800",
        "INSERT INTO app.t (v) VALUES ('of the future')",
    ]);
    play.once().exits(0);
    let gtid = play.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
    let ended = play.reads("log NAME --since 2037-06-01").exits(0);
    assert!(ended.out.is_empty(), "{}", ended.out);
    ended.says(&[&format!("{gtid} says that it ended at 203")]);
    let shown = play.reads("log NAME --since 2020-01-01").exits(0);
    assert!(shown.out.contains(&gtid) && !shown.err.contains("says that"), "{}{}", shown.out, shown.err);
}
