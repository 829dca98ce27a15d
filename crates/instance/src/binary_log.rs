//! The binary log in a data folder: what it says about prepared transactions, and where it ends.

use std::fs;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use binlog::event::{self, Body, FIRST_BYTES, Kind};
use binlog::reader::{End, Reader};
use disk::{Disk, Output, RealDisk};
use server::Session;

/// A position in a binary log.
pub type Position = (String, u64);

/// What is said when a server has failed that may lack the keys of its log.
const ENCRYPTED: &str = "the binary log in the data is encrypted, and only a server with its keys can recover them; give the keys with \
     --server-option=--plugin-load-add=file_key_management --server-option=--file-key-management-filename=FILE, or as the \
     original server has them";

/// A binary log in the data folder.
pub struct BinaryLog {
    /// The base name of its files, which is followed by a number.
    pub name: String,
    /// The last file.
    last: String,
    is_encrypted: bool,
    /// Whether its last file names the transactions of MySQL that are before it: servers without GTIDs do not
    /// before 5.7.
    pub has_gtids: bool,
}

impl BinaryLog {
    /// Finds it by its index, `NAME.index`, and rewrites that list to the files beside it, because its
    /// entries may lead to the files of the original server. A data folder may have several: whoever renames
    /// a log leaves the former one there. `noted` is the file that the server wrote at the backup, empty if
    /// it had no log; if nothing is noted, the log that was begun last is taken.
    pub fn find(data: &Path, noted: Option<&str>) -> Result<Option<BinaryLog>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(data)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
            if path.extension().is_none_or(|end| end != "index") {
                continue;
            }
            let listed = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let files = listed.lines().filter_map(|line| line.rsplit('/').next());
            let files: Vec<String> = files
                .filter(|file| !file.is_empty() && data.join(file).is_file())
                .map(str::to_owned)
                .collect();
            // A relay log has an index too.
            let last = files.last().map(|last| data.join(last));
            if let Some(last) = last.filter(|last| !is_relayed(last)) {
                all.push(Listed { index: path, name, files, began: began(&last) });
            }
        }
        let chosen = match noted {
            Some(noted) => all.into_iter().find(|log| log.files.iter().any(|file| file == noted)),
            None => all.into_iter().max_by_key(|log| log.began),
        };
        chosen.map(|log| log.take(data)).transpose()
    }

    /// Says what a server may lack that could not do its work with the log.
    pub fn explain<T>(&self, done: Result<T>) -> Result<T> {
        if self.is_encrypted { done.context(ENCRYPTED) } else { done }
    }

    /// The end of the last transaction that the server has after its recovery, which commits prepared
    /// transactions that are in the log. `innodb` is the last one that InnoDB itself had committed.
    pub fn position(&self, session: &mut Session, innodb: Option<Position>) -> Result<Position> {
        let from = innodb.filter(|(file, _)| *file == self.last).map_or(4, |(_, offset)| offset);
        let file = session.quote(&self.last);
        let events = session
            .strings(&format!("SHOW BINLOG EVENTS IN {file} FROM {from}"))
            .with_context(|| format!("{} can't be read to its end", self.last))?;
        let (mut open, mut end) = (false, from);
        for event in &events {
            let [_, Some(at), Some(kind), _, Some(low), info] = event.as_slice() else { continue };
            let info = info.as_deref().unwrap_or_default();
            // With log_bin_compress it is called Query_compressed.
            match (kind.strip_suffix("_compressed").unwrap_or(kind), info) {
                // Without BEGIN it announces a single statement.
                ("Gtid", info) => open = info.starts_with("BEGIN") || info.starts_with("XA START"),
                ("Query", "BEGIN") => open = true,
                // A single statement, such as DDL, or the end of a transaction.
                ("Query" | "Xid" | "XA_prepare", _) if !open || kind != "Query" || ends(info) => {
                    (open, end) = (false, end_of(at, low).unwrap_or(end));
                }
                _ => {}
            }
        }
        Ok((self.last.clone(), end))
    }
}

/// A log that an index lists.
struct Listed {
    index: PathBuf,
    name: String,
    /// Those that are there.
    files: Vec<String>,
    /// When its last file was begun.
    began: u32,
}

impl Listed {
    /// Leads the index to the files beside it.
    fn take(self, data: &Path) -> Result<BinaryLog> {
        RealDisk.remove(&self.index)?;
        let mut index = Output::create(&RealDisk, &self.index)?;
        self.files.iter().try_for_each(|file| writeln!(index, "./{file}"))?;
        index.finish()?;
        let last = self.files.into_iter().next_back().unwrap_or_default();
        let (is_encrypted, has_gtids) = head(&data.join(&last));
        Ok(BinaryLog { name: self.name, last, is_encrypted, has_gtids })
    }
}

/// When a log was begun, in seconds since 1970; 0 if it does not say it.
fn began(path: &Path) -> u32 {
    let mut head = [0; FIRST_BYTES];
    let read = RealDisk.open(path).and_then(|file| file.read_full_at(0, &mut head));
    let time = head.get(event::MAGIC.len()..).and_then(|rest| rest.first_chunk());
    time.filter(|_| read.is_ok()).map_or(0, |time| u32::from_le_bytes(*time))
}

/// Where an event ends that begins at an offset: it says the lower 32 bits of that.
fn end_of(at: &str, low: &str) -> Option<u64> {
    let (at, low): (u64, u64) = (at.parse().ok()?, low.parse().ok()?);
    Some(at + (low.wrapping_sub(at) & u64::from(u32::MAX)))
}

/// Whether a log is a relay log.
fn is_relayed(path: &Path) -> bool {
    let mut first = [0; FIRST_BYTES];
    RealDisk.open(path).and_then(|file| file.read_full_at(0, &mut first)).is_ok() && event::is_relayed(&first)
}

/// Whether a server has encrypted a log, and whether it has GTIDs of MySQL: it says so at the beginning, in
/// clear.
fn head(path: &Path) -> (bool, bool) {
    let Ok(mut reader) = RealDisk.open(path).map(BufReader::new).map_err(Into::into).and_then(Reader::open)
    else {
        return (false, false);
    };
    // The server reports what is damaged.
    while let Ok(Some(event)) = reader.next() {
        match event.header.kind {
            Kind::FORMAT_DESCRIPTION | Kind::START_ENCRYPTION => {}
            kind => return (false, kind == Kind::PREVIOUS_GTIDS),
        }
    }
    (matches!(reader.end(), Some(End::Encrypted { .. })), false)
}

/// The version of the server that wrote the newest log in a data folder.
pub fn version(disk: &dyn Disk, data: &Path) -> Option<String> {
    let is_numbered = |name: &str| {
        let number = name.rsplit_once('.').map(|(_, number)| number);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let names = disk.list(data).ok()?.into_iter().filter_map(|name| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_numbered(name)).collect();
    names.sort();
    // What is no log, such as Aria's, has another beginning.
    names.iter().rev().find_map(|name| {
        let mut reader = Reader::open(BufReader::new(disk.open(&data.join(name)).ok()?)).ok()?;
        match reader.next().ok()??.parse().ok()? {
            Body::Format(format) => Some(format.server.clone()),
            _ => None,
        }
    })
}

fn ends(info: &str) -> bool {
    ["COMMIT", "ROLLBACK"].iter().any(|word| info.eq_ignore_ascii_case(word))
}

/// The last transaction that InnoDB had committed, from its recovery messages.
pub fn innodb_position(log: &Path) -> Result<Option<Position>> {
    let text = fs::read_to_string(log).with_context(|| log.display().to_string())?;
    let position = text.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("ast binlog file '")?;
        let (file, rest) = rest.split_once("', position ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let file = file.rsplit('/').next().unwrap_or(file);
        Some((file.to_owned(), digits.parse().ok()?))
    });
    Ok(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log whose first event has these flags, and its index.
    fn log(folder: &Path, name: &str, flags: u16) {
        let mut first = event::MAGIC.to_vec();
        first.extend([0; event::FLAGS_AT]);
        first.extend(flags.to_le_bytes());
        let write = |file: &str, bytes: &[u8]| {
            let mut sink = RealDisk.create(&folder.join(format!("{name}.{file}"))).unwrap();
            sink.write_all(bytes).unwrap();
        };
        write("000007", &first);
        write("index", format!("/data/{name}.000006\n/data/{name}.000007\n").as_bytes());
    }

    #[test]
    fn an_event_may_end_behind_4_gib() {
        for (at, low, end) in [
            ("4", "256", 256),
            ("4294967290", "10", (1 << 32) + 10),
            ("4294967200", "0", 1 << 32),
            ("4294967306", "20", (1 << 32) + 20),
            ("12884901889", "4294967295", (4 << 32) - 1),
        ] {
            assert_eq!(end_of(at, low), Some(end), "{at} {low}");
        }
        assert_eq!(end_of("x", "5"), None);
    }

    #[test]
    fn a_relay_log_is_not_taken_for_the_server_s_own() {
        let folder = tempfile::tempdir().unwrap();
        log(folder.path(), "from-source", event::RELAY);
        assert!(BinaryLog::find(folder.path(), None).unwrap().is_none());
        // Whatever the own one is called.
        log(folder.path(), "relay", event::IN_USE);
        let log = BinaryLog::find(folder.path(), None).unwrap().unwrap();
        assert_eq!((&*log.name, &*log.last), ("relay", "relay.000007"));
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("relay.index"), "./relay.000007\n");
        assert!(read("from-source.index").contains("/data/"), "it is left alone");
    }
    #[test]
    fn the_log_that_the_server_wrote_is_taken_and_not_a_former_one() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "binlog", "z"] {
            log(folder.path(), name, 0);
        }
        let find = |noted: Option<&str>| BinaryLog::find(folder.path(), noted).unwrap().map(|log| log.name);
        for name in ["z", "a", "binlog"] {
            assert_eq!(find(Some(&format!("{name}.000007"))).as_deref(), Some(name));
        }
        // It is elsewhere, or there was none.
        assert_eq!((find(Some("other.000007")), find(Some(""))), (None, None));
        // Nothing is noted: the last one that was begun.
        let path = folder.path().join("binlog.000007");
        let mut bytes = fs::read(&path).unwrap();
        bytes[event::MAGIC.len()] = 1;
        RealDisk.remove(&path).unwrap();
        RealDisk.create(&path).unwrap().write_all(&bytes).unwrap();
        assert_eq!(find(None).as_deref(), Some("binlog"));
    }
}
