//! The frames that both sides exchange. Bytes in, bytes out.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use block::{BLOCK, Blocks, CHUNK, Want};
use disk::{Attributes, Entry, Extent, Kind, Stat};

/// Version of what is said. Both sides come from the same build, so there is no negotiation.
pub const VERSION: u32 = 1;
/// What a greeting begins with.
pub(crate) const MAGIC: &[u8; 8] = b"remofar\n";
/// Blocks of a chunk.
pub(crate) const BLOCKS: usize = CHUNK / BLOCK;
/// Most bytes of a frame: a chunk that does not compress, and something to say about it.
const FRAME_MAX: usize = CHUNK + (1 << 20);

/// The kind of a frame that answers.
pub(crate) const OK: u8 = 0;
/// The kind of a frame that tells of an error.
pub(crate) const ERROR: u8 = 1;

/// Writes a frame: length of what follows (4 bytes, little-endian), kind (1), payload.
pub(crate) fn send(output: &mut dyn Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let len = u32::try_from(payload.len() + 1).map_err(|_| corrupt("a frame is too long"))?;
    output.write_all(&len.to_le_bytes())?;
    output.write_all(&[kind])?;
    output.write_all(payload)
}

/// Reads a frame; `None` at the end of the input.
pub(crate) fn receive(input: &mut dyn Read) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut len = [0; 4];
    let first = loop {
        match input.read(&mut len) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    let (_, rest) = len.split_at_mut(first);
    input.read_exact(rest)?;
    let len = u32::from_le_bytes(len) as usize;
    if len == 0 || len > FRAME_MAX {
        return Err(corrupt("a frame has an impossible length"));
    }
    let mut kind = [0];
    input.read_exact(&mut kind)?;
    let mut payload = Vec::new();
    // Memory is asked for as it is filled, not as it is promised.
    input.take(len as u64 - 1).read_to_end(&mut payload)?;
    if payload.len() + 1 != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((kind[0], payload)))
}

pub(crate) fn corrupt(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Builds a payload.
#[derive(Default)]
pub(crate) struct Out(pub(crate) Vec<u8>);

impl Out {
    pub(crate) fn u8(mut self, value: u8) -> Out {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Out {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Out {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Bytes with their number before them.
    pub(crate) fn bytes(self, value: &[u8]) -> Out {
        let mut out = self.u64(value.len() as u64);
        out.0.extend_from_slice(value);
        out
    }

    pub(crate) fn path(self, path: &Path) -> Out {
        self.bytes(path.as_os_str().as_bytes())
    }

    pub(crate) fn list<'a>(self, values: impl ExactSizeIterator<Item = &'a OsStr>) -> Out {
        let out = self.u64(values.len() as u64);
        values.fold(out, |out, value| out.bytes(value.as_bytes()))
    }

    pub(crate) fn stat(self, stat: &Stat) -> Out {
        let mut out = self.u64(stat.len);
        out.0.extend_from_slice(&stat.modified_ns.to_le_bytes());
        out.u8(u8::from(stat.regular)).u8(u8::from(stat.block_device))
    }

    pub(crate) fn attributes(self, attributes: &Attributes) -> Out {
        let mut out = self.u32(attributes.mode).u32(attributes.uid).u32(attributes.gid);
        out.0.extend_from_slice(&attributes.modified_ns.to_le_bytes());
        out
    }

    pub(crate) fn entry(self, entry: &Entry) -> Out {
        let out = self.bytes(entry.name.as_bytes());
        let out = match &entry.kind {
            Kind::File => out.u8(0),
            Kind::Folder => out.u8(1),
            Kind::Link(target) => out.u8(2).bytes(target.as_bytes()),
            Kind::Other => out.u8(3),
        };
        out.u64(entry.len).u64(entry.device).attributes(&entry.attributes)
    }

    pub(crate) fn extent(self, extent: &Extent) -> Out {
        self.u64(extent.logical).u64(extent.physical).u64(extent.len).u32(extent.flags)
    }

    /// All that is left of the payload, without a number.
    pub(crate) fn rest(mut self, value: &[u8]) -> Out {
        self.0.extend_from_slice(value);
        self
    }
}

/// Takes a payload apart.
pub(crate) struct In<'a>(pub(crate) &'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| corrupt("a frame is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> io::Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn flag(&mut self) -> io::Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(corrupt("neither yes nor no")),
        }
    }

    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let len = self.u64()?;
        self.take(usize::try_from(len).map_err(|_| corrupt("a length is impossible"))?)
    }

    pub(crate) fn path(&mut self) -> io::Result<PathBuf> {
        Ok(self.text()?.into())
    }

    pub(crate) fn text(&mut self) -> io::Result<OsString> {
        Ok(OsString::from_vec(self.bytes()?.to_vec()))
    }

    pub(crate) fn list(&mut self) -> io::Result<Vec<OsString>> {
        let count = self.u64()?;
        (0..count).map(|_| self.text()).collect()
    }

    pub(crate) fn stat(&mut self) -> io::Result<Stat> {
        Ok(Stat {
            len: self.u64()?,
            modified_ns: i128::from_le_bytes(self.array()?),
            regular: self.u8()? != 0,
            block_device: self.u8()? != 0,
        })
    }

    pub(crate) fn attributes(&mut self) -> io::Result<Attributes> {
        let (mode, uid, gid) = (self.u32()?, self.u32()?, self.u32()?);
        Ok(Attributes { mode, uid, gid, modified_ns: i128::from_le_bytes(self.array()?) })
    }

    pub(crate) fn entry(&mut self) -> io::Result<Entry> {
        let name = self.text()?;
        let kind = match self.u8()? {
            0 => Kind::File,
            1 => Kind::Folder,
            2 => Kind::Link(self.text()?),
            _ => Kind::Other,
        };
        Ok(Entry { name, kind, len: self.u64()?, device: self.u64()?, attributes: self.attributes()? })
    }

    pub(crate) fn extent(&mut self) -> io::Result<Extent> {
        Ok(Extent { logical: self.u64()?, physical: self.u64()?, len: self.u64()?, flags: self.u32()? })
    }

    /// All that is left, one after the other.
    pub(crate) fn all<T>(&mut self, one: impl Fn(&mut In<'a>) -> io::Result<T>) -> io::Result<Vec<T>> {
        let mut all = Vec::new();
        while !self.0.is_empty() {
            all.push(one(self)?);
        }
        Ok(all)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn end(self) -> io::Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(corrupt("a frame is too long")) }
    }
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code; 128 and the number of a signal that ended it.
    pub code: u8,
    /// What it wrote to its standard output.
    pub output: Vec<u8>,
    /// What it wrote to its standard error.
    pub errors: Vec<u8>,
}

impl Ran {
    pub(crate) fn encode(&self) -> Vec<u8> {
        Out::default().u8(self.code).bytes(&self.output).bytes(&self.errors).0
    }

    pub(crate) fn decode(payload: &[u8]) -> io::Result<Ran> {
        let mut input = In(payload);
        let ran = Ran { code: input.u8()?, output: input.bytes()?.to_vec(), errors: input.bytes()?.to_vec() };
        input.end()?;
        Ok(ran)
    }
}

/// The state of a block device or file that was opened: its number is what later requests call it.
pub type Handle = u32;

/// What the near side asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The state of a file by name: a state.
    Stat(PathBuf),
    /// Opens for reading: a handle.
    Open(PathBuf),
    /// Makes a new file: a handle.
    Create(PathBuf),
    /// Opens for writing from an offset on: a handle.
    Append(PathBuf, u64),
    /// Opens for reading and writing in place: a handle.
    Volume(PathBuf),
    /// Gives another name: nothing.
    Rename(PathBuf, PathBuf),
    /// Removes a file: nothing.
    Remove(PathBuf),
    /// Makes the names in a folder durable: nothing.
    SyncFolder(PathBuf),
    /// The names in a folder: a list.
    List(PathBuf),
    /// Makes a folder: nothing.
    CreateFolder(PathBuf),
    /// Removes an empty folder: nothing.
    RemoveFolder(PathBuf),
    /// The state of what is open: a state.
    StatOf(Handle),
    /// Reads at an offset as many bytes at most: the bytes, compressed.
    ReadAt(Handle, u64, u32),
    /// Where data begins from an offset on: an offset, or the highest number.
    SkipHole(Handle, u64),
    /// Writes at the end: no answer; an error is the answer to the next request that has one.
    Write(Handle, Vec<u8>),
    /// Writes at an offset: as `Write`. The bytes are compressed.
    WriteAt(Handle, u64, Vec<u8>),
    /// Makes a range zeros: as `Write`.
    Clear(Handle, u64, u64),
    /// Gives a length: as `Write`.
    SetLen(Handle, u64),
    /// Makes what was written durable: nothing.
    Sync(Handle),
    /// Closes: no answer.
    Close(Handle),
    /// Begins to read what is open from front to end: nothing.
    Scan(Handle),
    /// Announces a chunk by its number, of so many bytes, and what is wanted of it: a chunk.
    Expect(u64, u32, Want),
    /// Runs a command: what it did.
    Run(Vec<OsString>),
    /// What is in a folder: entries, compressed.
    Entries(PathBuf),
    /// Makes a symbolic link to what is named second: nothing.
    MakeLink(PathBuf, PathBuf),
    /// Gives attributes to something, a link or not: nothing.
    SetAttributes(PathBuf, bool, Attributes),
    /// Where a file lies: extents, compressed.
    Extents(PathBuf),
    /// Begins a volume of so many bytes, made of files: a handle.
    Join(u64),
    /// Adds bytes to it at a place: as `Write`.
    AddBytes(Handle, u64, Vec<u8>),
    /// Adds so many bytes of a file to it at a place, from an offset on: as `Write`.
    AddFile(Handle, u64, u64, u64, PathBuf),
}

impl Request {
    /// Kind and payload of its frame.
    #[must_use]
    pub fn encode(&self) -> (u8, Vec<u8>) {
        let out = Out::default();
        let (kind, out) = match self {
            Request::Stat(path) => (2, out.path(path)),
            Request::Open(path) => (3, out.path(path)),
            Request::Create(path) => (4, out.path(path)),
            Request::Append(path, len) => (5, out.path(path).u64(*len)),
            Request::Volume(path) => (6, out.path(path)),
            Request::Rename(from, to) => (7, out.path(from).path(to)),
            Request::Remove(path) => (8, out.path(path)),
            Request::SyncFolder(path) => (9, out.path(path)),
            Request::List(path) => (10, out.path(path)),
            Request::CreateFolder(path) => (11, out.path(path)),
            Request::RemoveFolder(path) => (12, out.path(path)),
            Request::StatOf(handle) => (13, out.u32(*handle)),
            Request::ReadAt(handle, at, len) => (14, out.u32(*handle).u64(*at).u32(*len)),
            Request::SkipHole(handle, at) => (15, out.u32(*handle).u64(*at)),
            Request::Write(handle, bytes) => (16, out.u32(*handle).rest(bytes)),
            Request::WriteAt(handle, at, bytes) => (17, out.u32(*handle).u64(*at).rest(bytes)),
            Request::Clear(handle, at, len) => (18, out.u32(*handle).u64(*at).u64(*len)),
            Request::SetLen(handle, len) => (19, out.u32(*handle).u64(*len)),
            Request::Sync(handle) => (20, out.u32(*handle)),
            Request::Close(handle) => (21, out.u32(*handle)),
            Request::Scan(handle) => (22, out.u32(*handle)),
            Request::Expect(number, bytes, want) => {
                let out = out.u64(*number).u32(*bytes);
                let out = match want {
                    Want::All(None) => out,
                    Want::All(Some(known)) => out.rest(known.as_flattened()),
                    Want::Blocks(blocks) => out.rest(&mask_of(blocks)),
                };
                (23, out)
            }
            Request::Run(command) => (24, out.list(command.iter().map(OsString::as_os_str))),
            Request::Entries(path) => (25, out.path(path)),
            Request::MakeLink(path, target) => (26, out.path(path).path(target)),
            Request::SetAttributes(path, link, attributes) => {
                (27, out.path(path).u8(u8::from(*link)).attributes(attributes))
            }
            Request::Extents(path) => (28, out.path(path)),
            Request::Join(len) => (29, out.u64(*len)),
            Request::AddBytes(handle, at, bytes) => (30, out.u32(*handle).u64(*at).rest(bytes)),
            Request::AddFile(handle, at, len, offset, path) => {
                (31, out.u32(*handle).u64(*at).u64(*len).u64(*offset).path(path))
            }
        };
        (kind, out.0)
    }

    /// What a frame asks for.
    ///
    /// # Errors
    /// `InvalidData` for anything that [`Request::encode`] does not make.
    pub fn decode(kind: u8, payload: &[u8]) -> io::Result<Request> {
        let mut input = In(payload);
        let request = match kind {
            2 => Request::Stat(input.path()?),
            3 => Request::Open(input.path()?),
            4 => Request::Create(input.path()?),
            5 => Request::Append(input.path()?, input.u64()?),
            6 => Request::Volume(input.path()?),
            7 => Request::Rename(input.path()?, input.path()?),
            8 => Request::Remove(input.path()?),
            9 => Request::SyncFolder(input.path()?),
            10 => Request::List(input.path()?),
            11 => Request::CreateFolder(input.path()?),
            12 => Request::RemoveFolder(input.path()?),
            13 => Request::StatOf(input.u32()?),
            14 => Request::ReadAt(input.u32()?, input.u64()?, input.u32()?),
            15 => Request::SkipHole(input.u32()?, input.u64()?),
            16 => Request::Write(input.u32()?, input.rest().to_vec()),
            17 => Request::WriteAt(input.u32()?, input.u64()?, input.rest().to_vec()),
            18 => Request::Clear(input.u32()?, input.u64()?, input.u64()?),
            19 => Request::SetLen(input.u32()?, input.u64()?),
            20 => Request::Sync(input.u32()?),
            21 => Request::Close(input.u32()?),
            22 => Request::Scan(input.u32()?),
            23 => Request::Expect(input.u64()?, input.u32()?, want(input.rest())?),
            24 => Request::Run(input.list()?),
            25 => Request::Entries(input.path()?),
            26 => Request::MakeLink(input.path()?, input.path()?),
            27 => Request::SetAttributes(input.path()?, input.flag()?, input.attributes()?),
            28 => Request::Extents(input.path()?),
            29 => Request::Join(input.u64()?),
            30 => Request::AddBytes(input.u32()?, input.u64()?, input.rest().to_vec()),
            31 => Request::AddFile(input.u32()?, input.u64()?, input.u64()?, input.u64()?, input.path()?),
            _ => return Err(corrupt("a request that nobody knows")),
        };
        input.end()?;
        Ok(request)
    }
}

/// What is wanted of a chunk: all of it, what differs from the hashes of all its blocks, or some of these.
fn want(bytes: &[u8]) -> io::Result<Want> {
    if let Ok(mask) = bytes.try_into() {
        return Ok(Want::Blocks(blocks_of(mask)));
    }
    let (hashes, rest) = bytes.as_chunks::<16>();
    match (hashes.len(), rest) {
        (0, []) => Ok(Want::All(None)),
        (BLOCKS, []) => Ok(Want::All(Some(hashes.to_vec()))),
        _ => Err(corrupt("hashes of a chunk are missing")),
    }
}

/// A bit for each block, the lowest first.
pub(crate) type Mask = [u8; BLOCKS / 8];

pub(crate) fn mask_of(blocks: &Blocks) -> Mask {
    let mut mask = [0; BLOCKS / 8];
    for (byte, bits) in mask.iter_mut().zip(blocks.chunks(8)) {
        *byte = bits.iter().rev().fold(0, |byte, set| byte << 1 | u8::from(*set));
    }
    mask
}

pub(crate) fn blocks_of(mask: &Mask) -> Blocks {
    Box::new(std::array::from_fn(|number| {
        mask.get(number / 8).is_some_and(|bits| bits >> (number % 8) & 1 == 1)
    }))
}

/// The kinds of errors that a caller decides by; their number on the wire is their place here, from 1.
const KINDS: [io::ErrorKind; 7] = [
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::NotFound,
    io::ErrorKind::AlreadyExists,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::ResourceBusy,
    io::ErrorKind::StorageFull,
    io::ErrorKind::InvalidData,
];

/// An error as it is sent: the operating system's number, or 0 if it has none; its kind; its words.
pub(crate) fn encode_error(error: &io::Error) -> Vec<u8> {
    let number = error.raw_os_error().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let kind = KINDS.iter().zip(1..).find(|(kind, _)| **kind == error.kind()).map_or(0, |(_, place)| place);
    Out::default().u32(number).u8(kind).rest(error.to_string().as_bytes()).0
}

pub(crate) fn decode_error(payload: &[u8]) -> io::Error {
    let parts = |mut input: In<'_>| -> io::Result<(u32, u8, String)> {
        Ok((input.u32()?, input.u8()?, String::from_utf8_lossy(input.rest()).into_owned()))
    };
    match parts(In(payload)) {
        Ok((0, kind, text)) => {
            let kind = usize::from(kind).checked_sub(1).and_then(|place| KINDS.get(place));
            io::Error::new(kind.copied().unwrap_or(io::ErrorKind::Other), text)
        }
        Ok((number, ..)) => i32::try_from(number).map_or_else(io::Error::other, io::Error::from_raw_os_error),
        Err(error) => error,
    }
}

/// Bytes with their length, compressed: a wire is slower than zstd -1.
pub(crate) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
    out.extend(zstd::bulk::compress(bytes, 1)?);
    Ok(out)
}

/// Bytes of a list at most: that of a folder with some million names.
pub(crate) const LIST_MAX: usize = 256 << 20;

/// At most `most` bytes back.
pub(crate) fn decompress(bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut input = In(bytes);
    let len = usize::try_from(input.u64()?).ok().filter(|len| *len <= most);
    let len = len.ok_or_else(|| corrupt("more bytes than asked for"))?;
    let bytes = zstd::bulk::decompress(input.rest(), len)?;
    if bytes.len() == len { Ok(bytes) } else { Err(corrupt("fewer bytes than promised")) }
}
