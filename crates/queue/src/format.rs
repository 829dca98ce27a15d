//! The bytes on disk: numbers, records, batches, checkpoints. docs/formats/queue.md describes them.

pub(crate) mod batch;
pub(crate) mod checkpoint;
pub(crate) mod dedupe;
pub(crate) mod delivery_rate;
pub(crate) mod lease_record;
pub(crate) mod order;
pub(crate) mod origin;
pub(crate) mod paused_keys;
pub(crate) mod readers;
pub(crate) mod record;
pub(crate) mod retention;
pub(crate) mod retry_policy;
pub(crate) mod segment_index;
pub(crate) mod transaction;
pub(crate) mod wire;
