//! Every codec: round trip, several frames in one file, cut and flipped streams.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/parallel.rs"]
mod parallel;

use std::cell::RefCell;
use std::io::{Cursor, ErrorKind, Read, Write};
use std::rc::Rc;

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
fn zeros_after_a_gzip_stream_are_ignored() {
    let (member, zeros) = (pack(Codec::Gzip, b"a"), vec![0; 600_000]);
    for file in [[member.clone(), zeros].concat(), [member.clone(), vec![0]].concat()] {
        assert_eq!(unpack(file).unwrap().1, b"a");
    }
    // gzip leaves out what is behind them.
    for behind in [&b"\0\0rest of something else"[..], b"x", &[&[0; 3][..], &member].concat()] {
        assert!(unpack([&member, behind].concat()).is_err(), "{behind:?}");
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

#[test]
fn a_codec_has_a_name_and_an_end() {
    let names = Codec::ALL.map(|codec| format!("{codec}.{}", codec.extension()));
    assert_eq!(names, ["plain.", "gzip.gz", "zstd.zst", "lz4.lz4", "xz.xz", "bzip2.bz2", "column.rcol"]);
}

/// What a sink received: its bytes, and how often it was flushed.
#[derive(Clone, Default)]
struct Sink(Rc<RefCell<(Vec<u8>, usize)>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.borrow_mut().1 += 1;
        Ok(())
    }
}

#[test]
fn flushed_bytes_reach_the_sink() {
    for codec in Codec::ALL {
        for level in [1, 3] {
            let sink = Sink::default();
            let mut encoder = codec.encoder(sink.clone(), level).unwrap();
            encoder.write_all(b"hello").unwrap();
            let before = sink.0.borrow().clone();
            encoder.flush().unwrap();
            assert_ne!(*sink.0.borrow(), before, "{codec} {level}");
            encoder.write_all(b" world").unwrap();
            encoder.finish().unwrap();
            assert_eq!(unpack(sink.0.take().0).unwrap(), (codec, b"hello world".to_vec()));
        }
    }
    // Flushing ends a frame, but does not write an empty one.
    let fast = |flushes: usize| {
        let mut encoder = Codec::Zstd.encoder(Vec::new(), 1).unwrap();
        encoder.write_all(b"hello").unwrap();
        (0..flushes).for_each(|_| encoder.flush().unwrap());
        encoder.finish().unwrap()
    };
    assert_eq!(fast(2), fast(0));
}

#[test]
fn a_window_that_is_too_large_is_damage() {
    let mut packed = Vec::new();
    let job = codec::parallel::Job { codec: Codec::Zstd, level: 1, threads: 1, long: Some(24) };
    codec::parallel::compress(&mut &rows()[..], &mut packed, job).unwrap();
    let read = |window| {
        let (_, mut reader) = codec::bounded_decoder(Box::new(Cursor::new(packed.clone())), window).unwrap();
        reader.read_to_end(&mut Vec::new())
    };
    assert_eq!(read(24).unwrap(), rows().len());
    assert_eq!(read(23).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_read_of_no_bytes_changes_nothing() {
    for codec in Codec::ALL {
        let packed = pack(codec, b"hello world");
        let (_, mut reader) = codec::decoder(Box::new(Cursor::new(packed))).unwrap();
        let mut five = [0; 5];
        assert_eq!(reader.read(&mut []).unwrap(), 0, "{codec}");
        reader.read_exact(&mut five).unwrap();
        assert_eq!(reader.read(&mut []).unwrap(), 0, "{codec}");
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!((&five, rest.as_slice()), (b"hello", &b" world"[..]), "{codec}");
        assert_eq!((reader.read(&mut []).unwrap(), reader.read(&mut five).unwrap()), (0, 0), "{codec}");
    }
}

#[test]
fn another_version_of_column_mode_is_not_reported_as_damage() {
    let whole = pack(Codec::Column, b"1\t2\n");
    let said = |at: usize| {
        let mut file = [whole.clone(), whole.clone()].concat();
        file[whole.len() + at] ^= 4;
        unpack(file).unwrap_err().to_string()
    };
    assert!(said(7).contains("newer version"), "{}", said(7));
    for at in [0, 6] {
        assert!(said(at).contains("something else follows"), "{}", said(at));
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
