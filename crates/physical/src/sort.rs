//! An external merge sort of records by their keys.
//!
//! Records that do not fit into memory are sorted in runs, which go to unlinked temporary files and are
//! merged when they are read. Every so many bytes a key is noted, so that ranges of keys can be merged each
//! on its own.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use disk::{RealDisk, Tree as _};

use crate::Error;
use crate::error::io;

/// The overhead of a record in bytes.
const REF_BYTES: usize = size_of::<RecordRef>();
/// How many bytes of a run are read at once, and written.
const READ_BYTES: usize = 64 << 10;
const WRITE_BYTES: usize = 1 << 20;
/// The distance in bytes between two sparse keys.
const SPARSE_KEY_BYTES: usize = 32 << 10;
/// In a file a record follows the lengths of its key and of itself.
const HEAD_BYTES: usize = 8;
/// So many bytes of records are brought together at once. The processor waits for many of them at a time
/// then, and for one after the other while it merges.
const GATHERED_BYTES: usize = 64 << 10;
/// Free disk space in bytes that is reserved for others, such as the server.
pub(crate) const LEFT_BYTES: u64 = 256 << 20;

/// Where a record is in memory, and how its key begins: most keys differ there, and a comparison that looks
/// at the records waits for memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct RecordRef {
    start: u128,
    at: usize,
    key: u32,
    len: u32,
}

impl RecordRef {
    fn record<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.at..self.at + self.len as usize).unwrap_or_default()
    }

    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.at..self.at + self.key as usize).unwrap_or_default()
    }
}

/// The key of a record, and where the record is in its file.
struct SparseKey {
    key: Vec<u8>,
    at: u64,
}

/// Sorted records in a file.
struct SortedRun {
    file: File,
    sparse_keys: Vec<SparseKey>,
}

/// Collects records in any order.
pub(crate) struct Sorter {
    /// How many bytes may be in memory.
    room: usize,
    folder: PathBuf,
    /// Tells how many bytes may still be written to a folder.
    free: fn(&Path) -> std::io::Result<u64>,
    bytes: Vec<u8>,
    refs: Vec<RecordRef>,
    runs: Vec<SortedRun>,
    /// How many records were added.
    records: u64,
}

impl Sorter {
    /// Makes a sorter that keeps `room` bytes in memory; more go to files in `folder`.
    pub(crate) fn new(room: usize, folder: &Path) -> Sorter {
        let (bytes, refs, runs) = (Vec::new(), Vec::new(), Vec::new());
        let free = |folder: &Path| RealDisk.free(folder);
        Sorter { room, folder: folder.to_owned(), free, bytes, refs, runs, records: 0 }
    }

    /// Adds a record with its key; `write` appends it.
    pub(crate) fn push(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        let at = self.bytes.len();
        self.records += 1;
        self.bytes.extend_from_slice(key);
        write(&mut self.bytes);
        let too_long = || Error::Missing("a row of 4 GiB or more can't be sorted".to_owned());
        self.refs.push(RecordRef {
            start: start(key),
            at,
            key: u32::try_from(key.len()).map_err(|_| too_long())?,
            len: u32::try_from(self.bytes.len() - at).map_err(|_| too_long())?,
        });
        if self.bytes.len() + self.refs.len() * REF_BYTES > self.room {
            self.spill()?;
        }
        Ok(())
    }

    /// Sorts what is in memory. Call it after the last record.
    pub(crate) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.refs.sort_unstable_by(|a, b| a.start.cmp(&b.start).then_with(|| a.key(bytes).cmp(b.key(bytes))));
    }

    /// The sparse keys of the records in memory, which were sorted.
    fn sparse_keys(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = 0;
        let is_sparse = move |found: &&RecordRef| {
            let is_sparse = left == 0;
            left = if is_sparse { SPARSE_KEY_BYTES } else { left }.saturating_sub(found.len as usize);
            is_sparse
        };
        self.refs.iter().filter(is_sparse).map(|found| found.key(&self.bytes))
    }

    /// The records in memory with such keys.
    fn between(&self, least: Option<&[u8]>, until: Option<&[u8]>) -> &[RecordRef] {
        let at = |bound: &[u8]| self.refs.partition_point(|found| found.key(&self.bytes) < bound);
        let range = least.map_or(0, at)..until.map_or(self.refs.len(), at);
        self.refs.get(range).unwrap_or_default()
    }

    fn spill(&mut self) -> Result<(), Error> {
        let wanted = (self.bytes.len() + self.refs.len() * HEAD_BYTES) as u64;
        if (self.free)(&self.folder).is_ok_and(|free| free < LEFT_BYTES + wanted) {
            let what = "the disk is nearly full while rows are sorted here, and others need what is left; make room, \
                        or set TMPDIR to a folder on a disk with more";
            return Err(io(&self.folder)(std::io::Error::new(std::io::ErrorKind::StorageFull, what)));
        }
        self.sort();
        let file = tempfile::tempfile_in(&self.folder).map_err(io(&self.folder))?;
        let mut out = BufWriter::with_capacity(WRITE_BYTES, file);
        let (mut sparse_keys, mut at) = (Vec::<SparseKey>::new(), 0);
        let mut write = || {
            for found in &self.refs {
                if sparse_keys.last().is_none_or(|sparse_key| at - sparse_key.at >= SPARSE_KEY_BYTES as u64) {
                    sparse_keys.push(SparseKey { key: found.key(&self.bytes).to_vec(), at });
                }
                out.write_all(&found.key.to_le_bytes())?;
                out.write_all(&found.len.to_le_bytes())?;
                out.write_all(found.record(&self.bytes))?;
                at += (HEAD_BYTES + found.len as usize) as u64;
            }
            out.flush()
        };
        write().map_err(io(&self.folder))?;
        let file = out.into_inner().map_err(|error| io(&self.folder)(error.into_error()))?;
        self.runs.push(SortedRun { file, sparse_keys });
        self.bytes.clear();
        self.refs.clear();
        Ok(())
    }
}

/// How a key begins, as a number that has its order.
fn start(key: &[u8]) -> u128 {
    let mut start = [0; 16];
    let known = key.len().min(start.len());
    start[..known].copy_from_slice(&key[..known]);
    u128::from_be_bytes(start)
}

/// Where the records of a sorted run come from.
enum RunSource<'a> {
    Memory(std::slice::Iter<'a, RecordRef>, &'a [u8]),
    File(BufReader<FileTail<'a>>, Bounds<'a>),
}

/// The least key, and the key before which it ends.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// A reader of the rest of a file that other threads read too.
struct FileTail<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileTail<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl RunSource<'_> {
    /// Brings the next records together in `out`, and tells where they are there.
    fn gather(&mut self, out: &mut Vec<u8>) -> std::io::Result<Vec<RecordRef>> {
        out.clear();
        let mut gathered = Vec::new();
        while out.len() < GATHERED_BYTES {
            let at = out.len();
            let found = match self {
                RunSource::Memory(refs, bytes) => {
                    let Some(found) = refs.next() else { break };
                    out.extend_from_slice(found.record(bytes));
                    RecordRef { at, ..*found }
                }
                RunSource::File(from, (least, until)) => {
                    if from.fill_buf()?.is_empty() {
                        break;
                    }
                    let mut lens = [0; HEAD_BYTES];
                    from.read_exact(&mut lens)?;
                    let [a, b, c, d, rest @ ..] = lens;
                    let (key, len) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(rest));
                    out.resize(at + len as usize, 0);
                    from.read_exact(&mut out[at..])?;
                    let found = RecordRef { start: 0, at, key, len };
                    let key = found.key(out);
                    if until.is_some_and(|until| key >= until) {
                        out.truncate(at);
                        break;
                    }
                    if least.is_some_and(|least| key < least) {
                        out.truncate(at);
                        continue;
                    }
                    RecordRef { start: start(key), ..found }
                }
            };
            gathered.push(found);
        }
        Ok(gathered)
    }
}

/// One input of a merge: sorted records, one after the other.
struct MergeInput<'a> {
    source: RunSource<'a>,
    /// Records that were brought together, and those that come next.
    bytes: Vec<u8>,
    gathered: std::vec::IntoIter<RecordRef>,
    /// The first of all.
    first: RecordRef,
}

impl<'a> MergeInput<'a> {
    /// The first of the records; `None` if there are none.
    fn new(source: RunSource<'a>) -> std::io::Result<Option<MergeInput<'a>>> {
        let (bytes, gathered) = (Vec::new(), Vec::new().into_iter());
        let mut head = MergeInput { source, bytes, gathered, first: RecordRef::default() };
        Ok(head.advance()?.then_some(head))
    }

    /// Advances to the next record; says whether there is one.
    fn advance(&mut self) -> std::io::Result<bool> {
        if self.gathered.len() == 0 {
            self.gathered = self.source.gather(&mut self.bytes)?.into_iter();
        }
        let next = self.gathered.next();
        self.first = next.unwrap_or_default();
        Ok(next.is_some())
    }
}

impl PartialEq for MergeInput<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MergeInput<'_> {}

impl PartialOrd for MergeInput<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MergeInput<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |head: &Self| head.first.start;
        key(self)
            .cmp(&key(other))
            .then_with(|| self.first.key(&self.bytes).cmp(other.first.key(&other.bytes)))
    }
}

/// The records of several sorters, in ranges of keys, one after the other. Several threads merge them, each
/// another range.
pub(crate) struct Sorted {
    sorters: Vec<Sorter>,
    /// The keys at which ranges begin, but for the first.
    bounds: Vec<Vec<u8>>,
    is_empty: bool,
}

impl Sorted {
    /// Takes sorters, each of which was sorted. A range has about `bytes` bytes, unless more have one key.
    pub(crate) fn new(sorters: Vec<Sorter>, bytes: usize) -> Sorted {
        let in_memory = sorters.iter().flat_map(Sorter::sparse_keys);
        let in_files = sorters.iter().flat_map(|sorter| &sorter.runs).flat_map(|run| &run.sparse_keys);
        let mut sparse_keys: Vec<&[u8]> =
            in_memory.chain(in_files.map(|sparse_key| &*sparse_key.key)).collect();
        sparse_keys.sort_unstable();
        let is_empty = sparse_keys.is_empty();
        let mut bounds: Vec<Vec<u8>> = sparse_keys
            .into_iter()
            .step_by((bytes / SPARSE_KEY_BYTES).max(1))
            .skip(1)
            .map(<[u8]>::to_vec)
            .collect();
        bounds.dedup();
        Sorted { sorters, bounds, is_empty }
    }

    /// How many records there are in all.
    pub(crate) fn records(&self) -> u64 {
        self.sorters.iter().map(|sorter| sorter.records).sum()
    }

    /// The numbers of the ranges.
    pub(crate) fn ranges(&self) -> Range<usize> {
        0..if self.is_empty { 0 } else { self.bounds.len() + 1 }
    }

    /// Gives the records of a range in the order of their keys.
    pub(crate) fn merge(&self, range: usize) -> Result<Merge<'_>, Error> {
        let bound = |at: usize| self.bounds.get(at).map(Vec::as_slice);
        let (least, until) = (range.checked_sub(1).and_then(bound), bound(range));
        let mut merge = Merge { heap: BinaryHeap::new(), folder: PathBuf::new(), is_begun: false };
        for sorter in &self.sorters {
            merge.folder.clone_from(&sorter.folder);
            let mut sources = vec![RunSource::Memory(sorter.between(least, until).iter(), &sorter.bytes)];
            for SortedRun { file, sparse_keys } in &sorter.runs {
                // Records before a sparse key may have its key.
                let before = sparse_keys
                    .partition_point(|sparse_key| least.is_some_and(|least| *sparse_key.key < *least));
                let at = before
                    .checked_sub(1)
                    .and_then(|before| sparse_keys.get(before))
                    .map_or(0, |sparse_key| sparse_key.at);
                let from = BufReader::with_capacity(READ_BYTES, FileTail { file, at });
                sources.push(RunSource::File(from, (least, until)));
            }
            for source in sources {
                merge.heap.extend(MergeInput::new(source).map_err(io(&sorter.folder))?.map(Reverse));
            }
        }
        Ok(merge)
    }
}

/// A key and its record.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Gives records in the order of their keys.
pub(crate) struct Merge<'a> {
    heap: BinaryHeap<Reverse<MergeInput<'a>>>,
    folder: PathBuf,
    is_begun: bool,
}

impl Merge<'_> {
    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<Pair<'_>>, Error> {
        if self.is_begun
            && let Some(mut top) = self.heap.peek_mut()
            && !top.0.advance().map_err(io(&self.folder))?
        {
            PeekMut::pop(top);
        }
        self.is_begun = true;
        let top = self.heap.peek().map(|top| &top.0);
        Ok(top.and_then(|top| top.first.record(&top.bytes).split_at_checked(top.first.key as usize)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sorted keys, and the numbers of runs and of ranges.
    fn sorted(room: usize, keys: &[u64]) -> (Vec<u64>, usize, usize) {
        let folder = tempfile::tempdir().unwrap();
        let mut sorters: Vec<Sorter> = (0..3).map(|_| Sorter::new(room, folder.path())).collect();
        for (at, key) in keys.iter().enumerate() {
            // The key is longer than the part that is compared first, and the record repeats its number.
            let text = format!("same start {key:020}");
            let sorter = &mut sorters[at % 3];
            sorter.push(text.as_bytes(), |out| out.extend_from_slice(&key.to_le_bytes())).unwrap();
        }
        let runs = sorters.iter().map(|sorter| sorter.runs.len()).sum();
        sorters.iter_mut().for_each(Sorter::sort);
        let (mut all, sorted) = (Vec::new(), Sorted::new(sorters, 2 * SPARSE_KEY_BYTES));
        for range in sorted.ranges() {
            let mut merge = sorted.merge(range).unwrap();
            let before: Option<u64> = all.last().copied();
            while let Some((key, record)) = merge.next().unwrap() {
                let number = u64::from_le_bytes(record.try_into().unwrap());
                assert_eq!(key, format!("same start {number:020}").as_bytes());
                assert!(before.is_none_or(|before| before < number), "all of one key are in one range");
                all.push(number);
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file has a name");
        (all, runs, sorted.ranges().len())
    }

    #[test]
    fn records_come_in_order_from_memory_and_from_pieces() {
        let mixed = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20 << 3;
        // In the second case a key has more records than are between two sparse keys.
        for (few, most) in [(u64::MAX, 1000), (13, 14)] {
            let keys: Vec<u64> = (0..40_000).map(|at| mixed(at) / 8 % few).collect();
            let mut expected = keys.clone();
            expected.sort_unstable();
            for (room, wanted) in [(1 << 30, 0..1), (200_000, 10..30), (30_000, 50..150)] {
                let (found, runs, ranges) = sorted(room, &keys);
                assert!(found == expected && wanted.contains(&runs), "{few}, {room}: {runs} runs");
                assert!((2..=most).contains(&ranges), "{few}, {room}: {ranges} ranges");
            }
        }
        assert_eq!(sorted(1 << 30, &[]), (Vec::new(), 0, 0));
        assert_eq!(sorted(1, &[5, 4, 4]), (vec![4, 4, 5], 3, 2));
    }

    #[test]
    fn sorting_leaves_free_space_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(1, folder.path());
        // A record of one byte, and the lengths before it.
        sorter.free = |_| Ok(LEFT_BYTES + 9);
        sorter.push(b"a", |_| {}).unwrap();
        sorter.free = |_| Ok(LEFT_BYTES + 8);
        let error = sorter.push(b"b", |_| {}).unwrap_err().to_string();
        assert!(error.contains("nearly full") && error.contains("TMPDIR"), "{error}");
        assert!(error.starts_with(folder.path().to_str().unwrap()), "{error}");
    }

    /// Long records must not be in memory twice.
    #[test]
    fn little_is_brought_together() {
        let folder = tempfile::tempdir().unwrap();
        for room in [1 << 30, 1] {
            let mut sorter = Sorter::new(room, folder.path());
            for key in 0..4_u8 {
                sorter.push(&[key], |out| out.resize(out.len() + GATHERED_BYTES / 2, key)).unwrap();
            }
            let mut sources = vec![RunSource::Memory(sorter.refs.iter(), &sorter.bytes)];
            for SortedRun { file, .. } in &sorter.runs {
                sources.push(RunSource::File(BufReader::new(FileTail { file, at: 0 }), (None, None)));
            }
            let mut out = Vec::new();
            let counts = sources.iter_mut().map(|source| source.gather(&mut out).unwrap().len());
            assert_eq!(counts.collect::<Vec<_>>(), if room > 1 { vec![2] } else { vec![0, 1, 1, 1, 1] });
        }
    }
}
