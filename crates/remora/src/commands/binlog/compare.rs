//! Compares what the server sends with what is archived.

use std::path::Path;

use anyhow::{Context, Result};
use binlog::event::{FLAGS_AT, IN_USE};
use disk::{Disk, RealDisk, Source};

use crate::shown;

/// The beginning of the first event.
const FIRST: u64 = 4;

/// A part of an archived file that the server must have too.
pub(super) struct Compare {
    source: Box<dyn Source>,
    end: u64,
}

impl Compare {
    /// Everything in a file up to there.
    pub(super) fn open(path: &Path, end: u64) -> Result<Compare> {
        Ok(Compare { source: RealDisk.open(path).with_context(|| shown::path(path))?, end })
    }

    /// Where what is archived ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether an event is archived with the same bytes. That a file is in use is no difference.
    pub(super) fn has(&self, event: &[u8], at: u64) -> Result<bool> {
        let mut own = vec![0; event.len()];
        let len = self.source.read_full_at(at, &mut own)?;
        if at + len as u64 > self.end || len < event.len() {
            return Ok(false);
        }
        if at == FIRST {
            let bit = IN_USE.to_le_bytes()[0];
            let mut event = event.to_vec();
            [&mut own, &mut event]
                .into_iter()
                .filter_map(|bytes| bytes.get_mut(FLAGS_AT))
                .for_each(|flags| *flags |= bit);
            return Ok(own == event);
        }
        Ok(own == event)
    }
}
