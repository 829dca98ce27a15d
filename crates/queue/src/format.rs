//! The bytes on disk: numbers, records, batches, checkpoints. docs/formats/queue.md describes them.

pub(crate) mod batch;
pub(crate) mod checkpoint;
pub(crate) mod dedupe;
pub(crate) mod keep;
pub(crate) mod lease;
pub(crate) mod listing;
pub(crate) mod order;
pub(crate) mod origin;
pub(crate) mod policy;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod transaction;
pub(crate) mod wire;
