//! Cuts a stream of text into chunks of whole records.
//!
//! Where a cut falls depends only on the text, the dialect and the target size, never on how many bytes a
//! read happened to return: a stopped import finds the same chunks again.

use std::ops::Range;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use rows::{Dialect, Encoding, Format, LineEnd, Splitter, UnclosedQuote};

use crate::Error;
use crate::memory_budget::{MemoryBudget, Reservation};
use crate::source::{Buffer, Files, SAMPLE_BYTES, Text};
use progress::Progress;

/// The most bytes of all chunks in memory, however long records are. A single larger chunk is the only one in
/// memory then.
const BUDGET_BYTES: usize = 96 << 20;

/// Bytes per read when searching for the end of a long record.
const READ_ON_BYTES: usize = 4 << 20;

/// Whole records of one file.
pub struct Chunk {
    /// Its number, counted over all files from 1.
    pub number: u32,
    /// Index of the file.
    pub file: usize,
    /// Name of the file.
    pub name: Arc<str>,
    /// Line of the file where the first record begins, from 1.
    pub line: u64,
    /// Records, including blank lines.
    pub records: u64,
    buffer: Buffer,
    line_byte: u8,
    home: Option<Sender<Buffer>>,
    /// Its share of the memory, returned when the chunk is dropped.
    _share: Reservation,
}

impl Chunk {
    /// Records that were taken out of others.
    pub(crate) fn of(file: usize, name: Arc<str>, records: u64, text: &[u8]) -> Chunk {
        let mut buffer = Buffer::default();
        buffer.append(text);
        let share = MemoryBudget::new(text.len()).take(text.len());
        Chunk { number: 1, file, name, line: 1, records, buffer, line_byte: b'\n', home: None, _share: share }
    }

    /// The records with their line ends; the last record of a file may have none.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// CRC-32/ISCSI of the bytes, by which the ledger recognises a chunk.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        // The 32-bit algorithms return their checksum in the low half.
        u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, self.bytes()))
            .unwrap_or(u32::MAX)
    }

    /// Line of the file where the record at `offset` of [`Chunk::bytes`] begins, from 1.
    #[must_use]
    pub fn line_at(&self, offset: usize) -> u64 {
        self.line + self.lines_in(0..offset)
    }

    /// How many lines end in a part of [`Chunk::bytes`].
    #[must_use]
    pub fn lines_in(&self, part: Range<usize>) -> u64 {
        let part = self.bytes().get(part).unwrap_or_default();
        memchr::memchr_iter(self.line_byte, part).count() as u64
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            // If the pool is full or closed the memory is only freed instead.
            home.try_send(buffer).ok();
        }
    }
}

/// How chunks are cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// How to convert the text before it is in the dialect.
    pub format: Format,
    /// Dialect of the records.
    pub dialect: Dialect,
    /// Encoding of the files.
    pub encoding: Encoding,
    /// Target size of a chunk, bytes.
    pub chunk_bytes: usize,
    /// Longest accepted record, bytes: the server's max_allowed_packet.
    pub record_bytes_max: usize,
    /// Lines to skip at the start of each file.
    pub skip_lines: u64,
    /// Whether the first record after those lines is a header.
    pub header: bool,
}

impl Cut {
    /// The byte that ends each line of a text in this dialect.
    fn line_byte(&self) -> u8 {
        if self.dialect.line_end == LineEnd::Cr { b'\r' } else { b'\n' }
    }
}

/// Cuts files into chunks, one after the other.
pub struct Chunker<'a> {
    files: &'a Files<'a>,
    progress: &'a dyn Progress,
    cut: Cut,
    next_file: usize,
    number: u32,
    open: Option<Open<'a>>,
    pool: (Sender<Buffer>, Receiver<Buffer>),
    budget: Arc<MemoryBudget>,
}

/// The file being cut.
struct Open<'a> {
    file: usize,
    name: Arc<str>,
    text: Text<'a>,
    /// The bytes that were read after the last cut.
    carry: Vec<u8>,
    line: u64,
    more: bool,
}

impl<'a> Chunker<'a> {
    /// Starts with the first file. `pool` is the number of empty buffers to keep for reuse.
    #[must_use]
    pub fn new(files: &'a Files<'a>, cut: Cut, pool: usize, progress: &'a dyn Progress) -> Chunker<'a> {
        let pool = crossbeam_channel::bounded(pool);
        let budget = MemoryBudget::new(BUDGET_BYTES);
        Chunker { files, progress, cut, next_file: 0, number: 0, open: None, pool, budget }
    }

    /// The next chunk, or `None` after the last record of the last file. Waits until enough of the earlier
    /// chunks have been dropped, so one thread can't collect all chunks.
    ///
    /// # Errors
    /// Errors of reading and decoding; a record longer than allowed; a quote that is never closed.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, Error> {
        loop {
            let Some(open) = &mut self.open else {
                if self.next_file == self.files.len() {
                    return Ok(None);
                }
                self.open = Some(Open::new(self.files, self.next_file, &self.cut, self.progress)?);
                self.next_file += 1;
                continue;
            };
            let mut buffer = self.pool.1.try_recv().unwrap_or_default();
            let records = open.fill(&mut buffer, self.cut.chunk_bytes, &self.cut)?;
            let (file, line) = (open.file, open.line);
            let name = Arc::clone(&open.name);
            if buffer.is_empty() {
                self.open = None;
                continue;
            }
            let line_byte = self.cut.line_byte();
            open.line += memchr::memchr_iter(line_byte, buffer.bytes()).count() as u64;
            self.number += 1;
            // The memory of an unusually long record is freed.
            let usual = buffer.capacity() <= 2 * (self.cut.chunk_bytes + SAMPLE_BYTES);
            let home = usual.then(|| self.pool.0.clone());
            let share = self.budget.take(buffer.bytes().len());
            return Ok(Some(Chunk {
                number: self.number,
                file,
                name,
                line,
                records,
                buffer,
                line_byte,
                home,
                _share: share,
            }));
        }
    }
}

impl<'a> Open<'a> {
    fn new(files: &Files<'_>, file: usize, cut: &Cut, progress: &'a dyn Progress) -> Result<Open<'a>, Error> {
        let translator = cut.format.translator(cut.dialect, cut.skip_lines);
        let mut open = Open {
            file,
            name: Arc::from(files.name(file)),
            text: files.open_sampled(file)?.text(cut.encoding, translator, progress),
            carry: Vec::new(),
            line: 1_u64.saturating_sub(cut.format.lines_added()),
            more: true,
        };
        // A line to skip ends at its line end, even inside quotes.
        let lines = Cut { dialect: Dialect { quote: None, escape: None, ..cut.dialect }, ..cut.clone() };
        for _ in 0..cut.skip_lines {
            open.pass(&lines)?;
        }
        if cut.header {
            open.pass(cut)?;
        }
        Ok(open)
    }

    /// Skips one record.
    fn pass(&mut self, cut: &Cut) -> Result<(), Error> {
        let mut buffer = Buffer::default();
        self.fill(&mut buffer, 1, cut)?;
        self.line += memchr::memchr_iter(cut.line_byte(), buffer.bytes()).count() as u64;
        Ok(())
    }

    /// Fills `buffer` with whole records: as many as end within `target` bytes, or one if none does. Returns
    /// their number; the buffer stays empty at the end of the file.
    fn fill(&mut self, buffer: &mut Buffer, target: usize, cut: &Cut) -> Result<u64, Error> {
        buffer.lines_before = self.line.saturating_sub(1);
        buffer.append(&std::mem::take(&mut self.carry));
        while self.more && buffer.len() <= target {
            self.read_on(buffer, target + 1, cut)?;
        }
        // The carry began at the start of a record, so the scan restarts.
        let mut splitter = Splitter::new(&cut.dialect);
        let all = !self.more && buffer.len() <= target;
        let within = buffer.len().min(target);
        let scan = splitter.scan(buffer.bytes().get(..within).unwrap_or_default());
        if all {
            let tail = splitter.finish().map_err(|open| self.never_closed(&open))?;
            return Ok(scan.records + u64::from(tail));
        }
        let end = match scan.last_end {
            Some(end) => end,
            None => self.one_record(buffer, within, splitter, cut)?,
        };
        self.carry.extend_from_slice(buffer.bytes().get(end..).unwrap_or_default());
        buffer.truncate(end);
        Ok(scan.records.max(1))
    }

    /// The end of a record that is longer than a chunk and of which `splitter` has seen `scanned` bytes.
    fn one_record(
        &mut self,
        buffer: &mut Buffer,
        mut scanned: usize,
        mut splitter: Splitter,
        cut: &Cut,
    ) -> Result<usize, Error> {
        loop {
            let scan = splitter.scan_to(buffer.bytes().get(scanned..).unwrap_or_default(), 0);
            let end = scan.last_end.map_or(buffer.len(), |end| scanned + end);
            if end > cut.record_bytes_max {
                return Err(self.too_long(cut));
            }
            if scan.last_end.is_some() {
                return Ok(end);
            }
            scanned = buffer.len();
            if !self.more {
                splitter.finish().map_err(|open| self.never_closed(&open))?;
                return Ok(end);
            }
            self.read_on(buffer, scanned + READ_ON_BYTES, cut)?;
        }
    }

    /// Reads until the buffer has so many bytes, or the file ends.
    fn read_on(&mut self, buffer: &mut Buffer, want: usize, cut: &Cut) -> Result<(), Error> {
        self.more = self.text.fill(buffer, want)?;
        if !self.more {
            let rows = rows::without_end_marks(buffer.bytes(), Some(cut.dialect.line_end)).len();
            buffer.truncate(rows);
        }
        Ok(())
    }

    fn too_long(&self, cut: &Cut) -> Error {
        let quote = if cut.dialect.quote.is_some() {
            ", unless a quote that is never closed swallows the rest"
        } else {
            ""
        };
        Error::Record {
            name: self.name.to_string(),
            line: self.line,
            what: format!(
                "the record that begins here is longer than the server's max_allowed_packet of {0} bytes; \
                 raise it (SET GLOBAL max_allowed_packet = ...) and try again{quote}",
                cut.record_bytes_max
            ),
        }
    }

    fn never_closed(&self, open: &UnclosedQuote) -> Error {
        Error::Record {
            name: self.name.to_string(),
            line: self.line + open.line - 1,
            what: "a quote is opened here and never closed; \
                   fix the file, or read quotes as text with --quote none"
                .to_owned(),
        }
    }
}
