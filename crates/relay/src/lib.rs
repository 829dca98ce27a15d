//! Moves rows of a queue to a queue of another server or to a broker, and messages of a broker into a queue,
//! without loss and without duplicates.
//!
//! A [`Route`] moves rows, a [`Receipt`] takes messages. The destination notes where a row is from in the
//! same record of its log as the row, so a row that is sent again is left out.

pub mod column;
mod forward;
mod insert;
mod message_source;
mod publish;
pub mod queue_table;
mod receive;

pub use forward::{Ended, Moved, Relay, Route, Rows, Summary, To};
pub use publish::{Broker, Messages};
pub use receive::Receipt;
