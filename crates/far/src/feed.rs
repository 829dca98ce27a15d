//! Reads a volume of the other machine, in order.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use block::tree::{ConcurrentUse, Layout, Part};
use block::{BLOCK, BlockSet, CHUNK, ChunkRead, ChunkRequest, ChunkSource};
use disk::Stat;

use crate::connection::Connection;
use crate::file;
use crate::request::{self, FilePart, Request};
use crate::wire::{self, BLOCKS, Decoder, Encoder, corrupt};

/// Chunks that are announced before the first of them is read: enough that the far side never waits for the
/// network.
const AHEAD: u64 = 8;

/// The kinds of answers for a chunk: a hole, all of its bytes, or some of its blocks.
const HOLE: u8 = 0;
const WHOLE: u8 = 1;
const SOME: u8 = 2;

/// Reads a volume there; known blocks are not transferred.
pub struct FarFeed {
    connection: Connection,
    handle: u32,
    /// For each announced chunk its bytes, and whether only some of its blocks need to be sent.
    announced: VecDeque<(usize, bool)>,
}

impl Connection {
    /// Reads a file or device in order. Other requests are answered after the chunks that were announced
    /// before them.
    ///
    /// # Errors
    /// Errors of opening it.
    pub fn scan(&self, path: &Path) -> io::Result<FarFeed> {
        let handle = self.handle(&Request::Open(path.to_owned()))?;
        self.feed(handle)
    }

    /// Reads the files below `top` as the volume of a layout, in order. Meanwhile the connection can do
    /// nothing else.
    ///
    /// # Errors
    /// When the connection ends.
    pub fn scan_tree(&self, layout: &Layout, top: &Path) -> io::Result<FarFeed> {
        self.scan_parts(layout.volume_len(), layout.parts(), &|path| {
            (top.join(path), ConcurrentUse::Unchanging)
        })
    }

    /// Reads parts of a volume of `len` bytes, in order. `find`: where the file with a path in the volume is,
    /// and what others do to it meanwhile. Pages are checked there, by [`crate::InnodbPages`].
    ///
    /// # Errors
    /// When the connection ends.
    pub fn scan_parts<'a>(
        &self,
        len: u64,
        parts: impl Iterator<Item = (Range<u64>, Part<'a>)>,
        find: &dyn Fn(&Path) -> (PathBuf, ConcurrentUse),
    ) -> io::Result<FarFeed> {
        let handle = self.handle(&Request::Join(len))?;
        {
            let mut wire = self.lock();
            for (place, what) in parts {
                match what {
                    Part::Bytes(bytes) => {
                        for (piece, at) in bytes.chunks(CHUNK).zip((place.start..).step_by(CHUNK)) {
                            wire.tell(&Request::AddBytes(handle, at, piece.to_vec()))?;
                        }
                    }
                    Part::File(path, offset) => {
                        let part = FilePart { at: place.start, len: place.end - place.start, offset };
                        let (path, care) = find(path);
                        wire.tell(&Request::AddFile(handle, part, care, path))?;
                    }
                }
            }
        }
        self.feed(handle)
    }

    fn feed(&self, handle: u32) -> io::Result<FarFeed> {
        self.ask_for_nothing(&Request::Scan(handle))?;
        Ok(FarFeed::new(self.clone(), handle))
    }
}

impl FarFeed {
    pub(crate) fn new(connection: Connection, handle: u32) -> FarFeed {
        FarFeed { connection, handle, announced: VecDeque::new() }
    }
}

impl Drop for FarFeed {
    /// Reads answers that are no longer wanted, so that the connection can be used again.
    fn drop(&mut self) {
        let mut wire = self.connection.lock();
        while self.announced.pop_front().is_some() {
            // A broken connection can't be used anyway.
            wire.answer().ok();
        }
        wire.tell(&Request::Close(self.handle)).ok();
    }
}

impl ChunkSource for FarFeed {
    fn stat(&mut self) -> io::Result<Stat> {
        file::stat(&self.connection, &Request::StatOf(self.handle))
    }

    fn ahead(&self) -> u64 {
        AHEAD
    }

    fn expect(&mut self, number: u64, bytes: usize, want: ChunkRequest) -> io::Result<()> {
        self.announced.push_back((bytes, want != ChunkRequest::All(None)));
        let bytes = u32::try_from(bytes).map_err(|_| corrupt("a chunk is too long"))?;
        self.connection.lock().begin(&Request::Expect(number, bytes, want))
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
        let (bytes, some) =
            self.announced.pop_front().ok_or_else(|| corrupt("read before it was announced"))?;
        let answer = self.connection.lock().answer()?;
        decode(&answer, bytes, some, buffer)
    }
}

/// Encodes a chunk on the far side: the wanted blocks, one after the other.
pub(crate) fn encode(bytes: &[u8], want: &ChunkRequest) -> io::Result<Vec<u8>> {
    let known = match want {
        ChunkRequest::All(None) => return Ok(Encoder::default().u8(WHOLE).rest(&wire::compress(bytes)?).0),
        ChunkRequest::All(Some(known)) => known,
        ChunkRequest::Blocks(blocks) => return some(bytes, blocks),
    };
    let mut blocks: BlockSet = Box::new([false; BLOCKS]);
    for (number, (changed, known)) in blocks.iter_mut().zip(known).enumerate() {
        let block = block_of(bytes, number);
        *changed = block::format::block_hash(&block) != *known;
    }
    some(bytes, &blocks)
}

/// A block of a chunk; after the end of the volume there are zeros.
fn block_of(bytes: &[u8], number: usize) -> Cow<'_, [u8]> {
    let (start, end) = ((number * BLOCK).min(bytes.len()), ((number + 1) * BLOCK).min(bytes.len()));
    let block = bytes.get(start..end).unwrap_or_default();
    if block.len() == BLOCK {
        return Cow::Borrowed(block);
    }
    let mut filled = vec![0; BLOCK];
    filled.iter_mut().zip(block).for_each(|(to, from)| *to = *from);
    Cow::Owned(filled)
}

fn some(bytes: &[u8], blocks: &BlockSet) -> io::Result<Vec<u8>> {
    let wanted = blocks.iter().enumerate().filter(|(_, wanted)| **wanted);
    let gathered: Vec<u8> = wanted.flat_map(|(number, _)| block_of(bytes, number).into_owned()).collect();
    Ok(Encoder::default().u8(SOME).rest(&request::mask_of(blocks)).rest(&wire::compress(&gathered)?).0)
}

/// A chunk that is a hole.
pub(crate) fn hole() -> Vec<u8> {
    vec![HOLE]
}

/// Decodes a chunk from the far side, which is not trusted because it is another machine.
pub(crate) fn decode(answer: &[u8], bytes: usize, some: bool, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
    let mut input = Decoder(answer);
    match input.u8()? {
        HOLE => {
            input.end()?;
            Ok(ChunkRead::Hole)
        }
        WHOLE => {
            let data = wire::decompress(input.rest(), bytes)?;
            if data.len() != bytes {
                return Err(corrupt("a chunk of another length"));
            }
            *buffer = data;
            buffer.resize(CHUNK, 0);
            Ok(ChunkRead::Whole)
        }
        SOME if some => {
            let (mask, rest) =
                input.rest().split_first_chunk::<{ BLOCKS / 8 }>().ok_or_else(|| corrupt("no mask"))?;
            let blocks = request::blocks_of(mask);
            let count = blocks.iter().filter(|set| **set).count();
            let data = wire::decompress(rest, count * BLOCK)?;
            if data.len() != count * BLOCK {
                return Err(corrupt("blocks are missing"));
            }
            buffer.resize(CHUNK, 0);
            let wanted = buffer.chunks_mut(BLOCK).zip(blocks.iter()).filter(|(_, set)| **set);
            wanted.zip(data.chunks(BLOCK)).for_each(|((to, _), from)| to.copy_from_slice(from));
            Ok(ChunkRead::Blocks(blocks))
        }
        _ => Err(corrupt("a chunk of no known kind")),
    }
}
