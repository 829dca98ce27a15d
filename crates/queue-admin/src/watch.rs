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
    /// How many rows came or went with each sync since the last sample: how many shared it. `None` if there
    /// was none.
    pub rows_per_sync: Option<f64>,
    /// How long rows waited and were worked on, if that was asked for.
    pub spans: Spans,
}

/// Samples the queues of a server.
#[derive(Default)]
pub struct Watch {
    /// Whether to ask for times too.
    spans: bool,
    /// How many rows each queue had written and removed, and its syncs.
    before: BTreeMap<String, (u64, u64, u64)>,
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
            let earlier = before.insert(line.name.clone(), (line.written, line.removed, line.syncs));
            let rates = earlier.zip(seconds).map(|((written, removed, _), seconds)| {
                let rate = |now: u64, before: u64| as_f64(now.saturating_sub(before)) / seconds;
                (rate(line.written, written), rate(line.removed, removed))
            });
            let rows_per_sync = earlier.and_then(|(written, removed, syncs)| {
                let syncs = line.syncs.checked_sub(syncs).filter(|syncs| *syncs > 0)?;
                let rows = (line.written + line.removed).saturating_sub(written + removed);
                Some(as_f64(rows) / as_f64(syncs))
            });
            let spans = spans.remove(&line.name).unwrap_or_default();
            Sample { line, rates, rows_per_sync, spans }
        };
        Ok(lines.into_iter().map(sample).collect())
    }
}
