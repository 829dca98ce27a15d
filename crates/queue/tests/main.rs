//! The queue through its public interface: what it promises, alone, among threads, and after crashes.
#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/alter_copy.rs"]
mod alter_copy;
#[path = "main/basic.rs"]
mod basic;
#[path = "main/concurrency.rs"]
mod concurrency;
#[path = "main/corrupt.rs"]
mod corrupt;
#[path = "main/crash.rs"]
mod crash;
#[path = "main/dedupe.rs"]
mod dedupe;
#[path = "main/dedupe_crash.rs"]
mod dedupe_crash;
#[path = "main/due.rs"]
mod due;
#[path = "main/fifo.rs"]
mod fifo;
#[path = "main/fifo_crash.rs"]
mod fifo_crash;
#[path = "main/full.rs"]
mod full;
#[path = "main/idle.rs"]
mod idle;
#[path = "main/large.rs"]
mod large;
#[path = "main/lease.rs"]
mod lease;
#[path = "main/lease_crash.rs"]
mod lease_crash;
#[path = "main/lease_model.rs"]
mod lease_model;
#[path = "main/lease_transaction.rs"]
mod lease_transaction;
#[path = "main/model.rs"]
mod model;
#[path = "main/multi_queue_commit.rs"]
mod multi_queue_commit;
#[path = "main/order_crash.rs"]
mod order_crash;
#[path = "main/order_model.rs"]
mod order_model;
#[path = "main/paused.rs"]
mod paused;
#[path = "main/paused_keys.rs"]
mod paused_keys;
#[path = "main/priority.rs"]
mod priority;
#[path = "main/rate.rs"]
mod rate;
#[path = "main/rate_key.rs"]
mod rate_key;
#[path = "main/reader.rs"]
mod reader;
#[path = "main/reader_crash.rs"]
mod reader_crash;
#[path = "main/reader_model.rs"]
mod reader_model;
#[path = "main/retention.rs"]
mod retention;
#[path = "main/retention_crash.rs"]
mod retention_crash;
#[path = "main/retention_model.rs"]
mod retention_model;
#[path = "main/retry_policy.rs"]
mod retry_policy;
#[path = "main/retry_policy_crash.rs"]
mod retry_policy_crash;
#[path = "main/row_name.rs"]
mod row_name;
#[path = "main/same.rs"]
mod same;
#[path = "main/support.rs"]
mod support;
#[path = "main/thread.rs"]
mod thread;
#[path = "main/times.rs"]
mod times;
#[path = "main/transaction.rs"]
mod transaction;
#[path = "main/transaction_crash.rs"]
mod transaction_crash;
#[path = "main/transaction_model.rs"]
mod transaction_model;
