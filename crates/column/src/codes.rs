//! A column as indexes of its distinct texts, in the order of first use, and the patterns in these indexes
//! (codes): runs, a few that recur, or values predicted by another column.

use crate::ints::{self, keep_shorter};
use crate::wire::{Cursor, put};
use crate::{Effort, Error, Span, Texts, short};

const PLAIN: u8 = 0;
const RECENT: u8 = 1;
const FOLLOW: u8 = 2;

/// The most recently used codes, which are written as their rank.
const RECENT_MAX: usize = 15;
/// No code.
const NONE: u32 = u32::MAX;

/// A column and its distinct texts.
pub(crate) struct Dictionary {
    /// The distinct texts, in the order of their first use.
    pub(crate) distinct: Vec<Span>,
    /// For each row the index of its text.
    pub(crate) codes: Vec<u32>,
    /// Rows whose text differs from the row before.
    pub(crate) changes: usize,
}

impl Dictionary {
    /// The dictionary of a column; none if it would have more than `distinct_max` texts.
    pub(crate) fn of(texts: Texts<'_>, distinct_max: usize) -> Option<Dictionary> {
        let mut slots = vec![NONE; 1024];
        let mut found =
            Dictionary { distinct: Vec::new(), codes: Vec::with_capacity(texts.len()), changes: 0 };
        let mut last: &[u8] = &[];
        let mut last_code = NONE;
        for (row, text) in texts.iter().enumerate() {
            if last_code != NONE && text == last {
                found.codes.push(last_code);
                continue;
            }
            if found.distinct.len() * 2 >= slots.len() {
                slots = found.rehashed(texts.text, slots.len() * 4);
            }
            let code = found.code(texts, row, &mut slots);
            if found.distinct.len() > distinct_max {
                return None;
            }
            found.changes += usize::from(last_code != NONE);
            found.codes.push(code);
            (last, last_code) = (text, code);
        }
        Some(found)
    }

    /// The code of a row's text; a new one if the text was not seen before.
    fn code(&mut self, texts: Texts<'_>, row: usize, slots: &mut [u32]) -> u32 {
        let text = texts.get(row);
        let mask = slots.len() - 1;
        let mut at = hash(text) & mask;
        loop {
            let code = slots[at];
            if code == NONE {
                let new = short(self.distinct.len());
                slots[at] = new;
                self.distinct.push(texts.spans[row]);
                return new;
            }
            if self.distinct[code as usize].of(texts.text) == text {
                return code;
            }
            at = (at + 1) & mask;
        }
    }

    fn rehashed(&self, text: &[u8], size: usize) -> Vec<u32> {
        let mut slots = vec![NONE; size];
        for (code, span) in self.distinct.iter().enumerate() {
            let mut at = hash(span.of(text)) & (size - 1);
            while slots[at] != NONE {
                at = (at + 1) & (size - 1);
            }
            slots[at] = short(code);
        }
        slots
    }
}

/// Multiply and fold, eight bytes at a time. It need not be strong, because texts with equal hashes are
/// compared.
#[expect(clippy::cast_possible_truncation, reason = "both halves of a product are folded")]
fn hash(text: &[u8]) -> usize {
    const KEY: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = text.len() as u64 ^ KEY;
    let mut mix = |word: u64| {
        let product = u128::from(state ^ word) * u128::from(KEY);
        state = (product >> 64) as u64 ^ product as u64;
    };
    let (words, rest) = text.as_chunks::<8>();
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    state as usize
}

/// One line in this many is examined for repetitions.
const LINE_OF: usize = 16;

/// Whether more than a tenth of the lines repeat an earlier one. The start of a line decides whether it is
/// examined, so that all copies of it are.
pub(crate) fn lines_come_again(text: &[u8]) -> bool {
    let mut hashes = Vec::new();
    let mut from = 0;
    for at in memchr::memchr_iter(b'\n', text) {
        let line = &text[from..at];
        from = at + 1;
        if hash(&line[..line.len().min(16)]).is_multiple_of(LINE_OF) {
            hashes.push(hash(line));
        }
    }
    let all = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    (all - hashes.len()) * 10 > all
}

/// Rows whose code differs from that of the last row with the same key; the first row of a key counts too.
pub(crate) fn misses(codes: &[u32], key: &[u32]) -> usize {
    let mut last: Vec<u32> = Vec::new();
    let mut count = 0;
    for (code, key) in codes.iter().zip(key) {
        let key = *key as usize;
        if key >= last.len() {
            last.resize(key + 1, NONE);
        }
        count += usize::from(last[key] != *code);
        last[key] = *code;
    }
    count
}

/// Appends codes on their own.
pub(crate) fn encode(codes: &[u32], effort: Effort, out: &mut Vec<u8>) -> Result<(), Error> {
    let recent = recent(codes);
    let new = recent.iter().filter(|symbol| **symbol == 0).count();
    let as_recent = |out: &mut Vec<u8>| {
        out.push(RECENT);
        ints::encode(&recent, effort, out)
    };
    if !effort.thorough && new * 20 > codes.len() {
        return as_recent(out);
    }
    let mut best = vec![PLAIN];
    let plain: Vec<i64> = codes.iter().map(|code| i64::from(*code)).collect();
    ints::encode(&plain, effort, &mut best)?;
    keep_shorter(&mut best, as_recent)?;
    out.append(&mut best);
    Ok(())
}

/// Appends codes as predicted by a column with the codes `key`.
pub(crate) fn encode_follow(
    codes: &[u32],
    key: (usize, &[u32]),
    effort: Effort,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let (mut said, mut gaps, mut gap) = (Vec::new(), Vec::new(), 0_i64);
    let mut last: Vec<u32> = Vec::new();
    for (code, key) in codes.iter().zip(key.1) {
        let key = *key as usize;
        if key >= last.len() {
            last.resize(key + 1, NONE);
        }
        match last[key] {
            NONE => said.push(*code),
            same if same == *code => gap += 1,
            _ => {
                said.push(*code);
                gaps.push(gap);
                gap = 0;
            }
        }
        last[key] = *code;
    }
    out.push(FOLLOW);
    put(out, key.0 as u64);
    put(out, said.len() as u64);
    put(out, gaps.len() as u64);
    encode(&said, effort, out)?;
    ints::encode(&gaps, effort, out)
}

/// Codes as 0 for the next new one, 1 to 15 for a recently used one, and by number for all others.
fn recent(codes: &[u32]) -> Vec<i64> {
    let mut ranks = [NONE; RECENT_MAX];
    let mut new = 0;
    let mut symbols = Vec::with_capacity(codes.len());
    for code in codes {
        if *code == new {
            new += 1;
            symbols.push(0);
            ranks.copy_within(..RECENT_MAX - 1, 1);
        } else if let Some(rank) = ranks.iter().position(|one| one == code) {
            symbols.push(rank as i64 + 1);
            ranks.copy_within(..rank, 1);
        } else {
            symbols.push(i64::from(*code) + RECENT_MAX as i64 + 1);
            ranks.copy_within(..RECENT_MAX - 1, 1);
        }
        ranks[0] = *code;
    }
    symbols
}

/// The key column that the codes at the cursor follow, if they follow one.
pub(crate) fn key(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let mut cursor = Cursor::new(bytes);
    if cursor.byte()? == FOLLOW { cursor.number(usize::MAX).map(Some) } else { Ok(None) }
}

/// Reads `count` codes, each below `distinct`. `key` has the codes of the column that they follow.
pub(crate) fn decode(
    cursor: &mut Cursor<'_>,
    count: usize,
    distinct: usize,
    key: Option<&[u32]>,
) -> Result<Vec<u32>, Error> {
    let below = |code: i64| {
        let code = u32::try_from(code).ok().filter(|code| (*code as usize) < distinct);
        code.ok_or(Error::Corrupt("a row has a text that does not exist"))
    };
    match (cursor.byte()?, key) {
        (PLAIN, None) => ints::decode(cursor, count)?.into_iter().map(below).collect(),
        (RECENT, None) => {
            let mut ranks = [NONE; RECENT_MAX];
            let mut new = 0;
            let mut codes = Vec::with_capacity(count);
            for symbol in ints::decode(cursor, count)? {
                let code = match symbol {
                    1 => ranks[0],
                    0 => {
                        ranks.copy_within(..RECENT_MAX - 1, 1);
                        new += 1;
                        new - 1
                    }
                    2..=15 => {
                        let rank = usize::try_from(symbol).unwrap_or(1) - 1;
                        let code = ranks[rank];
                        ranks.copy_within(..rank, 1);
                        code
                    }
                    _ => {
                        ranks.copy_within(..RECENT_MAX - 1, 1);
                        below(symbol.saturating_sub(RECENT_MAX as i64 + 1))?
                    }
                };
                ranks[0] = code;
                codes.push(below(i64::from(code))?);
            }
            Ok(codes)
        }
        (FOLLOW, Some(key)) => {
            cursor.number(usize::MAX)?;
            let said = cursor.number(count)?;
            let gaps = cursor.number(said)?;
            let said = decode(cursor, said, distinct, None)?;
            let gaps = ints::decode_counts(cursor, gaps)?;
            follow(&said, &gaps, key)
        }
        _ => Err(Error::Corrupt("a column is stored in a way that this version does not know")),
    }
}

fn follow(said: &[u32], gaps: &[usize], key: &[u32]) -> Result<Vec<u32>, Error> {
    let (mut said, mut gaps) = (said.iter(), gaps.iter());
    let mut say = || said.next().copied().ok_or(Error::Corrupt("a column has too few texts"));
    let mut left = gaps.next().copied().unwrap_or(usize::MAX);
    let distinct = key.iter().max().map_or(0, |most| *most as usize + 1);
    let mut last = vec![NONE; distinct];
    let mut codes = Vec::with_capacity(key.len());
    for key in key {
        let known = &mut last[*key as usize];
        if *known == NONE {
            *known = say()?;
        } else if left == 0 {
            *known = say()?;
            left = gaps.next().copied().unwrap_or(usize::MAX);
        } else {
            left -= 1;
        }
        codes.push(*known);
    }
    Ok(codes)
}

#[cfg(test)]
mod tests;
