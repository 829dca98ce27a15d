//! Numbers that look random and are the same on every machine.

/// Xorshift64*: small and fast.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Equal seeds give equal numbers.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    /// The next number, of all 64 bits.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end, and this never does")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64).try_into().unwrap_or(0)
    }

    /// One of these, each as likely as the others.
    pub(crate) fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let at = self.below(words.len() as u64);
        usize::try_from(at).ok().and_then(|at| words.get(at)).copied().unwrap_or_default()
    }
}

/// Weights that can be drawn from.
pub(crate) struct Wheel(Vec<u64>);

impl Wheel {
    pub(crate) fn new(weights: impl Iterator<Item = u64>) -> Wheel {
        let sums = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Wheel(sums.collect())
    }

    /// The place of a weight, as often as it weighs.
    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let at = random.below(self.0.last().copied().unwrap_or(1));
        self.0.partition_point(|sum| *sum <= at)
    }
}
