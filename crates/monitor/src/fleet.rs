//! Samples of several servers, each taken by its own thread.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use failure::usage;
use server::{Error, Target};
use status::counter::sample::Sample;
use status::counter::sampler::{Clock, SampleRequest, Sampler};

/// How often a wait checks whether it must end.
const LOOK: Duration = Duration::from_millis(100);

/// How long answers of one round wait for each other, so that they are shown in the order of the servers.
const TOGETHER: Duration = Duration::from_millis(100);

/// Regular times. Missed times, for example while the machine slept, are skipped.
pub struct Times {
    began: Instant,
    interval: Duration,
    count: u32,
}

impl Times {
    /// From now on.
    pub fn new(interval: Duration) -> Times {
        Times { began: Instant::now(), interval, count: 0 }
    }

    /// The next time.
    pub fn advance(&mut self) -> Instant {
        let now = Instant::now();
        loop {
            self.count += 1;
            let next = self.began + self.interval * self.count;
            if next > now {
                return next;
            }
            if now - next > self.interval {
                (self.began, self.count) = (now, 0);
            }
        }
    }
}

/// The result of asking a server.
pub struct Event {
    /// The server, by its index on the command line.
    pub server: usize,
    /// What it answered.
    pub what: Result<Sample, Error>,
    /// Other notes.
    pub notes: Vec<String>,
}

/// Servers that are all asked at the same time.
pub struct Fleet {
    names: Vec<String>,
    askers: Vec<Sender<()>>,
    events: Receiver<Event>,
    /// For each server that has not answered yet: when it was asked, and whether its silence was reported.
    waiting: RefCell<Vec<Option<(Instant, bool)>>>,
}

/// The clocks of this machine.
struct Clocks(Instant);

impl Default for Clocks {
    fn default() -> Clocks {
        Clocks(Instant::now())
    }
}

impl Clock for Clocks {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }
}

/// A sampler for each server, with its name.
///
/// # Errors
/// If a server is given twice.
pub fn samplers(targets: Vec<Target>, wants: &SampleRequest) -> Result<Vec<(String, Sampler)>> {
    let mut samplers: Vec<(String, Sampler)> = Vec::new();
    for target in targets {
        let name = name(&target);
        if samplers.iter().any(|(other, _)| *other == name) {
            // Recordings and metrics identify servers by their names.
            return Err(usage(format!("{name} is given twice; name each server once")));
        }
        samplers.push((name, Sampler::new(target, Box::new(Clocks::default()), wants.clone())));
    }
    Ok(samplers)
}

/// The name of a server: its address.
fn name(target: &Target) -> String {
    match &target.socket {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", target.host, target.port),
    }
}

impl Fleet {
    /// Starts a thread for each server. No server is asked yet.
    pub fn of(samplers: Vec<(String, Sampler)>) -> Fleet {
        let (sender, events) = unbounded();
        let mut fleet = Fleet { names: Vec::new(), askers: Vec::new(), events, waiting: RefCell::default() };
        for (server, (name, mut watch)) in samplers.into_iter().enumerate() {
            let (ask, asked) = bounded(1);
            let sender = sender.clone();
            std::thread::spawn(move || {
                for () in asked {
                    let what = watch.sample();
                    let notes = watch.notes();
                    if sender.send(Event { server, what, notes }).is_err() {
                        return;
                    }
                }
            });
            fleet.names.push(name);
            fleet.askers.push(ask);
            fleet.waiting.borrow_mut().push(None);
        }
        fleet
    }

    /// The servers' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Asks all servers that have answered the last question.
    pub fn ask(&self) {
        for (asker, waiting) in self.askers.iter().zip(self.waiting.borrow_mut().iter_mut()) {
            if waiting.is_none() && asker.send(()).is_ok() {
                *waiting = Some((Instant::now(), false));
            }
        }
    }

    /// Servers that have not answered for this long; each is returned once per question.
    pub fn silent(&self, since: Duration) -> Vec<usize> {
        let mut waiting = self.waiting.borrow_mut();
        let late = waiting.iter_mut().enumerate().filter_map(|(server, waiting)| {
            let (asked, is_told) = waiting.as_mut()?;
            let is_new = asked.elapsed() >= since && !std::mem::replace(is_told, asked.elapsed() >= since);
            is_new.then_some(server)
        });
        late.collect()
    }

    /// The answers that arrive in time and together, in the order of the servers; none when the time is up.
    pub fn batch(&self, until: Instant, stop: &AtomicBool) -> Vec<Event> {
        let mut events: Vec<Event> = self.next(until, stop).into_iter().collect();
        let together = until.min(Instant::now() + TOGETHER);
        while !events.is_empty() && self.waiting.borrow().iter().any(Option::is_some) {
            match self.next(together, stop) {
                Some(event) => events.push(event),
                None => break,
            }
        }
        events.sort_by_key(|event| event.server);
        events
    }

    /// The next answer, if one arrives in time and no stop is requested.
    pub fn next(&self, until: Instant, stop: &AtomicBool) -> Option<Event> {
        while !stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left.min(LOOK)) {
                Ok(event) => {
                    self.waiting.borrow_mut()[event.server] = None;
                    return Some(event);
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}
