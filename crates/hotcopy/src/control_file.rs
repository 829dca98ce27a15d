//! Aria's control file, `aria_log_control`: the last checkpoint, and the number of the newest log file. A
//! server that starts reads the log from the former to the latter, and takes no notice of files behind that.
//!
//! The first part never changes; its length is at byte 20. Behind it are a checksum (4 bytes, CRC-32 of what
//! follows), the checkpoint's LSN (3 bytes for the number of its log file, 4 for the place in it) and the
//! newest number (4 bytes). The rest is of no concern here. All numbers are little endian
//! (`storage/maria/ma_control_file.c` of the server).

use std::io;
use std::ops::Range;

/// Where the length of the first part is, and that of the part behind it.
const LENGTHS: [Range<usize>; 2] = [20..22, 22..24];
/// Places in the part that changes.
const SUM: Range<usize> = 0..4;
const CHECKPOINT: Range<usize> = 4..11;
const CHECKPOINT_LOG: Range<usize> = 4..7;
const NEWEST: Range<usize> = 11..15;

/// The file.
pub(crate) struct Control {
    bytes: Vec<u8>,
    /// Where in it the part that changes begins.
    start: usize,
}

impl Control {
    /// Fails if it is not whole.
    pub(crate) fn new(bytes: Vec<u8>) -> io::Result<Control> {
        let [start, len] = LENGTHS.map(|place| number(bytes.get(place).unwrap_or_default()) as usize);
        let part = bytes.get(start..start + len).unwrap_or_default();
        if len < NEWEST.end || part.get(SUM) != Some(&sum(part)) {
            return Err(io::Error::other("it is damaged, or of a format that remora does not know"));
        }
        Ok(Control { bytes, start })
    }

    fn part(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// The number of the log file with the checkpoint.
    pub(crate) fn checkpoint(&self) -> u32 {
        number(&self.part()[CHECKPOINT_LOG])
    }

    /// The number of the newest log file.
    pub(crate) fn newest(&self) -> u32 {
        number(&self.part()[NEWEST])
    }

    /// The file with the checkpoint of an older state of it, and another number of the newest log file.
    pub(crate) fn joined(mut self, older: &Control, newest: u32) -> Vec<u8> {
        let part = self.bytes.get_mut(self.start..).unwrap_or_default();
        part[CHECKPOINT].copy_from_slice(&older.part()[CHECKPOINT]);
        part[NEWEST].copy_from_slice(&newest.to_le_bytes());
        let sum = sum(part);
        part[SUM].copy_from_slice(&sum);
        self.bytes
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The checksum of a part.
fn sum(part: &[u8]) -> [u8; 4] {
    let rest = part.get(SUM.end..).unwrap_or_default();
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, rest);
    u32::try_from(sum).unwrap_or_default().to_le_bytes()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Of a MariaDB 10.11: the checkpoint is in log file 0x85, and 0x87 is the newest.
    pub(crate) const FILE: [u8; 52] = [
        0xfe, 0xfe, 0x0c, 0x01, 0x34, 0x95, 0x15, 0x56, 0xea, 0x21, 0x11, 0xf1, 0x9c, 0x05, 0x02, 0xfc, 0, 0,
        0, 1, 0x1e, 0, 0x16, 0, 0, 0x20, 0xaa, 0x0c, 0x73, 0x49, 0x70, 0x36, 0x79, 0x14, 0x85, 0, 0, 0x66,
        0x60, 0x72, 0, 0x87, 0, 0, 0, 0xe5, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn a_control_file_has_an_older_checkpoint_and_another_end() {
        let read = |bytes: &[u8]| Control::new(bytes.to_vec()).unwrap();
        let mut newer = FILE;
        newer[34] = 0x86;
        newer[41] = 0x89;
        let part = sum(&newer[30..]);
        newer[30..34].copy_from_slice(&part);
        assert_eq!((read(&newer).checkpoint(), read(&newer).newest()), (0x86, 0x89));
        let joined = read(&newer).joined(&read(&FILE), 0x88);
        assert_eq!((read(&joined).checkpoint(), read(&joined).newest()), (0x85, 0x88));
        // The place of the checkpoint in its file is that of the older one, too.
        assert_eq!((&joined[34..41], &joined[45..]), (&FILE[34..41], &newer[45..]));
        assert_eq!(read(&FILE).joined(&read(&FILE), 0x87), FILE);
    }

    #[test]
    fn a_control_file_with_another_bit_or_length_is_none() {
        for at in 20..FILE.len() {
            let mut file = FILE;
            file[at] ^= 1;
            // Its own checksum, of the first part, ends before what changes.
            assert_eq!(Control::new(file.to_vec()).is_err(), !(24..30).contains(&at), "{at}");
            assert!(Control::new(FILE[..at].to_vec()).is_err(), "{at}");
        }
    }
}
