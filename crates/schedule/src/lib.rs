//! Schedules of queues: at which times a message is put into a queue, and putting it there, each time once.
//!
//! A schedule is a row of [`TABLE`]: a cron expression, a time zone, a queue, and the message. [`Schedule`]
//! knows its times (ticks). [`Runner`] is called again and again by the engine: it reads the table, and
//! delivers the ticks that have come. The message and the time of the tick are written in one transaction, so
//! a tick is delivered once, whatever crashes. The engine gives it the clock and a [`Session`].

mod message;
mod runner;
mod spec;

pub use message::Target;
pub use runner::{Failed, Pass, Runner, Session, TABLE};
pub use spec::{Due, Missed, Schedule};

/// Why a schedule can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a cron expression.
    #[error("'{spec}' is not a cron expression: {why}")]
    Spec {
        /// What was given.
        spec: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not a time zone that is known here.
    #[error(
        "'{0}' is not a time zone; use a name such as 'Europe/Berlin', 'UTC', or an offset such as '+02:00'"
    )]
    Zone(String),
    /// A cron expression that is right and never comes, such as one for 30 February.
    #[error("'{0}' does not come within ten years")]
    Never(String),
    /// Not the name of a table.
    #[error("'{0}' is not the name of a queue; write it as 'database.table'")]
    Target(String),
    /// Not a message.
    #[error(
        "the message is not a JSON object with a value for each column, such as {{\"body\": \"hello\"}}: {0}"
    )]
    Message(String),
}
