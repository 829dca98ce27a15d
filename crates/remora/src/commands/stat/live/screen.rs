//! What the screen shows, and what keys do.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use status::counter::change::{Discontinuity, Interval, between};
use status::counter::digest::by_time;
use status::counter::event::events;
use status::counter::kind::Kind;
use status::counter::part::{Digest, Process, Replica};
use status::counter::sample::{Begin, Sample};
use status::counter::view::{VIEWS, View};

use super::super::output::{clock, meaning};
use monitor::fleet::Event;

/// Points that are kept for each number.
pub(super) const HISTORY: usize = 240;

/// How long a message stays. Intervals may be shorter.
const MESSAGE: Duration = Duration::from_secs(3);

/// What to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Go,
    End,
}

/// The order of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Rate,
    Name,
}

/// What is shown in the lower part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    Running,
    Statements,
    Nothing,
}

/// A status variable as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) per_s: Option<f64>,
    pub(super) value: String,
}

/// What is known about a server.
#[derive(Default)]
pub(super) struct Server {
    pub(super) last: Option<Sample>,
    /// A message about it: that it is unreachable, or was restarted, or a note.
    pub(super) message: Option<String>,
    /// When the message appeared, by the clock of samples, unless it stays until the server is back.
    since: Option<Duration>,
    /// Messages that wait for their turn.
    notes: VecDeque<String>,
    pub(super) is_away: bool,
    /// A state that is reported as long as it lasts: replication is stopped.
    pub(super) trouble: Vec<String>,
    pub(super) lines: Vec<Line>,
    /// The last rates of counters and values of gauges.
    pub(super) history: BTreeMap<String, VecDeque<f64>>,
    /// For each view the last number of each column, and the numbers before.
    pub(super) views: Vec<Vec<Option<f64>>>,
    pub(super) view_histories: Vec<Vec<VecDeque<f64>>>,
    pub(super) processes: Option<Vec<Process>>,
    pub(super) digests: Option<Vec<Digest>>,
    pub(super) seconds: f64,
}

pub(super) struct Screen {
    pub(super) names: Vec<String>,
    pub(super) servers: Vec<Server>,
    pub(super) interval: Duration,
    pub(super) shown: usize,
    pub(super) view: usize,
    pub(super) sort: Sort,
    pub(super) below: Below,
    /// Whether counters that do not change are shown too.
    pub(super) is_all: bool,
    pub(super) is_paused: bool,
    pub(super) is_helping: bool,
    pub(super) filter: String,
    /// Whether keys are typed into the filter.
    pub(super) is_typing: bool,
    pub(super) from: usize,
    is_new: bool,
}

impl Screen {
    pub(super) fn new(names: Vec<String>, interval: Duration) -> Screen {
        let servers = names.iter().map(|_| Server::default()).collect();
        Screen {
            names,
            servers,
            interval,
            shown: 0,
            view: 0,
            sort: Sort::Rate,
            below: Below::Running,
            is_all: false,
            is_paused: false,
            is_helping: false,
            filter: String::new(),
            is_typing: false,
            from: 0,
            is_new: true,
        }
    }

    /// Whether it was never drawn.
    pub(super) fn is_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Processes an answer. While paused, the shown numbers stay, and the history continues.
    pub(super) fn take(&mut self, event: Event) {
        let is_paused = self.is_paused;
        let server = &mut self.servers[event.server];
        let sample = match event.what {
            Ok(sample) => sample,
            Err(error) => {
                (server.message, server.since, server.is_away) = (Some(error.to_string()), None, true);
                return;
            }
        };
        server.is_away = false;
        let last = server.last.take();
        let interval = between(last.as_ref(), &sample);
        if let Some(mark) = interval.mark.filter(|mark| *mark != Discontinuity::Begin(Begin::First)) {
            server.notes.push_front(format!("{} {}", clock(&sample), meaning(mark)));
            server.since = None;
        }
        let events = events(last.as_ref(), &sample);
        server.notes.extend(events.into_iter().map(|event| format!("{} {event}", clock(&sample))));
        server.trouble = sample.replicas.iter().flatten().filter_map(Replica::trouble).collect();
        server.notes.extend(event.notes);
        server.next_message(sample.at);
        server.learn(&interval, is_paused);
        server.last = Some(sample);
    }

    pub(super) fn server(&self) -> &Server {
        &self.servers[self.shown]
    }

    pub(super) fn views(&self) -> &'static [View] {
        &VIEWS
    }

    /// The lines to show, in order.
    pub(super) fn lines(&self) -> Vec<&Line> {
        let wanted = self.filter.to_lowercase();
        let moves = |line: &&Line| self.is_all || line.per_s.is_some_and(|rate| rate != 0.0);
        let server = self.server();
        let mut lines: Vec<&Line> = server.lines.iter().filter(moves).collect();
        lines.retain(|line| line.name.to_lowercase().contains(&wanted));
        match self.sort {
            Sort::Name => lines.sort_by_key(|line| line.name.to_lowercase()),
            Sort::Rate => lines.sort_by(|a, b| {
                let rate = |line: &Line| line.per_s.unwrap_or(-1.0);
                rate(b).total_cmp(&rate(a)).then_with(|| a.name.cmp(&b.name))
            }),
        }
        lines
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Step {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c')) {
            return Step::End;
        }
        if self.is_typing {
            self.type_key(key.code);
            return Step::Go;
        }
        if self.is_helping {
            self.is_helping = false;
            return Step::Go;
        }
        match key.code {
            KeyCode::Char('q') => return Step::End,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') => self.is_helping = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('a') => self.is_all = !self.is_all,
            KeyCode::Char('s') => {
                self.sort = if self.sort == Sort::Rate { Sort::Name } else { Sort::Rate };
            }
            KeyCode::Char('r') => {
                self.below = if self.below == Below::Running { Below::Nothing } else { Below::Running };
            }
            KeyCode::Char('d') => {
                self.below = if self.below == Below::Statements { Below::Nothing } else { Below::Statements };
            }
            KeyCode::Right | KeyCode::Char('v') => self.view = (self.view + 1) % self.views().len(),
            KeyCode::Left => self.view = (self.view + self.views().len() - 1) % self.views().len(),
            KeyCode::Tab => self.shown = (self.shown + 1) % self.names.len(),
            KeyCode::BackTab => self.shown = (self.shown + self.names.len() - 1) % self.names.len(),
            KeyCode::Down => self.from += 1,
            KeyCode::Up => self.from = self.from.saturating_sub(1),
            KeyCode::PageDown => self.from += 10,
            KeyCode::PageUp => self.from = self.from.saturating_sub(10),
            KeyCode::Home => self.from = 0,
            _ => {}
        }
        Step::Go
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
        self.from = 0;
    }
}

fn push(history: &mut VecDeque<f64>, number: f64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(number);
}

impl Server {
    /// Shows the next message, when the one before it was shown for long enough.
    fn next_message(&mut self, now: Duration) {
        if self.since.is_none_or(|since| now.saturating_sub(since) >= MESSAGE) {
            self.message = self.notes.pop_front();
            self.since = self.message.as_ref().map(|_| now);
        }
    }

    fn learn(&mut self, interval: &Interval<'_>, is_paused: bool) {
        let mut lines = Vec::new();
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
            lines.push(Line {
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
        if is_paused || !interval.is_whole() && !self.lines.is_empty() {
            return;
        }
        (self.lines, self.views, self.seconds) = (lines, views, interval.seconds);
        self.processes.clone_from(&interval.now.processes);
        if interval.is_whole() {
            self.digests = by_time(interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_note_has_its_turn() {
        let mut server = Server { notes: ["a", "b"].map(str::to_owned).into(), ..Server::default() };
        let mut shown = String::new();
        for second in 10..18 {
            server.next_message(Duration::from_secs(second));
            shown.push_str(server.message.as_deref().unwrap_or("-"));
        }
        assert_eq!(shown, "aaabbb--");
        server.notes.push_back("c".to_owned());
        server.next_message(Duration::from_secs(18));
        assert_eq!(server.message.as_deref(), Some("c"));
    }
}
