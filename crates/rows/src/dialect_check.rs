//! Checks the rest of a file against the guesses from its beginning.
//!
//! A dialect is guessed from a sample, so every chunk of the file is passed to a [`DialectCheck`]. Most
//! chunks pass after a few searches for bytes that could contradict the guess; records and fields are
//! examined only if such a byte is found.

use memchr::{memchr, memchr_iter, memchr2, memmem};

use crate::backslash::{Backslashes, is_behind_drive};
use crate::contradiction::{Contradiction, ContradictionKind, GuessedOptions};
use crate::field::is_among_typed;
use crate::{Dialect, Field, LineEnd, Nulls, fields, infer, records};

/// How many bytes around a contradiction are kept as evidence.
const EVIDENCE_BYTES_MAX: usize = 64 << 10;
/// And how many records: an escaped line end splits one into two.
const EVIDENCE_RECORDS: usize = 3;

/// Checks the chunks of a file. Threads can share it.
#[derive(Clone, Debug)]
pub struct DialectCheck {
    dialect: Dialect,
    nulls: Nulls,
    guessed: GuessedOptions,
    /// The header as it is in the file.
    heading: Option<memmem::Finder<'static>>,
    null_word: memmem::Finder<'static>,
    /// Columns in which a word that is read as NULL may be a value.
    texts: Vec<usize>,
}

impl DialectCheck {
    /// Watches the properties that are `guessed`. `heading` is the first record, if it is a header.
    #[must_use]
    pub fn new(
        dialect: Dialect,
        nulls: Nulls,
        guessed: GuessedOptions,
        heading: Option<&[u8]>,
    ) -> DialectCheck {
        let heading = heading.filter(|heading| guessed.header && !heading.is_empty());
        DialectCheck {
            dialect,
            nulls,
            guessed,
            heading: heading.map(|heading| memmem::Finder::new(heading).into_owned()),
            null_word: memmem::Finder::new("NULL").into_owned(),
            texts: Vec::new(),
        }
    }

    /// Also checks these columns, by number, for words that show that a guessed word for NULL is a value
    /// there. This concerns only words that are NULL because everything else was numbers.
    #[must_use]
    pub fn with_texts(mut self, columns: Vec<usize>) -> DialectCheck {
        let among_typed = self.nulls.words.iter().any(|word| is_among_typed(word));
        if self.guessed.nulls && among_typed {
            self.texts = columns;
        }
        self
    }

    /// The guesses that it checks.
    #[must_use]
    pub fn guessed(&self) -> GuessedOptions {
        self.guessed
    }

    /// What contradicts the guesses in a chunk of whole records: the first place of each kind.
    #[must_use]
    pub fn look(&self, chunk: &[u8]) -> Vec<Contradiction> {
        if self.may_contradict(chunk) { self.examine(chunk) } else { Vec::new() }
    }

    /// Whether a record at this offset of a chunk, which has the wrong number of fields, would have the right
    /// number if backslashes were escapes: one is before a delimiter or a line end.
    #[must_use]
    pub fn ragged(&self, chunk: &[u8], offset: usize) -> Option<Contradiction> {
        let rest = chunk.get(offset..).unwrap_or_default();
        let record = records(&self.dialect, rest).next()?;
        let escapes =
            memmem::find(record, &[b'\\', self.dialect.delimiter]).is_some() || record.ends_with(b"\\");
        let guessed = self.guessed.escape && self.dialect.escape_byte().is_none();
        (guessed && escapes).then(|| Contradiction {
            kind: ContradictionKind::Escaped,
            offset,
            field: shown(record),
            evidence: self.evidence(rest),
        })
    }

    /// A quick look; if it says no, there is certainly nothing.
    fn may_contradict(&self, chunk: &[u8]) -> bool {
        let has = |byte| memchr(byte, chunk).is_some();
        let GuessedOptions { escape, quote, quoted_lines, other_quote, line_end, nulls, .. } = self.guessed;
        (escape || nulls) && self.has_telling_backslash(chunk)
            || line_end && self.has_odd_line_end(chunk)
            || (quote || quoted_lines || escape && has(b'\\'))
                && self.dialect.quote.is_some_and(|quote| self.has_telling_quote(chunk, quote))
            || other_quote && self.other_quotes().any(has)
            || nulls && !self.knows(b"NULL") && self.null_word.find(chunk).is_some()
            || self.heading.as_ref().is_some_and(|heading| heading.find(chunk).is_some())
            || !self.texts.is_empty()
    }

    fn knows(&self, word: &[u8]) -> bool {
        self.nulls.words.iter().any(|known| known == word)
    }

    /// Quotes that are not the dialect's.
    fn other_quotes(&self) -> impl Iterator<Item = u8> {
        let chosen = self.dialect.quote;
        [b'"', b'\''].into_iter().filter(move |quote| Some(*quote) != chosen)
    }

    /// Whether there is a backslash that shows, by the next byte, whether backslashes are escapes.
    fn has_telling_backslash(&self, chunk: &[u8]) -> bool {
        let escaped = self.dialect.escape_byte().is_some();
        let mut behind = 0;
        memchr_iter(b'\\', chunk).any(|at| {
            if at < behind {
                return false;
            }
            behind = at + 2;
            match chunk.get(at + 1) {
                Some(b'\\') => !escaped,
                Some(_) if escaped && is_behind_drive(chunk, at) => true,
                Some(b'0' | b'"' | b'\'' | b'\n' | b'\t' | b'\r') => !escaped,
                Some(b'N') => match (self.is_whole(chunk, at, at + 2), escaped) {
                    (true, true) => self.guessed.nulls && !self.nulls.words.is_empty(),
                    (true, false) => !self.knows(b"\\N"),
                    (false, escaped) => escaped,
                },
                Some(b'n' | b't' | b'r' | b'b' | b'Z') => false,
                Some(byte) if *byte == self.dialect.delimiter => false,
                _ => escaped,
            }
        })
    }

    /// Whether a line end begins at this offset.
    fn has_line_end(&self, chunk: &[u8], at: usize) -> bool {
        let line_end = self.dialect.line_end;
        match chunk.get(at) {
            Some(b'\n') => matches!(line_end, LineEnd::Lf | LineEnd::Any),
            Some(b'\r') if line_end == LineEnd::Cr => true,
            // At the end of a chunk half of one will do.
            Some(b'\r') => line_end != LineEnd::Lf && chunk.get(at + 1).is_none_or(|byte| *byte == b'\n'),
            _ => false,
        }
    }

    /// Whether a field may end before this offset.
    fn ends(&self, chunk: &[u8], at: usize) -> bool {
        chunk.get(at).is_none_or(|byte| *byte == self.dialect.delimiter) || self.has_line_end(chunk, at)
    }

    /// Where the delimiter or line end begins that ends before this offset.
    fn separator(&self, chunk: &[u8], end: usize) -> Option<usize> {
        let last = end.checked_sub(1)?;
        let start = if self.dialect.line_end == LineEnd::CrLf && chunk.get(last) == Some(&b'\n') {
            last.checked_sub(1).filter(|start| self.has_line_end(chunk, *start))
        } else {
            Some(last).filter(|start| self.ends(chunk, *start))
        };
        start.filter(|start| !self.is_escaped(chunk, *start))
    }

    /// Whether the byte at this offset is behind an escape.
    fn is_escaped(&self, chunk: &[u8], at: usize) -> bool {
        let escape = self.dialect.escape_byte();
        chunk[..at].iter().rev().take_while(|byte| Some(**byte) == escape).count() % 2 == 1
    }

    /// Whether these bytes are a field, or all that is in its quotes.
    fn is_whole(&self, chunk: &[u8], mut from: usize, mut to: usize) -> bool {
        let is_quote = |byte: Option<&u8>| byte.is_some() && byte.copied() == self.dialect.quote;
        if from > 0 && is_quote(chunk.get(from - 1)) && is_quote(chunk.get(to)) {
            (from, to) = (from - 1, to + 1);
        }
        self.ends(chunk, to) && (from == 0 || self.separator(chunk, from).is_some())
    }

    /// Whether text follows a closing quote, an opening quote is never closed, or backslashes between quotes
    /// show whether they are escapes. Opening and closing quotes look alike, so their state is tracked from
    /// the start of the chunk.
    fn has_telling_quote(&self, chunk: &[u8], quote: u8) -> bool {
        let is_odd = self.guessed.quote || self.guessed.quoted_lines;
        let (mut start, mut behind) = (None, 0);
        for at in memchr_iter(quote, chunk) {
            let Some(from) = start else {
                start = (at == 0 || self.separator(chunk, at).is_some()).then_some(at + 1);
                continue;
            };
            if at < behind || self.is_escaped(chunk, at) {
                continue;
            }
            match chunk.get(at + 1) {
                Some(next) if *next == quote => behind = at + 2,
                _ if !self.ends(chunk, at + 1) => return is_odd,
                _ if self.tells(&chunk[from..at]) => return true,
                _ => start = None,
            }
        }
        start.is_some() && is_odd
    }

    /// Whether what is between two quotes shows whether backslashes are escapes. A delimiter or line end
    /// beside one says nothing there, and doubled quotes tell as well.
    fn tells(&self, raw: &[u8]) -> bool {
        let field = Field { raw, quoted: true, escaped: true, malformed: false };
        let Some(found) = Backslashes::of(&field, &self.dialect) else { return false };
        let is_escaped = self.dialect.escape_byte().is_some();
        self.guessed.escape && if is_escaped { found.are_text() } else { found.are_escapes() }
    }

    fn has_odd_line_end(&self, chunk: &[u8]) -> bool {
        let newline = |at: usize| chunk.get(at + 1) == Some(&b'\n');
        let mut returns = memchr_iter(b'\r', chunk);
        match self.dialect.line_end {
            LineEnd::Lf => returns.next().is_some(),
            LineEnd::Cr => memchr(b'\n', chunk).is_some(),
            LineEnd::Any => returns.any(|at| !newline(at)),
            LineEnd::CrLf => {
                let is_odd = |at: usize| match chunk[..at] {
                    // Where the backslash is escaped itself, the closer look finds nothing.
                    [.., escape, b'\r'] => Some(escape) == self.dialect.escape_byte(),
                    [.., b'\r'] => false,
                    _ => true,
                };
                returns.any(|at| !newline(at)) || memchr_iter(b'\n', chunk).any(is_odd)
            }
        }
    }

    fn examine(&self, chunk: &[u8]) -> Vec<Contradiction> {
        let mut contradictions: Vec<Contradiction> = Vec::new();
        let mut row: Vec<Field<'_>> = Vec::new();
        let mut records = records(&self.dialect, chunk);
        loop {
            let offset = records.offset();
            let Some(record) = records.next() else { return contradictions };
            fields(&self.dialect, record, &mut row);
            let mut found = |kind: ContradictionKind, field: &Field<'_>| {
                if contradictions.iter().all(|contradiction| contradiction.kind != kind) {
                    let evidence = self.evidence(&chunk[offset..]);
                    contradictions.push(Contradiction { kind, offset, field: shown(field.raw), evidence });
                }
            };
            if self.heading.as_ref().is_some_and(|heading| heading.needle() == record) {
                found(ContradictionKind::HeaderAgain, &row[0]);
            }
            for field in &row {
                self.judge(field, &mut found);
            }
            // A single such field may be an accident.
            let enclosed = |quote: u8, field: &&Field<'_>| {
                let raw = field.raw;
                !field.quoted && raw.len() > 1 && raw.first() == Some(&quote) && raw.last() == Some(&quote)
            };
            let several = |quote: &u8| row.iter().filter(|field| enclosed(*quote, field)).count() > 1;
            if self.guessed.other_quote && self.other_quotes().any(|quote| several(&quote)) {
                found(ContradictionKind::OtherQuote, &row[0]);
            }
            if let Some(last) = row.last()
                && self.guessed.line_end
                && self.dialect.line_end == LineEnd::Lf
                && self.dialect.escape_byte().is_none()
                && (last.raw.ends_with(b"\r") || last.malformed)
                && record.ends_with(b"\r")
            {
                found(ContradictionKind::OtherLineEnd, last);
            }
            for &at in &self.texts {
                if let Some(field) = row.get(at).filter(|field| self.is_word(field)) {
                    found(ContradictionKind::NoNullWord, field);
                }
            }
        }
    }

    fn judge<'a>(&self, field: &Field<'a>, found: &mut impl FnMut(ContradictionKind, &Field<'a>)) {
        let GuessedOptions { escape, quote, quoted_lines, line_end, nulls, .. } = self.guessed;
        if quote && field.malformed {
            found(ContradictionKind::TextBehindQuote, field);
        }
        if quoted_lines && field.malformed && memchr2(b'\n', b'\r', field.raw).is_some() {
            found(ContradictionKind::LinesInQuotes, field);
        }
        if let Some(backslashes) = Backslashes::of(field, &self.dialect) {
            let escaped = self.dialect.escape_byte().is_some();
            if !escaped && escape && backslashes.null && !field.quoted && !self.knows(b"\\N") {
                found(ContradictionKind::NullEscape, field);
            } else if escaped && nulls && backslashes.null && !self.nulls.words.is_empty() {
                found(ContradictionKind::NullWord, field);
            } else if !escaped && escape && !backslashes.null && backslashes.are_escapes() {
                found(ContradictionKind::Escaped, field);
            } else if escaped && escape && backslashes.are_text() {
                found(ContradictionKind::NotEscaped, field);
            }
        }
        if field.quoted {
            return;
        }
        if nulls && field.raw == b"NULL" && !self.knows(b"NULL") {
            found(ContradictionKind::NullWord, field);
        }
        if line_end {
            self.judge_returns(field, found);
        }
    }

    /// A server does not escape carriage returns, so where there are escapes they are data.
    fn judge_returns<'a>(&self, field: &Field<'a>, found: &mut impl FnMut(ContradictionKind, &Field<'a>)) {
        let has = |byte| memchr(byte, field.raw).is_some();
        match self.dialect.line_end {
            LineEnd::CrLf | LineEnd::Cr if has(b'\n') => found(ContradictionKind::OtherLineEnd, field),
            LineEnd::Cr => {}
            _ if self.dialect.escape_byte().is_some() => {}
            _ => {
                let inner = field.raw.strip_suffix(b"\r").unwrap_or(field.raw);
                if memchr(b'\r', inner).is_some() {
                    found(ContradictionKind::LoneReturn, field);
                }
            }
        }
    }

    /// A word, as opposed to numbers, dates, empty fields and NULL.
    fn is_word(&self, field: &Field<'_>) -> bool {
        !field.is_null(&self.nulls) && !field.raw.is_empty() && !infer::is_typed(field.raw)
    }

    fn evidence(&self, rest: &[u8]) -> Vec<u8> {
        let mut records = records(&self.dialect, rest);
        for _ in 0..EVIDENCE_RECORDS {
            records.next();
        }
        rest[..records.offset().min(EVIDENCE_BYTES_MAX)].to_vec()
    }
}

/// The beginning of a field, as shown in a message.
fn shown(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut short: String = text
        .chars()
        .take(60)
        .flat_map(|c| {
            let keep = !c.is_control();
            keep.then_some(c).into_iter().chain((!keep).then(|| c.escape_default()).into_iter().flatten())
        })
        .collect();
    if text.chars().nth(60).is_some() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: GuessedOptions = GuessedOptions {
        escape: true,
        quote: true,
        quoted_lines: true,
        other_quote: true,
        line_end: true,
        nulls: true,
        header: true,
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8000))]

        #[test]
        fn a_quick_look_misses_nothing(
            chunk in "([a,\"\n\\\\]|[a,:'\"\r\n\\\\N0tnx]|NULL|\\\\N|\r\n|a,x\n){0,24}",
            escape in prop_oneof![Just(None), Just(Some(b'\\'))],
            quote in prop_oneof![Just(None), Just(Some(b'"')), Just(Some(b'\''))],
            line_end in prop::sample::select(vec![LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr, LineEnd::Any]),
            word in prop_oneof![Just(None), Just(Some("NULL")), Just(Some("\\N")), Just(Some("x"))],
            guesses in any::<[bool; 7]>(),
        ) {
            let dialect = Dialect { escape, quote, line_end, ..Dialect::CSV };
            let nulls = Nulls { empty: false, words: word.iter().map(|word| word.as_bytes().to_vec()).collect() };
            let [escape, quote, quoted_lines, other_quote, line_end, nulls_are, header] = guesses;
            let guessed =
                GuessedOptions { escape, quote, quoted_lines, other_quote, line_end, nulls: nulls_are, header };
            let dialect_check = DialectCheck::new(dialect, nulls, guessed, Some(b"a,x"));
            let chunk = chunk.as_bytes();
            let mut row = Vec::new();
            let mut is_odd = |record| {
                fields(&dialect, record, &mut row);
                row.iter().any(|field| field.malformed)
            };
            // Quotes are checked by a guess of their own; without it, the content of odd ones is not changed.
            if quote || !records(&dialect, chunk).any(&mut is_odd) {
                prop_assert!(dialect_check.may_contradict(chunk) || dialect_check.examine(chunk).is_empty());
            }
        }
    }

    #[test]
    fn a_quick_look_knows_line_ends_from_data() {
        let kinds = |line_end, escape, chunk: &str| {
            let dialect_check =
                DialectCheck::new(Dialect { line_end, escape, ..Dialect::CSV }, Nulls::default(), ALL, None);
            dialect_check
                .look(chunk.as_bytes())
                .into_iter()
                .map(|contradiction| contradiction.kind)
                .collect::<Vec<_>>()
        };
        let escape = Some(b'\\');
        assert_eq!(kinds(LineEnd::CrLf, escape, "a\\\r\nb\r\n"), [ContradictionKind::OtherLineEnd]);
        assert_eq!(kinds(LineEnd::CrLf, escape, "a\\\\\r\nb\r\n"), []);
        assert_eq!(kinds(LineEnd::Cr, None, "\"a\"\r\"b\"\r"), []);
    }

    #[test]
    fn a_quick_look_sees_backslashes_that_their_field_makes_text() {
        let escaped = Dialect { escape: Some(b'\\'), ..Dialect::CSV };
        for (dialect, chunk, kind) in [
            // \N among other lines of a field, doubled quotes, a path.
            (escaped, "\"a\n\\N\n\",b\n", ContradictionKind::NotEscaped),
            (escaped, "\"say \"\"no\\n\"\"\",b\n", ContradictionKind::NotEscaped),
            (escaped, "a,C:\\new\n", ContradictionKind::NotEscaped),
            (Dialect::CSV, "\"a\\,b\",c\n", ContradictionKind::Escaped),
        ] {
            let guessed = GuessedOptions { escape: true, ..GuessedOptions::default() };
            let seen = DialectCheck::new(dialect, Nulls::default(), guessed, None).look(chunk.as_bytes());
            assert_eq!(seen.iter().map(|seen| seen.kind).collect::<Vec<_>>(), [kind], "{chunk:?}");
        }
        // A line end behind a colon is no path.
        let check = DialectCheck::new(escaped, Nulls::default(), ALL, None);
        assert_eq!(check.look(b"a,Items:\\n- one\n"), []);
    }

    #[test]
    fn a_quick_look_spares_most_chunks() {
        let dialect_check = |dialect, words: &[&str]| {
            let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            DialectCheck::new(dialect, Nulls { empty: false, words }, ALL, Some(b"id,name"))
        };
        let escaped = Dialect { escape: Some(b'\\'), ..Dialect::CSV };
        for (dialect, words, chunk) in [
            (Dialect::CSV, &[][..], "1,\"two\",\"th\"\"ree\"\n2,\"\",x\n"),
            (Dialect::CSV, &["NULL"], "1,NULL\n"),
            (Dialect::CSV, &["\\N"], "1,\\N\n\\N,\\a\n"),
            (Dialect { line_end: LineEnd::CrLf, ..Dialect::CSV }, &[], "1,2\r\n3,4\r\n"),
            (Dialect { line_end: LineEnd::Any, ..Dialect::CSV }, &[], "1,2\r\n3,4\n"),
            (Dialect { line_end: LineEnd::Cr, ..Dialect::CSV }, &[], "1,2\r3,4\r"),
            (escaped, &[], "1,a\\\\b\\\"c\n\\N,\"\\\"\"\n"),
        ] {
            assert!(!dialect_check(dialect, words).may_contradict(chunk.as_bytes()), "{chunk:?}");
        }
    }

    #[test]
    fn a_guess_that_was_weighed_again_is_watched_no_longer() {
        for (kind, left) in [
            (ContradictionKind::NullEscape, GuessedOptions { escape: false, ..ALL }),
            (ContradictionKind::Escaped, GuessedOptions { escape: false, ..ALL }),
            (ContradictionKind::NotEscaped, GuessedOptions { escape: false, ..ALL }),
            (ContradictionKind::TextBehindQuote, GuessedOptions { quote: false, ..ALL }),
            (ContradictionKind::LinesInQuotes, GuessedOptions { quoted_lines: false, ..ALL }),
            (ContradictionKind::OtherQuote, GuessedOptions { other_quote: false, ..ALL }),
            (ContradictionKind::LoneReturn, GuessedOptions { line_end: false, ..ALL }),
            (ContradictionKind::OtherLineEnd, GuessedOptions { line_end: false, ..ALL }),
            (ContradictionKind::NullWord, GuessedOptions { nulls: false, ..ALL }),
            (ContradictionKind::NoNullWord, GuessedOptions { nulls: false, ..ALL }),
            (ContradictionKind::HeaderAgain, GuessedOptions { header: false, ..ALL }),
        ] {
            let mut guessed = ALL;
            guessed.confirm(kind);
            assert_eq!(guessed, left, "{kind:?}");
        }
        assert!(
            ALL.any()
                && GuessedOptions { header: true, ..GuessedOptions::default() }.any()
                && !GuessedOptions::default().any()
        );
    }
}
