//! The text for the measurement: all of the files, or samples from all over them.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use codec::Codec;
use disk::{Disk, RealDisk};

use progress::size;

/// Samples taken from each file.
const PIECES: u64 = 16;
/// The text is kept in memory: of longer texts only a sample is taken.
const TEXT_BYTES_MAX: u64 = 4 << 30;

/// The text, and the total length of the files.
pub struct Sample {
    /// What is compressed.
    pub text: Vec<u8>,
    /// The length of all files, decompressed.
    pub all_bytes: u64,
}

impl Sample {
    /// A line that describes the sample.
    pub fn shown(&self) -> String {
        let (text, all) = (size(self.text.len() as u64), size(self.all_bytes));
        if self.text.len() as u64 == self.all_bytes {
            format!("Measured on all of it, {all}")
        } else {
            let more = if self.all_bytes <= TEXT_BYTES_MAX { "; --sample 0 takes all of it" } else { "" };
            format!("Measured on {text} of {all}, taken from all parts{more}")
        }
    }
}

/// Takes about this many bytes from the files, in proportion to their sizes; 0 for all.
pub fn take(disk: &RealDisk, files: &[PathBuf], bytes: u64) -> Result<Sample> {
    let wanted = if bytes == 0 { TEXT_BYTES_MAX } else { bytes.min(TEXT_BYTES_MAX) };
    let mut lens = Vec::new();
    for file in files {
        lens.push(plain_len(disk, file).with_context(|| file.display().to_string())?);
    }
    let all_bytes: u64 = lens.iter().sum();
    let mut text = Vec::new();
    for (file, len) in files.iter().zip(lens) {
        let share = u64::try_from(u128::from(wanted) * u128::from(len) / u128::from(all_bytes.max(1)))?;
        let taken = Disk::open(disk, file)
            .and_then(|source| codec::decoder(Box::new(source)))
            .map_err(anyhow::Error::from)
            .and_then(|(_, mut plain)| pieces(&mut plain, len, share, &mut text));
        taken.with_context(|| file.display().to_string())?;
    }
    if text.is_empty() {
        bail!("there is nothing to measure on: the files are empty");
    }
    Ok(Sample { text, all_bytes })
}

/// Length of a file when decompressed.
fn plain_len(disk: &RealDisk, file: &Path) -> Result<u64> {
    let source = Disk::open(disk, file)?;
    let len = source.stat()?.len;
    let (codec, mut plain) = codec::decoder(Box::new(source))?;
    if codec == Codec::Plain { Ok(len) } else { Ok(std::io::copy(&mut plain, &mut std::io::sink())?) }
}

/// Takes whole lines from all over a text of this length, or all of it.
fn pieces(plain: &mut impl Read, len: u64, share: u64, text: &mut Vec<u8>) -> Result<()> {
    if share >= len {
        plain.read_to_end(text)?;
        return Ok(());
    }
    let (piece, step) = ((share / PIECES).max(1), len / PIECES);
    for number in 0..PIECES {
        let mut bytes = Vec::new();
        plain.by_ref().take(piece).read_to_end(&mut bytes)?;
        std::io::copy(&mut plain.by_ref().take(step.saturating_sub(piece)), &mut std::io::sink())?;
        // A cut line, joined to the next sample, would be a line that the file does not contain.
        let from =
            if number == 0 { 0 } else { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
        let to = bytes.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        text.extend_from_slice(bytes.get(from..to.max(from)).unwrap_or_default());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_offers_to_take_all_unless_the_text_is_too_long() {
        let shown = |all_bytes| Sample { text: vec![b'x'; 10], all_bytes }.shown();
        assert!(shown(10).contains("all of it") && shown(1 << 30).contains("--sample 0"));
        assert!(!shown(5 << 30).contains("--sample 0"), "{}", shown(5 << 30));
    }

    #[test]
    fn a_sample_has_whole_lines_from_everywhere() {
        let all: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
        let mut text = Vec::new();
        pieces(&mut all.as_bytes(), all.len() as u64, 50_000, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!((45_000..=50_000).contains(&text.len()), "{}", text.len());
        let numbers: Vec<u32> =
            text.lines().map(|line| line.strip_prefix("line ").unwrap().parse().unwrap()).collect();
        assert!(numbers.is_sorted() && numbers.first() == Some(&0) && numbers.last() > Some(&90_000));
        assert!(all.starts_with(text.lines().next().unwrap()));
        let mut whole = Vec::new();
        pieces(&mut all.as_bytes(), all.len() as u64, all.len() as u64, &mut whole).unwrap();
        assert_eq!(whole, all.as_bytes());
    }
}
