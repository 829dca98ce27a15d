//! The disk of a queue is full while the server stops, dies and starts again.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::Sandbox;

use crate::server::{Server, end_as_in_a_crash};
use crate::transaction::{COORDINATORS, restarted};

/// A file in memory takes room by the page.
const PAGE: u64 = 4096;
/// What is decided about a transaction takes more bytes.
const LESS: u64 = 24;

/// A small file system in the place of a queue's folder.
struct Small(PathBuf);

#[expect(clippy::disallowed_methods, reason = "files of the server, and one that takes all room")]
impl Small {
    fn mount(folder: &Path) -> Small {
        let bytes = |file: PathBuf| (file.clone(), fs::read(file).unwrap());
        let files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| bytes(file.unwrap().path())).collect();
        run("mount", &["-t", "tmpfs", "-o", "size=1M", "tmpfs"], folder);
        let small = Small(folder.to_owned());
        files.into_iter().for_each(|(file, bytes)| File::create(file).unwrap().write_all(&bytes).unwrap());
        small
    }

    fn fill(&self) {
        let mut fill = File::create(self.0.join("fill")).unwrap();
        while fill.write(&[0; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("fill")).unwrap();
    }

    /// Bytes of the queue's log, which is one file.
    fn log(&self) -> u64 {
        let files = fs::read_dir(&self.0).unwrap().map(|file| file.unwrap());
        let logs = files.filter(|file| file.path().extension().is_some_and(|end| end == "seg"));
        logs.map(|file| file.metadata().unwrap().len()).sum()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run("umount", &["--lazy"], &self.0);
    }
}

fn run(program: &str, arguments: &[&str], folder: &Path) {
    assert!(Command::new(program).args(arguments).arg(folder).status().unwrap().success(), "{program}");
}

/// Fills the disk when a transaction is committed and its queue does not have that yet. Returns its row.
fn commit_before_the_disk_is_full(server: &Server, small: &Small) -> i64 {
    let mut one = server.connect("x");
    let mut body = 100;
    for v in 1.. {
        let before = small.log();
        one.run("BEGIN");
        one.run(&format!("INSERT INTO i VALUES ({v})"));
        one.run(&format!("INSERT INTO q VALUES ({v}, REPEAT('x', {body}))"));
        one.run("COMMIT");
        let end = small.log();
        small.fill();
        if small.log() == end && end.wrapping_neg() % PAGE < LESS {
            return v;
        }
        small.free();
        // The next one is to end where a page ends.
        let others = end - before - body;
        body = PAGE - (end + others) % PAGE;
    }
    unreachable!()
}

#[test]
fn a_commit_that_a_full_disk_does_not_take_is_done_when_there_is_room() {
    if !rustix::process::geteuid().is_root() {
        let why = "only root can mount a small disk";
        return sandbox::skipped("a full disk", why, |name| std::env::var_os(name));
    }
    for coordinator in COORDINATORS {
        for end in [end_as_in_a_crash, Sandbox::kill] {
            let mut server = restarted(coordinator);
            let mut one = server.connect("x");
            one.run("CREATE TABLE i (v INT PRIMARY KEY) ENGINE=InnoDB");
            one.run("CREATE TABLE q (v INT NOT NULL, body TEXT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1");
            drop(one);
            server.0.stop().unwrap();
            let small = Small::mount(&server.0.data().join("x/q.queue"));
            server.0.restart().unwrap();
            let last = commit_before_the_disk_is_full(&server, &small);
            end(&mut server.0).unwrap();
            // It does not start, unless what was decided came to the disk before that was full.
            server.0.restart().ok();
            server.0.kill().unwrap();
            small.free();
            server.0.restart().unwrap();
            let mut one = server.connect("x");
            let all: Vec<i64> = (1..=last).collect();
            assert_eq!((one.column("SELECT v FROM i"), one.column("SELECT v FROM q")), (all.clone(), all));
            drop(one);
            server.0.stop().unwrap();
        }
    }
}
