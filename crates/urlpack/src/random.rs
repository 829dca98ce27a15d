//! Pseudo-random numbers, the same for the same seed (Steele, Lea and Flood 2014, SplitMix64).

/// The state of the sequence.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.bits() % limit.max(1) as u64).unwrap_or(0)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let [byte, ..] = self.bits().to_be_bytes();
        byte
    }
}
