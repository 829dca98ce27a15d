//! Blocks written by hand from docs/formats/rcol.md: what they say is read; what they can't say is refused.

use column::{Error, Layout, column, decode};

/// A block of this text with this in it, and checksums that match.
fn block(text: &[u8], packed: &[u8]) -> Vec<u8> {
    let sum = |bytes: &[u8]| crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes);
    let mut block = vec![b'B'];
    for number in [text.len(), packed.len(), text.iter().filter(|byte| **byte == b'\n').count()] {
        block.extend(u32::try_from(number).unwrap().to_le_bytes());
    }
    block.extend(sum(text).to_le_bytes());
    block.extend(packed);
    block.extend(sum(&block).to_le_bytes());
    block
}

/// Columns: delimiter and flags, rows, what is said of odd records, and the parts.
fn columns(flags: u8, rows: u8, odd: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut packed = vec![1, b',', flags, u8::try_from(parts.len()).unwrap(), rows];
    packed.extend(odd);
    packed.extend(parts.iter().map(|part| u8::try_from(part.len()).unwrap()));
    packed.extend(parts.concat());
    packed
}

/// The texts x, as many as there are rows.
const SAME: &[u8] = &[0, 0, 1, b'x'];
/// The texts 7, NULL and 3: numbers, and an exception after one of them.
const NUMBERS: &[u8] = &[0, 1, 0, 0, 0, 0, 0, 1, 0, 2, 3, 2, 0, 7, 3, 0, 4, b'N', b'U', b'L', b'L'];
/// The texts a, b and a, in a dictionary.
const WORDS: &[u8] = &[1, 2, 0, 3, 3, 0, 0, 1, 0, 2, 1, b'\n', 4, 0, b'a', b'\n', b'b', b'\n'];
/// The texts one, two and one, which the column 0 tells: two are listed, none misses.
const FOLLOWING: &[u8] =
    &[1, 2, 2, 0, 2, 0, 0, 3, 2, 0, 0, 1, 2, 0, 0, 3, 2, 0, 3, 3, 6, 0, b'o', b'n', b'e', b't', b'w', b'o'];

/// `part` with another byte.
fn with(part: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut part = part.to_vec();
    part[at] = byte;
    part
}

#[test]
fn blocks_written_by_hand_are_read() {
    for (text, packed) in [
        ("x,a\nx,b\nx,a\n", columns(6, 3, &[0], &[SAME, WORDS])),
        ("x,a\r\nx,b\r\nx,a\r\n", columns(7, 3, &[0], &[SAME, WORDS])),
        ("x,a\nx,b\nx,a", columns(4, 3, &[0], &[SAME, WORDS])),
        ("x\nx\n", columns(2, 2, &[0], &[SAME])),
        ("a,one\nb,two\na,one\n", columns(6, 3, &[0], &[WORDS, FOLLOWING])),
        // Two odd records: one after the first row and one after the last.
        ("x\nodd\nx\nodd\n", columns(6, 2, &[2, 0, 2, 0, 3, b'o', b'd', b'd'], &[SAME])),
        // As many fields as there can be: each is empty.
        (",\n,", columns(4, 2, &[0], &[&[0, 0, 0], &[0, 0, 0]])),
        ("plain", vec![0, 5, 0, b'p', b'l', b'a', b'i', b'n']),
        ("", vec![0, 0, 0]),
    ] {
        let read = decode(&block(text.as_bytes(), &packed)).map(|read| String::from_utf8(read).unwrap());
        assert_eq!(read.as_deref(), Ok(text), "{packed:?}");
    }
}

#[test]
fn impossible_blocks_are_refused() {
    let three = "x,a\nx,b\nx,a\n";
    let two = "a,one\nb,two\na,one\n";
    let longer = [SAME, b"x"].concat();
    for (text, packed, wanted) in [
        ("x", vec![2], "a block is stored in a way that this version does not know"),
        ("x", vec![0, 1, 0, b'y'], "the text of a block is not what was packed"),
        ("xx", vec![0, 1, 0, b'x'], "the text of a block is not what was packed"),
        ("x", columns(6, 0, &[0], &[]), "a block has more fields than text"),
        (",\n", columns(4, 2, &[0], &[&[0, 0, 0], &[0, 0, 0]]), "a block has more fields than text"),
        (three, [columns(6, 3, &[0], &[SAME, WORDS]), vec![0]].concat(), "a block has more than its columns"),
        (three, columns(6, 3, &[0], &[&longer, WORDS]), "a column has more than its rows need"),
        (
            three,
            columns(6, 3, &[0], &[&with(SAME, 0, 2), WORDS]),
            "a column is stored in a way that this version does not know",
        ),
        (
            three,
            columns(6, 3, &[0], &[&with(SAME, 1, 3), WORDS]),
            "a column is stored in a way that this version does not know",
        ),
        ("x\n", columns(2, 1, &[1, 0, 4, 0, 0], &[SAME]), "an odd record is beyond the last row"),
        (two, columns(6, 3, &[0], &[SAME, FOLLOWING]), "a column follows one that has no words"),
        (two, columns(6, 3, &[0], &[WORDS, &with(FOLLOWING, 3, 1)]), "columns follow each other in a circle"),
        (
            two,
            columns(6, 3, &[0], &[WORDS, &with(FOLLOWING, 3, 2)]),
            "a column follows one that does not exist",
        ),
        (two, columns(6, 3, &[0], &[&with(WORDS, 1, 1), FOLLOWING]), "a row has a text that does not exist"),
    ] {
        assert_eq!(decode(&block(text.as_bytes(), &packed)), Err(Error::Corrupt(wanted)), "{packed:?}");
    }
}

#[test]
fn exceptions_stand_between_numbers() {
    let packed = columns(6, 3, &[0], &[NUMBERS, SAME]);
    assert_eq!(decode(&block(b"7,x\nNULL,x\n3,x\n", &packed)).as_deref(), Ok(&b"7,x\nNULL,x\n3,x\n"[..]));
    let late = with(NUMBERS, 9, 6);
    let packed = columns(6, 3, &[0], &[&late, SAME]);
    let wanted = Error::Corrupt("an exception is beyond the last row");
    assert_eq!(decode(&block(b"7,x\nNULL,x\n3,x\n", &packed)), Err(wanted));
}

#[test]
fn only_the_column_that_is_wanted_is_read() {
    let layout = Layout::guess(&b"a,one\n".repeat(9)).unwrap();
    // The first column is damaged; the second one does not need it.
    let damaged = with(WORDS, 0, 9);
    let block =
        block(b"odd\na,x\nb,x\na,x\n", &columns(6, 3, &[1, 0, 0, 0, 3, b'o', b'd', b'd'], &[&damaged, SAME]));
    assert!(decode(&block).is_err() && column(&block, layout, 0).is_err());
    let found = column(&block, layout, 1).unwrap().unwrap();
    assert_eq!(
        (found.bytes.as_slice(), found.ends.as_slice(), found.left_out),
        (&b"xxx"[..], &[1, 2, 3][..], 1)
    );
    assert_eq!(column(&block, layout, 2), Ok(None));
}
