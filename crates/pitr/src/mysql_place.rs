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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use repository::KeyFile;
    use transactions::Times;

    use super::*;

    #[test]
    fn a_place_has_the_transactions_before_it() {
        let file = |name: &str| {
            let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../binlog/tests/cases");
            transactions::files(&[cases.join(name)], &KeyFile::default(), Times::Said)
                .unwrap()
                .files
                .remove(0)
        };
        let mysql = file("mysql-9.7-compressed.binlog");
        assert_eq!(is_at(&file("mariadb-10.11.binlog"), 158, "").unwrap(), None);
        let uuid = "1fd4a02f-eb29-11f1-bb7b-02fc00000001";
        let set = |numbers: &str| format!("{uuid}:{numbers}");
        for (at, gtid, wanted) in [
            (158, String::new(), true),
            (340, set("1"), true),
            (2098, set("1-5:nightly:1-2"), true),
            // Within a transaction, and behind the end.
            (2000, set("1-5:nightly:1"), false),
            (1 << 20, set("1-10"), false),
            // Another history.
            (2098, set("1-5:nightly:1"), false),
            (2098, set("1-6:nightly:1-2"), false),
            (340, set("1").replace("1fd4", "2fd4"), false),
            (340, "0-1-42".to_owned(), false),
        ] {
            assert_eq!(is_at(&mysql, at, &gtid).unwrap(), Some(wanted), "{at} {gtid}");
        }
    }
}
