//! The values of an import's options, as typed. An error says what can be written.

use rows::{DateOrder, LineEnd};
use server::unquoted;

use crate::{FieldTarget, Indexes, Int96, OnDuplicate, Physical};

/// What separates fields.
#[derive(Clone, Debug)]
pub enum Delimiter {
    /// One byte.
    Byte(u8),
    /// Several characters.
    Text(String),
    /// Spaces and tabs, as many as there are.
    Blanks,
}

/// A character, or none; clap would take `Option<Option<u8>>` apart.
#[derive(Clone, Copy, Debug)]
pub struct Maybe(
    /// The character.
    pub Option<u8>,
);

/// What happens to rows whose key is there.
///
/// # Errors
/// What can be written.
pub fn on_duplicate(text: &str) -> Result<OnDuplicate, String> {
    let all = [OnDuplicate::Error, OnDuplicate::Ignore, OnDuplicate::Replace, OnDuplicate::Update];
    all.into_iter()
        .find(|one| one.word() == text)
        .ok_or_else(|| "error, ignore, replace or update".to_owned())
}

/// The order of day and month.
///
/// # Errors
/// What can be written.
pub fn date_order(text: &str) -> Result<DateOrder, String> {
    match text.to_ascii_lowercase().as_str() {
        "dmy" => Ok(DateOrder::Dmy),
        "mdy" => Ok(DateOrder::Mdy),
        _ => Err("dmy (31/12/1999) or mdy (12/31/1999)".to_owned()),
    }
}

/// Whether each line is an object of JSON.
///
/// # Errors
/// What can be written.
pub fn format(text: &str) -> Result<bool, String> {
    match text {
        "json" | "jsonl" | "ndjson" => Ok(true),
        "csv" | "tsv" => Ok(false),
        _ => Err("csv or json".to_owned()),
    }
}

/// What separates fields.
///
/// # Errors
/// What can be written.
pub fn delimiter(text: &str) -> Result<Delimiter, String> {
    match byte(text) {
        _ if text.eq_ignore_ascii_case("blanks") => Ok(Delimiter::Blanks),
        Ok(byte) => Ok(Delimiter::Byte(byte)),
        Err(_) if !text.is_empty() && !text.contains(['\n', '\r', '"']) => {
            Ok(Delimiter::Text(text.to_owned()))
        }
        Err(_) => Err("characters other than quotes and line ends, or a name".to_owned()),
    }
}

/// A character, or its name.
///
/// # Errors
/// What can be written.
pub fn byte(text: &str) -> Result<u8, String> {
    let named = match text.to_ascii_lowercase().as_str() {
        "tab" | "\\t" => Some(b'\t'),
        "comma" => Some(b','),
        "semicolon" => Some(b';'),
        "pipe" => Some(b'|'),
        "space" => Some(b' '),
        "backslash" | "\\\\" => Some(b'\\'),
        _ => None,
    };
    match (named, text.as_bytes()) {
        (Some(byte), _) => Ok(byte),
        (None, [byte]) if byte.is_ascii() => Ok(*byte),
        _ => Err("one ASCII character, or tab, comma, semicolon, pipe, space, backslash".to_owned()),
    }
}

/// A character, its name, or none.
///
/// # Errors
/// What can be written.
pub fn byte_or_none(text: &str) -> Result<Maybe, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Ok(Maybe(None));
    }
    byte(text).map(|byte| Maybe(Some(byte)))
}

/// How lines end.
///
/// # Errors
/// What can be written.
pub fn line_end(text: &str) -> Result<LineEnd, String> {
    match text.to_ascii_lowercase().as_str() {
        "lf" | "\\n" => Ok(LineEnd::Lf),
        "crlf" | "\\r\\n" => Ok(LineEnd::CrLf),
        "cr" | "\\r" => Ok(LineEnd::Cr),
        "any" => Ok(LineEnd::Any),
        _ => Err("lf, crlf, cr or any".to_owned()),
    }
}

/// What INT96 of Parquet means.
///
/// # Errors
/// What can be written.
pub fn int96(text: &str) -> Result<Int96, String> {
    match text {
        "utc" => Ok(Int96::Utc),
        "local" => Ok(Int96::Local),
        _ => Err("utc or local".to_owned()),
    }
}

/// Whether a header that is repeated is skipped.
///
/// # Errors
/// What can be written.
pub fn repeated_header(text: &str) -> Result<bool, String> {
    match text {
        "skip" => Ok(true),
        "row" => Ok(false),
        _ => Err("skip or row".to_owned()),
    }
}

/// When indexes are built.
///
/// # Errors
/// What can be written.
pub fn indexes(text: &str) -> Result<Indexes, String> {
    match text {
        "auto" => Ok(Indexes::Auto),
        "before" => Ok(Indexes::Before),
        "after" => Ok(Indexes::After),
        _ => Err("auto, before or after".to_owned()),
    }
}

/// Whether the table's file is written.
///
/// # Errors
/// What can be written.
pub fn physical(text: &str) -> Result<Physical, String> {
    match text {
        "auto" => Ok(Physical::Auto),
        "only" => Ok(Physical::Only),
        _ => Err("auto or only".to_owned()),
    }
}

/// `4M`, `512K`, `1048576`
///
/// # Errors
/// What can be written.
pub fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "B" => Some(1),
        "K" | "KB" | "KIB" => Some(1 << 10),
        "M" | "MB" | "MIB" => Some(1 << 20),
        "G" | "GB" | "GIB" => Some(1 << 30),
        _ => None,
    };
    let bytes =
        digits.parse::<usize>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    match bytes {
        Some(bytes @ 4096..=268_435_456) => Ok(bytes),
        _ => Err("a size from 4K to 256M".to_owned()),
    }
}

/// `a,-,@b`: column a, nowhere, variable @b. A name may be in backquotes.
///
/// # Errors
/// What can be written.
pub fn columns(list: &str) -> Result<Vec<FieldTarget>, String> {
    let targets = list.split(',').map(str::trim).map(|item| match item {
        "" => Err(format!("--columns {list}: an item is empty; - leaves a field out")),
        "-" => Ok(FieldTarget::Skip),
        _ => Ok(match item.strip_prefix('@') {
            Some(variable) => FieldTarget::Variable(unquoted(variable)),
            None => FieldTarget::Column(unquoted(item)),
        }),
    });
    targets.collect()
}

/// A column and what it gets, of an option such as `--type`.
///
/// # Errors
/// What can be written.
pub fn assignment(option: &str, text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((column, expression)) if !column.trim().is_empty() && !expression.trim().is_empty() => {
            Ok((unquoted(column.trim()), expression.trim().to_owned()))
        }
        _ if option == "--type" => {
            Err(format!("{option} {text}: write column=type, for example price=DECIMAL(12,4)"))
        }
        _ => Err(format!("{option} {text}: write column=expression, for example total=@price*@count")),
    }
}
