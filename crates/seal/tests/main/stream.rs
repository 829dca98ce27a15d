//! Sealed files.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seal::{
    Error, FullKey, HEADER_BYTES, Key, Keyring, SEGMENT_BYTES, SealedReader, SealedWriter, is_sealed,
    stored_range,
};

fn keyring() -> Keyring {
    Keyring::begin(&Key::Full(FullKey::generate().unwrap())).unwrap().0
}

/// The file with these contents, added in pieces.
fn sealed(keyring: &Keyring, name: &str, bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut sealing, mut file) = SealedWriter::begin(keyring, name).unwrap();
    bytes.chunks(piece).for_each(|piece| sealing.push(piece, &mut file).unwrap());
    sealing.finish(&mut file).unwrap();
    file
}

fn opened(keyring: &Keyring, name: &str, file: &[u8], is_finished: bool) -> Result<Vec<u8>, Error> {
    let header = file.first_chunk::<HEADER_BYTES>().ok_or(Error::Damaged("cut"))?;
    let opening = SealedReader::new(keyring, name, header, file.len() as u64, is_finished)?;
    let mut out = Vec::new();
    for number in 0.. {
        let range = stored_range(number);
        let at = |at: u64| usize::try_from(at).unwrap().min(file.len());
        let stored = file[at(range.start)..at(range.end)].to_vec();
        // The last segment of an empty file is empty.
        if stored.is_empty() || (!is_finished && out.len() as u64 == opening.len()) {
            break;
        }
        out.extend_from_slice(&opening.segment(number, stored)?);
    }
    assert_eq!(out.len() as u64, opening.len());
    Ok(out)
}

fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let keyring = keyring();
    for len in
        [0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 3 * SEGMENT_BYTES, 7 * SEGMENT_BYTES + 5]
    {
        for piece in [100, SEGMENT_BYTES, 3 * SEGMENT_BYTES + 1] {
            let file = sealed(&keyring, "a", &contents(len), piece);
            assert_eq!(opened(&keyring, "a", &file, true).unwrap(), contents(len), "{len} {piece}");
        }
    }
}

#[test]
fn flip_any_ciphertext_byte() {
    let keyring = keyring();
    let file = sealed(&keyring, "a", &contents(2 * SEGMENT_BYTES + 50), SEGMENT_BYTES);
    let all = (0..HEADER_BYTES + 40).chain((0..file.len()).step_by(97)).chain(file.len() - 70..file.len());
    for at in all {
        let mut bad = file.clone();
        bad[at] ^= 0x04;
        assert!(opened(&keyring, "a", &bad, true).is_err(), "byte {at}");
    }
}

#[test]
fn every_cut_and_every_swap_is_detected() {
    let keyring = keyring();
    let file = sealed(&keyring, "a", &contents(3 * SEGMENT_BYTES + 50), SEGMENT_BYTES);
    for len in (0..file.len())
        .step_by(101)
        .chain([1, 2, 3].map(|end| usize::try_from(stored_range(end).start).unwrap()))
    {
        assert!(opened(&keyring, "a", &file[..len], true).is_err(), "cut at {len}");
    }
    assert!(opened(&keyring, "b", &file, true).is_err(), "under another name");
    assert!(opened(&self::keyring(), "a", &file, true).is_err(), "in another repository");
    let stored = |number| {
        let range = stored_range(number);
        usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
    };
    let mut swapped = file.clone();
    swapped[stored(0)].copy_from_slice(&file[stored(1)]);
    swapped[stored(1)].copy_from_slice(&file[stored(0)]);
    assert!(opened(&keyring, "a", &swapped, true).is_err(), "segments in another order");
    let other = sealed(&keyring, "a", &contents(3 * SEGMENT_BYTES + 50), SEGMENT_BYTES);
    let mut mixed = file.clone();
    mixed[stored(1)].copy_from_slice(&other[stored(1)]);
    assert!(opened(&keyring, "a", &mixed, true).is_err(), "a segment of an earlier file of that name");
}

#[test]
fn an_unfinished_file_is_read_up_to_its_last_complete_segment() {
    let keyring = keyring();
    let (mut sealing, mut file) = SealedWriter::begin(&keyring, "a").unwrap();
    sealing.push(&contents(3 * SEGMENT_BYTES), &mut file).unwrap();
    assert_eq!(
        opened(&keyring, "a", &file, false).unwrap(),
        contents(3 * SEGMENT_BYTES)[..2 * SEGMENT_BYTES]
    );
    assert!(opened(&keyring, "a", &file[..file.len() - 1], false).is_err(), "a torn segment");
    assert!(opened(&keyring, "a", &file, true).is_err(), "it does not pass for a whole one");
    sealing.finish(&mut file).unwrap();
    assert_eq!(
        opened(&keyring, "a", &file, false).unwrap(),
        contents(3 * SEGMENT_BYTES),
        "given up in order"
    );
}

#[test]
fn a_given_up_file_is_read_up_to_its_shorter_last_segment() {
    let keyring = keyring();
    let file = sealed(&keyring, "a", &contents(2 * SEGMENT_BYTES + 50), SEGMENT_BYTES);
    assert_eq!(opened(&keyring, "a", &file, false).unwrap(), contents(2 * SEGMENT_BYTES + 50));
}

/// Each segment ends with a tag, and the last one may have nothing else.
#[test]
fn a_file_without_a_whole_tag_at_its_end_is_truncated() {
    let keyring = keyring();
    let file = sealed(&keyring, "a", &contents(SEGMENT_BYTES + 50), SEGMENT_BYTES);
    let header = file.first_chunk::<HEADER_BYTES>().unwrap();
    let second = stored_range(1).start;
    for stored in [0, 63, 64, 65, 79, second + 1, second + 15] {
        let opened = SealedReader::new(&keyring, "a", header, stored, true).map(|file| file.len());
        assert_eq!(opened, Err(Error::Damaged("the file is truncated")), "{stored}");
    }
    let len = |stored| SealedReader::new(&keyring, "a", header, stored, true).unwrap().len();
    assert_eq!([len(80), len(second), len(second + 16)], [0, 16_384, 16_384]);
}

#[test]
fn another_file_is_foreign() {
    let (keyring, mut header) = (keyring(), [0; HEADER_BYTES]);
    header[..8].copy_from_slice(b"remoseal");
    assert!(is_sealed(&header) && !is_sealed(b"remosea"));
    let opened = |header: &[u8; HEADER_BYTES]| SealedReader::new(&keyring, "a", header, 64, true).map(|_| ());
    assert_eq!(opened(&header), Err(Error::Newer));
    header[0] = b'R';
    assert_eq!(opened(&header), Err(Error::Foreign));
}

/// What follows is sealed as if the beginning had never changed.
#[test]
fn a_file_goes_on_after_its_beginning_was_written_again() {
    let keyring = keyring();
    let (mut sealing, mut file) = SealedWriter::begin(&keyring, "a").unwrap();
    let mut wanted = contents(7 * SEGMENT_BYTES);
    sealing.push(&wanted[..10], &mut file).unwrap();
    let front = sealing.begin_anew(&[0xee; 10]).unwrap();
    file[..front.len()].copy_from_slice(&front);
    sealing.push(&wanted[10..], &mut file).unwrap();
    sealing.finish(&mut file).unwrap();
    wanted[..10].fill(0xee);
    assert_eq!(opened(&keyring, "a", &file, true).unwrap(), wanted);
}

#[test]
fn the_beginning_can_be_written_again() {
    let keyring = keyring();
    for (len, again) in [
        (10, 10),
        (SEGMENT_BYTES + 9, 100),
        (3 * SEGMENT_BYTES, SEGMENT_BYTES + 1),
        (9 * SEGMENT_BYTES, 5 * SEGMENT_BYTES),
    ] {
        let (mut sealing, mut file) = SealedWriter::begin(&keyring, "a").unwrap();
        sealing.push(&contents(len), &mut file).unwrap();
        let before = file.clone();
        let front = sealing.begin_anew(&vec![0xee; again]).unwrap();
        file[..front.len()].copy_from_slice(&front);
        sealing.finish(&mut file).unwrap();
        let mut wanted = contents(len);
        wanted[..again].fill(0xee);
        assert_eq!(opened(&keyring, "a", &file, true).unwrap(), wanted, "{len} {again}");
        // The former beginning does not fit any more.
        let old = front.len().min(before.len());
        if old > HEADER_BYTES {
            file[HEADER_BYTES..old].copy_from_slice(&before[HEADER_BYTES..old]);
            assert!(opened(&keyring, "a", &file, true).is_err());
        }
    }
    let (mut sealing, mut file) = SealedWriter::begin(&keyring, "a").unwrap();
    sealing.push(&contents(10), &mut file).unwrap();
    assert!(sealing.begin_anew(&[0; 11]).is_err(), "more than there is");
}

/// With one key the same nonce and the same text give the same bytes. So equal texts show a nonce that came
/// twice.
#[test]
fn nonce_never_twice() {
    let keyring = keyring();
    let (mut segments, mut count) = (BTreeSet::new(), 0);
    let mut take = |file: &[u8]| {
        for stored in file.get(HEADER_BYTES..).unwrap_or_default().chunks(SEGMENT_BYTES + 16) {
            segments.insert(stored.to_vec());
            count += 1;
        }
    };
    // The same name again and again, as after a run that was killed.
    for _ in 0..3 {
        let (mut sealing, mut file) = SealedWriter::begin(&keyring, "a").unwrap();
        sealing.push(&vec![0; 7 * SEGMENT_BYTES], &mut file).unwrap();
        take(&sealing.begin_anew(&vec![0; SEGMENT_BYTES]).unwrap());
        take(&sealing.begin_anew(&vec![0; SEGMENT_BYTES]).unwrap());
        sealing.finish(&mut file).unwrap();
        take(&file);
    }
    assert_eq!((segments.len(), count), (51, 51));
}

proptest! {
    #[test]
    fn any_bytes_are_opened_or_refused(bytes: Vec<u8>) {
        prop_assert!(opened(&keyring(), "a", &bytes, true).is_err());
    }
}
