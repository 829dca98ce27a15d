//! Codecs that only a comparison needs.

use std::io::{self, Cursor, Read as _};

use super::{ComparisonCodec, ValueCodec};

/// brotli and FSST, trained on `values`.
#[must_use]
pub fn comparison_codecs(values: &[&[u8]]) -> Vec<ComparisonCodec> {
    let brotli = Box::new(Brotli::new(&evenly(values)));
    vec![
        ComparisonCodec { name: "brotli 11, dictionary of 112 kB", codec: brotli, slow: true },
        ComparisonCodec { name: "FSST", codec: Box::new(Fsst::new(values)), slow: false },
    ]
}

/// Brotli has no trainer; its dictionary is a sample of the values at even distances.
fn evenly(values: &[&[u8]]) -> Vec<u8> {
    const SIZE: usize = 112_000;
    let bytes: usize = values.iter().map(|value| value.len() + 1).sum();
    let mut dictionary = Vec::new();
    for value in values.iter().step_by(bytes.div_ceil(SIZE).max(1)) {
        dictionary.extend_from_slice(value);
        dictionary.push(b'\n');
    }
    dictionary
}

/// Brotli at its best quality, with a shared dictionary besides its built-in one.
struct Brotli {
    dictionary: Vec<u8>,
}

/// Bytes of brotli's buffers for reading and writing.
const BROTLI_BUFFER: usize = 4096;

impl Brotli {
    /// Takes a raw dictionary: text similar to the values.
    fn new(dictionary: &[u8]) -> Brotli {
        Brotli { dictionary: dictionary.to_vec() }
    }
}

impl ValueCodec for Brotli {
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
struct Fsst {
    compressor: fsst::Compressor,
}

impl Fsst {
    /// Learns a table from values.
    fn new(values: &[&[u8]]) -> Fsst {
        Fsst { compressor: fsst::Compressor::train(&values.to_vec()) }
    }
}

impl ValueCodec for Fsst {
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
