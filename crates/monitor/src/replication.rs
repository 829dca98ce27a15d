//! What is known of a source that a server follows, in words: for the screen and for a page.

use progress::{as_f64, clock, count};
use status::counter::part::Replica;

/// How a source is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Reading or applying has stopped.
    Stopped,
    /// It is not connected to its source, and tries again.
    Connecting,
    /// It reads and applies.
    Runs,
}

impl State {
    /// That of a source.
    #[must_use]
    pub fn of(replica: &Replica) -> State {
        match replica.trouble() {
            Some(_) => State::Stopped,
            None if replica.io != "Yes" => State::Connecting,
            None => State::Runs,
        }
    }

    /// The same in a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Stopped => "STOPPED",
            State::Connecting => "connecting",
            State::Runs => "runs",
        }
    }
}

/// `from db1:3306  channel eu`
pub fn title(replica: &Replica) -> String {
    let name = if replica.channel.is_empty() { "" } else { "  channel " };
    format!("from {}{name}{}", replica.source, replica.channel)
}

/// All that is known of its delay and how far it is, each with a name of at most 11 letters. `now_ms`: the
/// time of the sample, in milliseconds since 1970.
pub fn facts(replica: &Replica, now_ms: i64) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("reads", format!("{}  {}", replica.io, replica.io_state)),
        ("applies", format!("{}  {}", replica.sql, replica.sql_state)),
    ];
    // No number is not zero.
    let behind =
        replica.delay_s.map_or("unknown".to_owned(), |s| format!("{} behind its source", clock(as_f64(s))));
    facts.push(("delay", behind + &wanted(replica)));
    facts.extend(replica.unapplied.map(|unapplied| {
        ("not applied", format!("{} received and not applied, by GTID", count(unapplied, "transaction")))
    }));
    facts.extend(replica.applied_ms.map(|applied| {
        let age = as_f64(u64::try_from(now_ms - applied).unwrap_or(0)) / 1000.0;
        ("applied", format!("last a transaction that the source committed {} ago", clock(age)))
    }));
    if !replica.read_to.is_empty() {
        facts.push(("log", format!("read to {}, applied to {}", replica.read_to, replica.applied_to)));
    }
    facts
}

/// The delay on purpose, which is no fault.
fn wanted(replica: &Replica) -> String {
    let text = |seconds| format!("; {} of it on purpose", clock(as_f64(seconds)));
    replica.wanted_delay_s.map_or_else(String::new, text)
}
