//! The queue core for ha_queue.cc: a C interface over the `queue` crate. `cargo xtask header` makes
//! `queue_abi.h` of it.
//!
//! Every exported function runs inside `guard`: a panic becomes an error code, and the queue it was about is
//! out of service until the server is restarted. THD, TABLE and everything else of the server stays in C++.
//!
//! # Safety
//! For every function: handles came from the function that gives them and were not ended since; other
//! pointers are to what their type says, for the duration of the call; handles are used by one thread at a
//! time, but for the interrupter, which any thread may use, and the queue, which all share.
#![expect(unsafe_code, reason = "C++ calls these functions and passes pointers")]
#![expect(clippy::missing_safety_doc, reason = "said once, for all functions")]

pub mod abi;
pub mod collation;
pub mod engine;
pub mod fault;
pub mod found;
pub mod guard;
pub mod hold;
pub mod origin;
pub mod publish;
pub mod queues;
pub mod session;
pub mod status;
pub mod take;
pub mod walk;
