//! Data files: writes lines to a compressed file with a checksum, and reads them back.

pub(crate) mod parquet;

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use codec::{Codec, Encoder};
use disk::Disk;

use crate::format::Encode;

/// Bytes that are decompressed in one step.
const READ_BYTES: usize = 256 << 10;
/// The largest window that any level of zstd uses: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

/// A file of text that is being written, or a part of one with its own compression and checksum.
pub(crate) struct Text<W: Write> {
    encoder: Encoder<Hashed<W>>,
    format: Option<Box<dyn Encode>>,
    text: Vec<u8>,
}

/// The result of writing it.
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) blake3: String,
    /// The values beside it.
    pub(crate) odd: Option<parquet::OddFile>,
    /// Its files, if it has one for each value of a column.
    pub(crate) parts: Vec<parquet::Part>,
}

impl<W: Write> Text<W> {
    pub(crate) fn new(
        to: W,
        (codec, level): (Codec, u32),
        format: Option<Box<dyn Encode>>,
    ) -> io::Result<Text<W>> {
        let sink = Hashed::new(to);
        Ok(Text { encoder: codec.encoder(sink, level)?, format, text: Vec::new() })
    }

    /// Takes a piece of the lines, cut anywhere.
    pub(crate) fn lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let Some(format) = &mut self.format else { return self.encoder.write_all(lines) };
        self.text.clear();
        format.encode(lines, &mut self.text);
        self.encoder.write_all(&self.text)
    }

    /// Completes the file and returns the sink.
    pub(crate) fn end(mut self) -> io::Result<(Written, W)> {
        if let Some(mut format) = self.format.take() {
            self.text.clear();
            format.finish(&mut self.text);
            self.encoder.write_all(&self.text)?;
        }
        Ok(self.encoder.finish()?.end())
    }
}

/// Passes bytes on and computes their checksum.
pub(crate) struct Hashed<T> {
    to: T,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<T> Hashed<T> {
    pub(crate) fn new(to: T) -> Hashed<T> {
        Hashed { to, hasher: blake3::Hasher::new(), bytes: 0 }
    }

    /// What was written, and where.
    pub(crate) fn end(self) -> (Written, T) {
        let blake3 = self.hasher.finalize().to_hex().to_string();
        (Written { bytes: self.bytes, blake3, odd: None, parts: Vec::new() }, self.to)
    }
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

/// A data file that is to be read, with its description from the manifest.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    pub(crate) path: PathBuf,
    pub(crate) codec: Codec,
    /// Its offset in a file shared with other tables; `None` for a file of its own.
    pub(crate) offset: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) blake3: String,
    /// The most bytes of text that it can contain.
    pub(crate) text_bytes_max: u64,
    /// What a file of Parquet needs to be read; `None` for text.
    pub(crate) parquet: Option<parquet::ParquetContent>,
    /// Its files, if its rows are in folders by a column's value; it is the table's folder then.
    pub(crate) parts: Option<Vec<DataFile>>,
}

impl DataFile {
    /// Whether a file of this length contains it.
    pub(crate) fn fits(&self, len: u64) -> bool {
        match self.offset {
            None => len == self.bytes,
            Some(offset) => offset.checked_add(self.bytes).is_some_and(|end| end <= len),
        }
    }

    /// The files on the disk: this one, or its parts, and those of their odd values.
    pub(crate) fn files(&self) -> impl Iterator<Item = &DataFile> {
        let own = std::slice::from_ref(self);
        let files = self.parts.as_deref().unwrap_or(own);
        files.iter().flat_map(|file| {
            let odd = file.parquet.as_ref().and_then(|content| content.odd.as_deref());
            std::iter::once(file).chain(odd)
        })
    }

    /// What is wrong with a file of this length, if something is.
    pub(crate) fn wrong_length(&self, len: u64) -> Option<String> {
        let wanted = self.offset.unwrap_or(0) + self.bytes;
        (!self.fits(len)).then(|| format!("it has {len} bytes, the manifest says {wanted}"))
    }

    /// Reads the file and passes its text on in pieces. Only a successful return proves that the file is the
    /// one in the manifest: keep nothing before that.
    pub(crate) fn read(
        &self,
        disk: &dyn Disk,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for part in self.parts.iter().flatten() {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", part.path.display()));
            part.read(disk, each).map_err(named)?;
        }
        if self.parts.is_some() {
            return Ok(());
        }
        if let Some(content) = &self.parquet {
            return parquet::read(content, self, disk, each);
        }
        let mut source = disk.open(&self.path)?;
        let stat = source.stat()?;
        if let Some(what) = self.wrong_length(stat.len) {
            return Err(damaged(&what));
        }
        source.seek(SeekFrom::Start(self.offset.unwrap_or(0)))?;
        let source = source.take(self.bytes);
        let (told, checksum) = crossbeam_channel::bounded(1);
        let reader = HashedReader { from: source, hasher: blake3::Hasher::new(), told };
        let mut decoder = self.decoder(reader)?;
        let mut buffer = vec![0; READ_BYTES];
        let mut text = 0_u64;
        loop {
            let got = match decoder.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if got == 0 {
                break;
            }
            text += got as u64;
            if text > self.text_bytes_max {
                return Err(damaged("it holds more than the manifest says"));
            }
            each(&buffer[..got])?;
        }
        // The decoder has read to the end of the stream; dropping it makes the reader report its checksum.
        drop(decoder);
        let found: Option<(String, u64)> = checksum.recv().ok();
        match found {
            Some((found, bytes)) if found == self.blake3 && bytes == self.bytes => Ok(()),
            _ => Err(damaged("its BLAKE3 is not the one in the manifest: the file was changed or damaged")),
        }
    }

    /// Rows may begin with the magic bytes of a codec, and a recognised stream may ask for all the memory. So
    /// only the codec given by the file's extension is accepted.
    fn decoder<R: Read + Send + 'static>(&self, reader: R) -> io::Result<Box<dyn Read>> {
        if self.codec == Codec::Plain || self.bytes == 0 {
            return Ok(Box::new(reader));
        }
        let (found, decoder) = codec::bounded_decoder(Box::new(reader), WINDOW_LOG_MAX)?;
        if found == self.codec {
            Ok(Box::new(decoder))
        } else {
            Err(damaged(&format!("its content is {found} and not {}", self.codec)))
        }
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
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
        // Nobody receives this after an error.
        self.told.try_send((self.hasher.finalize().to_hex().to_string(), self.hasher.count())).ok();
    }
}

#[cfg(test)]
mod tests {
    use disk::{Output, RealDisk};

    use super::*;

    fn read(content: &[u8], codec: Codec, text_bytes_max: u64) -> io::Result<Vec<u8>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("file");
        let mut output = Output::create(&RealDisk, &path)?;
        output.write_all(content)?;
        output.finish()?;
        let file = DataFile {
            path,
            codec,
            offset: None,
            bytes: content.len() as u64,
            blake3: blake3::hash(content).to_hex().to_string(),
            text_bytes_max,
            parquet: None,
            parts: None,
        };
        let mut text = Vec::new();
        file.read(&RealDisk, &mut |piece| {
            text.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(text)
    }

    fn packed(codec: Codec, text: &[u8]) -> Vec<u8> {
        let mut encoder = codec.encoder(Vec::new(), 1).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_file_is_read_up_to_its_announced_length() {
        for codec in [Codec::Plain, Codec::Zstd, Codec::Lz4, Codec::Gzip] {
            let zeros = vec![0; 1 << 20];
            for text in [&zeros[..], b"", b"\x28\xb5\x2f\xfd looks like zstd"] {
                let content = packed(codec, text);
                assert_eq!(read(&content, codec, text.len() as u64).unwrap(), text, "{codec}");
            }
            let error = read(&packed(codec, &zeros), codec, (1 << 20) - 1).unwrap_err();
            assert!(error.to_string().contains("more than the manifest says"), "{codec}: {error}");
        }
    }

    #[test]
    fn another_codec_than_the_name_says_is_refused() {
        for codec in [Codec::Xz, Codec::Bzip2, Codec::Gzip, Codec::Plain] {
            let error = read(&packed(codec, b"text"), Codec::Zstd, 100).unwrap_err();
            assert!(error.to_string().contains("and not zstd"), "{codec}: {error}");
        }
    }

    #[test]
    fn a_window_larger_than_any_level_has_is_refused() {
        // The frame's header as in RFC 8878, and one last block of three bytes: exponents 17 and 18 are
        // windows of 128 and 256 MiB.
        let frame =
            |exponent: u8| [b"\x28\xb5\x2f\xfd\x00", &[exponent << 3][..], b"\x19\x00\x00abc"].concat();
        assert_eq!(read(&frame(17), Codec::Zstd, 3).unwrap(), b"abc");
        let error = read(&frame(18), Codec::Zstd, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}
