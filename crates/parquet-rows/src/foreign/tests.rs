//! Files that are made here by the libraries, as sound and as damaged ones.

mod arrow;
mod damage;
mod parquet_types;

use std::io::{self, Read as _};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::{Column, Error, Format, Input, Int96, Kind, Options, Table};

/// A file in memory.
struct Memory(Vec<u8>);

impl Input for Memory {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn parquet(batch: &RecordBatch, properties: Option<WriterProperties>) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), properties).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn open(bytes: &[u8], options: &Options) -> Result<Table, Error> {
    let format = Format::of(bytes).expect("a known format");
    Table::open(&Memory(bytes.to_vec()), format, options)
}

/// The text of a file.
fn text(bytes: &[u8], options: &Options) -> Result<String, Error> {
    let table = Arc::new(open(bytes, options)?);
    let mut text = Vec::new();
    let read = table.lines(Arc::new(Memory(bytes.to_vec()))).read_to_end(&mut text);
    read.map_err(|error| match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => Error::Read(error),
    })?;
    Ok(String::from_utf8(text).unwrap())
}

/// Its lines without the header.
fn rows(bytes: &[u8]) -> Vec<String> {
    text(bytes, &Options::default()).unwrap().lines().skip(1).map(str::to_owned).collect()
}

fn kinds(bytes: &[u8]) -> Vec<String> {
    let table = open(bytes, &Options { nested_json: true, ..Options::default() }).unwrap();
    table.columns().iter().map(|column| column.kind.to_string()).collect()
}

/// What is wrong with a file.
fn trouble(bytes: &[u8], options: &Options) -> String {
    text(bytes, options).expect_err("an error").to_string()
}

#[test]
fn files_are_known_by_their_first_bytes() {
    for (head, format) in [
        (&b"PAR1\x15\x04\x15\x10"[..], Some(Format::Parquet)),
        (b"PARE\x15\x04\x15\x10", Some(Format::Parquet)),
        (b"ARROW1\0\0", Some(Format::Arrow)),
        (b"\xff\xff\xff\xff\x10\0\0\0", Some(Format::ArrowStream)),
        (b"ARROW1,x", None),
        (b"PART,1", None),
        (b"", None),
    ] {
        assert_eq!(Format::of(head), format, "{head:?}");
    }
}

#[test]
fn columns_are_chosen_and_ordered_by_name() {
    use arrow_array::{Int32Array, StringArray};
    let file = parquet(
        &batch(vec![
            ("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
            ("b", Arc::new(StringArray::from(vec!["x", "y"])) as ArrayRef),
            ("c", Arc::new(Int32Array::from(vec![3, 4])) as ArrayRef),
        ]),
        None,
    );
    let fields = |names: &[&str]| Options {
        fields: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..Options::default()
    };
    assert_eq!(text(&file, &fields(&["c", "a"])).unwrap(), "c\ta\n3\t1\n4\t2\n");
    assert_eq!(trouble(&file, &fields(&["d"])), "column d: the file has no such column");

    // A later file in another order is read in that of the first one.
    let first = open(&file, &Options::default()).unwrap();
    let other = parquet(
        &batch(vec![
            ("c", Arc::new(Int32Array::from(vec![30])) as ArrayRef),
            ("a", Arc::new(Int32Array::from(vec![10])) as ArrayRef),
            ("b", Arc::new(StringArray::from(vec!["z"])) as ArrayRef),
        ]),
        None,
    );
    let mut table = open(&other, &Options::default()).unwrap();
    table.like(&first).unwrap();
    let mut lines = String::new();
    Arc::new(table).lines(Arc::new(Memory(other))).read_to_string(&mut lines).unwrap();
    assert_eq!(lines, "a\tb\tc\n10\tz\t30\n");

    for (columns, what) in [
        (vec![("a", 1), ("b", 0)], "column c: this file has no such column, the first one has it"),
        (vec![("a", 1), ("b", 1), ("c", 1)], "column b: it is INT32 here, and text in the first file"),
        (vec![("a", 1), ("b", 0), ("c", 1), ("d", 1)], "column d: the first file has no such column"),
    ] {
        let array = |number| match number {
            0 => Arc::new(StringArray::from(vec!["z"])) as ArrayRef,
            _ => Arc::new(Int32Array::from(vec![1])) as ArrayRef,
        };
        let columns = columns.into_iter().map(|(name, kind)| (name, array(kind))).collect();
        let mut table = open(&parquet(&batch(columns), None), &Options::default()).unwrap();
        assert_eq!(table.like(&first).unwrap_err().to_string(), what);
    }
}

#[test]
fn a_required_column_is_known_as_one() {
    use arrow_array::Int32Array;
    let one = || Arc::new(Int32Array::from(vec![1])) as ArrayRef;
    let batch = RecordBatch::try_from_iter_with_nullable([("a", one(), false), ("b", one(), true)]).unwrap();
    let table = open(&parquet(&batch, None), &Options::default()).unwrap();
    let integer = Kind::Integer { bytes: 4, unsigned: false };
    let column = |name: &str, required| Column { name: name.to_owned(), kind: integer, required };
    assert_eq!(table.columns(), [column("a", true), column("b", false)]);
    assert_eq!(table.rows(), Some(1));
}

#[test]
fn times_beyond_timestamp_are_noticed() {
    use arrow_array::TimestampMicrosecondArray;
    let last = i64::from(i32::MAX) * 1_000_000 + 999_999;
    for (values, fits) in [
        (vec![1_000_000, last], true),
        (vec![999_999], false),
        (vec![last + 1], false),
        (vec![-1, 5_000_000], false),
    ] {
        let array = TimestampMicrosecondArray::from(values.clone()).with_timezone("UTC");
        let file = parquet(&batch(vec![("t", Arc::new(array) as ArrayRef)]), None);
        let table = Arc::new(open(&file, &Options::default()).unwrap());
        let mut lines = String::new();
        table.lines(Arc::new(Memory(file))).read_to_string(&mut lines).unwrap();
        assert_eq!(table.is_in_timestamp_range(0), fits, "{values:?}");
    }
    let _ = Int96::Utc;
}

#[test]
fn columns_of_the_path_stand_behind_those_of_the_file() {
    use arrow_array::Int32Array;
    let ids = || Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef;
    let file = parquet(&batch(vec![("a", ids()), ("b", ids())]), None);
    let in_path =
        |value: Option<&str>| vec![("k".to_owned(), value.map(str::to_owned)), ("n".to_owned(), None)];
    let of = |value, fields: Option<&[&str]>| Options {
        in_path: in_path(value),
        fields: fields.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        ..Options::default()
    };
    assert_eq!(
        text(&file, &of(Some("x\t007"), None)).unwrap(),
        "a\tb\tk\tn\n1\t1\tx\\t007\t\\N\n2\t2\tx\\t007\t\\N\n"
    );
    assert_eq!(text(&file, &of(Some("7"), Some(&["k", "a"]))).unwrap(), "k\ta\n7\t1\n7\t2\n");
    assert!(trouble(&file, &of(None, Some(&["k"]))).contains("no columns"));
    let twice = Options { in_path: vec![("a".to_owned(), None)], ..Options::default() };
    assert!(trouble(&file, &twice).contains("column a: it is in the file and in its path"));
    // A later file has its own values.
    let first = open(&file, &of(Some("1"), Some(&["k", "b"]))).unwrap();
    let mut second = open(&file, &of(Some("2"), None)).unwrap();
    assert!(second.like(&first).is_err());
    let mut second = open(&file, &of(Some("2"), Some(&["b", "k"]))).unwrap();
    second.like(&first).unwrap();
    let mut lines = String::new();
    Arc::new(second).lines(Arc::new(Memory(file))).read_to_string(&mut lines).unwrap();
    assert_eq!(lines, "k\tb\n2\t1\n2\t2\n");
}
