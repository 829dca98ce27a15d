//! A queue that nobody uses closes its files, and opens them when it is used again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use disk::RealDisk;
use queue::{Engine, Options, RowId, Sync, WaitOutcome};

use crate::support::{all, definition, options, poll, session};

/// Files of a folder that this process has open; a file that is open twice is listed twice.
fn open_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.starts_with(folder)).collect()
}

fn until(folder: &Path, wanted: impl Fn(&[PathBuf]) -> bool) {
    let started = Instant::now();
    while !wanted(&open_files(folder)) {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?} stay open", open_files(folder));
        std::thread::yield_now();
    }
}

#[test]
fn an_idle_queue_holds_no_file_open() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().canonicalize().unwrap().join("jobs");
    let options = Options { threads: 1, idle: Duration::from_millis(20), ..options(4096) };
    let engine = Engine::start(std::sync::Arc::new(RealDisk), options).unwrap();
    engine.create(&folder, &definition(Sync::Interval)).unwrap();
    let queue = engine.open(&folder).unwrap();
    until(&folder, <[PathBuf]>::is_empty);
    for _ in 0..30 {
        queue.publish(&[&[b'x'; 1000]], None).unwrap();
    }
    let mut one = session(1);
    let mut cursor = one.cursor(&queue);
    assert!(cursor.advance().unwrap().is_some());
    // The cursor keeps open the files of the rows that it has located; the file being written was open twice.
    until(&folder, |files| files.iter().collect::<BTreeSet<_>>().len() == files.len());
    assert!(open_files(&folder).len() > 1);
    // The cursor can read what it has seen, although the files are closed and their rows are gone.
    let rows: Vec<RowId> = (1..=30).map(RowId).collect();
    one.delete(&queue, &rows).unwrap();
    queue.maintain().unwrap();
    let mut left = 0;
    while cursor.advance().unwrap().is_some() {
        left += 1;
    }
    assert_eq!(left, 29);
    drop(cursor);
    until(&folder, <[PathBuf]>::is_empty);
    queue.publish(&[b"again"], None).unwrap();
    assert_eq!(one.wait(&[all(&queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
    one.end().unwrap();
}

/// Two thousand queues, two threads, and no files while nobody uses them.
#[test]
fn thousands_of_queues_hold_no_files() {
    const QUEUES: usize = 2_000;
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path().canonicalize().unwrap();
    let options = Options { threads: 2, idle: Duration::from_millis(20), ..options(4096) };
    let engine = Engine::start(std::sync::Arc::new(RealDisk), options).unwrap();
    let queues: Vec<_> = (0..QUEUES)
        .map(|nth| {
            let folder = parent.join(nth.to_string());
            engine.create(&folder, &definition(Sync::Never)).unwrap();
            let queue = engine.open(&folder).unwrap();
            queue.publish(&[&[b'x'; 100]], None).unwrap();
            queue
        })
        .collect();
    until(&parent, <[PathBuf]>::is_empty);
    let mut one = session(1);
    for queue in &queues {
        assert_eq!(one.wait(&[all(queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
        one.end().unwrap();
    }
    until(&parent, <[PathBuf]>::is_empty);
}

/// There are more queues, and more segments in one of them, than files may be open: the least recently used
/// files are closed, and nothing fails.
#[test]
fn files_have_a_bound_and_those_used_longest_ago_are_closed() {
    const BOUND: usize = 16;
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path().canonicalize().unwrap();
    let options = Options { threads: 0, files_max: BOUND, ..options(600) };
    let engine = Engine::start(std::sync::Arc::new(RealDisk), options).unwrap();
    let queues: Vec<_> = (0..60)
        .map(|nth| {
            let folder = parent.join(nth.to_string());
            engine.create(&folder, &definition(Sync::Never)).unwrap();
            engine.open(&folder).unwrap()
        })
        .collect();
    let bounded = || assert!(open_files(&parent).len() <= BOUND + 4, "{:?}", open_files(&parent));
    for round in 0..30 {
        queues[0].publish(&[&[b'x'; 200]], None).unwrap();
        for queue in &queues {
            queue.publish(&[format!("row {round}").as_bytes()], None).unwrap();
        }
        bounded();
        let folder = queues[0].folder();
        assert!(round == 0 || open_files(&parent).iter().any(|file| !file.starts_with(&folder)));
    }
    let mut one = session(1);
    for queue in &queues {
        let mut rows = 0;
        let mut cursor = one.cursor(queue);
        while cursor.advance().unwrap().is_some() {
            rows += 1;
        }
        drop(cursor);
        assert_eq!(rows, if std::sync::Arc::ptr_eq(queue, &queues[0]) { 60 } else { 30 });
        assert_eq!(one.wait(&[all(queue)], &mut poll(1)).unwrap(), WaitOutcome::Taken(0));
        one.end().unwrap();
        bounded();
    }
}
