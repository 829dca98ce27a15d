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
    Gzip(Gzip<Buffered>),
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
        Codec::Gzip => Inner::Gzip(Gzip(Some(GzDecoder::new(buffered(source))))),
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

/// Gzip members in a row. Zeros behind the last one are no data: tapes and block devices pad a file with
/// them, and gzip ignores them too.
struct Gzip<R: BufRead>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(mut source) = self.0.take().map(GzDecoder::into_inner) else { break };
            if has_more(&mut source)? {
                self.0 = Some(GzDecoder::new(source));
            }
        }
        Ok(0)
    }
}

/// Whether another member follows, and not only zeros.
pub(crate) fn has_more(source: &mut impl BufRead) -> io::Result<bool> {
    let mut has_zeros = false;
    loop {
        let bytes = source.fill_buf()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        has_zeros |= zeros > 0;
        if zeros < bytes.len() {
            let why = "something stands behind the zeros at its end";
            return if has_zeros { Err(io::Error::other(why)) } else { Ok(true) };
        }
        if bytes.is_empty() {
            return Ok(false);
        }
        source.consume(zeros);
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

/// When a file ends where a block should begin, the library takes that for the end of the frame. This notices
/// that the library asked for more bytes than there were.
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
    use std::io::Write;

    use super::*;

    #[test]
    fn zeros_behind_gzip_are_no_data() {
        let member = |text: &str| {
            let mut member = Codec::Gzip.encoder(Vec::new(), 1).unwrap();
            member.write_all(text.as_bytes()).unwrap();
            member.finish().unwrap()
        };
        let read = |parts: &[&[u8]]| {
            let mut text = String::new();
            let (_, mut reader) = decoder(Box::new(Cursor::new(parts.concat()))).unwrap();
            reader.read_to_string(&mut text).map(|_| text).map_err(|error| error.kind())
        };
        let (one, two) = (member("one\n"), member("two\n"));
        assert_eq!(read(&[&one, &two]).unwrap(), "one\ntwo\n");
        // More than one buffer of them.
        let zeros = vec![0; BUFFER_BYTES + 1];
        for zeros in [&zeros[..1], &zeros] {
            assert_eq!(read(&[&one, &two, zeros]).unwrap(), "one\ntwo\n");
            assert_eq!(read(&[&one, zeros, &two]), Err(io::ErrorKind::InvalidData));
        }
        assert_eq!(read(&[&one, b"x"]), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(read(&[&one, b"garbage behind it"]), Err(io::ErrorKind::InvalidData));
        assert_eq!(read(&[&one, &two[..two.len() - 1]]), Err(io::ErrorKind::UnexpectedEof));
    }

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
