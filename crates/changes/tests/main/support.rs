//! Writing changes of a recorded log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use changes::{Format, Request, Start, Summary, publish};
use disk::Disk;
use disk::faults::FaultDisk;
use progress::Progress;
use transactions::{Filter, Found, Known, LogFile};

/// The servers whose logs there are.
pub(crate) const SERVERS: [&str; 2] = ["mariadb-10.11", "mysql-9.7"];

/// The folder of changes.
pub(crate) const TO: &str = "lake/changes";

/// The files of a server's log.
pub(crate) fn log(server: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(server);
    ["binlog.000001", "binlog.000002"].map(|name| folder.join(name)).into()
}

/// What is to be written.
pub(crate) struct Wish {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) format: Format,
    pub(crate) start: Start,
    pub(crate) batch_bytes: u64,
    pub(crate) tables: Vec<&'static str>,
}

impl Wish {
    /// All of a log, in batches that end with its files.
    pub(crate) fn all(server: &str, format: Format) -> Wish {
        let batch_bytes = changes::BATCH_BYTES;
        Wish { files: log(server), format, start: Start::First, batch_bytes, tables: Vec::new() }
    }

    /// Writes it.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<Summary, String> {
        self.write_and_tell(disk, &Told::default())
    }

    /// Writes it, and keeps what is told.
    pub(crate) fn write_and_tell(&self, disk: &dyn Disk, told: &Told) -> Result<Summary, String> {
        self.rounds(disk, told, (&|| {}, None), &AtomicBool::new(false))
    }

    /// The same in rounds, as often, before each of which something happens to the log.
    pub(crate) fn rounds(
        &self,
        disk: &dyn Disk,
        told: &Told,
        (happens, every): (&dyn Fn(), Option<Duration>),
        stop: &AtomicBool,
    ) -> Result<Summary, String> {
        let mut filter = Filter {
            since: None,
            until: None,
            gtid: Vec::new(),
            tables: dump::Selection::default(),
            conditions: Vec::new(),
            statement: None,
        };
        filter.tables.include = self.tables.iter().map(|name| name.parse().unwrap()).collect();
        let files = || {
            happens();
            let files = self.files.iter().cloned().map(LogFile::new).collect();
            Ok(Found { files, ..Found::default() })
        };
        let request = Request {
            name: "shop".to_owned(),
            files: &files,
            filter: &filter,
            known: &Known::default(),
            to: TO.into(),
            format: self.format,
            start: self.start.clone(),
            every,
            batch_bytes: self.batch_bytes,
        };
        let written = publish(&request, disk, told, stop);
        written.map_err(|error| format!("{error:#}"))
    }
}

/// What was told.
#[derive(Default)]
pub(crate) struct Told(pub(crate) Mutex<Vec<String>>);

impl Progress for Told {
    fn phase(&self, _: &str, _: Option<u64>) {}
    fn read(&self, _: u64) {}
    fn done(&self, _: u64, _: u64) {}

    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn warn(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// The files that a reader finds, by their names below the folder.
pub(crate) fn found(disk: &FaultDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.names().into_iter();
    let own = names.filter_map(|path| path.strip_prefix(TO).ok().map(|name| name.display().to_string()));
    let is_read = |name: &String| name.contains('/') && !name.ends_with(".partial");
    let read = |name: String| disk.bytes(&Path::new(TO).join(&name)).map(|bytes| (name, bytes));
    own.filter(is_read).filter_map(read).filter(|(_, bytes)| !bytes.is_empty()).collect()
}

/// The lines of all JSON files of a table, in the order of their names.
pub(crate) fn lines(found: &BTreeMap<String, Vec<u8>>, table: &str) -> Vec<serde_json::Value> {
    let of_table = found.iter().filter(|(name, _)| name.starts_with(&format!("{table}/")));
    let text: String = of_table.map(|(_, bytes)| std::str::from_utf8(bytes).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
