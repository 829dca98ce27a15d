//! A block: the text of some rows, stored as columns, or as plain text where that is shorter.

use std::ops::Range;

use crate::cells::{Cells, Printer};
use crate::codes::{self, Dictionary};
use crate::split::{COLUMNS_MAX, Dialect, Table};
use crate::wire::{Cursor, put, put_packed};
use crate::{Effort, Error, Head, TEXT_BYTES_MAX, Texts, field, frame, ints};

const WHOLE: u8 = 0;
const COLUMNS: u8 = 1;

const DIRECT: u8 = 0;
const WORDS: u8 = 1;

/// Rows examined, in this many places, to find out whether texts repeat.
const LOOKED_AT: usize = 4096;
const PLACES: usize = 2;
/// Rows examined to find the column that another one follows.
const FOLLOWED_ROWS: usize = 32_768;

/// Encodes a text of at most [`TEXT_BYTES_MAX`] bytes as one block.
///
/// # Errors
/// [`Error::Library`] when a library fails or the text is longer.
pub fn encode(text: &[u8], effort: Effort) -> Result<Vec<u8>, Error> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::Library("a block longer than it may be"));
    }
    let columns = match Dialect::guess(text) {
        Some(dialect) => Some(as_columns(text, dialect, effort)?),
        None => None,
    };
    let packed = match columns {
        Some(columns) if surely_shorter(text, columns.len(), effort)? => columns,
        columns => {
            let mut whole = vec![WHOLE];
            put_packed(&mut whole, text, effort)?;
            columns.filter(|columns| columns.len() < whole.len()).unwrap_or(whole)
        }
    };
    Ok(frame::block(text, &packed))
}

/// How many samples of the text are taken, and how long each is.
const SAMPLES: usize = 4;
const SAMPLE_BYTES: usize = 128 * 1024;

/// Whether columns of this many bytes are so much shorter than what samples of the text promise that the
/// whole text need not be compressed for comparison. A sample does not show lines that repeat far apart, so
/// those are searched for.
fn surely_shorter(text: &[u8], columns: usize, effort: Effort) -> Result<bool, Error> {
    if effort.thorough || text.len() < SAMPLES * SAMPLE_BYTES * 2 {
        return Ok(false);
    }
    let mut packed = 0;
    for place in 0..SAMPLES {
        let from = (text.len() - SAMPLE_BYTES) / SAMPLES * place;
        let sample = text.get(from..from + SAMPLE_BYTES).unwrap_or_default();
        packed += zstd::bulk::compress(sample, 1).map_err(|_| Error::Library("zstd"))?.len();
    }
    let all = packed as u64 * text.len() as u64 / (SAMPLES * SAMPLE_BYTES) as u64;
    Ok((columns as u64) * 2 < all && !codes::lines_come_again(text))
}

fn as_columns(text: &[u8], mut dialect: Dialect, effort: Effort) -> Result<Vec<u8>, Error> {
    let table = dialect.split(text);
    let rows = table.columns.first().map_or(0, Vec::len);
    let mut out = vec![COLUMNS];
    let flags = u8::from(dialect.carriage_return)
        | u8::from(table.ended) << 1
        | u8::from(dialect.delimiter.is_some()) << 2;
    out.extend([dialect.delimiter.unwrap_or(0), flags]);
    put(&mut out, table.columns.len() as u64);
    put(&mut out, rows as u64);
    put(&mut out, table.odd.len() as u64);
    odd_records(text, &table, effort, &mut out)?;
    let mut parts = columns_of(text, &table, effort)?;
    for part in &parts {
        put(&mut out, part.len() as u64);
    }
    for part in &mut parts {
        out.append(part);
    }
    Ok(out)
}

/// Writes the records that differ from the others.
fn odd_records(text: &[u8], table: &Table, effort: Effort, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut before = 0;
    let gaps: Vec<i64> =
        table.odd.iter().map(|(_, at)| (at - std::mem::replace(&mut before, *at)) as i64).collect();
    let spans: Vec<_> = table.odd.iter().map(|(span, _)| *span).collect();
    ints::encode(&gaps, effort, out)?;
    field::encode(Texts { text, spans: &spans }, effort, out)
}

/// A column before it is known which column it follows.
enum Draft {
    Direct(Vec<u8>),
    Words { dictionary: Dictionary, texts: Vec<u8> },
}

fn columns_of(text: &[u8], table: &Table, effort: Effort) -> Result<Vec<Vec<u8>>, Error> {
    let mut drafts = Vec::with_capacity(table.columns.len());
    for spans in &table.columns {
        drafts.push(draft(Texts { text, spans }, effort)?);
    }
    let keys = keys(&drafts);
    let mut parts = Vec::with_capacity(drafts.len());
    for (at, draft) in drafts.iter().enumerate() {
        let part = match draft {
            Draft::Direct(part) => part.clone(),
            Draft::Words { dictionary, texts } => {
                let mut part = vec![WORDS];
                put(&mut part, dictionary.distinct.len() as u64);
                let key = keys.get(at).copied().flatten().and_then(|key| match drafts.get(key) {
                    Some(Draft::Words { dictionary, .. }) => Some((key, dictionary.codes.as_slice())),
                    _ => None,
                });
                part.append(&mut shortest_codes(dictionary, key, effort)?);
                part.extend_from_slice(texts);
                part
            }
        };
        parts.push(part);
    }
    Ok(parts)
}

/// Writes codes either as predicted by their key column or on their own.
fn shortest_codes(
    dictionary: &Dictionary,
    key: Option<(usize, &[u32])>,
    effort: Effort,
) -> Result<Vec<u8>, Error> {
    let codes = &dictionary.codes;
    let mut best = Vec::new();
    if let Some(key) = key {
        codes::encode_follow(codes, key, effort, &mut best)?;
        if !effort.thorough && codes::misses(codes, key.1) * 2 < dictionary.changes {
            return Ok(best);
        }
    }
    let mut alone = Vec::new();
    codes::encode(codes, effort, &mut alone)?;
    Ok(if best.is_empty() || alone.len() < best.len() { alone } else { best })
}

/// A column as a dictionary or as plain texts, whichever is shorter.
fn draft(texts: Texts<'_>, effort: Effort) -> Result<Draft, Error> {
    let direct = || -> Result<Vec<u8>, Error> {
        let mut part = vec![DIRECT];
        field::encode(texts, effort, &mut part)?;
        Ok(part)
    };
    let rows = texts.len();
    let dictionary = if come_again(texts) { Dictionary::of(texts, rows / 10 * 7 + 1) } else { None };
    let Some(dictionary) = dictionary.filter(|dictionary| dictionary.distinct.len() > 1) else {
        return Ok(Draft::Direct(direct()?));
    };
    let mut words = Vec::new();
    field::encode(texts.with(&dictionary.distinct), effort, &mut words)?;
    let surely = !effort.thorough && dictionary.changes * 10 < rows * 3;
    if !surely {
        let part = direct()?;
        let mut alone = Vec::new();
        codes::encode(&dictionary.codes, effort, &mut alone)?;
        if part.len() < alone.len() + words.len() {
            return Ok(Draft::Direct(part));
        }
    }
    Ok(Draft::Words { dictionary, texts: words })
}

/// Whether in some stretches of rows fewer than two thirds of the texts are distinct.
fn come_again(texts: Texts<'_>) -> bool {
    let part = LOOKED_AT.min(texts.len());
    let mut distinct = 0;
    for place in 0..PLACES {
        let from = (texts.len() - part) / PLACES * (place + 1);
        let spans = texts.spans.get(from..from + part).unwrap_or_default();
        let found = Dictionary::of(texts.with(spans), part);
        distinct += found.map_or(part, |found| found.distinct.len());
    }
    distinct * 3 < part * PLACES * 2
}

/// For each column the column that predicts most of it, without circles.
fn keys(drafts: &[Draft]) -> Vec<Option<usize>> {
    let words: Vec<(usize, &Dictionary)> = drafts
        .iter()
        .enumerate()
        .filter_map(|(at, draft)| match draft {
            Draft::Words { dictionary, .. } => Some((at, dictionary)),
            Draft::Direct(_) => None,
        })
        .collect();
    let mut wishes = Vec::new();
    for (at, dictionary) in &words {
        let rows = dictionary.codes.len().min(FOLLOWED_ROWS);
        let head = |dictionary: &Dictionary| -> Range<usize> { 0..rows.min(dictionary.codes.len()) };
        let codes = &dictionary.codes[head(dictionary)];
        let alone = codes.windows(2).filter(|pair| matches!(pair, [a, b] if a != b)).count() + 1;
        for (key, other) in words.iter().filter(|(key, _)| key != at) {
            let misses = codes::misses(codes, &other.codes[head(other)]);
            if misses * 10 < alone * 9 {
                wishes.push((alone - misses, *at, *key, misses));
            }
        }
    }
    // The greatest gain first; for equal gains the key with the fewest misses.
    wishes.sort_by_key(|(gain, at, key, misses)| (std::cmp::Reverse(*gain), *misses, *at, *key));
    let mut keys: Vec<Option<usize>> = vec![None; drafts.len()];
    for (_, at, key, _) in wishes {
        let mut above = Some(key);
        while let Some(one) = above.filter(|one| *one != at) {
            above = keys[one];
        }
        if keys[at].is_none() && above.is_none() {
            keys[at] = Some(key);
        }
    }
    keys
}

/// The text of a block.
///
/// # Errors
/// [`Error::Corrupt`] when the bytes are not a result of [`encode`].
pub fn decode(block: &[u8]) -> Result<Vec<u8>, Error> {
    let head = Head::parse(block)?;
    let packed = frame::packed(block, &head)?;
    let mut cursor = Cursor::new(packed);
    let text = match cursor.byte()? {
        WHOLE => cursor.packed(head.text_bytes)?,
        COLUMNS => Parts::read(&mut cursor, head.text_bytes)?.text()?,
        _ => return Err(Error::Corrupt("a block is stored in a way that this version does not know")),
    };
    if text.len() == head.text_bytes && frame::checksum(&text) == head.text_sum {
        Ok(text)
    } else {
        Err(Error::Corrupt("the text of a block is not what was packed"))
    }
}

/// The parts of a table, still unread.
pub(crate) struct Parts<'a> {
    pub(crate) delimiter: Option<u8>,
    carriage_return: bool,
    ended: bool,
    pub(crate) rows: usize,
    /// For each odd record, the number of rows since the one before.
    pub(crate) gaps: Vec<usize>,
    odd: Printer,
    pub(crate) parts: Vec<&'a [u8]>,
    text_bytes: usize,
    /// Bytes that the unread parts may still take.
    room: usize,
}

impl<'a> Parts<'a> {
    /// The parts of a block; none when its text is stored as plain bytes.
    pub(crate) fn of(block: &'a [u8]) -> Result<Option<Parts<'a>>, Error> {
        let head = Head::parse(block)?;
        let mut cursor = Cursor::new(frame::packed(block, &head)?);
        if cursor.byte()? == COLUMNS { Parts::read(&mut cursor, head.text_bytes).map(Some) } else { Ok(None) }
    }

    fn read(cursor: &mut Cursor<'a>, text_bytes: usize) -> Result<Parts<'a>, Error> {
        let (delimiter, flags) = (cursor.byte()?, cursor.byte()?);
        let many = cursor.number(COLUMNS_MAX)?;
        let rows = cursor.number(text_bytes)?;
        // Each field but the last is followed by a byte.
        if many == 0 || rows.saturating_mul(many) > text_bytes + 1 {
            return Err(Error::Corrupt("a block has more fields than text"));
        }
        let odd = cursor.number(text_bytes)?;
        let gaps = ints::decode_counts(cursor, odd)?;
        // Each byte of text once, once more in a dictionary, and the separators.
        let mut room = text_bytes * 3 + 3;
        let odd = Printer::new(field::decode(cursor, odd, &mut room)?);
        let mut lengths = Vec::with_capacity(many);
        for _ in 0..many {
            lengths.push(cursor.number(usize::MAX)?);
        }
        let parts = lengths.into_iter().map(|len| cursor.take(len)).collect::<Result<Vec<_>, _>>()?;
        if !cursor.is_empty() {
            return Err(Error::Corrupt("a block has more than its columns"));
        }
        Ok(Parts {
            delimiter: (flags & 4 != 0).then_some(delimiter),
            carriage_return: flags & 1 != 0,
            ended: flags & 2 != 0,
            rows,
            gaps,
            odd,
            parts,
            text_bytes,
            room,
        })
    }

    /// Reads a column, and before it the columns that it follows.
    pub(crate) fn fill(&mut self, column: usize, all: &mut [Option<Cells>]) -> Result<(), Error> {
        let mut chain = Vec::new();
        let mut next = Some(column);
        while let Some(at) = next.filter(|at| all.get(*at).is_some_and(Option::is_none)) {
            if chain.contains(&at) || chain.len() > self.parts.len() {
                return Err(Error::Corrupt("columns follow each other in a circle"));
            }
            chain.push(at);
            next = self.key(at)?;
        }
        while let Some(at) = chain.pop() {
            let key = self.key(at)?;
            let codes = key.and_then(|key| all.get(key)).and_then(Option::as_ref).and_then(Cells::codes);
            if key.is_some() && codes.is_none() {
                return Err(Error::Corrupt("a column follows one that has no words"));
            }
            let cells = self.cells(at, codes)?;
            all[at] = Some(cells);
        }
        Ok(())
    }

    /// The column that a column follows.
    fn key(&self, column: usize) -> Result<Option<usize>, Error> {
        let mut cursor = Cursor::new(self.parts.get(column).copied().unwrap_or_default());
        if cursor.byte()? != WORDS {
            return Ok(None);
        }
        cursor.number(self.rows)?;
        let key = codes::key(cursor.rest())?;
        match key {
            Some(key) if key >= self.parts.len() => {
                Err(Error::Corrupt("a column follows one that does not exist"))
            }
            key => Ok(key),
        }
    }

    fn cells(&mut self, column: usize, key: Option<&[u32]>) -> Result<Cells, Error> {
        let mut cursor = Cursor::new(self.parts.get(column).copied().unwrap_or_default());
        let (rows, room) = (self.rows, &mut self.room);
        let cells = match cursor.byte()? {
            DIRECT => Cells::Direct(Printer::new(field::decode(&mut cursor, rows, room)?)),
            WORDS => {
                let distinct = cursor.number(rows)?;
                let codes = codes::decode(&mut cursor, rows, distinct, key)?;
                let field = field::decode(&mut cursor, distinct, room)?;
                Cells::words(field, distinct, codes, room)?
            }
            _ => return Err(Error::Corrupt("a column is stored in a way that this version does not know")),
        };
        if cursor.is_empty() {
            Ok(cells)
        } else {
            Err(Error::Corrupt("a column has more than its rows need"))
        }
    }

    /// Prints the whole text.
    fn text(mut self) -> Result<Vec<u8>, Error> {
        let mut all: Vec<Option<Cells>> = self.parts.iter().map(|_| None).collect();
        for column in 0..self.parts.len() {
            self.fill(column, &mut all)?;
        }
        let mut cells: Vec<Cells> = all.into_iter().flatten().collect();
        let mut out = Vec::with_capacity(self.text_bytes + 64);
        let mut gaps = std::mem::take(&mut self.gaps).into_iter();
        let mut left = gaps.next();
        let mut row = 0;
        loop {
            if left == Some(0) {
                self.odd.next(&mut out);
                out.push(b'\n');
                left = gaps.next();
            } else if row < self.rows {
                self.print(&mut cells, row, &mut out);
                left = left.map(|left| left - 1);
                row += 1;
            } else {
                break;
            }
            if out.len() > self.text_bytes + 1 {
                return Err(Error::Corrupt("a block has more text than it says"));
            }
        }
        if left.is_some() {
            return Err(Error::Corrupt("an odd record is beyond the last row"));
        }
        if !self.ended {
            out.pop();
        }
        Ok(out)
    }

    fn print(&self, cells: &mut [Cells], row: usize, out: &mut Vec<u8>) {
        let between = self.delimiter.unwrap_or(b'\n');
        for one in cells {
            one.print(row, out);
            out.push(between);
        }
        out.pop();
        out.extend_from_slice(if self.carriage_return { b"\r\n" } else { b"\n" });
    }
}
