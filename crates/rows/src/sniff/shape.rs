//! Recognises what is around the rows and between the fields: lines before the header, JSON, lenient
//! delimiters.

use memchr::{memchr, memmem};

use super::trial::DELIMITERS;
use super::{Findings, Fit, Hints, RECORDS_MAX, UNDECIDED, header, read};
use crate::infer::is_typed;
use crate::json::{first_array, is_json_arrays, is_json_lines, json_keys};
use crate::{Dialect, Format, Json, Lenient, LineEnd, records};

/// Delimiters that also occur in many texts that they do not separate; best first.
const RARE: [u8; 4] = [b'^', b'~', b':', b' '];
/// The most records of a preamble.
const PREAMBLE_MAX: usize = 50;
/// The share of the records after a preamble that must agree.
const AGREEING_MIN: f64 = 0.95;

/// Recognises a text by its beginning.
pub(super) fn find(bytes: &[u8], whole: bool, hints: &Hints) -> Findings {
    let mut hints = hints.clone();
    let named = hints.skip_lines.is_none().then(|| separator_line(bytes)).flatten();
    if let Some(delimiter) = named {
        hints.skip_lines = Some(1);
        hints.delimiter = hints.delimiter.or(Some(delimiter));
    }
    let skip = hints.skip_lines.unwrap_or(0);
    let text = behind_lines(bytes, skip);
    let may_be_json = hints.json.unwrap_or(hints.delimiter.is_none() && !hints.lenient.any());
    if may_be_json && hints.skip_lines.is_none() {
        let remarks =
            text.split(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#")).count() as u64;
        if remarks > 0 && is_json(behind_lines(text, remarks)) {
            let found = json(behind_lines(text, remarks), whole, &hints);
            return skipped(found, remarks, ["begins with #", "begin with #"]);
        }
    }
    if hints.json == Some(true) || may_be_json && is_json(text) {
        return Findings { skip_lines: skip, ..json(text, whole, &hints) };
    }
    if hints.lenient.any() {
        return Findings { skip_lines: skip, ..read_lenient(text, whole, &hints, hints.lenient.clone()).0 };
    }
    if hints.skip_lines.is_none() {
        let comments = comment_lines(text, whole, &hints);
        if comments > 0 {
            return behind(text, whole, &hints, comments, ["begins with #", "begin with #"]);
        }
    }
    let (found, fit) = read(text, whole, &hints);
    if hints.skip_lines.is_none() && hints.header != Some(false) {
        let lines = preamble(text, &found, &fit, &hints);
        if lines > 0 {
            let why =
                ["has fewer fields than the following lines", "have fewer fields than the following lines"];
            return behind(text, whole, &hints, lines, why);
        }
    }
    Findings { skip_lines: skip, ..loosened(text, whole, &hints, (found, fit)) }
}

/// The text after lines that do not belong to the table.
fn behind(text: &[u8], whole: bool, hints: &Hints, lines: u64, [one, many]: [&str; 2]) -> Findings {
    let rest = behind_lines(text, lines);
    skipped(loosened(rest, whole, hints, read(rest, whole, hints)), lines, [one, many])
}

/// The same, with the reason.
fn skipped(mut found: Findings, lines: u64, [one, many]: [&str; 2]) -> Findings {
    found.skip_lines = lines;
    let skipped = match lines {
        1 => format!("the first line is skipped, because it {one}"),
        lines => format!("the first {lines} lines are skipped, because they {many}"),
    };
    found.notes.insert(0, format!("{skipped}; --skip-lines 0 reads everything"));
    found
}

/// A text without its first lines.
fn behind_lines(text: &[u8], lines: u64) -> &[u8] {
    let end = if memchr(b'\n', text).is_some() { b'\n' } else { b'\r' };
    let Some(last) = usize::try_from(lines).unwrap_or(usize::MAX).checked_sub(1) else { return text };
    let at = memchr::memchr_iter(end, text).nth(last);
    at.map_or(&[], |at| &text[at + 1..])
}

/// The delimiter of a first line `sep=;`, which Excel writes and reads.
fn separator_line(text: &[u8]) -> Option<u8> {
    let line = text.split(|byte| matches!(byte, b'\n' | b'\r')).next()?;
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match line {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] if delimiter.is_ascii() => Some(*delimiter),
        _ => None,
    }
}

/// Whether a text is JSON of which each line is a row.
fn is_json(text: &[u8]) -> bool {
    is_json_lines(text) || is_json_arrays(text)
}

fn json(text: &[u8], whole: bool, hints: &Hints) -> Findings {
    let lines = match memchr::memrchr(b'\n', text) {
        Some(last) if !whole => &text[..=last],
        _ => text,
    };
    if hints.json_keys.is_none() && text.trim_ascii_start().starts_with(b"[") {
        return arrays(lines, hints);
    }
    let json = hints.json_keys.clone().unwrap_or_else(|| {
        let mut keys = Vec::new();
        json_keys(lines, &mut keys);
        Json { keys, leave_out: false }
    });
    let format = Format::JsonLines(json.clone());
    let found = converted(&format, lines, &Hints { header: Some(true), ..hints.clone() });
    Findings { format, columns: json.keys.len().max(1), names: json.keys, notes: Vec::new(), ..found }
}

/// The findings for arrays on lines. The first one has the names of the columns if it differs from the others
/// as names do.
fn arrays(lines: &[u8], hints: &Hints) -> Findings {
    let (columns, header) = first_array(lines);
    let format = Format::JsonArrays(columns);
    let mut found = converted(&format, lines, &Hints { header: hints.header.or(header), ..hints.clone() });
    found.notes.retain(|note| note == UNDECIDED);
    Findings { format, columns: columns.max(1), ..found }
}

/// The findings for lines of JSON that were converted.
fn converted(format: &Format, lines: &[u8], hints: &Hints) -> Findings {
    let mut made = Vec::new();
    if let Some(mut translator) = format.translator(Dialect::LOAD_DATA, 0) {
        // Invalid lines are reported when the file is read.
        translator.translate(lines, true, &mut made).ok();
    }
    let said = Hints {
        delimiter: Some(Dialect::LOAD_DATA.delimiter),
        quote: Some(None),
        escape: Some(Dialect::LOAD_DATA.escape),
        line_end: Some(LineEnd::Lf),
        ..hints.clone()
    };
    let (found, _) = read(&made, true, &said);
    Findings { guessed: crate::GuessedOptions::default(), nulls: crate::Nulls::default(), ..found }
}

/// The findings for a text from which this looseness was removed.
fn read_lenient(text: &[u8], whole: bool, hints: &Hints, lenient: Lenient) -> (Findings, Fit) {
    let mut said = hints.clone();
    // The delimiter, quote and escape that matter for the conversion are those found in the strict text.
    said.delimiter = lenient.delimiter_byte().or(hints.delimiter);
    let guess = |said: &Hints| Dialect {
        delimiter: said.delimiter.unwrap_or(b','),
        quote: said.quote.unwrap_or(Some(b'"')),
        escape: said.escape.unwrap_or(None),
        line_end: said.line_end.unwrap_or(LineEnd::Any),
    };
    let normalize = |dialect: Dialect, lenient: &Lenient| {
        let mut made = Vec::new();
        if let Some(mut translator) = Format::Lenient(lenient.clone()).translator(dialect, 0) {
            translator.translate(text, whole, &mut made).ok();
        }
        made
    };
    if said.delimiter.is_none() {
        said.delimiter = Some(read(text, whole, hints).0.dialect.delimiter);
    }
    let unpadded = Lenient { pad: None, ..lenient.clone() };
    let mut dialect = guess(&said);
    let (mut found, mut fit) = read(&normalize(dialect, &unpadded), whole, &said);
    if lenient.pad.is_some() {
        let widest = fit.table.rows.iter().map(Vec::len).max().unwrap_or(1);
        let columns = if found.header { found.names.len() } else { widest };
        dialect = Dialect { delimiter: said.delimiter.unwrap_or(b','), ..found.dialect };
        let lenient = Lenient { pad: Some(columns), ..lenient };
        (found, fit) = read(&normalize(dialect, &lenient), whole, &said);
        found.columns = columns;
        return (Findings { format: Format::Lenient(lenient), ..found }, fit);
    }
    (Findings { format: Format::Lenient(lenient), ..found }, fit)
}

/// The findings, or looser ones that fit better.
fn loosened(text: &[u8], whole: bool, hints: &Hints, strict: (Findings, Fit)) -> Findings {
    let mut best = strict;
    if hints.quote.is_none_or(|quote| quote.is_some()) {
        for delimiter in
            DELIMITERS.into_iter().filter(|known| hints.delimiter.is_none_or(|said| said == *known))
        {
            let quote = hints.quote.flatten().unwrap_or(b'"');
            if memmem::find(text, &[delimiter, b' ', quote]).is_none() {
                continue;
            }
            let said = Hints { delimiter: Some(delimiter), quote: Some(Some(quote)), ..hints.clone() };
            let lenient = Lenient { space_before_quote: true, ..Lenient::default() };
            let found = read_lenient(text, whole, &said, lenient);
            if found.1.score > best.1.score {
                best = found;
            }
        }
    }
    if hints.delimiter.is_none() && best.0.columns == 1 {
        let rare = || {
            RARE.into_iter().find_map(|delimiter| {
                let said = Hints { delimiter: Some(delimiter), ..hints.clone() };
                let found = memchr(delimiter, text).map(|_| read(text, whole, &said))?;
                divides(delimiter, &found.0, &found.1).then_some(found)
            })
        };
        let blanks = || {
            let lenient = Lenient { blanks: true, ..Lenient::default() };
            let runs = memmem::find(text, b"  ").is_some()
                || text.starts_with(b" ")
                || memmem::find(text, b"\n ").is_some();
            let found = (runs && !whole_is_prose(text)).then(|| read_lenient(text, whole, hints, lenient))?;
            divides(b' ', &found.0, &found.1).then_some(found)
        };
        if let Some(found) = blanks().or_else(rare) {
            best = found;
        }
    }
    best.0
}

/// Whether it has hardly any digits.
fn whole_is_prose(text: &[u8]) -> bool {
    text.iter().filter(|byte| byte.is_ascii_digit()).count() * 20 < text.len()
}

/// Whether one of the rare delimiters really separates fields: all records agree, and fields are not parts of
/// one value.
fn divides(delimiter: u8, found: &Findings, fit: &Fit) -> bool {
    let rows = &fit.table.rows;
    let Some((first, body)) = rows.split_first() else { return false };
    // A header may lack the name of the first column.
    let alike = body.iter().all(|row| row.len() == found.columns)
        && (first.len()..=first.len() + 1).contains(&found.columns);
    if found.columns < 2 || body.is_empty() || !alike {
        return false;
    }
    let is_typed_column =
        |at: usize| body.iter().all(|row| row.get(at).is_some_and(|cell| is_typed(&cell.text)));
    let typed = (0..found.columns).filter(|&at| is_typed_column(at)).count();
    let whole = |row: &Vec<super::Cell>| {
        let texts: Vec<&[u8]> = row.iter().map(|cell| cell.text.as_slice()).collect();
        is_typed(&texts.join(&delimiter))
    };
    if body.iter().all(whole) {
        return false;
    }
    let cells = || rows.iter().flatten();
    // A field that ends in punctuation is part of a sentence, and two spaces have nothing between them.
    let is_part = |cell: &super::Cell| match cell.text.last() {
        Some(last) => matches!(last, b':' | b',' | b';'),
        None => !cell.quoted,
    };
    match delimiter {
        b' ' if cells().any(is_part) => false,
        b' ' => typed > 0 && (rows.len() > 2 || found.header),
        b':' => {
            let hexadecimal = cells().all(|cell| cell.text.iter().all(u8::is_ascii_hexdigit));
            let part = cells().any(|cell| cell.text.starts_with(b"//") || cell.text.starts_with(b" "));
            found.columns > 2 && !part && !hexadecimal
        }
        _ => true,
    }
}

/// How many lines at the start are comments. The last one is not, if it names the columns.
fn comment_lines(text: &[u8], whole: bool, hints: &Hints) -> u64 {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').take(RECORDS_MAX).collect();
    let count = lines.iter().take_while(|line| line.starts_with(b"#")).count();
    if count == 0 || count >= lines.len() || lines[count..].iter().all(|line| line.trim_ascii().is_empty()) {
        return 0;
    }
    let rest = behind_lines(text, count as u64);
    let (found, _) = read(rest, whole, hints);
    let fields = records(&found.dialect, lines[count - 1]).next().map_or(0, |record| {
        let mut row = Vec::new();
        crate::fields(&found.dialect, record, &mut row);
        row.len()
    });
    if found.columns > 1 && fields == found.columns {
        return count as u64 - 1;
    }
    let remark = |line: &&[u8]| line.len() == 1 || line.starts_with(b"# ") || line.starts_with(b"##");
    if found.columns > 1 || lines[..count].iter().all(remark) { count as u64 } else { 0 }
}

/// How many lines are before a header that is not the first record.
fn preamble(text: &[u8], found: &Findings, fit: &Fit, hints: &Hints) -> u64 {
    let rows = &fit.table.rows;
    let short = rows.iter().take_while(|row| row.len() < found.columns).count();
    if short == 0 || short > PREAMBLE_MAX || short + 2 > rows.len() {
        return 0;
    }
    // A header may lack the name of the first column; but not one that another header follows.
    let lone_header = short == 1 && rows[0].len() + 1 == found.columns;
    if lone_header && found.header && !header::follows(&fit.table, short, found.columns) {
        return 0;
    }
    let rest = &rows[short..];
    let agreeing = rest.iter().filter(|row| row.len() == found.columns).count();
    #[expect(clippy::cast_precision_loss, reason = "counts of a sample are small")]
    let share = agreeing as f64 / rest.len() as f64;
    let names_follow = hints.header == Some(true) || header::follows(&fit.table, short, found.columns);
    if share < AGREEING_MIN || !names_follow {
        return 0;
    }
    let mut records = records(&found.dialect, text);
    let mut left = short;
    while left > 0 {
        match records.next() {
            Some(record) => left -= usize::from(!record.is_empty()),
            None => return 0,
        }
    }
    // Blank lines before the header belong to the preamble.
    loop {
        let lines = records.lines();
        match records.next() {
            Some([]) => {}
            Some(_) => return lines,
            None => return 0,
        }
    }
}
