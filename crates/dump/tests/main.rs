//! Dumps to Parquet that are stopped at each sync of their disk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codec::Codec;
use disk::faults::{FaultDisk, Unsynced};
use disk::{Disk, RealDisk};
use dump::{
    ColumnNames, Conditions, Context, Definer, DumpRequest, Format, Limits, MaskKey, Masks, ParquetRequest,
    ReadRequest, Selection, Sum,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use progress::Silent;
use sandbox::{Places, Product, Sandbox, Settings};
use server::{Environment, Overrides, Target};

const FOLDER: &str = "/d.dump";

/// Rows in some chunks, each with some days, one of which is no day; and a table without rows.
const TABLES: [&str; 4] = [
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, day DATE, born DATE, text VARCHAR(100))",
    "INSERT INTO d.t SELECT seq, ELT(seq % 4 + 1, '2026-11-28', '2026-11-29', NULL, '0000-00-00'), \
     IF(seq % 100 = 0, '0000-00-00', '1970-01-01'), REPEAT(seq, 10) FROM d.seq_1_to_4000",
    "CREATE TABLE d.u (id INT PRIMARY KEY, day DATE)",
];

fn server() -> (Sandbox, Target) {
    let places = Places::customary(|name| std::env::var_os(name)).unwrap();
    let installation = sandbox::find(&places, Product::MariaDb1011).expect("MariaDB 10.11 is needed");
    let sandbox = Sandbox::start(&installation, &places, &Settings::default()).unwrap();
    let overrides = Overrides {
        socket: Some(sandbox.socket().to_owned()),
        user: Some("root".into()),
        no_defaults: true,
        ..Overrides::default()
    };
    let target = Target::resolve(&overrides, &Environment::default()).unwrap();
    let mut session = target.connect().unwrap();
    session.execute("SET sql_mode = 'ALLOW_INVALID_DATES'").unwrap();
    for sql in TABLES {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    session.strings("ANALYZE TABLE d.t").unwrap();
    (sandbox, target)
}

fn request(resume: bool, is_partitioned: bool) -> DumpRequest {
    let mut partition = ColumnNames::default();
    if is_partitioned {
        partition.add("d.t:day");
    }
    DumpRequest {
        read: ReadRequest {
            selection: Selection { include: vec!["d".parse().unwrap()], ..Selection::default() },
            sessions: 1,
            conditions: Conditions::default(),
            masks: Masks::new(&[], MaskKey::new(b"a secret of sixteen")).unwrap(),
            data: true,
            history: true,
            chunk_bytes: Some(200 << 10),
            limits: Limits::default(),
            lock_wait: Duration::from_secs(30),
            block_ddl: false,
            kill_long_queries: false,
        },
        folder: FOLDER.into(),
        format: Format::Parquet,
        codec: (Codec::Zstd, 3),
        parquet: ParquetRequest { partition, ..ParquetRequest::default() },
        resume,
        definer: Definer::default(),
    }
}

fn context(disk: &FaultDisk) -> Context {
    Context {
        disk: Arc::new(disk.clone()),
        server: Arc::new(RealDisk),
        stop: Arc::default(),
        progress: Arc::new(Silent),
    }
}

/// Checks that what has its name is whole.
fn names_are_of_whole_files(disk: &FaultDisk) {
    for path in disk.names() {
        let bytes = || disk.bytes(&path).unwrap();
        let name = path.to_string_lossy();
        if name.ends_with(".parquet") {
            let file = SerializedFileReader::new(Bytes::from(bytes())).unwrap();
            let rows = file.get_row_iter(None).unwrap().map(Result::unwrap).count();
            assert_eq!(rows as i64, file.metadata().file_metadata().num_rows(), "{name}");
        } else if name.ends_with(".zst") {
            let mut text = Vec::new();
            codec::decoder(Box::new(std::io::Cursor::new(bytes())))
                .unwrap()
                .1
                .read_to_end(&mut text)
                .unwrap();
            assert!(text.ends_with(b"\n"), "{name}");
        }
    }
}

/// Checks the dump, and returns the sums of its tables.
fn sums(disk: &FaultDisk) -> Vec<(String, Sum)> {
    let found = dump::check(&context(disk), Path::new(FOLDER), 1).unwrap();
    assert!(found.damaged.is_empty() && found.strays.is_empty(), "{:?} {:?}", found.damaged, found.strays);
    found.manifest.tables.iter().map(|entry| (entry.table.name.to_string(), entry.sum)).collect()
}

fn stopped_anywhere(is_partitioned: bool) {
    let (_sandbox, target) = server();
    let run = |disk: &FaultDisk, resume| {
        dump::dump(&context(disk), &target, &request(resume, is_partitioned)).map(|summary| summary.manifest)
    };
    let whole = FaultDisk::default();
    let manifest = run(&whole, false).unwrap();
    assert!(manifest.tables[0].chunks.len() > 1);
    let wanted = sums(&whole);
    let names = || whole.names().into_iter().map(|path| path.to_string_lossy().into_owned());
    assert_eq!(names().any(|name| name.contains("/d.t/day=2026-11-29/")), is_partitioned);
    assert!(names().any(|name| name.starts_with("/d.dump/odd/d.t/")));
    let mut stops = 0;
    for sync in 0..whole.syncs() {
        let disk = FaultDisk::stopping_at(sync);
        // The journal is synced each second, so another run may have fewer of them.
        assert_eq!(run(&disk, false).is_err(), disk.is_stopped());
        stops += u32::from(disk.is_stopped());
        for unsynced in [Unsynced::Drop, Unsynced::Keep, Unsynced::Tear] {
            let left = disk.after_crash(unsynced);
            names_are_of_whole_files(&left);
            if left.stat(&Path::new(FOLDER).join("manifest.json")).is_err() {
                let is_begun = left.list(Path::new(FOLDER)).is_ok();
                run(&left, is_begun).unwrap_or_else(|error| panic!("{sync}, {unsynced:?}: {error}"));
            }
            assert_eq!(sums(&left), wanted, "{sync}, {unsynced:?}");
        }
    }
    assert!(stops > 20, "{stops}");
}

#[test]
fn a_dump_to_folders_that_is_stopped_anywhere_has_whole_files_and_is_resumed() {
    stopped_anywhere(true);
}

#[test]
fn a_dump_to_parquet_that_is_stopped_anywhere_has_whole_files_and_is_resumed() {
    stopped_anywhere(false);
}
