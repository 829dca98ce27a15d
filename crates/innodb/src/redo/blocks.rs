//! The redo log of MySQL 8.0.30 and later: whether it ends with its last checkpoint.
//!
//! Facts: `log0constants.h` of MySQL's source. The log is a row of files, `#innodb_redo/#ib_redoN`, each with
//! the LSN that it begins with. After a header it has blocks of 512 bytes: number, length with this header,
//! and a checksum at the end. An LSN counts whole blocks.

use crate::Error;
use crate::page::{crc, u16_at, u32_at, u64_at};

/// Bytes of a file before its blocks.
pub const HEADER_BYTES: usize = 2048;
/// Bytes of a block, of its header, and before its checksum.
pub const BLOCK_BYTES: usize = 512;
const BLOCK_HEADER_BYTES: u64 = 12;
const SUM_AT: usize = BLOCK_BYTES - 4;
/// Where the checkpoints are in a header.
const CHECKPOINTS: [usize; 2] = [BLOCK_BYTES, 3 * BLOCK_BYTES];
/// The only format with such files.
const FORMAT: u32 = 6;
/// Where a header has bits for: pages that are not in the log, and a server that may not be killed.
const FLAGS: usize = 48;
const UNLOGGED: u32 = 0b11;
/// Block numbers begin again at this one.
const NUMBERS: u64 = 0x4000_0000;
/// The bit of a length that says that the block is encrypted.
const ENCRYPTED: u16 = 0x8000;

/// A file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The LSN of its first block.
    pub first: u64,
    /// The LSN after its last block.
    pub end: u64,
    /// The last checkpoint that is noted in it; the newest one of all files is the last.
    pub checkpoint: Option<u64>,
    /// Whether changes are not in the log, so that it can't tell.
    pub is_unlogged: bool,
}

impl LogFile {
    /// Reads the first [`HEADER_BYTES`] of a file, whose length is `len`.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] for other formats.
    pub fn parse(head: &[u8], len: u64) -> Result<LogFile, Error> {
        let format = u32_at(head, 0);
        if format != FORMAT {
            return Err(Error::unsupported(format!("its format {format} is not known")));
        }
        if head.len() < HEADER_BYTES || !is_whole(head) {
            let what = "wrong checksum".to_owned();
            return Err(Error::Corrupt { what, place: "byte 0".to_owned() });
        }
        let checkpoint = |at: usize| head.get(at..at + BLOCK_BYTES).filter(|block| is_whole(block));
        let checkpoints = CHECKPOINTS.into_iter().filter_map(checkpoint).map(|block| u64_at(block, 8));
        let first = u64_at(head, 8);
        Ok(LogFile {
            first,
            end: first.saturating_add(len.saturating_sub(HEADER_BYTES as u64)),
            checkpoint: checkpoints.max(),
            is_unlogged: u32_at(head, FLAGS) & UNLOGGED != 0,
        })
    }

    /// The offset of the block that has this LSN, if it is in this file.
    #[must_use]
    pub fn place(&self, lsn: u64) -> Option<u64> {
        let block = lsn - lsn % BLOCK_BYTES as u64;
        (self.first..self.end).contains(&block).then(|| block - self.first + HEADER_BYTES as u64)
    }
}

/// Whether nothing follows the checkpoint. `blocks` are those from that of the checkpoint on, as far as there
/// are any.
///
/// # Errors
/// [`Error::Unsupported`] for an encrypted log.
pub fn is_at_end(checkpoint: u64, blocks: &[u8]) -> Result<bool, Error> {
    let (blocks, _) = blocks.as_chunks::<BLOCK_BYTES>();
    let is_of = |block: &[u8; BLOCK_BYTES], lsn: u64| {
        u64::from(u32_at(block, 0)) == lsn / BLOCK_BYTES as u64 % NUMBERS + 1 && is_whole(block)
    };
    let used = checkpoint % BLOCK_BYTES as u64;
    let Some(first) = blocks.first().filter(|block| is_of(block, checkpoint)) else {
        // A block that nothing was written to yet.
        return Ok(used <= BLOCK_HEADER_BYTES);
    };
    let len = u16_at(first, 4);
    if len & ENCRYPTED != 0 {
        return Err(Error::unsupported("it is encrypted"));
    }
    let follows =
        blocks.get(1).is_some_and(|next| is_of(next, checkpoint.saturating_add(BLOCK_BYTES as u64)));
    Ok(u64::from(len) <= used.max(BLOCK_HEADER_BYTES) && !follows)
}

fn is_whole(block: &[u8]) -> bool {
    block.get(..SUM_AT).map(crc) == Some(u32_at(block, SUM_AT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u32, len: u16) -> Vec<u8> {
        let mut block = vec![7; BLOCK_BYTES];
        block[..4].copy_from_slice(&number.to_be_bytes());
        block[4..6].copy_from_slice(&len.to_be_bytes());
        let sum = crc(&block[..SUM_AT]);
        block[SUM_AT..].copy_from_slice(&sum.to_be_bytes());
        block
    }

    #[test]
    fn a_log_ends_where_its_last_block_does() {
        // Block 3 begins at LSN 1024.
        let checkpoint = 1024 + 100;
        let is_end = |blocks: &[Vec<u8>]| is_at_end(checkpoint, &blocks.concat()).unwrap();
        assert!(is_end(&[block(3, 100)]) && is_end(&[block(3, 100), block(9, 512)]));
        assert!(!is_end(&[block(3, 101)]), "more in the block");
        assert!(!is_end(&[block(3, 100), block(4, 20)]), "another block");
        assert!(!is_end(&[block(2, 100)]) && !is_end(&[]), "the block of the checkpoint is not there");
        let mut torn = block(3, 100);
        torn[300] ^= 1;
        assert!(!is_end(&[torn]));
        // Nothing was written behind the checkpoint yet.
        for checkpoint in [1024, 1024 + 12] {
            assert!(is_at_end(checkpoint, &block(1, 512)).unwrap());
            assert!(is_at_end(checkpoint, &block(3, 12)).unwrap());
            assert!(!is_at_end(checkpoint, &block(3, 13)).unwrap());
        }
        let error = is_at_end(checkpoint, &block(3, 100 | ENCRYPTED)).unwrap_err();
        assert_eq!(error.to_string(), "it is encrypted");
        // Numbers begin again.
        let far = 512 * (NUMBERS + 2) + 100;
        assert!(is_at_end(far, &block(3, 100)).unwrap() && !is_at_end(far, &block(4, 100)).unwrap());
    }

    #[test]
    fn the_newest_sound_checkpoint_of_a_file_is_its_last() {
        let mut head = vec![0; HEADER_BYTES];
        let seal = |head: &mut [u8], at: usize| {
            let sum = crc(&head[at..at + SUM_AT]);
            head[at + SUM_AT..at + BLOCK_BYTES].copy_from_slice(&sum.to_be_bytes());
        };
        head[3] = 6;
        head[8..16].copy_from_slice(&8192_u64.to_be_bytes());
        head[520..528].copy_from_slice(&9000_u64.to_be_bytes());
        head[1544..1552].copy_from_slice(&9500_u64.to_be_bytes());
        assert_eq!(LogFile::parse(&head, 65_536).unwrap_err().to_string(), "wrong checksum (byte 0)");
        seal(&mut head, 0);
        assert_eq!(LogFile::parse(&head, 65_536).unwrap().checkpoint, None);
        seal(&mut head, 512);
        assert_eq!(LogFile::parse(&head, 65_536).unwrap().checkpoint, Some(9000));
        seal(&mut head, 1536);
        let file = LogFile::parse(&head, 65_536).unwrap();
        let wanted = LogFile { first: 8192, end: 71_680, checkpoint: Some(9500), is_unlogged: false };
        assert_eq!(file, wanted);
        assert_eq!((file.place(8191), file.place(8192), file.place(9500)), (None, Some(2048), Some(3072)));
        assert_eq!((file.place(71_679), file.place(71_680)), (Some(65_024), None));
        head[51] = 2;
        seal(&mut head, 0);
        assert!(LogFile::parse(&head, 65_536).unwrap().is_unlogged);
        head[3] = 5;
        assert_eq!(LogFile::parse(&head, 65_536).unwrap_err().to_string(), "its format 5 is not known");
    }
}
