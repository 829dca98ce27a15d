//! Status counters: samples, a list of our own that says which are counters and which are gauges, and changes
//! over the time that really passed.
//!
//! A [`sampler::Sampler`] takes samples of a server; [`change::between`] makes a [`change::Interval`] from
//! two of them; [`view`] has the numbers that people look at.

/// Appends to a text, like `write!`, which can't fail here.
macro_rules! put {
    ($text:expr, $($words:tt)*) => {
        $text.push_str(&format!($($words)*))
    };
}

/// The same with a line end.
macro_rules! put_line {
    ($text:expr, $($words:tt)*) => {{
        put!($text, $($words)*);
        $text.push('\n');
    }};
}

pub mod change;
pub mod digest;
pub mod event;
mod gtid;
pub mod kind;
pub mod number;
pub mod openmetrics;
mod overhead;
pub mod page;
pub mod part;
pub mod record;
pub mod sample;
pub mod sampler;
pub mod series;
mod status_query;
pub mod view;
