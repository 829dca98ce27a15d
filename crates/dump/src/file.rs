//! Data files: from lines to a compressed file with its checksum, and back.

use std::io::{self, Read, Write};
use std::path::Path;

use codec::{Codec, Encoder};
use disk::{Disk, Output};

use crate::format::Encode;
use crate::manifest::Chunk;

/// How much is decompressed at once.
const READ_BYTES: usize = 256 << 10;

/// A file being written.
pub(crate) struct Writer<'disk> {
    encoder: Encoder<Hashed<Output<'disk>>>,
    format: Option<Box<dyn Encode>>,
    text: Vec<u8>,
}

/// What became of it.
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) blake3: String,
}

impl<'disk> Writer<'disk> {
    pub(crate) fn create(
        disk: &'disk dyn Disk,
        path: &Path,
        (codec, level): (Codec, u32),
        format: Option<Box<dyn Encode>>,
    ) -> io::Result<Writer<'disk>> {
        let output = Output::create(disk, path)?;
        let sink = Hashed { to: output, hasher: blake3::Hasher::new(), bytes: 0 };
        Ok(Writer { encoder: codec.encoder(sink, level)?, format, text: Vec::new() })
    }

    /// Takes lines, cut anywhere.
    pub(crate) fn lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let Some(format) = &mut self.format else { return self.encoder.write_all(lines) };
        self.text.clear();
        format.encode(lines, &mut self.text);
        self.encoder.write_all(&self.text)
    }

    /// Makes the file whole and durable under its name.
    pub(crate) fn finish(mut self) -> io::Result<Written> {
        if let Some(mut format) = self.format.take() {
            self.text.clear();
            format.finish(&mut self.text);
            self.encoder.write_all(&self.text)?;
        }
        let sink = self.encoder.finish()?;
        let written = Written { bytes: sink.bytes, blake3: sink.hasher.finalize().to_hex().to_string() };
        sink.to.finish()?;
        Ok(written)
    }
}

/// Passes bytes on and remembers their checksum.
struct Hashed<T> {
    to: T,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Reads a chunk's file and hands its text on in pieces. Only when this returns well was the file the one the manifest
/// describes: what was handed on must not be kept before.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    chunk: &Chunk,
    compressed: bool,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let source = disk.open(path)?;
    let stat = source.stat()?;
    if stat.len != chunk.file_bytes {
        return Err(damaged(format!("it has {} bytes, the manifest says {}", stat.len, chunk.file_bytes)));
    }
    let (told, checksum) = crossbeam_channel::bounded(1);
    let reader = HashedReader { from: source, hasher: blake3::Hasher::new(), told };
    // Rows may begin with the very bytes that a codec is recognised by.
    let mut decoder: Box<dyn Read> =
        if compressed { Box::new(codec::decoder(Box::new(reader))?.1) } else { Box::new(reader) };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let got = match decoder.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if got == 0 {
            break;
        }
        each(&buffer[..got])?;
    }
    // The decoder has seen the end of the stream; the reader tells its checksum when it goes.
    drop(decoder);
    let found: Option<(String, u64)> = checksum.recv().ok();
    match found {
        Some((found, bytes)) if found == chunk.blake3 && bytes == chunk.file_bytes => Ok(()),
        _ => Err(damaged(
            "its BLAKE3 is not the one in the manifest: the file was changed or damaged".to_owned(),
        )),
    }
}

struct HashedReader<R: Read> {
    from: R,
    hasher: blake3::Hasher,
    told: crossbeam_channel::Sender<(String, u64)>,
}

impl<R: Read> Read for HashedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.from.read(buffer)?;
        self.hasher.update(&buffer[..got]);
        Ok(got)
    }
}

impl<R: Read> Drop for HashedReader<R> {
    fn drop(&mut self) {
        // Nobody listens after an error.
        self.told.try_send((self.hasher.finalize().to_hex().to_string(), self.hasher.count())).ok();
    }
}
