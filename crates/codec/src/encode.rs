//! Compression.

use std::io::{self, Write};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use lz4_flex::frame::{FrameEncoder, FrameInfo};

use crate::{Codec, column};

/// A compressed stream being written; [`Encoder::finish`] ends it.
pub struct Encoder<W: Write> {
    inner: Inner<W>,
}

enum Inner<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(Box<zstd::stream::write::Encoder<'static, W>>),
    ZstdFrames(Box<Frames<W>>),
    Lz4(Box<FrameEncoder<W>>),
    Xz(XzEncoder<W>),
    Bzip2(BzEncoder<W>),
    Column(Box<column::Writer<W>>),
}

/// Up to this level of zstd a stream consists of several frames.
const FRAMES_LEVEL_MAX: u32 = 2;
/// Plain bytes of a frame: twice the window of these levels, so that hardly any match is lost.
const FRAME_BYTES: usize = 1 << 20;

/// Several frames in a row, each compressed in one call. The library's stream copies all its input and mostly
/// has its matches in two buffers, which slows the fast levels down.
struct Frames<W> {
    sink: W,
    compressor: zstd::bulk::Compressor<'static>,
    plain: Vec<u8>,
    packed: Vec<u8>,
    is_empty: bool,
}

impl<W: Write> Frames<W> {
    fn new(sink: W, level: u32) -> io::Result<Frames<W>> {
        let mut compressor = zstd::bulk::Compressor::new(i32::try_from(level).unwrap_or(1))?;
        compressor.include_checksum(true)?;
        let packed = Vec::with_capacity(zstd::zstd_safe::compress_bound(FRAME_BYTES));
        Ok(Frames { sink, compressor, plain: Vec::with_capacity(FRAME_BYTES), packed, is_empty: true })
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.compressor.compress_to_buffer(&self.plain, &mut self.packed)?;
        self.plain.clear();
        self.is_empty = false;
        self.sink.write_all(&self.packed)
    }

    fn finish(mut self) -> io::Result<W> {
        // Empty input becomes a frame too, because a file of no bytes is not a zstd file.
        if self.is_empty || !self.plain.is_empty() {
            self.end_frame()?;
        }
        Ok(self.sink)
    }
}

impl<W: Write> Write for Frames<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(FRAME_BYTES - self.plain.len());
        self.plain.extend_from_slice(&bytes[..taken]);
        if self.plain.len() == FRAME_BYTES {
            self.end_frame()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.plain.is_empty() {
            self.end_frame()?;
        }
        self.sink.flush()
    }
}

impl Codec {
    /// Starts a stream in this codec. `level` is on the codec's own scale and clamped to its range; lz4 has
    /// only one level.
    ///
    /// # Errors
    /// When the library can't be set up.
    pub fn encoder<W: Write>(self, sink: W, level: u32) -> io::Result<Encoder<W>> {
        let inner = match self {
            Codec::Plain => Inner::Plain(sink),
            Codec::Gzip => Inner::Gzip(GzEncoder::new(sink, flate2::Compression::new(level.min(9)))),
            Codec::Zstd if (1..=FRAMES_LEVEL_MAX).contains(&level) => {
                Inner::ZstdFrames(Box::new(Frames::new(sink, level)?))
            }
            Codec::Zstd => {
                let level = i32::try_from(level.min(22)).unwrap_or(22);
                let mut encoder = zstd::stream::write::Encoder::new(sink, level)?;
                encoder.include_checksum(true)?;
                Inner::Zstd(Box::new(encoder))
            }
            Codec::Lz4 => {
                let info = FrameInfo::new().content_checksum(true).block_checksums(true);
                Inner::Lz4(Box::new(FrameEncoder::with_frame_info(info, sink)))
            }
            Codec::Xz => Inner::Xz(XzEncoder::new(sink, level.min(9))),
            Codec::Column => Inner::Column(Box::new(column::Writer::new(sink, level)?)),
            Codec::Bzip2 => Inner::Bzip2(BzEncoder::new(sink, bzip2::Compression::new(level.clamp(1, 9)))),
        };
        Ok(Encoder { inner })
    }
}

impl<W: Write> Encoder<W> {
    /// Ends the stream and returns the sink.
    ///
    /// # Errors
    /// Errors of writing the end of the stream.
    pub fn finish(self) -> io::Result<W> {
        match self.inner {
            Inner::Plain(sink) => Ok(sink),
            Inner::Gzip(encoder) => encoder.finish(),
            Inner::ZstdFrames(frames) => frames.finish(),
            Inner::Zstd(encoder) => encoder.finish(),
            Inner::Lz4(encoder) => encoder.finish().map_err(io::Error::from),
            Inner::Xz(encoder) => encoder.finish(),
            Inner::Bzip2(encoder) => encoder.finish(),
            Inner::Column(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Plain(sink) => sink.write(bytes),
            Inner::Gzip(encoder) => encoder.write(bytes),
            Inner::ZstdFrames(frames) => frames.write(bytes),
            Inner::Zstd(encoder) => encoder.write(bytes),
            Inner::Lz4(encoder) => encoder.write(bytes),
            Inner::Xz(encoder) => encoder.write(bytes),
            Inner::Bzip2(encoder) => encoder.write(bytes),
            Inner::Column(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Plain(sink) => sink.flush(),
            Inner::Gzip(encoder) => encoder.flush(),
            Inner::ZstdFrames(frames) => frames.flush(),
            Inner::Zstd(encoder) => encoder.flush(),
            Inner::Lz4(encoder) => encoder.flush(),
            Inner::Xz(encoder) => encoder.flush(),
            Inner::Bzip2(encoder) => encoder.flush(),
            Inner::Column(encoder) => encoder.flush(),
        }
    }
}
