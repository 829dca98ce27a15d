//! Numbers as bytes.

use crc_fast::{CrcAlgorithm, Digest};

pub(crate) use condition::wire::{ByteReader, put_signed, put_varint};

/// The number of a row in its queue, counted from 1 in the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

/// CRC-32C over several slices.
pub(crate) fn checksum(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    // The algorithm yields 32 bits; the crate returns every width as 64.
    u32::try_from(digest.finalize()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(checksum(&[b"1234", b"56789"]), 0xe306_9283);
    }
}
