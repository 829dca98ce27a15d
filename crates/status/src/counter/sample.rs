//! A sample: a server's status at one time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::kind::{self, Type};
use super::number::Number;
use super::part::{Digest, Process, Queue, Replica, Settings};

/// The name of a status variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// As the server spells it.
    pub text: Box<str>,
    /// Its type, from the list.
    pub ty: Type,
}

/// The names of a sample's values. Every sample of a server has the same names, so they are stored once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Names {
    list: Vec<Name>,
    places: BTreeMap<Box<str>, usize>,
}

impl Names {
    /// Names in the order of their values.
    #[must_use]
    pub fn new(names: impl Iterator<Item = String>) -> Names {
        let list: Vec<Name> = names.map(|name| Name { ty: kind::of(&name), text: name.into() }).collect();
        let places = list.iter().enumerate().map(|(at, name)| (name.text.clone(), at)).collect();
        Names { list, places }
    }

    /// All of them, in order.
    #[must_use]
    pub fn all(&self) -> &[Name] {
        &self.list
    }

    /// The index of a name's value.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

/// The value of a status variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(Number),
    /// Anything else.
    Text(Box<str>),
}

impl Value {
    /// Reads a value as a server prints it.
    #[must_use]
    pub fn parse(text: &str) -> Value {
        Number::parse(text).map_or_else(|| Value::Text(text.into()), Value::Number)
    }

    /// The value as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<Number> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

/// Why a sample can't be compared with the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It is the first one.
    First,
    /// The server was restarted meanwhile, so its counters began at zero.
    Restarted,
    /// The connection broke, but the server kept running and was asked over a new connection.
    Reconnected,
}

impl Begin {
    /// Its word in output and recordings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Begin::First => "first",
            Begin::Restarted => "restarted",
            Begin::Reconnected => "reconnected",
        }
    }

    /// The meaning of such a word.
    #[must_use]
    pub fn of(name: &str) -> Option<Begin> {
        [Begin::First, Begin::Restarted, Begin::Reconnected].into_iter().find(|begin| begin.name() == name)
    }
}

/// A server's status at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its time on a monotonic clock: halfway between question and answer.
    pub at: Duration,
    /// Its time in milliseconds since 1970.
    pub unix_ms: i64,
    /// How long the answer took.
    pub took: Duration,
    /// Set when this sample can't be compared with the previous one.
    pub begin: Option<Begin>,
    /// The names of the values.
    pub names: Arc<Names>,
    /// The values, in the order of the names.
    pub values: Vec<Value>,
    /// How much of each counter remora itself caused since the previous sample.
    pub own: BTreeMap<Box<str>, Number>,
    /// The sources that it replicates from. `None` if the account may not see them.
    pub replicas: Option<Vec<Replica>>,
    /// Its queues, if it has the engine.
    pub queues: Vec<Queue>,
    /// Statements by digest, if requested.
    pub digests: Option<Vec<Digest>>,
    /// The current processes, if requested.
    pub processes: Option<Vec<Process>>,
    /// The settings to which its numbers are compared.
    pub settings: Arc<Settings>,
}

impl Sample {
    /// When the server was asked, on the clock of `at`.
    pub(super) fn asked(&self) -> Duration {
        self.at.saturating_sub(self.took / 2)
    }

    /// When its answer had come.
    pub(super) fn answered(&self) -> Duration {
        self.at + self.took / 2
    }

    /// Adds what remora caused before a sample that is left out.
    pub fn add_own(&mut self, skipped: &Sample) {
        for (name, number) in &skipped.own {
            let entry = self.own.entry(name.clone()).or_default();
            *entry = *entry + *number;
        }
    }

    /// The value of a status variable, by its name in SHOW STATUS.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.names.place(name).and_then(|at| self.values.get(at))
    }

    /// The value of a status variable as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<Number> {
        self.value(name).and_then(Value::number)
    }
}

#[cfg(test)]
impl Sample {
    /// A sample of these status variables, so many seconds after the clock began.
    pub(super) fn of(second: u64, values: &[(&str, &str)]) -> Sample {
        Sample {
            at: Duration::from_secs(second),
            unix_ms: 1_700_000_000_000,
            took: Duration::from_micros(900),
            begin: None,
            names: Arc::new(Names::new(values.iter().map(|(name, _)| (*name).to_owned()))),
            values: values.iter().map(|(_, value)| Value::parse(value)).collect(),
            own: BTreeMap::new(),
            replicas: None,
            queues: Vec::new(),
            digests: None,
            processes: None,
            settings: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name() {
        let sample = Sample::of(0, &[("Questions", "7"), ("Version", "x")]);
        assert_eq!(sample.number("Questions"), Some(Number::from(7)));
        assert_eq!((sample.number("Version"), sample.value("No_such")), (None, None));
        assert_eq!(["Questions", "Version"].map(|name| sample.value(name).unwrap().to_string()), ["7", "x"]);
    }

    #[test]
    fn a_beginning_is_known_by_its_word() {
        let words = [Begin::First, Begin::Restarted, Begin::Reconnected].map(Begin::name);
        assert_eq!(words, ["first", "restarted", "reconnected"]);
        assert_eq!(words.map(Begin::of), [Begin::First, Begin::Restarted, Begin::Reconnected].map(Some));
        assert_eq!(Begin::of("second"), None);
    }
}
