//! The queue core for ha_queue.cc: a C interface to the `queue` crate. `cargo xtask header` makes
//! `queue_abi.h` from it.
//!
//! Every exported function runs inside `guard`: a panic becomes an error code, and puts the queue of the call
//! out of service until the server is restarted. THD, TABLE and everything else of the server stays in C++.
//!
//! # Safety
//! Every function requires the following. Handles come from the function that makes them and were not freed.
//! Other pointers are to what their type says, for the duration of the call. One thread at a time uses a
//! handle; but any thread may use the interrupter, and all threads share the queue.
#![expect(unsafe_code, reason = "C++ calls these functions and passes pointers")]
#![expect(clippy::missing_safety_doc, reason = "said once, for all functions")]

pub mod abi;
pub mod alter_copy;
pub mod collation;
pub mod commit_order;
pub mod cursor;
pub mod engine;
pub mod fault;
pub mod guard;
pub mod lease;
pub mod origin;
pub mod pending_decisions;
pub mod publish;
pub mod queue_cache;
pub mod queues;
pub mod schedule;
pub mod session;
pub mod statement_leases;
pub mod status;
pub mod transaction;
pub mod transaction_calls;
pub mod wait;
