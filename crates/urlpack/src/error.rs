//! What can go wrong, as far as a caller decides differently.

/// Why a model was refused or a value could not be turned back into a string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a model file of a version this library reads, or they were damaged.
    #[error("model file: {what} at offset {place}; take a fresh copy, or train it again")]
    Model {
        /// What was found wrong.
        what: &'static str,
        /// Byte offset in the model file.
        place: usize,
    },
    /// The packed value names another model than the one it was given to.
    #[error("value was packed with model number {found}, this is model number {ours}; load that model")]
    OtherModel {
        /// Number named by the value.
        found: u8,
        /// Number of the model that was asked.
        ours: u8,
    },
    /// The bytes are not what any string packs to.
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
    /// The registry of models is not as it was written.
    #[error(
        "registry of models: {what} in line {line}; put back a copy of it, or move it away and register every model again"
    )]
    Registry {
        /// What was found wrong.
        what: &'static str,
        /// Line of the file, from 1.
        line: usize,
    },
    /// The training options or the training data cannot give a model.
    #[error("cannot train: {what}")]
    Train {
        /// What to change.
        what: &'static str,
    },
}
