//! Short values compressed one by one with what was learned from others like them: zstd and brotli with a
//! dictionary, FSST. For comparisons; nothing here has a stable format.

use std::io::{self, Cursor, Read as _};

use zstd::zstd_safe::FrameFormat;
use zstd::zstd_safe::{CParameter, DParameter};

/// Smallest part of a dictionary's training data that zstd learns from, beside the size of the dictionary.
const SAMPLES_PER_DICTIONARY: usize = 100;

/// Something that compresses single values.
pub trait Single {
    /// Appends the compressed `value` to `out`.
    ///
    /// # Errors
    /// What the codec says.
    fn compress(&mut self, value: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Appends the value in `compressed`, at most `len_max` bytes, to `out`.
    ///
    /// # Errors
    /// What the codec says.
    fn decompress(&mut self, compressed: &[u8], len_max: usize, out: &mut Vec<u8>) -> io::Result<()>;

    /// Bytes of what was learned.
    fn size(&self) -> usize;
}

/// zstd with a dictionary, without magic number, checksum, dictionary id and content size.
pub struct Zstd {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
    size: usize,
}

/// The dictionary that zstd's trainer makes of values.
///
/// # Errors
/// When there are too few values for it.
pub fn dictionary(values: &[&[u8]], size_max: usize) -> io::Result<Vec<u8>> {
    // The trainer looks at about a hundred times the dictionary, and is slow for more.
    let mut left = size_max.saturating_mul(SAMPLES_PER_DICTIONARY);
    let enough = values.iter().take_while(|value| {
        left = left.saturating_sub(value.len());
        left > 0
    });
    let samples: Vec<&[u8]> = enough.copied().collect();
    zstd::dict::from_samples(&samples, size_max)
}

impl Zstd {
    /// With a dictionary from [`dictionary`] and a level of 1 to 22.
    ///
    /// # Errors
    /// What zstd says.
    pub fn new(dictionary: &[u8], level: i32) -> io::Result<Zstd> {
        let mut compressor = zstd::bulk::Compressor::with_dictionary(level, dictionary)?;
        for parameter in [
            CParameter::Format(FrameFormat::Magicless),
            CParameter::ChecksumFlag(false),
            CParameter::ContentSizeFlag(false),
            CParameter::DictIdFlag(false),
        ] {
            compressor.set_parameter(parameter)?;
        }
        let mut decompressor = zstd::bulk::Decompressor::with_dictionary(dictionary)?;
        decompressor.set_parameter(DParameter::Format(FrameFormat::Magicless))?;
        Ok(Zstd { compressor, decompressor, size: dictionary.len() })
    }
}

impl Single for Zstd {
    fn compress(&mut self, value: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(&self.compressor.compress(value)?);
        Ok(())
    }

    fn decompress(&mut self, compressed: &[u8], len_max: usize, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(&self.decompressor.decompress(compressed, len_max)?);
        Ok(())
    }

    fn size(&self) -> usize {
        self.size
    }
}

/// Brotli at its best quality, with a shared dictionary beside its built-in one.
pub struct Brotli {
    dictionary: Vec<u8>,
}

/// Bytes of brotli's work space while it reads and writes.
const BROTLI_BUFFER: usize = 4096;

impl Brotli {
    /// With a raw dictionary: text like the values.
    #[must_use]
    pub fn new(dictionary: &[u8]) -> Brotli {
        Brotli { dictionary: dictionary.to_vec() }
    }
}

impl Single for Brotli {
    fn compress(&mut self, value: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let parameters = brotli::enc::BrotliEncoderParams { size_hint: value.len(), ..Default::default() };
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        brotli::BrotliCompressCustomIoCustomDict(
            &mut brotli::IoReaderWrapper(&mut Cursor::new(value)),
            &mut brotli::IoWriterWrapper(out),
            &mut [0; BROTLI_BUFFER],
            &mut [0; BROTLI_BUFFER],
            &parameters,
            brotli::enc::StandardAlloc::default(),
            &mut |_, _, _, _| (),
            &self.dictionary,
            ended(),
        )?;
        Ok(())
    }

    fn decompress(&mut self, compressed: &[u8], _len_max: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let dictionary = self.dictionary.clone().into();
        let mut decompressor =
            brotli::Decompressor::new_with_custom_dict(Cursor::new(compressed), BROTLI_BUFFER, dictionary);
        decompressor.read_to_end(out).map(drop)
    }

    fn size(&self) -> usize {
        self.dictionary.len()
    }
}

/// FSST with a table of 255 symbols (Boncz, Neumann and Leis, VLDB 2020).
pub struct Fsst {
    compressor: fsst::Compressor,
}

impl Fsst {
    /// With a table learned from values.
    #[must_use]
    pub fn new(values: &[&[u8]]) -> Fsst {
        Fsst { compressor: fsst::Compressor::train(&values.to_vec()) }
    }
}

impl Single for Fsst {
    fn compress(&mut self, value: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(&self.compressor.compress(value));
        Ok(())
    }

    fn decompress(&mut self, compressed: &[u8], _len_max: usize, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(&self.compressor.decompressor().decompress(compressed));
        Ok(())
    }

    fn size(&self) -> usize {
        // A table has 8 bytes and a length for each symbol.
        self.compressor.symbol_table().len() * 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_gives_a_value_back_and_learns() {
        let values: Vec<String> = (0..20_000)
            .map(|number| format!("http://host{}.example/page/{number}.html", number % 97))
            .collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let (train, test) = values.split_at(19_900);
        let dictionary = dictionary(train, 4_000).unwrap();
        let mut codecs: Vec<Box<dyn Single>> = vec![
            Box::new(Zstd::new(&dictionary, 19).unwrap()),
            Box::new(Brotli::new(&dictionary)),
            Box::new(Fsst::new(train)),
        ];
        for (at, codec) in codecs.iter_mut().enumerate() {
            let (mut raw, mut packed) = (0, 0);
            for value in test.iter().copied().chain([&b""[..], b"\0\xff"]) {
                let (mut compressed, mut back) = (Vec::new(), Vec::new());
                codec.compress(value, &mut compressed).unwrap();
                codec.decompress(&compressed, value.len(), &mut back).unwrap();
                assert_eq!(back, value);
                raw += value.len();
                packed += compressed.len();
            }
            assert!(packed * 10 < raw * 7, "codec {at}: {packed} of {raw}");
            assert!(codec.size() > 0);
        }
    }
}
