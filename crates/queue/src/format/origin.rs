//! Where relayed rows came from, and which of them have arrived: the journal that makes a relay exactly-once.

use std::collections::BTreeMap;

use crate::format::wire::{ByteReader, put_varint};

/// Slots that a session may name.
pub const SLOTS: u8 = 64;

/// Who sent a relayed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A number below [`SLOTS`] that the operator gave to a sender.
    Slot(u8),
    /// One life of a queue on another server, from its creation or emptying to the next.
    Incarnation([u8; 16]),
}

/// Where a relayed row came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Who sent it.
    pub source: Source,
    /// Its row id there.
    pub row: u64,
    /// The lowest row id that still waits there: smaller ones never arrive again. Slots do not use it.
    pub floor: u64,
    /// Accept the row whatever came before; for a slot, also begin to count from here.
    pub overwrite: bool,
}

impl std::fmt::Display for Origin {
    /// The text that [`Origin::from_str`](std::str::FromStr::from_str) reads.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.source {
            Source::Slot(slot) => write!(formatter, "{slot}")?,
            Source::Incarnation(incarnation) => {
                write!(formatter, "{:032x}", u128::from_be_bytes(incarnation))?
            }
        }
        write!(formatter, ":{}:{}", self.row, self.floor)
    }
}

impl std::str::FromStr for Origin {
    type Err = ();

    /// Reads a source (a slot in decimal, or 32 hexadecimal digits), the row id there, and the floor.
    fn from_str(text: &str) -> Result<Origin, ()> {
        let mut parts = text.split(':');
        let (Some(source), Some(row), Some(floor), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| if digits(text) { text.parse::<u64>().map_err(drop) } else { Err(()) };
        let source = if source.len() == 32 && source.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Source::Incarnation(u128::from_str_radix(source, 16).map_err(drop)?.to_be_bytes())
        } else {
            Source::Slot(u8::try_from(number(source)?).ok().filter(|slot| *slot < SLOTS).ok_or(())?)
        };
        let (row, floor) = (number(row)?, number(floor)?);
        if row == 0 || floor > row {
            return Err(());
        }
        Ok(Origin { source, row, floor, overwrite: false })
    }
}

impl Origin {
    /// Whether the earlier origin shows that this row is a duplicate; `None` when it can't tell.
    pub(crate) fn repeats(&self, earlier: &Origin) -> Option<bool> {
        if self.overwrite {
            return Some(false);
        }
        match self.source {
            Source::Slot(_) => (self.source == earlier.source).then_some(self.row <= earlier.row),
            Source::Incarnation(_) => {
                (self.source == earlier.source && self.row == earlier.row).then_some(true)
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self.source {
            Source::Slot(slot) => out.extend([0, slot]),
            Source::Incarnation(incarnation) => {
                out.push(1);
                out.extend(incarnation);
            }
        }
        out.push(u8::from(self.overwrite));
        put_varint(out, self.row);
        put_varint(out, self.floor);
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<Origin> {
        let source = match reader.u8()? {
            0 => Source::Slot(reader.u8().filter(|slot| *slot < SLOTS)?),
            1 => Source::Incarnation(reader.array()?),
            _ => return None,
        };
        let overwrite = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Origin { source, row: reader.varint()?, floor: reader.varint()?, overwrite })
    }
}

/// What has arrived from each source.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Journal {
    slots: BTreeMap<u8, u64>,
    sources: BTreeMap<[u8; 16], Received>,
}

/// Row ids that have arrived from one life of a queue: all below the floor, and ranges from first to last.
#[derive(Clone, Debug, Default, PartialEq)]
struct Received {
    floor: u64,
    ranges: BTreeMap<u64, u64>,
}

impl Received {
    fn contains(&self, row: u64) -> bool {
        row < self.floor || self.ranges.range(..=row).next_back().is_some_and(|(_, last)| *last >= row)
    }

    fn add(&mut self, row: u64) {
        if self.contains(row) {
            return;
        }
        let before = self.ranges.range(..row).next_back().map(|(first, last)| (*first, *last));
        let first = match before {
            Some((first, last)) if last.checked_add(1) == Some(row) => first,
            _ => row,
        };
        let last = row.checked_add(1).and_then(|next| self.ranges.remove(&next)).unwrap_or(row);
        self.ranges.insert(first, last);
    }

    fn raise(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        while let Some(entry) = self.ranges.first_entry() {
            if *entry.key() > self.floor {
                break;
            }
            // A range that touches the floor becomes part of it.
            self.floor = self.floor.max(entry.get().saturating_add(1));
            entry.remove();
        }
    }
}

impl Journal {
    /// Whether this row has already arrived.
    pub(crate) fn has(&self, origin: &Origin) -> bool {
        if origin.overwrite {
            return false;
        }
        match origin.source {
            Source::Slot(slot) => self.slots.get(&slot).is_some_and(|last| origin.row <= *last),
            Source::Incarnation(source) => {
                self.sources.get(&source).is_some_and(|received| received.contains(origin.row))
            }
        }
    }

    /// Notes that this row has arrived.
    pub(crate) fn add(&mut self, origin: &Origin) {
        match origin.source {
            Source::Slot(slot) => {
                let last = self.slots.entry(slot).or_default();
                *last = if origin.overwrite { origin.row } else { origin.row.max(*last) };
            }
            Source::Incarnation(source) => {
                let received = self.sources.entry(source).or_default();
                received.add(origin.row);
                received.raise(origin.floor);
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.slots.len() as u64);
        for (slot, row) in &self.slots {
            out.push(*slot);
            put_varint(out, *row);
        }
        put_varint(out, self.sources.len() as u64);
        for (source, received) in &self.sources {
            out.extend(source);
            put_varint(out, received.floor);
            put_varint(out, received.ranges.len() as u64);
            let mut end = 0;
            for (first, last) in &received.ranges {
                put_varint(out, first - end);
                put_varint(out, last - first);
                end = *last;
            }
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<Journal> {
        let mut journal = Journal::default();
        for _ in 0..reader.varint()? {
            let slot = reader.u8().filter(|slot| *slot < SLOTS)?;
            journal.slots.insert(slot, reader.varint()?);
        }
        for _ in 0..reader.varint()? {
            let source = reader.array()?;
            let mut received = Received { floor: reader.varint()?, ..Received::default() };
            let mut end = 0u64;
            for _ in 0..reader.varint()? {
                let first = end.checked_add(reader.varint()?)?;
                end = first.checked_add(reader.varint()?)?;
                received.ranges.insert(first, end);
            }
            journal.sources.insert(source, received);
        }
        Some(journal)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop, proptest};

    use super::{Journal, Origin, Source};
    use crate::format::wire::ByteReader;

    fn origin(source: Source, row: u64, floor: u64) -> Origin {
        Origin { source, row, floor, overwrite: false }
    }

    #[test]
    fn text_is_read_as_it_was_written() {
        let source = Source::Incarnation(*b"fedcba9876543210");
        for origin in [origin(source, 8, 7), origin(source, 8, 8), origin(Source::Slot(63), 1, 0)] {
            assert_eq!(origin.to_string().parse(), Ok(origin));
        }
        let incarnation = "0".repeat(32);
        for wrong in ["", "1", "1:2", "64:1:0", "-1:1:0", "1:+1:0", "1:0:0", "1:1:2", "1:1:0:0", "x:1:0"] {
            assert_eq!(wrong.parse::<Origin>(), Err(()), "{wrong}");
            let wrong = wrong.replacen('1', &format!("{incarnation}0"), 1);
            assert_eq!(wrong.parse::<Origin>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn a_slot_takes_what_is_above_its_mark() {
        let mut journal = Journal::default();
        let mut row = origin(Source::Slot(3), 7, 0);
        assert!(!journal.has(&row));
        journal.add(&row);
        assert!(journal.has(&row));
        assert!(journal.has(&Origin { row: 6, ..row }));
        assert!(!journal.has(&Origin { source: Source::Slot(4), ..row }));
        row.row = 2;
        row.overwrite = true;
        assert!(!journal.has(&row));
        journal.add(&row);
        assert!(!journal.has(&origin(Source::Slot(3), 3, 0)));
    }

    proptest! {
        #[test]
        fn an_incarnation_takes_each_row_once_in_any_order(
            rows in prop::collection::vec((0u64..60, any::<bool>()), 0..80)
        ) {
            let source = Source::Incarnation([9; 16]);
            let (mut journal, mut model, mut floor) = (Journal::default(), BTreeSet::new(), 0);
            for (row, raise) in rows {
                let offered = origin(source, row, floor);
                assert_eq!(journal.has(&offered), model.contains(&row) || row < floor);
                if raise {
                    floor = floor.max(row / 2);
                }
                journal.add(&origin(source, row, floor));
                model.insert(row);
                let mut bytes = Vec::new();
                journal.encode(&mut bytes);
                assert_eq!(Journal::decode(&mut ByteReader::new(&bytes)).as_ref(), Some(&journal));
            }
        }
    }
}
