//! Short values compressed one by one with what was learned from others like them: zstd and brotli with a
//! dictionary, FSST, the last two with the feature `peers`. For comparisons; nothing here has a stable
//! format.

#[cfg(feature = "peers")]
mod peers;

use std::io;

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

/// Another codec to compare with, trained.
pub struct Peer {
    /// What to call it.
    pub name: &'static str,
    /// What it does.
    pub codec: Box<dyn Single>,
    /// It takes milliseconds for a value.
    pub slow: bool,
}

/// brotli and FSST, trained on `values`. Only a comparison needs them, so they are there with the feature
/// `peers`; without it there are none.
#[cfg(feature = "peers")]
pub use peers::peers;

/// brotli and FSST, which this build leaves out: the feature `peers` has them.
#[cfg(not(feature = "peers"))]
#[must_use]
pub fn peers(_values: &[&[u8]]) -> Vec<Peer> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_is_made_of_a_hundred_times_its_size() {
        let values: Vec<String> =
            (0..3000).map(|number| format!("/page/{:07}/{}", number * 7919 % 100_000, number % 97)).collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let made = |values: &[&[u8]]| dictionary(values, 300).unwrap();
        let mut left = 300 * 100;
        let looked_at = values.iter().take_while(|value| {
            left -= value.len().min(left);
            left > 0
        });
        let looked_at = looked_at.count();
        assert!((500..2500).contains(&looked_at), "{looked_at}");
        assert!(
            made(&values) == made(&values[..looked_at]) && made(&values) != made(&values[..looked_at / 2])
        );
    }

    #[test]
    fn every_codec_gives_a_value_back_and_learns() {
        let values: Vec<String> = (0..20_000)
            .map(|number| format!("http://host{}.example/page/{number}.html", number % 97))
            .collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let (train, test) = values.split_at(19_900);
        let dictionary = dictionary(train, 4_000).unwrap();
        assert_eq!(Zstd::new(&dictionary, 19).unwrap().size(), dictionary.len());
        let mut codecs: Vec<Box<dyn Single>> = vec![Box::new(Zstd::new(&dictionary, 19).unwrap())];
        let peers = peers(train);
        assert_eq!(peers.len(), if cfg!(feature = "peers") { 2 } else { 0 });
        codecs.extend(peers.into_iter().map(|peer| peer.codec));
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
