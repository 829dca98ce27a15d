//! Aria's control file, `aria_log_control`: the last checkpoint, and the number of the newest log file. A
//! server that starts reads the log from the former to the latter, and takes no notice of files behind that.
//!
//! Behind a part that never changes, whose length is at byte 20: a checksum (4 bytes, CRC-32 of what
//! follows), the checkpoint's LSN (3 bytes the number of its log file, 4 the place in it), the newest number
//! (4 bytes), and what is of no concern here. All little endian (`storage/maria/ma_control_file.c` of the
//! server).

use std::io;
use std::ops::Range;

/// Where the length of the first part is, and that of the part behind it.
const LENGTHS: [Range<usize>; 2] = [20..22, 22..24];
/// Places in the part that changes.
const SUM: Range<usize> = 0..4;
const CHECKPOINT: Range<usize> = 4..11;
const NEWEST: Range<usize> = 11..15;

/// The part of a control file that changes.
fn changes(file: &[u8]) -> Option<Range<usize>> {
    let number = |at: &Range<usize>| {
        let bytes = file.get(at.clone())?.try_into().ok()?;
        Some(usize::from(u16::from_le_bytes(bytes)))
    };
    let [start, len] = [number(&LENGTHS[0])?, number(&LENGTHS[1])?];
    let part = file.get(start..start + len)?;
    let is_whole = len >= NEWEST.end && part.get(SUM)? == sum(part);
    is_whole.then_some(start..start + len)
}

fn sum(part: &[u8]) -> [u8; 4] {
    let rest = part.get(SUM.end..).unwrap_or_default();
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, rest);
    u32::try_from(sum).unwrap_or_default().to_le_bytes()
}

/// A control file with the checkpoint of an `older` state of it and all else of a `newer` one. Returns also
/// the numbers of the log files with the checkpoint, and of the newest one.
pub(super) fn join(older: &[u8], newer: &[u8]) -> io::Result<(Vec<u8>, [u32; 2])> {
    let unknown = || io::Error::other("it is damaged, or of a format that remora does not know");
    let then = changes(older).and_then(|place| older.get(place)).ok_or_else(unknown)?;
    let place = changes(newer).ok_or_else(unknown)?;
    let mut joined = newer.to_vec();
    let part = joined.get_mut(place).ok_or_else(unknown)?;
    part[CHECKPOINT].copy_from_slice(&then[CHECKPOINT]);
    let sum = sum(part);
    part[SUM].copy_from_slice(&sum);
    let [a, b, c, ..] = part[CHECKPOINT] else { return Err(unknown()) };
    let [d, e, f, g] = part[NEWEST] else { return Err(unknown()) };
    let numbers = [u32::from_le_bytes([a, b, c, 0]), u32::from_le_bytes([d, e, f, g])];
    Ok((joined, numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a MariaDB 10.11.
    const FILE: [u8; 52] = [
        0xfe, 0xfe, 0x0c, 0x01, 0x34, 0x95, 0x15, 0x56, 0xea, 0x21, 0x11, 0xf1, 0x9c, 0x05, 0x02, 0xfc, 0, 0,
        0, 1, 0x1e, 0, 0x16, 0, 0, 0x20, 0xaa, 0x0c, 0x73, 0x49, 0x70, 0x36, 0x79, 0x14, 0x85, 0, 0, 0x66,
        0x60, 0x72, 0, 0x87, 0, 0, 0, 0xe5, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn a_control_file_has_the_older_checkpoint_and_the_newer_end() {
        let mut newer = FILE;
        newer[34] = 0x86;
        newer[41] = 0x89;
        let part = sum(&newer[30..]);
        newer[30..34].copy_from_slice(&part);
        let (joined, numbers) = join(&FILE, &newer).unwrap();
        assert_eq!(numbers, [0x85, 0x89]);
        assert_eq!((joined[34], joined[41]), (0x85, 0x89));
        assert_eq!(join(&joined, &joined).unwrap(), (joined, [0x85, 0x89]));
        assert_eq!(join(&FILE, &FILE).unwrap().0, FILE);
    }

    #[test]
    fn a_control_file_with_another_bit_or_length_is_none() {
        for at in 20..FILE.len() {
            let mut file = FILE;
            file[at] ^= 1;
            // Its own checksum, of the first part, ends before what changes.
            assert_eq!(join(&FILE, &file).is_err(), !(24..30).contains(&at), "{at}");
            assert!(join(&FILE[..at], &FILE).is_err(), "{at}");
        }
    }
}
