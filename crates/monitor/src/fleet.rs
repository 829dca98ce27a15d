//! Samples of several servers, each taken by its own thread.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use failure::usage;
use server::{Error, Target};
use status::counter::sample::Sample;
use status::counter::sampler::{Clock, SampleRequest, Sampler};

use crate::incident::{Attendant, Incident, Reply, Request};
use crate::machine::Elsewhere;

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
    /// What was found besides, in a fleet that attends to its servers.
    pub incident: Incident,
}

/// What a server is asked.
enum Ask {
    Sample,
    Request(Request),
    /// Whether samples shall have statements by digest.
    Digests(bool),
    /// Whether samples shall have all status variables.
    Whole(bool),
}

/// Servers that are all asked at the same time.
pub struct Fleet {
    names: Vec<String>,
    askers: Vec<Sender<Ask>>,
    events: Receiver<Event>,
    /// Answers to requests, with the server's index.
    replies: Receiver<(usize, Reply)>,
    /// Where those come from.
    replier: Sender<(usize, Reply)>,
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

/// Where a thread sends its answers.
struct Outlet {
    server: usize,
    events: Sender<Event>,
    replies: Sender<(usize, Reply)>,
}

/// Answers questions about a server until nobody is left who asks.
fn serve(mut sampler: Sampler, asked: &Receiver<Ask>, to: &Outlet, mut attendant: Option<Attendant>) {
    let server = to.server;
    for ask in asked {
        let is_heard = match ask {
            Ask::Sample => {
                let what = sampler.sample();
                let incident = match (&what, &mut attendant) {
                    (Ok(sample), Some(attendant)) => attendant.attend(&mut sampler, sample),
                    _ => Incident::default(),
                };
                let notes = sampler.notes();
                to.events.send(Event { server, what, notes, incident }).is_ok()
            }
            Ask::Request(request) => {
                let attendant = attendant.get_or_insert_default();
                to.replies.send((server, attendant.answer(&mut sampler, request))).is_ok()
            }
            Ask::Digests(wanted) => {
                sampler.set_digests(wanted);
                true
            }
            Ask::Whole(wanted) => {
                sampler.set_whole(wanted);
                true
            }
        };
        if !is_heard {
            return;
        }
    }
}

impl Fleet {
    /// Starts a thread for each server. No server is asked yet.
    pub fn of(samplers: Vec<(String, Sampler)>) -> Fleet {
        Fleet::start(samplers.into_iter().map(|(name, sampler)| (name, sampler, None)))
    }

    /// The same, and with each sample comes what is found about locks, deadlocks and the machine.
    /// `elsewhere`: the machine of the first server, if it is known to be another one.
    pub fn attending(samplers: Vec<(String, Sampler)>, mut elsewhere: Option<Elsewhere>) -> Fleet {
        let attended = |(name, sampler)| (name, sampler, Some(Attendant::new(elsewhere.take())));
        Fleet::start(samplers.into_iter().map(attended))
    }

    fn start(samplers: impl Iterator<Item = (String, Sampler, Option<Attendant>)>) -> Fleet {
        let (sender, events) = unbounded();
        let (replier, replies) = unbounded();
        let mut fleet = Fleet {
            names: Vec::new(),
            askers: Vec::new(),
            events,
            replies,
            replier,
            waiting: RefCell::default(),
        };
        for (server, (name, sampler, attendant)) in samplers.enumerate() {
            let (ask, asked) = unbounded();
            let to = Outlet { server, events: sender.clone(), replies: fleet.replier.clone() };
            std::thread::spawn(move || serve(sampler, &asked, &to, attendant));
            fleet.names.push(name);
            fleet.askers.push(ask);
            fleet.waiting.borrow_mut().push(None);
        }
        fleet
    }

    /// Asks a server something else, after what it was asked before.
    pub fn request(&self, server: usize, request: Request) {
        if let Some(asker) = self.askers.get(server) {
            asker.send(Ask::Request(request)).ok();
        }
    }

    /// Whether samples shall have statements by digest, if the samplers were made with them.
    pub fn set_digests(&self, wanted: bool) {
        self.askers.iter().for_each(|asker| drop(asker.send(Ask::Digests(wanted))));
    }

    /// Whether samples shall have all status variables, or only those that the samplers were made with.
    pub fn set_whole(&self, wanted: bool) {
        self.askers.iter().for_each(|asker| drop(asker.send(Ask::Whole(wanted))));
    }

    /// Asks for the plan of what a connection runs, over a session of its own: some servers answer only when
    /// the connection has got the lock that it waits for.
    pub fn explain(&self, server: usize, target: Target, id: u64) {
        let replies = self.replier.clone();
        std::thread::spawn(move || {
            let plan = target.connect().and_then(|mut session| locks::explain::explain(&mut session, id));
            let plan = plan.unwrap_or_else(|error| Err(error.to_string()));
            replies.send((server, Reply::Plan(plan))).ok();
        });
    }

    /// An answer to a request that has come.
    pub fn reply(&self) -> Option<(usize, Reply)> {
        self.replies.try_recv().ok()
    }

    /// The servers' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Asks all servers that have answered the last question.
    pub fn ask(&self) {
        for (asker, waiting) in self.askers.iter().zip(self.waiting.borrow_mut().iter_mut()) {
            if waiting.is_none() && asker.send(Ask::Sample).is_ok() {
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

    /// For how long a server has not answered a question; `None` if it was not asked since its last answer.
    pub fn waited(&self, server: usize) -> Option<Duration> {
        let waiting = self.waiting.borrow();
        waiting.get(server)?.as_ref().map(|(asked, _)| asked.elapsed())
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
