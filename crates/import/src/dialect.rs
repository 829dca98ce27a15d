//! Detects the dialect of the files, and detects it again when a later line contradicts the first guess.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use progress::Progress;
use rows::{ContradictionKind, DialectCheck, Encoding, Findings, Format, Hints, Json};

use crate::Error;
use crate::chunk::{Chunker, Cut};
use crate::context::Context;
use crate::contradiction::FileContradiction;
use crate::source::{Buffer, Files};

/// Bytes per read when only keys are searched for.
const KEYS_BYTES: usize = 4 << 20;

/// The encoding of a file. `first` is that of the first file, unless this is the first one.
///
/// # Errors
/// When it is not text, or in an encoding that can only be guessed.
pub(crate) fn encoding(
    name: &str,
    head: &[u8],
    hints: &Hints,
    first: Option<Encoding>,
) -> Result<Encoding, Error> {
    if let Some(said) = hints.encoding {
        return Ok(said);
    }
    if let Some(what) = rows::foreign(head) {
        return Err(Error::Mismatch(format!("{name} {what}")));
    }
    let found = rows::sniff_encoding(head);
    if !matches!(found, Encoding::Utf16Le | Encoding::Utf16Be)
        && let Some(bad) = rows::not_utf8(head)
    {
        return Err(Error::Encoding { name: name.to_owned(), line: bad.line, what: bad.to_string() });
    }
    match first {
        Some(first) if first != found && !head.is_empty() => {
            let what =
                format!("this file is {found}, the ones before it are {first}; import them one by one");
            Err(Error::Encoding { name: name.to_owned(), line: 1, what })
        }
        _ => Ok(found),
    }
}

/// Checks whether a text is something other than rows.
///
/// # Errors
/// When it is; the error says what to do.
pub(crate) fn check(name: &str, text: &[u8], hints: &Hints) -> Result<(), Error> {
    let said = hints.json.is_some() || hints.delimiter.is_some() || hints.skip_lines.is_some();
    match rows::foreign_text(text).filter(|_| !said) {
        Some(what) => Err(Error::Mismatch(format!(
            "{name} {what}. To read it as delimited text anyway, use --format csv"
        ))),
        None => Ok(()),
    }
}

/// A text in its dialect, without the lines before it.
pub(crate) fn strict<'t>(findings: &Findings, text: &'t [u8], whole: bool) -> Cow<'t, [u8]> {
    let end = if memchr::memchr(b'\n', text).is_some() { b'\n' } else { b'\r' };
    let lines = usize::try_from(findings.skip_lines).unwrap_or(usize::MAX);
    let text = match lines.checked_sub(1) {
        None => text,
        Some(last) => {
            let at = memchr::memchr_iter(end, text).nth(last);
            at.and_then(|at| text.get(at + 1..)).unwrap_or_default()
        }
    };
    let Some(mut translator) = findings.format.translator(findings.dialect, 0) else {
        return Cow::Borrowed(text);
    };
    let mut made = Vec::new();
    // Errors are reported when the file is read.
    translator.translate(text, whole, &mut made).ok();
    Cow::Owned(made)
}

/// The keys of all objects in all files; `None` when they are not needed, or when a stream can be read only
/// once.
pub(crate) fn json_keys(
    files: &Files<'_>,
    findings: &Findings,
    hints: &Hints,
    progress: &dyn Progress,
) -> Result<Option<Json>, Error> {
    let Format::JsonLines(json) = &findings.format else { return Ok(None) };
    let again = (0..files.len()).all(|file| files.is_readable_again(file));
    if hints.json_keys.is_some() || !again {
        return Ok(None);
    }
    progress.phase("looking for keys", files.bytes());
    let mut keys = json.keys.clone();
    for file in 0..files.len() {
        let mut text = files.open_sampled(file)?.text(findings.encoding, None, progress);
        let (mut buffer, mut carry, mut more) = (Buffer::default(), Vec::new(), true);
        while more {
            buffer.clear();
            buffer.append(&std::mem::take(&mut carry));
            let want = buffer.len() + KEYS_BYTES;
            more = text.fill(&mut buffer, want)?;
            let end = if more {
                memchr::memrchr(b'\n', buffer.bytes()).map_or(0, |at| at + 1)
            } else {
                buffer.len()
            };
            let (lines, rest) = buffer.bytes().split_at(end);
            rows::json_keys(lines, &mut keys);
            carry = rest.to_vec();
        }
    }
    Ok(Some(Json { keys, leave_out: false }))
}

/// Searches all files for anything that contradicts a guess.
///
/// # Errors
/// When something does.
pub(crate) fn confirm(
    files: &Files<'_>,
    cut: Cut,
    dialect_check: &DialectCheck,
    context: &Context<'_>,
) -> Result<(), Error> {
    context.progress.phase("looking at every line", files.bytes());
    let mut chunker = Chunker::new(files, cut, 2, context.progress);
    while let Some(chunk) = chunker.next_chunk()? {
        if context.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        if let Some(contradiction) = FileContradiction::of(&chunk, dialect_check) {
            return Err(contradiction.error());
        }
    }
    Ok(())
}

/// This many contradictions are weighed before the user is asked to decide.
const ROUNDS_MAX: usize = 16;

/// The contradictions of earlier guesses, and the outcome.
#[derive(Default)]
pub(crate) struct DialectDecision {
    evidence: Vec<Vec<u8>>,
    confirmed: Vec<ContradictionKind>,
}

impl DialectDecision {
    /// The hints, with all the evidence.
    pub(crate) fn hints(&self, hints: &Hints) -> Hints {
        Hints { evidence: self.evidence.clone(), ..hints.clone() }
    }

    /// Adds a contradiction to the evidence, for another look at the sample.
    ///
    /// # Errors
    /// When another look is useless, so that the user must decide.
    pub(crate) fn take(&mut self, contradiction: FileContradiction) -> Result<(), Error> {
        if !contradiction.first.kind.may_be_redetected() || self.evidence.len() >= ROUNDS_MAX {
            return Err(contradiction.error());
        }
        self.evidence.push(contradiction.first.evidence);
        Ok(())
    }

    /// Compares the second detection with the first. A guess that does not change is confirmed.
    pub(crate) fn compare(&mut self, kind: ContradictionKind, before: &Findings, now: &mut Findings) {
        let same = (&before.dialect, &before.nulls, before.columns, before.header)
            == (&now.dialect, &now.nulls, now.columns, now.header);
        if same {
            self.confirmed.push(kind);
        }
        for kind in &self.confirmed {
            now.guessed.confirm(*kind);
        }
    }
}
