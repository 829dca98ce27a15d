//! Rows of integers: all the same, runs, bins and differences by pco, or bytes.

use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};

use crate::wire::{Cursor, put, put_packed};
use crate::{Effort, Error};

const SAME: u8 = 0;
const PCO: u8 = 1;
const RUNS: u8 = 2;
const BYTES: u8 = 3;

/// Runs of runs of runs gain nothing.
const DEPTH_MAX: u8 = 2;
/// The most numbers in a chunk of pco.
const CHUNK_MAX: usize = 1 << 20;

/// Appends the numbers in the shortest encoding that the effort allows.
pub(crate) fn encode(values: &[i64], effort: Effort, out: &mut Vec<u8>) -> Result<(), Error> {
    nested(values, effort, 0, out)
}

fn nested(values: &[i64], effort: Effort, depth: u8, out: &mut Vec<u8>) -> Result<(), Error> {
    let Some(first) = values.first() else { return Ok(()) };
    let changes = values.windows(2).filter(|pair| matches!(pair, [a, b] if a != b)).count();
    if changes == 0 {
        out.push(SAME);
        put(out, zigzag(*first));
        return Ok(());
    }
    let worth_runs = depth < DEPTH_MAX && changes * 10 < values.len() * 6;
    if worth_runs && changes * 10 < values.len() * 3 && !effort.thorough {
        return runs(values, effort, depth, out);
    }
    let mut best = Vec::new();
    pco(values, effort, &mut best)?;
    if worth_runs {
        keep_shorter(&mut best, |out| runs(values, effort, depth, out))?;
    }
    if effort.thorough && values.iter().all(|value| (0..256).contains(value)) {
        keep_shorter(&mut best, |out| bytes(values, effort, out))?;
    }
    out.append(&mut best);
    Ok(())
}

/// Tries another encoding, and keeps it if it is shorter.
pub(crate) fn keep_shorter(
    best: &mut Vec<u8>,
    other: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut out = Vec::new();
    other(&mut out)?;
    if out.len() < best.len() {
        *best = out;
    }
    Ok(())
}

fn pco(values: &[i64], effort: Effort, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(PCO);
    let config = ChunkConfig::default()
        .with_compression_level(effort.pco)
        .with_mode_spec(if effort.thorough { ModeSpec::Auto } else { ModeSpec::Classic })
        .with_delta_spec(DeltaSpec::Auto)
        .with_paging_spec(PagingSpec::EqualPagesUpTo(CHUNK_MAX));
    let packed = pco::standalone::simple_compress(values, &config).map_err(|_| Error::Library("pco"))?;
    crate::wire::put_bytes(out, &packed);
    Ok(())
}

fn runs(values: &[i64], effort: Effort, depth: u8, out: &mut Vec<u8>) -> Result<(), Error> {
    let (mut heads, mut lengths) = (Vec::new(), Vec::new());
    for run in values.chunk_by(|a, b| a == b) {
        heads.extend(run.first());
        lengths.push(run.len() as i64 - 1);
    }
    out.push(RUNS);
    put(out, heads.len() as u64);
    nested(&heads, effort, depth + 1, out)?;
    nested(&lengths, effort, depth + 1, out)
}

fn bytes(values: &[i64], effort: Effort, out: &mut Vec<u8>) -> Result<(), Error> {
    let bytes: Vec<u8> = values.iter().map(|value| u8::try_from(*value).unwrap_or(0)).collect();
    out.push(BYTES);
    put_packed(out, &bytes, effort)
}

/// Reads `count` numbers.
pub(crate) fn decode(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<i64>, Error> {
    decode_nested(cursor, count, 0)
}

/// Reads `count` numbers that are counts.
pub(crate) fn decode_counts(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<usize>, Error> {
    counts(decode(cursor, count)?)
}

fn counts(values: Vec<i64>) -> Result<Vec<usize>, Error> {
    let count = |value| usize::try_from(value).map_err(|_| Error::Corrupt("a count is below zero"));
    values.into_iter().map(count).collect()
}

fn decode_nested(cursor: &mut Cursor<'_>, count: usize, depth: u8) -> Result<Vec<i64>, Error> {
    if count == 0 {
        return Ok(Vec::new());
    }
    match cursor.byte()? {
        SAME => Ok(vec![unzigzag(cursor.number(usize::MAX)? as u64); count]),
        PCO => {
            let mut values = vec![0; count];
            let packed = cursor.bytes()?;
            let progress = pco::standalone::simple_decompress_into(packed, &mut values)
                .map_err(|_| Error::Corrupt("numbers are damaged"))?;
            if progress.n_processed == count && progress.finished {
                Ok(values)
            } else {
                Err(Error::Corrupt("there are fewer or more numbers than rows"))
            }
        }
        RUNS if depth < DEPTH_MAX => {
            let many = cursor.number(count)?;
            let heads = decode_nested(cursor, many, depth + 1)?;
            let lengths = counts(decode_nested(cursor, many, depth + 1)?)?;
            let mut values = Vec::with_capacity(count);
            for (head, length) in heads.into_iter().zip(lengths) {
                if length >= count - values.len() {
                    return Err(Error::Corrupt("runs are longer than the column"));
                }
                values.resize(values.len() + length + 1, head);
            }
            if values.len() == count { Ok(values) } else { Err(Error::Corrupt("runs end before the column")) }
        }
        BYTES => {
            let bytes = cursor.packed(count)?;
            if bytes.len() != count {
                return Err(Error::Corrupt("there are fewer numbers than rows"));
            }
            Ok(bytes.into_iter().map(i64::from).collect())
        }
        _ => Err(Error::Corrupt("numbers are stored in a way that this version does not know")),
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests;
