//! What a copy has, to the row and to the byte, and a copy that has to begin again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::since::pass_checkpoint;
use super::step::Behind;
use super::{Scene, domain, servers};
use crate::gate::{Step, Way};
use crate::support::{connect, mariadbs, until};

fn step(statement: &str, before: usize) -> Step {
    (statement.to_owned(), before)
}

/// Adds a row to a table as [`super::write`] does; ends when it is committed.
fn add(scene: &Scene, number: usize, id: u64) -> JoinHandle<()> {
    let mut session = connect(scene.server.socket());
    std::thread::spawn(move || {
        session.execute(&format!("SET SESSION gtid_domain_id = {}", domain(number))).unwrap();
        session.execute(&format!("INSERT INTO app.w{number} VALUES ({id}, 'x')")).unwrap();
    })
}

/// How many sessions wait for the backup.
fn waiting(scene: &Scene) -> String {
    let query = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for backup lock'";
    connect(scene.server.socket()).value(query).unwrap().unwrap()
}

/// Facts: `aria_exact`, `myisam_exact`. Rows of each engine come at each stage: a copy has those of
/// transactions that end before the stage that stops the engine, and none of those that wait.
#[test]
fn aria_exact_myisam_exact_at_each_stage() {
    for product in servers() {
        let scene = Scene::new(product, &[]);
        let stops = ["BACKUP STAGE FLUSH", "BACKUP STAGE BLOCK_DDL", "BACKUP STAGE BLOCK_COMMIT"];
        // It is asked for at the start, too, and once more each time, to see that it is the same.
        let position = step("SHOW MASTER STATUS", 2);
        let stops: Vec<Step> = stops.into_iter().map(|sql| step(sql, 0)).chain([position]).collect();
        let (gate, mut running) = Behind { scene: &scene, there: None }.begin(stops);
        // The table of MyISAM is stopped first; those of InnoDB and Aria when nobody commits.
        let (mut waits, mut count) = (Vec::new(), 0);
        for (at, [free, stopped]) in
            [(1, [&[0, 2, 3][..], &[]]), (2, [&[0, 3], &[2]]), (3, [&[0, 3], &[]]), (4, [&[], &[0, 3]])]
        {
            let way = gate.wait(&mut running);
            free.iter().for_each(|number| add(&scene, *number, at).join().unwrap());
            waits.extend(stopped.iter().map(|number| add(&scene, *number, at)));
            count += stopped.len();
            until("they wait", || waiting(&scene) == count.to_string());
            way.send(Way::On).unwrap();
        }
        running.end().exits(0);
        waits.into_iter().for_each(|wait| wait.join().unwrap());
        let position = scene.position();
        assert_eq!([0, 2, 3].map(|number| position[&domain(number)]), [3, 1, 3], "{product}");
        scene.is_exact();
    }
}

/// The bytes of all files of a tree but those that every copy has in another way: the redo log, and what
/// the server writes while nobody asks it for anything.
fn files(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_owned();
            match path.is_dir() {
                true => folders.push(path),
                false if name == Path::new("ib_logfile0") => {}
                false => drop(files.insert(name, std::fs::read(path).unwrap())),
            }
        }
    }
    files
}

/// A generation that was built on others, read whole or by the redo log, is what a full one of the same
/// moment is, byte for byte.
#[test]
fn incremental_equals_full() {
    for product in servers() {
        let scene = Scene::new(product, &["--innodb-log-file-size=64M"]);
        scene.fill(20_000);
        scene.backup(&[]).exits(0);
        let mut session = connect(scene.server.socket());
        for (turn, track) in ["--no-prove", "--track", "--track"].into_iter().enumerate() {
            for sql in [
                format!("UPDATE app.big SET pad = REVERSE(pad) WHERE id BETWEEN {turn}100 AND {turn}900"),
                format!("DELETE FROM app.big WHERE id % 50 = {turn}"),
                format!("CREATE TABLE app.made{turn} SELECT * FROM app.big LIMIT 900"),
                format!("INSERT INTO app.w2 VALUES ({turn}, 'x')"),
                format!("INSERT INTO app.w3 VALUES ({turn}, 'x')"),
                "DROP TABLE IF EXISTS app.made0".to_owned(),
            ] {
                session.execute(&sql).unwrap();
            }
            pass_checkpoint(&mut session);
            scene.backup(&[track]).exits(0).says(&[&format!("@{} (changes to {})", turn + 2, turn + 1)]);
        }
        scene.backup(&["--name", "other"]).exits(0).says(&["other@1 (full)"]);
        for (name, to) in [("repo/mysql", "grown"), ("repo/other", "full")] {
            scene.run(&["restore", name, "--to", to]).exits(0);
        }
        let [grown, full] = ["grown", "full"].map(|name| files(&scene.folder.path().join(name)));
        assert!(grown.keys().eq(full.keys()), "{product}: {:?} {:?}", grown.keys(), full.keys());
        let other: Vec<&PathBuf> = grown.keys().filter(|name| grown[*name] != full[*name]).collect();
        assert_eq!(other, Vec::<&PathBuf>::new(), "{product}");
    }
}

/// The server writes over the redo log again and again before it is read for the first time: with a newer
/// checkpoint the copy begins again, ten times at most.
#[test]
fn a_log_that_was_written_over_before_it_was_read_is_begun_anew() {
    let scene = Scene::new(mariadbs()[0], &["--innodb-log-file-size=4M"]);
    let mut session = connect(scene.server.socket());
    session.execute("CREATE TABLE app.noise (pad LONGBLOB)").unwrap();
    // Each time it asks for the end of what it shall read, and then where the server is by now.
    let asks = |time: usize| step("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_%'", 2 * time);
    let mut number = 0;
    let lsn = |session: &mut ::server::Session| -> u64 {
        let rows = session.strings("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'").unwrap();
        rows[0][1].as_ref().unwrap().parse().unwrap()
    };
    for (times, ends) in [(9, 0), (10, 1)] {
        let (gate, mut running) = Behind { scene: &scene, there: None }.begin((0..times).map(asks));
        let mut from = 0;
        for _ in 0..times {
            let way = gate.wait(&mut running);
            from = lsn(&mut session);
            while lsn(&mut session) < from + (4 << 20) {
                number += 1;
                let noise = format!("REPEAT(MD5({number}), 10000)");
                session.execute(&format!("REPLACE INTO app.noise VALUES ({noise})")).unwrap();
            }
            way.send(Way::On).unwrap();
        }
        let ended = running.end().exits(ends);
        if ends == 0 {
            let (begins, _) = super::page::log_of(&scene);
            assert!(begins > from, "{begins} and {from}");
            scene.is_exact();
        } else {
            ended.says(&["faster than it can be read", "innodb_log_file_size larger", "no backup was made"]);
        }
    }
}
