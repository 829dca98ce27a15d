//! A volume of the other machine, read from front to end.

use std::collections::VecDeque;
use std::io;

use block::{BLOCK, CHUNK, Feed, Hash, Seen};
use disk::Stat;

use crate::connection::Connection;
use crate::file;
use crate::wire::{self, BLOCKS, In, Out, Request, corrupt};

/// Chunks that are announced before the first of them is read: enough that the far side never waits for the wire.
const AHEAD: u64 = 8;

/// How a chunk is told: a hole, all of its bytes, or some of its blocks.
const HOLE: u8 = 0;
const WHOLE: u8 = 1;
const SOME: u8 = 2;

/// Reads a volume there; blocks that are known do not travel.
pub struct FarFeed {
    connection: Connection,
    handle: u32,
    /// Bytes of the chunks that were announced, and whether their blocks are known.
    announced: VecDeque<(usize, bool)>,
}

impl FarFeed {
    pub(crate) fn new(connection: Connection, handle: u32) -> FarFeed {
        FarFeed { connection, handle, announced: VecDeque::new() }
    }
}

impl Drop for FarFeed {
    /// Reads what was asked for and is not wanted any more, so that the connection can be used for something else.
    fn drop(&mut self) {
        let mut wire = self.connection.lock();
        while self.announced.pop_front().is_some() {
            // What is broken can't be used anyway.
            wire.answer().ok();
        }
        wire.tell(&Request::Close(self.handle)).ok();
    }
}

impl Feed for FarFeed {
    fn stat(&mut self) -> io::Result<Stat> {
        file::stat(&self.connection, &Request::StatOf(self.handle))
    }

    fn ahead(&self) -> u64 {
        AHEAD
    }

    fn expect(&mut self, bytes: usize, known: Option<Vec<Hash>>) -> io::Result<()> {
        self.announced.push_back((bytes, known.is_some()));
        let bytes = u32::try_from(bytes).map_err(|_| corrupt("a chunk is too long"))?;
        self.connection.lock().begin(&Request::Expect(bytes, known))
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Seen> {
        let (bytes, known) =
            self.announced.pop_front().ok_or_else(|| corrupt("read before it was announced"))?;
        let answer = self.connection.lock().answer()?;
        decode(&answer, bytes, known, buffer)
    }
}

/// A chunk as the far side tells it: the blocks that are not `known`, gathered.
pub(crate) fn encode(bytes: &[u8], known: Option<&[Hash]>) -> io::Result<Vec<u8>> {
    let Some(known) = known else {
        return Ok(Out::default().u8(WHOLE).rest(&wire::compress(bytes)?).0);
    };
    let mut last = [0; BLOCK];
    let (mut mask, mut changed) = ([0; BLOCKS / 8], Vec::new());
    for ((number, block), known) in bytes.chunks(BLOCK).enumerate().zip(known) {
        // The last block of a volume is hashed as it is stored: filled up with zeros.
        let block = if block.len() == BLOCK {
            block
        } else {
            last.iter_mut().zip(block).for_each(|(to, from)| *to = *from);
            &last
        };
        if block::format::block_hash(block) != *known {
            if let Some(bits) = mask.get_mut(number / 8) {
                *bits |= 1 << (number % 8);
            }
            changed.extend_from_slice(block);
        }
    }
    // Blocks behind the end of the volume are zeros, whatever they were.
    for number in bytes.len().div_ceil(BLOCK)..BLOCKS {
        if known.get(number).is_some_and(|known| *known != block::format::ZERO)
            && let Some(bits) = mask.get_mut(number / 8)
        {
            *bits |= 1 << (number % 8);
            changed.extend_from_slice(&[0; BLOCK]);
        }
    }
    Ok(Out::default().u8(SOME).rest(&mask).rest(&wire::compress(&changed)?).0)
}

/// A chunk that takes no room.
pub(crate) fn hole() -> Vec<u8> {
    vec![HOLE]
}

/// What the far side told of a chunk, which is not trusted: it comes from another machine.
pub(crate) fn decode(answer: &[u8], bytes: usize, known: bool, buffer: &mut Vec<u8>) -> io::Result<Seen> {
    let mut input = In(answer);
    match input.u8()? {
        HOLE => {
            input.end()?;
            Ok(Seen::Hole)
        }
        WHOLE => {
            let data = wire::decompress(input.rest(), bytes)?;
            if data.len() != bytes {
                return Err(corrupt("a chunk of another length"));
            }
            *buffer = data;
            buffer.resize(CHUNK, 0);
            Ok(Seen::Whole)
        }
        SOME if known => {
            let (mask, rest) =
                input.rest().split_first_chunk::<{ BLOCKS / 8 }>().ok_or_else(|| corrupt("no mask"))?;
            let set = |number: usize| mask.get(number / 8).is_some_and(|bits| bits >> (number % 8) & 1 == 1);
            let blocks: Box<[bool; BLOCKS]> = Box::new(std::array::from_fn(set));
            let count = blocks.iter().filter(|set| **set).count();
            let data = wire::decompress(rest, count * BLOCK)?;
            if data.len() != count * BLOCK {
                return Err(corrupt("blocks are missing"));
            }
            buffer.resize(CHUNK, 0);
            let wanted = buffer.chunks_mut(BLOCK).zip(blocks.iter()).filter(|(_, set)| **set);
            wanted.zip(data.chunks(BLOCK)).for_each(|((to, _), from)| to.copy_from_slice(from));
            Ok(Seen::Blocks(blocks))
        }
        _ => Err(corrupt("a chunk of no known kind")),
    }
}
