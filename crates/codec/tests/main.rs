//! Every codec: round trip, several frames in one file, cut and flipped streams.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/parallel.rs"]
mod parallel;

use std::io::{Cursor, ErrorKind, Read, Write};

use codec::Codec;
use proptest::prelude::*;

fn pack(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = codec.encoder(Vec::new(), 3).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn unpack(packed: Vec<u8>) -> std::io::Result<(Codec, Vec<u8>)> {
    let (codec, mut reader) = codec::decoder(Box::new(Cursor::new(packed)))?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    Ok((codec, bytes))
}

/// Rows that compress as real ones do, larger than any decoder's block.
fn rows() -> Vec<u8> {
    (0..60_000_u32)
        .flat_map(|n| format!("{n},{},row of text\n", n.wrapping_mul(2_654_435_761)).into_bytes())
        .collect()
}

#[test]
fn several_frames_are_one_stream() {
    let rows = rows();
    let (first, second) = rows.split_at(rows.len() / 3);
    for codec in Codec::ALL.into_iter().skip(1) {
        let mut file = pack(codec, first);
        file.extend(pack(codec, b""));
        file.extend(pack(codec, second));
        let (found, bytes) = unpack(file).unwrap();
        assert_eq!(found, codec);
        assert!(bytes == rows, "{codec}: {} bytes of {}", bytes.len(), rows.len());
    }
}

#[test]
fn a_stream_that_stops_in_the_middle_is_an_error() {
    let rows = rows();
    for codec in Codec::ALL.into_iter().skip(1) {
        let whole = pack(codec, &rows);
        for cut in [11, whole.len() / 2, whole.len() - 5, whole.len() - 1] {
            let error = unpack(whole.get(..cut).unwrap().to_vec()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{codec} cut at {cut}: {error}");
            assert!(error.to_string().contains(&codec.to_string()), "{error}");
        }
        // The same when whole frames precede the cut one.
        let mut file = pack(codec, b"first");
        file.extend(whole.get(..whole.len() / 2).unwrap());
        assert_eq!(unpack(file).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{codec}");
    }
}

#[test]
fn a_flipped_bit_is_noticed() {
    let rows = rows();
    for codec in Codec::ALL.into_iter().skip(1) {
        let mut damaged = pack(codec, &rows);
        let middle = damaged.len() / 2;
        damaged[middle] ^= 4;
        assert!(unpack(damaged).is_err(), "{codec}");
    }
}

#[test]
fn skippable_frames_are_skipped() {
    let mut file = vec![0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
    file.extend(pack(Codec::Zstd, b"hello"));
    assert_eq!(unpack(file).unwrap(), (Codec::Zstd, b"hello".to_vec()));
}

#[test]
fn text_that_only_looks_compressed_is_plain() {
    for text in [&b""[..], b"B", b"BZh9 is a name\n", b"\x1f\x8b", b"id,name\n"] {
        assert_eq!(unpack(text.to_vec()).unwrap(), (Codec::Plain, text.to_vec()));
    }
}

proptest! {
    #[test]
    fn round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..5000), which in 1_usize..7) {
        let codec = Codec::ALL[which];
        prop_assert_eq!(unpack(pack(codec, &bytes)).unwrap(), (codec, bytes));
    }

    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500), which in 1_usize..7) {
        let mut file = pack(Codec::ALL[which], b"some text");
        file.truncate(12);
        file.extend(&bytes);
        unpack(file).ok();
        unpack(bytes).ok();
    }
}
