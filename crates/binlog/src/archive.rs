//! An archive of a server's binary log: the server's own files, byte for byte.
//!
//! docs/formats/archive.md describes the folder. It consists of timelines. A [`Timeline`] is one unbroken
//! history: its files follow one another without gaps. Where the history breaks (the server was reset, was
//! restored, or has purged logs that were not archived yet) another timeline begins, and records the reason.
//!
//! The files alone record how far the archive is: [`Timeline::tail`] reads the last one. So no record can
//! claim more than the archive has.

mod arrival;
mod compare;
mod gtid_state;
mod prune;
mod sample;
pub mod segment;
pub mod segments;
mod tail;
mod timeline;
mod verify;
mod writer;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use disk::{Disk, Guard, Output, Share};

pub use arrival::{Arrival, Arrivals, arrivals};
pub use compare::EventComparer;
pub use gtid_state::{GtidState, gtid_state, missing_gtids};
pub use prune::{Pruned, prune};
pub use tail::{PositionTracker, Tail};
pub use timeline::{BeginReason, Timeline, TimelineInfo, files, is_timeline, unlisted};
pub use verify::verify;
pub use writer::Writer;

use crate::Error;

/// The archive's folder, below the folder of a name in a repository.
pub const FOLDER: &str = "log";
/// When the archive last had everything, in seconds since 1970.
const CAUGHT_UP: &str = "caught-up";
/// The lock that the archiver holds.
const LOCK: &str = "writer.lock";

/// An archive that is open for writing.
pub struct Archive<'d> {
    disk: &'d dyn Disk,
    folder: PathBuf,
    _lock: Box<dyn Guard>,
}

impl<'d> Archive<'d> {
    /// Opens the archive in a folder, which is created if it does not exist. `None` if another run is writing
    /// to it.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn open(disk: &'d dyn Disk, folder: &Path) -> io::Result<Option<Archive<'d>>> {
        disk.make_folder(folder)?;
        let lock = disk.lock(&folder.join(LOCK), Share::Exclusive)?;
        Ok(lock.map(|lock| Archive { disk, folder: folder.to_owned(), _lock: lock }))
    }

    /// The newest timeline.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corrupt`] if its description can't be read.
    pub fn newest(&self) -> Result<Option<Timeline<'d>>, Error> {
        let Some(number) = numbers(self.disk, &self.folder)?.pop() else { return Ok(None) };
        Timeline::open(self.disk, &self.folder, number).map(Some)
    }

    /// Records that the archive had everything at this time, in seconds since 1970.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn note_caught_up(&self, now_s: i64) -> io::Result<()> {
        let mut output = Output::create(self.disk, &self.folder.join(CAUGHT_UP))?;
        writeln!(output, "{now_s}")?;
        output.finish()
    }

    /// Begins the next timeline.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn begin(&self, info: TimelineInfo) -> Result<Timeline<'d>, Error> {
        let number = timeline::after(numbers(self.disk, &self.folder)?.pop().unwrap_or(0))?;
        Timeline::begin(self.disk, &self.folder, number, info)
    }
}

/// When the archive in a folder last had everything that the server had, in seconds since 1970. `None` if it
/// never had.
///
/// # Errors
/// Errors of the operating system.
pub fn caught_up(disk: &dyn Disk, archive: &Path) -> io::Result<Option<i64>> {
    Ok(timeline::read(disk, &archive.join(CAUGHT_UP))?.and_then(|text| text.trim_end().parse().ok()))
}

/// The folders of an archive's timelines, in order.
///
/// # Errors
/// Errors of the operating system.
pub fn timelines(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(numbers(disk, folder)?.into_iter().map(|number| timeline::folder(folder, number)).collect())
}

/// The numbers of all timelines that were begun, in order.
fn numbers(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<u32>> {
    let (mut numbers, mut others): (Vec<u32>, Vec<u32>) = Default::default();
    for name in disk.list(folder)? {
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // Without a description it was never begun: the run was killed before.
        if timeline::has_description(disk, folder, number)? {
            numbers.push(number);
        } else {
            others.push(number);
        }
    }
    numbers.sort_unstable();
    // One before the newest is left over from its removal, which begins with its description.
    let newest = numbers.last().copied();
    for number in others.into_iter().filter(|number| newest.is_none_or(|newest| *number > newest)) {
        timeline::must_be_empty(disk, folder, number)?;
    }
    Ok(numbers)
}
