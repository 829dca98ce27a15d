//! Finds record ends, block by block.
//!
//! A line end is a record end only if it is neither quoted nor escaped, so a block can't be read without
//! knowing how the one before it ended. [`Splitter`] carries that over; [`records`] is the same machine for
//! a chunk that begins at a record.

use memchr::{memchr, memchr_iter, memrchr};

use crate::byte_marks::{Cursor, Marks};
use crate::{Dialect, LineEnd, UnclosedQuote};

/// A whole text without what old programs put behind its rows: a ^Z in a line of its own, and a line feed
/// where lines end with carriage returns. Without a line end the text shows which it is.
#[must_use]
pub fn without_end_marks(text: &[u8], line_end: Option<LineEnd>) -> &[u8] {
    let text = match text {
        [rows @ .., 0x1a] if matches!(rows.last(), None | Some(b'\n' | b'\r')) => rows,
        _ => text,
    };
    let Some(rows) = text.strip_suffix(b"\n") else { return text };
    let is_old_macintosh = || {
        let before = rows.strip_suffix(b"\r").unwrap_or(rows);
        memchr(b'\n', rows).is_none() && memchr(b'\r', before).is_some()
    };
    if line_end.map_or_else(is_old_macintosh, |end| end == LineEnd::Cr) { rows } else { text }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Outside,
    Quoted,
    /// After a quote in a quoted field: it closes the field unless another quote follows at once.
    QuoteSeen,
}

/// A record end: where its text ends, and where the next record begins.
struct End {
    text: usize,
    next: usize,
}

/// Reads the marks of a text: line ends, quotes and escapes. The bytes between them are examined only next
/// to a mark. All positions are offsets in the current block; those before its start are negative.
#[derive(Clone, Copy, Debug)]
struct Machine {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    line_end: LineEnd,
    eol: u8,
    mode: Mode,
    /// Where the current record begins.
    record_at: isize,
    /// The last byte that follows an escape.
    escaped_at: isize,
    /// The quote of [`Mode::QuoteSeen`].
    quote_at: isize,
    /// The last byte of the previous block.
    last: u8,
    /// Line ends so far, including quoted ones.
    lines: u64,
    /// The line of the last opening quote, counted from 1.
    quote_line: u64,
}

impl Machine {
    fn new(dialect: &Dialect) -> Machine {
        Machine {
            delimiter: dialect.delimiter,
            quote: dialect.quote,
            escape: dialect.escape_byte(),
            line_end: dialect.line_end,
            eol: dialect.line_end.last_byte(),
            mode: Mode::Outside,
            record_at: 0,
            escaped_at: -1,
            quote_at: -1,
            last: 0,
            lines: 0,
            quote_line: 0,
        }
    }

    fn marks(&self) -> Marks {
        Marks::new(self.eol, self.quote, self.escape)
    }

    /// Whether every line end ends a record.
    fn is_plain(&self) -> bool {
        self.quote.is_none() && self.escape.is_none() && self.line_end != LineEnd::CrLf
    }

    /// Processes the mark at `at`; returns the record end if it is one.
    #[inline]
    fn step(&mut self, block: &[u8], at: usize) -> Option<End> {
        let (byte, here) = (block[at], at as isize);
        self.lines += u64::from(byte == self.eol);
        if here == self.escaped_at {
            return None;
        }
        match self.mode {
            Mode::Outside => {}
            Mode::QuoteSeen if Some(byte) == self.quote && here == self.quote_at + 1 => {
                self.mode = Mode::Quoted;
                return None;
            }
            Mode::QuoteSeen => self.mode = Mode::Outside,
            Mode::Quoted => {
                if Some(byte) == self.quote {
                    (self.mode, self.quote_at) = (Mode::QuoteSeen, here);
                } else if Some(byte) == self.escape {
                    self.escaped_at = here + 1;
                }
                return None;
            }
        }
        if byte == self.eol {
            return self.line_end(block, at);
        }
        if Some(byte) == self.escape {
            self.escaped_at = here + 1;
        } else if here == self.record_at || self.is_behind(self.delimiter, block, at) {
            (self.mode, self.quote_line) = (Mode::Quoted, self.lines + 1);
        }
        None
    }

    #[inline]
    fn line_end(&mut self, block: &[u8], at: usize) -> Option<End> {
        let long = match self.line_end {
            LineEnd::Lf | LineEnd::Cr => false,
            LineEnd::Any => self.is_behind(b'\r', block, at),
            LineEnd::CrLf if self.is_behind(b'\r', block, at) => true,
            LineEnd::CrLf => return None,
        };
        self.record_at = at as isize + 1;
        Some(End { text: at.saturating_sub(usize::from(long)), next: at + 1 })
    }

    /// Whether the byte before `at` is this one, and not escaped.
    #[inline]
    fn is_behind(&self, byte: u8, block: &[u8], at: usize) -> bool {
        let before = if at == 0 { self.last } else { block[at - 1] };
        before == byte && self.escaped_at != at as isize - 1
    }

    /// Whether the text ends in the first half of a line end: a `\r` that is neither quoted nor escaped.
    fn ends_in_half(&self, text: &[u8]) -> bool {
        matches!(self.line_end, LineEnd::CrLf | LineEnd::Any)
            && text.last() == Some(&b'\r')
            && self.mode != Mode::Quoted
            && self.escaped_at != text.len() as isize - 1
    }

    /// Ends the block, of which `consumed` was read.
    fn carry(&mut self, consumed: &[u8]) {
        let Some(&last) = consumed.last() else { return };
        let length = consumed.len() as isize;
        self.last = last;
        self.record_at -= length;
        self.escaped_at -= length;
        self.quote_at -= length;
    }
}

/// The result of [`Splitter::scan`] for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// How many record ends.
    pub records: u64,
    /// The offset in the block after the last of them; `None` when no record ended in this block.
    pub last_end: Option<usize>,
    /// How many bytes of the block were read; the next scan continues there. Less than the block only when
    /// [`Splitter::scan_to`] stopped, and then equal to `last_end`.
    pub consumed: usize,
}

impl Scan {
    fn add(&mut self, records: u64, end: usize) {
        self.records += records;
        self.last_end = Some(end);
    }
}

/// Finds record ends in a stream that comes in blocks of any size.
///
/// An empty line is a record like any other; the caller decides whether it counts as a row.
#[derive(Clone, Debug)]
pub struct Splitter {
    machine: Machine,
    records: u64,
}

impl Splitter {
    /// A splitter at the beginning of a record.
    pub fn new(dialect: &Dialect) -> Splitter {
        Splitter { machine: Machine::new(dialect), records: 0 }
    }

    /// Reads the next block, continuing where the last one ended.
    pub fn scan(&mut self, block: &[u8]) -> Scan {
        self.scan_to(block, usize::MAX)
    }

    /// Reads the next block up to the first record end with an offset of at least `at`. The bytes after it
    /// were not read: the next scan begins with `block[scan.consumed..]`.
    pub fn scan_to(&mut self, block: &[u8], at: usize) -> Scan {
        let scan =
            if self.machine.is_plain() { self.scan_plain(block, at) } else { self.scan_marks(block, at) };
        self.machine.carry(&block[..scan.consumed]);
        self.records += scan.records;
        scan
    }

    fn scan_marks(&mut self, block: &[u8], at: usize) -> Scan {
        let mut scan = Scan { records: 0, last_end: None, consumed: block.len() };
        let mut machine = self.machine;
        let mut cursor = Cursor::new(machine.marks(), block);
        while let Some(mark) = cursor.next() {
            let Some(end) = machine.step(block, mark) else { continue };
            scan.add(1, end.next);
            if end.next >= at {
                scan.consumed = end.next;
                break;
            }
        }
        self.machine = machine;
        scan
    }

    /// Counts line ends in bulk up to where the next one may be the one to stop at.
    fn scan_plain(&mut self, block: &[u8], at: usize) -> Scan {
        let mut scan = Scan { records: 0, last_end: None, consumed: block.len() };
        let eol = self.machine.eol;
        let (bulk, rest) = block.split_at(at.saturating_sub(1).min(block.len()));
        if let Some(last) = memrchr(eol, bulk) {
            scan.add(memchr_iter(eol, &bulk[..=last]).count() as u64, last + 1);
        }
        if let Some(stop) = memchr(eol, rest) {
            scan.consumed = bulk.len() + stop + 1;
            scan.add(1, scan.consumed);
        }
        self.machine.lines += scan.records;
        self.machine.record_at = scan.last_end.map_or(self.machine.record_at, |end| end as isize);
        scan
    }

    /// Returns whether the input ends with a record without a line end. Then the splitter is at the
    /// beginning of a record again, and its counts continue.
    ///
    /// # Errors
    ///
    /// The input ended inside a quoted field.
    pub fn finish(&mut self) -> Result<bool, UnclosedQuote> {
        let open = self.machine.record_at < 0;
        let in_quotes = self.machine.mode == Mode::Quoted;
        self.machine.mode = Mode::Outside;
        (self.machine.record_at, self.machine.escaped_at, self.machine.last) = (0, -1, 0);
        if in_quotes {
            return Err(UnclosedQuote { record: self.records + 1, line: self.machine.quote_line });
        }
        self.records += u64::from(open);
        Ok(open)
    }

    /// How many records were read so far; a last one without a line end counts only after
    /// [`finish`](Self::finish).
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many physical lines were read so far, including quoted line ends: the line number of the next
    /// byte is this plus one.
    pub fn lines(&self) -> u64 {
        self.machine.lines
    }
}

/// The records, without their line ends, of a chunk that begins at a record. The last one may lack its line
/// end, or half of it, or even its closing quote; it is then the rest of the chunk.
pub fn records<'a>(dialect: &Dialect, chunk: &'a [u8]) -> Records<'a> {
    let machine = Machine::new(dialect);
    Records { machine, cursor: Cursor::new(machine.marks(), chunk), chunk, pos: 0 }
}

/// Iterator of [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    machine: Machine,
    cursor: Cursor<'a>,
    chunk: &'a [u8],
    pos: usize,
}

impl Records<'_> {
    /// The offset in the chunk at which the next record begins.
    pub fn offset(&self) -> usize {
        self.pos
    }

    /// How many physical lines of the chunk are before the next record.
    pub fn lines(&self) -> u64 {
        self.machine.lines
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let from = self.pos;
        while let Some(mark) = self.cursor.next() {
            if let Some(end) = self.machine.step(self.chunk, mark) {
                self.pos = end.next;
                return Some(&self.chunk[from..end.text.max(from)]);
            }
        }
        self.pos = self.chunk.len();
        let rest = self.chunk.get(from..).filter(|rest| !rest.is_empty())?;
        Some(if self.machine.ends_in_half(self.chunk) { &rest[..rest.len() - 1] } else { rest })
    }
}
