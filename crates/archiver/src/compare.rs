//! Compares what the server sends with what is archived.

use std::path::Path;

use anyhow::{Context, Result};
use binlog::archive::EventComparer;
use binlog::archive::segments::HashComparer;
use disk::{Disk, RealDisk, Source};
use humanize::text;

/// The beginning of the first event.
const FIRST: u64 = 4;

/// A part of an archived file that the server must have too.
pub(crate) enum Compare {
    /// Everything in a file up to there.
    Bytes(Box<EventComparer<Box<dyn Source>>>, u64),
    /// What a segment says of it.
    Sums(Box<HashComparer>),
}

impl Compare {
    /// Everything in a file up to there.
    pub(crate) fn open(path: &Path, end: u64) -> Result<Compare> {
        let file = RealDisk.open(path).with_context(|| text::path(path))?;
        Ok(Compare::Bytes(Box::new(EventComparer::new(file)), end))
    }

    /// Where what is archived ends.
    pub(crate) fn end(&self) -> u64 {
        match self {
            Compare::Bytes(_, end) => *end,
            Compare::Sums(sums) => sums.end(),
        }
    }

    /// Whether this can be the first event of the file.
    pub(crate) fn has_head(&mut self, event: &[u8]) -> Result<bool> {
        match self {
            Compare::Bytes(file, end) => has(file, *end, event, FIRST),
            Compare::Sums(sums) => Ok(sums.matches_first_event(event)),
        }
    }

    /// Whether an event is archived with the same bytes. That a file is in use is no difference. Events come
    /// in order, and with the last one before the end it is certain.
    pub(crate) fn has(&mut self, event: &[u8], at: u64) -> Result<bool> {
        match self {
            Compare::Bytes(file, end) => has(file, *end, event, at),
            Compare::Sums(sums) => Ok(sums.matches(event, at)),
        }
    }

    /// Whether bytes that are no event can be archived there.
    pub(crate) fn has_damaged(&mut self, event: &[u8], at: u64) -> Result<bool> {
        match self {
            Compare::Bytes(file, end) => has(file, *end, event, at),
            // What is archived was proven when it came.
            Compare::Sums(_) => Ok(false),
        }
    }
}

fn has(file: &mut EventComparer<Box<dyn Source>>, end: u64, event: &[u8], at: u64) -> Result<bool> {
    Ok(at + event.len() as u64 <= end && file.matches(event, at)?)
}
