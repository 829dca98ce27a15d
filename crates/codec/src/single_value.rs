//! Short values, compressed one by one with what was learned from similar values: zstd and brotli with a
//! dictionary, and FSST; the last two need the feature `peers`. For comparisons; nothing here has a stable
//! format.

#[cfg(feature = "peers")]
mod comparison;

use std::io;

use zstd::zstd_safe::FrameFormat;
use zstd::zstd_safe::{CParameter, DParameter};

/// zstd's trainer gets this many times the size of the dictionary as training data.
const SAMPLES_PER_DICTIONARY: usize = 100;

/// Something that compresses single values.
pub trait ValueCodec {
    /// Appends the compressed `value` to `out`.
    ///
    /// # Errors
    /// An error of the codec.
    fn compress(&mut self, value: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Appends the value in `compressed` to `out`; it has at most `len_max` bytes.
    ///
    /// # Errors
    /// An error of the codec.
    fn decompress(&mut self, compressed: &[u8], len_max: usize, out: &mut Vec<u8>) -> io::Result<()>;

    /// Bytes of the dictionary or table.
    fn size(&self) -> usize;
}

/// zstd with a dictionary, without magic number, checksum, dictionary id and content size.
pub struct Zstd {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
    size: usize,
}

/// Makes a dictionary from values with zstd's trainer.
///
/// # Errors
/// When there are too few values.
pub fn dictionary(values: &[&[u8]], size_max: usize) -> io::Result<Vec<u8>> {
    // The trainer uses about a hundred times the dictionary's size, and gets slow with more.
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
    /// An error of zstd.
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

impl ValueCodec for Zstd {
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

/// Another codec to compare with, trained.
pub struct ComparisonCodec {
    /// Its name.
    pub name: &'static str,
    /// The trained codec.
    pub codec: Box<dyn ValueCodec>,
    /// Whether it takes milliseconds per value.
    pub slow: bool,
}

/// brotli and FSST, trained on `values`. They exist only with the feature `peers`, because only a comparison
/// needs them.
#[cfg(feature = "peers")]
pub use comparison::comparison_codecs;

/// None: brotli and FSST need the feature `peers`, which this build lacks.
#[cfg(not(feature = "peers"))]
#[must_use]
pub fn comparison_codecs(_values: &[&[u8]]) -> Vec<ComparisonCodec> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_is_made_of_a_hundred_times_its_size() {
        // 1500 of these values have 100 times 300 bytes; the one that fills them up is left out.
        let values: Vec<String> = (0..3000)
            .map(|number| format!("/page/{:010}/{:03}", number * 7919 % 100_000, number % 97))
            .collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let made = |count: usize| dictionary(&values[..count], 300).unwrap();
        assert!(values[0].len() == 20 && made(3000) == made(1499) && made(3000) != made(1498));
    }

    #[test]
    fn every_codec_gives_a_value_back_and_learns() {
        let values: Vec<String> = (0..3_000)
            .map(|number| format!("http://host{}.example/page/{number}.html", number % 97))
            .collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let (train, test) = values.split_at(2_980);
        let dictionary = dictionary(train, 4_000).unwrap();
        assert_eq!(Zstd::new(&dictionary, 19).unwrap().size(), dictionary.len());
        let mut codecs: Vec<Box<dyn ValueCodec>> = vec![Box::new(Zstd::new(&dictionary, 19).unwrap())];
        let others = comparison_codecs(train);
        assert_eq!(others.len(), if cfg!(feature = "peers") { 2 } else { 0 });
        codecs.extend(others.into_iter().map(|peer| peer.codec));
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
