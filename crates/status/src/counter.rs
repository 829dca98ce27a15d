//! Status counters: sampled, told from gauges by a list of our own, and their changes over the time that
//! really passed.
//!
//! A [`watch::Watch`] takes samples of a server; [`change::between`] makes an [`change::Interval`] of two of
//! them; [`view`] has what people look at in it.

/// Adds to a text, as `write!` does, which can't fail there.
macro_rules! put {
    ($text:expr, $($words:tt)*) => {
        $text.push_str(&format!($($words)*))
    };
}

/// The same with the end of a line.
macro_rules! put_line {
    ($text:expr, $($words:tt)*) => {{
        put!($text, $($words)*);
        $text.push('\n');
    }};
}

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
