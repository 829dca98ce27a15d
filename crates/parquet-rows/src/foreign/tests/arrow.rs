//! Arrow IPC: files and streams.

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::*;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

use super::*;

/// The same rows as a file and as a stream.
fn both(batch: &RecordBatch, compression: Option<CompressionType>) -> [Vec<u8>; 2] {
    let options = || IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut file = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options()).unwrap();
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options()).unwrap();
    for half in [batch.slice(0, 1), batch.slice(1, batch.num_rows() - 1)] {
        file.write(&half).unwrap();
        stream.write(&half).unwrap();
    }
    [file.into_inner().unwrap(), stream.into_inner().unwrap()]
}

fn many() -> RecordBatch {
    let words: DictionaryArray<Int8Type> = vec![Some("a"), None, Some("b")].into_iter().collect();
    let ends = Int32Array::from(vec![2, 3]);
    let runs = RunArray::<Int32Type>::try_new(&ends, &StringArray::from(vec![Some("r"), None])).unwrap();
    let array = |array: ArrayRef| array;
    batch(vec![
        ("n", array(Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7)])))),
        ("s", array(Arc::new(StringArray::from(vec!["x\ty", "", "z"])))),
        ("v", array(Arc::new(StringViewArray::from(vec!["short", "longer than twelve bytes", ""])))),
        ("l", array(Arc::new(LargeStringArray::from(vec!["x", "y", "z"])))),
        ("w", array(Arc::new(words))),
        ("r", array(Arc::new(runs))),
        ("b", array(Arc::new(BinaryArray::from_vec(vec![b"\xff", b"", b"\x01"])))),
        ("t", array(Arc::new(TimestampSecondArray::from(vec![0, 1, 2]).with_timezone("Europe/Berlin")))),
        ("d", array(Arc::new(Date64Array::from(vec![0, 86_400_000, 86_400_001])))),
        ("x", array(Arc::new(Decimal64Array::from(vec![1, -25, 0]).with_precision_and_scale(5, 1).unwrap()))),
        (
            "y",
            array(Arc::new(Decimal128Array::from(vec![1, -25, 0]).with_precision_and_scale(5, -2).unwrap())),
        ),
    ])
}

#[test]
fn files_and_streams_have_the_same_rows_whether_compressed_or_not() {
    let expected = [
        "-9223372036854775808\tx\\ty\tshort\tx\ta\tr\tff\t1970-01-01 00:00:00\t1970-01-01\t0.1\t100",
        "\\N\t\tlonger than twelve bytes\ty\t\\N\tr\t\t1970-01-01 00:00:01\t1970-01-02\t-2.5\t-2500",
        "7\tz\t\tz\tb\t\\N\t01\t1970-01-01 00:00:02\t1970-01-02 00:00:00.001\t0.0\t0",
    ];
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        for bytes in both(&many(), compression) {
            assert_eq!(rows(&bytes), expected, "{compression:?} {:?}", Format::of(&bytes));
        }
    }
    let [file, stream] = both(&many(), None);
    assert_eq!((Format::of(&file), Format::of(&stream)), (Some(Format::Arrow), Some(Format::ArrowStream)));
    let kinds = kinds(&file);
    assert_eq!(kinds[0..2], ["INT64", "text"]);
    assert_eq!(kinds[7..], ["TIMESTAMP(0) in UTC", "DATE", "DECIMAL(5,1)", "DECIMAL(5,-2)"]);
}

#[test]
fn text_that_is_not_utf8_makes_a_bad_row_and_not_a_bad_file() {
    let [file, _] =
        both(&batch(vec![("s", Arc::new(StringArray::from(vec!["ab", "cd"])) as ArrayRef)]), None);
    let at = file.windows(2).position(|two| two == b"cd").unwrap();
    let mut file = file;
    file[at] = 0xff;
    assert_eq!(rows(&file), ["ab", "\\\\xffd\tbyte 1 of the text is not UTF-8 for column `s`"]);
}

#[test]
fn a_file_without_its_end_and_a_stream_that_breaks_off_are_errors() {
    let [file, stream] = both(&many(), None);
    let cut = trouble(&file[..file.len() - 1], &Options::default());
    assert_eq!(cut, "the Arrow file is damaged: its end is missing; it may not be complete");
    let cut = trouble(&stream[..stream.len() - 100], &Options::default());
    assert!(cut.starts_with("the Arrow file is damaged: "), "{cut}");
    // A stream may end without saying so.
    let whole = rows(&stream);
    assert_eq!(rows(&stream[..stream.len() - 8]), whole);
}

#[test]
fn a_batch_that_claims_gigabytes_is_an_error() {
    // The number of bytes that a compressed part has when it is decompressed stands before it.
    let numbers = Int64Array::from(vec![5; 4096]);
    let batch = batch(vec![("n", Arc::new(numbers) as ArrayRef)]);
    let mut writer = StreamWriter::try_new_with_options(
        Vec::new(),
        &batch.schema(),
        IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap(),
    )
    .unwrap();
    writer.write(&batch).unwrap();
    let mut bytes = writer.into_inner().unwrap();
    let claimed = (4096_i64 * 8).to_le_bytes();
    let at = bytes.windows(8).position(|eight| eight == claimed).unwrap();
    bytes[at..at + 8].copy_from_slice(&(1_i64 << 40).to_le_bytes());
    let what = trouble(&bytes, &Options::default());
    assert!(what.contains("more than 1 GiB are not read at once"), "{what}");
}

#[test]
fn each_kind_of_list_becomes_json() {
    let rows_of = || [Some(vec![Some(1), None]), None, Some(vec![Some(3), Some(4)])];
    let array = |array: ArrayRef| array;
    let lists = batch(vec![
        ("small", array(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows_of())))),
        ("large", array(Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows_of())))),
        ("fixed", array(Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows_of(), 2)))),
    ]);
    let options = Options { nested_json: true, ..Options::default() };
    for bytes in both(&lists, None) {
        let read = text(&bytes, &options).unwrap();
        let rows: Vec<&str> = read.lines().skip(1).collect();
        assert_eq!(rows, ["[1, null]\t[1, null]\t[1, null]", "\\N\t\\N\t\\N", "[3, 4]\t[3, 4]\t[3, 4]"]);
    }
}
