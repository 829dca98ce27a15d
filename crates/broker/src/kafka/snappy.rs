//! Batches that are compressed with snappy: no library of the tree reads it.
//!
//! The format: <https://github.com/google/snappy/blob/main/format_description.txt>. Java's producers cut what
//! they compress into blocks and write a head before them; others write one block.

use crate::kafka::wire::Reader;

/// What Java's begin with; two version numbers follow.
const HEAD: &[u8] = b"\x82SNAPPY\0";

/// Unpacks what has no more than so many bytes. None if it is damaged, or longer.
pub(crate) fn unpack(packed: &[u8], max: usize) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    let Some(rest) = packed.strip_prefix(HEAD) else {
        block(packed, max, &mut unpacked)?;
        return Some(unpacked);
    };
    let mut reader = Reader(rest);
    let _versions = (reader.i32()?, reader.i32()?);
    while !reader.0.is_empty() {
        block(reader.bytes()?, max, &mut unpacked)?;
    }
    Some(unpacked)
}

/// Appends what a block holds: its length, and then pieces that are in it, or that came before.
fn block(packed: &[u8], max: usize, unpacked: &mut Vec<u8>) -> Option<()> {
    let mut reader = Reader(packed);
    let begin = unpacked.len();
    let end = begin.checked_add(usize::try_from(reader.uvarint()?).ok()?).filter(|end| *end <= max)?;
    while !reader.0.is_empty() {
        let [tag] = *reader.take(1)? else { return None };
        let high = usize::from(tag >> 2);
        let (length, back) = match tag & 3 {
            0 => {
                // Up to 60 bytes, or one to four bytes with the length.
                let length = if high < 60 { high } else { number(reader.take(high - 59)?) };
                let piece = reader.take(length.checked_add(1)?)?;
                unpacked.extend(piece);
                continue;
            }
            1 => ((high & 7) + 4, (high >> 3 << 8) + number(reader.take(1)?)),
            2 => (high + 1, number(reader.take(2)?)),
            _ => (high + 1, number(reader.take(4)?)),
        };
        let from = unpacked.len().checked_sub(back).filter(|from| back > 0 && *from >= begin)?;
        // It may go on into what it makes.
        (from..from + length).for_each(|at| unpacked.push(unpacked[at]));
        if unpacked.len() > end {
            return None;
        }
    }
    (unpacked.len() == end).then_some(())
}

/// A number whose lowest byte comes first.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::{HEAD, unpack};

    #[test]
    fn blocks_are_unpacked() {
        let both = |block: &[u8], wanted: &[u8]| {
            assert_eq!(unpack(block, 100).as_deref(), Some(wanted));
            let length = u32::try_from(block.len()).unwrap().to_be_bytes();
            let framed = [HEAD, &[0; 8], &length, block, &length, block].concat();
            assert_eq!(unpack(&framed, 100), Some(wanted.repeat(2)));
            assert_eq!(unpack(block, wanted.len().saturating_sub(1)).is_none(), !wanted.is_empty());
            (1..block.len()).for_each(|length| assert_eq!(unpack(&block[..length], 100), None, "{length}"));
        };
        both(&[0], b"");
        both(&[3, 8, b'a', b'b', b'c'], b"abc");
        // The length of a piece in a byte of its own; copies with each form of the way back.
        both(&[3, 60 << 2, 2, b'a', b'b', b'c'], b"abc");
        both(&[10, 4, b'a', b'b', 4 << 2 | 1, 2], b"ababababab");
        both(&[7, 4, b'a', b'b', 4 << 2 | 2, 2, 0], b"abababa");
        both(&[3, 4, b'a', b'b', 3, 2, 0, 0, 0], b"aba");
        for wrong in [
            &[][..],
            &[1],
            &[2, 0, b'a'],
            &[0, 0, b'a'],
            &[9, 4, b'a', b'b', 3 << 2 | 1, 3],
            &[9, 4, b'a', b'b', 3 << 2 | 1, 0],
            &[9, 63 << 2, 0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(unpack(wrong, 100), None, "{wrong:?}");
        }
        // A way back leads into no other block.
        let framed = [HEAD, &[0; 8], &[0, 0, 0, 3, 1, 0, b'a', 0, 0, 0, 3, 4, 1, 1]].concat();
        assert_eq!(unpack(&framed, 100), None);
    }
}
