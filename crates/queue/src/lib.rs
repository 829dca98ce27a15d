//! A durable message queue: rows are published, delivered to consumers, and acknowledged or returned.
//!
//! It knows no database server: rows are bytes, a condition is a [`Filter`], and an owner is a number.
//! docs/formats/queue.md describes the files.
//!
//! ```
//! use std::sync::Arc;
//! use queue::{Definition, Engine, Options, OwnerId, Session, Target, WaitOptions, WaitOutcome};
//!
//! # let parent = tempfile::tempdir()?;
//! # let folder = parent.path().join("jobs");
//! let options = Options { threads: 0, ..Options::new(|| 0, || [7; 16]) };
//! let engine = Engine::start(Arc::new(queue::RealDisk), options)?;
//! engine.create(&folder, &Definition::default())?;
//! let jobs = engine.open(&folder)?;
//! jobs.publish(&[b"hello"], None)?;
//!
//! let mut session = Session::new(OwnerId(1));
//! let targets = [Target { queue: jobs.clone(), filter: None, reader: None }];
//! let taken = session.wait(&targets, &mut WaitOptions::poll())?;
//! assert_eq!(taken, WaitOutcome::Taken(0));
//! let mut cursor = session.cursor(&jobs);
//! let (_, row) = cursor.advance()?.unwrap();
//! assert_eq!(row, b"hello");
//! session.end()?;
//! assert_eq!(jobs.status().waiting, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// From the lowest floor up: each module uses only those listed before it.
mod histogram;

mod counters;
mod error;
mod sync;

mod filter;

mod format;

mod row_attributes;

mod store;

mod index;

mod recovery;

mod queue;

mod consumer;

mod engine;

pub use disk::RealDisk;

pub use consumer::cursor::Cursor;
pub use consumer::leased_rows::LeasedRows;
pub use consumer::session::{Interrupter, Session};
pub use consumer::transaction::{PendingPrepare, PreparedTransaction, Savepoint, Transaction};
pub use consumer::wait::{Target, WaitOptions, WaitOutcome};
pub use counters::{Counters, Status};
pub use engine::{Engine, commit_multi_queue};
pub use error::Error;
pub use filter::Filter;
pub use format::checkpoint::{Definition, Sync};
pub use format::dedupe::Dedupe;
pub use format::delivery_rate::DeliveryRate;
pub use format::order::Order;
pub use format::origin::{Origin, SLOTS, Source};
pub use format::readers::READERS_MAX;
pub use format::record::RowId;
pub use format::retry_policy::{Backoff, RetryPolicy};
pub use format::transaction::Xid;
pub use histogram::{CLASS_ENDS_MS, CLASSES, Histogram};
pub use queue::lease_table::{DeliveryInfo, LeasedRow, Token};
pub use queue::owner::{OwnerId, Ownership};
pub use queue::readers::ReaderStatus;
pub use queue::retention::RetainedFilter;
pub use queue::shared::Options;
pub use queue::{PUBLISH_BYTES_MAX, Published, Queue};
