//! How many messages a second pass through a queue, and how late they are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use progress::pause;
use server::{Session, Target};

/// How often to check whether a connection has failed.
const LOOK: Duration = Duration::from_millis(50);

/// Connections that publish and others that take. They share this.
pub struct Load<'run> {
    target: &'run Target,
    table: &'run str,
    /// The table's name for queue_wait(), quoted.
    queue: String,
    body: String,
    /// The start of all times.
    began: Instant,
    /// Set when nothing more is published.
    full: AtomicBool,
    published: AtomicU64,
}

/// The results.
pub struct Figures {
    /// Rows that were published.
    pub published: u64,
    /// In so many seconds.
    pub published_s: f64,
    /// Rows that were taken.
    pub taken: u64,
    /// In so many seconds.
    pub taken_s: f64,
    /// Microseconds from before an INSERT until its row was taken, sorted.
    pub delays_us: Vec<u64>,
}

impl<'run> Load<'run> {
    /// For the table of a queue: `queue` is its name for `queue_wait()`, quoted, and `bytes` the size of a
    /// message.
    #[must_use]
    pub fn new(target: &'run Target, table: &'run str, queue: String, bytes: usize) -> Load<'run> {
        Load {
            target,
            table,
            queue,
            body: "m".repeat(bytes),
            began: Instant::now(),
            full: AtomicBool::new(false),
            published: AtomicU64::new(0),
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Publishes for a time, with so many connections that publish and as many that take, until all is taken.
    ///
    /// # Errors
    /// If a connection fails.
    pub fn run(&self, connections: u32, time: Duration, stop: &AtomicBool) -> Result<Figures> {
        let pair = |_| Ok((self.target.connect()?, self.target.connect()?));
        let pairs: Vec<(Session, Session)> = (0..connections).map(pair).collect::<Result<_>>()?;
        std::thread::scope(|scope| {
            let mut publishers = Vec::new();
            let mut takers = Vec::new();
            for (publisher, taker) in pairs {
                publishers.push(scope.spawn(move || self.ending(self.publish(publisher))));
                takers.push(scope.spawn(move || self.ending(self.take(taker))));
            }
            let until = Instant::now() + time;
            while Instant::now() < until && !self.full.load(Ordering::Relaxed) {
                if !pause(LOOK, stop) {
                    break;
                }
            }
            self.full.store(true, Ordering::Relaxed);
            let ended = |thread: ScopedJoinHandle<'_, Result<Vec<u64>>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow!("a connection's thread failed")))
            };
            publishers.into_iter().try_for_each(|thread| ended(thread).map(drop))?;
            let published_s = self.began.elapsed().as_secs_f64();
            let mut delays_us = Vec::new();
            for thread in takers {
                delays_us.extend(ended(thread)?);
            }
            let taken_s = self.began.elapsed().as_secs_f64();
            delays_us.sort_unstable();
            let (published, taken) = (self.published.load(Ordering::Relaxed), delays_us.len() as u64);
            Ok(Figures { published, published_s, taken, taken_s, delays_us })
        })
    }

    /// If one connection fails, the others end too.
    fn ending(&self, result: Result<Vec<u64>>) -> Result<Vec<u64>> {
        if result.is_err() {
            self.full.store(true, Ordering::Relaxed);
        }
        result
    }

    fn publish(&self, mut session: Session) -> Result<Vec<u64>> {
        while !self.full.load(Ordering::Relaxed) {
            session.execute(&format!(
                "INSERT INTO {} VALUES ({}, '{}')",
                self.table,
                self.now_us(),
                self.body
            ))?;
            self.published.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Vec::new())
    }

    /// Takes rows until publishing has ended and nothing waits.
    fn take(&self, mut session: Session) -> Result<Vec<u64>> {
        let mut delays = Vec::new();
        loop {
            let last = self.full.load(Ordering::Relaxed);
            let wait = u8::from(!last);
            let select = format!("SELECT sent FROM {} WHERE queue_wait({}, {wait})", self.table, self.queue);
            let taken = session.strings(&select)?;
            match taken.first().and_then(|row| row.first()?.as_ref()) {
                Some(sent) => delays.push(self.now_us().saturating_sub(sent.parse()?)),
                None if last => return Ok(delays),
                None => {}
            }
        }
    }
}

impl Figures {
    /// The delay that this percentage of messages does not exceed.
    #[must_use]
    pub fn delay_us(&self, of_100: usize) -> u64 {
        let at = self.delays_us.len().saturating_sub(1) * of_100 / 100;
        self.delays_us.get(at).copied().unwrap_or(0)
    }
}
