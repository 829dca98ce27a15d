//! Where records end, found block by block.
//!
//! A record end is only a line end that is neither quoted nor escaped, so a block cannot be read without
//! knowing how the one before it ended. [`Splitter`] carries that over; [`records`] is the same machine on a
//! chunk that starts at a record start.

use memchr::{memchr, memchr_iter, memrchr};

use crate::mark::{Cursor, Marks};
use crate::{Dialect, LineEnd, UnclosedQuote};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Outside,
    Quoted,
    /// Behind a quote in a quoted field: it closes the field unless another one follows at once.
    QuoteSeen,
}

/// One record end: where its text ends, and where the next record starts.
struct End {
    text: usize,
    next: usize,
}

/// Reads the marks of a text: line ends, quotes and escapes. What lies between them is looked at only where
/// it borders on one. All places are offsets in the current block; those before its start are negative.
#[derive(Clone, Copy, Debug)]
struct Machine {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    line_end: LineEnd,
    eol: u8,
    mode: Mode,
    /// Where the current record starts.
    record_at: isize,
    /// The last byte that has an escape before it.
    escaped_at: isize,
    /// The quote of [`Mode::QuoteSeen`].
    quote_at: isize,
    /// The last byte of the block before.
    last: u8,
    /// Line ends so far, quoted ones included.
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

    /// Takes notice of the mark at `at`; returns the record end if it is one.
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

    /// Ends the block, of which this much was read.
    fn carry(&mut self, consumed: &[u8]) {
        let Some(&last) = consumed.last() else { return };
        let length = consumed.len() as isize;
        self.last = last;
        self.record_at -= length;
        self.escaped_at -= length;
        self.quote_at -= length;
    }
}

/// What [`Splitter::scan`] saw in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// How many record ends.
    pub records: u64,
    /// The offset in the block just behind the last of them; `None` when no record ended in this block.
    pub last_end: Option<usize>,
    /// How many bytes of the block were read; the next scan goes on there. Smaller than the block only when
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
/// A line that is empty is a record like any other; whether it counts as a row is for the caller to say.
#[derive(Clone, Debug)]
pub struct Splitter {
    machine: Machine,
    records: u64,
}

impl Splitter {
    /// A splitter at the start of a record.
    pub fn new(dialect: &Dialect) -> Splitter {
        Splitter { machine: Machine::new(dialect), records: 0 }
    }

    /// Reads the next block, going on exactly where the last one ended.
    pub fn scan(&mut self, block: &[u8]) -> Scan {
        self.scan_to(block, usize::MAX)
    }

    /// Reads the next block up to the first record end whose offset is `at` or more. What lies behind it was
    /// not read: the next scan starts with `block[scan.consumed..]`.
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

    /// Says whether the input ends with a record that has no line end. After it the splitter is at the start
    /// of a record again, and its counts go on.
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

    /// How many records were read so far; the last one without a line end counts from
    /// [`finish`](Self::finish) on.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many physical lines were read so far, quoted line ends included: the line that the next byte is on
    /// has this number plus one.
    pub fn lines(&self) -> u64 {
        self.machine.lines
    }
}

/// The records of a chunk that starts at a record start, without their line ends. The last one may lack its
/// line end, or half of it, or even its closing quote; it is what is left of the chunk then.
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
    /// The offset in the chunk at which the next record starts.
    pub fn offset(&self) -> usize {
        self.pos
    }

    /// How many physical lines of the chunk lie before the next record.
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
