//! Any bytes as a redo log are mini-transactions or an error, and the same ones in whatever pieces they come.
#![no_main]

use innodb::redo::{Log, LogCopier, START_OFFSET};
use libfuzzer_sys::fuzz_target;

fn crc(bytes: &[u8]) -> [u8; 4] {
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes);
    u32::try_from(sum).expect("32 bits").to_be_bytes()
}

/// A header with true checksums.
fn head(first: u64, checkpoint: u64, end: u64) -> Vec<u8> {
    let mut head = vec![0; START_OFFSET];
    head[..4].copy_from_slice(&0x5068_7973_u32.to_be_bytes());
    head[8..16].copy_from_slice(&first.to_be_bytes());
    let sum = crc(&head[..508]);
    head[508..512].copy_from_slice(&sum);
    head[4096..4104].copy_from_slice(&checkpoint.to_be_bytes());
    head[4104..4112].copy_from_slice(&end.to_be_bytes());
    let sum = crc(&head[4096..4156]);
    head[4156..4160].copy_from_slice(&sum);
    head
}

/// Gives each mini-transaction, as far as there are any, its true checksum and round; no forged one has them.
fn signed(log: &Log, lsns: [u64; 2], bytes: &[u8]) -> Vec<u8> {
    let [first, mut lsn] = lsns;
    let mut out = Vec::new();
    for records in bytes.split(|&byte| byte <= 1).filter(|records| !records.is_empty()) {
        let round = (lsn - first + records.len() as u64) / log.capacity();
        out.extend_from_slice(records);
        out.push(u8::from(round % 2 == 0));
        out.extend_from_slice(&crc(records));
        lsn += records.len() as u64 + 5;
    }
    out
}

/// Takes `bytes` in pieces whose lengths repeat.
fn taken(log: Log, bytes: &[u8], pieces: &[usize]) -> (Vec<u8>, u64, bool) {
    let (mut chain, mut out, mut rest) = (LogCopier::new(log), Vec::new(), bytes);
    for len in pieces.iter().cycle() {
        let (piece, more) = rest.split_at((*len).clamp(1, rest.len().max(1)).min(rest.len()));
        if chain.take(piece, &mut out).is_err() {
            return (out, chain.lsn(), false);
        }
        assert_eq!(chain.next(), log.checkpoint() + (bytes.len() - more.len()) as u64);
        let (at, until_end) = chain.place();
        assert_eq!(at + until_end, START_OFFSET as u64 + log.capacity());
        rest = more;
        if rest.is_empty() {
            break;
        }
    }
    let lsn = chain.lsn();
    assert_eq!(out.len() as u64, lsn - log.checkpoint());
    (out, lsn, true)
}

fuzz_target!(|input: (u64, u32, u32, u16, Vec<u16>, bool, Vec<u8>)| {
    let (first, later, further, room, pieces, sign, bytes) = input;
    let checkpoint = first.saturating_add(later.into());
    let end = checkpoint.saturating_add(further.into());
    let Ok(log) = Log::parse(&head(first, checkpoint, end), START_OFFSET as u64 + u64::from(room)) else {
        return;
    };
    assert!(log.place() >= START_OFFSET as u64);
    let _ = log.is_at_end(&bytes);
    let bytes = if sign { signed(&log, [first, checkpoint], &bytes) } else { bytes };
    let whole = taken(log, &bytes, &[bytes.len()]);
    let pieces = if pieces.is_empty() { vec![1] } else { pieces.into_iter().map(usize::from).collect() };
    assert!(taken(log, &bytes, &pieces) == whole);
});
