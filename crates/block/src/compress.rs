//! Compresses blocks, and decompresses them.

use std::io;

use zstd::zstd_safe::{CCtx, CParameter, DCtx, ResetDirective};

use seal::BlockSealer;

use crate::format::{BLOCK, Group, Method, hash};

/// A level that is as fast as a disk.
const LEVEL: i32 = 1;
/// A delta is used if it has at most this size; otherwise the block is stored whole.
const DELTA_MAX: usize = BLOCK / 4;
/// Twice a block, as a power of two: matches must be able to reach back over a whole base.
const DELTA_WINDOW_LOG: u32 = 15;
/// Compression must save at least one part in this many of a group to be used.
const WORTH: usize = 16;

fn failed(code: usize) -> io::Error {
    io::Error::other(zstd::zstd_safe::get_error_name(code))
}

/// Compresses groups, and seals them.
pub(crate) struct Compressor<'a> {
    context: CCtx<'static>,
    sealer: Option<&'a BlockSealer>,
}

impl<'a> Compressor<'a> {
    pub(crate) fn new(sealer: Option<&'a BlockSealer>) -> io::Result<Compressor<'a>> {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(LEVEL)).map_err(failed)?;
        Ok(Compressor { context, sealer })
    }

    /// Appends blocks to `out` as one group, whose file is not known yet.
    pub(crate) fn group(&mut self, raw: &[u8], out: &mut Vec<u8>) -> io::Result<Group> {
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(raw.len()), 0);
        let room = out.get_mut(start..).unwrap_or_default();
        let len = self.context.compress2(room, raw).map_err(failed)?;
        let (method, len) = if len > raw.len() - raw.len() / WORTH {
            room.get_mut(..raw.len()).unwrap_or_default().copy_from_slice(raw);
            (Method::Raw, raw.len())
        } else {
            (Method::Zstd, len)
        };
        out.truncate(start + len);
        sealed(self.sealer, method, raw.len() / BLOCK, start, out)
    }
}

/// Seals what was compressed, if the store is encrypted, and describes it.
fn sealed(
    sealer: Option<&BlockSealer>,
    method: Method,
    blocks: usize,
    start: usize,
    out: &mut Vec<u8>,
) -> io::Result<Group> {
    if let Some(sealer) = sealer {
        sealer.seal(out, start).map_err(io::Error::other)?;
    }
    Ok(describe(method, blocks, start, out))
}

fn describe(method: Method, blocks: usize, start: usize, out: &[u8]) -> Group {
    let stored = out.get(start..).unwrap_or_default();
    Group {
        file: 0,
        offset: start as u64,
        stored: u32::try_from(stored.len()).unwrap_or(u32::MAX),
        method,
        blocks: u8::try_from(blocks).unwrap_or(u8::MAX),
        sum: hash(stored),
    }
}

/// Compresses blocks relative to their former contents.
pub(crate) struct DeltaCompressor<'a> {
    context: CCtx<'a>,
    sealer: Option<&'a BlockSealer>,
}

impl<'a> DeltaCompressor<'a> {
    pub(crate) fn new(sealer: Option<&'a BlockSealer>) -> io::Result<DeltaCompressor<'a>> {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(LEVEL)).map_err(failed)?;
        context.set_parameter(CParameter::WindowLog(DELTA_WINDOW_LOG)).map_err(failed)?;
        Ok(DeltaCompressor { context, sealer })
    }

    /// Appends a block to `out` as a delta to `base`, if that is small.
    pub(crate) fn block(
        &mut self,
        base: &'a [u8],
        new: &[u8],
        out: &mut Vec<u8>,
    ) -> io::Result<Option<Group>> {
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(new.len()), 0);
        self.context.reset(ResetDirective::SessionOnly).map_err(failed)?;
        self.context.ref_prefix(base).map_err(failed)?;
        let room = out.get_mut(start..).unwrap_or_default();
        let len = self.context.compress2(room, new).map_err(failed)?;
        if len > DELTA_MAX {
            out.truncate(start);
            return Ok(None);
        }
        out.truncate(start + len);
        sealed(self.sealer, Method::Delta, 1, start, out).map(Some)
    }
}

/// The blocks of a group that is not a delta. `None`: the bytes are not such a group.
pub(crate) fn decompress(group: &Group, stored: &[u8]) -> Option<Vec<u8>> {
    let len = usize::from(group.blocks) * BLOCK;
    match group.method {
        Method::Raw => Some(stored.to_vec()).filter(|stored| stored.len() == len),
        Method::Zstd => {
            let mut out = Vec::with_capacity(len);
            let done = DCtx::create().decompress(&mut out, stored).ok()?;
            (done == len).then_some(out)
        }
        Method::Delta => None,
    }
}

/// The block that a delta to `base` encodes.
pub(crate) fn decompress_delta(base: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
    let mut context = DCtx::create();
    context.ref_prefix(base).ok()?;
    let mut out = Vec::with_capacity(BLOCK);
    let done = context.decompress(&mut out, stored).ok()?;
    (done == BLOCK).then_some(out)
}
