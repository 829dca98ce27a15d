//! Queues sampled again and again: rows per second.

use std::collections::BTreeMap;
use std::time::Instant;

use progress::as_f64;
use server::Session;

use crate::overview::{Line, Spans, lines, spans};

/// A queue in one sample.
pub struct Sample {
    /// What it has.
    pub line: Line,
    /// How many rows came and went per second since the last sample.
    pub rates: Option<(f64, f64)>,
    /// How long rows waited and were worked on, if that was asked for.
    pub spans: Spans,
}

/// Samples the queues of a server.
#[derive(Default)]
pub struct Watch {
    /// Whether to ask for times too.
    spans: bool,
    /// How many rows each queue had written and removed.
    before: BTreeMap<String, (u64, u64)>,
    asked: Option<Instant>,
}

impl Watch {
    /// `spans`: whether to ask for times, too.
    #[must_use]
    pub fn new(spans: bool) -> Watch {
        Watch { spans, ..Watch::default() }
    }

    /// A sample of each queue that the server has used.
    pub fn look(&mut self, session: &mut Session) -> anyhow::Result<Vec<Sample>> {
        let lines = lines(session)?;
        let mut spans = if self.spans { spans(session)? } else { BTreeMap::new() };
        let now = Instant::now();
        let seconds = self.asked.replace(now).map(|asked| now.duration_since(asked).as_secs_f64());
        let before = &mut self.before;
        let sample = |line: Line| {
            let earlier = before.insert(line.name.clone(), (line.written, line.removed));
            let rates = earlier.zip(seconds).map(|((written, removed), seconds)| {
                let rate = |now: u64, before: u64| as_f64(now.saturating_sub(before)) / seconds;
                (rate(line.written, written), rate(line.removed, removed))
            });
            let spans = spans.remove(&line.name).unwrap_or_default();
            Sample { line, rates, spans }
        };
        Ok(lines.into_iter().map(sample).collect())
    }
}
