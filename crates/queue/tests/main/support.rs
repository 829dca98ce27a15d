//! What the tests share: an engine without background threads, conditions, and a way to see all of a queue.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use condition::{Column, ColumnLayout, Kind, Schema};
use disk::Disk;
use disk::faults::{FaultDisk, Unsynced};
use queue::{
    Cursor, Definition, Engine, Error, Filter, Options, Order, OwnerId, Queue, RetryPolicy, RowId, Session,
    Status, Sync, Target, WaitOptions, Xid,
};

/// Where the queue of a test lives.
pub(crate) const FOLDER: &str = "/db/jobs";

/// Differs for each queue of a test run.
fn random() -> [u8; 16] {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    bytes
}

fn now_ms() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1_700_000_000_000);
    NEXT.fetch_add(300, Ordering::Relaxed)
}

/// Small segments, so that a few rows fill several, and no threads.
pub(crate) fn options(segment_bytes: u64) -> Options {
    Options { segment_bytes, threads: 0, ..Options::new(now_ms, random) }
}

pub(crate) fn engine(disk: &(impl Disk + Clone + 'static), segment_bytes: u64) -> Engine {
    Engine::start(Arc::new(disk.clone()), options(segment_bytes)).unwrap()
}

/// A new queue in a new engine.
pub(crate) fn fresh(disk: &(impl Disk + Clone + 'static), segment_bytes: u64) -> (Engine, Arc<Queue>) {
    let engine = engine(disk, segment_bytes);
    engine.create(Path::new(FOLDER), &definition(Sync::Always)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    (engine, queue)
}

pub(crate) fn definition(sync: Sync) -> Definition {
    Definition { sync, schema: b"columns".to_vec(), ..Definition::default() }
}

/// As [`definition`], with transactions.
pub(crate) fn transactional(sync: Sync) -> Definition {
    Definition { transactional: true, ..definition(sync) }
}

/// A new queue with transactions in a new engine.
pub(crate) fn fresh_transactional(
    disk: &(impl Disk + Clone + 'static),
    segment_bytes: u64,
    sync: Sync,
) -> (Engine, Arc<Queue>) {
    let engine = engine(disk, segment_bytes);
    engine.create(Path::new(FOLDER), &transactional(sync)).unwrap();
    let queue = engine.open(Path::new(FOLDER)).unwrap();
    (engine, queue)
}

thread_local! {
    static WALL_MS: Cell<u64> = const { Cell::new(1_700_000_000_000) };
    static UP_MS: Cell<u64> = const { Cell::new(5000) };
}

/// Lets time pass on both clocks of this thread's tests.
pub(crate) fn pass_ms(ms: u64) {
    UP_MS.set(UP_MS.get() + ms);
    set_wall(wall() + ms);
}

/// The wall clock of this thread's tests.
pub(crate) fn wall() -> u64 {
    WALL_MS.get()
}

/// Sets the wall clock, as an administrator does.
pub(crate) fn set_wall(ms: u64) {
    WALL_MS.set(ms);
}

/// As [`options`], with clocks that stand still until a test says otherwise.
pub(crate) fn timed(segment_bytes: u64) -> Options {
    Options { now_ms: wall, up_ms: || UP_MS.get(), ..options(segment_bytes) }
}

/// A queue whose rows have a column of this kind, a whole number, and a text.
pub(crate) fn ordered(sync: Sync, (kind, len): (Kind, u32), order: Order) -> Definition {
    let column = |name: &str, kind, layout, null_bit| Column {
        name: name.to_owned(),
        kind,
        layout,
        null_bit,
        members: Vec::new(),
    };
    let columns = vec![
        column("first", kind, ColumnLayout::Fixed(0, len), Some(0)),
        column("second", WHOLE.0, ColumnLayout::Fixed(len, WHOLE.1), Some(1)),
        column("text", Kind::Text(0), ColumnLayout::Variable(0), None),
    ];
    let schema = Schema { null_bytes: 1, fixed_bytes: len + WHOLE.1, columns }.encode();
    Definition { schema, order, ..definition(sync) }
}

/// A whole number of 8 bytes.
pub(crate) const WHOLE: (Kind, u32) = (Kind::Integer { signed: true }, 8);

/// A row of [`ordered`] with the bytes of its first column, which is NULL without them, its number, and a
/// short text.
pub(crate) fn ordered_row((first, len): (Option<&[u8]>, usize), second: Option<i64>, text: &str) -> Vec<u8> {
    let mut row = vec![u8::from(first.is_none()) | u8::from(second.is_none()) << 1];
    row.extend(first.map_or(vec![0; len], <[u8]>::to_vec));
    row.extend(second.unwrap_or(0).to_le_bytes());
    row.push(u8::try_from(text.len()).unwrap());
    row.extend(text.as_bytes());
    row
}

/// As [`ordered_row`], of [`WHOLE`].
pub(crate) fn whole_row(first: Option<i64>, second: Option<i64>, text: &str) -> Vec<u8> {
    ordered_row((first.map(i64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice), 8), second, text)
}

/// The text of a row of [`whole_row`].
pub(crate) fn text_of(row: &[u8]) -> String {
    String::from_utf8(row[18..].to_vec()).unwrap()
}

/// The texts of the rows that a session sees of a queue of [`WHOLE`].
pub(crate) fn texts(session: &Session, queue: &Arc<Queue>) -> Vec<String> {
    let mut cursor = session.cursor(queue);
    let next = || cursor.advance().unwrap().map(|(_, row)| text_of(row));
    std::iter::from_fn(next).collect()
}

/// Where the rows of a queue go that have no tries left.
pub(crate) const DEAD: &str = "/db/dead";

/// A policy with so many tries and a backoff, which may send rows to [`DEAD`].
pub(crate) fn limited(tries: u64, backoff: &str, buries: bool) -> RetryPolicy {
    let dead = buries.then(|| DEAD.into());
    RetryPolicy {
        tries,
        backoff: backoff.parse().unwrap(),
        dead_letter_folder: dead,
        shows_delivery_info: false,
    }
}

/// The XID with this number.
pub(crate) fn xid(number: u64) -> Xid {
    Xid::new(1, &number.to_be_bytes(), b"branch").unwrap()
}

/// The numbers of the prepared transactions, in order.
pub(crate) fn prepared(queue: &Queue) -> Vec<u64> {
    let number = |xid: &Xid| u64::from_be_bytes(xid.gtrid().try_into().unwrap());
    let mut numbers: Vec<u64> = queue.recover().iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// xorshift64*: a test's randomness comes from its seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

pub(crate) fn session(number: u64) -> Session {
    Session::new(OwnerId(number))
}

/// Rows that begin with these bytes.
pub(crate) struct Prefix(pub(crate) String);

impl Filter for Prefix {
    fn text(&self) -> &str {
        &self.0
    }

    fn matches(&self, row: &[u8]) -> bool {
        row.starts_with(self.0.as_bytes())
    }
}

pub(crate) fn all(queue: &Arc<Queue>) -> Target {
    Target { queue: queue.clone(), filter: None, reader: None }
}

pub(crate) fn only(queue: &Arc<Queue>, prefix: &str) -> Target {
    Target { queue: queue.clone(), filter: Some(Arc::new(Prefix(prefix.to_owned()))), reader: None }
}

pub(crate) fn poll(rows_max: usize) -> WaitOptions<'static> {
    WaitOptions { rows_max, ..WaitOptions::poll() }
}

/// Runs work that must come to an end.
pub(crate) fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        done.send(()).ok();
    });
    finished.recv_timeout(Duration::from_secs(60)).expect("it waits for ever, or it failed");
}

pub(crate) fn put(queue: &Queue, row: &str) {
    queue.publish(&[row.as_bytes()], None).unwrap();
}

/// What a session sees of a queue.
pub(crate) fn seen(session: &Session, queue: &Arc<Queue>) -> Vec<(RowId, String)> {
    let mut cursor = session.cursor(queue);
    let mut rows = Vec::new();
    while let Some((id, row)) = cursor.advance().unwrap() {
        rows.push((id, String::from_utf8(row.to_vec()).unwrap()));
    }
    rows
}

/// The rows without their ids.
pub(crate) fn rows(session: &Session, queue: &Arc<Queue>) -> Vec<String> {
    seen(session, queue).into_iter().map(|(_, row)| row).collect()
}

/// The only segment of a queue: its name and its bytes.
pub(crate) fn log_bytes(disk: &FaultDisk) -> (PathBuf, Vec<u8>) {
    let is_segment = |name: &PathBuf| name.extension().is_some_and(|end| end == "seg");
    let log = disk.names().into_iter().find(is_segment).unwrap();
    let bytes = disk.bytes(&log).unwrap();
    (log, bytes)
}

/// What is found when the log ends after each of its bytes from `begin` on; what repeats is there once.
pub(crate) fn states_of_cuts<T: PartialEq>(
    disk: &FaultDisk,
    begin: usize,
    state: impl Fn(Status) -> T,
) -> Vec<T> {
    let (log, whole) = log_bytes(disk);
    let mut states = Vec::new();
    for len in begin..=whole.len() {
        let cut = disk.after_crash(Unsynced::Keep);
        cut.put(&log, &whole[..len]);
        let engine = Engine::start(Arc::new(cut), timed(1 << 20)).unwrap();
        states.push(state(engine.open(Path::new(FOLDER)).unwrap().status()));
    }
    states.dedup();
    states
}

/// An engine with a queue of rows that say when or before which others they are given.
pub(crate) struct TestQueue {
    pub(crate) disk: FaultDisk,
    pub(crate) engine: Engine,
    pub(crate) queue: Arc<Queue>,
}

impl TestQueue {
    pub(crate) fn new(definition: &Definition) -> TestQueue {
        let disk = FaultDisk::default();
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        engine.create(Path::new(FOLDER), definition).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        TestQueue { disk, engine, queue }
    }

    pub(crate) fn reopened(self) -> TestQueue {
        let TestQueue { disk, engine, queue } = self;
        drop((queue, engine));
        let engine = Engine::start(Arc::new(disk.clone()), timed(700)).unwrap();
        let queue = engine.open(Path::new(FOLDER)).unwrap();
        TestQueue { disk, engine, queue }
    }
}

/// A queue that keeps rows for a minute, with these readers.
pub(crate) fn read_by(sync: Sync, readers: &[&str]) -> Definition {
    let readers = readers.iter().map(|&name| name.to_owned()).collect();
    Definition { keep_ms: 60_000, readers, ..transactional(sync) }
}

/// All rows, for this reader.
pub(crate) fn for_reader(queue: &Arc<Queue>, name: &str) -> Target {
    Target { reader: Some(queue.definition().reader(name).unwrap()), ..all(queue) }
}

/// Has a reader take so many rows. Returns them.
pub(crate) fn read(taker: &mut Session, queue: &Arc<Queue>, name: &str, rows_max: usize) -> Vec<String> {
    taker.wait(&[for_reader(queue, name)], &mut poll(rows_max)).unwrap();
    rows(taker, queue)
}

/// The rows of a queue that were ended and are kept.
pub(crate) fn kept(queue: &Arc<Queue>) -> Vec<String> {
    let mut cursor = Cursor::of_kept(queue);
    let next = || cursor.advance().unwrap().map(|(_, row)| String::from_utf8(row.to_vec()).unwrap());
    std::iter::from_fn(next).collect()
}

/// Takes so many rows and ends them. Returns them.
pub(crate) fn end(queue: &Arc<Queue>, rows_max: usize) -> Vec<String> {
    let mut taker = session(98);
    taker.wait(&[all(queue)], &mut poll(rows_max)).unwrap();
    let taken = rows(&taker, queue);
    taker.end().unwrap();
    taken
}

/// Alters a queue so that it has another definition, as the server does it, and returns the new one.
pub(crate) fn altered(
    engine: &Engine,
    queue: &Arc<Queue>,
    definition: &Definition,
) -> Result<Arc<Queue>, Error> {
    let (copy, away) = (Path::new("/db/copy"), Path::new("/db/away"));
    queue.begin_copy()?;
    engine.create(copy, definition).unwrap();
    let new = engine.open(copy).unwrap();
    let mut cursor = queue.copy_cursor(true);
    while let Some((_, row)) = cursor.advance().unwrap() {
        new.publish(&[row], None).unwrap();
    }
    if let Err(error) = queue.copied_to(&new) {
        queue.end_copy();
        engine.remove(copy).unwrap();
        return Err(error);
    }
    engine.rename(Path::new(FOLDER), away).unwrap();
    queue.replaced_by(&new, || engine.rename(copy, Path::new(FOLDER))).unwrap();
    queue.end_copy();
    engine.remove(away).unwrap();
    Ok(new)
}

/// Rows whose text begins with this.
pub(crate) struct Begins(pub(crate) &'static str);

impl Filter for Begins {
    fn text(&self) -> &str {
        self.0
    }

    fn matches(&self, row: &[u8]) -> bool {
        text_of(row).starts_with(self.0)
    }
}

/// Does the same on a disk that stops at each of its syncs in turn, and compares what is known with what is
/// there after each kind of crash. Returns what is known when nothing stops it.
#[expect(clippy::print_stdout, reason = "the test runner shows it when something fails")]
pub(crate) fn stopped_at_each_sync<K: Default>(
    definition: &Definition,
    run: impl Fn(&Arc<Queue>, &mut K) -> Result<(), Error>,
    compare: impl Fn(&Arc<Queue>, &K) -> Result<(), Error>,
) -> K {
    let open = |disk: &FaultDisk, is_new: bool| {
        let engine = Engine::start(Arc::new(disk.clone()), timed(500)).unwrap();
        if is_new {
            engine.create(Path::new(FOLDER), definition)?;
        }
        let queue = engine.open(Path::new(FOLDER))?;
        Ok((engine, queue))
    };
    let play = |disk: &FaultDisk| {
        let mut known = K::default();
        let opened = open(disk, true).ok();
        opened.map(|(engine, queue)| {
            run(&queue, &mut known).ok();
            drop(engine);
            known
        })
    };
    let calm = FaultDisk::default();
    let whole = play(&calm).unwrap();
    for stop in 0..=calm.syncs() {
        let disk = FaultDisk::stopping_at(stop);
        let known = play(&disk);
        for unsynced in Unsynced::ALL {
            println!("stopped at sync {stop}, {unsynced:?}");
            match (open(&disk.after_crash(unsynced), false), &known) {
                (Ok((_engine, queue)), Some(known)) => compare(&queue, known).unwrap(),
                (Err(Error::Missing { .. }) | Ok(_), None) => {}
                (Err(error), _) => panic!("{error}"),
            }
        }
    }
    whole
}
