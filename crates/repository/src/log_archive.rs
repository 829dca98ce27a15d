//! Archives of binary logs, wherever they are: the server's files in a folder, or segments of them in an
//! encrypted folder or in a store.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use binlog::archive::{self, segments};
use block::{EncryptedStore, Store};
use failure::usage;
use seal::Key;
use segments::SegmentArchive;

use crate::key_file::KeyFile;
use crate::location::Location;

/// How often it is tried to read while files are being removed, and the time between.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(250);
/// What a segment begins with that is not encrypted.
const CLEAR: &[u8] = b"remolog\n";

/// An archive.
pub enum Archive {
    /// The folder with its timelines.
    Files(PathBuf),
    /// Segments of the files, in an encrypted folder or a store.
    Segments(SegmentArchive),
}

/// Where the segments of an archive are written.
pub struct Place {
    /// The files of the archive.
    pub store: Box<dyn Store>,
    /// The backups beside it, if they are encrypted.
    pub sealed: Option<EncryptedStore>,
}

/// Whether the archive of a name is the server's files.
pub fn has_files(home: &Location) -> bool {
    let folder = home.folder().map(|folder| folder.join(archive::FOLDER));
    folder.is_some_and(|folder| {
        archive::timelines(&disk::RealDisk, &folder).is_ok_and(|timelines| !timelines.is_empty())
    })
}

/// Whether a name has a segmented archive.
pub fn has_segments(home: &Location) -> Result<bool> {
    let store = home.log().store();
    if home.folder().is_some_and(|folder| !folder.join(archive::FOLDER).is_dir()) {
        return Ok(false);
    }
    segments::is_there(&*store).with_context(|| home.shown())
}

/// Whether a name has an archive.
pub fn is_there(home: &Location) -> Result<bool> {
    Ok(has_files(home) || has_segments(home)?)
}

/// The place for the segments of a name, with the key that opens it.
pub fn place(home: &Location, key: Option<&Key>) -> Result<Place> {
    let (own, log, is_encrypted) = (home.store(), home.log().store(), home.is_encrypted()?);
    let Some(key) = key else {
        if is_encrypted {
            return Err(block::Error::Key(format!(
                "{} is encrypted: give its key with --key FILE, or name the file in REMORA_KEY",
                home.shown()
            ))
            .into());
        }
        return Ok(Place { store: log, sealed: None });
    };
    if is_clear(&*log)? {
        return Err(usage(format!(
            "the log that is archived in {} is not encrypted: leave out the key, or archive under another name",
            home.shown()
        )));
    }
    let sealed = EncryptedStore::open(own, key)?;
    Ok(Place { store: Box::new(sealed.beside(log)?), sealed: Some(sealed) })
}

/// Whether there are segments, and none of them is encrypted. Somebody may have put some in clear beside
/// those that are.
fn is_clear(log: &dyn Store) -> Result<bool> {
    let mut names = log.list().with_context(|| log.shown(""))?;
    names.retain(|name| archive::segment::numbers(name).is_some());
    // The newest first, which is never compacted away meanwhile.
    names.sort_unstable();
    for name in names.iter().rev() {
        let mut first = Vec::new();
        let source = log.open(name).with_context(|| log.shown(name))?;
        source.take(CLEAR.len() as u64).read_to_end(&mut first).with_context(|| log.shown(name))?;
        if first != CLEAR {
            return Ok(false);
        }
    }
    Ok(!names.is_empty())
}

/// The archive of a name, for who reads it or removes from it. None if it has none.
pub fn find(home: &Location, key: Option<&Key>) -> Result<Option<Archive>> {
    if has_segments(home)? {
        return Ok(Some(Archive::Segments(open(home, own(home, key))?)));
    }
    let folder = home.folder().map(|folder| folder.join(archive::FOLDER));
    Ok(folder.filter(|_| has_files(home)).map(Archive::Files))
}

/// The place of the segments of a name, for who removes some.
pub fn keyed(home: &Location, key: Option<&Key>) -> Result<Box<dyn Store>> {
    Ok(place(home, own(home, key))?.store)
}

/// The key, if it is that of this name: it may be given for other ones.
fn own<'k>(home: &Location, key: Option<&'k Key>) -> Option<&'k Key> {
    key.filter(|_| home.is_encrypted().unwrap_or(true))
}

/// The segments of a name.
pub fn open(home: &Location, key: Option<&Key>) -> Result<SegmentArchive> {
    let goes_on = AtomicBool::new(false);
    for _ in 0..TRIES {
        let store = place(home, key)?.store;
        if let Some(segments) = SegmentArchive::open(store).with_context(|| home.log().shown())? {
            return Ok(segments);
        }
        progress::pause(PAUSE, &goes_on);
    }
    let text = format!("{}: files are being removed all the time; try again", home.log().shown());
    Err(failure::busy(text))
}

/// The same, for who wants to know what the log says.
pub fn open_to_read(home: &Location, key: &KeyFile) -> Result<SegmentArchive> {
    let is_sealed = home.is_encrypted()?;
    let key = if is_sealed { key.read_full()? } else { None };
    open(home, key.as_ref())
}

/// The name, and the number of a timeline, in `REPO/NAME/log/000001`.
pub fn timeline(path: &Path) -> Option<(&Path, u32)> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let log = path.parent().filter(|log| log.file_name().is_some_and(|name| name == archive::FOLDER))?;
    Some((log.parent()?, number))
}
