//! A set of GTIDs of MySQL, as its servers write it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use binlog::event::mysql_gtid::{Ranges, Tag, Tsid, Uuid};

/// The transactions of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidSet(BTreeMap<Tsid, Ranges>);

impl GtidSet {
    /// Adds a transaction. They may come in any order: a replica commits them in another one than its source.
    pub(crate) fn add(&mut self, source: Tsid, number: u64) {
        self.add_range(source, (number, number.saturating_add(1)));
    }

    /// Adds several: the first, and the one behind the last.
    pub(crate) fn add_range(&mut self, source: Tsid, (mut first, mut end): (u64, u64)) {
        let ranges = self.0.entry(source).or_default();
        let from = ranges.partition_point(|range| range.1 < first);
        let to = ranges.partition_point(|range| range.0 <= end);
        if let Some(joined) = ranges.get(from..to).filter(|joined| !joined.is_empty()) {
            first = joined.iter().fold(first, |first, range| first.min(range.0));
            end = joined.iter().fold(end, |end, range| end.max(range.1));
        }
        ranges.splice(from..to.max(from), [(first, end)]);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (source, ranges)) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            source.fmt(f)?;
            for (first, end) in ranges {
                write!(f, ":{first}")?;
                if end - first > 1 {
                    write!(f, "-{}", end - 1)?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for GtidSet {
    type Err = ();

    /// Reads `UUID:1-5:7:tag:1-3,UUID:9`, with or without spaces between the servers. A tag is of all numbers
    /// behind it.
    fn from_str(text: &str) -> Result<GtidSet, ()> {
        let mut set = GtidSet::default();
        for server in text.split(',').map(str::trim).filter(|server| !server.is_empty()) {
            let mut parts = server.split(':').map(str::trim);
            let mut source =
                Tsid { server: uuid(parts.next().unwrap_or_default()).ok_or(())?, tag: Tag::default() };
            for part in parts {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                match (first.parse::<u64>(), last.parse::<u64>()) {
                    (Ok(first), Ok(last)) if first <= last => {
                        set.add_range(source, (first, last.saturating_add(1)))
                    }
                    _ => source.tag = Tag::new(part.to_lowercase().as_bytes()).ok_or(())?,
                }
            }
        }
        Ok(set)
    }
}

/// The UUID that is written so.
fn uuid(text: &str) -> Option<Uuid> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
    Some(Uuid(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_as_servers_write_it() {
        let of = |numbers: &[u64]| {
            let mut set = GtidSet::default();
            let source = Tsid { server: Uuid([0xab; 16]), tag: Tag::default() };
            numbers.iter().for_each(|number| set.add(source, *number));
            set.to_string().split_once(':').map(|(_, numbers)| numbers.to_owned()).unwrap_or_default()
        };
        for (numbers, wanted) in [
            (&[1, 2, 3][..], "1-3"),
            (&[3, 1, 2], "1-3"),
            (&[1, 3], "1:3"),
            (&[5, 1, 3, 4, 4, 5], "1:3-5"),
            (&[9, 7, 8, 1], "1:7-9"),
            (&[1, 3, 5, 4, 2], "1-5"),
            (&[8, 8, 2], "2:8"),
        ] {
            assert_eq!(of(numbers), wanted, "{numbers:?}");
        }
        let mut set = GtidSet::default();
        assert!(set.is_empty() && set.to_string().is_empty());
        set.add(Tsid { server: Uuid([1; 16]), tag: Tag::new(b"nightly").unwrap() }, 7);
        assert!(!set.is_empty());
        set.add(Tsid { server: Uuid([1; 16]), tag: Tag::default() }, 2);
        let uuid = Uuid([1; 16]);
        assert_eq!(set.to_string(), format!("{uuid}:2,{uuid}:nightly:7"));
    }

    #[test]
    fn a_set_is_read_as_servers_write_it() {
        let uuid = "4d60b47b-eb63-11f1-a33d-02fc00000001";
        let read = |text: &str| text.parse::<GtidSet>().map(|set| set.to_string());
        assert_eq!(
            read(&format!("{uuid}:1-3:5:Nightly:1:3-4,\n{uuid}:4")).as_deref(),
            Ok(&*format!("{uuid}:1-5,{uuid}:nightly:1:3-4"))
        );
        assert_eq!(read("").as_deref(), Ok(""));
        for wrong in ["0-1-42", "4d60b47b:1", &format!("{uuid}:5-1"), &format!("{uuid}:a b")] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
