//! The frames that both sides exchange.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use block::{BLOCK, CHUNK};
use disk::{Attributes, Entry, Extent, Kind, Stat};

/// Version of the protocol. Both sides come from the same build, so there is no negotiation.
pub const VERSION: u32 = 5;
/// The beginning of a greeting.
pub(crate) const MAGIC: &[u8; 8] = b"remofar\n";
/// Blocks of a chunk.
pub(crate) const BLOCKS: usize = CHUNK / BLOCK;
/// The most bytes of a frame: an incompressible chunk, and some bytes around it.
const FRAME_MAX: usize = CHUNK + (1 << 20);

/// The kind of a frame with an answer.
pub(crate) const OK: u8 = 0;
/// The kind of a frame with an error.
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
    // Memory is allocated as it is filled, and not as announced.
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
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u8(mut self, value: u8) -> Encoder {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Encoder {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Encoder {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Bytes preceded by their number.
    pub(crate) fn bytes(self, value: &[u8]) -> Encoder {
        let mut out = self.u64(value.len() as u64);
        out.0.extend_from_slice(value);
        out
    }

    pub(crate) fn path(self, path: &Path) -> Encoder {
        self.bytes(path.as_os_str().as_bytes())
    }

    pub(crate) fn list<'a>(self, values: impl ExactSizeIterator<Item = &'a OsStr>) -> Encoder {
        let out = self.u64(values.len() as u64);
        values.fold(out, |out, value| out.bytes(value.as_bytes()))
    }

    pub(crate) fn stat(self, stat: &Stat) -> Encoder {
        let mut out = self.u64(stat.len);
        out.0.extend_from_slice(&stat.modified_ns.to_le_bytes());
        out.0.extend_from_slice(&stat.changed_ns.to_le_bytes());
        out.u64(stat.inode).u8(u8::from(stat.regular)).u8(u8::from(stat.block_device))
    }

    pub(crate) fn attributes(self, attributes: &Attributes) -> Encoder {
        let mut out = self.u32(attributes.mode).u32(attributes.uid).u32(attributes.gid);
        out.0.extend_from_slice(&attributes.modified_ns.to_le_bytes());
        out
    }

    pub(crate) fn entry(self, entry: &Entry) -> Encoder {
        let out = self.bytes(entry.name.as_bytes());
        let out = match &entry.kind {
            Kind::File => out.u8(0),
            Kind::Folder => out.u8(1),
            Kind::Link(target) => out.u8(2).bytes(target.as_bytes()),
            Kind::Other => out.u8(3),
        };
        let out = out.u64(entry.len).u64(entry.device).u64(entry.inode).u64(entry.links);
        let out = out
            .rest(&entry.born_ns.to_le_bytes())
            .attributes(&entry.attributes)
            .u64(entry.extended.len() as u64);
        entry.extended.iter().fold(out, |out, (name, value)| out.bytes(name.as_bytes()).bytes(value))
    }

    pub(crate) fn extent(self, extent: &Extent) -> Encoder {
        self.u64(extent.logical).u64(extent.physical).u64(extent.len).u32(extent.flags)
    }

    /// The rest of the payload, without its length.
    pub(crate) fn rest(mut self, value: &[u8]) -> Encoder {
        self.0.extend_from_slice(value);
        self
    }
}

/// Decodes a payload.
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl<'a> Decoder<'a> {
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

    pub(crate) fn flag(&mut self) -> io::Result<bool> {
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
            changed_ns: i128::from_le_bytes(self.array()?),
            inode: self.u64()?,
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
        let (len, device, inode, links) = (self.u64()?, self.u64()?, self.u64()?, self.u64()?);
        let (born_ns, attributes, count) =
            (i128::from_le_bytes(self.array()?), self.attributes()?, self.u64()?);
        let one = |input: &mut Decoder<'a>| Ok((input.text()?, input.bytes()?.to_vec()));
        let extended = (0..count).map(|_| one(self)).collect::<io::Result<_>>()?;
        Ok(Entry { name, kind, len, device, inode, born_ns, links, attributes, extended })
    }

    pub(crate) fn extent(&mut self) -> io::Result<Extent> {
        Ok(Extent { logical: self.u64()?, physical: self.u64()?, len: self.u64()?, flags: self.u32()? })
    }

    /// Decodes the rest, element by element.
    pub(crate) fn all<T>(&mut self, one: impl Fn(&mut Decoder<'a>) -> io::Result<T>) -> io::Result<Vec<T>> {
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

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its exit code; 128 plus the signal's number if a signal ended it.
    pub code: u8,
    /// What it wrote to its standard output.
    pub output: Vec<u8>,
    /// What it wrote to its standard error.
    pub errors: Vec<u8>,
}

impl CommandOutput {
    pub(crate) fn encode(&self) -> Vec<u8> {
        Encoder::default().u8(self.code).bytes(&self.output).bytes(&self.errors).0
    }

    pub(crate) fn decode(payload: &[u8]) -> io::Result<CommandOutput> {
        let mut input = Decoder(payload);
        let ran = CommandOutput {
            code: input.u8()?,
            output: input.bytes()?.to_vec(),
            errors: input.bytes()?.to_vec(),
        };
        input.end()?;
        Ok(ran)
    }
}

/// The kinds of errors that callers distinguish; the number of each in a frame is its position here, from 1.
const KINDS: [io::ErrorKind; 7] = [
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::NotFound,
    io::ErrorKind::AlreadyExists,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::ResourceBusy,
    io::ErrorKind::StorageFull,
    io::ErrorKind::InvalidData,
];

/// Encodes an error: the operating system's number, or 0 if there is none; its kind; its own text, if it has
/// any.
pub(crate) fn encode_error(error: &io::Error) -> Vec<u8> {
    let number = error.raw_os_error().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let kind = KINDS.iter().zip(1..).find(|(kind, _)| **kind == error.kind()).map_or(0, |(_, place)| place);
    let words = error.get_ref().map(ToString::to_string).unwrap_or_default();
    Encoder::default().u32(number).u8(kind).rest(words.as_bytes()).0
}

pub(crate) fn decode_error(payload: &[u8]) -> io::Error {
    let parts = |mut input: Decoder<'_>| -> io::Result<(u32, u8, String)> {
        Ok((input.u32()?, input.u8()?, String::from_utf8_lossy(input.rest()).into_owned()))
    };
    match parts(Decoder(payload)) {
        Ok((0, kind, text)) => {
            let kind = usize::from(kind).checked_sub(1).and_then(|place| KINDS.get(place));
            match (kind.copied().unwrap_or(io::ErrorKind::Other), text) {
                (kind, text) if text.is_empty() => kind.into(),
                (kind, text) => io::Error::new(kind, text),
            }
        }
        Ok((number, ..)) => i32::try_from(number).map_or_else(io::Error::other, io::Error::from_raw_os_error),
        Err(error) => error,
    }
}

/// Bytes with their length, compressed: a network is slower than zstd -1.
pub(crate) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
    out.extend(zstd::bulk::compress(bytes, 1)?);
    Ok(out)
}

/// The most bytes of a list: that of a folder with some million names.
pub(crate) const LIST_MAX: usize = 256 << 20;

/// Decompresses to at most `most` bytes.
pub(crate) fn decompress(bytes: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut input = Decoder(bytes);
    let len = usize::try_from(input.u64()?).ok().filter(|len| *len <= most);
    let len = len.ok_or_else(|| corrupt("more bytes than asked for"))?;
    let bytes = zstd::bulk::decompress(input.rest(), len)?;
    if bytes.len() == len { Ok(bytes) } else { Err(corrupt("fewer bytes than promised")) }
}
