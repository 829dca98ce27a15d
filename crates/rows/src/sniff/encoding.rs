//! Recognises the encoding of a file.

use std::collections::BTreeSet;
use std::fmt;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

use crate::{Decoder, Encoding};

/// How many words are shown, by which the user can judge an encoding.
const WORDS_SHOWN: usize = 3;
/// The longest word that is shown, in characters.
const WORD_CHARS_MAX: usize = 20;
/// With this many characters beyond ASCII a file can be recognised reliably by its letters.
const ENOUGH: usize = 200;

/// The encoding of a file, judged by its first bytes: that of a byte order mark; else UTF-16 if half of the
/// bytes, the even or the odd ones, are mostly zero; else UTF-8 if valid. Anything else is a guess by the
/// letters, see [`not_utf8`].
pub fn sniff_encoding(sample: &[u8]) -> Encoding {
    if let Some(encoding) = utf16(sample) {
        return encoding;
    }
    not_utf8(sample).map_or(Encoding::Utf8, |found| found.guess)
}

fn utf16(sample: &[u8]) -> Option<Encoding> {
    if sample.starts_with(b"\xff\xfe") {
        return Some(Encoding::Utf16Le);
    }
    if sample.starts_with(b"\xfe\xff") {
        return Some(Encoding::Utf16Be);
    }
    let pairs = sample.chunks_exact(2);
    let total = pairs.len();
    let (high_first, low_first) = pairs.fold((0, 0), |(first, second), pair| {
        (
            first + usize::from(pair[0] == 0 && pair[1] != 0),
            second + usize::from(pair[1] == 0 && pair[0] != 0),
        )
    });
    // Even text in most languages of the world has a delimiter, a digit or a line end at every third place.
    if total >= 2 && low_first * 3 >= total && high_first * 20 <= total {
        return Some(Encoding::Utf16Le);
    }
    (total >= 2 && high_first * 3 >= total && low_first * 20 <= total).then_some(Encoding::Utf16Be)
}

/// A text that is not UTF-8, and its likely encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The first invalid bytes, one to three.
    pub bytes: Vec<u8>,
    /// Their line, counted from 1.
    pub line: u64,
    /// Whether most characters beyond ASCII are still UTF-8, so that a few bytes are damaged or come from
    /// elsewhere.
    pub damaged: bool,
    /// The most likely encoding of the text.
    pub guess: Encoding,
    /// Whether there is enough text to be sure.
    pub sure: bool,
    /// Some of its words, decoded in this way.
    pub words: Vec<String>,
}

impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<String> = self.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let bytes = bytes.join(" ");
        let guess = match self.guess {
            Encoding::Latin1 => "windows-1252".to_owned(),
            other => other.to_string().to_lowercase(),
        };
        if self.damaged {
            return write!(
                f,
                "the bytes {bytes} are not UTF-8, unlike the rest of the file; correct them, or read every line as it \
                 comes with --encoding utf-8 (the server refuses such a row, --max-rejects rejects it)"
            );
        }
        let how = if self.sure { "reads well" } else { "could be read (there is little evidence)" };
        write!(f, "the bytes {bytes} are not UTF-8; the file {how} as {guess}")?;
        if !self.words.is_empty() {
            write!(f, " ({})", self.words.join(", "))?;
        }
        write!(
            f,
            ": use --encoding {guess} if that is right, another encoding, or binary for unchanged bytes"
        )
    }
}

/// What contradicts UTF-8 in the first bytes of a file, if anything does.
pub fn not_utf8(sample: &[u8]) -> Option<NotUtf8> {
    // The escape sequences that switch to Japanese in ISO-2022-JP are ASCII themselves.
    let japanese = [&b"\x1b$B"[..], b"\x1b$@"].iter().find_map(|escape| memchr::memmem::find(sample, escape));
    let first = japanese.or_else(|| {
        let bad = std::str::from_utf8(sample).err()?;
        bad.error_len().map(|_| bad.valid_up_to())
    })?;
    let (mut good, mut bad) = (0, 0);
    for chunk in sample.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(sample, false);
    let guess = Encoding::of_standard(detector.guess(None, Utf8Detection::Deny));
    let text = &sample[first..];
    let length = if japanese.is_some() { 3 } else { text.utf8_chunks().next()?.invalid().len() };
    Some(NotUtf8 {
        bytes: text[..length].to_vec(),
        line: 1 + memchr::memchr_iter(b'\n', &sample[..first]).count() as u64,
        damaged: japanese.is_none() && good > bad,
        guess,
        sure: bad + good >= ENOUGH,
        words: words(sample, guess),
    })
}

/// The first words with characters beyond ASCII.
fn words(sample: &[u8], encoding: Encoding) -> Vec<String> {
    let mut text = Vec::new();
    // A character that is cut off at the end, or bad bytes, end what can be shown.
    Decoder::new(encoding).decode(sample, false, &mut text).ok();
    let text = String::from_utf8_lossy(&text);
    let mut seen = BTreeSet::new();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_ascii());
    let short = words.map(|word| word.chars().take(WORD_CHARS_MAX).collect::<String>());
    short.filter(|word| seen.insert(word.clone())).take(WORDS_SHOWN).collect()
}
