//! Compression: recognises a file's codec by its content, and reads and writes streams in it.
//!
//! It reads everything that the usual tools write: several gzip members, zstd, lz4 or xz frames in a row are
//! one stream, and skippable frames, xz padding and zeros behind gzip members are accepted. A truncated
//! stream is an error, never a short file. The crate does no I/O of its own: sources and sinks are
//! arguments.
//!
//! ```
//! use codec::Codec;
//! use std::io::{Read, Write};
//!
//! let mut packed = Codec::Zstd.encoder(Vec::new(), 1)?;
//! packed.write_all(b"hello")?;
//! let packed = packed.finish()?;
//!
//! let (codec, mut plain) = codec::decoder(Box::new(std::io::Cursor::new(packed)))?;
//! let mut text = String::new();
//! plain.read_to_string(&mut text)?;
//! assert_eq!((codec, text.as_str()), (Codec::Zstd, "hello"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod column;
mod decode;
mod encode;
pub mod parallel;
pub mod single_value;

pub use decode::{Reader, bounded_decoder, decoder, recognised};
pub use encode::Encoder;

use std::fmt;

/// A way of compressing a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Codec {
    /// Not compressed.
    Plain,
    /// RFC 1952, as gzip, pigz and bgzip write it.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// The LZ4 frame format 1.6, as lz4 writes it.
    Lz4,
    /// The .xz format 1.2.
    Xz,
    /// As bzip2, pbzip2 and lbzip2 write it.
    Bzip2,
    /// Columns of delimited text: docs/formats/rcol.md.
    Column,
}

impl Codec {
    /// All codecs, plain first.
    pub const ALL: [Codec; 7] =
        [Codec::Plain, Codec::Gzip, Codec::Zstd, Codec::Lz4, Codec::Xz, Codec::Bzip2, Codec::Column];

    /// Bytes that [`Codec::recognise`] needs to see.
    pub const MAGIC_BYTES: usize = 10;

    /// The codec of a file, judged by its first bytes; anything unknown is plain.
    #[must_use]
    pub fn recognise(head: &[u8]) -> Codec {
        match head {
            [0x1f, 0x8b, 8, ..] => Codec::Gzip,
            // A zstd stream may begin with a skippable frame (pzstd, seekable format). An lz4 stream may too,
            // but lz4's own tool never begins with one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Codec::Zstd,
            [0x04, 0x22, 0x4d, 0x18, ..] => Codec::Lz4,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Codec::Xz,
            // After the level comes the magic of a block, or that of the end of an empty stream.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => Codec::Bzip2,
            // The version is left out: an unknown one is an error and not plain text.
            [0x8f, b'R', b'C', b'O', b'L', b'\r', b'\n', ..] => Codec::Column,
            _ => Codec::Plain,
        }
    }

    /// The usual file name extension, without the dot; empty for plain.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Codec::Plain => "",
            Codec::Gzip => "gz",
            Codec::Zstd => "zst",
            Codec::Lz4 => "lz4",
            Codec::Xz => "xz",
            Codec::Bzip2 => "bz2",
            Codec::Column => "rcol",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Codec::Plain => "plain",
            Codec::Gzip => "gzip",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
            Codec::Xz => "xz",
            Codec::Bzip2 => "bzip2",
            Codec::Column => "column",
        })
    }
}
