//! Estimates from the first rows how much disk space a table needs, and compares that with what is free.
//!
//! Only a table that certainly does not fit is refused, because later rows may be shorter. The estimate gets
//! better with every row. What it misses is noticed when pages and sorted runs are written.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use disk::{RealDisk, Tree};
use innodb::table::Table;
use innodb::write::{Record, RecordBuilder, Row};
use progress::size;

use super::{ReadPiece, Request, RowSink};
use crate::Error;
use crate::error::io;
use crate::sort::LEFT_BYTES;

/// The estimate is made each time this much of the input was read.
const LOOK_BYTES: u64 = 16 << 20;
/// One row of this many is measured.
const STEP: u64 = 32;

/// Tells how many bytes are free in a folder.
type Free<'a> = dyn Fn(&Path) -> std::io::Result<u64> + Sync + 'a;

/// Bytes of some rows.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    /// In the clustered index, with the pages of values that are not in it.
    rows: u64,
    /// As they are sorted.
    packed: u64,
    /// Of the entries of all other indexes.
    entries: u64,
}

/// What is known of the input.
#[derive(Clone, Copy, Debug, Default)]
struct InputSample {
    input: u64,
    bytes: Bytes,
    /// How much of the input had been read when the free space was checked last.
    looked: u64,
}

/// Measures rows, and compares the disk space that all of them need with what is free.
pub(super) struct SpaceEstimator<'a> {
    builders: &'a [RecordBuilder],
    /// How many bytes the input has; nothing is measured if that is not known.
    input: Option<u64>,
    /// Whether rows are sorted too, not only entries.
    sorts_rows: bool,
    /// How many bytes are sorted in memory.
    memory: u64,
    /// The folders of the table and of what is sorted, and whether they share one disk.
    folders: [&'a Path; 2],
    is_one_disk: bool,
    free: &'a Free<'a>,
    sample: Mutex<InputSample>,
}

/// How many bytes will still be written as pages of the table, and as sorted pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequiredBytes {
    pages: u64,
    pieces: u64,
}

/// What is written, and where.
pub(super) struct InputSize<'a> {
    /// The folder of the table.
    pub folder: &'a Path,
    /// Bytes of the input, if that is known.
    pub bytes: Option<u64>,
    /// Whether the rows are sorted before they are written.
    pub sorts_rows: bool,
}

impl<'a> SpaceEstimator<'a> {
    /// Of a table.
    pub(super) fn new(
        disk: &dyn Tree,
        free: &'a Free<'a>,
        request: &Request<'a>,
        builders: &'a [RecordBuilder],
        input: &InputSize<'a>,
    ) -> SpaceEstimator<'a> {
        let InputSize { folder, bytes: input, sorts_rows } = *input;
        let (memory, folders) = (request.memory as u64, [folder, request.folder]);
        // The table may be on another machine, where a device may have the same number.
        let is_one_disk = match (disk.entry(folder), folders.map(|folder| RealDisk.entry(folder))) {
            (Ok(data), [Ok(here), Ok(sorted)]) => {
                (data.device, data.inode) == (here.device, here.inode) && data.device == sorted.device
            }
            _ => false,
        };
        SpaceEstimator {
            builders,
            input,
            sorts_rows,
            memory,
            folders,
            is_one_disk,
            free,
            sample: Mutex::default(),
        }
    }

    /// Gives the rows of a piece of so many bytes.
    pub(super) fn rows<P>(
        &self,
        rows: &ReadPiece<'_, P>,
        table: &Table,
        ((piece, input), first): ((P, u64), u64),
        take: &mut RowSink<'_>,
    ) -> Result<(), Error> {
        if self.input.is_none() {
            return rows(table, piece, first, take);
        }
        let (mut record, mut packed) = (Record::default(), Vec::new());
        let (mut bytes, mut count, mut measured) = (Bytes::default(), 0, 0);
        rows(table, piece, first, &mut |row, place| {
            if u64::is_multiple_of(count, STEP) && row.len() == table.columns().len() {
                self.measure((row, first + count), (&mut record, &mut packed), &mut bytes);
                measured += 1;
            }
            count += 1;
            take(row, place)
        })?;
        let all = |bytes: u64| part(bytes, count, measured);
        self.add(
            input,
            Bytes { rows: all(bytes.rows), packed: all(bytes.packed), entries: all(bytes.entries) },
        )
    }

    /// Adds what a row needs. A row that can't be stored is reported elsewhere.
    fn measure(&self, (row, id): (&Row, u64), memory: (&mut Record, &mut Vec<u8>), bytes: &mut Bytes) {
        let (record, packed) = memory;
        for (at, builder) in self.builders.iter().enumerate() {
            if builder.record(row, id, record).is_err() {
                continue;
            }
            if at > 0 {
                bytes.entries += (record.key.len() + record.bytes.len()) as u64;
                continue;
            }
            packed.clear();
            row.pack(packed);
            bytes.rows += record.stored_bytes(row);
            bytes.packed += (record.key.len() + packed.len()) as u64;
        }
    }

    /// Adds a piece of the input; fails if the table certainly does not fit.
    fn add(&self, input: u64, bytes: Bytes) -> Result<(), Error> {
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        sample.input += input;
        sample.bytes.rows += bytes.rows;
        sample.bytes.packed += bytes.packed;
        sample.bytes.entries += bytes.entries;
        if sample.input - sample.looked < LOOK_BYTES {
            return Ok(());
        }
        sample.looked = sample.input;
        self.compare(&sample)
    }

    /// What will be written at least. Three quarters of what the rows so far foretell are taken for sure.
    fn wanted(&self, sample: &InputSample) -> RequiredBytes {
        let rest = self.input.unwrap_or(0).saturating_sub(sample.input);
        let more = |bytes: u64| part(bytes, rest, sample.input) / 4 * 3;
        let Bytes { rows, packed, entries } = sample.bytes;
        let spilled = |bytes: u64| bytes.saturating_sub(self.memory);
        let (all_packed, all_entries) = (packed + more(packed), entries + more(entries));
        match self.sorts_rows {
            true => RequiredBytes {
                pages: rows + more(rows) + all_entries,
                pieces: spilled(all_packed) - spilled(packed) + spilled(all_entries),
            },
            // Pages of the rows so far are written already.
            false => RequiredBytes {
                pages: more(rows) + all_entries,
                pieces: spilled(all_entries) - spilled(entries),
            },
        }
    }

    fn compare(&self, sample: &InputSample) -> Result<(), Error> {
        let RequiredBytes { pages, pieces } = self.wanted(sample);
        let [data, sorted] = self.folders;
        // Where it is not known, nothing is said.
        let free = |folder| (self.free)(folder).unwrap_or(u64::MAX);
        let is_short = |free: u64, wanted: u64| free.saturating_sub(LEFT_BYTES) < wanted;
        let told = |free: u64, wanted: u64| {
            format!(
                "about {} more are needed, {} are free, and {} of them are left for others",
                size(wanted),
                size(free),
                size(LEFT_BYTES)
            )
        };
        let (at_data, at_sorted) = (free(data), free(sorted));
        if is_short(at_data, pages) {
            let what = format!("{} for the table's file; make room", told(at_data, pages));
            return Err(io(data)(std::io::Error::new(std::io::ErrorKind::StorageFull, what)));
        }
        let wanted = if self.is_one_disk { pages + pieces } else { pieces };
        if pieces > 0 && is_short(at_sorted, wanted) {
            return Err(Error::Refused(format!(
                "{}: {} while rows and keys are sorted; make room, or set TMPDIR to a folder on a disk with more",
                sorted.display(),
                told(at_sorted, wanted)
            )));
        }
        Ok(())
    }
}

/// `bytes` times `count`, divided by `of`.
fn part(bytes: u64, count: u64, of: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(count);
    u64::try_from(product / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    fn of<'a>(sorts_rows: bool, is_one_disk: bool, free: &'a Free<'a>) -> SpaceEstimator<'a> {
        SpaceEstimator {
            builders: &[],
            input: Some(8 * GB),
            sorts_rows,
            memory: GB,
            folders: [Path::new("/data"), Path::new("/sort")],
            is_one_disk,
            free,
            sample: Mutex::default(),
        }
    }

    /// Of half of the input.
    fn half(estimator: &SpaceEstimator<'_>) -> Result<(), String> {
        estimator
            .add(4 * GB, Bytes { rows: 4 * GB, packed: 8 * GB, entries: 2 * GB })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn three_quarters_of_the_estimated_size_must_be_free() {
        let sample = InputSample {
            input: 4 * GB,
            bytes: Bytes { rows: 4 * GB, packed: 8 * GB, entries: 2 * GB },
            looked: 0,
        };
        let wanted = |sorts_rows| of(sorts_rows, false, &|_: &Path| Ok(0)).wanted(&sample);
        // Three more of rows, and 3.5 of entries; of these one is in memory, and one was written.
        assert_eq!(wanted(false), RequiredBytes { pages: 6 * GB + GB / 2, pieces: GB + GB / 2 });
        assert_eq!(wanted(true), RequiredBytes { pages: 10 * GB + GB / 2, pieces: 6 * GB + 2 * GB + GB / 2 });
        // At the end nothing is guessed.
        let end = InputSample { input: 9 * GB, ..sample };
        assert_eq!(
            of(false, false, &|_: &Path| Ok(0)).wanted(&end),
            RequiredBytes { pages: 2 * GB, pieces: 0 }
        );
    }

    #[test]
    fn missing_disk_space_is_reported_with_numbers() {
        let free = |data: u64, sort: u64| {
            move |at: &Path| Ok::<_, std::io::Error>(if at == Path::new("/data") { data } else { sort })
        };
        let (pages, pieces) = (6 * GB + GB / 2 + LEFT_BYTES, GB + GB / 2 + LEFT_BYTES);
        let told = |is_one_disk: bool, data: u64, sort: u64| half(&of(false, is_one_disk, &free(data, sort)));
        assert_eq!(told(false, pages, pieces), Ok(()));
        let words = told(false, pages - 1, pieces).unwrap_err();
        assert!(words.starts_with("/data: about 6.98 GB more are needed, 7.25 GB are free"), "{words}");
        let words = told(false, pages, pieces - 1).unwrap_err();
        assert!(words.contains("/sort: about 1.61 GB more") && words.contains("TMPDIR"), "{words}");
        // On one disk the sum must be free.
        assert_eq!(told(true, pages + pieces - LEFT_BYTES, pages + pieces - LEFT_BYTES), Ok(()));
        assert!(told(true, pages + pieces - LEFT_BYTES - 1, pages + pieces - LEFT_BYTES - 1).is_err());
        // Nothing is said too early, nor where nothing is known.
        let none = |_: &Path| Ok::<u64, std::io::Error>(0);
        assert!(of(false, false, &none).add(LOOK_BYTES - 1, Bytes { rows: GB, ..Bytes::default() }).is_ok());
        assert!(half(&of(false, false, &|_: &Path| Err(std::io::ErrorKind::Unsupported.into()))).is_ok());
    }
}
