//! An external merge sort of records by their keys.
//!
//! Records that do not fit into memory are sorted in pieces, which go to unlinked temporary files and are
//! merged when they are read.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::io;

/// The overhead of a record in bytes.
const PLACE_BYTES: usize = size_of::<Place>();
/// The least and the most bytes of a piece that are read at once.
const READ_BYTES: (usize, usize) = (64 << 10, 1 << 20);
/// So many bytes of records are brought together at once. The processor waits for many of them at a time
/// then, and for one after the other while it merges.
const GATHERED_BYTES: usize = 64 << 10;

/// Where a record is in memory, and how its key begins: most keys differ there, and a comparison that looks
/// at the records waits for memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    start: u128,
    at: usize,
    key: u32,
    len: u32,
}

/// Collects records in any order.
pub(crate) struct Sorter {
    /// How many bytes may be in memory.
    room: usize,
    folder: PathBuf,
    bytes: Vec<u8>,
    places: Vec<Place>,
    pieces: Vec<File>,
}

impl Sorter {
    /// Makes a sorter that keeps `room` bytes in memory; more go to files in `folder`.
    pub(crate) fn new(room: usize, folder: &Path) -> Sorter {
        let (bytes, places, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Sorter { room, folder: folder.to_owned(), bytes, places, pieces }
    }

    /// Adds a record with its key; `write` appends it.
    pub(crate) fn push(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        write(&mut self.bytes);
        let too_long = || Error::Missing("a row of 4 GiB or more can't be sorted".to_owned());
        self.places.push(Place {
            start: start(key),
            at,
            key: u32::try_from(key.len()).map_err(|_| too_long())?,
            len: u32::try_from(self.bytes.len() - at).map_err(|_| too_long())?,
        });
        if self.bytes.len() + self.places.len() * PLACE_BYTES > self.room {
            self.spill()?;
        }
        Ok(())
    }

    /// Sorts what is in memory. Call it after the last record.
    pub(crate) fn sort(&mut self) {
        let key = |place: &Place| self.bytes.get(place.at..place.at + place.key as usize);
        self.places.sort_unstable_by(|a, b| a.start.cmp(&b.start).then_with(|| key(a).cmp(&key(b))));
    }

    fn spill(&mut self) -> Result<(), Error> {
        self.sort();
        let file = tempfile::tempfile_in(&self.folder).map_err(io(&self.folder))?;
        let mut out = BufWriter::with_capacity(READ_BYTES.1, file);
        let mut write = || {
            for place in &self.places {
                out.write_all(&place.key.to_le_bytes())?;
                out.write_all(&place.len.to_le_bytes())?;
                out.write_all(self.bytes.get(place.at..place.at + place.len as usize).unwrap_or_default())?;
            }
            out.flush()
        };
        write().map_err(io(&self.folder))?;
        self.pieces.push(out.into_inner().map_err(|error| io(&self.folder)(error.into_error()))?);
        self.bytes.clear();
        self.places.clear();
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

/// Where sorted records come from.
enum Origin {
    Memory(std::vec::IntoIter<Place>, Vec<u8>),
    File(BufReader<File>),
}

impl Origin {
    /// Brings the next records together in `out`, and tells where they are there.
    fn gather(&mut self, out: &mut Vec<u8>) -> std::io::Result<Vec<Place>> {
        out.clear();
        let mut gathered = Vec::new();
        while out.len() < GATHERED_BYTES {
            let at = out.len();
            let place = match self {
                Origin::Memory(places, bytes) => {
                    let Some(place) = places.next() else { break };
                    let record = bytes.get(place.at..place.at + place.len as usize);
                    out.extend_from_slice(record.unwrap_or_default());
                    Place { at, ..place }
                }
                Origin::File(from) => {
                    if from.fill_buf()?.is_empty() {
                        break;
                    }
                    let mut lens = [0; 8];
                    from.read_exact(&mut lens)?;
                    let [a, b, c, d, rest @ ..] = lens;
                    let (key, len) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(rest));
                    out.resize(at + len as usize, 0);
                    from.read_exact(&mut out[at..])?;
                    Place { start: start(&out[at..at + key.min(len) as usize]), at, key, len }
                }
            };
            gathered.push(place);
        }
        Ok(gathered)
    }
}

/// Sorted records, one after the other.
pub(crate) struct Head {
    origin: Origin,
    /// Records that were brought together, and the places of those that come next.
    bytes: Vec<u8>,
    gathered: std::vec::IntoIter<Place>,
    /// The place of the first of all.
    place: Place,
}

impl Head {
    /// The first of the records; `None` if there are none.
    fn new(origin: Origin) -> std::io::Result<Option<Head>> {
        let (bytes, gathered) = (Vec::new(), Vec::new().into_iter());
        let mut head = Head { origin, bytes, gathered, place: Place::default() };
        Ok(head.advance()?.then_some(head))
    }

    fn record(&self) -> &[u8] {
        self.bytes.get(self.place.at..self.place.at + self.place.len as usize).unwrap_or_default()
    }

    fn key(&self) -> &[u8] {
        self.record().get(..self.place.key as usize).unwrap_or_default()
    }

    /// Goes on to the next record; says whether there is one.
    fn advance(&mut self) -> std::io::Result<bool> {
        if self.gathered.len() == 0 {
            self.gathered = self.origin.gather(&mut self.bytes)?.into_iter();
        }
        let next = self.gathered.next();
        self.place = next.unwrap_or_default();
        Ok(next.is_some())
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        self.place.start.cmp(&other.place.start).then_with(|| self.key().cmp(other.key()))
    }
}

/// A key and its record.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Gives the records of several sorters in the order of their keys.
pub(crate) struct Sorted {
    heap: BinaryHeap<Reverse<Head>>,
    folder: PathBuf,
    is_begun: bool,
}

impl Sorted {
    /// Takes sorters, each of which was sorted, with `room` bytes of memory for reading.
    pub(crate) fn merge(sorters: Vec<Sorter>, room: usize, folder: &Path) -> Result<Sorted, Error> {
        let pieces: usize = sorters.iter().map(|sorter| sorter.pieces.len()).sum();
        let room = (room / pieces.max(1)).clamp(READ_BYTES.0, READ_BYTES.1);
        let mut heap = BinaryHeap::new();
        for Sorter { bytes, places, pieces, .. } in sorters {
            let mut origins = vec![Origin::Memory(places.into_iter(), bytes)];
            for mut file in pieces {
                file.seek(SeekFrom::Start(0)).map_err(io(folder))?;
                origins.push(Origin::File(BufReader::with_capacity(room, file)));
            }
            for origin in origins {
                heap.extend(Head::new(origin).map_err(io(folder))?.map(Reverse));
            }
        }
        Ok(Sorted { heap, folder: folder.to_owned(), is_begun: false })
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<Pair<'_>>, Error> {
        if self.is_begun
            && let Some(mut top) = self.heap.peek_mut()
            && !top.0.advance().map_err(io(&self.folder))?
        {
            PeekMut::pop(top);
        }
        self.is_begun = true;
        Ok(self.heap.peek().and_then(|top| top.0.record().split_at_checked(top.0.place.key as usize)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(room: usize, keys: &[u64]) -> (Vec<u64>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let mut sorters: Vec<Sorter> = (0..3).map(|_| Sorter::new(room, folder.path())).collect();
        for (at, key) in keys.iter().enumerate() {
            // The key is longer than the part that is compared first, and the record repeats its number.
            let text = format!("same start {key:020}");
            let sorter = &mut sorters[at % 3];
            sorter.push(text.as_bytes(), |out| out.extend_from_slice(&key.to_le_bytes())).unwrap();
        }
        let pieces = sorters.iter().map(|sorter| sorter.pieces.len()).sum();
        sorters.iter_mut().for_each(Sorter::sort);
        let (mut all, mut sorted) = (Vec::new(), Sorted::merge(sorters, room, folder.path()).unwrap());
        while let Some((key, record)) = sorted.next().unwrap() {
            let number = u64::from_le_bytes(record.try_into().unwrap());
            assert_eq!(key, format!("same start {number:020}").as_bytes());
            all.push(number);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file has a name");
        (all, pieces)
    }

    #[test]
    fn records_come_in_order_from_memory_and_from_pieces() {
        let keys: Vec<u64> =
            (0..5000_u64).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20 << 3).collect();
        let mut expected = keys.clone();
        expected.sort_unstable();
        assert_eq!(sorted(1 << 30, &keys), (expected.clone(), 0));
        let (found, pieces) = sorted(20_000, &keys);
        assert!(found == expected && pieces > 10, "{pieces} pieces");
        assert_eq!(sorted(1 << 30, &[]), (Vec::new(), 0));
        assert_eq!(sorted(1, &[5, 4, 4]).0, [4, 4, 5]);
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
            let Sorter { bytes, places, pieces, .. } = sorter;
            let mut origins = vec![Origin::Memory(places.into_iter(), bytes)];
            for mut file in pieces {
                file.seek(SeekFrom::Start(0)).unwrap();
                origins.push(Origin::File(BufReader::new(file)));
            }
            let mut out = Vec::new();
            let counts = origins.iter_mut().map(|origin| origin.gather(&mut out).unwrap().len());
            assert_eq!(counts.collect::<Vec<_>>(), if room > 1 { vec![2] } else { vec![0, 1, 1, 1, 1] });
        }
    }
}
