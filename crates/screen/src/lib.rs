//! Screens in a terminal: servers, for `remora top` and `remora stat --live`, and queues, for
//! `remora queue status --live`.
//!
//! A screen is drawn from samples, or from a recording of them, and turns keys into requests. It asks no
//! server itself: `monitor` does. So its tests draw what they made up.

pub mod queues;
pub mod servers;
pub mod terminal;

/// Why a screen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A key ended it, or all was shown that was wanted.
    Done,
    /// The terminal is gone, as by SIGHUP.
    HungUp,
    /// A signal asked to stop.
    Stopped,
}
