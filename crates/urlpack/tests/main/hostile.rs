//! Damaged and forged model files.

use crc_fast::{CrcAlgorithm, checksum};
use urlpack::{Error, Model};

use crate::model::{models, urls};

fn seal(file: &mut [u8]) {
    let end = file.len() - 8;
    let sum = checksum(CrcAlgorithm::Crc64Nvme, &file[..end]);
    file[end..].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn cut_files_are_refused() {
    let file = models()[1].as_bytes();
    for len in 0..file.len() {
        assert!(matches!(Model::from_bytes(&file[..len]), Err(Error::Model { .. })), "{len}");
    }
    let mut long = file.to_vec();
    long.push(0);
    assert!(Model::from_bytes(long).is_err());
}

#[test]
fn flipped_bits_are_refused() {
    let file = models()[1].as_bytes();
    for at in 0..file.len() {
        let mut bad = file.to_vec();
        bad[at] ^= 1 << (at % 8);
        assert!(matches!(Model::from_bytes(bad), Err(Error::Model { .. })), "{at}");
    }
}

/// A forger can make the checksum right. A file that is then accepted must still keep every promise.
#[test]
fn forged_files_are_refused_or_sound() {
    let file = models()[1].as_bytes();
    let urls = urls();
    let mut accepted = 0;
    for at in 0..file.len() - 8 {
        for change in [1u8, 0x80, 0xff] {
            let mut bad = file.to_vec();
            bad[at] = bad[at].wrapping_add(change);
            seal(&mut bad);
            let Ok(model) = Model::from_bytes(bad) else { continue };
            accepted += 1;
            let mut last: Option<(Vec<u8>, &[u8])> = None;
            for string in urls[at % 50..].iter().step_by(211).map(Vec::as_slice).chain([&b"\0\xff"[..], b""])
            {
                let (mut packed, mut back) = (Vec::new(), Vec::new());
                model.pack(string, &mut packed);
                model.unpack(&packed, &mut back, 1_000).unwrap();
                assert_eq!(back, string, "byte {at} changed by {change}");
                if let Some((value, before)) = last {
                    assert_eq!(value.cmp(&packed), before.cmp(string), "byte {at} changed by {change}");
                }
                drop(model.unpack(string, &mut back, 1_000));
                last = Some((packed, string));
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn huge_counts_are_refused() {
    for (at, len) in [(12, 4), (16, 4), (20, 4), (24, 4), (28, 4)] {
        let mut bad = models()[1].as_bytes().to_vec();
        bad[at..at + len].fill(0xff);
        seal(&mut bad);
        assert!(matches!(Model::from_bytes(bad), Err(Error::Model { .. })), "{at}");
    }
    for number in [16, 0xff] {
        let mut bad = models()[1].as_bytes().to_vec();
        bad[10] = number;
        seal(&mut bad);
        assert!(Model::from_bytes(bad).is_err());
    }
    for bytes in [&b""[..], b"urlpack\n", &[0xff; 4096]] {
        assert!(Model::from_bytes(bytes).is_err());
    }
}

/// Following parents must end: with a state that is its own parent it never would.
#[test]
fn a_state_that_is_its_own_parent_is_refused() {
    const ROOT: usize = 64;
    let mut bad = models()[1].as_bytes().to_vec();
    // The root has every symbol: a header, perhaps a chain, a count, and 256 entries of seven bytes.
    let second = ROOT + 12 + if bad[ROOT] & 0x80 == 0 { 0 } else { 16 } + 2 + 256 * 7;
    bad[second + 1..second + 4].copy_from_slice(&u32::try_from(second).unwrap().to_le_bytes()[..3]);
    seal(&mut bad);
    assert!(
        matches!(Model::from_bytes(bad), Err(Error::Model { what, place }) if what.contains("parent") && place == second)
    );
}
