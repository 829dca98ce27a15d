//! Delimited text as typed columns: recognised, encoded, and decoded to the same bytes. Bytes in, bytes out.
//!
//! A `.rcol` stream is a sequence of blocks, each with a few megabytes of text. Each block stands alone:
//! [`encode`] makes one, [`decode`] returns its text, [`column()`] returns one column of it. Whatever the
//! text is, the same bytes come back. docs/formats/rcol.md describes the format.
//!
//! ```
//! let text = b"1\t2026-11-22\tamy\n2\t2026-11-22\tbob\n3\t2026-11-23\tamy\n";
//! let block = column::encode(text, column::Effort::of_level(3))?;
//! let head = column::Head::parse(&block)?;
//! assert_eq!((head.text_bytes, head.lines), (text.len(), 3));
//! assert_eq!(column::decode(&block)?, text);
//! # Ok::<(), column::Error>(())
//! ```

mod block;
mod cells;
mod codes;
mod column;
mod field;
mod frame;
mod ints;
mod shape;
mod split;
mod wire;

pub use block::{decode, encode};
pub use column::{Column, Layout, column};
pub use frame::{End, HEAD_BYTES, Head, MAGIC, TRAILER_BYTES, Trailer};

/// Why bytes could not be decoded or a text could not be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes differ from what was written.
    #[error("{0}")]
    Corrupt(&'static str),
    /// A library failed without giving a reason.
    #[error("{0} failed to compress")]
    Library(&'static str),
}

/// The most bytes of text in a block. A reader refuses more before it allocates memory.
pub const TEXT_BYTES_MAX: usize = 32 << 20;

/// How much work to spend on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    pub(crate) zstd: i32,
    pub(crate) pco: usize,
    /// Whether every encoding is tried in full and not only the most promising one.
    pub(crate) thorough: bool,
}

impl Effort {
    /// The effort for a level of zstd, 1 to 22.
    #[must_use]
    pub fn of_level(level: u32) -> Effort {
        let zstd = i32::try_from(level.clamp(1, 22)).unwrap_or(22);
        Effort { zstd, pco: if level < 10 { 8 } else { 12 }, thorough: level >= 10 }
    }

    /// Bytes of text in a block: as many as zstd can use at this level.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        if self.thorough { 32 << 20 } else { 16 << 20 }
    }

    /// How much of the beginning of `text` goes into the next block: whole lines if there are any.
    #[must_use]
    pub fn cut(self, text: &[u8]) -> usize {
        let most = text.get(..self.block_bytes()).unwrap_or(text);
        if most.len() < self.block_bytes() {
            return most.len();
        }
        memchr::memrchr(b'\n', most).map_or(most.len(), |at| at + 1)
    }
}

/// A number that counts bytes, lines or blocks of a text.
#[expect(clippy::cast_possible_truncation, reason = "a text is shorter than 4 GiB")]
pub(crate) fn short(number: usize) -> u32 {
    number as u32
}

/// A part of a text of at most [`TEXT_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    from: u32,
    to: u32,
}

impl Span {
    pub(crate) fn new(from: usize, to: usize) -> Span {
        Span { from: short(from), to: short(to) }
    }

    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.from as usize..self.to as usize).unwrap_or_default()
    }
}

/// The texts of a column.
#[derive(Clone, Copy)]
pub(crate) struct Texts<'t> {
    pub(crate) text: &'t [u8],
    pub(crate) spans: &'t [Span],
}

impl<'t> Texts<'t> {
    pub(crate) fn len(self) -> usize {
        self.spans.len()
    }

    pub(crate) fn get(self, at: usize) -> &'t [u8] {
        self.spans.get(at).map_or(&[], |span| span.of(self.text))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'t [u8]> {
        self.spans.iter().map(move |span| span.of(self.text))
    }

    pub(crate) fn with<'s>(self, spans: &'s [Span]) -> Texts<'s>
    where
        't: 's,
    {
        Texts { text: self.text, spans }
    }
}
