//! Tables of Aria in copies of a running server: a long statement on one continues while nobody commits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::{Scene, Stops, sound};
use crate::support::{connect, mariadbs, until};

#[test]
fn aria_exact_amid_a_statement() {
    amid_statements(3_000, 2, |scene| drop(scene.backup(&[]).exits(0)));
}

/// People remove Aria's log after a crash. The server begins a new one, in which there is no checkpoint for
/// a long time.
#[test]
fn a_log_of_aria_without_a_checkpoint_is_copied() {
    let mut scene = Scene::new(mariadbs()[0], &[]);
    scene.server.stop().unwrap();
    for entry in std::fs::read_dir(scene.server.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("aria_log") {
            std::fs::remove_file(path).unwrap();
        }
    }
    scene.server.restart().unwrap();
    let mut session = connect(scene.server.socket());
    session.execute("CREATE TABLE app.more (a INT) ENGINE=Aria").unwrap();
    session.execute("INSERT INTO app.more VALUES (1)").unwrap();
    scene.backup(&[]).exits(0);
    // CHECK TABLE finds older tables unsound, here and on the server itself: they know a later log.
    let rows = connect(scene.back().socket()).value("SELECT COUNT(*) FROM app.more").unwrap();
    assert_eq!(rows.as_deref(), Some("1"));
}

/// The copy is frozen when it opens Aria's control file, or a table. Meanwhile the server makes
/// checkpoints, and the tables and the log grow.
#[test]
fn files_of_aria_may_grow_while_they_are_read() {
    for opened in ["aria_log_control", "app/x.MAD"] {
        amid_statements(40_000, 1, |scene| {
            let path = scene.server.data().join(opened);
            let watch = inotify::init(CreateFlags::empty()).unwrap();
            inotify::add_watch(&watch, &path, WatchFlags::OPEN).unwrap();
            let running = scene.begin(&[]);
            let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
            let seen = poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&minute)).unwrap();
            running.signal("STOP");
            std::thread::sleep(Duration::from_millis(1200));
            running.signal("CONT");
            assert_eq!(seen, 1, "nobody opened {opened}");
            running.end().exits(0);
        });
    }
}

/// Files of the log that are whole are read before the tables, as the server may remove them meanwhile.
#[test]
fn files_of_the_log_may_go_while_tables_are_read() {
    for product in super::servers() {
        let own = ["--aria-checkpoint-interval=0", "--aria-log-file-size=8M"];
        let options = vec![own[1].to_owned()];
        let scene = Scene { options, ..Scene::new(product, &own) };
        let mut session = connect(scene.server.socket());
        for sql in [
            "CREATE TABLE app.x (id INT PRIMARY KEY, pad VARCHAR(500)) ENGINE=Aria",
            // What comes into an empty table is not logged.
            "INSERT INTO app.x VALUES (0, '')",
            "INSERT INTO app.x SELECT seq, REPEAT(MD5(seq), 12) FROM app.seq_1_to_60000",
        ] {
            session.execute(sql).unwrap();
        }
        let watch = inotify::init(CreateFlags::empty()).unwrap();
        let (table, log) =
            ["app/x.MAD", "aria_log.00000001"].map(|name| scene.server.data().join(name)).into();
        assert!(log.exists());
        inotify::add_watch(&watch, &table, WatchFlags::OPEN).unwrap();
        let running = scene.begin(&[]);
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        let seen = poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&minute)).unwrap();
        running.signal("STOP");
        assert_eq!(seen, 1, "nobody opened the table");
        // The server would do that at a checkpoint.
        let bytes = std::fs::read(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        running.signal("CONT");
        let ended = running.end();
        std::fs::write(&log, bytes).unwrap();
        ended.exits(0);
        let back = scene.back();
        let mut session = connect(back.socket());
        sound(&mut session);
        assert_eq!(session.value("SELECT COUNT(*) FROM app.x").unwrap().unwrap(), "60001", "{product}");
    }
}

/// Each statement fills several files of the log, so that another one is begun while tables are read.
#[test]
fn a_log_that_goes_on_in_another_file_is_copied_up_to_its_end() {
    let copies = super::copies().try_into().unwrap();
    amid_statements_with(&["--aria-log-file-size=8M"], 40_000, copies, |scene| {
        drop(scene.backup(&[]).exits(0));
    });
}

/// Copies each server while statements on a table of Aria with so many rows each run one after the other.
fn amid_statements(rows: u64, copies: usize, copy: impl Fn(&Scene)) {
    amid_statements_with(&[], rows, copies, copy);
}

fn amid_statements_with(more: &[&str], rows: u64, copies: usize, copy: impl Fn(&Scene)) {
    for product in super::servers() {
        let own = ["--aria-pagecache-buffer-size=2M", "--aria-checkpoint-interval=1"];
        let options = more.iter().map(|option| (*option).to_owned()).collect();
        let scene = Scene { options, ..Scene::new(product, &[&own, more].concat()) };
        let mut session = connect(scene.server.socket());
        session
            .execute("CREATE TABLE app.x (id INT PRIMARY KEY, pad VARCHAR(500), KEY (pad)) ENGINE=Aria")
            .unwrap();
        let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let from = done.load(Ordering::Relaxed) * rows;
                    let values = format!("seq + {from}, REPEAT(MD5(seq), 12) FROM app.seq_1_to_{rows}");
                    session.execute(&format!("INSERT INTO app.x SELECT {values}")).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
            let stops = Stops(&over);
            for _ in 0..copies {
                let before = done.load(Ordering::Relaxed);
                until("rows come", || done.load(Ordering::Relaxed) > before);
                let before = done.load(Ordering::Relaxed);
                copy(&scene);
                let after = done.load(Ordering::Relaxed);
                let back = scene.back();
                let mut session = connect(back.socket());
                sound(&mut session);
                let count: u64 =
                    session.value("SELECT COUNT(*) FROM app.x").unwrap().unwrap().parse().unwrap();
                assert!(count.is_multiple_of(rows), "{product:?}: half a statement, {count} rows");
                assert!(
                    (before..=after + 1).contains(&(count / rows)),
                    "{product:?}: {before}, {count}, {after}"
                );
            }
            drop(stops);
        });
    }
}
