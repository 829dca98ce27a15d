//! Every type of Parquet with its extremes.

use std::sync::Arc;

use arrow_array::types::{Int32Type, UInt8Type};
use arrow_array::*;
use arrow_buffer::i256;
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int64Type, Int96 as Bits,
    Int96Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::*;

/// A file with one column of a physical type.
fn one<T: DataType>(kind: (Physical, Option<LogicalType>, i32), values: &[T::T]) -> Vec<u8> {
    let (physical, logical, length) = kind;
    let column = Type::primitive_type_builder("c", physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical)
        .with_length(length)
        .build()
        .unwrap();
    let schema = Type::group_type_builder("schema").with_fields(vec![Arc::new(column)]).build().unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn array<A: Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

#[test]
fn numbers_keep_their_extremes() {
    let file = parquet(
        &batch(vec![
            ("i8", array(Int8Array::from(vec![Some(i8::MIN), Some(i8::MAX), None]))),
            ("i16", array(Int16Array::from(vec![Some(i16::MIN), Some(i16::MAX), None]))),
            ("i32", array(Int32Array::from(vec![Some(i32::MIN), Some(i32::MAX), None]))),
            ("i64", array(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None]))),
            ("u8", array(UInt8Array::from(vec![Some(0), Some(u8::MAX), None]))),
            ("u16", array(UInt16Array::from(vec![Some(0), Some(u16::MAX), None]))),
            ("u32", array(UInt32Array::from(vec![Some(0), Some(u32::MAX), None]))),
            ("u64", array(UInt64Array::from(vec![Some(0), Some(u64::MAX), None]))),
            ("truth", array(BooleanArray::from(vec![Some(true), Some(false), None]))),
            ("nothing", array(NullArray::new(3))),
        ]),
        None,
    );
    let first = "-128\t-32768\t-2147483648\t-9223372036854775808\t0\t0\t0\t0\t1\t\\N";
    let second =
        "127\t32767\t2147483647\t9223372036854775807\t255\t65535\t4294967295\t18446744073709551615\t0\t\\N";
    assert_eq!(rows(&file), [first, second, &["\\N"; 10].join("\t")]);
    assert_eq!(
        kinds(&file),
        ["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOLEAN", "only NULL"]
    );
}

#[test]
fn numbers_with_a_binary_exponent_have_the_fewest_digits_that_tell_them_apart() {
    let values = [0.1_f32, 16_777_216.0, -0.0, f32::MAX, 1e-45, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let doubles = [
        0.1_f64,
        9_007_199_254_740_992.0,
        -0.0,
        f64::MAX,
        5e-324,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let halves = Float16Array::from_iter_values(values.map(half));
    let file = parquet(
        &batch(vec![
            ("f", array(Float32Array::from(values.to_vec()))),
            ("d", array(Float64Array::from(doubles.to_vec()))),
            ("h", array(halves)),
        ]),
        None,
    );
    assert_eq!(
        rows(&file),
        [
            "0.1\t0.1\t0.099975586",
            "16777216\t9007199254740992\tInfinity",
            "-0\t-0\t-0",
            "3.4028234663852886e38\t1.7976931348623157e308\tInfinity",
            "1e-45\t5e-324\t0",
            "NaN\tNaN\tNaN",
            "Infinity\tInfinity\tInfinity",
            "-Infinity\t-Infinity\t-Infinity",
        ]
    );
    assert_eq!(kinds(&file), ["FLOAT", "DOUBLE", "FLOAT"]);
}

/// A number of 16 bits.
fn half(value: f32) -> <types::Float16Type as ArrowPrimitiveType>::Native {
    <types::Float16Type as ArrowPrimitiveType>::Native::from_f32(value)
}

#[test]
fn decimals_keep_all_digits() {
    let decimal = |value: i128, precision, scale| {
        array(Decimal128Array::from(vec![value, -1, 0]).with_precision_and_scale(precision, scale).unwrap())
    };
    let wide = i256::from_string(&"9".repeat(65)).unwrap();
    let wide = Decimal256Array::from(vec![wide, i256::MINUS_ONE, i256::ZERO]);
    let file = parquet(
        &batch(vec![
            ("a", decimal(99_999, 5, 2)),
            ("b", decimal(999_999_999_999_999_999, 18, 18)),
            ("c", decimal(10_i128.pow(38) - 1, 38, 10)),
            ("d", array(wide.with_precision_and_scale(65, 30).unwrap())),
        ]),
        None,
    );
    let many = "9".repeat(28);
    assert_eq!(
        rows(&file),
        [
            format!("999.99\t0.999999999999999999\t{many}.9999999999\t{}.{}", "9".repeat(35), "9".repeat(30)),
            format!("-0.01\t-0.000000000000000001\t-0.0000000001\t-0.{}1", "0".repeat(29)),
            format!("0.00\t0.000000000000000000\t0.0000000000\t0.{}", "0".repeat(30)),
        ]
    );
    assert_eq!(kinds(&file), ["DECIMAL(5,2)", "DECIMAL(18,18)", "DECIMAL(38,10)", "DECIMAL(65,30)"]);
}

#[test]
fn times_are_exact_in_all_units() {
    // 0000-01-01, 9999-12-31, the day before 1970.
    let days = [-719_528, 2_932_896, -1];
    let seconds = [-719_528 * 86_400, 2_932_897 * 86_400 - 1, -1];
    let milliseconds: Vec<i64> = seconds.iter().map(|second| second * 1_000 + 1).collect();
    let microseconds: Vec<i64> = seconds.iter().map(|second| second * 1_000_000 + 999_999).collect();
    let file = parquet(
        &batch(vec![
            ("day", array(Date32Array::from(days.to_vec()))),
            ("ms", array(TimestampMillisecondArray::from(milliseconds).with_timezone("UTC"))),
            ("us", array(TimestampMicrosecondArray::from(microseconds))),
            ("ns", array(TimestampNanosecondArray::from(vec![i64::MIN, i64::MAX, 1_000]))),
            ("t3", array(Time32MillisecondArray::from(vec![0, 86_399_999, 1]))),
            ("t6", array(Time64MicrosecondArray::from(vec![0, 86_399_999_999, 1]))),
            ("t9", array(Time64NanosecondArray::from(vec![0, 86_399_999_999_999, 1_000]))),
        ]),
        None,
    );
    assert_eq!(
        rows(&file),
        [
            "0000-01-01\t0000-01-01 00:00:00.001\t0000-01-01 00:00:00.999999\t1677-09-21 00:12:43.145224192\t00:00:00\t\
             00:00:00\t00:00:00",
            "9999-12-31\t9999-12-31 23:59:59.001\t9999-12-31 23:59:59.999999\t2262-04-11 23:47:16.854775807\t\
             23:59:59.999\t23:59:59.999999\t23:59:59.999999999",
            "1969-12-31\t1969-12-31 23:59:59.001\t1969-12-31 23:59:59.999999\t1970-01-01 00:00:00.000001\t00:00:00.001\t\
             00:00:00.000001\t00:00:00.000001",
        ]
    );
    assert_eq!(
        kinds(&file),
        [
            "DATE",
            "TIMESTAMP(3) in UTC",
            "TIMESTAMP(6) without a time zone",
            "TIMESTAMP(9) without a time zone",
            "TIME(3)",
            "TIME(6)",
            "TIME(9)"
        ]
    );
}

#[test]
fn a_year_that_no_server_has_makes_a_bad_row() {
    let day = 86_400_000;
    let times = TimestampMillisecondArray::from(vec![2_932_897 * day, 0, -719_529 * day]);
    let file =
        parquet(&batch(vec![("n", array(Int32Array::from(vec![1, 2, 3]))), ("t`", array(times))]), None);
    assert_eq!(
        rows(&file),
        [
            "1\t10000-01-01 00:00:00\tthe year is not one from 0 to 9999 for column `t```",
            "2\t1970-01-01 00:00:00",
            "3\t-0001-12-31 00:00:00\tthe year is not one from 0 to 9999 for column `t```",
        ]
    );
}

#[test]
fn text_is_escaped_and_has_to_be_utf8() {
    let texts = StringArray::from(vec![Some("a\tb\n\\N\r\0\u{1F600}"), Some(""), None, Some("\\N")]);
    let file = parquet(&batch(vec![("text\t", array(texts))]), None);
    let read = text(&file, &Options::default()).unwrap();
    assert_eq!(read, "text\\t\na\\tb\\n\\\\N\\r\\0\u{1F600}\n\n\\N\n\\\\N\n");

    let text = (Physical::BYTE_ARRAY, Some(LogicalType::String), -1);
    let values = [&b"ok"[..], b"a\xffb", b"\xed\xa0\x80"].map(ByteArray::from);
    assert_eq!(
        rows(&one::<ByteArrayType>(text, &values)),
        [
            "ok",
            "a\\\\xffb\tbyte 2 of the text is not UTF-8 for column `c`",
            "\\\\xed\\\\xa0\\\\x80\tbyte 1 of the text is not UTF-8 for column `c`"
        ]
    );
    let values = [ByteArray::from("{\"a\": [1, 2]}")];
    let json = one::<ByteArrayType>((Physical::BYTE_ARRAY, Some(LogicalType::Json), -1), &values);
    assert_eq!((rows(&json), kinds(&json)), (vec!["{\"a\": [1, 2]}".to_owned()], vec!["JSON".to_owned()]));
    let member = one::<ByteArrayType>((Physical::BYTE_ARRAY, Some(LogicalType::Enum), -1), &values);
    assert_eq!(kinds(&member), ["text"]);
}

#[test]
fn bytes_are_hexadecimal_and_uuids_have_their_form() {
    let bytes =
        one::<ByteArrayType>((Physical::BYTE_ARRAY, None, -1), &[&b"\0\xff\t"[..], b""].map(ByteArray::from));
    assert_eq!(
        (rows(&bytes), kinds(&bytes)),
        (vec!["00ff09".to_owned(), String::new()], vec!["bytes".to_owned()])
    );
    let uuid: Vec<u8> = (0..16).map(|at| at * 17).collect();
    let values = [FixedLenByteArray::from(uuid)];
    let fixed = one::<FixedLenByteArrayType>((Physical::FIXED_LEN_BYTE_ARRAY, None, 16), &values);
    assert_eq!(rows(&fixed), ["00112233445566778899aabbccddeeff"]);
    assert_eq!(kinds(&fixed), ["16 bytes"]);
    let typed = (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), 16);
    let uuid = one::<FixedLenByteArrayType>(typed, &values);
    assert_eq!(rows(&uuid), ["00112233-4455-6677-8899-aabbccddeeff"]);
    assert_eq!(kinds(&uuid), ["UUID"]);
}

#[test]
fn times_of_96_bits_need_an_option() {
    // 2024-02-29 12:00:00.123456789, and a time that is longer than a day.
    let time = |nanoseconds: u64, day: u32| {
        let mut value = Bits::new();
        let low = u32::try_from(nanoseconds & 0xffff_ffff).unwrap();
        value.set_data(low, u32::try_from(nanoseconds >> 32).unwrap(), day);
        value
    };
    let noon = 43_200_000_000_000;
    let values = [time(noon + 123_456_789, 2_460_370), time(0, 1_721_060), time(2 * noon, 2_460_370)];
    let file = one::<Int96Type>((Physical::INT96, None, -1), &values);
    let refused = trouble(&file, &Options::default());
    assert!(refused.starts_with("column c: ") && refused.contains("--int96 utc"), "{refused}");
    for (zone, kind) in
        [(Int96::Utc, "TIMESTAMP(9) in UTC"), (Int96::Local, "TIMESTAMP(9) without a time zone")]
    {
        let options = Options { int96: Some(zone), ..Options::default() };
        let lines = text(&file, &options).unwrap();
        let expected = [
            "c",
            "2024-02-29 12:00:00.123456789",
            "0000-01-01 00:00:00",
            "2024-02-29 24:00:00\tthe time is not within the years from 0 to 9999 for column `c`",
        ];
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        assert_eq!(open(&file, &options).unwrap().columns()[0].kind.to_string(), kind);
    }
}

#[test]
fn local_nanoseconds_of_the_format_itself_are_exact() {
    let nanos = LogicalType::timestamp(false, TimeUnit::NANOS);
    let file = one::<Int64Type>((Physical::INT64, Some(nanos), -1), &[1, 1_000]);
    assert_eq!(rows(&file), ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000001"]);
}

#[test]
fn nested_columns_are_refused_or_become_json() {
    use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(3)]),
        None,
        Some(vec![]),
    ]);
    let parts = StructArray::from(vec![
        (
            Arc::new(arrow_schema::Field::new("x", arrow_schema::DataType::Utf8, true)),
            array(StringArray::from(vec![Some("a\"b\\\n\u{1}"), None, Some("t\tz")])),
        ),
        (
            Arc::new(arrow_schema::Field::new("y", arrow_schema::DataType::Date32, true)),
            array(Date32Array::from(vec![0, 1, 2])),
        ),
        (
            Arc::new(arrow_schema::Field::new("z", arrow_schema::DataType::Boolean, true)),
            array(BooleanArray::from(vec![true, false, true])),
        ),
    ]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("k");
    map.values().append_value(7);
    map.append(true).unwrap();
    map.append(false).unwrap();
    map.append(true).unwrap();
    let columns = vec![
        ("id", array(Int32Array::from(vec![1, 2, 3]))),
        ("l", array(lists)),
        ("s", array(parts)),
        ("m", array(map.finish())),
    ];
    let file = parquet(&batch(columns), None);
    let refused = trouble(&file, &Options::default());
    assert!(refused.starts_with("column l: ") && refused.contains("--nested json"), "{refused}");
    let chosen = Options { fields: Some(vec!["id".to_owned()]), ..Options::default() };
    assert_eq!(text(&file, &chosen).unwrap(), "id\n1\n2\n3\n");
    let read = text(&file, &Options { nested_json: true, ..Options::default() }).unwrap();
    assert_eq!(
        read.lines().skip(1).collect::<Vec<_>>(),
        [
            "1\t[1, null, 3]\t{\"x\": \"a\\\\\"b\\\\\\\\\\\\n\\\\u0001\", \"y\": \"1970-01-01\", \"z\": true}\t{\"k\": 7}",
            "2\t\\N\t{\"x\": null, \"y\": \"1970-01-02\", \"z\": false}\t\\N",
            "3\t[]\t{\"x\": \"t\\\\tz\", \"y\": \"1970-01-03\", \"z\": true}\t{}",
        ]
    );
}

#[test]
fn shapes_are_known_by_their_type_or_by_the_entry_of_geoparquet() {
    let point = [&[1, 1, 0, 0, 0][..], &[0; 16]].concat();
    let shape = one::<ByteArrayType>(
        (Physical::BYTE_ARRAY, Some(LogicalType::geometry(None)), -1),
        &[point.into(), b"\x01\x02".to_vec().into()],
    );
    let found = rows(&shape);
    assert_eq!(found[0], format!("0101000000{}", "00".repeat(16)));
    assert!(found[1].starts_with("0102\tit is no well-known binary"), "{found:?}");
    assert_eq!(kinds(&shape), ["geometry"]);
    let entry = r#"{"version": "1.1.0", "columns": {"g": {"encoding": "WKB"}, "h": {"encoding": "point"}}}"#;
    let entry = parquet::file::metadata::KeyValue::new("geo".to_owned(), entry.to_owned());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![entry])).build();
    let bytes = || array(BinaryArray::from_vec(vec![b"\x01"]));
    let file = parquet(&batch(vec![("g", bytes()), ("h", bytes())]), Some(properties));
    assert_eq!(kinds(&file), ["geometry", "bytes"]);
}

#[test]
fn values_of_a_dictionary_are_those_of_their_rows() {
    let words: DictionaryArray<UInt8Type> = vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    let file = parquet(&batch(vec![("w", array(words))]), None);
    assert_eq!(
        (rows(&file), kinds(&file)),
        (["a", "\\N", "b", "a"].map(String::from).to_vec(), vec!["text".to_owned()])
    );
}
