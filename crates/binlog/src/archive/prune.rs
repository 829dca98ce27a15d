//! Removes files that no backup needs any more.

use std::io;
use std::path::Path;

use disk::Disk;

use super::arrival;
use super::numbers;
use super::timeline::{self, Timeline};
use crate::Error;

/// The result of a prune.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Log files that were removed.
    pub files: u64,
    /// Bytes that were freed.
    pub bytes: u64,
    /// Files that no backup needs, but that the store retains.
    pub retained: Vec<String>,
    /// When the retention of the last of them ends, in seconds since the epoch, if that is known.
    pub retained_until_s: Option<i64>,
}

impl Pruned {
    /// Adds a file that the store retains, and until when.
    pub(super) fn keep(&mut self, shown: String, until_s: Option<i64>) {
        self.retained.push(shown);
        self.retained_until_s = self.retained_until_s.max(until_s);
    }
}

/// Removes the files that are older than all backups. `needed` has the log file of each backup, by the
/// server's name for it. Returns `None`, and removes nothing, if the archive has none of these files. With
/// `is_tried` nothing is removed.
///
/// Only the oldest timeline that has one of the files is shortened, and older timelines are removed. A later
/// timeline may be that of the server which took over after a failover: a backup's position in it is known by
/// GTIDs alone, and its files may have the same names. Or it may be that of the server after RESET MASTER,
/// which uses names again, so that any of them may be the backup's history.
///
/// An archiver may be running: it writes to the last file of the newest timeline, which is never removed. A
/// run that is killed leaves a complete archive; the next run removes the rest.
///
/// # Errors
/// Errors of the operating system; [`Error::Corrupt`] if the description of a timeline is not one.
pub fn prune(
    disk: &dyn Disk,
    archive: &Path,
    needed: &[String],
    is_tried: bool,
) -> Result<Option<Pruned>, Error> {
    let mut timelines = Vec::new();
    for number in numbers(disk, archive)? {
        let timeline = Timeline::open(disk, archive, number)?;
        let files = timeline.files()?;
        let from = needed.iter().filter_map(|file| files.iter().position(|own| own == file)).min();
        timelines.push((timeline, files, from));
    }
    let Some(first) = timelines.iter().position(|(_, _, from)| from.is_some()) else { return Ok(None) };
    let mut done = Pruned::default();
    let mut count = |timeline: &Timeline<'_>, name: &str| -> io::Result<()> {
        done.files += u64::from(!name.ends_with(arrival::END));
        done.bytes += disk.stat(&timeline.folder().join(name))?.len;
        Ok(())
    };
    for (timeline, files, _) in timelines.iter().take(first) {
        files.iter().try_for_each(|name| count(timeline, name))?;
        if !is_tried {
            // Without its description it is no timeline.
            disk.remove(&timeline::description(archive, timeline.number))?;
            disk.sync_folder(timeline.folder())?;
        }
    }
    for (timeline, files, from) in timelines.iter().skip(first).take(1) {
        let Some(keep) = from.and_then(|from| files.get(from)) else { continue };
        let older = timeline.older(keep)?;
        older.iter().try_for_each(|name| count(timeline, name))?;
        if !is_tried && !older.is_empty() {
            timeline.begin_at(keep)?;
            older.iter().try_for_each(|name| disk.remove(&timeline.folder().join(name)))?;
        }
    }
    if !is_tried {
        let newest = timelines.last().map_or(0, |(timeline, ..)| timeline.number);
        remove_rest(disk, archive, newest)?;
    }
    Ok(Some(done))
}

/// Removes the folders of former timelines. A timeline that is just being created has the highest number.
fn remove_rest(disk: &dyn Disk, archive: &Path, newest: u32) -> io::Result<()> {
    for name in disk.list(archive)? {
        let number: Option<u32> = name.to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|number| *number < newest) else { continue };
        let folder = timeline::folder(archive, number);
        if disk.stat(&timeline::description(archive, number)).is_ok() {
            continue;
        }
        for name in disk.list(&folder)? {
            disk.remove(&folder.join(name))?;
        }
        disk.remove_folder(&folder)?;
    }
    disk.sync_folder(archive)
}
