//! Dates, durations, sizes, commands and foreign text, as people write and read them.
//!
//! It reads the clock and the time zone of this machine, and does nothing else with the outside.

pub mod date_time;
pub mod point_in_time;
pub mod shell;
pub mod text;
