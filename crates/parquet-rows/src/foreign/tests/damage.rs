//! Files that are damaged, or were made to do harm.

use arrow_array::*;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterVersion;
use proptest::prelude::*;

use super::*;

/// A small file with every encoding that has lengths or counts of its own.
fn small(compression: Compression, version: WriterVersion) -> Vec<u8> {
    let text =
        |encoding| (Arc::new(StringArray::from(vec![Some("ab"), Some("abc"), None])) as ArrayRef, encoding);
    let numbers =
        |encoding| (Arc::new(Int32Array::from(vec![Some(1), None, Some(70_000)])) as ArrayRef, encoding);
    let columns = [
        ("a", text(None)),
        ("b", text(Some(Encoding::DELTA_BYTE_ARRAY))),
        ("c", text(Some(Encoding::DELTA_LENGTH_BYTE_ARRAY))),
        ("d", numbers(None)),
        ("e", numbers(Some(Encoding::DELTA_BINARY_PACKED))),
        ("f", numbers(Some(Encoding::BYTE_STREAM_SPLIT))),
    ];
    let mut properties = WriterProperties::builder().set_compression(compression).set_writer_version(version);
    for (name, (_, encoding)) in &columns {
        if let Some(encoding) = encoding {
            let path = parquet::schema::types::ColumnPath::from(*name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, *encoding);
        }
    }
    let columns = columns.into_iter().map(|(name, (array, _))| (name, array)).collect();
    parquet(&batch(columns), Some(properties.build()))
}

fn files() -> Vec<Vec<u8>> {
    vec![
        small(Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0),
        small(Compression::SNAPPY, WriterVersion::PARQUET_2_0),
        small(Compression::ZSTD(ZstdLevel::default()), WriterVersion::PARQUET_1_0),
    ]
}

#[test]
fn a_byte_that_is_flipped_anywhere_is_other_values_or_an_error() {
    for file in files() {
        let expected = rows(&file);
        assert_eq!(expected.len(), 3);
        for at in 0..file.len() {
            for flip in [0xff, 1 << (at % 8)] {
                let mut file = file.clone();
                file[at] ^= flip;
                let Some(format) = Format::of(&file) else { continue };
                let Ok(table) = Table::open(&Memory(file.clone()), format, &Options::default()) else {
                    continue;
                };
                let mut text = Vec::new();
                // What is read may differ; that it ends, and how, is what matters here.
                let read = Arc::new(table).lines(Arc::new(Memory(file))).read_to_end(&mut text);
                if let Err(error) = read {
                    assert!(error.get_ref().is_some_and(|error| error.is::<Error>()), "{at}: {error}");
                }
                assert!(text.len() < 1 << 20, "{at}");
            }
        }
    }
}

#[test]
fn a_panic_of_the_library_is_an_error() {
    let result = super::super::guard::guarded("Parquet", || -> Result<(), Error> { panic!("no {}", "way") });
    assert_eq!(result.unwrap_err().to_string(), "the Parquet file is damaged: it can't be decoded (no way)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn several_bytes_at_once_are_no_worse(
        which in 0_usize..3,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut file = files().swap_remove(which);
        for (at, byte) in changes {
            let length = file.len();
            file[at.index(length)] = byte;
        }
        if let Some(format) = Format::of(&file)
            && let Ok(table) = Table::open(&Memory(file.clone()), format, &Options::default())
        {
            Arc::new(table).lines(Arc::new(Memory(file))).read_to_end(&mut Vec::new()).ok();
        }
    }
}

#[test]
fn a_file_that_is_cut_off_is_an_error_wherever() {
    let file = small(Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0);
    for length in 8..file.len() {
        let what = trouble(&file[..length], &Options::default());
        assert!(what.starts_with("the Parquet file is damaged: "), "{length}: {what}");
    }
    assert_eq!(
        trouble(&file[..file.len() - 1], &Options::default()),
        "the Parquet file is damaged: its end is missing; it may not be complete"
    );
    let mut encrypted = file.clone();
    let end = encrypted.len();
    encrypted[end - 4..].copy_from_slice(b"PARE");
    assert!(trouble(&encrypted, &Options::default()).contains("encrypted"));
}

/// Where the only chunk of a file begins, and its length.
fn chunk(file: &[u8]) -> (usize, usize) {
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new()
        .parse_and_finish(&bytes::Bytes::copy_from_slice(file))
        .unwrap();
    let (start, length) = metadata.row_group(0).column(0).byte_range();
    (usize::try_from(start).unwrap(), usize::try_from(length).unwrap())
}

/// A file of one column in one page, whose bytes are given with their header.
fn with_page(file: &[u8], header: &[u8], page: &[u8]) -> Vec<u8> {
    // The bytes of the only chunk are replaced, and everything else is made to fit.
    let (start, length) = chunk(file);
    let mut made = file[..start].to_vec();
    made.extend_from_slice(header);
    made.extend_from_slice(page);
    assert!(made.len() <= start + length, "the chunk is too short for the page");
    made.resize(start + length, 0);
    made.extend_from_slice(&file[start + length..]);
    made
}

fn zigzag(number: i64) -> Vec<u8> {
    varint((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned())
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// The header of a data page: lengths, values, encoding.
fn header(plain: i64, packed: i64, values: i64, encoding: i64) -> Vec<u8> {
    let mut bytes = vec![0x15, 0];
    for number in [plain, packed] {
        bytes.push(0x15);
        bytes.extend(zigzag(number));
    }
    bytes.push(0x2c);
    for number in [values, encoding, 3, 3] {
        bytes.push(0x15);
        bytes.extend(zigzag(number));
    }
    bytes.extend([0, 0]);
    bytes
}

/// The header of a dictionary.
fn dictionary(plain: i64, values: i64) -> Vec<u8> {
    let mut bytes = vec![0x15, zigzag(2)[0]];
    for number in [plain, plain] {
        bytes.push(0x15);
        bytes.extend(zigzag(number));
    }
    bytes.push(0x4c);
    for number in [values, 0] {
        bytes.push(0x15);
        bytes.extend(zigzag(number));
    }
    bytes.extend([0, 0]);
    bytes
}

/// A file with one required column of text, and room for a page of another kind.
fn room() -> Vec<u8> {
    let values = StringArray::from(vec!["x".repeat(2000)]);
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let batch =
        RecordBatch::try_from_iter_with_nullable([("c", Arc::new(values) as ArrayRef, false)]).unwrap();
    parquet(&batch, Some(properties))
}

#[test]
fn a_page_that_claims_gigabytes_is_an_error() {
    let file = room();
    let page = header(2_000_000_000, 100, 1, 0);
    let what = trouble(&with_page(&file, &page, &[0; 100]), &Options::default());
    assert!(what.contains("a page of 100 bytes claims to have 2000000000"), "{what}");
    // A small one is what the file is made for.
    let mut value = 3_u32.to_le_bytes().to_vec();
    value.extend_from_slice(b"abc");
    let length = i64::try_from(chunk(&file).1).unwrap();
    let all = |size: i64| header(size, size, 1, 0);
    let size = (0..length).find(|size| all(*size).len() == usize::try_from(length - size).unwrap()).unwrap();
    assert_eq!(rows(&with_page(&file, &all(size), &value)), ["abc"]);
}

#[test]
fn a_dictionary_that_claims_more_values_than_bytes_is_an_error() {
    let page = dictionary(100, 2_000_000_000);
    let what = trouble(&with_page(&room(), &page, &[0; 100]), &Options::default());
    assert!(what.contains("a dictionary of 100 bytes claims to have 2000000000 values"), "{what}");
}

#[test]
fn lengths_that_claim_more_values_than_the_page_has_are_an_error() {
    // A block of 128 in 4 parts. It claims 2^45 values and has none, or has 129 in a page of one value.
    for (claimed, blocks) in [(1 << 45, 0), (129, 1)] {
        for (encoding, name) in [(6, "DELTA_LENGTH_BYTE_ARRAY"), (7, "DELTA_BYTE_ARRAY")] {
            let mut page = varint(128);
            page.extend(varint(4));
            page.extend(varint(claimed));
            page.push(0);
            // The smallest step, and steps of no bits.
            page.extend([0; 5].repeat(blocks));
            let again = page.clone();
            page.extend(again);
            page.resize(200, if blocks == 0 { 0x80 } else { 0 });
            let file = with_page(&room(), &header(200, 200, 1, encoding), &page);
            let what = text(&file, &Options::default()).err().map(|error| error.to_string());
            assert!(
                what.is_some_and(|what| what.contains("a page's lengths are damaged")),
                "{name} {claimed}"
            );
        }
    }
}

#[test]
fn values_that_are_made_of_the_ones_before_can_not_grow_without_end() {
    // Each value is the one before and a byte more: their bytes are the square of their number.
    let count = 100_000_u64;
    let mut page = Vec::new();
    for (first, step) in [(0_i64, 1_i64), (1, 0)] {
        page.extend(varint(128));
        page.extend(varint(4));
        page.extend(varint(count));
        page.extend(zigzag(first));
        for _ in 0..(count - 1).div_ceil(128) {
            page.extend(zigzag(step));
            page.extend([0; 4]);
        }
    }
    page.resize(page.len() + usize::try_from(count).unwrap(), b'x');
    let values = StringArray::from(vec!["x".repeat(page.len() + 1000)]);
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let batch =
        RecordBatch::try_from_iter_with_nullable([("c", Arc::new(values) as ArrayRef, false)]).unwrap();
    let file = parquet(&batch, Some(properties));
    let length = i64::try_from(page.len()).unwrap();
    let head = header(length, length, i64::try_from(count).unwrap(), 7);
    let what = trouble(&with_page(&file, &head, &page), &Options::default());
    assert!(what.contains("more than 1 GiB together"), "{what}");
}

#[test]
fn a_dictionary_can_not_make_endless_text() {
    // One value of 64 KiB for each of a thousand rows.
    let keys = Int32Array::from(vec![0; 1000]);
    let words = DictionaryArray::new(keys, Arc::new(StringArray::from(vec!["x".repeat(64 << 10)])));
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let file = parquet(&batch(vec![("w", Arc::new(words) as ArrayRef)]), Some(properties));
    let table = Arc::new(open(&file, &Options::default()).unwrap());
    let length = file.len() as u64;
    let mut lines = table.lines(Arc::new(Memory(file)));
    assert_eq!(lines.most, (1 << 30) + length * (256 << 10));
    // With as much as it may have, the test would take long.
    lines.most = 8 << 20;
    let mut text = Vec::new();
    let what = lines.read_to_end(&mut text).unwrap_err().to_string();
    assert!(what.contains("has more than 8388608 bytes of text, which no sound file has"), "{what}");
    assert!(text.len() <= 8 << 20, "{}", text.len());
}

#[test]
fn a_schema_that_is_too_deep_is_an_error() {
    let mut kind = parquet::schema::types::Type::primitive_type_builder("x", parquet::basic::Type::INT32)
        .with_repetition(parquet::basic::Repetition::OPTIONAL)
        .build()
        .unwrap();
    for _ in 0..100 {
        kind = parquet::schema::types::Type::group_type_builder("g")
            .with_repetition(parquet::basic::Repetition::OPTIONAL)
            .with_fields(vec![Arc::new(kind)])
            .build()
            .unwrap();
    }
    let schema = parquet::schema::types::Type::group_type_builder("schema")
        .with_fields(vec![Arc::new(kind)])
        .build()
        .unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let writer =
        parquet::file::writer::SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
    let file = writer.into_inner().unwrap();
    let what = trouble(&file, &Options { nested_json: true, ..Options::default() });
    assert_eq!(what, "the Parquet file is damaged: its schema is nested too deeply");
}

#[test]
fn rows_that_a_footer_promises_must_be_there() {
    let file = small(Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0);
    // The number of rows stands in the footer for the file and for its only row group.
    let footer = file.len()
        - 8
        - usize::try_from(u32::from_le_bytes(file[file.len() - 8..][..4].try_into().unwrap())).unwrap();
    let mut found = 0;
    for at in footer..file.len() - 8 {
        let mut file = file.clone();
        // Three becomes five.
        if file[at] != 6 {
            continue;
        }
        file[at] = 10;
        if let Err(error) = text(&file, &Options::default())
            && error.to_string().contains("rows of a row group are missing")
        {
            found += 1;
        }
    }
    assert!(found > 0, "no change of the number of rows was noticed");
}
