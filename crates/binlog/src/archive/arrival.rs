//! When the bytes of an archive arrived.
//!
//! A transaction carries its own time, and a session can set that to anything. The archive records what a
//! session can't set: when bytes arrived, and when the server had nothing more.
//!
//! docs/decisions/0522-when-it-came.md gives the reasons.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use disk::{Disk, Sink};
use serde::{Deserialize, Serialize};

/// The suffix of a file with arrival times, after the name of the server's file.
pub(super) const END: &str = ".arrived";
/// Follows a time at which the server had nothing more.
const ALL: &str = "all";

/// At this time everything up to an offset in a file had arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The offset.
    pub end: u64,
    /// The time by the server's clock, in seconds since 1970.
    pub time_s: i64,
    /// Whether the server had nothing more at that time.
    pub all: bool,
}

impl Arrival {
    fn parse(line: &str) -> Option<Arrival> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let (end, time_s) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let all = words.next();
        let is_known = all.is_none_or(|all| all == ALL) && words.next().is_none();
        is_known.then_some(Arrival { end, time_s, all: all.is_some() })
    }

    /// Whether it adds nothing to the entry before it, which has a lower offset: times have full seconds.
    fn is_like(&self, before: &Arrival) -> bool {
        self.time_s == before.time_s && !self.all && !before.all
    }
}

/// Adds an entry.
pub(super) fn add(to: &mut Vec<Arrival>, arrival: Arrival) {
    match to.last_mut() {
        Some(last) if arrival.is_like(last) => last.end = arrival.end,
        _ => to.push(arrival),
    }
}

/// The file with the arrival times of a file.
fn path(folder: &Path, file: &str) -> PathBuf {
    folder.join(format!("{file}{END}"))
}

/// The arrival times of a file, up to an offset, and how many bytes of their file these are. After a crash it
/// may end with something else.
fn read(disk: &dyn Disk, path: &Path, until: u64) -> io::Result<(Vec<Arrival>, u64)> {
    let mut bytes = Vec::new();
    match disk.open(path) {
        Ok(mut file) => drop(file.read_to_end(&mut bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let (mut all, mut len): (Vec<Arrival>, u64) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let arrival = std::str::from_utf8(line).ok().and_then(Arrival::parse);
        let begin = all.last().map_or(0, |last| last.end);
        let Some(arrival) = arrival.filter(|it| it.end >= begin && it.end <= until) else { break };
        all.push(arrival);
        len += line.len() as u64;
    }
    Ok((all, len))
}

/// The recorded arrival times of a timeline's file.
///
/// # Errors
/// Errors of the operating system.
pub fn arrivals(disk: &dyn Disk, timeline: &Path, file: &str) -> io::Result<Vec<Arrival>> {
    Ok(read(disk, &path(timeline, file), u64::MAX)?.0)
}

/// Writes the arrival times of the current file. They are not synced before that file is whole: if the
/// machine crashes, only the times of its last bytes are lost.
pub(super) struct ArrivalLog {
    sink: Box<dyn Sink>,
    last: Option<Arrival>,
}

impl ArrivalLog {
    /// For a new file.
    pub(super) fn begin(disk: &dyn Disk, folder: &Path, file: &str) -> io::Result<ArrivalLog> {
        ArrivalLog::resume(disk, folder, file, 0)
    }

    /// For a file that is archived up to an offset.
    pub(super) fn resume(disk: &dyn Disk, folder: &Path, file: &str, end: u64) -> io::Result<ArrivalLog> {
        let path = path(folder, file);
        let (mut all, len) = read(disk, &path, end)?;
        let sink = match disk.append(&path, len) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(&path)?,
            sink => sink?,
        };
        Ok(ArrivalLog { sink, last: all.pop() })
    }

    pub(super) fn add(&mut self, arrival: Arrival) -> io::Result<()> {
        if self.last.is_some_and(|last| arrival.is_like(&last)) {
            return Ok(());
        }
        self.last = Some(arrival);
        let Arrival { end, time_s, all } = arrival;
        let all = if all { format!(" {ALL}") } else { String::new() };
        self.sink.write_all(format!("{end} {time_s}{all}\n").as_bytes())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.sink.sync()
    }
}

/// When the bytes of a file were written, as far as the arrival times of it and of the files before it tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// When the server last had nothing more, before the first entry.
    before: Option<i64>,
    all: Vec<Arrival>,
    /// For each entry: when the server last had nothing more.
    silent: Vec<Option<i64>>,
}

impl Arrivals {
    /// For a file that follows another one, or none.
    #[must_use]
    pub fn new(all: Vec<Arrival>, before: Option<&Arrivals>) -> Arrivals {
        let before = before.and_then(|it| it.silent.last().copied().unwrap_or(it.before));
        let mut newest = before;
        let of = |arrival: &Arrival| {
            newest = if arrival.all { Some(arrival.time_s) } else { newest };
            newest
        };
        let silent = all.iter().map(of).collect();
        Arrivals { before, all, silent }
    }

    /// The time span in which the server wrote this range of the file, in seconds since 1970 by the server's
    /// clock: not before the first time, and not after the second. `None` where that is unknown.
    #[must_use]
    pub fn span(&self, (start, end): (u64, u64)) -> (Option<i64>, Option<i64>) {
        let earlier = self.all.partition_point(|arrival| arrival.end <= start);
        let after = match earlier.checked_sub(1) {
            Some(at) => self.silent.get(at).copied().flatten(),
            None => self.before,
        };
        let later = self.all.partition_point(|arrival| arrival.end < end);
        (after, self.all.get(later).map(|arrival| arrival.time_s))
    }
}
