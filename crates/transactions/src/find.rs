//! Which files are the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use binlog::archive::Arrivals;
use binlog::archive::segments::SegmentArchive;
use disk::RealDisk;
use failure::usage;
use humanize::text;
use repository::location::Location;
use repository::{KeyFile, address, log_archive};

use crate::file::LogFile;

/// The files of a log.
#[derive(Default)]
pub struct Found {
    /// In their order.
    pub files: Vec<LogFile>,
    /// What an index names and is not there.
    pub missing: Vec<String>,
    /// What is not as it was written, and may be of these files.
    pub damages: Vec<String>,
}

impl Found {
    /// The bytes of all files.
    pub fn bytes(&self) -> Result<u64> {
        let bytes = |file: &LogFile| file.bytes().with_context(|| text::path(file));
        self.files.iter().map(bytes).sum()
    }
}

/// What is to be known of when transactions ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// What they say themselves.
    Said,
    /// Also when they came, if it is noted.
    Noted,
}

/// The files that the arguments name.
pub fn files(paths: &[PathBuf], key: &KeyFile, times: Times) -> Result<Found> {
    let mut found = Found::default();
    for path in paths {
        if let Some((home, timeline)) = in_segments(path)? {
            of_segments(&Arc::new(log_archive::open_to_read(&home, key)?), timeline, &mut found)?;
        } else if path.is_dir() {
            match archived(path)? {
                Some(timeline) => of_timeline(&timeline, times, &mut found)?,
                None => listed(&index(path)?, &mut found)?,
            }
        } else if path.extension().is_some_and(|end| end == "index") {
            listed(path, &mut found)?;
        } else {
            found.files.push(LogFile::new(path.clone()));
        }
    }
    Ok(found)
}

/// Where an archive is that has the files in segments, and the number of a timeline, if an argument names
/// such a one.
fn in_segments(path: &Path) -> Result<Option<(Location, Option<u32>)>> {
    let (name, timeline) =
        log_archive::timeline(path).map_or((path, None), |(name, timeline)| (name, Some(timeline)));
    let home = Location::of(name)?;
    if log_archive::has_segments(&home)? {
        return Ok(Some((home, timeline)));
    }
    if address::is_in_store(path) {
        bail!("no log is archived in {}: 'remora binlog {}' does that", home.shown(), home.shown());
    }
    Ok(None)
}

/// The files of a timeline of a segmented archive; of the newest one if no number is given. Returns its
/// number.
pub fn of_segments(segments: &Arc<SegmentArchive>, timeline: Option<u32>, found: &mut Found) -> Result<u32> {
    found.damages.extend(segments.damages().iter().map(ToString::to_string));
    let own = match timeline {
        Some(number) => segments.timelines().iter().find(|timeline| timeline.number == number),
        None => segments.timelines().last(),
    };
    let Some(own) = own else {
        return Err(usage(match timeline {
            Some(number) => format!("{} has no timeline {number}", segments.shown()),
            None => format!("{} has no timeline that can be read", segments.shown()),
        }));
    };
    let first = found.files.len();
    for file in &own.files {
        let arrivals = Arrivals::new(segments.arrivals(file), before(found, first));
        found.files.push(LogFile::in_segments(segments, (own.number, file), arrivals));
    }
    Ok(own.number)
}

/// When the file before the next one came, if that is of the same timeline, whose first file has this place.
fn before(found: &Found, first: usize) -> Option<&Arrivals> {
    found.files.get(first..).and_then(<[LogFile]>::last).map(LogFile::arrivals)
}

/// The files of a timeline of an archive.
fn of_timeline(timeline: &Path, times: Times, found: &mut Found) -> Result<()> {
    let first = found.files.len();
    for name in binlog::archive::files(&RealDisk, timeline).with_context(|| text::path(timeline))? {
        let path = timeline.join(&name);
        if path.is_file() {
            let arrivals = match times {
                Times::Said => Vec::new(),
                Times::Noted => binlog::archive::arrivals(&RealDisk, timeline, &name)
                    .with_context(|| text::path(timeline))?,
            };
            let arrivals = Arrivals::new(arrivals, before(found, first));
            found.files.push(LogFile::archived(path, arrivals));
        } else {
            found.missing.push(format!("{} is archived, but not there", text::path(&path)));
        }
    }
    for name in binlog::archive::unlisted(&RealDisk, timeline).with_context(|| text::path(timeline))? {
        let path = text::path(&timeline.join(name));
        found.missing.push(format!("{path} is there, but log.index beside it does not list it"));
    }
    Ok(())
}

/// The timeline of an archive that a folder is; or the newest one, if the folder is that of a name in a
/// repository and has one.
fn archived(folder: &Path) -> Result<Option<PathBuf>> {
    if binlog::archive::is_timeline(&RealDisk, folder) {
        return Ok(Some(folder.to_owned()));
    }
    let archive = folder.join(binlog::archive::FOLDER);
    match binlog::archive::timelines(&RealDisk, &archive) {
        Ok(timelines) => Ok(timelines.into_iter().next_back()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        // A folder of the server may be called so, or a file.
        Err(_) if index(folder).is_ok() => Ok(None),
        Err(error) => Err(error).with_context(|| text::path(&archive)),
    }
}

/// The index of the binary log in a folder, or of its relay log if there is no other.
fn index(folder: &Path) -> Result<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| text::path(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "index") {
            all.push(path);
        }
    }
    all.sort();
    let is_relay = |path: &PathBuf| {
        path.file_stem().is_some_and(|stem| stem.to_string_lossy().to_lowercase().contains("relay"))
    };
    let (relay, binary): (Vec<PathBuf>, Vec<PathBuf>) = all.into_iter().partition(is_relay);
    let chosen = if binary.is_empty() { relay } else { binary };
    match chosen.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            repository::must_be_of_one(folder, &Location::Folder(folder.to_owned()))?;
            bail!(
                "{}: there is no binary log here: no file ends with .index. Was log_bin on? Name the files of the log",
                text::path(folder)
            )
        }
        several => {
            let names: Vec<String> = several.iter().map(|path| text::path(path)).collect();
            Err(usage(format!("there are several logs; name one: {}", names.join(", "))))
        }
    }
}

/// The files that an index names. They are looked for beside it first: it may be a copy.
fn listed(index: &Path, found: &mut Found) -> Result<()> {
    let text = std::fs::read_to_string(index).with_context(|| text::path(index))?;
    let folder = index.parent().unwrap_or(Path::new(""));
    for line in text.lines().filter(|line| !line.is_empty()) {
        let named = Path::new(line);
        let beside = folder.join(named.file_name().unwrap_or_default());
        let choices = [beside, folder.join(named)];
        match choices.into_iter().find(|path| path.is_file()) {
            Some(path) => found.files.push(LogFile::new(path)),
            None => found.missing.push(format!("{} names {line}, which is not there", text::path(index))),
        }
    }
    Ok(())
}
