//! Tables of Aria in copies of a running server: a long statement on one goes on while nobody commits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Scene, Stops, sound};
use crate::support::{connect, until};

/// Rows of each statement.
const ROWS: u64 = 3_000;
const COPIES: usize = 2;

#[test]
fn a_statement_that_runs_while_commits_wait_is_in_the_copy_or_is_not() {
    for product in super::servers() {
        let scene = Scene::new(product, &["--aria-pagecache-buffer-size=2M", "--aria-checkpoint-interval=1"]);
        let mut session = connect(scene.server.socket());
        session
            .execute("CREATE TABLE app.x (id INT PRIMARY KEY, pad VARCHAR(500), KEY (pad)) ENGINE=Aria")
            .unwrap();
        let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let from = done.load(Ordering::Relaxed) * ROWS;
                    let rows = format!("seq + {from}, REPEAT(MD5(seq), 12) FROM app.seq_1_to_{ROWS}");
                    session.execute(&format!("INSERT INTO app.x SELECT {rows}")).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
            let stops = Stops(&over);
            for _ in 0..COPIES {
                let before = done.load(Ordering::Relaxed);
                until("rows come", || done.load(Ordering::Relaxed) > before);
                let before = done.load(Ordering::Relaxed);
                scene.backup(&[]).exits(0);
                let after = done.load(Ordering::Relaxed);
                let back = scene.back();
                let mut session = connect(back.socket());
                sound(&mut session);
                let count: u64 =
                    session.value("SELECT COUNT(*) FROM app.x").unwrap().unwrap().parse().unwrap();
                assert!(count.is_multiple_of(ROWS), "{product:?}: half a statement, {count} rows");
                assert!(
                    (before..=after + 1).contains(&(count / ROWS)),
                    "{product:?}: {before}, {count}, {after}"
                );
            }
            drop(stops);
        });
    }
}
