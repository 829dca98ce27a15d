//! Streams of the column format, made of the blocks of crate `column`.

use std::io::{self, Read, Write};

use column::{Effort, End, HEAD_BYTES, Head, Layout, MAGIC};

fn other(error: column::Error) -> io::Error {
    io::Error::other(error)
}

fn corrupt(error: column::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Collects text until a block is full.
pub(crate) struct Writer<W> {
    sink: W,
    effort: Effort,
    text: Vec<u8>,
    end: End,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(mut sink: W, level: u32) -> io::Result<Writer<W>> {
        sink.write_all(&MAGIC)?;
        let effort = Effort::of_level(level);
        Ok(Writer { sink, effort, text: Vec::new(), end: End::default() })
    }

    fn end_block(&mut self) -> io::Result<()> {
        let cut = self.effort.cut(&self.text);
        let block = column::encode(&self.text[..cut], self.effort).map_err(other)?;
        self.text.drain(..cut);
        self.end.note(&block).map_err(other)?;
        self.sink.write_all(&block)
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        while !self.text.is_empty() {
            self.end_block()?;
        }
        self.sink.write_all(&self.end.encode())?;
        Ok(self.sink)
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.effort.block_bytes() - self.text.len());
        self.text.extend_from_slice(&bytes[..taken]);
        if self.text.len() == self.effort.block_bytes() {
            self.end_block()?;
        }
        Ok(taken)
    }

    /// A partial block stays here, because blocks of a few bytes would compress badly.
    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Cuts a stream into its blocks and checks them against the index at its end. Several streams in a row count
/// as one.
pub(crate) struct Blocks<R> {
    source: R,
    /// The blocks seen since the stream began; none between two streams.
    seen: Option<End>,
}

impl<R: Read> Blocks<R> {
    pub(crate) fn new(source: R) -> Blocks<R> {
        Blocks { source, seen: None }
    }

    /// The next block, not decoded yet; none when the stream is complete.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut bytes = Vec::new();
            if self.source.by_ref().take(1).read_to_end(&mut bytes)? == 0 {
                return if self.seen.is_none() { Ok(None) } else { Err(cut()) };
            }
            match &mut self.seen {
                None => {
                    read_up_to(&mut self.source, &mut bytes, MAGIC.len())?;
                    if bytes != MAGIC {
                        let other_version = bytes[..MAGIC.len() - 1] == MAGIC[..MAGIC.len() - 1];
                        return Err(corrupt(column::Error::Corrupt(if other_version {
                            "it was written by a newer version of remora"
                        } else {
                            "something else follows its end"
                        })));
                    }
                    self.seen = Some(End::default());
                }
                Some(seen) if Head::is_end(bytes[0]) => {
                    // The index must be this one, whatever its own length says.
                    let end = seen.encode();
                    read_up_to(&mut self.source, &mut bytes, end.len())?;
                    if bytes != end {
                        return Err(corrupt(column::Error::Corrupt(
                            "the index at its end does not match its blocks",
                        )));
                    }
                    self.seen = None;
                }
                Some(seen) => {
                    read_up_to(&mut self.source, &mut bytes, HEAD_BYTES)?;
                    let len = Head::parse(&bytes).map_err(corrupt)?.block_bytes;
                    read_up_to(&mut self.source, &mut bytes, len)?;
                    seen.note(&bytes).map_err(corrupt)?;
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Reads up to `len` bytes, and allocates memory only as they arrive.
fn read_up_to(source: &mut impl Read, bytes: &mut Vec<u8>, len: usize) -> io::Result<()> {
    let missing = len - bytes.len();
    let count = source.by_ref().take(missing as u64).read_to_end(bytes)?;
    if count == missing { Ok(()) } else { Err(cut()) }
}

/// The text of a block.
pub(crate) fn decode(block: &[u8]) -> io::Result<Vec<u8>> {
    column::decode(block).map_err(corrupt)
}

/// How a block's text is cut into fields, and the fields of its first record; none when it is not a table.
pub(crate) fn first(block: &[u8]) -> io::Result<Option<(Layout, Vec<Vec<u8>>)>> {
    let text = decode(block)?;
    let Some(layout) = Layout::guess(&text) else { return Ok(None) };
    Ok(Some((layout, layout.first(&text).into_iter().map(<[u8]>::to_vec).collect())))
}

/// The texts of a column of a block, each followed by a line end; how many there are, and how many records
/// lack this column.
pub(crate) fn lines(block: &[u8], layout: Layout, at: usize) -> io::Result<(Vec<u8>, [usize; 2])> {
    let column = column::column(block, layout, at).map_err(corrupt)?.unwrap_or_default();
    let mut lines = Vec::with_capacity(column.bytes.len());
    let mut from = 0;
    for end in &column.ends {
        lines.extend_from_slice(&column.bytes[std::mem::replace(&mut from, *end)..*end]);
        lines.push(b'\n');
    }
    Ok((lines, [column.ends.len(), column.left_out]))
}

/// The text of a stream, a block at a time.
pub(crate) struct Reader<R> {
    blocks: Blocks<R>,
    text: Vec<u8>,
    at: usize,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(source: R) -> Reader<R> {
        Reader { blocks: Blocks::new(source), text: Vec::new(), at: 0 }
    }
}

impl<R: Read> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() && !buffer.is_empty() {
            match self.blocks.next()? {
                None => return Ok(0),
                Some(block) => (self.text, self.at) = (decode(&block)?, 0),
            }
        }
        let rest = &self.text[self.at..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}
