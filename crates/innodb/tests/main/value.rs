//! Values as real servers stored them, in both directions, and each type's limits.

use innodb::Error;
use innodb::table::{Column, Length, Version};
use innodb::value::{decode, encode};

use crate::support::{bytes, column, column_of};

pub(crate) fn stored(column: &Column, text: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    encode(column, text, &mut out).map(|()| out)
}

pub(crate) fn text(column: &Column, stored: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    decode(column, stored, &mut out).map(|()| out)
}

/// Type, text, and the bytes that servers of 10.11 and 11.8 stored for it.
const STORED: &[(&str, &[u8], &str)] = &[
    ("tinyint(4)", b"-128", "00"),
    ("tinyint(4)", b"127", "ff"),
    ("tinyint(3) unsigned", b"255", "ff"),
    ("smallint(5) unsigned zerofill", b"00042", "002a"),
    ("smallint(6)", b"-1", "7fff"),
    ("mediumint(9)", b"-8388608", "000000"),
    ("mediumint(8) unsigned", b"16777215", "ffffff"),
    ("int(11)", b"0", "80000000"),
    ("int(5) unsigned zerofill", b"4294967295", "ffffffff"),
    ("bigint(20)", b"-9223372036854775808", "0000000000000000"),
    ("bigint(20) unsigned", b"18446744073709551615", "ffffffffffffffff"),
    ("decimal(5,2)", b"-999.99", "7c189c"),
    ("decimal(1,0)", b"-9", "76"),
    ("decimal(10,0)", b"0", "8000000000"),
    ("decimal(38,38)", b"-0.00000000000000000000000000000000000001", "7f ffffffffffffffffffffffffffffff fe"),
    (
        "decimal(65,30)",
        b"99999999999999999999999999999999999.999999999999999999999999999999",
        "85f5e0ff 3b9ac9ff 3b9ac9ff 3b9ac9ff 3b9ac9ff 3b9ac9ff 3b9ac9ff 03e7",
    ),
    ("decimal(3,3)", b"-0.500", "7e0b"),
    ("decimal(20,10)", b"1234567890.0987654321", "810dfb38d205e30a7801"),
    ("decimal(9,9)", b"0.123456789", "875bcd15"),
    ("decimal(5,2) unsigned zerofill", b"001.50", "800132"),
    ("decimal(3,3) unsigned zerofill", b"0.500", "81f4"),
    ("float", b"0", "00000000"),
    ("float", b"0.10000000149011612", "cdcccc3d"),
    ("float", b"-1e-60", "00000080"),
    ("float", b"3.4028234663852886e38", "ffff7f7f"),
    ("float", b"-151.28591918945312", "324917c3"),
    ("float(5,2)", b"1", "0000803f"),
    ("double", b"-1032355245068547.4", "1b88507d5f570dc3"),
    ("double", b"-1e22", "92d54d06cff080c4"),
    ("double", b"-0", "0000000000000080"),
    ("double", b"5e-324", "0100000000000000"),
    ("double", b"1.7976931348623157e308", "ffffffffffffef7f"),
    ("double", b"0.000000000000001", "1656e79eaf03d23c"),
    ("double", b"1e-16", "bc89d897b2d29c3c"),
    ("double", b"0.0000000001", "bbbdd7d9df7cdb3d"),
    ("double", b"100000000000000", "0000901ec4bcd642"),
    ("double", b"1e15", "00003426f56b0c43"),
    ("double", b"123456789012345", "40de77832112dc42"),
    ("double", b"1.234567890123456e15", "00eb2af2548b1143"),
    ("double", b"1234567890123456.8", "03eb2af2548b1143"),
    ("double unsigned zerofill", b"0000000000000000000000", "0000000000000000"),
    ("double(10,3)", b"2", "0000000000000040"),
    ("double unsigned zerofill", b"00000000000000000000.5", "000000000000e03f"),
    ("bit(1)", b"\x01", "01"),
    ("bit(10)", b"\x02\x03", "0203"),
    ("bit(64)", b"\x00\x00\x00\x00\x00\x00\x00\x0f", "000000000000000f"),
    ("year(4)", b"0000", "00"),
    ("year(4)", b"1901", "01"),
    ("year(4)", b"2155", "ff"),
    ("year(2)", b"2055", "9b"),
    ("year(2)", b"1970", "46"),
    ("year(2)", b"2000", "64"),
    ("year(2)", b"1900", "00"),
    ("date", b"0000-00-00", "800000"),
    ("date", b"9999-12-31", "ce1f9f"),
    ("time", b"-00:00:01", "7fffff"),
    ("time", b"838:59:59", "b46efb"),
    ("time", b"-838:59:59", "4b9105"),
    ("time(1)", b"-00:00:00.1", "7ffffff6"),
    ("time(2)", b"12:34:56.78", "80c8b84e"),
    ("time(2)", b"-00:00:01.50", "7ffffece"),
    ("time(2)", b"-00:00:00.01", "7fffffff"),
    ("time(3)", b"-00:00:01.500", "7ffffeec78"),
    ("time(3)", b"-00:00:00.001", "7ffffffff6"),
    ("time(5)", b"-12:34:56.78901", "7f3747f3f5ee"),
    ("time(6)", b"-00:00:00.000001", "7fffffffffff"),
    ("time(6)", b"-838:59:59.999999", "4b9104f0bdc1"),
    ("datetime", b"2024-02-29 23:59:59", "99b2bb7efb"),
    ("datetime", b"0000-00-00 00:00:00", "8000000000"),
    ("datetime", b"2024-00-00 01:02:03", "99b2001083"),
    ("datetime(1)", b"2024-02-29 23:59:59.9", "99b2bb7efb 5a"),
    ("datetime(3)", b"9999-12-31 23:59:59.999", "fef3ff7efb2706"),
    ("datetime(4)", b"2024-02-29 23:59:59.1234", "99b2bb7efb 04d2"),
    ("datetime(6)", b"2024-02-29 23:59:59.999999", "99b2bb7efb 0f423f"),
    ("timestamp", b"0000-00-00 00:00:00", "00000000"),
    ("timestamp", b"1970-01-01 00:00:01", "00000001"),
    ("timestamp(1)", b"2038-01-19 03:14:07.9", "7fffffff5a"),
    ("timestamp(3)", b"2024-02-29 23:59:59.123", "65e11a7f04ce"),
    ("timestamp", b"2000-02-29 12:00:00", "38bbb4c0"),
    ("timestamp(6)", b"2106-02-07 06:28:15.999999", "ffffffff0f423f"),
    ("char(4)", b"ab", "61622020"),
    ("char(4)", b"", "20202020"),
    ("char(4) CHARACTER SET utf8mb4", b"ab", "61622020"),
    ("char(4) CHARACTER SET utf8mb4", b"", "20202020"),
    ("char(4) CHARACTER SET utf8mb4", "\u{e4}\u{f6}\u{fc}".as_bytes(), "c3a4c3b6c3bc"),
    ("char(4) CHARACTER SET ucs2", b"\0a\0b", "0061006200200020"),
    ("char(4) CHARACTER SET utf16", b"\0a\0b", "00610062002000200020002000200020"),
    ("char(4) CHARACTER SET utf16", b"", "00200020002000200020002000200020"),
    ("char(4) CHARACTER SET utf16le", b"a\0b\0", "61006200200020002000200020002000"),
    ("char(2) CHARACTER SET utf32", b"\0\0\0a", "0000006100000020"),
    ("char(4) CHARACTER SET sjis", b"ab", "61622020"),
    ("binary(4)", b"ab\0\0", "61620000"),
    ("varchar(4)", b"ab  ", "61622020"),
    ("varchar(4) CHARACTER SET utf16le", b"a\0b\0", "61006200"),
    ("text", b"", ""),
    ("varchar(10) /*!100301 COMPRESSED*/", b"short", "0073686f7274"),
    ("text /*M!100301 COMPRESSED*/", b"", ""),
    ("enum('x','y','z')", b"z", "03"),
    ("enum('x','y') CHARACTER SET utf16", b"\0y", "02"),
    ("enum('x','X')", b"2", "02"),
    ("set('a','b','c')", b"a,c", "05"),
    ("set('a','b','c')", b"", "00"),
    ("set('a','b','c','d','e','f','g','h','i')", b"a,i", "0101"),
    ("set('a','b') CHARACTER SET ucs2", b"\0a\0,\0b", "03"),
    ("set('a','A')", b"3", "03"),
    ("uuid", b"123e4567-e89b-12d3-a456-426614174000", "426614174000 a456 12d3 e89b 123e4567"),
    ("uuid", b"0190163d-8694-739b-b1c2-6677889900aa", "0190163d8694739bb1c26677889900aa"),
    ("uuid", b"00112233-4455-6677-8899-aabbccddeeff", "00112233445566778899aabbccddeeff"),
    ("uuid", b"ffffffff-ffff-ffff-ffff-ffffffffffff", "ffffffffffffffffffffffffffffffff"),
    ("uuid", b"00000000-0000-0fff-8000-000000000000", "000000000000 8000 0fff 0000 00000000"),
    ("inet4", b"192.168.0.1", "c0a80001"),
    ("inet6", b"::1", "00000000000000000000000000000001"),
    ("inet6", b"1:2::", "00010002000000000000000000000000"),
    ("inet6", b"::", "00000000000000000000000000000000"),
    ("inet6", b"1::3:4:5:6:7:8", "00010000000300040005000600070008"),
    ("inet6", b"::0.1.0.0", "00000000000000000000000000010000"),
    ("inet6", b"::ffff:1.2.3.4", "00000000000000000000ffff01020304"),
    ("inet6", b"1:0:0:3::1", "00010000000000030000000000000001"),
    ("inet6", b"1::3:4:0:0:abcd", "0001000000000003000400000000abcd"),
    ("inet6", b"1:2:3:4:5:6::ffff", "0001000200030004000500060000ffff"),
    ("vector(3)", b"\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f", "0000803f 000000c0 0000003f"),
    (
        "point",
        b"\xe6\x10\0\0\x01\x01\0\0\0\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40",
        "e6100000 01 01000000 000000000000f03f 0000000000000040",
    ),
    (
        "geometry",
        b"\0\0\0\0\x01\x02\0\0\0\x01\0\0\0\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40",
        "00000000 01 02000000 01000000 000000000000f03f 0000000000000040",
    ),
];

#[test]
fn values_are_stored_and_read_as_the_server_does() {
    for (kind, plain, hex) in STORED {
        let column = column(kind);
        let hex = bytes(hex);
        assert_eq!(stored(&column, plain), Ok(hex.clone()), "{kind} {}", plain.escape_ascii());
        assert_eq!(text(&column, &hex), Ok(plain.to_vec()), "{kind} {}", plain.escape_ascii());
    }
    let many: Vec<String> = (1..=300).map(|at| format!("'m{at}'")).collect();
    for (count, bytes) in [(255, 1), (256, 2)] {
        let column = column(&format!("enum({})", many[..count].join(",")));
        assert_eq!(column.kind.length(), Length::Fixed(bytes), "{count} members");
        assert_eq!(stored(&column, b"m9").unwrap().len(), usize::from(bytes), "{count} members");
    }
    let column = column(&format!("enum({})", many.join(",")));
    assert_eq!(stored(&column, b"m300"), Ok(vec![1, 0x2c]));
    assert_eq!(text(&column, &[1, 0x2c]), Ok(b"m300".to_vec()));
    let forty: Vec<String> = (1..=40).map(|at| format!("'m{at}'")).collect();
    let column = self::column(&format!("set({})", forty.join(",")));
    assert_eq!(stored(&column, b"m1,m40"), Ok(bytes("0000008000000001")));
    assert_eq!(text(&column, &bytes("0000008000000001")), Ok(b"m1,m40".to_vec()));
}

/// Texts that are not in the form in which a value is printed, and are accepted all the same.
const FREE: &[(&str, &[u8], &[u8])] = &[
    ("int(11)", b"+007", b"7"),
    ("int(11)", b"-0", b"0"),
    ("decimal(5,2)", b"+0001.5", b"1.50"),
    ("decimal(5,2)", b".5", b"0.50"),
    ("decimal(5,2)", b"-0", b"0.00"),
    ("decimal(5,2)", b"1.5000", b"1.50"),
    ("float(5,2)", b"1.005", b"1"),
    ("double(10,3)", b"2.0005", b"2.001"),
    ("double", b"1E2", b"100"),
    ("double", b"1234567890123456", b"1.234567890123456e15"),
    ("double", b"123456789012345", b"123456789012345"),
    ("bit(10)", b"\x03", b"\x00\x03"),
    ("bit(10)", b"\xff", b"\x00\xff"),
    ("bit(10)", b"\x00\x00\x03", b"\x00\x03"),
    ("time", b"1:02:03.000", b"01:02:03"),
    ("time(1)", b"-00:00:00.0", b"00:00:00.0"),
    ("datetime", b"2024-02-29", b"2024-02-29 00:00:00"),
    ("datetime(2)", b"2024-02-29T01:02:03.5", b"2024-02-29 01:02:03.50"),
    ("char(4)", b"ab      ", b"ab"),
    ("set('a','b','c')", b"c,a", b"a,c"),
    ("uuid", b"123E4567E89B12D3A456426614174000", b"123e4567-e89b-12d3-a456-426614174000"),
    ("inet6", b"0:0:0:0:0:0:0:1", b"::1"),
];

#[test]
fn other_ways_to_write_a_value_give_the_same() {
    for (kind, free, plain) in FREE {
        let column = column(kind);
        let value = stored(&column, free).and_then(|value| text(&column, &value));
        assert_eq!(value, Ok(plain.to_vec()), "{kind} {}", free.escape_ascii());
    }
}

/// Texts that a server refuses or would change, or that this crate is not sure of.
const REFUSED: &[(&str, &[u8])] = &[
    ("tinyint(4)", b"128"),
    ("tinyint(4)", b"-129"),
    ("tinyint(3) unsigned", b"-1"),
    ("mediumint(9)", b"8388608"),
    ("bigint(20) unsigned", b"18446744073709551616"),
    ("bigint(20)", b"9223372036854775808"),
    ("int(11)", b""),
    ("int(11)", b"5.7"),
    ("int(11)", b"0x5"),
    ("int(11)", b" 5"),
    ("decimal(5,2)", b"1000"),
    ("decimal(5,2)", b"1.005"),
    ("decimal(5,2)", b"1e2"),
    ("decimal(5,2)", b"."),
    ("decimal(5,2) unsigned", b"-0.01"),
    ("float", b"3.5e38"),
    ("float", b"nan"),
    ("float unsigned", b"-1"),
    ("float(5,2)", b"1000"),
    ("double", b"1e309"),
    ("double", b"inf"),
    ("bit(10)", b"\x04\x00"),
    ("bit(1)", b"1"),
    ("year(4)", b"1900"),
    ("year(4)", b"2156"),
    ("year(4)", b"99"),
    ("date", b"2023-02-29"),
    ("date", b"1900-02-29"),
    ("date", b"0000-02-29"),
    ("date", b"2024-13-01"),
    ("date", b"24-01-01"),
    ("time", b"838:59:60"),
    ("time", b"839:00:00"),
    ("time", b"12:60:00"),
    ("time", b"00:00:00.5"),
    ("time", b"12:34"),
    ("datetime", b"2024-02-29 24:00:00"),
    ("datetime(2)", b"2024-02-29 00:00:00.123"),
    ("datetime", b"2024-02-29 1:00:00"),
    ("timestamp", b"1970-01-01 00:00:00"),
    ("timestamp(6)", b"1970-01-01 00:00:00.5"),
    ("timestamp", b"2106-02-07 06:28:16"),
    ("timestamp", b"2024-00-01 00:00:00"),
    ("timestamp", b"2024-00-00 00:00:00"),
    ("timestamp", b"2024-01-00 00:00:00"),
    ("char(4)", b"abcde"),
    ("char(4) CHARACTER SET utf8mb4", b"\xff"),
    ("char(1) CHARACTER SET utf8mb3", "\u{1f600}".as_bytes()),
    ("binary(4)", b"abc"),
    ("varchar(4)", b"ab   "),
    ("varchar(1) CHARACTER SET ucs2", b"a"),
    ("varchar(2) CHARACTER SET ucs2", b"\xd8\x3d\xde\x00"),
    ("varchar(1) CHARACTER SET utf16", b"\xd8\x3d"),
    ("varchar(1) CHARACTER SET utf32", b"\x00\x11\x00\x00"),
    ("varchar(9) CHARACTER SET sjis", b"\x82\xa0"),
    ("varchar(9) CHARACTER SET ascii", b"\xe4"),
    ("tinytext", &[b'x'; 256]),
    ("enum('x','y')", b""),
    ("enum('x','y')", b"X"),
    ("enum('x','y')", b"1"),
    ("enum('x','X')", b"0"),
    ("enum('x','X')", b"3"),
    ("set('a','b')", b"a,"),
    ("set('a','b')", b"c"),
    ("set('a','A')", b"4"),
    ("uuid", b"123e4567-e89b-12d3-a456-42661417400"),
    ("uuid", b"123e4567e89b-12d3-a456-426614174000"),
    ("uuid", b"00000000-0000-8000-0100-000000000000"),
    ("inet4", b"1.2.3.256"),
    ("inet6", b"1.2.3.4"),
    ("vector(1)", b"\0\0\x80\x7f"),
    ("vector(1)", b"\0\0\0"),
    ("point", b"\0\0\0\0\x01\x02\0\0\0\0\0\0\0"),
    ("geometry", b"\0\0\0\0\x01\x01\0\0\0\0\0\0\0"),
    ("geometry", b"\0\0\0\0\0\0\0\0\x01"),
];

#[test]
fn values_that_can_t_be_stored_exactly_are_refused() {
    for (kind, plain) in REFUSED {
        let refused = stored(&column(kind), plain);
        let named = matches!(&refused, Err(Error::Value { column, .. }) if column == "v");
        assert!(named, "{kind} {}: {refused:?}", plain.escape_ascii());
    }
    let long = stored(&column("int(11)"), &[b'7'; 1000]).unwrap_err().to_string();
    assert!(long.ends_with("7...'") && long.len() < 200, "{long}");
}

/// Bytes that are no value.
const DAMAGED: &[(&str, &str)] = &[
    ("int(11)", "000000"),
    ("decimal(5,2)", "7c1800"),
    ("decimal(9,0)", "ffffffff"),
    ("decimal(9,0)", "bb9aca00"),
    ("decimal(5,2)", "800064"),
    ("decimal(5,2)", "83e800"),
    ("decimal(20,0)", "80 3b9aca00 00000000"),
    ("decimal(20,0)", "80 00000000 3b9aca00"),
    ("float", "0000807f"),
    ("double", "000000000000f87f"),
    ("bit(10)", "0400"),
    ("date", "800020ff"),
    ("date", "8001ff"),
    ("date", "ffffff"),
    ("time", "ffffff"),
    ("time(1)", "80000001"),
    ("time(2)", "80000064"),
    ("datetime", "0000000001"),
    ("datetime", "99b2bb8efb"),
    ("datetime(2)", "99b2bb7efbff"),
    ("timestamp(1)", "00000001ff"),
    ("varchar(4)", "6161616161"),
    ("varchar(10) COMPRESSED", "89"),
    ("varchar(10) COMPRESSED", "8905ff"),
    ("varchar(10) COMPRESSED", "88"),
    ("varchar(10) COMPRESSED", "8a00ff00"),
    ("varchar(300) COMPRESSED", "89c74b4c4a1c161000"),
    ("varchar(300) COMPRESSED", "89c94b4c4a1c161000"),
    ("text COMPRESSED", "40"),
    ("vector(2)", "000000000000000000"),
];

#[test]
fn bytes_that_are_no_value_are_an_error() {
    for (kind, hex) in DAMAGED {
        let read = text(&column(kind), &bytes(hex));
        let named = matches!(&read, Err(Error::Corrupt { place, .. }) if place == "column `v`");
        assert!(named, "{kind} {hex}: {read:?}");
    }
}

#[test]
fn long_values_are_compressed_and_read_back() {
    let server = bytes("89c84b4c4a1c161000");
    let column = column("varchar(300) COMPRESSED");
    assert_eq!(text(&column, &server), Ok(b"ab".repeat(100)));
    let ours = stored(&column, &b"ab".repeat(100)).unwrap();
    assert!(ours[0] == 0x89 && ours.len() < 20, "{ours:x?}");
    assert_eq!(text(&column, &ours), Ok(b"ab".repeat(100)));
    let mut two = Vec::new();
    decode(&column, &server, &mut two).and_then(|()| decode(&column, &server, &mut two)).unwrap();
    assert_eq!(two, b"ab".repeat(200), "behind another value");
    // The form with column_compression_zlib_wrap=ON.
    let wrapped = bytes("81c8 789c 4b4c4a1c161000 e98f4c2d");
    assert_eq!(text(&column, &wrapped), Ok(b"ab".repeat(100)));
    let dense: Vec<u8> = (0..200_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(stored(&column, &dense).unwrap()[0], 0);
}

#[test]
fn values_beyond_the_members_are_written_as_numbers() {
    assert_eq!(text(&column("enum('x','y')"), &[0]), Ok(Vec::new()));
    assert_eq!(text(&column("enum('x','y')"), &[9]), Ok(b"#9".to_vec()));
    assert_eq!(text(&column("enum('x','X')"), &[9]), Ok(b"9".to_vec()));
    assert_eq!(text(&column("enum('x','X')"), &[0]), Ok(b"0".to_vec()));
    assert_eq!(text(&column("set('x','y')"), &[5]), Ok(b"#5".to_vec()));
    for (kind, numbered) in [
        ("enum('in progress','in review')", false),
        ("enum('in review','in''review')", true),
        ("enum('','a')", true),
        ("enum('#1','b')", true),
        ("enum('a\\\\','a\\0')", true),
        ("enum('\u{e4}a','\u{e4}b')", true),
        ("enum('x','X') CHARACTER SET utf16le", true),
        ("enum('x','y') CHARACTER SET utf16le", false),
        ("enum('\u{e4}','\u{f6}') CHARACTER SET ucs2", true),
        // Its lower byte is that of an A.
        ("enum('\u{141}','b') CHARACTER SET ucs2", true),
    ] {
        let value = text(&column(kind), &[1]).unwrap();
        assert_eq!(value == b"1", numbered, "{kind}");
    }
}

#[test]
fn a_column_is_of_its_servers_version() {
    let old = column_of("timestamp", Version(101_119));
    assert!(stored(&old, b"2038-01-19 03:14:08").is_err());
    for (version, is_wide) in [(110_499, false), (110_500, true)] {
        let column = column_of("timestamp", Version(version));
        assert_eq!(stored(&column, b"2038-01-19 03:14:08").is_ok(), is_wide, "{version}");
    }
    // A value that a later server stored is read.
    assert_eq!(text(&old, &[0x80, 0, 0, 0]), Ok(b"2038-01-19 03:14:08".to_vec()));
    let seven = b"0190163d-8694-739b-b1c2-6677889900aa";
    for (version, swapped) in
        [(101_104, true), (101_105, false), (110_200, true), (110_201, false), (100_500, true)]
    {
        let value = stored(&column_of("uuid", Version(version)), seven).unwrap();
        assert_eq!(value[0] == 0x66, swapped, "{version}");
        assert_eq!(text(&column_of("uuid", Version(version)), &value), Ok(seven.to_vec()), "{version}");
    }
}
