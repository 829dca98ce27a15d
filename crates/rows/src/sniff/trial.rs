//! Tries dialects on a sample.

use memchr::memchr;

use super::{Hints, Sample};
use crate::backslash::Backslashes;
use crate::field::each_field;
use crate::infer::is_typed;
use crate::{Dialect, Field, LineEnd, Nulls};

/// The delimiters that are tried; if nothing else decides, earlier ones are preferred.
pub(super) const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];
const QUOTES: [Option<u8>; 3] = [Some(b'"'), None, Some(b'\'')];
const ESCAPES: [Option<u8>; 2] = [None, Some(b'\\')];

/// ASCII's own separator, which does not occur in text.
const UNIT_SEPARATOR: u8 = 0x1f;

/// The cost of each place in those lists: far less than that of an odd field in a small sample.
const RANK_COST: f64 = 1e-8;

/// The score of a file with one column, before its fields are examined. A delimiter that separates every
/// record alike scores more; one that separates two thirds of them alike does not.
const ONE_COLUMN: f64 = 0.35;

/// What is left of the score of a dialect whose quotes most quoted fields contradict.
const CONTRADICTED: f64 = 0.1;

/// This many fields with text after their closing quote may be mistakes in the file.
const SLIPS: usize = 2;

/// A dialect and how well it fits.
pub(super) struct Trial {
    pub(super) dialect: Dialect,
    /// The number of fields in most records; 0 without records.
    pub(super) columns: usize,
    pub(super) score: f64,
}

/// The dialect that fits best. Its line end is the one that the trials used.
pub(super) fn best(sample: Sample<'_>, hints: &Hints) -> Trial {
    let line_end = hints.line_end.unwrap_or_else(|| {
        let has = |byte: u8| sample.parts().any(|part| memchr(byte, part).is_some());
        let old_macintosh = !has(b'\n') && sample.has_lone_return();
        if old_macintosh { LineEnd::Cr } else { LineEnd::Any }
    });
    let occurs = |byte: &u8| sample.parts().any(|part| memchr(*byte, part).is_some());
    let delimiters = choices(hints.delimiter, &DELIMITERS, occurs);
    let quotes = choices(hints.quote, &QUOTES, |quote| quote.is_none_or(|byte| occurs(&byte)));
    let escapes = choices(hints.escape, &ESCAPES, |escape| escape.is_none_or(|byte| occurs(&byte)));
    let mut best: Option<Trial> = None;
    for &(delimiter, delimiter_rank) in &delimiters {
        for &(quote, quote_rank) in &quotes {
            for &(escape, escape_rank) in &escapes {
                let dialect = Dialect { delimiter, quote, escape, line_end };
                let mut trial = Trial::new(sample, dialect);
                trial.score -= (delimiter_rank + quote_rank + escape_rank) * RANK_COST;
                if best.as_ref().is_none_or(|best| trial.score > best.score) {
                    best = Some(trial);
                }
            }
        }
    }
    let mut best = best.unwrap_or_else(|| Trial::new(sample, Dialect { line_end, ..Dialect::CSV }));
    if hints.quote.is_none()
        && best.dialect.quote.is_none()
        && !occurs(&b'"')
        && best.dialect.escape.is_none()
    {
        // That there are no quotes so far says nothing about later ones.
        best.dialect.quote = Some(b'"');
    }
    if hints.delimiter.is_none() && best.columns == 1 && occurs(&best.dialect.delimiter) {
        // This byte occurs in the text now and then, but separates nothing.
        best.dialect.delimiter = DELIMITERS.into_iter().find(|byte| !occurs(byte)).unwrap_or(UNIT_SEPARATOR);
    }
    best
}

/// Only the hint, or the candidates that occur in the sample, each with its rank; never empty.
fn choices<T: Copy>(hint: Option<T>, all: &[T], occurs: impl Fn(&T) -> bool) -> Vec<(T, f64)> {
    if let Some(hint) = hint {
        return vec![(hint, 0.0)];
    }
    let ranked = || all.iter().copied().zip((0u32..).map(f64::from));
    let found: Vec<_> = ranked().filter(|(choice, _)| occurs(choice)).collect();
    if found.is_empty() { ranked().take(1).collect() } else { found }
}

impl Trial {
    fn new(sample: Sample<'_>, dialect: Dialect) -> Trial {
        let mut rows: Vec<usize> = Vec::new();
        let (mut goodness, mut cells, mut covered) = (0.0, 0u32, 0);
        let (mut quoted, mut malformed) = (0, 0);
        for record in sample.records(&dialect) {
            covered += record.len();
            let mut count = 0;
            each_field(&dialect, record, |field, _| {
                count += 1;
                quoted += usize::from(field.quoted && !field.malformed);
                malformed += usize::from(field.malformed);
                goodness += looks(&field, &dialect);
            });
            cells += count;
            rows.push(count as usize);
        }
        let (columns, agreeing) = mode(&rows);
        let share = ratio(agreeing, rows.len());
        let shape = if columns == 1 { ONE_COLUMN } else { 1.0 - 1.0 / (columns as f64 + 1.0) };
        // A quote that encloses most of the sample is not one.
        let swallowed = rows.len() < super::RECORDS_MAX && covered * 2 < sample.bytes.len();
        let cover = if swallowed { ratio(covered, sample.bytes.len()) } else { 1.0 };
        // Neither is one with which more fields are malformed than well-formed.
        let trust = if malformed > quoted.max(SLIPS) { CONTRADICTED } else { 1.0 };
        let score = shape * share * share * cover * trust * goodness / f64::from(cells.max(1));
        Trial { dialect, columns, score }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a sample are small")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The most frequent value, or the larger of two, and how often it occurs.
fn mode(values: &[usize]) -> (usize, usize) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a == b);
    runs.map(|run| (run[0], run.len())).max_by_key(|&(value, times)| (times, value)).unwrap_or((0, 0))
}

/// How much a field looks like a proper field, from 0 to 1.
fn looks(field: &Field<'_>, dialect: &Dialect) -> f64 {
    if field.malformed {
        return 0.0;
    }
    let escapes = escapes_look(field, dialect);
    let content =
        if field.quoted || field.raw.is_empty() || field.is_null(&Nulls::default()) || is_typed(field.raw) {
            1.0
        } else {
            text_looks(field.raw, dialect)
        };
    content * escapes
}

/// For unquoted text: characters of other dialects count against this one.
fn text_looks(raw: &[u8], dialect: &Dialect) -> f64 {
    let (first, last) = (raw[0], raw[raw.len() - 1]);
    let enclosed = raw.len() > 1 && first == last && matches!(first, b'"' | b'\'');
    if enclosed || first == b'"' || last == b'"' {
        return 0.1;
    }
    if raw.iter().any(|&byte| byte < b' ' && byte != b'\t' && byte != b'\n' && byte != b'\r') {
        return 0.2;
    }
    let mut look: f64 = if first == b' ' { 0.8 } else { 0.95 };
    for (at, &byte) in raw.iter().enumerate() {
        if byte == dialect.delimiter || !DELIMITERS.contains(&byte) {
            continue;
        }
        look = look.min(match (byte, raw.get(at + 1)) {
            // Prose, and the decimal comma of half of the world.
            (b',' | b';', Some(b' ')) => 0.85,
            (b',', _) if is_decimal_comma(raw) => 0.95,
            (b',', _) => 0.5,
            _ => 0.2,
        });
    }
    look
}

fn is_decimal_comma(raw: &[u8]) -> bool {
    let mut parts = raw.strip_prefix(b"-").unwrap_or(raw).split(|&byte| byte == b',');
    let number = |part: Option<&[u8]>| {
        part.is_some_and(|part| {
            !part.is_empty() && part.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        })
    };
    number(parts.next()) && number(parts.next()) && parts.next().is_none()
}

/// For backslashes: what follows them shows whether they are escapes.
fn escapes_look(field: &Field<'_>, dialect: &Dialect) -> f64 {
    let Some(found) = Backslashes::of(field, dialect) else { return 1.0 };
    match dialect.escape_byte() {
        Some(b'\\') if found.are_text() => 0.1,
        Some(b'\\') if found.letters > 0 => 0.9,
        Some(_) => 1.0,
        None if found.are_text() => 1.0,
        None if found.servers > 0 => 0.6,
        None => 0.95,
    }
}
