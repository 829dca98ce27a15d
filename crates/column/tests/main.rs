//! Whatever the bytes are, the same bytes come back; nothing else comes back from damaged blocks.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "main/written.rs"]
mod written;

use column::{Column, Effort, End, Error, HEAD_BYTES, Head, Layout, MAGIC, TRAILER_BYTES, Trailer};
use column::{column, decode, encode};
use proptest::prelude::*;

fn round(text: &[u8], level: u32) -> Vec<u8> {
    let block = encode(text, Effort::of_level(level)).unwrap();
    let head = Head::parse(&block).unwrap();
    assert_eq!((head.text_bytes, head.block_bytes), (text.len(), block.len()));
    assert_eq!(head.lines, text.iter().filter(|byte| **byte == b'\n').count());
    let back = decode(&block).unwrap();
    assert!(back == text, "{} bytes came back of {}", back.len(), text.len());
    block
}

/// A small generator: the same rows in every run.
struct Random(u64);

impl Random {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Rows with each kind of column; `odd` of a thousand rows differ from the rest.
fn rows(count: u64, odd: u64, line_end: &str) -> Vec<u8> {
    let mut random = Random(7);
    let mut text = String::from("id,price,day,at,who,mail,note,same,zip\n").replace('\n', line_end);
    let mut who = 0;
    for row in 0..count {
        if random.below(1000) < odd {
            text += random.pick(&["", "a,b", "\"never closed", "1,2,3,4,5,6,7,8,9,10", "\r"]);
            text += line_end;
            continue;
        }
        if random.below(8) == 0 {
            who = random.below(300);
        }
        let price = if random.below(20) == 0 {
            "NULL".to_owned()
        } else {
            format!("{}{}.{:02}", random.pick(&["", "-"]), random.below(300), random.below(100))
        };
        text += &format!(
            "{},{price},20{:02}-{:02}-{:02},2026-11-{:02} {:02}:{:02}:{:02}.{:03},user{who},\"{}, {}@example.org\",note {} of \
             {},x,{:05}{line_end}",
            1000 + row * 3,
            random.below(30),
            1 + random.below(13),
            1 + random.below(31),
            1 + random.below(30),
            random.below(24),
            random.below(60),
            random.below(60),
            random.below(1000),
            who * 7,
            who % 13,
            random.below(9),
            row,
            random.below(100_000),
        );
    }
    text.into_bytes()
}

#[test]
fn tables_come_back() {
    for line_end in ["\n", "\r\n"] {
        for odd in [0, 3, 400] {
            let text = rows(3000, odd, line_end);
            for level in [1, 3, 12] {
                let packed = round(&text, level).len();
                assert!(odd > 3 || packed < text.len() / 3, "{packed} of {}", text.len());
            }
            // A cut anywhere makes the last record a different one.
            for cut in [1, 2, 3, 17, text.len() - 3, text.len() - 2, text.len() - 1] {
                round(&text[..cut], 3);
            }
        }
    }
}

#[test]
fn text_that_is_no_table_comes_back_unchanged() {
    let mut random = Random(3);
    let noise: Vec<u8> = (0..300_000).map(|_| random.below(256).to_le_bytes()[0]).collect();
    assert!(round(&noise, 3).len() < noise.len() + 100, "noise is stored as it is");
    round(b"", 3);
    for byte in 0..=255 {
        round(&[byte], 3);
        round(&[byte; 1000], 3);
    }
    for text in
        ["\n", "\n\n\n", "a", "a\n", ",\n,\n,", "\t\n", "\r\n\r\n", "\r", "1\n2\n3\n4", "\"\n\"\n\"\"\n"]
    {
        round(text.as_bytes(), 3);
        round(text.repeat(500).as_bytes(), 3);
    }
    round("no end\tof line\t".repeat(10_000).as_bytes(), 3);
    round(format!("{}\n", "a\tb".repeat(50_000)).as_bytes(), 3);
}

#[test]
fn numbers_that_are_written_oddly_come_back() {
    let odd = [
        "0",
        "-0",
        "+1",
        "007",
        "-007",
        "1e5",
        "1.50",
        "-0.00",
        "-0.01",
        ".5",
        "5.",
        "",
        "NULL",
        "\\N",
        "nan",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "999999999999999999",
        "99999999999999999999999",
        "0000-00-00",
        "2026-02-29",
        "2024-02-29",
        "2026-13-01",
        "2026-11-22 24:00:00",
        "2026-11-22 23:59:60",
        "2026-11-22 23:59:59",
        "2026-11-22T23:59:59Z",
        "9999-12-31",
        "0001-01-01",
        "1969-12-31",
        "\u{0661}",
        " 1",
        "1 ",
        "1,000",
        "12:30",
        "-",
        "--1",
        "0x10",
    ];
    for usual in
        ["12", "1.25", "2026-11-22", "2026-11-22 12:00:00", "2026-11-22 12:00:00.125", "00012", "N12", "-3"]
    {
        let mut text = String::new();
        for row in 0..2000 {
            let field = if row % 37 == 5 { odd[row / 37 % odd.len()] } else { usual };
            text += &format!("{row}\t{field}\t{}\n", odd[row % odd.len()]);
        }
        round(text.as_bytes(), 3);
        round(text.as_bytes(), 12);
    }
}

#[test]
fn every_day_comes_back() {
    let mut text = String::new();
    for year in (0..10_000).step_by(7) {
        for (month, day) in [(1, 1), (2, 28), (2, 29), (3, 1), (12, 31), (4, 31)] {
            text += &format!("{year:04}-{month:02}-{day:02}\t{year:04}-{month:02}-{day:02} 00:00:01\n");
        }
    }
    round(text.as_bytes(), 3);
}

fn texts(column: &Column) -> Vec<&[u8]> {
    let mut from = 0;
    column.ends.iter().map(|end| &column.bytes[std::mem::replace(&mut from, *end)..*end]).collect()
}

#[test]
fn a_single_column_has_the_values_of_the_text() {
    let mut text = rows(5000, 0, "\n");
    text.extend(b"odd,\none\n");
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = std::str::from_utf8(&text).unwrap().lines().map(fields).collect();
    let block = encode(&text, Effort::of_level(3)).unwrap();
    let layout = Layout::guess(&text).unwrap();
    assert_eq!(layout.first(&text), lines[0].iter().map(String::as_bytes).collect::<Vec<_>>());
    for (at, in_line) in [(4, 4), (0, 0), (8, 9)] {
        let found = column(&block, layout, at).unwrap().unwrap();
        // The mail has a comma in its quotes; the header has none.
        let wanted = lines[1..5001].iter().map(|line| line[in_line].as_bytes());
        assert!(texts(&found).into_iter().eq([lines[0][at].as_bytes()].into_iter().chain(wanted)), "{at}");
        assert_eq!(found.left_out, 2);
    }
    assert_eq!(column(&block, layout, 9).unwrap(), None);
    assert_eq!(Layout::guess(&[b'x'; 100]), None);
}

#[test]
fn a_column_is_the_same_in_blocks_that_are_stored_in_other_ways() {
    let layout = Layout::guess(&rows(50, 0, "\n")).unwrap();
    let line = "1,2,3,4,5,6,7,\"8,\n8\",9\n";
    let other: String = (0..999).map(|n| format!("{n};{};x\n", n * n)).collect();
    // As bytes, as columns with another delimiter, and as columns of another number.
    for (text, stored, regular, left_out) in
        [(line.to_owned(), 0, 1, 0), (other.clone(), 1, 0, 999), (other.replace(';', ",") + line, 1, 1, 999)]
    {
        let block = encode(text.as_bytes(), Effort::of_level(3)).unwrap();
        assert_eq!(block[HEAD_BYTES], stored);
        let found = column(&block, layout, 7).unwrap().unwrap();
        assert_eq!(texts(&found), vec![&b"\"8,\n8\""[..]; regular], "{regular} and {left_out}");
        assert_eq!(found.left_out, left_out, "{regular} and {left_out}");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let text = rows(200, 10, "\n");
    let block = encode(&text, Effort::of_level(3)).unwrap();
    for at in 0..block.len() {
        for bit in [1, 0x10, 0x80] {
            let mut damaged = block.clone();
            damaged[at] ^= bit;
            assert!(decode(&damaged).is_err(), "byte {at}");
        }
    }
    for len in 0..block.len() {
        assert!(decode(&block[..len]).is_err(), "cut to {len}");
    }
}

#[test]
fn sizes_are_bounded_before_memory_is_asked_for() {
    let block = encode(b"1\t2\n3\t4\n", Effort::of_level(3)).unwrap();
    for (at, what) in [(1, "text"), (5, "block")] {
        let mut forged = block.clone();
        forged[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(
            Head::parse(&forged).unwrap_err(),
            Error::Corrupt("a block is longer than it may be"),
            "{what}"
        );
    }
    assert!(Head::parse(&block[..HEAD_BYTES - 1]).is_err());
}

/// A block with this in it, and checksums that match.
fn forged(text_bytes: u32, packed: &[u8]) -> Vec<u8> {
    let mut block = vec![b'B'];
    block.extend(text_bytes.to_le_bytes());
    block.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
    block.extend([0; 12]);
    block.extend(packed);
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &block);
    block.extend(sum.to_le_bytes());
    block
}

#[test]
fn records_that_are_forged_take_no_more_memory_than_the_text() {
    // A table of one column without rows, and 100,000 odd records of 10,000 bytes each.
    let mut packed = vec![1, 0, 0, 1, 0];
    packed.extend([0xa0, 0x8d, 6]);
    packed.extend([0, 0]);
    let gap = packed.len() - 1;
    packed.extend([0, 0x90, 0x4e]);
    packed.extend([b'x'; 10_000]);
    packed.extend([1, 0]);
    let decoded = decode(&forged(200_000, &packed));
    assert_eq!(decoded, Err(Error::Corrupt("a block has more text than it says")));
    // A negative number of rows before each.
    packed[gap] = 1;
    assert_eq!(decode(&forged(200_000, &packed)), Err(Error::Corrupt("a count is below zero")));
}

#[test]
fn the_end_of_a_stream_names_its_blocks() {
    let effort = Effort::of_level(3);
    let mut end = End::default();
    for text in [&b"1\t2\n"[..], b"", b"abc\nabc\n"] {
        end.note(&encode(text, effort).unwrap()).unwrap();
    }
    let bytes = end.encode();
    assert_eq!(End::bytes(&bytes[..5]).unwrap(), bytes.len());
    assert_eq!(End::parse(&bytes).unwrap(), end);
    assert_eq!(Trailer::parse(&bytes[bytes.len() - TRAILER_BYTES..]).unwrap().end_bytes, bytes.len());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(End::parse(&damaged).is_err(), "byte {at}");
    }
    assert_eq!(MAGIC.len(), 8);
}

#[test]
fn a_long_text_is_cut_after_a_line() {
    let effort = Effort::of_level(3);
    let mut text = b"0123456789abcde\n".repeat(effort.block_bytes() / 16);
    assert_eq!(effort.cut(&text), text.len());
    text.insert(0, b'x');
    assert_eq!(effort.cut(&text) % 16, 1);
    assert_eq!(effort.cut(&vec![b'x'; effort.block_bytes() + 5]), effort.block_bytes());
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{0,20}",
        "-?[0-9]{1,3}\\.[0-9]{2}",
        "[a-c]{0,2}",
        "20[0-9]{2}-[01][0-9]-[0-3][0-9]",
        "\"[a,\\n\"]{0,4}\"?",
        "\\\\?[\\t\\\\N]{0,3}",
        Just(String::new()),
    ]
}

proptest! {
    #[test]
    fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..3000), level in 1_u32..20) {
        round(&bytes, level);
    }

    #[test]
    fn any_table_comes_back(
        table in proptest::collection::vec(proptest::collection::vec(field(), 3), 0..60),
        delimiter in prop_oneof![Just(","), Just("\t"), Just(";")],
        line_end in prop_oneof![Just("\n"), Just("\r\n")],
        level in 1_u32..13,
    ) {
        // Rows that surely make a table, so that the other records are stored in its columns or beside them.
        let usual = (0..1000).map(|n| format!("{}{delimiter}{}{delimiter}{}{line_end}", n * n, n * n * 7 % 1000, n % 5));
        let mut text: String = usual.collect();
        text.extend(table.iter().map(|row| row.join(delimiter) + line_end));
        let block = round(text.as_bytes(), level);
        prop_assert_eq!(block[HEAD_BYTES], 1, "it is not stored as columns");
    }

    #[test]
    fn any_damage_is_detected(at in any::<prop::sample::Index>(), with in any::<Vec<u8>>()) {
        let mut block = encode(&rows(100, 10, "\n"), Effort::of_level(3)).unwrap();
        let at = at.index(block.len());
        let whole = block.clone();
        block.splice(at..(at + with.len()).min(whole.len()), with);
        prop_assume!(block != whole);
        prop_assert!(decode(&block).is_err());
        let layout = Layout::guess(&rows(100, 0, "\n")).unwrap();
        prop_assert!(column(&block, layout, 3).is_err());
    }
}

#[test]
fn a_line_end_behind_a_backslash_ends_no_record() {
    let mut text: String = (0..2000).map(|row| format!("{}\t{}\n", row * row, row * 7 % 1000)).collect();
    text += "3\tthree\\\n";
    round(text.as_bytes(), 3);
}

#[test]
fn no_text_becomes_much_larger_than_with_zstd_of_the_same_level() {
    let mut random = Random(11);
    let mut made = |line: &mut dyn FnMut(&mut Random, u64) -> String| -> Vec<u8> {
        (0..40_000).map(|at| line(&mut random, at)).collect::<String>().into_bytes()
    };
    let words = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit"];
    let noise =
        made(&mut |random, _| format!("{:016x}{:016x}\n", random.below(u64::MAX), random.below(u64::MAX)));
    let prose =
        made(&mut |random, _| (0..12).map(|_| random.pick(&words)).collect::<Vec<_>>().join(" ") + "\n");
    let log =
        made(&mut |random, at| format!("{at} GET /page/{}/of/{} 200\n", random.below(500), random.below(70)));
    // Lines that come again, too far apart for a sample to see it.
    let again = rows(12_000, 0, "\n").repeat(3);
    // A table behind what is none.
    let mixed = [&noise[..], &rows(12_000, 30, "\n")].concat();
    for (name, text) in [
        ("noise", noise),
        ("prose", prose),
        ("log", log),
        ("again", again),
        ("mixed", mixed),
        ("rows", rows(15_000, 3, "\n")),
    ] {
        assert!(text.len() > 1 << 20, "{name}: a shorter text is always compared with zstd");
        for level in [1, 3, 10] {
            let (columns, whole) = (
                round(&text, level).len(),
                zstd::bulk::compress(&text, i32::try_from(level).unwrap()).unwrap().len(),
            );
            assert!(
                columns <= whole + whole / 1000 + 100,
                "{name}, level {level}: {columns} bytes, zstd {whole}"
            );
        }
    }
}
