//! A long backlog: how much memory it takes, and how long it takes to open.

use std::path::Path;
use std::time::Instant;

use disk::RealDisk;
use queue::{Engine, RowId, Sync};

use crate::support::{all, definition, options, poll, session};

/// Fills a queue on the real disk and opens it again; prints what it took.
#[expect(clippy::print_stdout, reason = "measurements are for whoever runs the test")]
fn backlog(rows: u64, row: &[u8]) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("jobs");
    let start = || Engine::start(std::sync::Arc::new(RealDisk), options(16 << 20)).unwrap();
    let engine = start();
    engine.create(&folder, &definition(Sync::Never)).unwrap();
    let queue = engine.open(&folder).unwrap();
    let batch = vec![row; 1000];
    for _ in 0..rows / 1000 {
        queue.publish(&batch, None).unwrap();
    }
    queue.maintain().unwrap();
    let full = queue.status();
    drop((queue, engine));
    let engine = start();
    let started = Instant::now();
    let queue = engine.open(&folder).unwrap();
    let opened = started.elapsed();
    let mut one = session(1);
    assert_eq!(one.wait(&[all(&queue)], &mut poll(1)).unwrap(), queue::WaitOutcome::Taken(0));
    let first = started.elapsed();
    let lazy = queue.status().memory;
    // Every list is read.
    assert!(queue.read(RowId(rows)).unwrap().is_some());
    let mut cursor = one.cursor(&queue);
    assert!(cursor.advance().unwrap().is_some());
    (1..=rows).step_by(1000).for_each(|id| assert!(queue.read(RowId(id)).unwrap().is_some()));
    let all_read = queue.status();
    assert_eq!((all_read.waiting, all_read.owned), (rows - 1, 1));
    println!(
        "{rows} rows of {} bytes, {} MB: opened in {opened:?}, first row after {first:?}; bytes of memory a row: \
         {:.1} when filled, {:.3} when opened, {:.1} when all is read",
        row.len(),
        full.bytes >> 20,
        full.memory as f64 / rows as f64,
        lazy as f64 / rows as f64,
        all_read.memory as f64 / rows as f64,
    );
    assert!(full.memory <= rows * 40 && all_read.memory <= rows * 40);
    assert!(Path::new(&folder).exists());
}

/// Rows of the backlog. BACKLOG_ROWS sets another number, for measuring with --release and --nocapture.
#[test]
fn a_backlog_takes_at_most_40_bytes_a_row() {
    let rows = std::env::var("BACKLOG_ROWS").map_or(300_000, |rows| rows.parse().unwrap());
    backlog(rows, &[b'x'; 40]);
}

/// Q4M's own test of large data: rows of 4 MB, each with its own contents. LARGE_ROWS sets another number:
/// 1100 rows are more than 4 GB.
#[test]
fn large_rows_keep_their_contents() {
    let count = std::env::var("LARGE_ROWS").map_or(12, |rows| rows.parse().unwrap());
    let contents = |nth: u64| nth.to_le_bytes().repeat(1 << 19);
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("jobs");
    let start = || Engine::start(std::sync::Arc::new(RealDisk), options(16 << 20)).unwrap();
    let engine = start();
    engine.create(&folder, &definition(Sync::Never)).unwrap();
    let queue = engine.open(&folder).unwrap();
    for nth in 1..=count {
        queue.publish(&[&contents(nth)], None).unwrap();
    }
    drop((queue, engine));
    let engine = start();
    let queue = engine.open(&folder).unwrap();
    let mut one = session(1);
    let mut cursor = one.cursor(&queue);
    for nth in 1..=count {
        let (id, row) = cursor.advance().unwrap().unwrap();
        assert!(id == RowId(nth) && row == contents(nth), "{nth}");
    }
    assert!(queue.status().bytes > count * (4 << 20));
    for nth in 1..=count {
        assert_eq!(one.wait(&[all(&queue)], &mut poll(1)).unwrap(), queue::WaitOutcome::Taken(0));
        let mut cursor = one.cursor(&queue);
        let (id, row) = cursor.advance().unwrap().unwrap();
        assert!(id == RowId(nth) && row == contents(nth), "{nth}");
    }
    one.end().unwrap();
    queue.maintain().unwrap();
    assert!(queue.status().bytes < 64 << 20, "what is gone was reclaimed");
}
