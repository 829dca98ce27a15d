//! The texts of a column on their own: all the same, numbers with exceptions, or text.

use crate::ints::{self, keep_shorter};
use crate::shape::Shape;
use crate::wire::{Cursor, put, put_bytes, put_packed};
use crate::{Effort, Error, Span, Texts};

const SAME: u8 = 0;
const NUMBERS: u8 = 1;
const TEXT: u8 = 2;

/// Bytes that may separate texts. The first one that occurs in no text is used.
const SEPARATORS: [u8; 6] = [b'\n', 0, 0x1e, 0x1f, 0xff, 0xfe];
/// The most exceptions in ten rows of a column of numbers.
const ODD_OF_TEN: usize = 6;

/// Decoded texts.
pub(crate) enum Field {
    /// All rows have this text.
    Same(Vec<u8>),
    /// Numbers, and the texts of the rows without one.
    Numbers {
        /// How they are written.
        shape: Shape,
        /// One for each row that is not an exception.
        values: Vec<i64>,
        /// The other rows, in order, and their texts.
        odd: Vec<(usize, Vec<u8>)>,
    },
    /// Texts one after the other, and where each ends.
    Text {
        /// All of them.
        bytes: Vec<u8>,
        /// Where each begins and ends.
        spans: Vec<Span>,
    },
}

const TOO_MUCH: Error = Error::Corrupt("columns have more text than the block");

/// Appends texts in the shortest encoding that the effort allows.
pub(crate) fn encode(texts: Texts<'_>, effort: Effort, out: &mut Vec<u8>) -> Result<(), Error> {
    let Some(first) = texts.spans.first() else { return Ok(()) };
    let first = first.of(texts.text);
    if texts.iter().all(|text| text == first) {
        out.push(SAME);
        put_bytes(out, first);
        return Ok(());
    }
    let numbers = match Shape::guess(texts) {
        Some(shape) => numbers(texts, &shape, effort)?,
        None => None,
    };
    match numbers {
        Some(mut numbers) => {
            if effort.thorough {
                keep_shorter(&mut numbers, |out| text(texts, effort, out))?;
            }
            out.append(&mut numbers);
            Ok(())
        }
        None => text(texts, effort, out),
    }
}

fn numbers(texts: Texts<'_>, shape: &Shape, effort: Effort) -> Result<Option<Vec<u8>>, Error> {
    let mut values = Vec::with_capacity(texts.len());
    let (mut odd, mut gaps, mut gap) = (Vec::new(), Vec::new(), 0_i64);
    for (text, span) in texts.iter().zip(texts.spans) {
        if let Some(value) = shape.parse(text) {
            values.push(value);
            gap += 1;
        } else {
            odd.push(*span);
            gaps.push(gap);
            gap = 0;
        }
    }
    if odd.len() * 10 > texts.len() * ODD_OF_TEN {
        return Ok(None);
    }
    let mut out = vec![NUMBERS];
    shape.encode(&mut out);
    put(&mut out, odd.len() as u64);
    ints::encode(&gaps, effort, &mut out)?;
    ints::encode(&values, effort, &mut out)?;
    let odd = texts.with(&odd);
    match odd.spans.first().map(|span| span.of(texts.text)) {
        None => {}
        Some(first) if odd.iter().all(|text| text == first) => {
            out.push(SAME);
            put_bytes(&mut out, first);
        }
        Some(_) => text(odd, effort, &mut out)?,
    }
    Ok(Some(out))
}

fn text(texts: Texts<'_>, effort: Effort, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(TEXT);
    let mut seen = [false; 256];
    texts.iter().flatten().for_each(|byte| seen[usize::from(*byte)] = true);
    let bytes: usize = texts.iter().map(<[u8]>::len).sum();
    let mut joined = Vec::with_capacity(bytes + texts.len());
    match SEPARATORS.into_iter().find(|byte| !seen[usize::from(*byte)]) {
        Some(separator) => {
            out.extend([1, separator]);
            for text in texts.iter() {
                joined.extend_from_slice(text);
                joined.push(separator);
            }
        }
        None => {
            out.extend([0, 0]);
            let lengths: Vec<i64> = texts.iter().map(|text| text.len() as i64).collect();
            ints::encode(&lengths, effort, out)?;
            texts.iter().for_each(|text| joined.extend_from_slice(text));
        }
    }
    put_packed(out, &joined, effort)
}

/// Reads the texts of `count` rows. Their bytes and separators are deducted from `room`: whatever a block
/// claims, it must not take more memory than its text.
pub(crate) fn decode(cursor: &mut Cursor<'_>, count: usize, room: &mut usize) -> Result<Field, Error> {
    if count == 0 {
        return Ok(Field::Same(Vec::new()));
    }
    match cursor.byte()? {
        SAME => {
            let bytes = cursor.bytes()?.to_vec();
            Ok(Field::Same(bytes))
        }
        NUMBERS => {
            let shape = Shape::decode(cursor)?;
            let many = cursor.number(count)?;
            let gaps = ints::decode_counts(cursor, many)?;
            let values = ints::decode(cursor, count - many)?;
            let texts = decode_odd(cursor, many, room)?;
            let (mut odd, mut row) = (Vec::with_capacity(many), 0_usize);
            for (gap, text) in gaps.into_iter().zip(texts) {
                row = row.saturating_add(gap);
                if row >= count {
                    return Err(Error::Corrupt("an exception is beyond the last row"));
                }
                odd.push((row, text));
                row += 1;
            }
            Ok(Field::Numbers { shape, values, odd })
        }
        TEXT => decode_text(cursor, count, room),
        _ => Err(Error::Corrupt("a column is stored in a way that this version does not know")),
    }
}

/// Reads the exceptions of a column of numbers, which are not numbers.
fn decode_odd(cursor: &mut Cursor<'_>, count: usize, room: &mut usize) -> Result<Vec<Vec<u8>>, Error> {
    if count == 0 {
        return Ok(Vec::new());
    }
    match cursor.byte()? {
        SAME => {
            let text = cursor.bytes()?;
            *room = room.checked_sub(text.len().saturating_mul(count)).ok_or(TOO_MUCH)?;
            Ok(vec![text.to_vec(); count])
        }
        TEXT => match decode_text(cursor, count, room)? {
            Field::Text { bytes, spans } => Ok(spans.iter().map(|span| span.of(&bytes).to_vec()).collect()),
            _ => Err(Error::Corrupt("exceptions are stored in a way that this version does not know")),
        },
        _ => Err(Error::Corrupt("exceptions are stored in a way that this version does not know")),
    }
}

fn decode_text(cursor: &mut Cursor<'_>, count: usize, room: &mut usize) -> Result<Field, Error> {
    let head = cursor.take(2)?;
    let mut spans = Vec::with_capacity(count);
    if let [1, separator] = head {
        let bytes = cursor.packed(*room)?;
        *room -= bytes.len();
        let mut from = 0;
        for at in memchr::memchr_iter(*separator, &bytes) {
            spans.push(Span::new(from, at));
            from = at + 1;
        }
        if spans.len() != count || from != bytes.len() {
            return Err(Error::Corrupt("there are more or fewer texts than rows"));
        }
        return Ok(Field::Text { bytes, spans });
    }
    let lengths = ints::decode_counts(cursor, count)?;
    let bytes = cursor.packed(*room)?;
    *room -= bytes.len();
    let mut from = 0_usize;
    for length in lengths {
        let to = from.checked_add(length).filter(|to| *to <= bytes.len());
        let to = to.ok_or(Error::Corrupt("a text is longer than all texts"))?;
        spans.push(Span::new(from, to));
        from = to;
    }
    Ok(Field::Text { bytes, spans })
}
