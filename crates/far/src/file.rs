//! Files of the other machine.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use disk::{Attributes, Batch, Disk, Entry, Extent, Guard, Kind, Share, Sink, Source, Stat, Tree, Volume};

use crate::connection::Connection;
use crate::request::{NO_BATCH, Request};
use crate::wire::{self, Decoder};

/// The most bytes that one request reads or writes.
const PIECE: usize = block::CHUNK;

/// The disk of the other machine. Locks do not go through it: those of a repository are held on the
/// repository's machine.
pub struct FarDisk(Connection);

/// Something that is open there. Writes are sent without waiting for an answer; their errors are returned by
/// the next request with an answer, at the latest by [`Sink::sync`] or [`Volume::sync`].
struct FarFile {
    connection: Connection,
    handle: u32,
    position: u64,
}

impl Connection {
    /// Its files.
    #[must_use]
    pub fn disk(&self) -> FarDisk {
        FarDisk::new(self.clone())
    }
}

impl FarDisk {
    pub(crate) fn new(connection: Connection) -> FarDisk {
        FarDisk(connection)
    }

    fn file(&self, request: &Request) -> io::Result<Box<FarFile>> {
        let handle = self.0.handle(request)?;
        Ok(Box::new(FarFile { connection: self.0.clone(), handle, position: 0 }))
    }
}

impl FarFile {
    fn tell(&self, request: &Request) -> io::Result<()> {
        self.connection.lock().tell(request)
    }

    fn state(&self) -> io::Result<Stat> {
        stat(&self.connection, &Request::StatOf(self.handle))
    }

    fn read_piece(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(PIECE);
        let request = Request::ReadAt(self.handle, at, u32::try_from(most).unwrap_or(u32::MAX));
        let bytes = wire::decompress(&self.connection.ask(&request)?, most)?;
        buffer.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
        Ok(bytes.len())
    }

    fn synced(&self) -> io::Result<()> {
        self.connection.ask_for_nothing(&Request::Sync(self.handle))
    }
}

impl Drop for FarFile {
    fn drop(&mut self) {
        // If the connection is gone it is closed anyway.
        self.tell(&Request::Close(self.handle)).ok();
    }
}

pub(crate) fn stat(connection: &Connection, request: &Request) -> io::Result<Stat> {
    let answer = connection.ask(request)?;
    let mut input = Decoder(&answer);
    let stat = input.stat()?;
    input.end()?;
    Ok(stat)
}

impl Read for FarFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_piece(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for FarFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = disk::seek(self.position, to, || Ok(self.state()?.len))?;
        Ok(self.position)
    }
}

impl Source for FarFile {
    fn stat(&self) -> io::Result<Stat> {
        self.state()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_piece(at, buffer)
    }

    fn absent(&self, _at: u64, _len: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        let answer = self.connection.ask(&Request::SkipHole(self.handle, at))?;
        let mut input = Decoder(&answer);
        let found = input.u64()?;
        input.end()?;
        Ok((found != u64::MAX).then_some(found))
    }

    fn prefetch(&self, _at: u64, _len: u64) {}

    fn forget(&self, _at: u64, _len: u64) {}
}

impl Volume for FarFile {
    fn stat(&self) -> io::Result<Stat> {
        self.state()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_piece(at, buffer)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut at = at;
        for piece in bytes.chunks(PIECE) {
            self.tell(&Request::WriteAt(self.handle, at, wire::compress(piece)?))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        self.tell(&Request::Clear(self.handle, at, len))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.tell(&Request::SetLen(self.handle, len))
    }

    fn sync(&self) -> io::Result<()> {
        self.synced()
    }
}

impl Write for FarFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        self.tell(&Request::Write(self.handle, piece.to_vec()))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for FarFile {
    fn sync(&mut self) -> io::Result<()> {
        self.synced()
    }
}

impl Batch for FarFile {
    fn sync(&self) -> io::Result<()> {
        self.synced()
    }
}

impl Disk for FarDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        Ok(self.file(&Request::Open(path.to_owned()))?)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        Ok(self.file(&Request::Create(path.to_owned()))?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.ask_for_nothing(&Request::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.ask_for_nothing(&Request::Remove(path.to_owned()))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.ask_for_nothing(&Request::SyncFolder(folder.to_owned()))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        stat(&self.0, &Request::Stat(path.to_owned()))
    }

    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>> {
        Ok(self.file(&Request::Append(path.to_owned(), len))?)
    }

    fn volume(&self, path: &Path) -> io::Result<Box<dyn Volume>> {
        Ok(self.file(&Request::Volume(path.to_owned()))?)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let answer = self.0.ask(&Request::List(folder.to_owned()))?;
        let mut input = Decoder(&answer);
        let names = input.list()?;
        input.end()?;
        Ok(names)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.ask_for_nothing(&Request::CreateFolder(folder.to_owned()))
    }

    fn batch(&self, folder: &Path) -> io::Result<Option<Box<dyn Batch>>> {
        let handle = self.0.handle(&Request::Batch(folder.to_owned()))?;
        if handle == NO_BATCH {
            return Ok(None);
        }
        Ok(Some(Box::new(FarFile { connection: self.0.clone(), handle, position: 0 })))
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.ask_for_nothing(&Request::RemoveFolder(folder.to_owned()))
    }

    fn lock(&self, _path: &Path, _share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "no locks on another machine"))
    }
}

impl Tree for FarDisk {
    fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let list = self.0.ask(&Request::Entries(folder.to_owned()))?;
        Decoder(&wire::decompress(&list, wire::LIST_MAX)?).all(Decoder::entry)
    }

    fn entry(&self, path: &Path) -> io::Result<Entry> {
        let answer = self.0.ask(&Request::Entry(path.to_owned()))?;
        let mut input = Decoder(&answer);
        let entry = input.entry()?;
        input.end()?;
        Ok(entry)
    }

    fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        self.0.ask_for_nothing(&Request::MakeLink(path.to_owned(), target.to_owned()))
    }

    fn set_attributes(&self, path: &Path, kind: &Kind, attributes: Attributes) -> io::Result<Attributes> {
        let is_link = matches!(kind, Kind::Link(_));
        let answer = self.0.ask(&Request::SetAttributes(path.to_owned(), is_link, attributes))?;
        let mut input = Decoder(&answer);
        let attributes = input.attributes()?;
        input.end()?;
        Ok(attributes)
    }

    fn set_extended(&self, path: &Path, name: &OsStr, value: &[u8]) -> io::Result<()> {
        self.0.ask_for_nothing(&Request::SetExtended(path.to_owned(), name.to_owned(), value.to_vec()))
    }

    fn make_hard_link(&self, path: &Path, file: &Path) -> io::Result<()> {
        self.0.ask_for_nothing(&Request::MakeHardLink(path.to_owned(), file.to_owned()))
    }

    fn free(&self, folder: &Path) -> io::Result<u64> {
        let answer = self.0.ask(&Request::Free(folder.to_owned()))?;
        let mut input = Decoder(&answer);
        let bytes = input.u64()?;
        input.end()?;
        Ok(bytes)
    }

    fn extents(&self, path: &Path) -> io::Result<Vec<Extent>> {
        let list = self.0.ask(&Request::Extents(path.to_owned()))?;
        Decoder(&wire::decompress(&list, wire::LIST_MAX)?).all(Decoder::extent)
    }
}
