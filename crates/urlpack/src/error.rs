//! Errors, as many kinds as callers treat differently.

/// Why a model was refused or a value could not be turned back into a string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a model file of a version that this library reads, or they are damaged.
    #[error("model file: {what} at offset {place}; take a fresh copy, or train it again")]
    Model {
        /// What was found wrong.
        what: &'static str,
        /// Byte offset in the model file.
        place: usize,
    },
    /// The packed value names another model than this one.
    #[error("value was packed with model number {found}, this is model number {ours}; load that model")]
    OtherModel {
        /// Number in the value.
        found: u8,
        /// Number of this model.
        ours: u8,
    },
    /// No string packs to these bytes.
    #[error("not a packed value: {what} at byte {place}; was it cut or stored in a text column?")]
    Corrupt {
        /// What was found wrong.
        what: &'static str,
        /// Byte offset in the packed value.
        place: usize,
    },
    /// The string in the value is longer than the caller allows.
    #[error("unpacked value is longer than {max_len} bytes; allow more")]
    TooLong {
        /// The caller's limit in bytes.
        max_len: usize,
    },
    /// The registry of models is damaged.
    #[error(
        "model registry: {what} in line {line}; restore a copy of it, or move it away and register every model again"
    )]
    Registry {
        /// What was found wrong.
        what: &'static str,
        /// Line of the file, from 1.
        line: usize,
    },
    /// The training options or the training data can't give a model.
    #[error("cannot train: {what}")]
    Train {
        /// What to change.
        what: &'static str,
    },
}
