//! What is known of a server: the numbers of now, and the last hour.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use monitor::fleet::Event;
use monitor::incident::Incident;
use status::counter::change::{Discontinuity, Interval, between};
use status::counter::digest::by_time;
use status::counter::event::events;
use status::counter::kind::Kind;
use status::counter::part::{Digest, Replica};
use status::counter::sample::{Begin, Sample};
use status::counter::view::VIEWS;

use monitor::time::clock;

/// Points that are kept for each number.
pub(super) const HISTORY: usize = 240;

/// Points before a time in the past. Each costs as much as a sample.
const HISTORY_PAST: usize = 40;

/// Samples that are kept to go back to: an hour of seconds.
pub(super) const FRAMES_MAX: usize = 3600;

/// How long a message stays. Intervals may be shorter.
const MESSAGE: Duration = Duration::from_secs(3);

/// A status variable as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) per_s: Option<f64>,
    pub(super) value: String,
}

/// What a server said at one time.
pub(super) struct Frame {
    pub(super) sample: Sample,
    pub(super) incident: Incident,
}

/// A server's numbers at one time.
#[derive(Default)]
pub(super) struct Server {
    /// States that are reported as long as they last: replication is stopped.
    pub(super) trouble: Vec<String>,
    pub(super) variables: Vec<Variable>,
    /// The last rates of counters and values of gauges.
    pub(super) history: BTreeMap<String, VecDeque<f64>>,
    /// For each view the last number of each column, and the numbers before.
    pub(super) views: Vec<Vec<Option<f64>>>,
    pub(super) view_histories: Vec<Vec<VecDeque<f64>>>,
    pub(super) digests: Option<Vec<Digest>>,
    pub(super) seconds: f64,
}

impl Server {
    /// A number of a view.
    pub(super) fn number(&self, view: &str, key: &str) -> Option<f64> {
        let at = VIEWS.iter().position(|one| one.name == view)?;
        let column = VIEWS.get(at)?.columns.iter().position(|column| column.key == key)?;
        self.views.get(at)?.get(column).copied().flatten()
    }

    /// Takes over what a sample says.
    fn take(&mut self, before: Option<&Sample>, now: &Sample) {
        let interval = between(before, now);
        self.trouble = now.replicas.iter().flatten().filter_map(Replica::trouble).collect();
        self.learn(&interval);
    }

    fn learn(&mut self, interval: &Interval<'_>) {
        let mut variables = Vec::new();
        for row in interval.rows() {
            let per_s = row.per_s(interval.seconds);
            let number = match row.name.ty.kind {
                Kind::Counter => per_s,
                _ => row.value.number().map(|value| value.as_f64()),
            };
            if let Some(number) = number {
                match self.history.get_mut(&*row.name.text) {
                    Some(history) => push(history, number),
                    None => push(self.history.entry(row.name.text.to_string()).or_default(), number),
                }
            }
            variables.push(Variable {
                name: row.name.text.to_string(),
                kind: row.name.ty.kind,
                per_s,
                value: row.value.to_string(),
            });
        }
        let mut views = Vec::new();
        self.view_histories.resize_with(VIEWS.len(), Vec::new);
        for (view, histories) in VIEWS.iter().zip(&mut self.view_histories) {
            histories.resize_with(view.columns.len(), VecDeque::new);
            let numbers: Vec<Option<f64>> = view.columns.iter().map(|column| column.of(interval)).collect();
            for (number, history) in numbers.iter().zip(histories) {
                // A missing number takes a place too, because time has passed.
                push(history, number.unwrap_or(0.0));
            }
            views.push(numbers);
        }
        if !interval.is_whole() && !self.variables.is_empty() {
            return;
        }
        (self.variables, self.views, self.seconds) = (variables, views, interval.seconds);
        if interval.is_whole() {
            self.digests = by_time(interval);
        }
    }
}

fn push(history: &mut VecDeque<f64>, number: f64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(number);
}

/// A server that is followed.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) live: Server,
    frames: VecDeque<Frame>,
    /// How many frames were dropped before the first one.
    dropped: usize,
    /// Why it does not answer now.
    pub(super) away: Option<String>,
    /// A message about it: that it was restarted, or a note.
    pub(super) message: Option<String>,
    /// When the message appeared, by the clock of samples.
    since: Option<Duration>,
    /// Messages that wait for their turn.
    notes: VecDeque<String>,
}

impl Watched {
    /// Processes an answer.
    pub(super) fn take(&mut self, event: Event) {
        let sample = match event.what {
            Ok(sample) => sample,
            Err(error) => {
                self.away = Some(error.to_string());
                return;
            }
        };
        self.away = None;
        let last = self.frames.back().map(|frame| &frame.sample);
        let mark = between(last, &sample).mark;
        let events = events(last, &sample);
        let at = clock(&sample);
        self.live.take(last, &sample);
        if let Some(mark) = mark.filter(|mark| *mark != Discontinuity::Begin(Begin::First)) {
            self.say(format!("{at} {}", mark.meaning()));
        }
        // What lasts is shown as long as it lasts.
        let events = events.into_iter().filter(|event| !self.live.trouble.contains(event));
        self.notes.extend(events.map(|event| format!("{at} {event}")));
        self.notes.extend(event.notes);
        self.next_message(sample.at);
        self.keep(sample, event.incident);
    }

    /// Shows a message before all others.
    pub(super) fn say(&mut self, text: String) {
        self.notes.push_front(text);
        self.since = None;
        if self.message.is_none() {
            self.message = self.notes.front().cloned();
        }
    }

    /// Shows the next message, when the one before it was shown for long enough.
    fn next_message(&mut self, now: Duration) {
        if self.since.is_none_or(|since| now.saturating_sub(since) >= MESSAGE) {
            self.message = self.notes.pop_front();
            self.since = self.message.as_ref().map(|_| now);
        }
    }

    fn keep(&mut self, sample: Sample, incident: Incident) {
        // Digests are many, and only the last ones are compared.
        if let Some(last) = self.frames.back_mut() {
            last.sample.digests = None;
        }
        if self.frames.len() == FRAMES_MAX {
            self.frames.pop_front();
            self.dropped += 1;
        }
        self.frames.push_back(Frame { sample, incident });
    }

    /// The number of the newest frame.
    pub(super) fn newest(&self) -> usize {
        self.dropped + self.frames.len().saturating_sub(1)
    }

    /// A frame by its number; of one that was dropped, the oldest.
    pub(super) fn frame(&self, number: usize) -> Option<&Frame> {
        self.frames.get(number.saturating_sub(self.dropped))
    }

    /// The number of the frame that is this many seconds before or after another one, or next to it.
    pub(super) fn beside(&self, number: usize, seconds: i64) -> usize {
        let (first, last) = (self.dropped, self.newest());
        let number = number.clamp(first, last);
        let Some(from) = self.frame(number).map(|frame| frame.sample.unix_ms) else { return number };
        let until = from + seconds * 1000;
        let time = |at: &usize| self.frame(*at).map_or(until, |frame| frame.sample.unix_ms);
        if seconds < 0 {
            (first..number).rev().find(|at| time(at) <= until).unwrap_or(first)
        } else {
            (number + 1..=last).find(|at| time(at) >= until).unwrap_or(last)
        }
    }

    /// The numbers at the time of a frame.
    pub(super) fn at(&self, number: usize) -> Server {
        let at = number.saturating_sub(self.dropped).min(self.frames.len().saturating_sub(1));
        let mut server = Server::default();
        for now in at.saturating_sub(HISTORY_PAST)..=at {
            let before = now.checked_sub(1).and_then(|before| self.frames.get(before));
            if let Some(frame) = self.frames.get(now) {
                server.take(before.map(|frame| &frame.sample), &frame.sample);
            }
        }
        server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_note_has_its_turn() {
        let mut server = Watched { notes: ["a", "b"].map(str::to_owned).into(), ..Watched::default() };
        let mut shown = String::new();
        for second in 10..18 {
            server.next_message(Duration::from_secs(second));
            shown.push_str(server.message.as_deref().unwrap_or("-"));
        }
        assert_eq!(shown, "aaabbb--");
        server.say("c".to_owned());
        assert_eq!(server.message.as_deref(), Some("c"));
        server.next_message(Duration::from_secs(18));
        assert_eq!(server.message.as_deref(), Some("c"));
    }
}
