//! Words, numbers and signs of a condition.

use crate::number::{Number, SCALE_MAX};

/// A token of a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A bare word, as written.
    Word(String),
    /// A name between backticks.
    Quoted(String),
    Number(Digits),
    Text(String),
    Sign(&'static str),
    End,
}

/// A literal number. Unlike [`Number`] it can be compared with `==`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Digits {
    digits: i128,
    scale: u8,
}

impl From<Digits> for Number {
    fn from(digits: Digits) -> Number {
        Number { digits: digits.digits, scale: digits.scale }
    }
}

/// All signs. When two begin alike, the longer one comes first.
const SIGNS: [&str; 22] = [
    "<=>", "||", "&&", "<<", ">>", "<=", ">=", "!=", "<>", "=", "<", ">", "|", "&", "+", "-", "*", "%", "^",
    "~", "(", ")",
];

/// Reads the next token from `at` on. Returns the token, where it begins, and where it ends.
pub(crate) fn next(text: &str, at: usize) -> Result<(Token, usize, usize), (usize, String)> {
    let rest = text.get(at..).unwrap_or_default();
    let start = at + (rest.len() - rest.trim_start().len());
    let rest = rest.trim_start();
    let Some(first) = rest.chars().next() else { return Ok((Token::End, start, start)) };
    if first == '`' {
        return quoted(rest, start, '`').map(|(name, end)| (Token::Quoted(name), start, end));
    }
    if first == '\'' || first == '"' {
        return quoted(rest, start, first).map(|(literal, end)| (Token::Text(literal), start, end));
    }
    if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
        return number(rest, start);
    }
    let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    if in_word(first) {
        let len = rest.find(|c: char| !in_word(c)).unwrap_or(rest.len());
        return Ok((Token::Word(rest[..len].to_owned()), start, start + len));
    }
    let sign = SIGNS.iter().chain(&[",", "!"]).find(|sign| rest.starts_with(**sign));
    match sign {
        Some(sign) => Ok((Token::Sign(sign), start, start + sign.len())),
        None => Err((start, format!("unexpected {first:?}"))),
    }
}

/// Reads a quoted token. A doubled quote stands for one quote; in strings a backslash takes the next
/// character as it is.
fn quoted(rest: &str, start: usize, quote: char) -> Result<(String, usize), (usize, String)> {
    let mut out = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            if chars.next_if(|(_, next)| *next == quote).is_none() {
                return Ok((out, start + at + 1));
            }
        } else if c == '\\' && quote != '`' {
            let Some((_, next)) = chars.next() else { break };
            if matches!(next, '%' | '_') {
                // LIKE needs the backslash, so it stays, as in SQL.
                out.push('\\');
            }
            out.push(match next {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '0' => '\0',
                other => other,
            });
            continue;
        }
        out.push(c);
    }
    Err((start, format!("{quote} without an end")))
}

fn number(rest: &str, start: usize) -> Result<(Token, usize, usize), (usize, String)> {
    let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
    let written = &rest[..len];
    let wrong = || (start, format!("{written} is no number that fits"));
    let whole = |digits: &str, radix: u32| i128::from_str_radix(digits, radix).map_err(|_| wrong());
    let hexadecimal = written.strip_prefix("0x").or_else(|| written.strip_prefix("0X"));
    let octal = written.strip_prefix('0').filter(|rest| !rest.is_empty() && !rest.contains('.'));
    let (digits, scale) = match (hexadecimal, octal, written.split_once('.')) {
        (Some(digits), ..) => (whole(digits, 16)?, 0),
        (_, Some(digits), _) => (whole(digits, 8)?, 0),
        (_, _, Some((before, behind))) => {
            let scale =
                u8::try_from(behind.len()).ok().filter(|scale| *scale <= SCALE_MAX).ok_or_else(wrong)?;
            (whole(&format!("0{before}{behind}"), 10)?, scale)
        }
        _ => (whole(written, 10)?, 0),
    };
    Ok((Token::Number(Digits { digits, scale }), start, start + len))
}
