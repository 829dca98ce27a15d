//! What lies where in a volume.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// Parts of a volume by where they begin, with nothing between them.
pub(super) struct Parts<What>(BTreeMap<u64, (u64, What)>);

/// A part of a volume that is a file's, from an offset in it on.
pub(super) struct FilePart {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
}

impl<What> Parts<What> {
    pub(super) fn new() -> Self {
        Parts(BTreeMap::new())
    }

    /// Puts something at a place where there is nothing yet.
    pub(super) fn add(&mut self, place: Range<u64>, what: What) {
        self.0.insert(place.start, (place.end.saturating_sub(place.start), what));
    }

    /// Parts that a range touches: the place that is both in the range and in the part, the part, and how far
    /// into the part that place is.
    pub(super) fn touched(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, &What, u64)> {
        let first = self.0.range(..=range.start).next_back().map_or(range.start, |(at, _)| *at);
        self.0.range(first..range.end.max(first)).filter_map(move |(at, (len, what))| {
            let (start, end) = (range.start.max(*at), range.end.min(at + len));
            (start < end).then_some((start..end, what, start - at))
        })
    }
}
