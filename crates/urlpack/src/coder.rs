//! The range coder: intervals to bytes and back.
//!
//! A string is an interval of [0, 1). Both sides narrow it symbol by symbol with the same integer steps. Its
//! code is the shortest byte string that lies in the interval when it is read as a fraction with zeros after
//! it. Because the intervals are nested and disjoint and codes are padded with zeros, memcmp of codes is
//! memcmp of strings.

/// When the interval is narrower than this, its four upper bytes are final and leave the window.
const NARROW: u64 = 1 << 32;

/// Narrows an interval and writes its code.
#[derive(Debug)]
pub(crate) struct Encoder<'o> {
    low: u64,
    range: u64,
    out: &'o mut Vec<u8>,
    /// Where this code begins in `out`; a carry never goes beyond it.
    start: usize,
}

impl<'o> Encoder<'o> {
    /// Starts at the interval of the model's number.
    pub(crate) fn new(out: &'o mut Vec<u8>, range: u64) -> Self {
        let start = out.len();
        Self { low: 0, range, out, start }
    }

    /// Narrows to slots `lo..hi` of `1 << 16`.
    #[inline(always)]
    pub(crate) fn narrow(&mut self, lo: u32, hi: u32) {
        let unit = self.range >> 16;
        self.place(unit * u64::from(lo), unit * u64::from(hi - lo));
    }

    /// Narrows to slots `lo..hi`, where only the slots `within` count.
    pub(crate) fn narrow_within(&mut self, (lo, hi): (u32, u32), within: (u32, u32)) {
        let unit = self.range / u64::from(within.1 - within.0);
        self.place(unit * u64::from(lo - within.0), unit * u64::from(hi - lo));
    }

    #[inline(always)]
    fn place(&mut self, base: u64, width: u64) {
        let (low, carry) = self.low.overflowing_add(base);
        self.low = low;
        self.range = width;
        if carry {
            self.carry();
        }
        if width < NARROW {
            let [a, b, c, d, ..] = low.to_be_bytes();
            self.out.extend_from_slice(&[a, b, c, d]);
            self.low = low << 32;
            self.range = width << 32;
        }
    }

    #[cold]
    fn carry(&mut self) {
        for byte in self.out.iter_mut().skip(self.start).rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }

    /// Writes the shortest code of the interval. Its last byte is never zero.
    pub(crate) fn finish(mut self) {
        for kept in 0..=8u32 {
            // What is below the kept bytes; rounding up must stay inside the interval.
            let rest = u64::MAX.checked_shr(8 * kept).unwrap_or(0);
            let up = self.low.wrapping_neg() & rest;
            if up >= self.range {
                continue;
            }
            let (value, carry) = self.low.overflowing_add(up);
            if carry {
                self.carry();
            }
            self.out.extend_from_slice(&value.to_be_bytes()[..kept as usize]);
            break;
        }
        self.trim();
    }

    /// Writes the lower bound of the interval.
    pub(crate) fn finish_low(mut self) {
        self.out.extend_from_slice(&self.low.to_be_bytes());
        self.trim();
    }

    /// Writes the shortest value in the slot above all symbols, which no symbol uses.
    pub(crate) fn finish_above(mut self, slots: u32) {
        let used = (self.range >> 16) * u64::from(slots);
        let (low, carry) = self.low.overflowing_add(used);
        self.low = low;
        self.range -= used;
        if carry {
            self.carry();
        }
        self.finish();
    }

    fn trim(&mut self) {
        let kept = self.out[self.start..].iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        self.out.truncate(self.start + kept);
    }
}

/// Follows a code through the same intervals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoder<'p> {
    /// The code's window, counted from the lower bound of the interval.
    pub(crate) code: u64,
    pub(crate) range: u64,
    packed: &'p [u8],
    read: usize,
}

impl<'p> Decoder<'p> {
    pub(crate) fn new(packed: &'p [u8], range: u64) -> Self {
        let mut decoder = Self { code: 0, range, packed, read: 0 };
        decoder.code = u64::from(decoder.take()) << 32;
        decoder.code |= u64::from(decoder.take());
        decoder
    }

    /// The next four bytes; zeros after the end.
    #[inline(always)]
    fn take(&mut self) -> u32 {
        let rest = self.packed.get(self.read..).unwrap_or(&[]);
        self.read += 4;
        if let Some(word) = rest.first_chunk::<4>() {
            return u32::from_be_bytes(*word);
        }
        let mut word = [0; 4];
        word[..rest.len()].copy_from_slice(rest);
        u32::from_be_bytes(word)
    }

    /// Narrows to an interval if the code lies in it.
    #[inline(always)]
    pub(crate) fn enter(&mut self, base: u64, width: u64) -> bool {
        let code = self.code.wrapping_sub(base);
        let inside = code < width;
        if inside {
            self.settle(code, width);
        }
        inside
    }

    #[inline(always)]
    fn settle(&mut self, code: u64, width: u64) {
        if width < NARROW {
            self.code = code << 32 | u64::from(self.take());
            self.range = width << 32;
        } else {
            self.code = code;
            self.range = width;
        }
    }

    /// Narrows to slots `lo..hi` of `1 << 16`, known to hold the code.
    #[inline]
    pub(crate) fn narrow(&mut self, lo: u32, hi: u32) -> bool {
        let unit = self.range >> 16;
        self.enter(unit * u64::from(lo), unit * u64::from(hi - lo))
    }

    /// Whether the value has bytes that were never read.
    pub(crate) fn unread(&self) -> bool {
        self.read < self.packed.len()
    }

    /// Offset where the value became invalid.
    pub(crate) fn place(&self) -> usize {
        self.read.saturating_sub(8).min(self.packed.len())
    }
}
