//! How far an archive is, by its last file.

use std::io::{BufReader, Read};
use std::path::Path;

use disk::Disk;

use super::gtid_state::{self, GtidState};
use crate::event::gtid::Number;
use crate::event::{Body, Event, MAGIC};
use crate::group::{EventRole, Grouping};
use crate::reader::{End, Reader};
use crate::{Corrupt, Error};

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// The end of the last file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The file.
    pub file: String,
    /// The offset after the last whole transaction, or event outside of transactions.
    pub end: u64,
    /// Where the last whole transaction begins; without one, where the first event does.
    pub last: u64,
    /// The GTID state at the end. `None` if the file has none, as in MySQL's logs.
    pub state: Option<GtidState>,
    /// The file in which the log continues, if this file names it.
    pub next: Option<String>,
    /// Damage after the end, beyond an incomplete transaction. A crash of the machine may leave it.
    pub damage: Option<Corrupt>,
}

impl Tail {
    pub(super) fn read(disk: &dyn Disk, folder: &Path, file: String) -> Result<Tail, Error> {
        let source = disk.open(&folder.join(&file))?;
        let first = MAGIC.len() as u64;
        let mut tail = Tail { file, end: first, last: first, state: None, next: None, damage: None };
        if source.stat()?.len <= first {
            return Ok(tail);
        }
        let mut reader = Reader::open(BufReader::with_capacity(READ_BYTES, source))?;
        match tail.scan(&mut reader) {
            Err(Error::Corrupt(corrupt)) => tail.damage = Some(corrupt),
            scanned => scanned?,
        }
        match reader.end() {
            Some(End::Encrypted { .. }) => Err(Error::Foreign(
                "the file is encrypted; an archive has logs as servers send them, \
                                    unencrypted",
            )),
            _ => Ok(tail),
        }
    }

    fn scan(&mut self, reader: &mut Reader<impl Read>) -> Result<(), Error> {
        let mut track = PositionTracker::default();
        let scanned = track.all(reader);
        self.end = track.end.unwrap_or(self.end);
        self.last = track.last.unwrap_or(self.last);
        (self.state, self.next) = (track.state, track.next);
        scanned
    }
}

/// Whether a file has a whole event. A crash may leave a file without any: its name is durable before its
/// events are.
pub(super) fn is_begun(disk: &dyn Disk, path: &Path) -> Result<bool, Error> {
    let source = disk.open(path)?;
    if source.stat()?.len <= MAGIC.len() as u64 {
        return Ok(false);
    }
    match Reader::open(BufReader::new(source))?.next() {
        Err(Error::Corrupt(_)) => Ok(false),
        event => Ok(event?.is_some()),
    }
}

/// Tracks how far the events of a file go.
#[derive(Default)]
pub struct PositionTracker {
    grouping: Grouping,
    /// Where the open transaction begins.
    began: Option<u64>,
    open: Option<Number>,
    /// As in [`Tail`]; `None` until there is such a place.
    end: Option<u64>,
    last: Option<u64>,
    /// As in [`Tail`].
    pub state: Option<GtidState>,
    /// As in [`Tail`].
    pub next: Option<String>,
}

impl PositionTracker {
    /// The offset after the last whole transaction, or event outside of transactions.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    fn all(&mut self, reader: &mut Reader<impl Read>) -> Result<(), Error> {
        while let Some(event) = reader.next()? {
            self.take(&event)?;
        }
        Ok(())
    }

    /// Where the newest transaction begins, whether it is complete or not.
    pub(super) fn newest(&self) -> Option<u64> {
        self.began.or(self.last)
    }

    /// The next event.
    ///
    /// # Errors
    /// [`Corrupt`] if a server does not write such an event.
    pub fn take(&mut self, event: &Event<'_>) -> Result<(), Corrupt> {
        let body = event.parse()?;
        let (part, is_cut) = self.grouping.take(event, &body);
        if matches!(part, EventRole::First | EventRole::Whole) || is_cut {
            self.began = Some(event.at);
        }
        match &body {
            Body::GtidList(list) => self.state = Some(gtid_state::gtid_state(list)),
            Body::Gtid(gtid) => self.open = Some(gtid.number),
            Body::Rotate(rotate) => self.next = Some(String::from_utf8_lossy(rotate.file).into_owned()),
            _ => {}
        }
        if matches!(part, EventRole::Last | EventRole::Whole) {
            self.last = Some(self.began.take().unwrap_or(event.at));
            if let (Some(state), Some(number)) = (&mut self.state, self.open.take()) {
                state.insert((number.domain, number.server_id), number.sequence);
            }
        }
        if matches!(part, EventRole::Last | EventRole::Whole)
            || (part == EventRole::Outside && self.began.is_none())
        {
            self.end = Some(event.end());
        }
        Ok(())
    }
}
