//! The parts of a volume by place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// Parts of a volume by their offset; between them is nothing.
pub(super) struct PartMap<Content>(BTreeMap<u64, (u64, Content)>);

/// A part of a volume that belongs to a file, from an offset in the file on.
pub(super) struct FilePart {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
}

impl<Content> PartMap<Content> {
    pub(super) fn new() -> Self {
        PartMap(BTreeMap::new())
    }

    /// Adds a part at a free place.
    pub(super) fn add(&mut self, place: Range<u64>, what: Content) {
        self.0.insert(place.start, (place.end.saturating_sub(place.start), what));
    }

    /// Parts that overlap a range: for each the place in both, the part, and the offset of that place in the
    /// part.
    pub(super) fn touched(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, &Content, u64)> {
        let first = self.0.range(..=range.start).next_back().map_or(range.start, |(at, _)| *at);
        self.0.range(first..range.end.max(first)).filter_map(move |(at, (len, what))| {
            let (start, end) = (range.start.max(*at), range.end.min(at + len));
            (start < end).then_some((start..end, what, start - at))
        })
    }
}
