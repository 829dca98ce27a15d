//! Whether a generation is of the history in a log of MySQL, by its place there and its GTIDs.

use anyhow::{Context, Result};
use binlog::archive::PositionTracker;
use binlog::event::Body;
use binlog::reader::Reader;
use transactions::{FileSource, LogFile};

use crate::gtid_set::GtidSet;

/// Whether there is a place between transactions at an offset of a file, and the transactions before it are
/// those of `gtid`, as far as the server gave its transactions names. `None` if the log is not one of MySQL.
pub(crate) fn is_at(file: &LogFile, at: u64, gtid: &str) -> Result<Option<bool>> {
    let read = || -> Result<Option<bool>> {
        let mut reader = Reader::open(FileSource::open(file, 0)?)?;
        let (mut track, mut before, mut open) = (PositionTracker::default(), None, None);
        while let Some(event) = reader.next()? {
            track.take(&event)?;
            match event.parse()? {
                Body::Format(format) if format.server.contains("MariaDB") => return Ok(None),
                Body::PreviousGtids(all) => {
                    let set = before.get_or_insert_with(GtidSet::default);
                    all.iter().for_each(|(source, ranges)| {
                        ranges.iter().for_each(|range| set.add_range(*source, *range));
                    });
                }
                Body::MySqlGtid(name) => open = name,
                _ => {}
            }
            if track.end() != Some(event.end()) {
                continue;
            }
            if let (Some(set), Some((source, number))) = (&mut before, open.take()) {
                set.add(source, number);
            }
            if event.end() >= at {
                let is_same = || before.is_none_or(|set| gtid.parse() == Ok(set));
                return Ok(Some(event.end() == at && is_same()));
            }
        }
        Ok(Some(false))
    };
    read().with_context(|| file.display().to_string())
}
