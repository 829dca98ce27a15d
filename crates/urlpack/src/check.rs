//! The optional check at the end of a value: steps of the coder after the last symbol, so that order and
//! prefixes are kept.

use crc_fast::{CrcAlgorithm, Digest};

use crate::coder::{Decoder, Encoder};

/// What the check of a model's values depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check {
    /// The check's length in bytes; 0 for no check.
    pub(crate) bytes: u8,
    /// Checksum of the model's file, so that a value of another model does not pass.
    pub(crate) model: u64,
}

impl Check {
    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        self.bytes == 0
    }

    /// The slots of a string's check: each byte takes a 256th of the interval.
    fn slots(self, string: &[u8]) -> impl Iterator<Item = (u32, u32)> {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(string);
        digest.update(&self.model.to_le_bytes());
        let bytes = digest.finalize().to_be_bytes();
        bytes.into_iter().take(usize::from(self.bytes)).map(|byte| {
            let byte = u32::from(byte);
            (byte << 8, (byte + 1) << 8)
        })
    }

    /// Narrows the interval of `string` to that of its check.
    #[inline(never)]
    pub(crate) fn encode(self, string: &[u8], encoder: &mut Encoder<'_>) {
        self.slots(string).for_each(|(lo, hi)| encoder.narrow(lo, hi));
    }

    /// Whether the code lies in the interval of the string's check.
    #[inline(never)]
    pub(crate) fn decode(self, string: &[u8], decoder: &mut Decoder<'_>) -> bool {
        self.slots(string).all(|(lo, hi)| decoder.narrow(lo, hi))
    }
}
