//! Parquet and Arrow files of other programs.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
};
use parquet::arrow::ArrowWriter;

use crate::python::LIBRARIES;
use crate::support::{Place, on_one_mariadb};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// Writes a Parquet file and returns its name.
fn parquet(place: &Place, name: &str, columns: Vec<(&str, ArrayRef)>) -> String {
    let batch = batch(columns);
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    place.file(name, writer.into_inner().unwrap())
}

fn array<A: arrow_array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

/// The columns of a table, as `name type null`.
fn columns(place: &Place, table: &str) -> Vec<String> {
    place.rows(&format!(
        "SELECT CONCAT_WS(' ', column_name, column_type, is_nullable) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name = '{table}' ORDER BY ordinal_position"
    ))
}

/// Writes a file with a column of each type, of which the second row is NULL.
fn every_type(place: &Place) -> String {
    let words: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("y")].into_iter().collect();
    parquet(
        place,
        "all.data",
        vec![
            ("id", array(Int32Array::from(vec![1, 2, 3]))),
            ("big", array(UInt64Array::from(vec![Some(u64::MAX), None, Some(0)]))),
            ("ok", array(BooleanArray::from(vec![Some(true), None, Some(false)]))),
            (
                "price",
                array(
                    Decimal128Array::from(vec![Some(12_345), None, Some(-1)])
                        .with_precision_and_scale(9, 2)
                        .unwrap(),
                ),
            ),
            ("f", array(Float32Array::from(vec![Some(0.1), None, Some(f32::MAX)]))),
            ("d", array(Float64Array::from(vec![Some(0.1), None, Some(-1e300)]))),
            ("day", array(Date32Array::from(vec![Some(0), None, Some(2_932_896)]))),
            ("t", array(Time64MicrosecondArray::from(vec![Some(1), None, Some(86_399_999_999)]))),
            (
                "at",
                array(
                    TimestampMicrosecondArray::from(vec![Some(1_700_000_000_123_456), None, Some(1_000_000)])
                        .with_timezone("UTC"),
                ),
            ),
            (
                "far",
                array(
                    TimestampMicrosecondArray::from(vec![Some(5_000_000_000_000_000), None, Some(-1)])
                        .with_timezone("UTC"),
                ),
            ),
            ("local", array(TimestampMicrosecondArray::from(vec![Some(0), None, Some(-1)]))),
            ("text", array(StringArray::from(vec![Some("a\tb\nc\\N"), None, Some("")]))),
            ("number", array(StringArray::from(vec![Some("007"), None, Some("8")]))),
            ("word", array(words)),
            ("bytes", array(BinaryArray::from_opt_vec(vec![Some(b"\x00\xff\n"), None, Some(b"")]))),
        ],
    )
}

#[test]
fn a_table_is_made_with_the_types_of_the_files_and_has_their_values() {
    on_one_mariadb(|place, _| {
        let file = every_type(place);
        place.import(&[&file, "--into", "t", "--create"]).exits(0).says(&[
            "Parquet (15 columns)",
            "far: some times",
            "beyond the range of TIMESTAMP",
            "3 rows",
        ]);
        assert_eq!(
            columns(place, "t"),
            [
                "id int(11) NO",
                "big bigint(20) unsigned YES",
                "ok tinyint(1) YES",
                "price decimal(9,2) YES",
                "f float YES",
                "d double YES",
                "day date YES",
                "t time(6) YES",
                "at timestamp(6) YES",
                "far datetime(6) YES",
                "local datetime(6) YES",
                "text varchar(16) YES",
                "number varchar(16) YES",
                "word varchar(16) YES",
                "bytes varbinary(16) YES",
            ]
        );
        place.sql(&["SET GLOBAL time_zone = '+05:00'"]);
        assert_eq!(
            place.rows(
                "SELECT id, big, ok, price, f = CAST(0.1 AS FLOAT), d, day, t, UNIX_TIMESTAMP(at), far, local, HEX(text), \
                 number, word, HEX(bytes) FROM t ORDER BY id"
            ),
            [
                "1|18446744073709551615|1|123.45|1|0.1|1970-01-01|00:00:00.000001|1700000000.123456|2128-06-11 \
                 08:53:20.000000|1970-01-01 00:00:00.000000|6109620A635C4E|007|x|00FF0A",
                "2|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
                "3|0|0|-0.01|0|-1e300|9999-12-31|23:59:59.999999|1.000000|1969-12-31 23:59:59.999999|1969-12-31 \
                 23:59:59.999999||8|y|",
            ]
        );
        place.sql(&["SET GLOBAL time_zone = DEFAULT"]);
        assert_eq!(place.value("SELECT f = 3.4028234663852886e38 FROM t WHERE id = 3"), "1");
        // The tightest types are those of the file, too.
        let ended = place.import(&[&file, "--into", "u", "--create", "--tight", "--dry-run"]).exits(0);
        assert!(
            ended.out.contains("`number` VARCHAR(3) NULL") && ended.out.contains("`bytes` VARBINARY(3) NULL"),
            "{}",
            ended.out
        );
        assert!(
            ended.out.contains("`at` TIMESTAMP(6) NULL") && ended.out.contains("`id` INT NOT NULL"),
            "{}",
            ended.out
        );
    });
}

#[test]
fn fields_go_to_columns_of_their_name_and_bytes_to_whatever_they_are() {
    on_one_mariadb(|place, _| {
        place.sql(&["CREATE TABLE t (s VARCHAR(9) CHARACTER SET latin1, n INT PRIMARY KEY, g GEOMETRY, b BLOB, u UUID)"]);
        let point = [&[1, 1, 0, 0, 0][..], &1.5_f64.to_le_bytes(), &(-2.0_f64).to_le_bytes()].concat();
        let uuid: Vec<u8> = (0..16).map(|at| at * 17).collect();
        let bytes = |value: &[u8]| array(BinaryArray::from_vec(vec![value]));
        let file = parquet(
            place,
            "p",
            vec![
                ("n", array(Int64Array::from(vec![7]))),
                ("b", bytes(b"\0\t\xff")),
                ("s", bytes("\u{e9}t\u{e9}".as_bytes())),
                ("g", bytes(&point)),
                ("u", bytes(&uuid)),
            ],
        );
        let wanted = "7|00\u{30}9FF|E974E9|POINT(1.5 -2)|00112233-4455-6677-8899-aabbccddeeff";
        let query = "SELECT n, HEX(b), HEX(s), ST_AsText(g), u FROM t";
        place.import(&[&file, "--into", "t"]).exits(0);
        assert_eq!(place.rows(query), [wanted]);
        // The same where rows go in by INSERT.
        place.sql(&["SET GLOBAL local_infile = OFF"]);
        place.import(&[&file, "--into", "t", "--replace"]).exits(0).says(&["local_infile=OFF"]);
        assert_eq!(place.rows(query), [wanted]);
        place.sql(&["SET GLOBAL local_infile = ON"]);
        // Bytes that are no text are a bad row in a column with text.
        let file = parquet(
            place,
            "q",
            vec![
                ("n", array(Int64Array::from(vec![1, 2]))),
                ("s", array(BinaryArray::from_vec(vec![b"\xff", b"ok"]))),
            ],
        );
        place.import(&[&file, "--into", "t", "--replace"]).exits(1);
        assert_eq!(place.rows(query), [wanted]);
    });
}

#[test]
fn a_value_that_no_column_holds_is_a_bad_row() {
    on_one_mariadb(|place, _| {
        place.sql(&["CREATE TABLE t (n INT PRIMARY KEY, at DATETIME(6), d DOUBLE)"]);
        let write = |name: &str, at: Vec<i64>, d: Vec<f64>| {
            let numbers: Vec<i32> = (1..).take(at.len()).collect();
            parquet(
                place,
                name,
                vec![
                    ("n", array(Int32Array::from(numbers))),
                    ("at", array(TimestampNanosecondArray::from(at))),
                    ("d", array(Float64Array::from(d))),
                ],
            )
        };
        let file = write("a", vec![1_000, 1_001, 2_000], vec![0.0, 1.0, f64::NAN]);
        place
            .import(&[&file, "--into", "t"])
            .exits(1)
            .says(&["a:2: column at, value '1970-01-01 00:00:00.000001001'", "nothing was imported"]);
        place.untouched("t", 0);
        place
            .import(&[&file, "--into", "t", "--max-rejects", "2"])
            .exits(3)
            .says(&["1 row into", "a:3: column d, value 'NaN'"]);
        assert_eq!(place.rows("SELECT * FROM t"), ["1|1970-01-01 00:00:00.000001|0"]);
        assert_eq!(
            place.read("a.rejects"),
            "n\tat\td\n2\t1970-01-01 00:00:00.000001001\t1\n3\t1970-01-01 00:00:00.000002\tNaN\n"
        );
        place.import(&[&file, "--into", "t", "--replace", "--null", "NaN", "--max-rejects", "1"]).exits(3);
        assert_eq!(place.rows("SELECT n, d FROM t"), ["1|0", "3|NULL"]);

        // A year that no server has is told by remora, also when the table is to be made.
        let file = parquet(
            place,
            "years",
            vec![
                ("n", array(Int32Array::from(vec![1, 2]))),
                ("day", array(Date32Array::from(vec![2_932_897, 0]))),
            ],
        );
        let what = "years:1: column day, value '10000-01-01': the year is not one from 0 to 9999";
        place.import(&[&file, "--into", "made", "--create"]).exits(1).says(&[what]);
        place.import(&[&file, "--into", "made", "--create", "--max-rejects", "1"]).exits(3).says(&[what]);
        assert_eq!(place.rows("SELECT * FROM made"), ["2|1970-01-01"]);
        assert_eq!(place.read("years.rejects"), "n\tday\n1\t10000-01-01\n");
    });
}

#[test]
fn files_of_other_columns_pipes_and_damage_are_refused_before_anything_is_written() {
    on_one_mariadb(|place, _| {
        place.sql(&["CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20))"]);
        let good = |name: &str, from: i32| {
            parquet(
                place,
                name,
                vec![
                    ("b", array(StringArray::from(vec!["x", "y"]))),
                    ("a", array(Int32Array::from(vec![from, from + 1]))),
                ],
            )
        };
        let (first, second) = (good("part-1.parquet", 1), good("part-2.parquet", 3));
        place.import(&["part-*.parquet", "--into", "t", "--replace"]).exits(0).says(&["4 rows"]);
        assert_eq!(place.rows("SELECT * FROM t"), ["1|x", "2|y", "3|x", "4|y"]);
        let other = parquet(
            place,
            "other",
            vec![("a", array(Int64Array::from(vec![9]))), ("b", array(StringArray::from(vec!["z"])))],
        );
        place
            .import(&[&first, &second, &other, "--into", "t", "--replace"])
            .exits(1)
            .says(&["other: column a: it is INT64 here, and INT32 in the first file (part-1.parquet)"]);
        let csv = place.file("rows.csv", "a,b\n9,z\n");
        place.import(&[&first, &csv, "--into", "t", "--replace"]).exits(1).says(&["import them one by one"]);

        let bytes = std::fs::read(place.path(&first)).unwrap();
        let mut pipe = place.spawn(&["-", "--into", "t", "--replace"]);
        pipe.stdin().write_all(&bytes).unwrap();
        pipe.end().exits(1).says(&["stdin is a Parquet file", "write it to a file of its own"]);
        let mut packed = Vec::new();
        let mut encoder = codec::Codec::Gzip.encoder(&mut packed, 3).unwrap();
        encoder.write_all(&bytes).unwrap();
        encoder.finish().unwrap();
        let packed = place.file("p.gz", packed);
        place.import(&[&packed, "--into", "t", "--replace"]).exits(1).says(&["p.gz is a Parquet file"]);
        let cut = place.file("cut", &bytes[..bytes.len() - 1]);
        place
            .import(&[&cut, "--into", "t", "--replace"])
            .exits(1)
            .says(&["cut: the Parquet file is damaged: its end is missing"]);
        // A page that can't be decoded, in a file whose footer is sound.
        let mut damaged = bytes.clone();
        damaged[4..40].fill(0xff);
        let damaged = place.file("damaged", damaged);
        place
            .import(&[&damaged, "--into", "t", "--replace"])
            .exits(1)
            .says(&["damaged: the Parquet file is damaged"]);
        place
            .import(&[&first, "--into", "t", "--replace", "--delimiter", ","])
            .exits(1)
            .says(&["don't apply"]);
        place.untouched("t", 4);
    });
}

#[test]
fn nested_columns_become_json_if_that_is_asked_for() {
    on_one_mariadb(|place, _| {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
        let file =
            parquet(place, "n", vec![("id", array(Int32Array::from(vec![1, 2]))), ("tags", array(lists))]);
        let import = [&file, "--into", "t", "--create"];
        place.import(&import).exits(1).says(&["n: column tags: ", "--nested json"]);
        place.import(&[&import[..], &["--nested", "json"]].concat()).exits(0);
        assert_eq!(
            place.rows("SELECT id, tags, JSON_VALUE(tags, '$[0]') FROM t ORDER BY id"),
            ["1|[1, null]|1", "2|NULL|NULL"]
        );
        place.import(&[&file, "--into", "ids", "--create", "--fields", "id"]).exits(0);
        assert_eq!(columns(place, "ids"), ["id int(11) NO"]);
    });
}

#[test]
fn a_stopped_import_continues_within_the_file() {
    on_one_mariadb(|place, _| {
        let numbers: Vec<i32> = (0..60_000).collect();
        let texts: Vec<String> = numbers.iter().map(|number| format!("text {number}")).collect();
        let file = parquet(
            place,
            "long",
            vec![("n", array(Int32Array::from(numbers))), ("s", array(StringArray::from(texts)))],
        );
        place.sql(&["CREATE TABLE t (n INT PRIMARY KEY, s VARCHAR(20))"]);
        let import = [&file, "--into", "t", "--chunk", "8K", "-j", "1"];
        let mut running = place.spawn(&import);
        place.until_chunks(&mut running, 3);
        running.kill();
        place.import(&import).exits(11).says(&["--resume"]);
        place.import(&[&import[..], &["--resume"]].concat()).exits(0).says(&["of them by the run before"]);
        assert_eq!(place.value("SELECT COUNT(*), SUM(n), MAX(s) FROM t"), "60000|1799970000|text 9999");
        place.untouched("t", 60_000);
    });
}

/// Runs a script in a folder.
fn run(python: &Path, folder: &Path, script: &str) {
    let output = Command::new(python).current_dir(folder).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The rows that each program writes: a number, a text, a decimal, a day, a time and a list.
const ROWS: [&str; 3] = [
    "1|gr\u{fc}n|12.50|2024-02-29|2024-02-29 12:34:56.789012|0.1|1|00FF",
    "2||-0.01|1970-01-01|1969-12-31 23:59:59.000000|-1e300|0|",
    "3|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
];

const PYARROW: &str = r#"
import datetime as d, decimal, pyarrow as pa, pyarrow.parquet as pq, pyarrow.feather as fe
D = decimal.Decimal
t = pa.table({
  'id': pa.array([1, 2, 3], pa.int64()), 's': ['gr\u00fcn', '', None],
  'x': pa.array([D('12.50'), D('-0.01'), None], pa.decimal128(9, 2)),
  'day': pa.array([d.date(2024, 2, 29), d.date(1970, 1, 1), None]),
  'at': pa.array([d.datetime(2024, 2, 29, 12, 34, 56, 789012), d.datetime(1969, 12, 31, 23, 59, 59), None], pa.timestamp('us')),
  'f': [0.1, -1e300, None], 'ok': [True, False, None], 'b': pa.array([b'\x00\xff', b'', None], pa.binary())})
pq.write_table(t, 'plain.parquet')
for c in ['snappy', 'gzip', 'brotli', 'zstd', 'lz4']:
    pq.write_table(t, c + '.parquet', compression=c, data_page_version='2.0', use_dictionary=False)
pq.write_table(t, 'delta.parquet', use_dictionary=False, column_encoding={'id': 'DELTA_BINARY_PACKED', 's': 'DELTA_BYTE_ARRAY', 'b': 'DELTA_LENGTH_BYTE_ARRAY', 'f': 'BYTE_STREAM_SPLIT'})
pq.write_table(t, 'old.parquet', version='1.0', store_decimal_as_integer=True, row_group_size=1, write_page_checksum=True)
fe.write_feather(t, 'lz4.feather')
with pa.ipc.new_stream('stream.arrows', t.schema) as w: w.write_table(t)
"#;

const PANDAS: &str = r#"
import datetime as d, decimal, pandas as pd
D = decimal.Decimal
f = pd.DataFrame({'id': [1, 2, 3], 's': pd.Categorical(['gr\u00fcn', '', None]), 'x': [D('12.50'), D('-0.01'), None],
  'day': [d.date(2024, 2, 29), d.date(1970, 1, 1), None],
  'at': pd.to_datetime(['2024-02-29 12:34:56.789012', '1969-12-31 23:59:59', None], format='mixed'),
  'f': pd.array([0.1, -1e300, None], dtype='Float64'), 'ok': pd.array([True, False, None], dtype='boolean'), 'b': [b'\x00\xff', b'', None]})
f.to_parquet('pandas.parquet', index=False)
f.to_feather('pandas.feather', compression='zstd')
"#;

const POLARS: &str = r#"
import datetime as d, decimal, polars as pl
D = decimal.Decimal
f = pl.DataFrame({'id': [1, 2, 3], 's': ['gr\u00fcn', '', None], 'x': pl.Series([D('12.50'), D('-0.01'), None], dtype=pl.Decimal(9, 2)),
  'day': [d.date(2024, 2, 29), d.date(1970, 1, 1), None],
  'at': [d.datetime(2024, 2, 29, 12, 34, 56, 789012), d.datetime(1969, 12, 31, 23, 59, 59), None],
  'f': [0.1, -1e300, None], 'ok': [True, False, None], 'b': [b'\x00\xff', b'', None]})
f.write_parquet('polars.parquet')
f.write_ipc('polars.arrow', compression='zstd')
f.write_ipc_stream('polars.stream')
"#;

const DUCKDB: &str = r#"
import duckdb
duckdb.sql(r"""COPY (SELECT * FROM (VALUES
  (1::BIGINT, 'gr' || chr(252) || 'n', 12.50::DECIMAL(9,2), DATE '2024-02-29', TIMESTAMP '2024-02-29 12:34:56.789012', 0.1::DOUBLE, true, '\x00\xFF'::BLOB),
  (2, '', -0.01::DECIMAL(9,2), DATE '1970-01-01', TIMESTAMP '1969-12-31 23:59:59', -1e300, false, ''::BLOB),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL)) t(id, s, x, day, "at", f, ok, b)) TO 'duckdb.parquet' (FORMAT parquet)""")
duckdb.sql("COPY (FROM 'duckdb.parquet') TO 'duckdb2.parquet' (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd)")
"#;

#[test]
fn files_of_other_programs_are_read_exactly() {
    let Some(python) = LIBRARIES.program("files_of_other_programs_are_read_exactly") else { return };
    on_one_mariadb(|place, _| {
        for script in [PYARROW, PANDAS, POLARS, DUCKDB] {
            run(python, &place.path(""), script);
        }
        let endings = ["parquet", "feather", "arrow", "arrows", "stream"];
        let mut files: Vec<String> = std::fs::read_dir(place.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| endings.iter().any(|ending| name.ends_with(&format!(".{ending}"))))
            .collect();
        files.sort();
        let query = "SELECT id, s, x, day, at, f, ok, HEX(b) FROM t ORDER BY id";
        for file in &files {
            crate::support::tell(file);
            place.import(&[file, "--into", "t", "--create", "--replace"]).exits(0).says(&["3 rows"]);
            assert_eq!(place.rows(query), ROWS, "{file}");
            let kinds = columns(place, "t");
            assert_eq!(kinds[0], "id bigint(20) NO", "{file}");
            assert_eq!(kinds[3..5], ["day date YES", "at datetime(6) YES"], "{file}");
            // pandas takes as many digits as the values have.
            let digits = if file.starts_with("pandas") { 4 } else { 9 };
            assert_eq!(kinds[2], format!("x decimal({digits},2) YES"), "{file}");
        }
    });
}

#[test]
fn folders_have_columns_if_that_is_asked_for() {
    on_one_mariadb(|place, _| {
        for (folder, ids) in [
            ("h/day=2026-11-28/code=007", vec![1, 2]),
            ("h/day=2026-11-29/code=a%2Fb", vec![3]),
            ("h/day=2026-11-29/code=__HIVE_DEFAULT_PARTITION__", vec![4]),
        ] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
            parquet(place, &format!("{folder}/0.data"), vec![("id", array(Int32Array::from(ids)))]);
        }
        let files = "h/**/*.data";
        place.import(&[files, "--hive", "--into", "t", "--create"]).exits(0).says(&["4 rows"]);
        let rows = place.rows("SELECT CONCAT_WS(' ', id, day, IFNULL(code, '-')) FROM t ORDER BY id");
        assert_eq!(rows, ["1 2026-11-28 007", "2 2026-11-28 007", "3 2026-11-29 a/b", "4 2026-11-29 -"]);
        let made = columns(place, "t");
        assert_eq!(made[..2], ["id int(11) NO", "day date YES"]);
        assert!(made[2].starts_with("code varchar(") && made[2].ends_with("YES"), "{made:?}");
        // A text of digits keeps its zeros.
        let zeros = "h/day=2026-11-28/*/*.data";
        place.import(&[zeros, "--hive", "--into", "zeros", "--create"]).exits(0);
        assert_eq!(place.rows("SELECT CONCAT(id, code) FROM zeros ORDER BY id"), ["1007", "2007"]);
        // Columns by name, onto a table.
        place.import(&[files, "--hive", "--into", "t", "--replace", "--columns", "id,-,code"]).exits(0);
        assert_eq!(place.rows("SELECT CONCAT(COUNT(code), COUNT(day)) FROM t"), ["30"]);
        let fields = ["--hive", "--fields", "code,id", "--into", "f", "--create"];
        place.import(&[&[files][..], &fields].concat()).exits(0);
        assert_eq!(columns(place, "f").len(), 2);
        let other = |name: &str, arguments: &[&str], why: &str| {
            parquet(
                place,
                name,
                vec![("id", array(Int32Array::from(vec![5]))), ("day", array(Int32Array::from(vec![5])))],
            );
            place.import(&[&[name, "--into", "none", "--create"], arguments].concat()).exits(1).says(&[why]);
        };
        other("plain.data", &["--hive"], "is in no folder that is named COLUMN=VALUE");
        other("h/day=2026-11-28/0.data", &["--hive"], "column day: it is in the file and in its path");
        std::fs::remove_file(place.path("h/day=2026-11-28/0.data")).unwrap();
        let text = place.file("h/day=2026-11-28/0.csv", "id\n1\n");
        place
            .import(&[&text, "--hive", "--into", "none", "--create"])
            .exits(1)
            .says(&["--hive is for files of Parquet"]);
    });
}
