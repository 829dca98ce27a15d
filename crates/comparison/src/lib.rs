//! Codecs and tools measured on the user's own data: size, speed both ways, memory.
//!
//! [`contender`] says what to measure: our codecs at the levels that are worth a try, and tools that are
//! installed. [`sample`] is the text, [`measure`] runs one process, and [`page`] makes a page of two plots.

pub mod contender;
pub mod measure;
pub mod page;
pub mod sample;

use anyhow::Result;

use self::contender::Contender;
use self::measure::{Cost, Place};

/// A contender's result.
pub struct Row {
    /// Its name and level.
    pub name: String,
    /// Whether it is one of ours.
    pub ours: bool,
    /// The size of the compressed text.
    pub bytes: u64,
    /// What compression and decompression cost on one core.
    pub one: [Cost; 2],
    /// The same on all cores, if it can use them.
    pub all: Option<[Cost; 2]>,
    /// Whether nothing is both smaller and faster, for compression and for decompression.
    pub frontier: [bool; 2],
}

/// Measures a contender on one core, and on all cores if it can use them.
///
/// # Errors
/// If it fails, or other bytes come back.
pub fn measured(contender: &Contender, place: &Place<'_>, threads: usize) -> Result<Row> {
    let on = |threads: usize| -> Result<(u64, [Cost; 2])> {
        let (bytes, pack) = place.pack(&contender.pack(threads))?;
        let unpack = place.unpack(&contender.unpack(threads))?;
        Ok((bytes, [pack, unpack]))
    };
    let (bytes, one) = on(1)?;
    let all = if contender.is_parallel() && threads > 1 { Some(on(threads)?.1) } else { None };
    Ok(Row { name: contender.name.clone(), ours: contender.ours, bytes, one, all, frontier: [false; 2] })
}

/// Marks the rows that no other row beats.
pub fn mark(rows: &mut [Row]) {
    for direction in 0..2 {
        let points: Vec<(u64, f64)> = rows.iter().map(|row| (row.bytes, row.one[direction].cpu_s)).collect();
        for (row, (bytes, seconds)) in rows.iter_mut().zip(&points) {
            row.frontier[direction] = !points.iter().any(|(other, theirs)| {
                other <= bytes && theirs <= seconds && (other < bytes || theirs < seconds)
            });
        }
    }
}

/// The heading of what was measured on all cores; empty if there is only one.
#[must_use]
pub fn all_cores(threads: usize) -> String {
    if threads > 1 { format!("{threads} cores") } else { String::new() }
}

/// A speed, with a digit after the point only if it is small.
#[must_use]
pub fn number(speed: f64) -> String {
    if speed < 9.95 { format!("{speed:.1}") } else { format!("{speed:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_is_what_nothing_beats() {
        let cost = |cpu_s: f64| Cost { wall_s: cpu_s, cpu_s, memory_bytes: 0 };
        let row = |bytes: u64, pack: f64, unpack: f64| Row {
            name: String::new(),
            ours: true,
            bytes,
            one: [cost(pack), cost(unpack)],
            all: None,
            frontier: [false; 2],
        };
        let mut rows =
            [row(10, 9.0, 3.0), row(20, 2.0, 1.0), row(21, 2.0, 0.5), row(30, 1.0, 0.9), row(30, 1.0, 2.0)];
        mark(&mut rows);
        let marks: Vec<[bool; 2]> = rows.iter().map(|row| row.frontier).collect();
        assert_eq!(marks, [[true, true], [true, true], [false, true], [true, false], [true, false]]);
    }
}
