//! Parallel compression and decompression: a stream is cut into pieces that are processed independently.
//!
//! The output is what the codec's standard tool reads: members of gzip, frames of zstd and lz4, streams of
//! bzip2 and xz, one after the other. Files of other tools are decompressed on several cores if they consist
//! of such pieces too: zstd frames with their sizes, short frames of lz4, short streams of bzip2 (as pbzip2
//! writes them) and of xz.

mod pieces;
mod stream_search;

use std::collections::VecDeque;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::column::Blocks;
use crate::decode::{explain, recognised};
use crate::{Codec, column};

/// Bytes per read and per buffer that is passed on.
const READ_BYTES: usize = 1 << 18;

/// How to compress a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The codec.
    pub codec: Codec,
    /// The level on the codec's own scale, clamped to its range.
    pub level: u32,
    /// Cores that work on it.
    pub threads: usize,
    /// For zstd: the window in which matches are searched, as a power of two. The whole stream is then one
    /// frame.
    pub long: Option<u32>,
}

/// Compresses all of a source.
///
/// # Errors
/// Errors of reading and writing.
pub fn compress(source: &mut dyn Read, sink: &mut dyn Write, job: Job) -> io::Result<()> {
    match (job.codec, job.long) {
        (Codec::Plain, _) => io::copy(source, sink).map(drop),
        (Codec::Zstd, Some(window)) => long(source, sink, job, window),
        (Codec::Column, _) => columns(source, sink, job),
        _ => {
            let bytes = pieces::bytes(job.codec, job.level);
            let mut first = true;
            let next = || {
                let piece = read_piece(source, bytes)?;
                // Empty input is a stream too.
                Ok((std::mem::take(&mut first) || !piece.is_empty()).then_some(piece))
            };
            let work = |piece: Vec<u8>| pieces::compress(job.codec, job.level, &piece);
            in_order(job.threads, next, work, |packed: Vec<u8>| sink.write_all(&packed))
        }
    }
}

fn read_piece(mut source: &mut dyn Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    (&mut source).take(bytes as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

fn long(source: &mut dyn Read, sink: &mut dyn Write, job: Job, window: u32) -> io::Result<()> {
    let mut encoder =
        zstd::stream::write::Encoder::new(sink, i32::try_from(job.level.min(22)).unwrap_or(22))?;
    encoder.include_checksum(true)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(window)?;
    encoder.multithread(u32::try_from(job.threads).unwrap_or(1))?;
    io::copy(source, &mut encoder)?;
    encoder.finish().map(drop)
}

fn columns(mut source: &mut dyn Read, sink: &mut dyn Write, job: Job) -> io::Result<()> {
    let effort = ::column::Effort::of_level(job.level);
    let mut end = ::column::End::default();
    sink.write_all(&::column::MAGIC)?;
    let mut text = Vec::new();
    let next = || {
        let missing = effort.block_bytes() - text.len();
        (&mut source).take(missing as u64).read_to_end(&mut text)?;
        let rest = text.split_off(effort.cut(&text));
        let block = std::mem::replace(&mut text, rest);
        Ok((!block.is_empty()).then_some(block))
    };
    let work = |text: Vec<u8>| ::column::encode(&text, effort).map_err(io::Error::other);
    in_order(job.threads, next, work, |block: Vec<u8>| {
        end.note(&block).map_err(io::Error::other)?;
        sink.write_all(&block)
    })?;
    sink.write_all(&end.encode())
}

/// Decompresses all of a source and returns its codec.
///
/// # Errors
/// Errors of reading and writing; `InvalidData` for a damaged stream and `UnexpectedEof` for a truncated one,
/// both naming the codec.
pub fn decompress(source: Box<dyn Read + Send>, sink: &mut dyn Write, threads: usize) -> io::Result<Codec> {
    let (codec, source) = recognised(source)?;
    if codec == Codec::Column {
        let mut blocks = Blocks::new(BufReader::with_capacity(READ_BYTES, source));
        let next = || blocks.next().map_err(|error| explain(codec, &error));
        let work = |block: Vec<u8>| column::decode(&block).map_err(|error| explain(codec, &error));
        in_order(threads, next, work, |text: Vec<u8>| sink.write_all(&text))?;
        return Ok(codec);
    }
    let mut pieces = pieces::Pieces::new(codec, source);
    let work = |piece| match codec {
        Codec::Bzip2 => short(piece, BZIP2_PLAIN_MAX),
        _ => plain(codec, piece, pieces::BYTES_MAX).map(Text::Whole),
    };
    in_order(
        threads,
        || pieces.next(),
        work,
        |text: Text| match text {
            Text::Whole(text) => sink.write_all(&text),
            Text::Long(piece) => {
                io::copy(&mut crate::decoder(Box::new(Cursor::new(piece)))?.1, sink).map(drop)
            }
        },
    )?;
    // From here on the stream does not say where a piece ends.
    if let Some(rest) = pieces.rest()? {
        let mut rest = BufReader::with_capacity(READ_BYTES, rest);
        if codec == Codec::Gzip
            && !crate::decode::has_more(&mut rest).map_err(|error| explain(codec, &error))?
        {
            return Ok(codec);
        }
        let rest: Box<dyn Read + Send> = Box::new(rest);
        let (found, mut reader) = match codec {
            Codec::Gzip | Codec::Zstd => crate::decoder(rest)?,
            // These may have other things between their pieces, which their decoders know.
            _ => (codec, crate::decode::decoder_of(codec, rest)?),
        };
        if found != codec {
            let error = io::Error::other("something else follows it");
            return Err(explain(codec, &error));
        }
        io::copy(&mut BufReader::with_capacity(READ_BYTES, &mut reader), sink)?;
    }
    Ok(codec)
}

/// How many records have the chosen column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnCounts {
    /// Records whose text in the column was written.
    pub records: u64,
    /// Records with more or fewer fields than most, which lack the column.
    pub left_out: u64,
}

/// Writes one column of a source in column mode: each text exactly as in the file, followed by a line end.
/// `choose` gets the fields of the first record, or none when it is not a table, and returns the column's
/// index from 0.
///
/// # Errors
/// Those of [`decompress`] and of `choose`; `InvalidInput` for a source in another codec.
pub fn column(
    source: Box<dyn Read + Send>,
    sink: &mut dyn Write,
    threads: usize,
    choose: impl FnOnce(&[Vec<u8>]) -> io::Result<usize>,
) -> io::Result<ColumnCounts> {
    let (codec, source) = recognised(source)?;
    if codec != Codec::Column {
        let text = format!("the file is not in column mode but {codec}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let explained = |error| explain(codec, &error);
    let mut blocks = Blocks::new(BufReader::with_capacity(READ_BYTES, source));
    let mut first = blocks.next().map_err(explained)?;
    let found = match &first {
        Some(block) => column::first(block).map_err(explained)?,
        None => None,
    };
    let (layout, fields) = found.unzip();
    let at = choose(&fields.unwrap_or_default())?;
    let Some(layout) = layout else { return Ok(ColumnCounts::default()) };
    let next = || match first.take() {
        Some(block) => Ok(Some(block)),
        None => blocks.next().map_err(explained),
    };
    let work = |block: Vec<u8>| column::lines(&block, layout, at).map_err(explained);
    let mut counts = ColumnCounts::default();
    in_order(threads, next, work, |(lines, [records, left_out]): (Vec<u8>, [usize; 2])| {
        counts.records += records as u64;
        counts.left_out += left_out as u64;
        sink.write_all(&lines)
    })?;
    Ok(counts)
}

/// More text of a bzip2 stream is not held: a stream does not say how long its text is, and a few bytes may
/// be a gigabyte of the same.
const BZIP2_PLAIN_MAX: usize = 8 << 20;

/// What became of a piece.
enum Text {
    Whole(Vec<u8>),
    /// The piece itself, because its text is too long.
    Long(Arc<[u8]>),
}

/// The text of a piece if it has at most so many bytes.
fn short(piece: Vec<u8>, bytes_max: usize) -> io::Result<Text> {
    let piece: Arc<[u8]> = piece.into();
    let (_, reader) = crate::decoder(Box::new(Cursor::new(Arc::clone(&piece))))?;
    let mut text = Vec::new();
    reader.take(bytes_max as u64 + 1).read_to_end(&mut text)?;
    Ok(if text.len() > bytes_max { Text::Long(piece) } else { Text::Whole(text) })
}

/// The text of a piece, which has so many bytes at most.
fn plain(codec: Codec, piece: Vec<u8>, bytes_max: usize) -> io::Result<Vec<u8>> {
    let (_, reader) = crate::decoder(Box::new(Cursor::new(piece)))?;
    let mut text = Vec::new();
    reader.take(bytes_max as u64 + 1).read_to_end(&mut text)?;
    if text.len() > bytes_max {
        return Err(explain(codec, &io::Error::other("a piece of it is longer than it says")));
    }
    Ok(text)
}

/// Works on several threads and takes the results in the order of the input. At most two pieces per thread
/// are in work at a time. If the input ends with an error, the pieces before it are finished first.
fn in_order<T: Send, R: Send>(
    threads: usize,
    mut next: impl FnMut() -> io::Result<Option<T>>,
    work: impl Fn(T) -> io::Result<R> + Sync,
    mut done: impl FnMut(R) -> io::Result<()>,
) -> io::Result<()> {
    if threads < 2 {
        while let Some(piece) = next()? {
            done(work(piece)?)?;
        }
        return Ok(());
    }
    type Work<T, R> = (T, SyncSender<io::Result<R>>);
    let most = threads * 2;
    let (give, take) = sync_channel::<Work<T, R>>(most);
    let take = Mutex::new(take);
    std::thread::scope(|scope| {
        // Dropped at the end of this scope, which ends the threads.
        let give = give;
        for _ in 0..threads {
            let (take, work) = (&take, &work);
            scope.spawn(move || {
                loop {
                    let got = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((piece, answer)) = got else { break };
                    // Nobody receives this after an error has ended the work.
                    answer.send(work(piece)).ok();
                }
            });
        }
        let mut under_way: VecDeque<Receiver<io::Result<R>>> = VecDeque::new();
        let gone = || io::Error::other("a thread went away");
        let mut end = None;
        loop {
            while end.is_none() && under_way.len() < most {
                match next() {
                    Ok(Some(piece)) => {
                        let (answer, result) = sync_channel(1);
                        give.send((piece, answer)).map_err(|_| gone())?;
                        under_way.push_back(result);
                    }
                    Ok(None) => end = Some(Ok(())),
                    Err(error) => end = Some(Err(error)),
                }
            }
            let Some(result) = under_way.pop_front() else { return end.unwrap_or(Ok(())) };
            done(result.recv().map_err(|_| gone())??)?;
        }
    })
}

/// Decompresses a source on other threads while `work` reads the plain bytes, and returns its codec.
///
/// # Errors
/// The result of `work`, whose reader reports the errors of [`decompress`].
pub fn reading<R>(
    source: Box<dyn Read + Send>,
    threads: usize,
    work: impl FnOnce(&mut dyn Read) -> io::Result<R>,
) -> io::Result<(Codec, R)> {
    std::thread::scope(|scope| {
        let (give, take) = sync_channel(1);
        let decompressing = scope.spawn(move || {
            let outcome = decompress(source, &mut PipeWriter(&give), threads);
            let codec = outcome.as_ref().ok().copied();
            if let Err(error) = outcome {
                // Nobody receives this after `work` has failed.
                give.send(Err(error)).ok();
            }
            codec
        });
        let mut reader = PipeReader { take, bytes: Cursor::new(Vec::new()) };
        let result = work(&mut reader)?;
        // The last bytes of a stream may be its checksum: without reading them nobody knows that it is
        // complete.
        io::copy(&mut reader, &mut io::sink())?;
        drop(reader);
        let codec = decompressing.join().ok().flatten();
        Ok((codec.ok_or_else(|| io::Error::other("a thread went away"))?, result))
    })
}

/// The writing end of a pipe.
struct PipeWriter<'a>(&'a SyncSender<io::Result<Vec<u8>>>);

impl Write for PipeWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(Ok(bytes.to_vec())).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reading end.
struct PipeReader {
    take: Receiver<io::Result<Vec<u8>>>,
    bytes: Cursor<Vec<u8>>,
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.bytes.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.take.recv() {
                Ok(bytes) => self.bytes = Cursor::new(bytes?),
                Err(_) => return Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread::current;

    use super::*;

    #[test]
    fn work_goes_to_the_threads_and_comes_back_in_order() {
        for threads in [1, 2, 3] {
            let here = current().id();
            let (under_way, most) = (Cell::new(0), Cell::new(0));
            let mut pieces = 0..50;
            let next = || {
                let piece = pieces.next();
                under_way.set(under_way.get() + usize::from(piece.is_some()));
                most.set(most.get().max(under_way.get()));
                Ok(piece)
            };
            let mut done = Vec::new();
            in_order(
                threads,
                next,
                |piece| Ok((piece, current().id() == here)),
                |(piece, was_here)| {
                    assert_eq!(was_here, threads == 1);
                    under_way.set(under_way.get() - 1);
                    done.push(piece);
                    Ok(())
                },
            )
            .unwrap();
            assert!(done.into_iter().eq(0..50), "{threads}");
            assert_eq!(most.get(), if threads == 1 { 1 } else { threads * 2 });
        }
    }

    #[test]
    fn a_piece_that_is_too_long_is_damage() {
        let piece = || pieces::compress(Codec::Gzip, 1, &[b'x'; 1000]).unwrap();
        assert_eq!(plain(Codec::Gzip, piece(), 1000).unwrap(), [b'x'; 1000]);
        let error = plain(Codec::Gzip, piece(), 999).unwrap_err();
        assert!(error.to_string().contains("longer than it says"), "{error}");
    }

    #[test]
    fn results_before_an_error_are_delivered_first() {
        for threads in [1, 3] {
            let mut left = 3;
            let next = || {
                left -= 1;
                if left < 0 { Err(io::Error::other("no more")) } else { Ok(Some(left)) }
            };
            let mut done = Vec::new();
            let outcome = in_order(threads, next, Ok, |piece| {
                done.push(piece);
                Ok(())
            });
            assert_eq!((outcome.unwrap_err().to_string().as_str(), done), ("no more", vec![2, 1, 0]));
        }
    }

    #[test]
    fn zeros_behind_the_pieces_of_gzip_are_no_data() {
        let piece = pieces::compress(Codec::Gzip, 1, &[b'x'; 1000]).unwrap();
        let unpacked = |parts: &[&[u8]]| {
            let mut text = Vec::new();
            let source = Cursor::new(parts.concat());
            decompress(Box::new(source), &mut text, 2).map(|_| text.len()).map_err(|error| error.kind())
        };
        let zeros = [0; 3000];
        assert_eq!(unpacked(&[&piece, &piece, &zeros]), Ok(2000));
        assert_eq!(unpacked(&[&piece, &zeros, &piece]), Err(io::ErrorKind::InvalidData));
        assert_eq!(unpacked(&[&piece, b"something else"]), Err(io::ErrorKind::InvalidData));
    }
}
