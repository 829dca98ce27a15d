//! Decompression.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use lz4_flex::frame::FrameDecoder;

use crate::{Codec, column};

/// Size of the buffer before a decoder: large enough that system calls do not matter.
const BUFFER_BYTES: usize = 256 * 1024;

type Source = Box<dyn Read + Send>;
type Buffered = BufReader<Source>;

/// The plain bytes of a stream in any codec.
pub struct Reader {
    codec: Codec,
    inner: Inner,
}

enum Inner {
    Plain(Source),
    Gzip(Box<Gzip<Buffered>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, Buffered>>),
    Lz4(Lz4<Buffered>),
    Xz(XzDecoder<Buffered>),
    Bzip2(MultiBzDecoder<Buffered>),
    Column(Box<column::Reader<Buffered>>),
}

/// The codec of a source, and the source from its beginning.
///
/// # Errors
/// Errors of reading the source.
pub fn recognised(mut source: Box<dyn Read + Send>) -> io::Result<(Codec, Box<dyn Read + Send>)> {
    let mut head = Vec::with_capacity(Codec::MAGIC_BYTES);
    source.by_ref().take(Codec::MAGIC_BYTES as u64).read_to_end(&mut head)?;
    Ok((Codec::recognise(&head), Box::new(Cursor::new(head).chain(source))))
}

/// Recognises the codec of `source` by its first bytes and returns it with the plain stream.
///
/// # Errors
/// Errors of reading the first bytes. Later reads return `InvalidData` for a damaged stream and
/// `UnexpectedEof` for a truncated one; both name the codec.
pub fn decoder(source: Box<dyn Read + Send>) -> io::Result<(Codec, Reader)> {
    // `zstd --long=31` needs the whole window; the library's default would refuse such a file.
    bounded_decoder(source, 31)
}

/// Like [`decoder`], for streams that are not trusted: a zstd stream that claims a window of more than
/// `2^window_log` bytes is refused as damaged and does not get that much memory.
///
/// # Errors
/// Those of [`decoder`].
pub fn bounded_decoder(source: Box<dyn Read + Send>, window_log: u32) -> io::Result<(Codec, Reader)> {
    let (codec, source) = recognised(source)?;
    Ok((codec, decoder_with(codec, source, window_log)?))
}

/// The plain bytes of a source whose codec is known.
pub(crate) fn decoder_of(codec: Codec, source: Source) -> io::Result<Reader> {
    decoder_with(codec, source, 31)
}

fn decoder_with(codec: Codec, source: Source, window_log: u32) -> io::Result<Reader> {
    let buffered = |source| BufReader::with_capacity(BUFFER_BYTES, source);
    let inner = match codec {
        Codec::Plain => Inner::Plain(source),
        Codec::Gzip => Inner::Gzip(Box::new(Gzip { member: Some(GzDecoder::new(buffered(source))) })),
        Codec::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered(source))?;
            decoder.window_log_max(window_log)?;
            Inner::Zstd(Box::new(decoder))
        }
        Codec::Lz4 => Inner::Lz4(Lz4::new(buffered(source))),
        Codec::Xz => Inner::Xz(XzDecoder::new_multi_decoder(buffered(source))),
        Codec::Bzip2 => Inner::Bzip2(MultiBzDecoder::new(buffered(source))),
        Codec::Column => Inner::Column(Box::new(column::Reader::new(buffered(source)))),
    };
    Ok(Reader { codec, inner })
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = match &mut self.inner {
            Inner::Plain(reader) => return reader.read(buffer),
            Inner::Gzip(reader) => reader.read(buffer),
            Inner::Zstd(reader) => reader.read(buffer),
            Inner::Lz4(reader) => reader.read(buffer),
            Inner::Xz(reader) => reader.read(buffer),
            Inner::Bzip2(reader) => reader.read(buffer),
            Inner::Column(reader) => reader.read(buffer),
        };
        result.map_err(|error| explain(self.codec, &error))
    }
}

/// The libraries report the same two failures under various kinds; callers get one text for each.
pub(crate) fn explain(codec: Codec, error: &io::Error) -> io::Error {
    let text = error.to_string();
    let cut = error.kind() == io::ErrorKind::UnexpectedEof || text.contains("incomplete frame");
    match error.kind() {
        io::ErrorKind::Interrupted => io::ErrorKind::Interrupted.into(),
        _ if cut => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the {codec} stream ends in the middle: the file was cut off or is still being written"),
        ),
        _ => io::Error::new(io::ErrorKind::InvalidData, format!("the {codec} stream is damaged: {text}")),
    }
}

/// Several gzip members in a row, perhaps with zeros behind the last one, which fill up a block of a tape
/// or a file. The library takes them for damage.
struct Gzip<R: BufRead> {
    /// None at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.member =
                self.member.take().map(GzDecoder::into_inner).map(next_member).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// The member behind zeros, if there is anything.
fn next_member<R: BufRead>(mut source: R) -> io::Result<Option<GzDecoder<R>>> {
    loop {
        let held = source.fill_buf()?;
        let zeros = held.iter().take_while(|byte| **byte == 0).count();
        match held.len() {
            0 => return Ok(None),
            length if zeros < length => {
                source.consume(zeros);
                return Ok(Some(GzDecoder::new(source)));
            }
            _ => source.consume(zeros),
        }
    }
}

/// Several LZ4 frames in a row; the library's decoder stops after each and can't be reused.
struct Lz4<R: BufRead> {
    state: Option<Frames<R>>,
}

enum Frames<R: BufRead> {
    Between(R),
    Inside(Box<FrameDecoder<Watched<R>>>),
}

/// When a file ends where a block should begin, the library takes that for the end of the frame. This
/// notices that the library asked for more bytes than there were.
struct Watched<R> {
    source: R,
    ran_out: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.ran_out |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

impl<R: BufRead> Lz4<R> {
    fn new(source: R) -> Lz4<R> {
        Lz4 { state: Some(Frames::Between(source)) }
    }
}

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state.take() {
                None => return Ok(0),
                Some(Frames::Between(mut source)) => {
                    if source.fill_buf()?.is_empty() {
                        self.state = Some(Frames::Between(source));
                        return Ok(0);
                    }
                    let frame = FrameDecoder::new(Watched { source, ran_out: false });
                    self.state = Some(Frames::Inside(Box::new(frame)));
                }
                Some(Frames::Inside(mut frame)) => {
                    let count = frame.read(buffer)?;
                    if count > 0 {
                        self.state = Some(Frames::Inside(frame));
                        return Ok(count);
                    }
                    let watched = frame.into_inner();
                    if watched.ran_out {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.state = Some(Frames::Between(watched.source));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_are_told_apart() {
        let kind = |kind: io::ErrorKind, text: &str| explain(Codec::Zstd, &io::Error::new(kind, text)).kind();
        assert_eq!(kind(io::ErrorKind::UnexpectedEof, "x"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(io::ErrorKind::Other, "incomplete frame"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(io::ErrorKind::Other, "x"), io::ErrorKind::InvalidData);
        // Who reads tries again.
        assert_eq!(kind(io::ErrorKind::Interrupted, "x"), io::ErrorKind::Interrupted);
    }
}
