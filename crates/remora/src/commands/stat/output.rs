//! Turns samples into intervals and shows them.

use std::time::Duration;

use anyhow::Result;
use humanize::text;
use monitor::fleet::Event;
use monitor::time::clock;
use progress::Progress;
use status::counter::change::{Interval, between};
use status::counter::event::events;
use status::counter::sample::Sample;

use crate::report::Report;

/// A server's name for display.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) name: &'a str,
    /// The width of the longest name; none if there is only one server.
    pub(crate) width: Option<usize>,
}

/// A display for intervals.
pub(crate) trait Output {
    /// Shows an interval, or why it has no changes.
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, report: &Report) -> Result<()>;

    /// Shows what happened to a server before this sample.
    fn event(&mut self, server: Named<'_>, now: &Sample, event: &str, report: &Report) -> Result<()> {
        let name = server.width.map_or_else(String::new, |_| format!("{}: ", server.name));
        report.warn(&text::plain(&format!("{} {name}{event}", clock(now))));
        Ok(())
    }
}

/// Shows nothing.
pub(crate) struct Silent;

impl Output for Silent {
    fn show(&mut self, _server: Named<'_>, _interval: &Interval<'_>, _report: &Report) -> Result<()> {
        Ok(())
    }
}

/// What is wanted of a recording of a server.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The shortest interval; shorter ones are combined.
    pub(crate) least: Duration,
    /// How many intervals are still to be shown.
    pub(crate) left: u64,
}

/// The samples so far of several servers.
pub(crate) struct Follow {
    names: Vec<String>,
    last: Vec<Option<Sample>>,
    /// Samples that came too soon after the last one, and wait for the next.
    waiting: Vec<Option<Sample>>,
    /// Which of them do not answer now.
    lost: Vec<bool>,
}

impl Follow {
    pub(crate) fn new(names: Vec<String>) -> Follow {
        let last = names.iter().map(|_| None).collect();
        let lost = vec![false; names.len()];
        let waiting = names.iter().map(|_| None).collect();
        Follow { names, last, waiting, lost }
    }

    pub(crate) fn named(&self, server: usize) -> Named<'_> {
        let longest = self.names.iter().map(|name| name.chars().count()).max();
        Named { name: &self.names[server], width: longest.filter(|_| self.names.len() > 1) }
    }

    /// A message about a server; with several servers it names the server.
    pub(crate) fn say(&self, server: usize, text: &str) -> String {
        if self.names.len() > 1 { format!("{}: {text}", self.names[server]) } else { text.to_owned() }
    }

    /// Processes the next answer of a server and shows the interval that it ends. Returns whether there was
    /// one.
    pub(crate) fn take(&mut self, event: Event, output: &mut dyn Output, report: &Report) -> Result<bool> {
        let server = event.server;
        let sample = match event.what {
            Ok(sample) => sample,
            Err(error) => {
                if !std::mem::replace(&mut self.lost[server], true) {
                    report.warn(&self.say(server, &format!("{error}; remora tries again at each interval")));
                }
                return Ok(false);
            }
        };
        self.lost[server] = false;
        self.sample(server, sample, output, report)
    }

    /// The same with a sample. One that follows the last shown sample within less than `least` waits for the
    /// next. Samples before and after a mark are never combined. Returns how many intervals were shown; once
    /// none is left, nothing else is shown either.
    pub(crate) fn merge(
        &mut self,
        (server, mut sample): (usize, Sample),
        Wanted { least, left }: Wanted,
        output: &mut dyn Output,
        report: &Report,
    ) -> Result<u64> {
        let mut shown = 0;
        let before = self.waiting[server].as_ref().or(self.last[server].as_ref());
        let is_marked = !between(before, &sample).is_whole();
        if is_marked {
            shown += self.show_waiting(server, output, report)?;
            if shown >= left {
                return Ok(shown);
            }
        } else if let Some(waiting) = self.waiting[server].take() {
            sample.add_own(&waiting);
        }
        let since = self.last[server].as_ref().map(|last| sample.at.saturating_sub(last.at));
        // A sample may be taken a little earlier or later than scheduled.
        if !is_marked && since.is_some_and(|since| since + least / 20 < least) {
            self.waiting[server] = Some(sample);
            return Ok(shown);
        }
        Ok(shown + u64::from(self.sample(server, sample, output, report)?))
    }

    /// Shows a server's sample that waits for the next one.
    fn show_waiting(&mut self, server: usize, output: &mut dyn Output, report: &Report) -> Result<u64> {
        match self.waiting[server].take() {
            Some(sample) => self.sample(server, sample, output, report).map(u64::from),
            None => Ok(0),
        }
    }

    /// Shows what still waits, because nothing follows.
    pub(crate) fn finish(&mut self, output: &mut dyn Output, report: &Report) -> Result<()> {
        (0..self.names.len()).try_for_each(|server| self.show_waiting(server, output, report).map(drop))
    }

    fn sample(
        &mut self,
        server: usize,
        sample: Sample,
        output: &mut dyn Output,
        report: &Report,
    ) -> Result<bool> {
        let named = self.named(server);
        for event in events(self.last[server].as_ref(), &sample) {
            output.event(named, &sample, &event, report)?;
        }
        let interval = between(self.last[server].as_ref(), &sample);
        // The very first sample says nothing; the first sample of another run in a recording says that there
        // was a gap.
        if self.last[server].is_some() {
            output.show(named, &interval, report)?;
        }
        let is_whole = interval.is_whole();
        self.last[server] = Some(sample);
        Ok(is_whole)
    }
}
