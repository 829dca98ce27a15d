//! Why work ended without its result or with a part of it, as far as a caller tells it apart.
//!
//! The crates that join others (a repository, a replay, a hot copy) fail in many ways and pass their errors
//! on as [`anyhow::Error`]. Three kinds lead to another exit code, so they have a type that
//! [`anyhow::Error::downcast_ref`] finds, however much context was added above it.

/// A failure whose kind matters to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// What the user asked for can't be meant: found after the command line was parsed.
    #[error("{0}")]
    Usage(String),
    /// What was read is not what was written.
    #[error("{0}")]
    Damage(String),
    /// Somebody else holds something that is needed.
    #[error("{0}")]
    Busy(String),
    /// The user asked to stop.
    #[error("stopped by a signal")]
    Stopped,
}

/// How complete the result of work is that continues after items which it can't do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Everything is done.
    Complete,
    /// Something was left out; it was reported.
    Partial,
    /// Something that was read is not what was written; it was reported.
    Damaged,
}

impl Completeness {
    /// The same, once something more is left out.
    #[must_use]
    pub fn and_left_out(self) -> Completeness {
        if self == Completeness::Complete { Completeness::Partial } else { self }
    }
}

/// [`Failure::Usage`].
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Failure::Usage(message.into()).into()
}

/// [`Failure::Damage`].
pub fn damage(message: impl Into<String>) -> anyhow::Error {
    Failure::Damage(message.into()).into()
}

/// [`Failure::Busy`].
pub fn busy(message: impl Into<String>) -> anyhow::Error {
    Failure::Busy(message.into()).into()
}

/// An error with its causes. One whose text its parent repeats is left out.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for part in error.chain().map(ToString::to_string) {
        if !text.contains(&part) {
            text = if text.is_empty() { part } else { format!("{text}: {part}") };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_kind_is_found_below_any_context() {
        let error = Err::<(), _>(busy("db is locked")).context("backup").context("nightly").unwrap_err();
        assert_eq!(error.downcast_ref::<Failure>(), Some(&Failure::Busy("db is locked".to_owned())));
        assert_eq!(format!("{error:#}"), "nightly: backup: db is locked");
    }
}
