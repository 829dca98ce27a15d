//! A queue whose files were changed anywhere is opened or refused, and read or refused; what is read is what
//! was written.
#![no_main]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use condition::{Column, ColumnLayout, Kind, Schema};
use disk::faults::{FaultDisk, Unsynced};
use libfuzzer_sys::fuzz_target;
use queue::{
    Backoff, Dedupe, Definition, Engine, Options, Order, OwnerId, Queue, RetryPolicy, RowId, Session, Target,
    WaitOptions, Xid,
};

const FOLDER: &str = "/jobs";

fn engine(disk: &FaultDisk) -> Engine {
    let options = Options { segment_bytes: 700, threads: 0, ..Options::new(|| 5, || [9; 16]) };
    Engine::start(Arc::new(disk.clone()), options).unwrap()
}

fn xid(number: u8) -> Xid {
    Xid::new(1, &[number], b"").unwrap()
}

/// Reads until the end or an error.
fn rows(queue: &Arc<Queue>) -> BTreeSet<(RowId, Vec<u8>)> {
    let mut cursor = Session::new(OwnerId(1)).cursor(queue);
    let next = || cursor.advance().ok().flatten().map(|(id, row)| (id, row.to_vec()));
    std::iter::from_fn(next).collect()
}

/// A row: its first byte is its priority and the key by which others are left out, its second one when it is
/// due, in seconds, and its third one the key of its line.
fn row(number: u8) -> Vec<u8> {
    let mut row = vec![number; 50];
    row[1] = u8::from(number % 7 == 0);
    row[2] = number % 20;
    row
}

/// The layout of these rows.
fn schema() -> Schema {
    let column = |name: &str, at| {
        let (kind, layout) = (Kind::Integer { signed: false }, ColumnLayout::Fixed(at, 1));
        Column { name: name.to_owned(), kind, layout, null_bit: None, members: Vec::new() }
    };
    let columns = vec![column("priority", 0), column("due", 1), column("line", 2)];
    Schema { null_bytes: 0, fixed_bytes: 3, columns }
}

/// A queue with sealed, rewritten and active segments, and all rows that it ever had.
static PRISTINE: LazyLock<(FaultDisk, BTreeSet<(RowId, Vec<u8>)>)> = LazyLock::new(|| {
    let disk = FaultDisk::default();
    let engine = engine(&disk);
    // The second failed try of a row is its last one; after the first it waits.
    let backoff = Backoff { first_ms: 1000, ..Backoff::default() };
    let policy = RetryPolicy { tries: 2, backoff, ..RetryPolicy::default() };
    let order = Order { due: Some(1), priority: Some(0), fifo: Some(2), ..Order::default() };
    let dedupe = Some(Dedupe { column: 0, for_ms: 60_000 });
    let schema = schema().encode();
    let definition =
        Definition { schema, transactional: true, policy, order, dedupe, ..Definition::default() };
    engine.create(Path::new(FOLDER), &definition).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    let mut all = BTreeSet::new();
    for number in 0..40u8 {
        queue.publish(&[&row(number)], None).unwrap();
        all.insert((RowId(u64::from(number) + 1), row(number)));
    }
    let doomed: Vec<RowId> = (1..25).filter(|id| id % 5 != 0).map(RowId).collect();
    Session::new(OwnerId(2)).delete(&queue, &doomed).unwrap();
    let mut session = Session::new(OwnerId(3));
    for number in 0..4 {
        let mut transaction = session.begin(&queue).unwrap();
        transaction.publish(&[&row(number)]).unwrap();
        session.delete_within(&mut transaction, &[RowId(u64::from(number) * 5 + 5)]).unwrap();
        transaction.prepare(&xid(number)).unwrap();
    }
    let (second, mut poll) = (Duration::from_secs(1), WaitOptions { rows_max: 4, ..WaitOptions::poll() });
    let target = Target { queue: queue.clone(), filter: None, reader: None };
    // One row runs out of tries.
    for _ in 0..2 {
        let one = &mut WaitOptions { rows_max: 1, ..WaitOptions::poll() };
        let (_, leased) = session.lease(&[target.clone()], one, second).unwrap();
        queue.nack(&[leased.unwrap().rows()[0].token], Some(Duration::ZERO), "it broke").unwrap();
    }
    let (_, leased) = session.lease(&[target], &mut poll, second).unwrap();
    let tokens: Vec<_> = leased.unwrap().rows().iter().map(|leased| leased.token).collect();
    queue.nack(&tokens[..1], None, "it broke").unwrap();
    queue.nack(&tokens[1..2], Some(second), "").unwrap();
    queue.compact().unwrap();
    queue.nack(&tokens[2..3], None, "again").unwrap();
    queue.commit_by_xid(&xid(0)).unwrap();
    queue.rollback_by_xid(&xid(1)).unwrap();
    all.extend((0..4).map(|number| (RowId(41 + u64::from(number)), row(number))));
    (disk, all)
});

fuzz_target!(|edits: Vec<(u8, u16, u8)>| {
    let (pristine, all) = &*PRISTINE;
    let disk = pristine.after_crash(Unsynced::Keep);
    let files: Vec<PathBuf> =
        disk.names().into_iter().filter(|name| name.parent() == Some(Path::new(FOLDER))).collect();
    for (file, at, mask) in edits {
        disk.corrupt(&files[usize::from(file) % files.len()], usize::from(at), mask);
    }
    let engine = engine(&disk);
    if let Ok(queue) = engine.open(Path::new(FOLDER)) {
        assert!(rows(&queue).is_subset(all));
        for xid in queue.recover() {
            queue.commit_by_xid(&xid).ok();
        }
        assert!(rows(&queue).is_subset(all));
    }
});
