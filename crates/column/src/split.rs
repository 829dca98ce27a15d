//! Cuts text into records and fields. Whatever is guessed here, joining the fields restores the same text.

use memchr::memchr;

use crate::Span;

/// Bytes that may separate fields, or none.
const DELIMITERS: [Option<u8>; 5] = [Some(b'\t'), Some(b','), Some(b';'), Some(b'|'), None];
/// Text and lines examined for a guess.
const SAMPLE_BYTES: usize = 128 * 1024;
const SAMPLE_LINES: usize = 400;
/// A quoted field that is longer is treated as one that only begins with a quote.
const QUOTED_MAX: usize = 1 << 20;
/// The most columns of a table.
pub(crate) const COLUMNS_MAX: usize = 4096;

/// How the fields of a text are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: Option<u8>,
    pub(crate) columns: usize,
    pub(crate) carriage_return: bool,
    quotes: bool,
    backslash: bool,
}

/// The fields of regular records, which have one for each column, and the other records.
pub(crate) struct Table {
    /// For each column its fields, one for each regular record.
    pub(crate) columns: Vec<Vec<Span>>,
    /// Irregular records without their line end, each with the number of regular ones before it.
    pub(crate) odd: Vec<(Span, usize)>,
    /// Whether the last record has a line end.
    pub(crate) ended: bool,
}

impl Dialect {
    /// The dialect of most lines of the text; none when they do not look like a table.
    pub(crate) fn guess(text: &[u8]) -> Option<Dialect> {
        let sample = &text[..text.len().min(SAMPLE_BYTES)];
        let mut best: Option<(usize, Dialect)> = None;
        for delimiter in DELIMITERS {
            let mut dialect = Dialect::with(text, delimiter, 0);
            let mut counts = Vec::new();
            let mut at = 0;
            while at < sample.len() && counts.len() < SAMPLE_LINES {
                let mut fields = 0;
                at = dialect.record(sample, at, |_| fields += 1);
                counts.push(fields);
            }
            if counts.len() > 1 {
                // The last line may be incomplete.
                counts.pop();
            }
            counts.sort_unstable();
            let common = counts.chunk_by(|a, b| a == b).max_by_key(|same| same.len()).unwrap_or(&[]);
            dialect.columns = common.first().copied().unwrap_or(0);
            let enough = common.len() * 10 >= counts.len() * 8;
            let is_table = if delimiter.is_some() {
                (2..=COLUMNS_MAX).contains(&dialect.columns)
            } else {
                sample.len() < counts.len() * 64
            };
            // More columns make a dialect more certain; when the number of fields varies too much, it is not
            // a table.
            if enough && is_table && best.is_none_or(|(columns, _)| dialect.columns > columns) {
                best = Some((dialect.columns, dialect));
            }
        }
        best.map(|(_, dialect)| dialect)
    }

    /// The dialect of a text whose delimiter and number of columns are known.
    pub(crate) fn with(text: &[u8], delimiter: Option<u8>, columns: usize) -> Dialect {
        let sample = &text[..text.len().min(SAMPLE_BYTES)];
        let carriage_return = memchr(b'\n', sample).is_some_and(|at| at > 0 && sample[at - 1] == b'\r');
        let quotes = delimiter.is_some_and(|delimiter| {
            sample.starts_with(b"\"")
                || sample.windows(2).any(|pair| pair == [delimiter, b'"'] || pair == [b'\n', b'"'])
        });
        Dialect { delimiter, columns, carriage_return, quotes, backslash: delimiter == Some(b'\t') }
    }

    /// Finds the fields of the record at `at`. Returns where the next record begins.
    pub(crate) fn record(&mut self, text: &[u8], at: usize, mut field: impl FnMut(Span)) -> usize {
        let Some(delimiter) = self.delimiter else {
            let end = memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end);
            field(Span::new(at, self.without_return(text, at, end)));
            return end + 1;
        };
        let mut begin = at;
        let mut from = at;
        loop {
            if self.quotes && from == begin && text.get(begin) == Some(&b'"') {
                match quoted_end(text, begin, delimiter) {
                    Some(end) => from = end,
                    // Searching for it again in each field would take for ever.
                    None => self.quotes = false,
                }
            }
            let Some(end) = self.next(text, from, delimiter) else {
                field(Span::new(begin, self.without_return(text, begin, text.len())));
                return text.len() + 1;
            };
            if text[end] == b'\n' {
                field(Span::new(begin, self.without_return(text, begin, end)));
                return end + 1;
            }
            field(Span::new(begin, end));
            begin = end + 1;
            from = begin;
        }
    }

    /// The next delimiter or line end without a backslash before it.
    fn next(&self, text: &[u8], mut from: usize, delimiter: u8) -> Option<usize> {
        loop {
            let rest = text.get(from..)?;
            let end = from + memchr::memchr2(delimiter, b'\n', rest)?;
            if !self.backslash || end == 0 || text[end - 1] != b'\\' {
                return Some(end);
            }
            let slashes = text[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
            if slashes % 2 == 0 {
                return Some(end);
            }
            from = end + 1;
        }
    }

    /// The end of a line's text, when its line end is at `end`.
    fn without_return(&self, text: &[u8], begin: usize, end: usize) -> usize {
        let has = self.carriage_return && end > begin && text[end - 1] == b'\r';
        end - usize::from(has)
    }

    /// Finds the fields of the whole text.
    pub(crate) fn split(&mut self, text: &[u8]) -> Table {
        let rows = text.len() / 32;
        let columns: Vec<Vec<Span>> = (0..self.columns).map(|_| Vec::with_capacity(rows)).collect();
        let mut table = Table { columns, odd: Vec::new(), ended: false };
        let mut record: Vec<Span> = Vec::with_capacity(self.columns);
        let mut at = 0;
        while at < text.len() {
            record.clear();
            let next = self.record(text, at, |span| record.push(span));
            let end = next - 1;
            let returned = end > at && text[end - 1] == b'\r' && end < text.len();
            if record.len() == self.columns && (returned || !self.carriage_return) {
                for (column, span) in table.columns.iter_mut().zip(&record) {
                    column.push(*span);
                }
            } else {
                let before = table.columns.first().map_or(0, Vec::len);
                table.odd.push((Span::new(at, end), before));
            }
            at = next;
        }
        // A line end after a backslash belongs to a field, even at the very end of the text.
        table.ended = at == text.len();
        table
    }
}

/// The position of a quoted field's last quote, which is before the next delimiter or line end.
fn quoted_end(text: &[u8], begin: usize, delimiter: u8) -> Option<usize> {
    let last = text.len().min(begin + QUOTED_MAX);
    let mut at = begin + 1;
    loop {
        at += memchr(b'"', text.get(at..last)?)?;
        match text.get(at + 1) {
            Some(b'"') => at += 2,
            None | Some(b'\n' | b'\r') => return Some(at),
            Some(next) if *next == delimiter => return Some(at),
            Some(_) => at += 1,
        }
    }
}
