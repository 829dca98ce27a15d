//! When the bytes of an archive came.
//!
//! A transaction says itself when it ended, and a session can have it say anything. The archive notes what
//! can't be set so: by when the bytes were there, and when the server had nothing more.
//!
//! docs/decisions/0522-when-it-came.md gives the reasons.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use disk::{Disk, Sink};
use serde::{Deserialize, Serialize};

/// What the name of a file with notes ends with, behind that of the server's file.
pub(super) const END: &str = ".arrived";
/// The word behind a time at which the server had nothing more.
const ALL: &str = "all";

/// At a time, everything up to an offset in a file was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The offset.
    pub end: u64,
    /// The time by the server's clock, in seconds since 1970.
    pub time_s: i64,
    /// Whether the server had nothing more then.
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

    /// Whether it says no more than the one before it, of an earlier offset: times have full seconds.
    fn is_like(&self, before: &Arrival) -> bool {
        self.time_s == before.time_s && !self.all && !before.all
    }
}

/// Adds what is known of a time.
pub(super) fn add(to: &mut Vec<Arrival>, arrival: Arrival) {
    match to.last_mut() {
        Some(last) if arrival.is_like(last) => last.end = arrival.end,
        _ => to.push(arrival),
    }
}

/// The file with the notes of a file.
fn path(folder: &Path, file: &str) -> PathBuf {
    folder.join(format!("{file}{END}"))
}

/// What is noted of a file, up to an offset, and how many bytes of the notes that are. After a crash they may
/// end with something else.
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

/// What is noted of a file of a timeline.
///
/// # Errors
/// Errors of the operating system.
pub fn arrivals(disk: &dyn Disk, timeline: &Path, file: &str) -> io::Result<Vec<Arrival>> {
    Ok(read(disk, &path(timeline, file), u64::MAX)?.0)
}

/// Writes the notes of the file that is written. They are not made durable before the file is whole: what a
/// crash of the machine takes away is then not known, and nothing else.
pub(super) struct ArrivalLog {
    sink: Box<dyn Sink>,
    last: Option<Arrival>,
}

impl ArrivalLog {
    /// Those of a new file.
    pub(super) fn begin(disk: &dyn Disk, folder: &Path, file: &str) -> io::Result<ArrivalLog> {
        ArrivalLog::resume(disk, folder, file, 0)
    }

    /// Those of a file that is archived up to an offset.
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

/// What is known of when the bytes of a file were written, from all notes of it and of the files before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// When the server last had nothing more, before the first of the arrivals.
    before: Option<i64>,
    all: Vec<Arrival>,
    /// With each of them: when the server last had nothing more.
    silent: Vec<Option<i64>>,
}

impl Arrivals {
    /// Those of a file that follows another one, or none.
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

    /// Between which times, in seconds since 1970 by the server's clock, the server wrote what is there in
    /// the file: not before the first, and not behind the second. None where nothing shows it.
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
