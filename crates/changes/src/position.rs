//! How far a folder of changes is.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use disk::{Disk, Output};
use serde::{Deserialize, Serialize};

use crate::format::Format;

/// The file that says it. Engines leave out names that begin so.
pub(crate) const NAME: &str = "_position";

/// The version of that file that this program writes, and the only one that it reads.
const VERSION: u32 = 1;

/// A place in a log, between two transactions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPosition {
    /// The timeline of an archive; 0 for files that are in none.
    pub timeline: u32,
    /// The file.
    pub file: String,
    /// The offset in it, in bytes.
    pub at: u64,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.at)
    }
}

/// `binlog.000031:1234`
impl FromStr for LogPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<LogPosition, String> {
        let parsed = text.rsplit_once(':').and_then(|(file, at)| Some((file, at.parse().ok()?)));
        match parsed {
            Some((file, at)) if !file.is_empty() && !file.contains('/') => {
                Ok(LogPosition { timeline: 0, file: file.to_owned(), at })
            }
            _ => Err(format!("{text} is no position; write FILE:OFFSET, such as binlog.000031:1234")),
        }
    }
}

impl LogPosition {
    /// The name of files that begin here. Names in their order are the order of the log.
    pub(crate) fn name(&self) -> String {
        format!("{:06}-{}-{:012}", self.timeline, self.file, self.at)
    }
}

/// A distributed transaction that is prepared, and neither committed nor rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prepared {
    /// Its name.
    pub(crate) xid: (u32, Vec<u8>, Vec<u8>),
    /// Where its events begin.
    pub(crate) start: LogPosition,
    /// Behind them.
    pub(crate) end: u64,
}

/// What the file has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    pub(crate) format: Format,
    /// Where the next batch begins.
    pub(crate) next: LogPosition,
    /// When the server began that file, in seconds since 1970, if that is known: a server begins its numbers
    /// again after RESET MASTER.
    pub(crate) begun: Option<u32>,
    /// The end of that batch, if its files are getting their names.
    pub(crate) until: Option<LogPosition>,
    /// What was prepared before.
    pub(crate) prepared: Vec<Prepared>,
}

impl State {
    /// Nothing was read before this position.
    pub(crate) fn new(format: Format, next: LogPosition) -> State {
        State { version: VERSION, format, next, begun: None, until: None, prepared: Vec::new() }
    }

    /// The state of a folder; `None` if it has none.
    pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<State>> {
        let path = folder.join(NAME);
        let mut text = String::new();
        match disk.open(&path).and_then(|mut file| file.read_to_string(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| path.display().to_string())?,
        };
        let state: State =
            serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        if state.version != VERSION {
            bail!("{} was written by another version of remora", path.display());
        }
        Ok(Some(state))
    }

    /// Replaces the state of a folder.
    pub(crate) fn write(&self, disk: &dyn Disk, folder: &Path) -> Result<()> {
        let path = folder.join(NAME);
        let write = || -> io::Result<()> {
            let mut output = Output::create(disk, &path)?;
            output.write_all(serde_json::to_string(self)?.as_bytes())?;
            output.write_all(b"\n")?;
            output.finish()
        };
        write().with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use disk::faults::FaultDisk;

    use super::*;

    #[test]
    fn positions_are_read_as_they_are_shown() {
        let position: LogPosition = "binlog.000031:1234".parse().unwrap();
        assert_eq!((position.file.as_str(), position.at), ("binlog.000031", 1234));
        assert_eq!(position.to_string(), "binlog.000031:1234");
        assert_eq!(position.name(), "000000-binlog.000031-000000001234");
        for wrong in ["binlog.000031", ":4", "binlog.000031:", "a/b:4", "binlog.000031:-4"] {
            assert!(wrong.parse::<LogPosition>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_state_is_replaced_and_a_damaged_one_is_no_beginning() {
        let (disk, folder) = (FaultDisk::default(), Path::new("lake"));
        disk.make_folder(folder).unwrap();
        assert_eq!(State::read(&disk, folder).unwrap(), None);
        let mut state = State::new(Format::Jsonl, "b.000001:4".parse().unwrap());
        for at in [4, 5] {
            state.next.at = at;
            state.write(&disk, folder).unwrap();
            assert_eq!(State::read(&disk, folder).unwrap().as_ref(), Some(&state));
        }
        state.version += 1;
        state.write(&disk, folder).unwrap();
        assert!(State::read(&disk, folder).unwrap_err().to_string().contains("another version"));
        disk.put(&folder.join(NAME), b"{");
        assert!(State::read(&disk, folder).unwrap_err().to_string().contains("damaged"));
    }
}
