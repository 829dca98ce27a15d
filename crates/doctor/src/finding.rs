//! A finding: what was looked at, how good it is, and what fixes it.

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is as it should be.
    Good,
    /// It works, but something is missing on some day.
    Warning,
    /// What the user wants does not work.
    Bad,
}

impl State {
    /// As it is shown.
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
pub struct Finding {
    /// How good it is.
    pub state: State,
    /// What was looked at.
    pub subject: &'static str,
    /// What was found.
    pub what: String,
    /// What fixes it, if something must be fixed.
    pub fix: Option<Fix>,
}

/// What fixes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A statement now, and a line in the option file for the next start.
    Set {
        /// The statement.
        sql: String,
        /// The line.
        option: Option<String>,
    },
    /// A line in the option file, and a restart.
    Restart(String),
    /// A command, or what to do.
    Command(String),
}

impl Fix {
    /// As it is shown, in lines.
    pub fn shown(&self) -> Vec<String> {
        match self {
            Fix::Set { sql, option: None } => vec![format!("{sql};")],
            Fix::Set { sql, option: Some(option) } => {
                vec![format!("{sql};"), format!("and in [mysqld] of the option file: {option}")]
            }
            Fix::Restart(option) => {
                vec![format!("in [mysqld] of the option file, then restart the server: {option}")]
            }
            Fix::Command(text) => vec![text.clone()],
        }
    }

    /// Sets a variable, now and for the next start.
    pub fn set(name: &str, value: &str) -> Option<Fix> {
        let sql = format!("SET GLOBAL {name} = {value}");
        let option = format!("{name}={}", value.trim_matches('\''));
        Some(Fix::Set { sql, option: Some(option) })
    }
}

fn finding(state: State, subject: &'static str, what: impl Into<String>, fix: Option<Fix>) -> Finding {
    Finding { state, subject, what: what.into(), fix }
}

pub(crate) fn good(subject: &'static str, what: impl Into<String>) -> Finding {
    finding(State::Good, subject, what, None)
}

pub(crate) fn warning(subject: &'static str, what: impl Into<String>, fix: Option<Fix>) -> Finding {
    finding(State::Warning, subject, what, fix)
}

pub(crate) fn bad(subject: &'static str, what: impl Into<String>, fix: Option<Fix>) -> Finding {
    finding(State::Bad, subject, what, fix)
}
