//! What is known of each server: one thread with one session asks it, however many look.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use locks::Picture;
use monitor::fleet::Times;
use monitor::number::number;
use progress::pause;
use server::{Error, Target};
use status::counter::change::{Discontinuity, between};
use status::counter::digest::by_time;
use status::counter::event::events;
use status::counter::part::{Digest, Replica};
use status::counter::sample::{Begin, Sample};
use status::counter::sampler::Sampler;
use status::counter::series::Series;
use status::counter::view;
use web::Changes;

use crate::queue_watch::{QueueWatch, Queues};

/// How long points are kept for the plots, and statements summed up.
const HISTORY: Duration = Duration::from_secs(3600);
/// The same in milliseconds.
const HISTORY_MS: i64 = 3_600_000;
/// What happened, as far as it is kept.
const EVENTS_MAX: usize = 50;
/// Statements are summed up over that time, in so many steps.
const STEPS: u32 = 12;
/// Statements of which the sums are shown.
const DIGESTS_MAX: usize = 100;
/// How many intervals an answer may be late before what is shown counts as old.
const LATE: u32 = 3;
/// In place of a text that may quote a statement.
const HIDDEN: &str = "its text is not shown, because it may quote a statement";

/// The load that the list of servers shows: view, column and heading.
pub(crate) const LOAD: [(&str, &str, &str); 5] = [
    ("overview", "statements", "Statements/s"),
    ("overview", "writes", "Writes/s"),
    ("overview", "running", "At work"),
    ("overview", "connected", "Connections"),
    ("replication", "delay", "Behind"),
];

/// A server that is watched.
pub struct Watched {
    /// Its name: its socket, or its host and port.
    pub(crate) name: String,
    /// How a command line names it; empty for the usual server.
    pub(crate) address: String,
    /// For actions.
    pub(crate) target: Target,
    /// Whether statements are shown as they are.
    shows_statements: bool,
    known: Mutex<Known>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    /// When, in milliseconds since 1970.
    pub(crate) unix_ms: i64,
    /// What.
    pub(crate) what: String,
}

/// What is known of a server.
#[derive(Default)]
pub(crate) struct Known {
    /// When it last answered.
    pub(crate) seen: Option<Instant>,
    /// Why it did not answer since.
    pub(crate) trouble: Option<String>,
    /// Its version.
    pub(crate) version: String,
    /// The numbers of [`LOAD`].
    pub(crate) load: Vec<String>,
    /// What stands against replication.
    pub(crate) replication: Vec<String>,
    /// Numbers over time.
    pub(crate) series: Series,
    /// The statements of the last hour, and how many seconds that is; none if the server does not tell.
    pub(crate) statements: Option<(Vec<Digest>, f64)>,
    /// Who waits for whom, and what runs; or why that is not known.
    pub(crate) picture: Option<Result<Picture, String>>,
    /// Its queues.
    pub(crate) queues: Queues,
    /// What this account may not see.
    pub(crate) notes: Vec<String>,
    /// The last events, the newest first.
    pub(crate) events: VecDeque<Happened>,
    /// The newest sample, and earlier ones for the sums over statements, the oldest first.
    pub(crate) last: Option<Sample>,
    pub(crate) earlier: VecDeque<Sample>,
}

/// How old something is that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// As new as it can be.
    Fresh,
    /// Older than it should be.
    Old(Duration),
    /// There was never anything.
    Never,
}

/// How old something is that is renewed once in an interval.
pub(crate) fn freshness(seen: Option<Instant>, now: Instant, interval: Duration) -> Freshness {
    match seen.map(|seen| now.saturating_duration_since(seen)) {
        None => Freshness::Never,
        Some(age) if age > interval * LATE => Freshness::Old(age),
        Some(_) => Freshness::Fresh,
    }
}

impl Watched {
    /// A server that is not asked yet. `address`: how a command line names it, empty for the usual one;
    /// `shows_statements`: as they are, with data of the application.
    #[must_use]
    pub fn new(name: String, address: String, target: Target, shows_statements: bool) -> Watched {
        Watched { name, address, target, shows_statements, known: Mutex::default() }
    }

    /// What is known now.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        // What a thread left behind that panicked is still what it knew.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that asks it.
    pub(crate) fn start(
        self: &Arc<Watched>,
        mut sampler: Sampler,
        interval: Duration,
        (stop, changes): (&Arc<AtomicBool>, &Changes),
    ) {
        let (watched, stop, changes) = (Arc::clone(self), Arc::clone(stop), changes.clone());
        std::thread::spawn(move || {
            let (mut times, mut queues) = (Times::new(interval), QueueWatch::default());
            while !stop.load(Ordering::Relaxed) {
                watched.look(&mut sampler, &mut queues);
                changes.tell();
                pause(times.advance().saturating_duration_since(Instant::now()), &stop);
            }
        });
    }

    fn look(&self, sampler: &mut Sampler, queues: &mut QueueWatch) {
        let sample = sampler.sample();
        let picture = sampler.over(|session| {
            let own = session.connection_id();
            let mut picture = Picture::read(session)?;
            picture.connections.remove(&u64::from(own));
            Ok(picture)
        });
        let picture = picture.map_err(|error| error.to_string()).transpose();
        let is_new = sample.as_ref().is_ok_and(|sample| sample.begin.is_some());
        let queues = sampler.over(|session| Ok(queues.look(session, is_new)));
        let notes = sampler.notes();
        let mut known = self.known();
        for note in notes {
            // A new session finds the same things.
            if !known.notes.contains(&note) {
                known.notes.push(note);
            }
        }
        match sample {
            Err(error) => known.away(&error),
            Ok(mut sample) => {
                let mut picture = picture;
                if !self.shows_statements {
                    hide_texts(&mut sample);
                    picture.iter_mut().flatten().for_each(Picture::hide_statements);
                }
                known.take(sample);
                known.picture = picture;
                known.queues = queues.ok().flatten().unwrap_or_default();
            }
        }
    }
}

impl Known {
    fn happened(&mut self, unix_ms: i64, what: String) {
        self.events.push_front(Happened { unix_ms, what });
        self.events.truncate(EVENTS_MAX);
    }

    fn away(&mut self, error: &Error) {
        let why = error.to_string();
        if self.trouble.is_none() {
            self.happened(jiff::Timestamp::now().as_millisecond(), why.clone());
        }
        self.trouble = Some(why);
    }

    fn take(&mut self, sample: Sample) {
        if self.trouble.take().is_some() {
            self.happened(sample.unix_ms, "it answers again".to_owned());
        }
        let last = self.last.take();
        let interval = between(last.as_ref(), &sample);
        let mark = interval.mark.filter(|mark| *mark != Discontinuity::Begin(Begin::First));
        for event in events(last.as_ref(), &sample) {
            self.series.note(sample.unix_ms, &event);
            self.happened(sample.unix_ms, event);
        }
        if let Some(mark) = mark {
            self.happened(sample.unix_ms, mark.meaning().to_owned());
        }
        if last.is_some() {
            self.series.add(&interval);
            self.series.forget_before(sample.unix_ms - HISTORY_MS);
        }
        let column = |view: &str, key: &str| {
            view::of(view).and_then(|view| view.columns.iter().find(|column| column.key == key))
        };
        let shown = |(view, key, _): &(&str, &str, &str)| {
            column(view, key).map_or_else(String::new, |column| number(column, &interval))
        };
        self.load = LOAD.iter().map(shown).collect();
        if !interval.is_whole() {
            self.earlier.clear();
        }
        self.version = sample.settings.0.get("version").cloned().unwrap_or_default();
        self.replication = sample.replicas.iter().flatten().filter_map(Replica::trouble).collect();
        self.sum_statements(&sample);
        self.seen = Some(Instant::now());
        // The sums have what is needed of it.
        self.last = Some(Sample { digests: None, ..sample });
    }

    /// Sums statements up since the oldest sample that is kept.
    fn sum_statements(&mut self, sample: &Sample) {
        let step = HISTORY / STEPS;
        let age = |earlier: &Sample| sample.at.saturating_sub(earlier.at);
        while self.earlier.front().is_some_and(|oldest| age(oldest) > HISTORY) {
            self.earlier.pop_front();
        }
        if self.earlier.back().is_none_or(|newest| age(newest) >= step) {
            self.earlier.push_back(without_texts(sample));
        }
        let Some(oldest) = self.earlier.front() else { return };
        let interval = between(Some(oldest), sample);
        self.statements = by_time(&interval).map(|mut all| {
            all.truncate(DIGESTS_MAX);
            (all, interval.seconds)
        });
    }
}

/// A sample for later sums: only its statements, without their texts.
fn without_texts(sample: &Sample) -> Sample {
    let digests = sample
        .digests
        .as_ref()
        .map(|all| all.iter().map(|digest| Digest { text: String::new(), ..digest.clone() }).collect());
    Sample { digests, begin: None, ..sample.clone() }
}

/// Replaces what a server says of replication and what may quote a statement.
fn hide_texts(sample: &mut Sample) {
    for replica in sample.replicas.iter_mut().flatten().filter(|replica| !replica.error.is_empty()) {
        replica.error = HIDDEN.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_ages() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let after = |seconds| freshness(Some(began), began + second * seconds, second * 5);
        assert_eq!((after(0), after(15)), (Freshness::Fresh, Freshness::Fresh));
        assert_eq!(after(16), Freshness::Old(second * 16));
        assert_eq!(freshness(None, began, second), Freshness::Never);
    }
}
