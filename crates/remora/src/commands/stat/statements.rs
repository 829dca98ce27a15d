//! The statements that took the most time, shown below everything else.

use anyhow::Result;
use monitor::statement;
use status::counter::change::Interval;
use status::counter::digest::by_time;
use status::counter::sample::Sample;

use super::output::{Named, Output};
use crate::report::Report;

pub(crate) struct Statements {
    above: Box<dyn Output>,
    most: usize,
}

impl Statements {
    pub(crate) fn new(above: Box<dyn Output>, most: usize) -> Statements {
        Statements { above, most }
    }
}

impl Output for Statements {
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, report: &Report) -> Result<()> {
        self.above.show(server, interval, report)?;
        for digest in by_time(interval).into_iter().flatten().take(self.most) {
            report.data(&statement::line(&digest, interval.seconds))?;
        }
        Ok(())
    }

    fn event(&mut self, server: Named<'_>, now: &Sample, event: &str, report: &Report) -> Result<()> {
        self.above.event(server, now, event, report)
    }
}
