//! Lines go into a file and come back, whatever they are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

use bytes::Bytes;
use parquet::basic::{Encoding, LogicalType, Type as PhysicalType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet_rows::{Column, EncodingSet, Encodings, OddValue, Options, Reader, Writer, Written};
use proptest::prelude::*;

fn column(column_type: &str, character_set: Option<&str>) -> Column {
    Column {
        name: "c".to_owned(),
        data_type: column_type.split(['(', ' ']).next().unwrap().to_owned(),
        column_type: column_type.to_owned(),
        character_set: character_set.map(str::to_owned),
        is_numbered: false,
        is_in_path: false,
    }
}

/// The file, what was written, and the odd values.
fn written(columns: &[Column], lines: &[u8], step: usize) -> (Bytes, Written, Vec<OddValue>) {
    written_with(Options { level: 3, ..Options::default() }, columns, lines, step)
}

fn written_with(
    options: Options,
    columns: &[Column],
    lines: &[u8],
    step: usize,
) -> (Bytes, Written, Vec<OddValue>) {
    let mut writer = Writer::new(Vec::new(), columns, options).unwrap();
    let mut odd = Vec::new();
    for piece in lines.chunks(step) {
        writer
            .lines(piece, &mut |value| {
                odd.push(value.clone());
                Ok(())
            })
            .unwrap();
    }
    let (written, file) = writer.finish().unwrap();
    (file.into(), written, odd)
}

fn back(columns: &[Column], file: Bytes, odd: Vec<OddValue>) -> Result<Vec<u8>, parquet_rows::Error> {
    back_from(columns, file, odd, b"")
}

fn back_from(
    columns: &[Column],
    file: Bytes,
    odd: Vec<OddValue>,
    path_text: &[u8],
) -> Result<Vec<u8>, parquet_rows::Error> {
    let mut lines = Vec::new();
    let mut odd = odd.into_iter().map(|value| {
        let mut line = Vec::new();
        value.write(&mut line);
        Ok(OddValue::parse(line.strip_suffix(b"\n").unwrap()).unwrap())
    });
    Reader::open(file, columns, path_text)?.lines(&mut odd, &mut |piece| {
        lines.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(lines)
}

/// A line of a value, as a dump has it.
fn line(value: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    rows::write_load_data(Some(value), &mut line);
    line.push(b'\n');
    line
}

/// Whether a value is in the file itself.
fn is_in(column: &Column, value: &[u8]) -> bool {
    let columns = [column.clone()];
    let line = line(value);
    let (file, written, odd) = written(&columns, &line, usize::MAX);
    assert_eq!((written.rows, written.odd), (1, odd.len() as u64));
    assert_eq!(back(&columns, file, odd).unwrap(), line, "{column:?} {value:?}");
    written.odd == 0
}

#[test]
fn values_are_in_the_file_if_their_type_can_hold_them() {
    let bits = |bits: u32| format!("bit({bits})");
    for (column_type, charset, inside, odd) in [
        ("tinyint(4)", None, vec![&b"-128"[..], b"127"], vec![&b"-0"[..], b"", b"1.0"]),
        ("int(5) unsigned zerofill", None, vec![b"00042", b"4294967295"], vec![b"42"]),
        ("bigint(20) unsigned", None, vec![b"0", b"18446744073709551615"], vec![b"-0"]),
        ("bigint", None, vec![b"-9223372036854775808", b"9223372036854775807"], vec![b"9223372036854775808"]),
        ("decimal(38,10)", None, vec![b"-9999999999999999999999999999.9999999999"], vec![b"1"]),
        (
            "decimal(65,30)",
            None,
            vec![b"99999999999999999999999999999999999.999999999999999999999999999999"],
            vec![],
        ),
        ("float", None, vec![b"0.10000000149011612", b"-1e-60", b"3.4028234663852886e38"], vec![b"0.1"]),
        (
            "double",
            None,
            vec![b"0.1", b"-0", b"1e20", b"1.7976931348623157e308", b"5e-324"],
            vec![b"0.10", b"1e+20"],
        ),
        ("date", None, vec![b"0001-01-01", b"9999-12-31"], vec![b"0000-00-00", b"2026-02-30", b"2026-00-00"]),
        ("datetime(6)", None, vec![b"9999-12-31 23:59:59.999999"], vec![b"0000-00-00 00:00:00.000000"]),
        ("timestamp", None, vec![b"2038-01-19 03:14:07"], vec![b"0000-00-00 00:00:00"]),
        ("time(6)", None, vec![b"-838:59:59.000000"], vec![]),
        ("year(4)", None, vec![b"0000", b"2155"], vec![b"1"]),
        ("bit(1)", None, vec![b"\0", b"\x01"], vec![b"\x02"]),
        (&bits(9), None, vec![b"\0\0", b"\x01\xff"], vec![b"\0"]),
        (&bits(64), None, vec![&[0xff; 8], &[0; 8]], vec![b"\0"]),
        ("varchar(20)", Some("utf8mb4"), vec!["\u{1f600}\t\\".as_bytes(), b"", b"\\N"], vec![b"\xff"]),
        ("varchar(20)", Some("latin1"), vec![b"gr\xfcn \x80\x81"], vec![]),
        ("varchar(20)", Some("gbk"), vec![b"\xc4\xe3"], vec![b"\xc4"]),
        ("varchar(20)", Some("ucs2"), vec![b"\0a\x20\xac"], vec![b"\0", b"\xd8\x3d"]),
        ("enum('a','b')", Some("utf8mb4"), vec![b"a", b""], vec![]),
        ("blob", None, vec![b"\0\xff\n\r", b""], vec![]),
        ("point", None, vec![b"\xe6\x10\0\0\x01\x01\0\0\0"], vec![b"\0\0\0"]),
        ("vector(2)", None, vec![b"", &[0, 0, 128, 63, 0, 0, 0, 128]], vec![b"123"]),
        ("uuid", None, vec![b"123e4567-e89b-12d3-a456-426655440000"], vec![]),
    ] {
        let column = column(column_type, charset);
        for value in inside {
            assert!(is_in(&column, value), "{column_type} {value:?}");
        }
        for value in odd {
            assert!(!is_in(&column, value), "{column_type} {value:?}");
        }
    }
}

#[test]
fn each_type_is_one_that_every_reader_takes() {
    let of = |column_type: &str, charset: Option<&str>| {
        let (file, ..) = written(&[column(column_type, charset)], b"", 1);
        let reader = SerializedFileReader::new(file).unwrap();
        let column = reader.metadata().file_metadata().schema_descr().column(0);
        (column.physical_type(), column.logical_type_ref().cloned())
    };
    let decimal = |scale, precision| Some(LogicalType::decimal(scale, precision));
    for (column_type, physical, logical) in [
        ("smallint(5) unsigned", PhysicalType::INT32, None),
        ("int(10) unsigned", PhysicalType::INT64, None),
        ("bigint(20) unsigned", PhysicalType::FIXED_LEN_BYTE_ARRAY, decimal(0, 20)),
        ("decimal(9,2)", PhysicalType::INT32, decimal(2, 9)),
        ("decimal(18,0)", PhysicalType::INT64, decimal(0, 18)),
        ("decimal(39,0)", PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ("bit(1)", PhysicalType::BOOLEAN, None),
        ("bit(64)", PhysicalType::FIXED_LEN_BYTE_ARRAY, decimal(0, 20)),
        ("date", PhysicalType::INT32, Some(LogicalType::Date)),
        ("time", PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ("json", PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ("blob", PhysicalType::BYTE_ARRAY, None),
        ("vector(3)", PhysicalType::FLOAT, None),
    ] {
        assert_eq!(of(column_type, None), (physical, logical), "{column_type}");
    }
    assert_eq!(of("text", Some("latin1")).1, Some(LogicalType::String));
    assert_eq!(of("text", Some("binary")).1, None);
}

#[test]
fn rows_of_many_groups_come_back_in_order() {
    let columns = [
        Column { name: "id".to_owned(), ..column("bigint", None) },
        Column { name: "text".to_owned(), ..column("text", Some("utf8mb4")) },
    ];
    let mut lines = Vec::new();
    for row in 0..300_000_u32 {
        let text = match row % 1000 {
            0 => b"\xff".to_vec(),
            1 => b"\\N".to_vec(),
            at => format!("row {at}").into_bytes(),
        };
        lines.extend_from_slice(format!("{row}\t").as_bytes());
        lines.extend_from_slice(&text);
        lines.push(b'\n');
    }
    let (file, written, odd) = written(&columns, &lines, 1 << 20);
    assert_eq!((written, odd.len()), (Written { rows: 300_000, odd: 300, groups: 3 }, 300));
    // Ids are differences, and texts a dictionary.
    assert!(file.len() < 60_000, "{}", file.len());
    assert_eq!(back(&columns, file.clone(), odd.clone()).unwrap(), lines);
    // Odd values that belong nowhere are noticed.
    for damaged in [&odd[1..], &[odd.clone(), odd[..1].to_vec()].concat()] {
        assert!(back(&columns, file.clone(), damaged.to_vec()).is_err() || damaged.len() < odd.len());
    }
    let moved = OddValue { row: 5, ..odd[1].clone() };
    assert!(back(&columns, file.clone(), vec![odd[0].clone(), moved]).is_err());
    // Other columns are refused.
    assert!(back(&columns[..1], file, Vec::new()).is_err());
}

#[test]
fn encodings_are_tried_on_a_part_of_many_vectors() {
    let vector = |row: u32| [row, row + 1, row + 2].map(|number| number.to_le_bytes()).concat();
    let lines: Vec<u8> = (0..40_000).flat_map(|row| line(&vector(row))).collect();
    let columns = [column("vector(3)", None)];
    let (file, written, odd) = written(&columns, &lines, usize::MAX);
    assert_eq!((written.rows, written.odd), (40_000, 0));
    assert!(back(&columns, file, odd).unwrap() == lines);
}

#[test]
fn ascii_comes_back_in_every_character_set() {
    let lines: Vec<u8> = (0..0x80).flat_map(|byte| line(&[byte])).collect();
    for name in ["ascii", "latin1", "swe7", "sjis", "cp932", "big5", "gbk", "euckr", "ujis", "utf8mb4"] {
        let columns = [column("varchar(1)", Some(name))];
        let (file, written, odd) = written(&columns, &lines, 100);
        assert_eq!(written.rows, 0x80);
        assert_eq!(back(&columns, file, odd).unwrap(), lines, "{name}");
    }
}

#[test]
fn no_rows_and_no_columns_are_a_file_too() {
    for (columns, lines) in [(&[column("int", None)][..], &b""[..]), (&[], b"\\N\n\\N\n"), (&[], b"")] {
        let (file, written, odd) = written(columns, lines, usize::MAX);
        assert_eq!((written.odd, odd.len()), (0, 0));
        assert_eq!(back(columns, file, odd).unwrap(), lines);
    }
}

#[test]
fn the_name_of_a_reference_system_is_that_of_no_other_column() {
    let named = |name: &str, column_type: &str| Column { name: name.to_owned(), ..column(column_type, None) };
    let columns = [named("g", "point"), named("G__SRID", "int"), named("g__srid_", "point")];
    let shape = line(b"\xe6\x10\0\0\x01\x01\0\0\0");
    let shape = shape.strip_suffix(b"\n").unwrap();
    let lines = [shape, b"\t7\t", shape, b"\n"].concat();
    let (file, _, odd) = written(&columns, &lines, usize::MAX);
    let reader = SerializedFileReader::new(file.clone()).unwrap();
    let schema = reader.metadata().file_metadata().schema();
    let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["g", "g__srid__", "G__SRID", "g__srid_", "g__srid___srid"]);
    assert_eq!(back(&columns, file, odd).unwrap(), lines);
}

#[test]
fn a_line_with_another_number_of_values_is_refused() {
    let columns = [column("int", None)];
    for lines in [&b"1\t2\n"[..], b"1"] {
        let mut writer = Writer::new(Vec::new(), &columns, Options::default()).unwrap();
        let taken = writer.lines(lines, &mut |_| Ok(()));
        assert!(taken.and_then(|()| writer.finish().map(drop)).is_err(), "{lines:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_bytes_come_back(
        cells in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 1..40),
        digits in proptest::collection::vec("-?[0-9]{0,20}(\\.[0-9]{0,6})?(e-?[0-9]{1,3})?", 1..40),
        step in 1_usize..50,
    ) {
        for (column_type, charset) in [
            ("int", None), ("bigint unsigned", None), ("decimal(20,3)", None), ("double", None), ("float", None),
            ("date", None), ("datetime(3)", None), ("bit(12)", None), ("text", Some("utf8mb4")),
            ("text", Some("sjis")), ("text", Some("utf32")), ("text", Some("swe7")), ("blob", None),
            ("geometry", None), ("vector(4)", None), ("year", None),
        ] {
            let columns = [column(column_type, charset)];
            let all = cells.iter().map(Vec::as_slice).chain(digits.iter().map(String::as_bytes));
            let lines: Vec<u8> = all.flat_map(line).collect();
            let (file, _, odd) = written(&columns, &lines, step);
            prop_assert_eq!(back(&columns, file, odd).unwrap(), lines);
        }
    }
}

#[test]
fn a_column_in_the_path_is_in_no_file_and_comes_back() {
    let columns = [
        Column { name: "id".to_owned(), ..column("int", None) },
        Column { name: "day".to_owned(), is_in_path: true, ..column("date", None) },
        Column { name: "text".to_owned(), ..column("varchar(9)", Some("utf8mb4")) },
    ];
    for (path_text, lines, odd_values) in [
        (&b"2026-11-28"[..], &b"1\t2026-11-28\tx\n2\t2026-11-28\t\\N\n"[..], 0),
        // Values that no folder can be named for are with those that are NULL.
        (b"\\N", b"1\t\\N\tx\n2\t0000-00-00\t\xff\n3\t\\N\t\n", 2),
    ] {
        for step in [1, 7, usize::MAX] {
            let options = Options { path_text: path_text.to_vec(), ..Options::default() };
            let (file, written, odd) = written_with(options, &columns, lines, step);
            assert_eq!(written.odd, odd_values);
            let reader = SerializedFileReader::new(file.clone()).unwrap();
            let fields = reader.metadata().file_metadata().schema().get_fields().to_vec();
            assert_eq!(fields.iter().map(|field| field.name()).collect::<Vec<_>>(), ["id", "text"]);
            assert_eq!(back_from(&columns, file, odd, path_text).unwrap(), lines);
        }
    }
}

#[test]
fn a_bloom_filter_is_as_large_as_its_values_need() {
    let columns = [
        Column { name: "id".to_owned(), ..column("int", None) },
        Column { name: "key".to_owned(), ..column("varchar(40)", Some("utf8mb4")) },
    ];
    assert!(columns.iter().all(Column::can_have_bloom) && !column("geometry", None).can_have_bloom());
    let bytes = |different: usize| {
        let lines: String = (0..20_000).map(|at| format!("{at}\tkey {}\n", at % different)).collect();
        let options = Options { bloom: vec![1], ..Options::default() };
        let (file, ..) = written_with(options, &columns, lines.as_bytes(), usize::MAX);
        let reader = SerializedFileReader::new(file.clone()).unwrap();
        let group = reader.metadata().row_group(0);
        assert_eq!(group.column(0).bloom_filter_offset(), None);
        assert_eq!(back(&columns, file, Vec::new()).unwrap(), lines.as_bytes());
        group.column(1).bloom_filter_length().unwrap()
    };
    // Ten bits for a value make one wrong answer in a hundred; a size is a power of two.
    let (few, many) = (bytes(100), bytes(20_000));
    assert!(few <= 512 && (20_000..80_000).contains(&many), "{few} {many}");
}

#[test]
fn numbers_are_split_into_their_bytes_only_if_that_is_asked_for() {
    let columns = [
        Column { name: "f".to_owned(), ..column("float", None) },
        Column { name: "i".to_owned(), ..column("int", None) },
        Column { name: "d".to_owned(), ..column("decimal(30,2)", None) },
    ];
    let mut random = 1_u64;
    let mut lines = String::new();
    for at in 0..20_000_u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // A FLOAT with few digits, since a line has all of them.
        let f = 20.0 + ((f64::from(at) / 9000.0).sin() * 8192.0).round() / 8192.0;
        lines.push_str(&format!("{f}\t{}\t{}.25\n", random >> 41, random >> 40));
    }
    for (set, wanted) in [(EncodingSet::Known, [false; 3]), (EncodingSet::New, [true, true, false])] {
        let options = Options { level: 3, encodings: Encodings::of(set), ..Options::default() };
        let (file, ..) = written_with(options, &columns, lines.as_bytes(), usize::MAX);
        let reader = SerializedFileReader::new(file.clone()).unwrap();
        let group = reader.metadata().row_group(0);
        let found = [0, 1, 2]
            .map(|at| group.column(at).encodings().any(|encoding| encoding == Encoding::BYTE_STREAM_SPLIT));
        assert_eq!(found, wanted);
        let there = back(&columns, file, Vec::new()).unwrap();
        let differs = there.split(|b| *b == b'\n').zip(lines.lines()).find(|(a, b)| *a != b.as_bytes());
        assert!(differs.is_none(), "{set:?} {:?}", differs.map(|(a, b)| (String::from_utf8_lossy(a), b)));
    }
}
