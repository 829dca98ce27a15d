//! The requests of the near side.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use block::tree::ConcurrentUse;
use block::{BlockSet, ChunkRequest};
use disk::Attributes;

use crate::clone::CloneRequest;
use crate::wire::{BLOCKS, Decoder, Encoder, corrupt};

/// Identifies an open block device or file in later requests.
pub type Handle = u32;

/// No handle: each file must be synced.
pub(crate) const NO_BATCH: Handle = 0;

/// A part of a file in a volume, all in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePart {
    /// Where it begins in the volume.
    pub at: u64,
    /// How long it is.
    pub len: u64,
    /// Where it begins in the file.
    pub offset: u64,
}

/// How [`ConcurrentUse`] is written: of pages, the binary logarithm of their bytes.
fn care_number(care: ConcurrentUse) -> u8 {
    match care {
        ConcurrentUse::Unchanging => 0,
        ConcurrentUse::Removal => 1,
        ConcurrentUse::PageWrites(bytes) => u8::try_from(bytes.max(4).ilog2()).unwrap_or(u8::MAX),
    }
}

fn care(number: u8) -> io::Result<ConcurrentUse> {
    match number {
        0 => Ok(ConcurrentUse::Unchanging),
        1 => Ok(ConcurrentUse::Removal),
        2..32 => Ok(ConcurrentUse::PageWrites(1 << number)),
        _ => Err(corrupt("a care that is not known")),
    }
}

/// A request of the near side. After the colon: its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The state of a file by name: a state.
    Stat(PathBuf),
    /// Opens for reading: a handle.
    Open(PathBuf),
    /// Creates a new file: a handle.
    Create(PathBuf),
    /// Opens for writing from an offset on: a handle.
    Append(PathBuf, u64),
    /// Opens for reading and writing in place: a handle.
    Volume(PathBuf),
    /// Renames: nothing.
    Rename(PathBuf, PathBuf),
    /// Removes a file: nothing.
    Remove(PathBuf),
    /// Makes the names in a folder durable: nothing.
    SyncFolder(PathBuf),
    /// The names in a folder: a list.
    List(PathBuf),
    /// Creates a folder: nothing.
    CreateFolder(PathBuf),
    /// Removes an empty folder: nothing.
    RemoveFolder(PathBuf),
    /// The state of something open: a state.
    StatOf(Handle),
    /// Reads at an offset, at most this many bytes: the bytes, compressed.
    ReadAt(Handle, u64, u32),
    /// Where data begins from an offset on: an offset, or the greatest number.
    SkipHole(Handle, u64),
    /// Writes at the end: no answer; an error is the answer to the next request that has one.
    Write(Handle, Vec<u8>),
    /// Writes at an offset: like `Write`. The bytes are compressed.
    WriteAt(Handle, u64, Vec<u8>),
    /// Makes a range zeros: like `Write`.
    Clear(Handle, u64, u64),
    /// Sets the length: like `Write`.
    SetLen(Handle, u64),
    /// Makes what was written durable: nothing.
    Sync(Handle),
    /// Closes: no answer.
    Close(Handle),
    /// Begins to read something open in order: nothing.
    Scan(Handle),
    /// Announces a chunk by its number, its length, and which part of it is wanted: a chunk.
    Expect(u64, u32, ChunkRequest),
    /// Runs a command: its result.
    Run(Vec<OsString>),
    /// The contents of a folder: entries, compressed.
    Entries(PathBuf),
    /// Creates a symbolic link to the second path: nothing.
    MakeLink(PathBuf, PathBuf),
    /// Sets the attributes of a path, which may be a link: those that it has.
    SetAttributes(PathBuf, bool, Attributes),
    /// Where a file's data is: extents, compressed.
    Extents(PathBuf),
    /// Begins a volume of this many bytes, made of files: a handle.
    Join(u64),
    /// Adds bytes to it at an offset: like `Write`.
    AddBytes(Handle, u64, Vec<u8>),
    /// Adds a part of a file to it: like `Write`.
    AddFile(Handle, FilePart, ConcurrentUse, PathBuf),
    /// The entry at a path: an entry.
    Entry(PathBuf),
    /// Begins to record writes to a folder's file system, which `Sync` then makes durable at once: a handle,
    /// or 0 if each file must be synced.
    Batch(PathBuf),
    /// Sets an extended attribute, by name and value: nothing.
    SetExtended(PathBuf, OsString, Vec<u8>),
    /// Makes a hard link to a file, named second: nothing.
    MakeHardLink(PathBuf, PathBuf),
    /// How many bytes may still be written to a folder's file system: a number.
    Free(PathBuf),
    /// Copies a folder so that the files share their blocks: how many files, and how long that took.
    Clone(CloneRequest),
}

impl Request {
    /// Kind and payload of the request's frame.
    #[must_use]
    pub fn encode(&self) -> (u8, Vec<u8>) {
        let out = Encoder::default();
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
                    ChunkRequest::All(None) => out,
                    ChunkRequest::All(Some(known)) => out.rest(known.as_flattened()),
                    ChunkRequest::Blocks(blocks) => out.rest(&mask_of(blocks)),
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
            Request::AddFile(handle, FilePart { at, len, offset }, care, path) => {
                (31, out.u32(*handle).u64(*at).u64(*len).u64(*offset).u8(care_number(*care)).path(path))
            }
            Request::Entry(path) => (32, out.path(path)),
            Request::Batch(folder) => (33, out.path(folder)),
            Request::SetExtended(path, name, value) => {
                (40, out.path(path).bytes(name.as_encoded_bytes()).rest(value))
            }
            Request::MakeHardLink(path, file) => (41, out.path(path).path(file)),
            Request::Clone(cloning) => (42, out.cloning(cloning)),
            Request::Free(folder) => (43, out.path(folder)),
        };
        (kind, out.0)
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// `InvalidData` for anything that [`Request::encode`] does not produce.
    pub fn decode(kind: u8, payload: &[u8]) -> io::Result<Request> {
        let mut input = Decoder(payload);
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
            31 => {
                let handle = input.u32()?;
                let part = FilePart { at: input.u64()?, len: input.u64()?, offset: input.u64()? };
                Request::AddFile(handle, part, care(input.u8()?)?, input.path()?)
            }
            32 => Request::Entry(input.path()?),
            33 => Request::Batch(input.path()?),
            40 => Request::SetExtended(input.path()?, input.text()?, input.rest().to_vec()),
            41 => Request::MakeHardLink(input.path()?, input.path()?),
            42 => Request::Clone(input.cloning()?),
            43 => Request::Free(input.path()?),
            _ => return Err(corrupt("a request that nobody knows")),
        };
        input.end()?;
        Ok(request)
    }
}

/// Which part of a chunk is wanted: all of it, blocks that differ from these hashes, or some blocks.
fn want(bytes: &[u8]) -> io::Result<ChunkRequest> {
    if let Ok(mask) = bytes.try_into() {
        return Ok(ChunkRequest::Blocks(blocks_of(mask)));
    }
    let (hashes, rest) = bytes.as_chunks::<16>();
    match (hashes.len(), rest) {
        (0, []) => Ok(ChunkRequest::All(None)),
        (BLOCKS, []) => Ok(ChunkRequest::All(Some(hashes.to_vec()))),
        _ => Err(corrupt("hashes of a chunk are missing")),
    }
}

/// A bit for each block, the lowest first.
pub(crate) type Mask = [u8; BLOCKS / 8];

pub(crate) fn mask_of(blocks: &BlockSet) -> Mask {
    let mut mask = [0; BLOCKS / 8];
    for (byte, bits) in mask.iter_mut().zip(blocks.chunks(8)) {
        *byte = bits.iter().rev().fold(0, |byte, set| byte << 1 | u8::from(*set));
    }
    mask
}

pub(crate) fn blocks_of(mask: &Mask) -> BlockSet {
    Box::new(std::array::from_fn(|number| {
        mask.get(number / 8).is_some_and(|bits| bits >> (number % 8) & 1 == 1)
    }))
}
