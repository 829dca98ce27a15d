//! What the screen shows, and what keys do.

use std::time::Duration;

use locks::kill::{How, Outcome, Target};
use monitor::fleet::Event;
use monitor::incident::{Reply, Request};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use status::counter::view::{VIEWS, View};

use super::popup::Popup;
use super::watched::{Frame, Server, Watched};

/// A server that does not answer for this long is reported.
const SILENT: Duration = Duration::from_secs(3);

/// What to do after a key.
#[derive(Debug)]
pub(super) enum Step {
    Go,
    End,
    /// Ask the shown server.
    Ask(Request),
    /// Ask for the plan of what a connection runs.
    Explain(u64),
}

/// A page of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Overview,
    Blocked,
    Replication,
    Innodb,
    Deadlock,
    Statements,
    Counters,
    Host,
}

impl Page {
    /// All of them, in the order of their digits.
    pub(super) const ALL: [Page; 8] = [
        Page::Overview,
        Page::Blocked,
        Page::Replication,
        Page::Innodb,
        Page::Deadlock,
        Page::Statements,
        Page::Counters,
        Page::Host,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Page::Overview => "overview",
            Page::Blocked => "blocked",
            Page::Replication => "replication",
            Page::Innodb => "innodb",
            Page::Deadlock => "deadlock",
            Page::Statements => "statements",
            Page::Counters => "counters",
            Page::Host => "host",
        }
    }
}

/// A time in the past.
struct Past {
    /// The number of its frame.
    frame: usize,
    /// The numbers of that time.
    server: Server,
}

pub(super) struct Screen {
    pub(super) names: Vec<String>,
    watched: Vec<Watched>,
    pub(super) interval: Duration,
    pub(super) shown: usize,
    pub(super) page: Page,
    /// Which numbers are at the top of the overview.
    pub(super) view: usize,
    /// Whether lists are in the order of names, or of accounts.
    pub(super) is_by_name: bool,
    /// Whether counters that do not change are shown too.
    pub(super) is_all: bool,
    pub(super) popup: Option<Popup>,
    pub(super) filter: String,
    /// Whether keys are typed into the filter.
    pub(super) is_typing: bool,
    /// The first item of the list that is shown.
    pub(super) from: usize,
    /// The connection that keys act on.
    pub(super) chosen: Option<u64>,
    /// The connections of the list, as it was drawn last.
    pub(super) ids: Vec<u64>,
    /// Whether a recording is shown: nobody can be asked.
    pub(super) is_recorded: bool,
    /// For how many seconds the shown server has not answered, if that is long.
    pub(super) silent_s: Option<u64>,
    past: Option<Past>,
    is_new: bool,
}

impl Screen {
    pub(super) fn new(names: Vec<String>, interval: Duration) -> Screen {
        Screen {
            watched: names.iter().map(|_| Watched::default()).collect(),
            names,
            interval,
            shown: 0,
            page: Page::Overview,
            view: 0,
            is_by_name: false,
            is_all: false,
            popup: None,
            filter: String::new(),
            is_typing: false,
            from: 0,
            chosen: None,
            ids: Vec::new(),
            is_recorded: false,
            silent_s: None,
            past: None,
            is_new: true,
        }
    }

    /// Whether it was never drawn.
    pub(super) fn is_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Processes an answer. While paused, what is shown stays.
    pub(super) fn take(&mut self, event: Event) {
        if let Some(watched) = self.watched.get_mut(event.server) {
            watched.take(event);
        }
    }

    /// Notes for how long the shown server has not answered. Returns whether that changes what is shown.
    pub(super) fn wait(&mut self, waited: Option<Duration>) -> bool {
        let least = SILENT.max(self.interval);
        let silent_s = waited.filter(|waited| *waited >= least).map(|waited| waited.as_secs());
        std::mem::replace(&mut self.silent_s, silent_s) != silent_s
    }

    /// Processes the answer to a key.
    pub(super) fn reply(&mut self, server: usize, reply: Reply) {
        let is_awaited = matches!(self.popup, Some(Popup::Asking(_))) && server == self.shown;
        match reply {
            Reply::Ended(id, how, outcome) => {
                let text = match (outcome, how) {
                    (Outcome::LeftOut(why), _) => format!("not ended: {why}"),
                    (Outcome::Told, How::Query) => format!("the statement of {id} was told to end"),
                    (Outcome::Told, How::Connection) => format!("connection {id} was told to end"),
                };
                if let Some(watched) = self.watched.get_mut(server) {
                    watched.say(text);
                }
            }
            // The user has gone on.
            _ if !is_awaited => {}
            Reply::Offer(Ok(target), how) => self.popup = Some(Popup::Confirm(target, how)),
            Reply::Offer(Err(why), _) | Reply::Failed(why) => self.popup = Some(Popup::text("", &why)),
            Reply::Connection(connection) => self.popup = Some(Popup::connection(connection.as_deref())),
            Reply::Plan(plan) => self.popup = Some(Popup::plan(plan)),
        }
    }

    pub(super) fn watched(&self) -> &Watched {
        &self.watched[self.shown]
    }

    /// The numbers that are shown: those of now, or of a time in the past.
    pub(super) fn server(&self) -> &Server {
        self.past.as_ref().map_or(&self.watched().live, |past| &past.server)
    }

    /// What the server said at the shown time.
    pub(super) fn frame(&self) -> Option<&Frame> {
        let newest = self.watched().newest();
        self.watched().frame(self.past.as_ref().map_or(newest, |past| past.frame))
    }

    /// Whether a time in the past is shown.
    pub(super) fn is_past(&self) -> bool {
        self.past.is_some()
    }

    pub(super) fn views(&self) -> &'static [View] {
        &VIEWS
    }

    /// Shows the newest of what a recording has.
    pub(super) fn show_recording(&mut self) {
        self.is_recorded = true;
        self.go_to(self.watched().newest());
    }

    fn go_to(&mut self, frame: usize) {
        self.past = Some(Past { frame, server: self.watched().at(frame) });
    }

    /// Goes back or forward in time.
    fn travel(&mut self, seconds: i64) {
        let newest = self.watched().newest();
        let from = self.past.as_ref().map_or(newest, |past| past.frame);
        self.go_to(self.watched().beside(from, seconds));
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
        if let Some(popup) = self.popup.take() {
            return self.popup_key(popup, key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Step::End,
            KeyCode::Char(digit @ '1'..='9') => self.turn_to_digit(digit),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') => self.popup = Some(Popup::help()),
            KeyCode::Char(' ') => self.pause(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('a') => self.is_all = !self.is_all,
            KeyCode::Char('s') => self.is_by_name = !self.is_by_name,
            KeyCode::Char('v') => self.view = (self.view + 1) % self.views().len(),
            KeyCode::Char('k') => return self.offer(How::Query),
            KeyCode::Char('K') => return self.offer(How::Connection),
            KeyCode::Char('e') => return self.ask(Step::Explain),
            KeyCode::Enter => return self.whole_statement(),
            KeyCode::Left => self.travel(-1),
            KeyCode::Right => self.travel(1),
            KeyCode::Char('<') => self.travel(-60),
            KeyCode::Char('>') => self.travel(60),
            KeyCode::Tab => self.turn_server(1),
            KeyCode::BackTab => self.turn_server(self.names.len() - 1),
            _ => self.move_key(key.code),
        }
        Step::Go
    }

    fn turn_to_digit(&mut self, digit: char) {
        let at = digit.to_digit(10).and_then(|digit| usize::try_from(digit.checked_sub(1)?).ok());
        if let Some(page) = at.and_then(|at| Page::ALL.get(at)) {
            (self.page, self.from, self.chosen) = (*page, 0, None);
        }
    }

    fn turn_server(&mut self, by: usize) {
        self.shown = (self.shown + by) % self.names.len();
        (self.from, self.chosen) = (0, None);
        if self.past.take().is_some() {
            self.go_to(self.watched().newest());
        }
    }

    /// Holds what is shown, or returns to now. A recording has no now.
    fn pause(&mut self) {
        if self.past.is_none() || self.is_recorded {
            self.go_to(self.watched().newest());
        } else {
            self.past = None;
        }
    }

    fn move_key(&mut self, code: KeyCode) {
        let by: i64 = match code {
            KeyCode::Down => 1,
            KeyCode::Up => -1,
            KeyCode::PageDown => 10,
            KeyCode::PageUp => -10,
            KeyCode::Home => i64::MIN / 2,
            _ => return,
        };
        let moved =
            |at: usize| usize::try_from(i64::try_from(at).unwrap_or(0).saturating_add(by)).unwrap_or(0);
        if self.ids.is_empty() {
            self.from = moved(self.from);
            return;
        }
        let at = self.chosen.and_then(|id| self.ids.iter().position(|one| *one == id));
        let next = at.map_or(0, moved).min(self.ids.len() - 1);
        self.chosen = self.ids.get(next).copied();
    }

    /// Asks about the chosen connection.
    fn ask(&mut self, question: impl FnOnce(u64) -> Step) -> Step {
        let Some(id) = self.chosen else {
            self.popup = Some(Popup::text("", "choose a connection first: up and down"));
            return Step::Go;
        };
        if self.is_past() {
            let why = match self.is_recorded {
                true => "this is a recording: nobody can be asked",
                false => "this is the past: space returns to now",
            };
            self.popup = Some(Popup::text("", why));
            return Step::Go;
        }
        self.popup = Some(Popup::Asking(format!("asking the server about {id}; any key stops the wait")));
        question(id)
    }

    fn offer(&mut self, how: How) -> Step {
        self.ask(|id| Step::Ask(Request::Offer(id, how)))
    }

    /// The whole statement: of the past, as much of it as was kept.
    fn whole_statement(&mut self) -> Step {
        let kept = self.chosen.filter(|_| self.is_past()).and_then(|id| self.kept_statement(id));
        match kept {
            Some(statement) => {
                self.popup = Some(Popup::text("statement", &statement));
                Step::Go
            }
            None => self.ask(|id| Step::Ask(Request::Connection(id))),
        }
    }

    fn kept_statement(&self, id: u64) -> Option<String> {
        let frame = self.frame()?;
        let picture = frame.incident.picture.as_ref();
        let connection = picture.and_then(|picture| picture.connections.get(&id));
        let of_picture = connection.map(|one| match &one.last_statement {
            Some(last) if one.statement.is_empty() => last.clone(),
            _ => one.statement.clone(),
        });
        let process = frame.sample.processes.iter().flatten().find(|process| process.id == id);
        of_picture.or_else(|| process.map(|process| process.statement.clone()))
    }

    fn popup_key(&mut self, popup: Popup, code: KeyCode) -> Step {
        match (popup, code) {
            (Popup::Confirm(target, how), KeyCode::Char('y')) => return Self::end(target, how),
            (Popup::Text(mut text), code) => {
                text.from = match code {
                    KeyCode::Down => text.from + 1,
                    KeyCode::Up => text.from.saturating_sub(1),
                    KeyCode::PageDown => text.from + 10,
                    KeyCode::PageUp => text.from.saturating_sub(10),
                    _ => return Step::Go,
                };
                self.popup = Some(Popup::Text(text));
            }
            _ => {}
        }
        Step::Go
    }

    fn end(target: Box<Target>, how: How) -> Step {
        Step::Ask(Request::End(target, how))
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
        (self.from, self.chosen) = (0, None);
    }
}
