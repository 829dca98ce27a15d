//! The copy as a volume, phase after phase.

use std::io;

use block::backup::ChangedRanges;
use block::tree::Layout;
use block::{ChunkRead, ChunkRequest, ChunkSource};
use disk::Stat;
use serde_json::Value;
use snapshot::server::Login;

use crate::changed_pages::{self, Before, IsNewer};
use crate::data_files::DataFiles;
use crate::ddl_blocked::DdlBlocked;
use crate::ended;
use crate::first_pass::FirstPass;
use crate::region::Region;
use crate::released::Stored;
use crate::running_server::RunningServer;
use crate::stale_pages::{IsSuspect, StalePages};

/// Blanks in place of a note that is known later.
const NOTE_ROOM: usize = 16 << 10;

/// The copy, while it is made.
pub struct HotFeed<'a> {
    pub(crate) login: &'a Login<'a>,
    pub(crate) files: DataFiles<'a>,
    pub(crate) phase: Phase,
    /// The region of this phase.
    pub(crate) region: Region,
    pub(crate) stale: StalePages,
    pub(crate) note: Value,
}

/// What was done last.
pub(crate) enum Phase {
    FirstPass(FirstPass),
    DdlBlocked(DdlBlocked),
    Stored(Stored),
    /// A step has failed, and the server does not know of the backup any more.
    Failed,
}

impl HotFeed<'_> {
    /// The note for the beginning, with room for what is known at the end.
    #[must_use]
    pub fn room_for_note() -> String {
        format!("{:NOTE_ROOM$}", "{}")
    }

    /// Bytes of a page of InnoDB.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.files.page_bytes()
    }

    /// Where all files are, once that is known.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        if let Phase::Stored(stored) = &self.phase { Some(&stored.layout) } else { None }
    }

    /// Where the first region may have changed since the generation before, and the LSN up to which that is
    /// known; or why it is unknown. To be asked before anything is read.
    ///
    /// # Errors
    /// Errors of asking the server and of reading its log.
    pub fn changes(&self, before: &Before<'_>) -> io::Result<Result<(ChangedRanges, u64), String>> {
        let Phase::FirstPass(first) = &self.phase else { return Err(ended()) };
        let connect = || self.login.connect(self.files.machine).map(|(_, session)| session);
        let log = match changed_pages::read_log(&self.files, before, &self.note, &connect)? {
            Ok(log) => log,
            Err(why) => return Ok(Err(why)),
        };
        let mut ranges = changed_pages::ranges(&self.files, &first.read, before.layout, log.changed_pages())?;
        // What is behind the region is read in any case.
        ranges.retain(|range| range.start < self.region.end);
        Ok(Ok((ChangedRanges { since: before.number, ranges }, log.proven())))
    }

    /// Whether a block may have changed after the LSN `since`, by what is in it.
    #[must_use]
    pub fn is_newer(&self, since: u64) -> IsNewer {
        let page_bytes = self.page_bytes();
        Box::new(move |block| innodb::page_check::may_be_newer(block, page_bytes, since))
    }

    /// Whether a block can't be right, by what it was and what it is; none if nothing tells.
    #[must_use]
    pub fn is_suspect(&self) -> Option<IsSuspect> {
        self.stale.check()
    }

    /// The server, until it is released.
    fn server(&mut self) -> Option<&mut RunningServer> {
        match &mut self.phase {
            Phase::FirstPass(first) => Some(&mut first.server),
            Phase::DdlBlocked(blocked) => Some(&mut blocked.server),
            Phase::Stored(_) | Phase::Failed => None,
        }
    }

    /// From the second region to the last one: blocks commits, stages what is left, and lets the server work
    /// again.
    fn store(&mut self, blocked: DdlBlocked) -> io::Result<(Stored, Region)> {
        let (stored, region) = blocked.block_commits()?.release(&self.files)?.store(&self.files)?;
        let source = self.note["source"].as_str().unwrap_or_default();
        stored.report(snapshot::in_messages(source), &*self.login.report);
        stored.note(&mut self.note);
        self.files.places.note(self.files.machine, &mut self.note)?;
        if self.note.to_string().len() > NOTE_ROOM {
            return Err(io::Error::other("the server's position is too long to be noted"));
        }
        Ok((stored, region))
    }
}

impl ChunkSource for HotFeed<'_> {
    fn stat(&mut self) -> io::Result<Stat> {
        let mut stat = self.region.reader.stat()?;
        stat.len = self.region.end;
        Ok(stat)
    }

    fn ahead(&self) -> u64 {
        self.region.reader.ahead()
    }

    fn expect(&mut self, number: u64, bytes: usize, want: ChunkRequest) -> io::Result<()> {
        self.region.reader.expect(number, bytes, want)
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
        if let Some(server) = self.server() {
            server.before_read()?;
        }
        self.region.reader.read(buffer)
    }

    fn more(&mut self) -> io::Result<Option<u64>> {
        (self.phase, self.region) = match std::mem::replace(&mut self.phase, Phase::Failed) {
            Phase::FirstPass(first) => {
                let (blocked, region) = first.block_ddl(&mut self.files, &mut self.note)?;
                (Phase::DdlBlocked(blocked), region)
            }
            Phase::DdlBlocked(blocked) => {
                let (stored, region) = self.store(blocked)?;
                (Phase::Stored(stored), region)
            }
            stored @ Phase::Stored(_) => {
                self.phase = stored;
                return Ok(None);
            }
            Phase::Failed => return Err(ended()),
        };
        Ok(Some(self.region.end))
    }

    fn is_urgent(&self) -> bool {
        matches!(self.phase, Phase::DdlBlocked(_))
    }

    fn note(&self) -> Option<String> {
        let mut note = self.note.clone();
        if self.stale.any() {
            // The next generation must not take its pages as they are.
            note["log"]["doubted"] = true.into();
        }
        Some(note.to_string())
    }
}
