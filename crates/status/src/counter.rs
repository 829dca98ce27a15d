//! Status counters: sampled, told from gauges by a list of our own, and their changes over the time that
//! really passed.
//!
//! A [`watch::Watch`] takes samples of a server; [`change::between`] makes an [`change::Interval`] of two of
//! them; [`view`] has what people look at in it.

pub mod change;
pub mod digest;
pub mod kind;
pub mod number;
pub mod openmetrics;
mod own;
pub mod page;
pub mod part;
pub mod record;
pub mod sample;
pub mod series;
pub mod view;
pub mod watch;
