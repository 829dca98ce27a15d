//! Copies the files of a repository to another place as they are, even without the key of an encrypted one.
//!
//! Numbered files never change, so existing ones are not copied again. A file is copied after those that it
//! refers to, which have lower numbers.
//!
//! The mirror keeps generations that the source has removed: the mirror's note (`mirror_note`) says which of
//! its files contain generations. So both sides are pruned independently.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering;

use disk::{Guard, Share};

use crate::Error;
use crate::backup::RunContext;
use crate::catalogue::Catalogue;
use crate::file;
use crate::file_kind::{Kind, kind};
pub use crate::file_kind::{is_lasting, never_changes};
use crate::format::TRAILER_BYTES;
use crate::mirror_note::{self, MirrorNote};
use crate::repository::READER_LOCK;
use crate::store::{Folder, Store, WRITER_LOCK};

/// Bytes per read.
const PIECE: usize = 8 << 20;

/// Reads a part of the file that is being added.
pub type ReadPart<'a> = dyn FnMut(u64, usize) -> io::Result<Vec<u8>> + 'a;

/// A file that is added to a place.
pub struct NewFile<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its length in bytes.
    pub len: u64,
    /// Whether it replaces another one of its name.
    pub replaces: bool,
}

/// One side of a mirror: the place with the files of one name of a repository. Files appear complete.
pub trait MirrorSide {
    /// All files, with their lengths. A place that does not exist has none.
    ///
    /// # Errors
    /// Those of the place.
    fn list(&self) -> io::Result<BTreeMap<String, u64>>;

    /// Reads exactly `len` bytes of a file.
    ///
    /// # Errors
    /// `NotFound`, `UnexpectedEof`, and others of the place.
    fn read(&self, name: &str, at: u64, len: usize) -> io::Result<Vec<u8>>;

    /// Adds a file, whole and durable or not at all.
    ///
    /// # Errors
    /// `AlreadyExists` if another file of its name exists that it does not replace; those of the place and of
    /// `piece`.
    fn add(&self, file: &NewFile<'_>, piece: &mut ReadPart<'_>) -> io::Result<()>;

    /// Retains a file, as [`Store::retain`] does.
    ///
    /// # Errors
    /// Those of the place.
    fn retain(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    /// Keeps other runs from writing, if `writes`, or from removing files, as far as the place needs that.
    ///
    /// # Errors
    /// `ResourceBusy` when another run holds it; those of the place.
    fn hold(&self, writes: bool) -> io::Result<Option<Box<dyn Guard>>>;

    /// A file's name in messages.
    fn shown(&self, name: &str) -> String;
}

impl MirrorSide for Folder {
    fn list(&self) -> io::Result<BTreeMap<String, u64>> {
        let names = Store::list(self)?.into_iter().filter(|name| kind(name).is_some());
        names.map(|name| Ok((name.clone(), self.open(&name)?.stat()?.len))).collect()
    }

    fn read(&self, name: &str, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        if self.open(name)?.read_full_at(at, &mut bytes)? < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    fn add(&self, file: &NewFile<'_>, piece: &mut ReadPart<'_>) -> io::Result<()> {
        let mut upload = self.create(file.name)?;
        let mut at = 0;
        while at < file.len {
            let bytes = piece(at, next(file.len, at))?;
            upload.write_all(&bytes)?;
            at += bytes.len() as u64;
        }
        upload.finish()
    }

    fn hold(&self, writes: bool) -> io::Result<Option<Box<dyn Guard>>> {
        hold(self, writes)
    }

    fn shown(&self, name: &str) -> String {
        Store::shown(self, name)
    }
}

/// [`MirrorSide::hold`] of a place that is a store.
///
/// # Errors
/// `ResourceBusy` when another run holds it; those of the store.
pub fn hold(store: &dyn Store, writes: bool) -> io::Result<Option<Box<dyn Guard>>> {
    let held = if writes {
        store.lock(WRITER_LOCK, Share::Exclusive)
    } else {
        store.lock(READER_LOCK, Share::Shared)
    };
    match held {
        Ok(None) => Err(io::Error::new(io::ErrorKind::ResourceBusy, store.in_use())),
        // If no lock can be written, nobody can remove files there either.
        Err(error)
            if !writes
                && matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
                ) =>
        {
            Ok(None)
        }
        held => held,
    }
}

/// The result of mirroring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Files that were copied.
    pub copied: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were there already.
    pub there: u64,
}

/// A place with its notes as they were before its files were listed: a concurrent backup adds a file and then
/// its note, and the note must not be copied without the file.
struct NotesSnapshot<'a> {
    place: &'a dyn MirrorSide,
    notes: BTreeMap<String, Vec<u8>>,
}

impl NotesSnapshot<'_> {
    fn of(place: &dyn MirrorSide) -> Result<(NotesSnapshot<'_>, BTreeMap<String, u64>), Error> {
        let list = || place.list().map_err(Error::store(place.shown("")));
        let is_note = |name: &str| kind(name) == Some(Kind::Note);
        let mut before = list()?;
        loop {
            let mut notes = BTreeMap::new();
            for (name, len) in before.iter().filter(|(name, _)| is_note(name)) {
                let len = usize::try_from(*len).unwrap_or(usize::MAX);
                match place.read(name, 0, len) {
                    // It was replaced by a shorter one.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                    bytes => {
                        drop(notes.insert(name.clone(), bytes.map_err(Error::store(place.shown(name)))?))
                    }
                }
            }
            let files = list()?;
            let is_same = |(name, len): (&String, &u64)| {
                !is_note(name) || notes.get(name).is_some_and(|note| note.len() as u64 == *len)
            };
            if files.iter().all(is_same) {
                return Ok((NotesSnapshot { place, notes }, files));
            }
            before = files;
        }
    }
}

impl MirrorSide for NotesSnapshot<'_> {
    fn list(&self) -> io::Result<BTreeMap<String, u64>> {
        self.place.list()
    }

    fn read(&self, name: &str, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let Some(note) = self.notes.get(name) else { return self.place.read(name, at, len) };
        let rest = usize::try_from(at).ok().and_then(|at| note.get(at..)?.get(..len));
        rest.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn add(&self, file: &NewFile<'_>, piece: &mut ReadPart<'_>) -> io::Result<()> {
        self.place.add(file, piece)
    }

    fn hold(&self, writes: bool) -> io::Result<Option<Box<dyn Guard>>> {
        self.place.hold(writes)
    }

    fn shown(&self, name: &str) -> String {
        self.place.shown(name)
    }
}

/// Copies the files of `from` that `to` lacks, and reads the copies back. With `compare`, existing files are
/// compared by content and not only by length. Nothing is removed, and generations that `from` has removed
/// stay in `to`.
///
/// While it runs for the first time, the copy of a pruned repository may also show a removed generation.
///
/// # Errors
/// [`Error::Corrupt`] if a file in `to` differs; if its length shows that, nothing is copied.
/// [`Error::Busy`], [`Error::Stopped`], and those of the places. Files that were copied stay, and are not
/// copied again.
pub fn mirror(
    from: &dyn MirrorSide,
    to: &dyn MirrorSide,
    compare: bool,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    let _source = lock_side(from, false)?;
    let there = to.list().map_err(Error::store(to.shown("")))?;
    let (from, files) = NotesSnapshot::of(from)?;
    let from = &from;
    let known = SourceFiles::of(from, &files)?;
    let mut wanted: Vec<(Kind, String, u64)> = files
        .into_iter()
        .filter_map(|(name, len)| Some((kind(&name)?, name, len)))
        .filter(|(kind, name, _)| *kind != Kind::Mirror && known.counts(name))
        .collect();
    // The archive of a log may exist before the first backup, with its keys beside it.
    if wanted.is_empty() {
        return Err(Error::Missing(format!("there is no backup in {}", from.shown(""))));
    }
    for (kind, name, len) in &wanted {
        let other = there.get(name).filter(|there| **there != *len && *kind <= Kind::Log);
        if other.is_some() {
            return Err(differs(from, to, name));
        }
    }
    let _target = lock_side(to, true)?;
    must_continue(from, to, &wanted, &there)?;
    let note = note_of(to, &there)?;
    // The first catalogue hides what was pruned before; a later one would name files that are missing.
    let is_first = !there.keys().any(|name| kind(name) == Some(Kind::Blocks));
    wanted.sort_by_key(|(kind, name, _)| {
        let early = is_first && *kind == Kind::Catalogue;
        (if early { Kind::Keys } else { *kind }, file::number(name), name.clone())
    });
    // A catalogue that says what files contained when they were copied is kept as it was.
    let stay = note.as_ref().map(MirrorNote::catalogues).unwrap_or_default();
    let stays = |name: &str| {
        there.contains_key(name) && Catalogue::number(name).is_some_and(|number| stay.contains(&number))
    };
    wanted.retain(|(_, name, _)| !stays(name));
    let summary = copy_all(&Copied { from, to, there: &there, compare }, &wanted, context)?;
    keep_note((&known, &wanted), (to, note, &there))?;
    Ok(summary)
}

/// An error if the newest file that both have ends otherwise in each. Where a repository was made again,
/// files have the former names, and may have the former lengths. The trailer has the hash of all before it.
fn must_continue(
    from: &dyn MirrorSide,
    to: &dyn MirrorSide,
    wanted: &[(Kind, String, u64)],
    there: &BTreeMap<String, u64>,
) -> Result<(), Error> {
    let both = wanted.iter().filter(|(kind, name, _)| *kind == Kind::Blocks && there.contains_key(name));
    let Some((_, name, len)) = both.max_by_key(|(_, name, _)| file::number(name)) else { return Ok(()) };
    let Some(at) = len.checked_sub(TRAILER_BYTES as u64) else { return Ok(()) };
    let end =
        |side: &dyn MirrorSide| side.read(name, at, TRAILER_BYTES).map_err(Error::store(side.shown(name)));
    if end(from)? == end(to)? { Ok(()) } else { Err(differs(from, to, name)) }
}

/// From where to where files are copied.
struct Copied<'a> {
    from: &'a dyn MirrorSide,
    to: &'a dyn MirrorSide,
    /// The files at the target, with their lengths in bytes.
    there: &'a BTreeMap<String, u64>,
    /// Whether files that are there are compared, too.
    compare: bool,
}

/// Copies files, in this order, unless they exist and are the same.
fn copy_all(
    copied: &Copied<'_>,
    files: &[(Kind, String, u64)],
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    let Copied { from, to, there, compare } = *copied;
    // Before anything is added that refers to them.
    for (_, name, _) in files.iter().filter(|(_, name, _)| there.contains_key(name)) {
        to.retain(name).map_err(Error::store(to.shown(name)))?;
    }
    let reads = |kind: Kind, name: &str| compare || kind > Kind::Log || !there.contains_key(name);
    let bytes = files.iter().filter(|(kind, name, _)| reads(*kind, name)).map(|(.., len)| len).sum();
    context.progress.phase("copying", Some(bytes));
    let mut summary = Summary::default();
    for (kind, name, len) in files {
        let known = there.get(name).copied();
        let same = match known {
            None => false,
            Some(_) if !reads(*kind, name) => true,
            Some(other) if other != *len => false,
            Some(_) => hash(to, name, *len, context)? == hash(from, name, *len, context)?,
        };
        match known {
            Some(_) if same => summary.there += 1,
            Some(_) if *kind <= Kind::Log => return Err(differs(from, to, name)),
            _ => {
                copy(from, to, &NewFile { name, len: *len, replaces: known.is_some() }, context)?;
                summary.copied += 1;
                summary.bytes += len;
            }
        }
        if reads(*kind, name) {
            context.progress.read(*len);
        }
    }
    Ok(summary)
}

/// What the source knows about its files.
struct SourceFiles {
    /// The newest catalogue; 0 for none.
    through: u64,
    /// Its own note, if it is a mirror.
    note: Option<MirrorNote>,
}

impl SourceFiles {
    fn of(from: &dyn MirrorSide, files: &BTreeMap<String, u64>) -> Result<SourceFiles, Error> {
        let note = note_of(from, files)?;
        if note.is_none() && files.contains_key(mirror_note::NAME) {
            let what =
                "the mirror's note is damaged; run 'remora mirror' into this place again to rewrite it";
            return Err(Error::corrupt(from.shown(mirror_note::NAME), what));
        }
        Ok(SourceFiles { through: Catalogue::newest_of(files.keys()), note })
    }

    /// Whether a file is anything but a superseded catalogue.
    fn counts(&self, name: &str) -> bool {
        let is_referred = |number| self.note.as_ref().is_some_and(|note| note.catalogues().contains(&number));
        Catalogue::number(name).is_none_or(|number| number == self.through || is_referred(number))
    }
}

/// Updates the mirror's note about its files, if needed.
fn keep_note(
    (known, files): (&SourceFiles, &[(Kind, String, u64)]),
    (to, note, there): (&dyn MirrorSide, Option<MirrorNote>, &BTreeMap<String, u64>),
) -> Result<(), Error> {
    let source: BTreeSet<u64> = files.iter().filter_map(|(_, name, _)| file::number(name)).collect();
    let before: BTreeSet<u64> = there.keys().filter_map(|name| file::number(name)).collect();
    let now: BTreeSet<u64> = before.union(&source).copied().collect();
    // The archive of a log has no generations.
    if now.is_empty() {
        return Ok(());
    }
    let mut new = note.clone().unwrap_or_else(|| MirrorNote::new(&to.shown("")));
    new.update((known.note.as_ref(), known.through, &source), (&before, &now));
    if note.as_ref() == Some(&new) {
        return Ok(());
    }
    add_note(&new, to, there.contains_key(mirror_note::NAME))
}

fn lock_side(place: &dyn MirrorSide, writes: bool) -> Result<Option<Box<dyn Guard>>, Error> {
    place.hold(writes).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => Error::Busy(error.to_string()),
        _ => Error::Store { name: place.shown(""), source: error },
    })
}

fn differs(from: &dyn MirrorSide, to: &dyn MirrorSide, name: &str) -> Error {
    let text = format!(
        "this file differs from {}: one of them is damaged, or backups were made on both sides; 'remora \
         verify' of both says which; until then mirror to another place, and remove nothing",
        from.shown(name)
    );
    Error::corrupt(to.shown(name), text)
}

fn next(len: u64, at: u64) -> usize {
    usize::try_from(len - at).map_or(PIECE, |rest| rest.min(PIECE))
}

/// Copies a file and reads the copy.
fn copy(
    from: &dyn MirrorSide,
    to: &dyn MirrorSide,
    adding: &NewFile<'_>,
    context: RunContext<'_>,
) -> Result<(), Error> {
    let mut unread = None;
    // A place may read a part twice.
    let (mut hasher, mut hashed) = (blake3::Hasher::new(), 0);
    let added = to.add(adding, &mut |at, len| {
        if context.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let bytes = from.read(adding.name, at, len).map_err(|error| {
            let kind = error.kind();
            unread = Some(error);
            io::Error::from(kind)
        })?;
        if at == hashed {
            hasher.update(&bytes);
            hashed += len as u64;
        }
        Ok(bytes)
    });
    match added {
        Ok(()) => {}
        Err(_) if context.stop.load(Ordering::Relaxed) => return Err(Error::Stopped),
        Err(source) => {
            return Err(match unread {
                Some(source) => Error::Store { name: from.shown(adding.name), source },
                None => Error::Store { name: to.shown(adding.name), source },
            });
        }
    }
    if hash(to, adding.name, adding.len, context)? != hasher.finalize() {
        return Err(differs(from, to, adding.name));
    }
    Ok(())
}

fn hash(
    place: &dyn MirrorSide,
    name: &str,
    len: u64,
    context: RunContext<'_>,
) -> Result<blake3::Hash, Error> {
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < len {
        if context.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let bytes = place.read(name, at, next(len, at)).map_err(Error::store(place.shown(name)))?;
        hasher.update(&bytes);
        at += bytes.len() as u64;
    }
    Ok(hasher.finalize())
}

/// The note of one side of a mirror. A damaged one counts as none.
fn note_of(place: &dyn MirrorSide, files: &BTreeMap<String, u64>) -> Result<Option<MirrorNote>, Error> {
    let Some(len) = files.get(mirror_note::NAME) else { return Ok(None) };
    let len = usize::try_from(*len).unwrap_or(usize::MAX);
    let bytes =
        place.read(mirror_note::NAME, 0, len).map_err(Error::store(place.shown(mirror_note::NAME)))?;
    Ok(MirrorNote::parse(&bytes))
}

/// Writes the note of a mirror.
fn add_note(note: &MirrorNote, place: &dyn MirrorSide, replaces: bool) -> Result<(), Error> {
    let bytes = note.encode();
    let adding = NewFile { name: mirror_note::NAME, len: bytes.len() as u64, replaces };
    let mut piece = |at: u64, len: usize| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        Ok(bytes.get(at..).and_then(|rest| rest.get(..len)).unwrap_or_default().to_vec())
    };
    place.add(&adding, &mut piece).map_err(Error::store(place.shown(mirror_note::NAME)))
}
