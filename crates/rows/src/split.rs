//! Where records end, found block by block.
//!
//! A record end is only a line end that is neither quoted nor escaped, so a block cannot be read without
//! knowing how the one before it ended. [`Splitter`] carries that over; [`records`] is the same machine on a
//! chunk that starts at a record start.

use memchr::{memchr, memchr_iter, memchr2, memchr3, memrchr};

use crate::{Dialect, LineEnd, UnclosedQuote};

/// A stretch without quotes and escapes is worth counting in bulk from this length on, in bytes. Below it the
/// search for the stretch costs more than it saves.
const BULK_BYTES_MIN: usize = 512;

/// What is known about the byte before the next one, while outside of quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    /// A delimiter, a record end or nothing: a field starts here.
    Start,
    /// An unescaped `\r` that may be the first half of a line end.
    Cr,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Outside(Before),
    OutsideEscape,
    Quoted,
    QuotedEscape,
    /// A quote inside a quoted field: closes it, unless another quote follows.
    QuoteSeen,
}

/// One record end: where its text ends, and where the next record starts.
struct End {
    text: usize,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Machine {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    line_end: LineEnd,
    eol: u8,
    state: State,
    /// Where in the current block the last quoted field was opened.
    opened: Option<usize>,
}

impl Machine {
    fn new(dialect: &Dialect) -> Machine {
        Machine {
            delimiter: dialect.delimiter,
            quote: dialect.quote,
            escape: dialect.escape_byte(),
            line_end: dialect.line_end,
            eol: dialect.line_end.last_byte(),
            state: State::Outside(Before::Start),
            opened: None,
        }
    }

    /// Goes on from `pos` to just behind the next record end, or to the end of the block.
    #[inline]
    fn next_end(&mut self, block: &[u8], mut pos: usize) -> Option<End> {
        while pos < block.len() {
            match self.state {
                State::Outside(before) => match self.outside(block, pos, before) {
                    Ok(end) => return Some(end),
                    Err(next) => pos = next,
                },
                State::Quoted => pos = self.quoted(block, pos),
                State::OutsideEscape => {
                    self.state = State::Outside(Before::Other);
                    pos += 1;
                }
                State::QuotedEscape => {
                    self.state = State::Quoted;
                    pos += 1;
                }
                State::QuoteSeen => {
                    if Some(block[pos]) == self.quote {
                        self.state = State::Quoted;
                        pos += 1;
                    } else {
                        self.state = State::Outside(Before::Other);
                    }
                }
            }
        }
        None
    }

    /// One step outside of quotes: the record end, or where to go on.
    #[inline]
    fn outside(&mut self, block: &[u8], pos: usize, before: Before) -> Result<End, usize> {
        let rest = &block[pos..];
        let found = match (self.escape, self.quote) {
            (None, None) => memchr(self.eol, rest),
            (None, Some(quote)) => memchr2(self.eol, quote, rest),
            (Some(escape), None) => memchr2(self.eol, escape, rest),
            (Some(escape), Some(quote)) => memchr3(self.eol, escape, quote, rest),
        };
        let Some(at) = found.map(|offset| pos + offset) else {
            self.state = State::Outside(self.before(block[block.len() - 1]));
            return Err(block.len());
        };
        let before = if at == pos { before } else { self.before(block[at - 1]) };
        let byte = block[at];
        if byte == self.eol {
            let carriage_return = before == Before::Cr;
            if self.line_end == LineEnd::CrLf && !carriage_return {
                self.state = State::Outside(Before::Other);
                return Err(at + 1);
            }
            self.state = State::Outside(Before::Start);
            return Ok(End { text: at.saturating_sub(usize::from(carriage_return)), next: at + 1 });
        }
        if Some(byte) == self.escape {
            self.state = State::OutsideEscape;
        } else if before == Before::Start {
            self.state = State::Quoted;
            self.opened = Some(at);
        } else {
            self.state = State::Outside(Before::Other);
        }
        Err(at + 1)
    }

    /// What an unescaped byte outside of quotes is to the one behind it.
    #[inline]
    fn before(&self, byte: u8) -> Before {
        if byte == self.delimiter {
            Before::Start
        } else if byte == b'\r' && matches!(self.line_end, LineEnd::CrLf | LineEnd::Any) {
            Before::Cr
        } else {
            Before::Other
        }
    }

    /// One step inside of quotes: where to go on.
    #[inline]
    fn quoted(&mut self, block: &[u8], pos: usize) -> usize {
        let rest = &block[pos..];
        let quote = self.quote.unwrap_or(b'"');
        let found = match self.escape {
            None => memchr(quote, rest),
            Some(escape) => memchr2(quote, escape, rest),
        };
        let Some(offset) = found else { return block.len() };
        self.state = if rest[offset] == quote { State::QuoteSeen } else { State::QuotedEscape };
        pos + offset + 1
    }

    /// Where the next byte is that needs the machine, for a stretch that is otherwise only line ends.
    fn next_special(&self, block: &[u8], pos: usize) -> usize {
        let rest = &block[pos..];
        let found = match (self.escape, self.quote) {
            (None, None) => None,
            (None, Some(one)) | (Some(one), None) => memchr(one, rest),
            (Some(escape), Some(quote)) => memchr2(escape, quote, rest),
        };
        found.map_or(block.len(), |offset| pos + offset)
    }

    /// Counts the record ends in `block[from..to]`, which holds no quote and no escape, and moves to `to`.
    fn count_plain(&mut self, block: &[u8], from: usize, to: usize) -> (u64, Option<usize>) {
        let State::Outside(before) = self.state else { return (0, None) };
        let stretch = &block[from..to];
        let Some(&last) = stretch.last() else { return (0, None) };
        let (count, end) = if self.line_end == LineEnd::CrLf {
            let mut end = None;
            let ends = memchr_iter(b'\n', stretch).filter(|&at| match at.checked_sub(1) {
                Some(previous) => stretch[previous] == b'\r',
                None => before == Before::Cr,
            });
            let count = ends.inspect(|&at| end = Some(at)).count();
            (count, end)
        } else {
            (memchr_iter(self.eol, stretch).count(), memrchr(self.eol, stretch))
        };
        let end = end.map(|at| from + at + 1);
        self.state = State::Outside(if end == Some(to) { Before::Start } else { self.before(last) });
        (count as u64, end)
    }

    fn in_quotes(&self) -> bool {
        matches!(self.state, State::Quoted | State::QuotedEscape)
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

/// Finds record ends in a stream that comes in blocks of any size.
///
/// A line that is empty is a record like any other; whether it counts as a row is for the caller to say.
#[derive(Clone, Debug)]
pub struct Splitter {
    machine: Machine,
    records: u64,
    /// Line ends, quoted or not, in what was consumed.
    line_ends: u64,
    /// Bytes were seen behind the last record end.
    open: bool,
    /// The line on which the quoted field that is still open began.
    quote_line: u64,
}

impl Splitter {
    /// A splitter at the start of a record.
    pub fn new(dialect: &Dialect) -> Splitter {
        Splitter { machine: Machine::new(dialect), records: 0, line_ends: 0, open: false, quote_line: 1 }
    }

    /// Reads the next block, going on exactly where the last one ended.
    pub fn scan(&mut self, block: &[u8]) -> Scan {
        self.scan_to(block, usize::MAX)
    }

    /// Reads the next block up to the first record end whose offset is `at` or more. What lies behind it was
    /// not read: the next scan starts with `block[scan.consumed..]`.
    pub fn scan_to(&mut self, block: &[u8], at: usize) -> Scan {
        self.machine.opened = None;
        let mut scan = Scan { records: 0, last_end: None, consumed: block.len() };
        let mut pos = 0;
        // A record end before `bulk_end` cannot be the one to stop at.
        let bulk_end = at.saturating_sub(1).min(block.len());
        let mut special = 0;
        while pos < block.len() {
            if matches!(self.machine.state, State::Outside(_)) && pos < bulk_end {
                if special <= pos {
                    special = self.machine.next_special(&block[..bulk_end], pos);
                }
                if special - pos >= BULK_BYTES_MIN {
                    let (records, end) = self.machine.count_plain(block, pos, special);
                    scan.records += records;
                    scan.last_end = end.or(scan.last_end);
                    pos = special;
                    continue;
                }
            }
            let Some(end) = self.machine.next_end(block, pos) else { break };
            pos = end.next;
            scan.records += 1;
            scan.last_end = Some(pos);
            if pos >= at {
                scan.consumed = pos;
                break;
            }
        }
        self.note(&block[..scan.consumed], &scan);
        scan
    }

    fn note(&mut self, consumed: &[u8], scan: &Scan) {
        self.records += scan.records;
        if !consumed.is_empty() {
            self.open = scan.last_end != Some(consumed.len());
        }
        if let Some(opened) = self.machine.opened.filter(|_| self.machine.in_quotes()) {
            self.quote_line = self.line_ends + self.count_lines(&consumed[..opened]) + 1;
        }
        self.line_ends += self.count_lines(consumed);
    }

    fn count_lines(&self, bytes: &[u8]) -> u64 {
        memchr_iter(self.machine.eol, bytes).count() as u64
    }

    /// Says whether the input ends with a record that has no line end. After it the splitter is at the start
    /// of a record again, and its counts go on.
    ///
    /// # Errors
    ///
    /// The input ended inside a quoted field.
    pub fn finish(&mut self) -> Result<bool, UnclosedQuote> {
        let (open, in_quotes) = (self.open, self.machine.in_quotes());
        self.machine.state = State::Outside(Before::Start);
        self.open = false;
        if in_quotes {
            return Err(UnclosedQuote { record: self.records + 1, line: self.quote_line });
        }
        self.records += u64::from(open);
        Ok(open)
    }

    /// How many records were read so far; the last one without a line end counts from [`finish`](Self::finish)
    /// on.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many physical lines were read so far, quoted line ends included: the line that the next byte is on
    /// has this number plus one.
    pub fn lines(&self) -> u64 {
        self.line_ends
    }
}

/// The records of a chunk that starts at a record start, without their line ends. The last one may lack its
/// line end, or even its closing quote; it is what is left of the chunk then.
pub fn records<'a>(dialect: &Dialect, chunk: &'a [u8]) -> Records<'a> {
    Records { machine: Machine::new(dialect), chunk, pos: 0 }
}

/// Iterator of [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    machine: Machine,
    chunk: &'a [u8],
    pos: usize,
}

impl Records<'_> {
    /// The offset in the chunk at which the next record starts.
    pub fn offset(&self) -> usize {
        self.pos
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let from = self.pos;
        if from >= self.chunk.len() {
            return None;
        }
        let end = self.machine.next_end(self.chunk, from);
        let End { text, next } = end.unwrap_or(End { text: self.chunk.len(), next: self.chunk.len() });
        self.pos = next;
        Some(&self.chunk[from..text.max(from)])
    }
}
