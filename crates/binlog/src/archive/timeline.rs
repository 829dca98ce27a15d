//! Timelines: unbroken histories.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use disk::{Disk, Output};
use serde::{Deserialize, Serialize};

use super::arrival;
use super::tail::{self, Tail};
use super::writer::Writer;
use crate::event::MAGIC;
use crate::{Corrupt, Error};

/// The file that describes a timeline.
pub(super) const DESCRIPTION: &str = "timeline.json";
/// The name of that file before the first release.
const OLD_DESCRIPTION: &str = "line.json";
/// The files of a timeline in their order, as a server's own index lists them.
const INDEX: &str = "log.index";
/// Names the first file of the timeline, once older ones were removed.
const FIRST: &str = "first";
/// The version of the format.
const VERSION: u32 = 2;

/// Why a timeline begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeginReason {
    /// It is the first.
    First,
    /// The server has another history: its bytes differ from those archived.
    Fork,
    /// The server had purged files that were not archived yet.
    Gap,
}

/// The description of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineInfo {
    /// The version of this format.
    pub version: u32,
    /// Why it begins.
    pub reason: BeginReason,
    /// When it began, in seconds since 1970.
    pub began_s: i64,
    /// The server's `server_id`.
    pub server_id: u32,
    /// The server's version, such as `10.11.19-MariaDB-log`.
    pub server: String,
    /// Its first file.
    pub first: String,
    /// The end of the previous timeline: its last file, and the offset after its last transaction.
    pub before: Option<(String, u64)>,
    /// What was found, for people.
    pub detail: String,
}

impl TimelineInfo {
    /// The description of a timeline that begins now.
    #[must_use]
    pub fn new(
        reason: BeginReason,
        began_s: i64,
        server_id: u32,
        server: String,
        first: String,
    ) -> TimelineInfo {
        TimelineInfo {
            version: VERSION,
            reason,
            began_s,
            server_id,
            server,
            first,
            before: None,
            detail: String::new(),
        }
    }
}

/// A timeline.
pub struct Timeline<'d> {
    disk: &'d dyn Disk,
    folder: PathBuf,
    /// Its number, from 1 on.
    pub number: u32,
    /// Its description.
    pub info: TimelineInfo,
}

pub(super) fn folder(archive: &Path, number: u32) -> PathBuf {
    archive.join(format!("{number:06}"))
}

/// The number of the next timeline.
pub(super) fn after(number: u32) -> io::Result<u32> {
    let none = || {
        io::Error::other(format!(
            "timeline numbers are exhausted: {number} is the highest, and remora never assigns it; remove it"
        ))
    };
    number.checked_add(1).ok_or_else(none)
}

pub(super) fn description(archive: &Path, number: u32) -> PathBuf {
    folder(archive, number).join(DESCRIPTION)
}

/// Whether a timeline was begun in the folder of this number.
///
/// # Errors
/// `InvalidData` if it has the format from before the first release.
pub(super) fn has_description(disk: &dyn Disk, archive: &Path, number: u32) -> io::Result<bool> {
    if disk.stat(&description(archive, number)).is_ok() {
        return Ok(true);
    }
    let folder = folder(archive, number);
    if disk.stat(&folder.join(OLD_DESCRIPTION)).is_err() {
        return Ok(false);
    }
    let text = format!(
        "{}: this archive has the format from before the first release, which is no longer read; \
         move it away, and archive again",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// An error if a folder has files of the log, and no description that says what they are.
pub(super) fn must_be_empty(disk: &dyn Disk, archive: &Path, number: u32) -> io::Result<()> {
    let folder = folder(archive, number);
    let Some(file) = unlisted(disk, &folder)?.into_iter().chain(files(disk, &folder)?).next() else {
        return Ok(());
    };
    if has_description(disk, archive, number)? {
        // It was begun just now.
        return Ok(());
    }
    let text = format!(
        "{}: {DESCRIPTION} is missing, and {file} is there: put the file back from a copy of the repository",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Whether a timeline is in this folder.
#[must_use]
pub fn is_timeline(disk: &dyn Disk, folder: &Path) -> bool {
    disk.stat(&folder.join(DESCRIPTION)).is_ok()
}

/// The files of the timeline in this folder, in order.
///
/// # Errors
/// Errors of the operating system.
pub fn files(disk: &dyn Disk, timeline: &Path) -> io::Result<Vec<String>> {
    let mut files = listed(disk, timeline)?;
    if let Some(first) = read(disk, &timeline.join(FIRST))?
        && let Some(at) = files.iter().position(|file| file == first.trim_end())
    {
        files.drain(..at);
    }
    Ok(files)
}

/// Files of the log in this folder that come after those in the index: it has lost its end. A file is listed
/// before anything but its first four bytes is in it.
///
/// # Errors
/// Errors of the operating system.
pub fn unlisted(disk: &dyn Disk, timeline: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for name in disk.list(timeline)? {
        let len = match disk.stat(&timeline.join(&name)) {
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            stat => stat?.len,
        };
        found.extend(name.into_string().ok().filter(|_| len > MAGIC.len() as u64));
    }
    // The index is read after the files: an archiver that runs lists a file before it grows.
    let listed = listed(disk, timeline)?;
    let last = listed.last().and_then(|name| numbered(name));
    found.retain(|name| {
        numbered(name).is_some_and(|(base, number)| {
            last.is_none_or(|(last_base, last)| base == last_base && number > last)
        })
    });
    found.sort();
    Ok(found)
}

/// All files in the index, including removed ones.
fn listed(disk: &dyn Disk, timeline: &Path) -> io::Result<Vec<String>> {
    let index = read(disk, &timeline.join(INDEX))?.unwrap_or_default();
    Ok(index.lines().map(|line| line.trim_start_matches("./").to_owned()).collect())
}

/// The content of a text file; `None` if it does not exist.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match disk.open(path) {
        Ok(mut file) => file.read_to_string(&mut text).map(|_| Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The base name and the number of a file such as `binlog.000031`.
pub(super) fn numbered(file: &str) -> Option<(&str, u64)> {
    let (base, number) = file.rsplit_once('.')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
    Some((base, number.parse().ok()?))
}

impl<'d> Timeline<'d> {
    pub(super) fn begin(
        disk: &'d dyn Disk,
        archive: &Path,
        number: u32,
        info: TimelineInfo,
    ) -> Result<Timeline<'d>, Error> {
        let folder = folder(archive, number);
        disk.make_folder(&folder)?;
        // The description is written last: it makes the timeline valid.
        let text = serde_json::to_vec_pretty(&info).map_err(io::Error::other)?;
        let mut output = Output::create(disk, &description(archive, number))?;
        output.write_all(&text)?;
        output.finish()?;
        Ok(Timeline { disk, folder, number, info })
    }

    pub(super) fn open(disk: &'d dyn Disk, archive: &Path, number: u32) -> Result<Timeline<'d>, Error> {
        Timeline::read(disk, &folder(archive, number))
    }

    /// The timeline in a folder that is named by its number.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corrupt`] if its description can't be read.
    pub fn read(disk: &'d dyn Disk, folder: &Path) -> Result<Timeline<'d>, Error> {
        let number = folder.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0);
        let path = folder.join(DESCRIPTION);
        let mut text = String::new();
        disk.open(&path)?.read_to_string(&mut text)?;
        let corrupt = |what: String| Corrupt { what, place: path.display().to_string() };
        let info: TimelineInfo = serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()))?;
        if info.version != VERSION {
            return Err(corrupt(format!(
                "format version {} is not supported; this program reads version {VERSION}",
                info.version
            ))
            .into());
        }
        Ok(Timeline { disk, folder: folder.to_owned(), number, info })
    }

    /// The folder with its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of its files, in their order.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn files(&self) -> io::Result<Vec<String>> {
        files(self.disk, &self.folder)
    }

    /// The files in its folder that are older than this one: those before it in the index, and those of its
    /// base name with lower numbers, which a killed run may have left.
    pub(super) fn older(&self, keep: &str) -> io::Result<Vec<String>> {
        let listed = listed(self.disk, &self.folder)?;
        let before = listed.iter().position(|file| file == keep).and_then(|at| listed.get(..at));
        let before = before.unwrap_or_default();
        let is_lower = |name: &str| {
            let (own, keep) = (numbered(name), numbered(keep));
            own.zip(keep).is_some_and(|((own, number), (base, keep))| own == base && number < keep)
        };
        let names = self.disk.list(&self.folder)?.into_iter().filter_map(|name| name.into_string().ok());
        let is_older = |name: &String| {
            let file = name.strip_suffix(arrival::END).unwrap_or(name);
            before.iter().any(|it| it == file) || is_lower(file)
        };
        Ok(names.filter(is_older).collect())
    }

    /// Makes this the timeline's first file. The index still lists older ones: only the archiver writes it.
    pub(super) fn begin_at(&self, file: &str) -> io::Result<()> {
        let mut output = Output::create(self.disk, &self.folder.join(FIRST))?;
        writeln!(output, "{file}")?;
        output.finish()
    }

    /// Its files, as the archiver counts them. A last file without events shows nothing of the server's
    /// history: then the file before it is compared, and the last one is begun again.
    fn begun(&self) -> Result<Vec<String>, Error> {
        let mut files = self.files()?;
        if let [_, .., last] = &*files
            && !tail::is_begun(self.disk, &self.folder.join(last))?
        {
            files.pop();
        }
        Ok(files)
    }

    /// How far its last file with events goes. `None` if it has no file yet.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Foreign`] for a file that can't be in an archive.
    pub fn tail(&self) -> Result<Option<Tail>, Error> {
        match self.begun()?.pop() {
            Some(name) => Tail::read(self.disk, &self.folder, name).map(Some),
            None => Ok(None),
        }
    }

    /// Resumes after a tail, and drops what follows it: an incomplete transaction.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn resume(&self, tail: &Tail) -> Result<Writer<'d>, Error> {
        let mut writer = self.writer()?;
        writer.resume(&tail.file, tail.end)?;
        Ok(writer)
    }

    /// Writes its first file, or the one after its last whole file. What exists already is durable from now
    /// on.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn writer(&self) -> Result<Writer<'d>, Error> {
        let files = self.begun()?;
        // Its writer may have been killed before syncing it, and what is archived counts as acknowledged.
        if let Some(last) = files.last() {
            self.disk.volume(&self.folder.join(last))?.sync()?;
        }
        // Syncs the names of its files, of its folder, and of the archive.
        self.folder.ancestors().take(3).try_for_each(|folder| self.disk.sync_folder(folder))?;
        Ok(Writer::new(self.disk, self.folder.clone(), self.folder.join(INDEX), files))
    }
}
