//! A line of the page: what was looked at, how good it is, and what mends it.

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Good,
    /// It works, but something is missing on some day.
    Warning,
    /// What the user wants does not work.
    Bad,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Warning => "warning",
            State::Bad => "bad",
        }
    }
}

/// A check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub state: State,
    pub subject: &'static str,
    pub what: String,
    pub mend: Option<Mend>,
}

/// What mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// A statement now, and a line in the option file for the next start.
    Set { sql: String, option: Option<String> },
    /// A line in the option file, and a restart.
    Restart(String),
    /// A command, or what to do.
    Command(String),
}

impl Mend {
    pub fn shown(&self) -> Vec<String> {
        match self {
            Mend::Set { sql, option: None } => vec![format!("{sql};")],
            Mend::Set { sql, option: Some(option) } => {
                vec![format!("{sql};"), format!("and in [mysqld] of the option file: {option}")]
            }
            Mend::Restart(option) => {
                vec![format!("in [mysqld] of the option file, then restart the server: {option}")]
            }
            Mend::Command(text) => vec![text.clone()],
        }
    }

    /// Sets a variable, now and for the next start.
    pub fn set(name: &str, value: &str) -> Option<Mend> {
        let sql = format!("SET GLOBAL {name} = {value}");
        let option = format!("{name}={}", value.trim_matches('\''));
        Some(Mend::Set { sql, option: Some(option) })
    }
}

pub fn line(state: State, subject: &'static str, what: impl Into<String>, mend: Option<Mend>) -> Line {
    Line { state, subject, what: what.into(), mend }
}

pub fn good(subject: &'static str, what: impl Into<String>) -> Line {
    line(State::Good, subject, what, None)
}

pub fn warning(subject: &'static str, what: impl Into<String>, mend: Option<Mend>) -> Line {
    line(State::Warning, subject, what, mend)
}

pub fn bad(subject: &'static str, what: impl Into<String>, mend: Option<Mend>) -> Line {
    line(State::Bad, subject, what, mend)
}
