//! The redo log, copied and proven.

use innodb::Error;
use innodb::redo::{Log, LogCopier, START_OFFSET};
use proptest::prelude::*;

fn crc(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).unwrap().to_be_bytes()
}

/// A record of so many bytes in all.
fn record(len: usize) -> Vec<u8> {
    // The type is that of a write. Up to 16 bytes, the number of those after the first is with it; else the
    // number of those after the first 16 follows.
    let mut record = match len {
        0..17 => vec![0x30 | u8::try_from(len - 1).unwrap()],
        17..144 => vec![0x30, u8::try_from(len - 16).unwrap()],
        _ => {
            let [high, low] = u16::try_from(len - 144).unwrap().to_be_bytes();
            vec![0x30, 0x80 | high, low]
        }
    };
    record.resize(len, 0xA5);
    record
}

/// A log, as it is in its file, and as one text.
struct Ring {
    file: Vec<u8>,
    text: Vec<u8>,
    checkpoint: u64,
}

/// A log of mini-transactions with records of these lengths. It was begun at `first`; the checkpoint is so
/// many bytes later.
fn ring(capacity: usize, first: u64, later: u64, minis: &[Vec<usize>]) -> Ring {
    let mut file = vec![0xEE; START_OFFSET + capacity];
    file[..512].fill(0);
    file[..4].copy_from_slice(&0x5068_7973_u32.to_be_bytes());
    file[8..16].copy_from_slice(&first.to_be_bytes());
    let sum = crc(&file[..508]);
    file[508..512].copy_from_slice(&sum);
    let checkpoint = first + later;
    file[4096..8192 + 64].fill(0);
    for at in [4096, 4104] {
        file[at..at + 8].copy_from_slice(&checkpoint.to_be_bytes());
    }
    let sum = crc(&file[4096..4156]);
    file[4156..4160].copy_from_slice(&sum);
    let (mut text, mut at) = (Vec::new(), later);
    for mini in minis {
        let records = mini.iter().flat_map(|&len| record(len)).collect::<Vec<_>>();
        let sum = crc(&records);
        let round = (at + records.len() as u64) / capacity as u64;
        let ends = |round: u64| [&[u8::from(round.is_multiple_of(2))], &sum[..]].concat();
        for byte in records.iter().chain(&ends(round)) {
            file[START_OFFSET + usize::try_from(at).unwrap() % capacity] = *byte;
            at += 1;
        }
        text.extend_from_slice(&records);
        text.extend_from_slice(&ends(0));
    }
    Ring { file, text, checkpoint }
}

impl Ring {
    fn copy(&self) -> LogCopier {
        LogCopier::new(Log::parse(&self.file[..START_OFFSET], self.file.len() as u64).unwrap())
    }

    /// Copies all of it, so many bytes at a time.
    fn copied(&self, piece: usize) -> Result<(Vec<u8>, u64), Error> {
        let (mut copy, mut out) = (self.copy(), Vec::new());
        let mut left = self.text.len();
        while left > 0 {
            let (at, until_end) = copy.place();
            let at = usize::try_from(at).unwrap();
            let len = left.min(piece).min(usize::try_from(until_end).unwrap());
            copy.take(&self.file[at..at + len], &mut out)?;
            left -= len;
        }
        let lsn = copy.lsn();
        copy.end(self.checkpoint + self.text.len() as u64)?;
        Ok((out, lsn))
    }
}

proptest! {
    #[test]
    fn a_circular_log_becomes_a_linear_copy(
        minis in prop::collection::vec(prop::collection::vec(2_usize..700, 1..4), 1..30),
        later in 0_u64..200_000,
        spare in 0_usize..300,
        piece in 1_usize..5000,
    ) {
        let len: usize = minis.iter().map(|mini| mini.iter().sum::<usize>() + 5).sum();
        // Every log has room for the record of a checkpoint.
        prop_assume!(len >= 16);
        let ring = ring(len + spare, 12_288, later, &minis);
        let (out, lsn) = ring.copied(piece).unwrap();
        prop_assert!(out == ring.text);
        prop_assert_eq!(lsn, ring.checkpoint + len as u64);
        // The copy is a log too, and it can be copied.
        let again = Ring { file: [ring.copy().head(), out].concat(), ..ring };
        let (out, _) = again.copied(piece).unwrap();
        prop_assert!(out == again.text);
    }
}

#[test]
fn every_changed_bit_and_missing_byte_is_noticed() {
    let ring = ring(900, 12_288, 700, &[vec![20, 3], vec![300], vec![2, 2], vec![17]]);
    ring.copied(64).unwrap();
    for at in 0..900 * 8 {
        let mut file = ring.file.clone();
        file[START_OFFSET + at / 8] ^= 1 << (at % 8);
        let in_use = (at / 8 + 900 - 700) % 900 < ring.text.len();
        let copied = Ring { file, text: ring.text.clone(), ..ring }.copied(64);
        assert_eq!(copied.is_err(), in_use, "bit {at}");
    }
    for end in 0..ring.text.len() {
        let cut = Ring { file: ring.file.clone(), text: ring.text[..end].to_vec(), ..ring };
        let ends_there = [0, 28, 333, 342].contains(&end);
        assert_eq!(cut.copied(64).is_ok(), ends_there, "{end}");
    }
}

#[test]
fn mtr_across_wrap() {
    // The end of the file is at each byte of the second one: in its records, and within its end.
    let minis = [vec![20, 3], vec![40, 2], vec![300]];
    let bytes = 28 + 47 + 305;
    for before in 28..=75 {
        let capacity = 1000;
        let ring = ring(capacity, 12_288, capacity as u64 - before, &minis);
        for piece in [1, 7, 64, 5000] {
            let (out, lsn) = ring.copied(piece).unwrap();
            assert!(out == ring.text, "{before}");
            assert_eq!(lsn, ring.checkpoint + bytes);
        }
    }
}

#[test]
fn header_vectors() {
    let good = ring(900, 12_288, 700, &[vec![20]]).file;
    let len = good.len() as u64;
    let parse = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut head = good[..START_OFFSET].to_vec();
        change(&mut head);
        Log::parse(&head, len).map(|log| log.checkpoint())
    };
    let signed = |head: &mut Vec<u8>, from: usize, to: usize| {
        let sum = crc(&head[from..to]);
        head[to..to + 4].copy_from_slice(&sum);
    };
    let checkpoint = |head: &mut Vec<u8>, at: usize, lsn: u64, end: u64| {
        head[at..at + 60].fill(0);
        head[at..at + 8].copy_from_slice(&lsn.to_be_bytes());
        head[at + 8..at + 16].copy_from_slice(&end.to_be_bytes());
        signed(head, at, at + 60);
    };
    assert_eq!(parse(&|_| ()), Ok(12_988));
    // The newer of two checkpoints, wherever it is; one that is only half there does not count.
    assert_eq!(parse(&|head| checkpoint(head, 8192, 13_000, 13_100)), Ok(13_000));
    assert_eq!(parse(&|head| checkpoint(head, 8192, 12_500, 13_900)), Ok(12_988));
    let torn = |head: &mut Vec<u8>| {
        checkpoint(head, 8192, 13_000, 13_100);
        head[8192 + 7] ^= 1;
    };
    assert_eq!(parse(&torn), Ok(12_988));
    // None, or one that can't be.
    let refused = |change: &dyn Fn(&mut Vec<u8>)| parse(change).unwrap_err().to_string();
    assert!(refused(&|head| head[4096] ^= 1).contains("no checkpoint"));
    assert!(refused(&|head| checkpoint(head, 4096, 12_287, 12_987)).contains("not in it"));
    assert!(refused(&|head| checkpoint(head, 4096, 12_988, 12_987)).contains("not in it"));
    assert_eq!(parse(&|head| checkpoint(head, 4096, 12_988, 1 << 62)), Ok(12_988));
    assert!(refused(&|head| checkpoint(head, 4096, 12_988, (1 << 62) + 1)).contains("not in it"));
    // Every bit of the header is proven.
    for bit in 0..512 * 8 {
        assert!(parse(&|head| head[bit / 8] ^= 1 << (bit % 8)).is_err(), "{bit}");
    }
    // Other formats: encrypted, and those before 10.8.
    let format = |format: u32| {
        refused(&|head| {
            head[..4].copy_from_slice(&format.to_be_bytes());
            signed(head, 0, 508);
        })
    };
    assert!(format(0xF09F_979D).contains("encrypted"));
    assert!(format(0x5048_5953).contains("before MariaDB 10.8"));
    for cut in [0, 3, 4, 100, 511, 512, 4096, 4159] {
        assert!(refused(&|head| head.truncate(cut)).len() > 4, "{cut}");
    }
    // The record of a checkpoint has 16 bytes.
    let of_capacity = |bytes: u64| Log::parse(&good[..START_OFFSET], START_OFFSET as u64 + bytes);
    assert_eq!(of_capacity(16).map(|log| log.capacity()), Ok(16));
    assert!(of_capacity(15).unwrap_err().to_string().contains("not in it"));
}

/// It is a ring: what does not fit until the end of the file continues behind the header.
#[test]
fn lsns_are_places_in_the_file() {
    let (first, start) = (12_288, START_OFFSET as u64);
    for (later, place) in [(0, 0), (700, 700), (899, 899), (900, 0), (1000, 100), (2000, 200)] {
        let ring = ring(900, first, later, &[vec![20]]);
        let log = Log::parse(&ring.file[..START_OFFSET], ring.file.len() as u64).unwrap();
        assert_eq!(log.place(), start + place, "{later}");
    }
    let ring = ring(900, first, 0, &[vec![20]]);
    let log = Log::parse(&ring.file[..START_OFFSET], ring.file.len() as u64).unwrap();
    for (lsns, wanted) in [
        (10..30, &[(10, 20)][..]),
        (890..900, &[(890, 10)]),
        (890..920, &[(890, 10), (0, 20)]),
        (1790..1810, &[(890, 10), (0, 10)]),
        (900..910, &[(0, 10)]),
        // More than the log has.
        (10..2000, &[(10, 890), (0, 10)]),
        (0..901, &[(0, 900)]),
        (30..30, &[]),
    ] {
        let found: Vec<_> = log.places(first + lsns.start..first + lsns.end).collect();
        let wanted: Vec<_> = wanted.iter().map(|(at, len)| (start + at, *len)).collect();
        assert_eq!(found, wanted, "{lsns:?}");
    }
    // Before it was begun there is nothing.
    assert_eq!(log.places(first - 10..first + 5).collect::<Vec<_>>(), [(start, 5)]);
    assert_eq!(log.places(0..first).count() + log.places(first - 5..first - 10).count(), 0);
}

/// The record of the checkpoint, and nothing behind it.
#[test]
fn a_log_is_at_its_end_behind_its_checkpoint_alone() {
    let first = 12_288_u64;
    let log = |checkpoint: u64, end: u64| {
        let mut file = ring(16_384, first, 0, &[vec![20]]).file;
        file[4096..4104].copy_from_slice(&checkpoint.to_be_bytes());
        file[4104..4112].copy_from_slice(&end.to_be_bytes());
        let sum = crc(&file[4096..4156]);
        file[4156..4160].copy_from_slice(&sum);
        Log::parse(&file[..START_OFFSET], file.len() as u64).unwrap()
    };
    let record = |kind: [u8; 3], lsn: u64| {
        let head = [&kind[..], &lsn.to_be_bytes()].concat();
        [&head[..], &[1], &crc(&head), &[0; 20]].concat()
    };
    let sound = record([0xFA, 0, 0], first);
    assert!(log(first, first).is_at_end(&sound));
    assert!(log(first, first).is_at_end(&sound[..16]), "nothing is behind it");
    assert!(!log(first, first).is_at_end(&sound[..15]));
    assert!(!log(first, first + 16).is_at_end(&sound), "the checkpoint began earlier");
    assert!(!log(first, first).is_at_end(&record([0xFA, 0, 1], first)), "it is about a page");
    assert!(!log(first, first).is_at_end(&record([0xFA, 0, 0], first + 1)), "it is of another checkpoint");
    let mut torn = sound.clone();
    torn[12] ^= 1;
    assert!(!log(first, first).is_at_end(&torn));
}

#[test]
fn overwritten_log_is_a_gap() {
    let minis = vec![vec![90]; 12];
    let ring = ring(1200, 12_288, 300, &minis);
    let mut copy = ring.copy();
    let mut out = Vec::new();
    let (at, _) = copy.place();
    let at = usize::try_from(at).unwrap();
    copy.take(&ring.file[at..at + 500], &mut out).unwrap();
    let proven = copy.lsn();
    assert_eq!(proven, ring.checkpoint + 475);
    // The server has begun the next round there.
    let taken = copy.take(&record(90), &mut out);
    let error = taken.and_then(|()| copy.end(proven + 95)).unwrap_err();
    assert!(error.to_string().contains(&format!("LSN {proven}")), "{error}");
}

#[test]
fn a_record_of_any_length_shows_that_the_log_continues() {
    let first = 12_288_u64;
    let mut head = vec![0xFA, 0, 0];
    head.extend_from_slice(&first.to_be_bytes());
    let sum = crc(&head);
    head.push(1);
    head.extend_from_slice(&sum);
    for mini in (2..400).map(|len| vec![len]).chain([vec![2, 300], vec![20, 2], vec![9000]]) {
        let records: Vec<u8> = mini.iter().flat_map(|&len| record(len)).collect();
        let ring = ring(16_384, first, 0, &[mini]);
        let log = Log::parse(&ring.file[..START_OFFSET], ring.file.len() as u64).unwrap();
        let sum = crc(&records);
        let tail = [&head[..], &records, &[1], &sum].concat();
        assert!(!log.is_at_end(&tail), "{}", records.len());
        assert!(log.is_at_end(&[&head[..], &records, &[1, 0, 0, 0, 0]].concat()));
        assert!(log.is_at_end(&[&head[..], &[1, 0, 0, 0, 0]].concat()), "an end without a record");
    }
}

/// What can't be the beginning of a record is said at once, not after all memory is full.
#[test]
fn bytes_that_begin_no_record_are_refused_where_they_are() {
    let ring = ring(16_384, 12_288, 0, &[vec![20]]);
    for (bytes, is_wrong) in
        [([0x30, 0xDF], false), ([0x30, 0xE0], true), ([0x30, 0xFF], true), ([0x31, 0xFF], false)]
    {
        let (mut copy, mut out) = (ring.copy(), Vec::new());
        copy.take(&ring.text, &mut out).unwrap();
        assert_eq!(copy.take(&bytes, &mut out).is_err(), is_wrong, "{bytes:x?}");
        assert_eq!(out, ring.text);
    }
}

#[test]
fn a_copy_ends_where_a_mini_transaction_does() {
    let ring = ring(900, 12_288, 0, &[vec![20]]);
    let (mut copy, mut out) = (ring.copy(), Vec::new());
    copy.take(&ring.text, &mut out).unwrap();
    let end = ring.checkpoint + 25;
    assert_eq!(copy.end(end), Ok(()));
    assert!(copy.end(end - 1).is_err() && copy.end(end + 1).is_err());
    // Another one begins there.
    copy.take(&[0x30], &mut out).unwrap();
    assert!(copy.end(end).is_err());
}

/// A record of two megabytes has the greatest first byte of a length. Nobody writes as many as here.
#[test]
fn a_mini_transaction_that_does_not_end_is_a_gap() {
    let mut record = vec![0x30, 0xDF, 0xFF, 0xFF];
    record.resize(16 + 0x1F_FFFF + 0x4080, 0xA5);
    let whole = [&record[..], &[1], &crc(&record)].concat();
    let head = ring(900, 12_288, 0, &[]).file;
    let copy = || LogCopier::new(Log::parse(&head[..START_OFFSET], 1 << 30).unwrap());
    let mut out = Vec::new();
    assert_eq!(copy().take(&whole, &mut out), Ok(()));
    assert!(out == whole);
    let mut records = record.repeat(32);
    records.truncate(64 << 20);
    assert_eq!(copy().take(&records[..(64 << 20) - 1], &mut out), Ok(()));
    assert!(copy().take(&records, &mut out).unwrap_err().to_string().contains("LSN 12288"));
}
