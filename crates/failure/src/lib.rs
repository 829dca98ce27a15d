//! Why work ended without its result, as far as a caller tells it apart.
//!
//! The crates that join others (a repository, a replay, a hot copy) fail in many ways and pass their errors on
//! as [`anyhow::Error`]. Three kinds lead to another exit code, so they have a type that
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
