//! Errors.

/// Why something can't be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes differ from what was sealed, or were sealed as something else.
    #[error("{0}")]
    Damaged(&'static str),

    /// A file that is not sealed.
    #[error("not a sealed file, unlike all others here")]
    Foreign,

    /// A text that is not a key.
    #[error("line {line}: {what}")]
    NotAKey {
        /// The line, from 1 on.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },

    /// The keys of a repository are wrapped for another key.
    #[error("this is for the key {wanted}, but the key {given} was given")]
    OtherKey {
        /// The id of the key that opens it.
        wanted: String,
        /// The id of the key that was given.
        given: String,
    },

    /// Only the full key can do this.
    #[error(
        "this needs the full key {0}; the given key is its put key, which can add backups but not read data"
    )]
    NeedsFull(String),

    /// Written by a newer version.
    #[error("written by a newer remora")]
    Newer,

    /// The operating system has no random bytes.
    #[error("the system gives no random bytes")]
    NoRandom,
}
