//! A statement by digest, as a line.

use progress::as_f64;
use status::counter::part::Digest;

use crate::number::short;

/// The most characters of a statement that are shown.
const TEXT_MAX: usize = 120;

/// Statements per second, their total time per second, the average time and rows read of one, and the text.
pub fn line(digest: &Digest, seconds: f64) -> String {
    let (count, time_s) = (as_f64(digest.count), as_f64(digest.time_us) / 1e6);
    let text: String = digest.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = text.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect();
    let schema = if digest.schema.is_empty() { String::new() } else { format!("{}: ", digest.schema) };
    format!(
        "{:>8}/s {:>7} s/s {:>8} ms {:>8} rows  {schema}{text}",
        short(count / seconds),
        short(time_s / seconds),
        short(time_s * 1000.0 / count),
        short(as_f64(digest.examined) / count),
    )
}
