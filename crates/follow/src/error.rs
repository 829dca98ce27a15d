//! Errors, as many kinds as callers treat differently.

/// Why following ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log has something that can't be applied exactly.
    #[error(
        "{place}: {what}. Everything before that is applied; --resume compares all rows with a new snapshot, sends what \
         differs, and follows again"
    )]
    Unapplied {
        /// Where in the source's log.
        place: String,
        /// What it is.
        what: String,
    },

    /// The target is not as the log says.
    #[error(
        "{place}: the target differs from the source: {what}; --resume compares all rows with a new snapshot, and sends \
         what differs"
    )]
    Different {
        /// Where in the source's log.
        place: String,
        /// What differs.
        what: String,
    },

    /// The log can't be read.
    #[error("the source sent a damaged event of {file}: {source}")]
    Corrupt {
        /// The file of the source's log.
        file: String,
        /// What is wrong.
        source: binlog::Corrupt,
    },

    /// It can't be done as it was asked for.
    #[error("{0}")]
    Refused(String),

    /// It can't be meant as it was asked for.
    #[error("{0}")]
    Usage(String),

    /// Another process does the same.
    #[error("another copy of the same is running into this server; wait until it has ended")]
    Busy,

    /// It is to be done again from the noted position.
    #[error("{0}")]
    Again(&'static str),

    /// Rows could not be compared, because too much changed all the time.
    #[error("too much changes, or the target is too far behind, to compare {0}")]
    Undecided(String),

    /// The cut-over did not happen, and the source is as it was.
    #[error("no cut-over: {0}; the source is as it was, and --resume continues")]
    NotCutOver(String),

    /// Nobody knows whether the target has taken over, and the source stays closed.
    #[error(
        "the target was lost at the moment of the cut-over ({0}), so nobody knows whether it has taken over; the source stays \
         read-only. --resume looks, and gives the source back if it has not"
    )]
    Unknown(server::Error),

    /// The target has taken over already.
    #[error("the target has taken over already ({0})")]
    Over(String),

    /// Rows could not be read.
    #[error(transparent)]
    Dump(#[from] dump::Error),

    /// A server refused something, or was lost.
    #[error(transparent)]
    Server(#[from] server::Error),
}

impl Error {
    /// Whether it may well go on with another connection.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Error::Again(_) => true,
            Error::Server(error) | Error::Dump(dump::Error::Server(error)) => error.is_passing(),
            Error::Dump(dump::Error::Object { source, .. }) => source.is_passing(),
            Error::Undecided(_) => true,
            _ => false,
        }
    }

    /// Where it ended and why, if only a new snapshot helps.
    pub(crate) fn final_stop(&self) -> Option<String> {
        match self {
            Error::Unapplied { place, what } => Some(format!("{place}: {what}")),
            Error::Different { place, what } => Some(format!("{place}: the target differed: {what}")),
            _ => None,
        }
    }
}
