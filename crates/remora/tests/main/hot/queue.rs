//! Queues in copies of a running server.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sandbox::Product;

use super::{Scene, Stops, copies};
use crate::queue::{install, library};
use crate::support::{Ended, connect, copy_program, until};

/// Rows before the copy begins: several files of the queue.
const ROWS: u64 = 3_000;

/// Publishes rows with growing numbers, and notes each in a table of InnoDB.
fn publish(scene: &Scene, over: &AtomicBool) {
    let mut session = connect(scene.server.socket());
    for id in ROWS + 1.. {
        session.execute(&format!("INSERT INTO app.q VALUES ({id}, REPEAT('{id} ', 5000))")).unwrap();
        session.execute(&format!("UPDATE app.published SET id = {id}")).unwrap();
        if over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Takes one row after the other; each take ends the row before. `taken` is the number of the last one.
fn take(scene: &Scene, over: &AtomicBool, taken: &AtomicU64) {
    let mut session = connect(scene.server.socket());
    // Some are left.
    while !over.load(Ordering::Relaxed) && taken.load(Ordering::Relaxed) < ROWS {
        let row = session.value("SELECT id FROM app.q WHERE queue_wait('app.q', 1)").unwrap();
        if let Some(id) = row {
            taken.store(id.parse().unwrap(), Ordering::Relaxed);
        }
    }
}

/// Facts: `queue_exact`.
#[test]
fn queue_exact_while_rows_come_and_go() {
    for product in super::servers() {
        let Some(library) = library("queue_exact_while_rows_come_and_go", product) else { continue };
        let scene = Scene::with(product, &[], vec![library]);
        // It is read first, and meanwhile files of the queue go.
        scene.fill(150_000);
        let mut session = connect(scene.server.socket());
        install(&mut session);
        session.execute("CREATE TABLE app.q (id INT NOT NULL, pad TEXT) ENGINE=QUEUE").unwrap();
        session.execute("CREATE TABLE app.published ENGINE=InnoDB SELECT 0 AS id").unwrap();
        // A statement's rows stay together in one file.
        for from in (1..ROWS).step_by(500) {
            let rows = format!("app.seq_{from}_to_{}", from + 499);
            let sql = format!("INSERT INTO app.q SELECT seq, REPEAT(CONCAT(seq, ' '), 5000) FROM {rows}");
            session.execute(&sql).unwrap();
        }
        let (over, taken) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut before, mut after) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| publish(&scene, &over));
            scope.spawn(|| take(&scene, &over, &taken));
            let stops = Stops(&over);
            until("rows are taken", || taken.load(Ordering::Relaxed) > 100);
            before = taken.load(Ordering::Relaxed);
            scene.backup(&["--rate", "15M"]).exits(0).says(&["@1 (full)"]);
            after = taken.load(Ordering::Relaxed);
            drop(stops);
        });
        let back = scene.back();
        let mut session = connect(back.socket());
        let query = "SELECT CONCAT_WS(' ', MIN(id), MAX(id), COUNT(*), SUM(pad = REPEAT(CONCAT(id, ' '), 5000))) FROM app.q";
        let found = session.value(query).unwrap().unwrap();
        let numbers: Vec<u64> = found.split(' ').map(|number| number.parse().unwrap()).collect();
        let [first, last, count, right] = *numbers else { panic!("{found}") };
        // Every row that was published is there, but for those that were ended, in their order.
        assert_eq!((count, right), (last - first + 1, count), "{product:?}");
        let published = session.value("SELECT id FROM app.published").unwrap().unwrap();
        let published: u64 = published.parse().unwrap();
        assert!((published..=published + 1).contains(&last), "{product:?}: {last}, {published}");
        assert!((before..=after + 1).contains(&first), "{product:?}: {first}, {before} to {after}");
        // It takes and gives rows.
        let next = session.value("SELECT id FROM app.q WHERE queue_wait('app.q', 1)").unwrap();
        assert_eq!(next, Some(first.to_string()));
    }
}

/// Publishes rows with growing numbers, each in a transaction with a row of InnoDB.
fn make(scene: &Scene, over: &AtomicBool) {
    let mut session = connect(scene.server.socket());
    let last = session.value("SELECT IFNULL(MAX(id), 0) FROM app.made").unwrap().unwrap();
    for id in last.parse::<u64>().unwrap() + 1.. {
        for sql in [
            "BEGIN",
            &format!("INSERT INTO app.made (id) VALUES ({id})"),
            &format!("INSERT INTO app.todo VALUES ({id})"),
            "COMMIT",
        ] {
            session.execute(sql).unwrap();
        }
        if over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Takes rows, and notes each in InnoDB and in another queue.
fn work(scene: &Scene, over: &AtomicBool, worked: &AtomicU64) {
    let mut session = connect(scene.server.socket());
    while !over.load(Ordering::Relaxed) {
        session.execute("BEGIN").unwrap();
        if let Some(id) = session.value("SELECT id FROM app.todo WHERE queue_wait('app.todo', 1)").unwrap() {
            session.execute(&format!("UPDATE app.made SET worked = worked + 1 WHERE id = {id}")).unwrap();
            session.execute(&format!("INSERT INTO app.next VALUES ({id})")).unwrap();
        }
        session.execute("COMMIT").unwrap();
        worked.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_copy_has_both_halves_of_each_transaction() {
    for product in super::servers() {
        let Some(library) = library("a_copy_has_both_halves_of_each_transaction", product) else { continue };
        for log in ["--max-binlog-size=4096", "--skip-log-bin"] {
            let mut scene = Scene::with(product, &[log], vec![library.clone()]);
            let mut session = connect(scene.server.socket());
            install(&mut session);
            // The engine takes part in transactions from the next start on.
            scene.server.restart().unwrap();
            let mut session = connect(scene.server.socket());
            session.execute("CREATE TABLE app.made (id INT PRIMARY KEY, worked INT DEFAULT 0)").unwrap();
            for queue in ["todo", "next"] {
                let columns = "(id INT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1";
                session.execute(&format!("CREATE TABLE app.{queue} {columns}")).unwrap();
            }
            for number in 1..=copies() {
                let (over, worked) = (AtomicBool::new(false), AtomicU64::new(0));
                std::thread::scope(|scope| {
                    scope.spawn(|| make(&scene, &over));
                    scope.spawn(|| work(&scene, &over, &worked));
                    scope.spawn(|| work(&scene, &over, &worked));
                    let stops = Stops(&over);
                    until("rows are worked on", || worked.load(Ordering::Relaxed) > 20);
                    scene.backup(&[]).exits(0).says(&[&format!("@{number} (")]);
                    drop(stops);
                });
                whole(&scene);
            }
        }
    }
}

/// Each row of the copy was made in both engines, and worked on in all three tables or in none.
#[track_caller]
fn whole(scene: &Scene) {
    let back = scene.back();
    let mut session = connect(back.socket());
    let mut ids = |query: &str| -> Vec<u64> {
        let rows = session.strings(query).unwrap().into_iter();
        rows.map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect()
    };
    let held = "SELECT SUM(prepared) + SUM(in_doubt) FROM information_schema.queues";
    assert_eq!(ids(held), [0]);
    assert_eq!(ids("SELECT id FROM app.made WHERE worked > 1"), [0; 0]);
    assert_eq!(
        ids("SELECT id FROM app.todo ORDER BY id"),
        ids("SELECT id FROM app.made WHERE NOT worked ORDER BY id")
    );
    assert_eq!(
        ids("SELECT id FROM app.next ORDER BY id"),
        ids("SELECT id FROM app.made WHERE worked ORDER BY id")
    );
}

/// A server that is started on a generation finds the engine beside the program, or the message says what to
/// do.
#[test]
fn a_private_server_has_the_engine() {
    let product = Product::MariaDb1011;
    let Some(library) = library("a_private_server_has_the_engine", product) else { return };
    let scene = Scene::with(product, &[], vec![library.clone()]);
    let mut session = connect(scene.server.socket());
    install(&mut session);
    session.execute("CREATE TABLE app.q (v INT) ENGINE=QUEUE").unwrap();
    session.execute("INSERT INTO app.q VALUES (1), (2)").unwrap();
    scene.backup(&[]).exits(0);
    let boot = ["verify", "repo", "--boot"];
    scene.run(&boot).exits(1).says(&["there are queues (ENGINE=QUEUE)", "--plugin-load-add=ha_queue"]);
    let listed = scene.run(&["list", "repo"]).exits(0).out;
    assert!(listed.contains("never recovered"), "{listed}");
    let program = scene.folder.path().join("remora");
    copy_program(Path::new(env!("CARGO_BIN_EXE_remora")), &program);
    std::fs::create_dir(scene.folder.path().join(product.id())).unwrap();
    std::fs::copy(&library, scene.folder.path().join(product.id()).join("ha_queue.so")).unwrap();
    let run = |line: &[&str]| {
        let mut command = Command::new(&program);
        Ended::of(&command.current_dir(scene.folder.path()).args(line).output().unwrap())
    };
    run(&boot).exits(0).says(&["all sound"]);
    run(&["restore", "repo", "--tables", "app.q", "--to", "rows"]).exits(0).says(&["2 rows"]);
}
