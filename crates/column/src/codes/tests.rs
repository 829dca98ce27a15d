//! Dictionaries and the patterns in their codes.

use super::*;

fn spans(texts: &[String]) -> Vec<Span> {
    let mut at = 0;
    texts
        .iter()
        .map(|text| (at, at += text.len()).0)
        .zip(texts)
        .map(|(from, text)| Span::new(from, from + text.len()))
        .collect()
}

#[test]
fn a_dictionary_has_each_text_once() {
    // More texts than two sizes of the table of hashes; some are prefixes of others, and one is empty.
    let distinct: Vec<String> =
        (0..3000).map(|n| if n == 2 { String::new() } else { "ab".repeat(n % 5) + &n.to_string() }).collect();
    let wanted: Vec<u32> = (0..3000).flat_map(|n| [n, n, n / 2]).collect();
    let rows: Vec<String> = wanted.iter().map(|code| distinct[*code as usize].clone()).collect();
    let (text, spans) = (rows.concat(), spans(&rows));
    let texts = Texts { text: text.as_bytes(), spans: &spans };
    let found = Dictionary::of(texts, 3000).unwrap();
    assert!(found.codes == wanted);
    assert!(texts.with(&found.distinct).iter().eq(distinct.iter().map(String::as_bytes)));
    assert_eq!(found.changes, wanted.windows(2).filter(|pair| pair[0] != pair[1]).count());
    assert!(Dictionary::of(texts, 2999).is_none());
}

#[test]
fn a_miss_is_a_row_that_its_key_does_not_tell() {
    for (codes, key, wanted) in [
        (&[][..], &[][..], 0),
        (&[0, 1, 0, 1], &[0, 1, 0, 1], 2),
        (&[0, 1, 0, 1], &[5, 5, 5, 5], 4),
        (&[3, 3, 4, 4, 3], &[0, 0, 0, 0, 0], 3),
        (&[7, 8, 7, 9], &[1, 0, 1, 0], 3),
    ] {
        assert_eq!(misses(codes, key), wanted, "{codes:?} {key:?}");
    }
}

#[test]
fn codes_come_back_in_every_way() {
    // New ones, the same again, each rank, and one that was used too long ago.
    let codes: Vec<u32> = (0..17).chain([16, 14, 2, 2, 0, 1, 17, 3, 17]).collect();
    let wanted = [[0; 17].as_slice(), &[1, 3, 15, 1, 16, 17, 0, 19, 2]].concat();
    assert_eq!(recent(&codes), wanted);
    for level in [3, 12] {
        let effort = Effort::of_level(level);
        let mut out = vec![RECENT];
        ints::encode(&wanted, effort, &mut out).unwrap();
        assert_eq!(decode(&mut Cursor::new(&out), codes.len(), 18, None).as_ref(), Ok(&codes));
        assert!(decode(&mut Cursor::new(&out), codes.len(), 17, None).is_err());
        let mut out = Vec::new();
        encode(&codes, effort, &mut out).unwrap();
        assert_eq!(decode(&mut Cursor::new(&out), codes.len(), 18, None).as_ref(), Ok(&codes));
    }
    // The ones that were used long ago, or never, have no rank.
    for symbols in [&[1][..], &[0, 2], &[0, 0, 3], &[0, 15], &[16, 17], &[-1]] {
        let mut out = vec![RECENT];
        ints::encode(symbols, Effort::of_level(3), &mut out).unwrap();
        assert!(decode(&mut Cursor::new(&out), symbols.len(), 1, None).is_err(), "{symbols:?}");
    }
}

#[test]
fn codes_follow_a_key() {
    let key = [0, 1, 0, 0, 2, 1, 1, 0];
    let codes = [5, 6, 5, 7, 5, 6, 8, 7];
    let mut out = Vec::new();
    encode_follow(&codes, (3, &key), Effort::of_level(3), &mut out).unwrap();
    // Key column 3; five are listed, two of them miss: after one row that the key tells, and after one more.
    assert_eq!(out[..4], [FOLLOW, 3, 5, 2]);
    assert_eq!(super::key(&out), Ok(Some(3)));
    assert_eq!(decode(&mut Cursor::new(&out), 8, 9, Some(&key)).as_deref(), Ok(&codes[..]));
    assert!(decode(&mut Cursor::new(&out), 8, 9, None).is_err());
    assert!(decode(&mut Cursor::new(&[PLAIN, 0, 0]), 1, 1, Some(&[0])).is_err());
    for (said, gaps, wanted) in [
        (&[5, 6, 7, 5, 8][..], &[1, 1][..], Some(&codes[..])),
        (&[5, 6, 5], &[], Some(&[5, 6, 5, 5, 5, 6, 6, 5])),
        (&[5, 6], &[], None),
        (&[5, 6, 7, 5], &[1, 1], None),
    ] {
        assert_eq!(follow(said, gaps, &key).ok().as_deref(), wanted, "{said:?} {gaps:?}");
    }
}

#[test]
fn lines_that_come_again_are_a_tenth() {
    let lines =
        |from: u32, to: u32| (from..to).map(|n| format!("a line with the number {n}\n")).collect::<String>();
    let other =
        |from: u32, to: u32| (from..to).map(|n| format!("{n} is in the beginning\n")).collect::<String>();
    // Lines that begin alike are all looked at, or none of them.
    for (text, wanted) in [
        (String::new(), false),
        (other(0, 9000), false),
        (other(0, 9000) + &other(0, 9000), true),
        (other(0, 9000) + &other(0, 2000), true),
        (other(0, 9000) + &other(0, 300), false),
        (lines(0, 100), false),
    ] {
        assert_eq!(lines_come_again(text.as_bytes()), wanted, "{} bytes", text.len());
    }
}
