//! The same on several cores: round trips, standard readers, damage, and streams written by other programs.

use std::io::{Cursor, ErrorKind, Write};

use codec::Codec;
use codec::parallel::{ColumnCounts, Job, column, compress, decompress, reading};

use crate::{Sink, pack, rows, unpack};

fn job(codec: Codec, threads: usize) -> Job {
    Job { codec, level: 1, threads, long: None }
}

fn packed(text: &[u8], job: Job) -> Vec<u8> {
    let mut out = Vec::new();
    compress(&mut &text[..], &mut out, job).unwrap();
    out
}

fn plain(packed: &[u8], threads: usize) -> std::io::Result<(Codec, Vec<u8>)> {
    let mut out = Vec::new();
    let codec = decompress(Box::new(Cursor::new(packed.to_vec())), &mut out, threads)?;
    Ok((codec, out))
}

/// More than one piece for a codec at its first level.
fn long_rows(codec: Codec) -> Vec<u8> {
    rows().repeat(match codec {
        Codec::Gzip | Codec::Zstd | Codec::Bzip2 => 1,
        Codec::Xz => 2,
        Codec::Plain | Codec::Lz4 => 3,
        Codec::Column => 10,
    })
}

#[test]
fn parallel_frames_are_one_stream_for_every_reader() {
    for codec in Codec::ALL {
        let text = long_rows(codec);
        let one = packed(&text, job(codec, 1));
        for threads in [1, 3] {
            assert!(packed(&text, job(codec, threads)) == one, "{codec}: threads change what is written");
            let (found, back) = plain(&one, threads).unwrap();
            assert!((found, &back) == (codec, &text), "{codec}: {} bytes of {}", back.len(), text.len());
        }
        assert!(unpack(one).unwrap() == (codec, text.clone()), "{codec}: the reader on one core");
        assert_eq!(plain(&packed(b"", job(codec, 2)), 2).unwrap(), (codec, Vec::new()), "{codec}: nothing");
    }
}

#[test]
fn columns_are_cut_alike_however_they_come() {
    let text = long_rows(Codec::Column);
    let sink = Sink::default();
    let mut encoder = Codec::Column.encoder(sink.clone(), 1).unwrap();
    text.chunks(1_000_000).for_each(|part| encoder.write_all(part).unwrap());
    // A block is written as soon as it is full, and not before.
    assert!(sink.0.borrow().0.len() > 1000);
    encoder.finish().unwrap();
    assert!(sink.0.take().0 == packed(&text, job(Codec::Column, 2)));
}

#[test]
fn long_windows_are_found_again() {
    let text = rows().repeat(4);
    let long = packed(&text, Job { long: Some(27), ..job(Codec::Zstd, 2) });
    assert!(plain(&long, 2).unwrap() == (Codec::Zstd, text.clone()));
    assert!(long.len() * 3 < packed(&text, job(Codec::Zstd, 2)).len(), "the text is four times the same");
}

#[test]
fn cut_and_flipped_frames_are_noticed() {
    for codec in Codec::ALL.into_iter().skip(1) {
        let text = long_rows(codec);
        let whole = packed(&text, job(codec, 2));
        for cut in [11, whole.len() / 3, whole.len() - 5, whole.len() - 1] {
            let error = plain(&whole[..cut], 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{codec} cut at {cut}: {error}");
        }
        let before_the_cut = [1, 3].map(|threads| {
            let (mut out, cut) = (Vec::new(), Cursor::new(whole[..whole.len() - 5].to_vec()));
            decompress(Box::new(cut), &mut out, threads).unwrap_err();
            out.len()
        });
        assert_eq!(before_the_cut[0], before_the_cut[1], "{codec}: threads change what is written");
        assert!(before_the_cut[0] > 0, "{codec}: nothing is written");
        for at in [12, 18, 40, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            assert!(
                !plain(&damaged, 2).is_ok_and(|(_, back)| back != text),
                "{codec}: byte {at} gives other text"
            );
        }
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 4;
        assert!(plain(&damaged, 2).is_err(), "{codec}");
        let mut longer = whole;
        longer.extend(b"and then plain text\n");
        assert!(plain(&longer, 2).is_err(), "{codec}: what follows is passed off as text");
    }
}

#[test]
fn streams_of_other_programs_are_read_on_one_core() {
    let text = rows();
    for codec in Codec::ALL.into_iter().skip(1) {
        let mut file = pack(codec, &text);
        file.extend(packed(&text, job(codec, 2)));
        file.extend(pack(codec, &text));
        assert!(plain(&file, 2).unwrap() == (codec, text.repeat(3)), "{codec}");
    }
}

#[test]
fn a_few_bytes_of_bzip2_may_be_much_text() {
    let zeros = vec![0; 20_000_000];
    let stream = pack(Codec::Bzip2, &zeros);
    let file = [&stream[..], &pack(Codec::Bzip2, b"in between"), &stream].concat();
    assert!(file.len() < 3000, "{}", file.len());
    for threads in [1, 2] {
        let (_, text) = plain(&file, threads).unwrap();
        assert!(text == [&zeros[..], b"in between", &zeros].concat(), "{threads}");
    }
}

#[test]
fn a_reader_that_stops_early_stops_the_threads() {
    let whole = packed(&long_rows(Codec::Zstd), job(Codec::Zstd, 2));
    let error = reading(Box::new(Cursor::new(whole)), 2, |plain| {
        let mut ten = [0; 10];
        plain.read_exact(&mut ten)?;
        Err::<(), _>(std::io::Error::other("enough"))
    });
    assert_eq!(error.unwrap_err().to_string(), "enough");
}

#[test]
fn a_read_of_no_bytes_takes_none() {
    let (codec, text) = reading(Box::new(Cursor::new(pack(Codec::Gzip, b"hello"))), 2, |plain| {
        let mut text = Vec::new();
        assert_eq!(plain.read(&mut [])?, 0);
        plain.read_to_end(&mut text)?;
        Ok(text)
    })
    .unwrap();
    assert_eq!((codec, text.as_slice()), (Codec::Gzip, &b"hello"[..]));
}

#[test]
fn the_end_of_a_stream_is_always_read() {
    let mut whole = packed(&long_rows(Codec::Column), job(Codec::Column, 2));
    let last = whole.len() - 1;
    whole[last] ^= 1;
    let outcome = reading(Box::new(Cursor::new(whole)), 2, |plain| plain.read_exact(&mut [0; 10]));
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_column_is_read_alone() {
    let text = rows();
    let mut file = packed(&text, job(Codec::Column, 2));
    file.extend(packed(b"1,2\nodd\n3,4,\"five\n\"\n", job(Codec::Column, 2)));
    let mut wanted: Vec<u8> = text
        .split_inclusive(|byte| *byte == b'\n')
        .flat_map(|line| line.rsplit(|byte| *byte == b',').next().unwrap())
        .copied()
        .collect();
    wanted.extend(b"\"five\n\"\n");
    for threads in [1, 3] {
        let mut out = Vec::new();
        let taken = column(Box::new(Cursor::new(file.clone())), &mut out, threads, |fields| {
            assert_eq!(fields, [&b"0"[..], b"0", b"row of text"]);
            Ok(2)
        });
        assert_eq!(taken.unwrap(), ColumnCounts { records: 60_001, left_out: 2 });
        assert!(out == wanted, "{} bytes of {}", out.len(), wanted.len());
    }
    let tried = |file: &[u8]| column(Box::new(Cursor::new(file.to_vec())), &mut Vec::new(), 2, |_| Ok(0));
    assert_eq!(tried(&file[..file.len() - 1]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(tried(&packed(&text, job(Codec::Gzip, 2))).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(tried(&packed(b"", job(Codec::Column, 2))).unwrap(), ColumnCounts::default());
}
