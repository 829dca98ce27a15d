//! The statements that took the most time, shown below everything else.

use anyhow::Result;
use monitor::number::short;
use status::counter::change::Interval;
use status::counter::digest::by_time;
use status::counter::part::Digest;
use status::counter::sample::Sample;

use super::output::{Named, Output};
use crate::report::{Report, as_f64};

/// The most characters of a statement that are shown.
const TEXT_MAX: usize = 120;

pub(crate) struct Statements {
    above: Box<dyn Output>,
    most: usize,
}

impl Statements {
    pub(crate) fn new(above: Box<dyn Output>, most: usize) -> Statements {
        Statements { above, most }
    }
}

/// Statements per second, their total time per second, the average time and rows read of one, and the text.
pub(crate) fn line(digest: &Digest, seconds: f64) -> String {
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

impl Output for Statements {
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, report: &Report) -> Result<()> {
        self.above.show(server, interval, report)?;
        for digest in by_time(interval).into_iter().flatten().take(self.most) {
            report.data(&line(&digest, interval.seconds))?;
        }
        Ok(())
    }

    fn event(&mut self, server: Named<'_>, now: &Sample, event: &str, report: &Report) -> Result<()> {
        self.above.event(server, now, event, report)
    }
}
