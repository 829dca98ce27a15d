//! The values of an import's options, as typed.

use import::{FieldTarget, Indexes, Int96, OnDuplicate, Physical};
use rows::{DateOrder, LineEnd};

use server::unquoted;

/// What separates fields.
#[derive(Clone, Debug)]
pub(super) enum Delimiter {
    Byte(u8),
    Text(String),
    Blanks,
}

/// A character, or none; clap would take `Option<Option<u8>>` apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maybe(pub(super) Option<u8>);

pub(super) fn on_duplicate(text: &str) -> Result<OnDuplicate, String> {
    let all = [OnDuplicate::Error, OnDuplicate::Ignore, OnDuplicate::Replace, OnDuplicate::Update];
    all.into_iter()
        .find(|one| one.word() == text)
        .ok_or_else(|| "error, ignore, replace or update".to_owned())
}

pub(super) fn date_order(text: &str) -> Result<DateOrder, String> {
    match text.to_ascii_lowercase().as_str() {
        "dmy" => Ok(DateOrder::Dmy),
        "mdy" => Ok(DateOrder::Mdy),
        _ => Err("dmy (31/12/1999) or mdy (12/31/1999)".to_owned()),
    }
}

pub(super) fn format(text: &str) -> Result<bool, String> {
    match text {
        "json" | "jsonl" | "ndjson" => Ok(true),
        "csv" | "tsv" => Ok(false),
        _ => Err("csv or json".to_owned()),
    }
}

pub(super) fn delimiter(text: &str) -> Result<Delimiter, String> {
    match byte(text) {
        _ if text.eq_ignore_ascii_case("blanks") => Ok(Delimiter::Blanks),
        Ok(byte) => Ok(Delimiter::Byte(byte)),
        Err(_) if !text.is_empty() && !text.contains(['\n', '\r', '"']) => {
            Ok(Delimiter::Text(text.to_owned()))
        }
        Err(_) => Err("characters other than quotes and line ends, or a name".to_owned()),
    }
}

pub(super) fn byte(text: &str) -> Result<u8, String> {
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

pub(super) fn byte_or_none(text: &str) -> Result<Maybe, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Ok(Maybe(None));
    }
    byte(text).map(|byte| Maybe(Some(byte)))
}

pub(super) fn line_end(text: &str) -> Result<LineEnd, String> {
    match text.to_ascii_lowercase().as_str() {
        "lf" | "\\n" => Ok(LineEnd::Lf),
        "crlf" | "\\r\\n" => Ok(LineEnd::CrLf),
        "cr" | "\\r" => Ok(LineEnd::Cr),
        "any" => Ok(LineEnd::Any),
        _ => Err("lf, crlf, cr or any".to_owned()),
    }
}

pub(super) fn int96(text: &str) -> Result<Int96, String> {
    match text {
        "utc" => Ok(Int96::Utc),
        "local" => Ok(Int96::Local),
        _ => Err("utc or local".to_owned()),
    }
}

pub(super) fn repeated_header(text: &str) -> Result<bool, String> {
    match text {
        "skip" => Ok(true),
        "row" => Ok(false),
        _ => Err("skip or row".to_owned()),
    }
}

pub(super) fn indexes(text: &str) -> Result<Indexes, String> {
    match text {
        "auto" => Ok(Indexes::Auto),
        "before" => Ok(Indexes::Before),
        "after" => Ok(Indexes::After),
        _ => Err("auto, before or after".to_owned()),
    }
}

pub(super) fn physical(text: &str) -> Result<Physical, String> {
    match text {
        "auto" => Ok(Physical::Auto),
        "only" => Ok(Physical::Only),
        _ => Err("auto or only".to_owned()),
    }
}

/// `4M`, `512K`, `1048576`
pub(crate) fn size(text: &str) -> Result<usize, String> {
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
pub(super) fn columns(list: &str) -> anyhow::Result<Vec<FieldTarget>> {
    let targets = list.split(',').map(str::trim).map(|item| match item {
        "" => Err(failure::usage(format!("--columns {list}: an item is empty; - leaves a field out"))),
        "-" => Ok(FieldTarget::Skip),
        _ => Ok(match item.strip_prefix('@') {
            Some(variable) => FieldTarget::Variable(unquoted(variable)),
            None => FieldTarget::Column(unquoted(item)),
        }),
    });
    targets.collect()
}

pub(super) fn assignment(option: &str, text: &str) -> anyhow::Result<(String, String)> {
    match text.split_once('=') {
        Some((column, expression)) if !column.trim().is_empty() && !expression.trim().is_empty() => {
            Ok((unquoted(column.trim()), expression.trim().to_owned()))
        }
        _ if option == "--type" => Err(failure::usage(format!(
            "{option} {text}: write column=type, for example price=DECIMAL(12,4)"
        ))),
        _ => Err(failure::usage(format!(
            "{option} {text}: write column=expression, for example total=@price*@count"
        ))),
    }
}
