//! Searches ascending numbers, 32 bytes at a time: a binary search would be mispredicted at every other step.
//!
//! A window may contain anything after the numbers: only the run at its start counts.

use wide::{u8x32, u16x16};

/// Bytes of a window.
pub(crate) const WINDOW: usize = 32;

/// How many of the first little-endian numbers are at most `x`.
#[inline(always)]
pub(crate) fn run_at_most(window: [u8; WINDOW], x: u16) -> usize {
    let numbers = window.as_chunks().0;
    let numbers = u16x16::new(std::array::from_fn(|at| u16::from_le_bytes(numbers[at])));
    let above = numbers.saturating_sub(u16x16::splat(x));
    above.simd_eq(u16x16::ZERO).to_bitmask().trailing_ones() as usize
}

/// How many of the first bytes are below `byte`.
#[inline(always)]
pub(crate) fn run_below(window: [u8; WINDOW], byte: u8) -> usize {
    let bytes = u8x32::new(window);
    let not_below = bytes.max(u8x32::splat(byte)).simd_eq(bytes);
    not_below.to_bitmask().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_run_at_the_start_whatever_follows() {
        for run in 0..=WINDOW {
            let bytes: [u8; WINDOW] =
                std::array::from_fn(|at| if at < run { 100 + u8::try_from(at).unwrap() } else { 200 });
            let mut window = bytes;
            if run + 1 < WINDOW {
                window[WINDOW - 1] = 0;
            }
            assert_eq!(run_below(window, 200), run);
            assert_eq!(run_below(bytes, 0), 0);
            assert_eq!(run_below(bytes, u8::MAX), WINDOW);
        }
        for run in 0..=WINDOW / 2 {
            let number = |at: usize| if at < run { 40_000 + u16::try_from(at).unwrap() } else { 50_000 };
            let mut window: [u8; WINDOW] = std::array::from_fn(|at| number(at / 2).to_le_bytes()[at % 2]);
            assert_eq!(run_at_most(window, 49_999), run);
            assert_eq!(run_at_most(window, 50_000), WINDOW / 2);
            assert_eq!(run_at_most(window, 0), 0);
            if run + 1 < WINDOW / 2 {
                window[WINDOW - 2..].fill(0);
                assert_eq!(run_at_most(window, 49_999), run);
            }
        }
    }
}
