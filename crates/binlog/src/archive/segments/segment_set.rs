//! Which segments take precedence where several have the same numbers, and which of the others can be
//! removed.
//!
//! A name alone proves nothing. A segment replaces those with its numbers only if its header describes such a
//! segment, and the file has the length that the header says: that much is read anyway. Before one of the
//! others is removed, all bytes of the larger segment are read, and it must have the same chunks in the same
//! places.

use std::cmp::Reverse;
use std::io;

use block::Store;

use super::Entry;
use super::chunk::{chunks, read_stored};
use crate::archive::segment::{self, Numbers};
use crate::{Corrupt, Error};

/// The segments in a store.
#[derive(Default)]
pub(super) struct SegmentSet {
    /// The current ones, in order.
    pub(super) current: Vec<Numbers>,
    /// Those that are contained in others.
    pub(super) superseded: Vec<Superseded>,
    /// Those before the first one that is kept.
    pub(super) expired: Vec<Numbers>,
    /// Files that are named like segments but are none.
    pub(super) unrecognized: Vec<Corrupt>,
}

/// Segments whose numbers a larger one has too.
pub(super) struct Superseded {
    by: Numbers,
    parts: Vec<Numbers>,
}

/// Determines the segments of a store, where `first` is the number of the first one that is kept.
pub(super) fn select(store: &dyn Store, first: u64) -> Result<SegmentSet, Error> {
    let mut set = SegmentSet::default();
    let mut all: Vec<Numbers> = Vec::new();
    for name in store.list()? {
        match segment::numbers(&name) {
            Some(numbers) if numbers.1 < first => set.expired.push(numbers),
            Some(numbers) => all.push(numbers),
            None if name.ends_with(segment::END) => {
                let what = "not the name of a segment: the file does not belong to the archive; remove it";
                set.unrecognized.push(Corrupt { what: what.to_owned(), place: store.shown(&name) });
            }
            None => {}
        }
    }
    // Of those that end with the same number, the longest comes first.
    all.sort_unstable_by_key(|(first, last)| (Reverse(*last), *first));
    let mut all = all.into_iter().peekable();
    while let Some(numbers) = all.next() {
        let newer = set.current.last().copied();
        if let Some(by) = newer.filter(|newer| numbers.1 >= newer.0) {
            set.pass_over(store, numbers, by);
            continue;
        }
        let has_others = all.peek().is_some_and(|(_, last)| *last >= numbers.0);
        if has_others {
            match Entry::read(store, numbers) {
                Err(Error::Corrupt(corrupt)) => {
                    set.unrecognized.push(corrupt);
                    continue;
                }
                read => drop(read?),
            }
        }
        set.current.push(numbers);
    }
    set.current.reverse();
    Ok(set)
}

impl SegmentSet {
    /// Adds a segment that shares numbers with a newer one.
    fn pass_over(&mut self, store: &dyn Store, numbers: Numbers, by: Numbers) {
        if numbers.0 < by.0 {
            let what = format!("its numbers overlap those of {}, which takes precedence", segment::name(by));
            self.unrecognized.push(Corrupt { what, place: store.shown(&segment::name(numbers)) });
            return;
        }
        match self.superseded.last_mut().filter(|covered| covered.by == by) {
            Some(covered) => covered.parts.push(numbers),
            None => self.superseded.push(Superseded { by, parts: vec![numbers] }),
        }
    }
}

impl Superseded {
    /// Those whose chunks the larger segment was verified to have. The others stay.
    pub(super) fn proven(&self, store: &dyn Store) -> io::Result<Vec<Entry>> {
        let Some(by) = known(Entry::read(store, self.by))? else { return Ok(Vec::new()) };
        let all = || -> io::Result<()> {
            let source = store.open(&by.name())?;
            chunks(&by)
                .try_for_each(|(_, at, chunk)| read_stored(store, &*source, (&by, at, chunk)).map(drop))
        };
        if known(all().map_err(Error::Io))?.is_none() {
            return Ok(Vec::new());
        }
        let mut proven = Vec::new();
        for numbers in &self.parts {
            proven.extend(known(Entry::read(store, *numbers))?.filter(|part| has(&by, part)));
        }
        Ok(proven)
    }
}

/// The result; `None` if it is damaged or missing.
fn known<T>(read: Result<T, Error>) -> io::Result<Option<T>> {
    match read {
        Ok(it) => Ok(Some(it)),
        Err(Error::Io(error))
            if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound) =>
        {
            Err(error)
        }
        Err(_) => Ok(None),
    }
}

/// Whether a segment contains another one: the same chunks in the same places of the same file. The end of a
/// file may be a segment without bytes; the beginning of a timeline is never contained in another segment.
fn has(by: &Entry, part: &Entry) -> bool {
    let (whole, own) = (&by.header.segment, &part.header.segment);
    let mut all = chunks(by).skip_while(|(start, ..)| *start < own.start);
    (whole.timeline, &whole.file) == (own.timeline, &own.file)
        && own.end > 0
        && whole.start <= own.start
        && own.end <= whole.end
        && chunks(part)
            .all(|(start, _, chunk)| all.next().is_some_and(|(place, _, own)| place == start && own == chunk))
}
