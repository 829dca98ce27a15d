//! One column of a table in column mode.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use codec::parallel;
use failure::usage;

use crate::{Switches, explained, source};

/// The most names that an error lists.
const NAMES_MAX: usize = 20;

/// Writes the column with this name or number to `out`. Returns how the file is called in messages, and how
/// many records were left out because they have more or fewer fields than the others.
pub fn column(file: &Path, name: &str, switches: &Switches, out: impl Write) -> Result<(String, u64)> {
    let (shown, source) = source(file, switches)?;
    let mut out = io::BufWriter::with_capacity(1 << 18, out);
    let choose = |fields: &[Vec<u8>]| {
        chosen(fields, name).map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))
    };
    let outcome = parallel::column(source, &mut out, switches.threads, choose);
    let taken = outcome.and_then(|taken| out.flush().map(|()| taken)).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => usage(format!("--column {name}: {error}")),
        _ => explained(error, switches),
    });
    Ok((shown.clone(), taken.context(shown)?.left_out))
}

/// The index of the first record's field with this name, or with this number from 1.
fn chosen(fields: &[Vec<u8>], name: &str) -> Result<usize, String> {
    if fields.is_empty() {
        return Err("the file is no table".to_owned());
    }
    let names: Vec<&[u8]> = fields.iter().map(|field| bare(field)).collect();
    let mut same = names.iter().enumerate().filter(|(_, field)| **field == name.as_bytes());
    match (same.next(), same.next()) {
        (Some((at, _)), None) => return Ok(at),
        (Some(_), Some(_)) => return Err("several columns have this name: give the number".to_owned()),
        _ => {}
    }
    let number = name.parse().ok().filter(|number| (1..=names.len()).contains(number));
    number.map(|number: usize| number - 1).ok_or_else(|| {
        let shown: Vec<_> = names.iter().take(NAMES_MAX).map(|name| String::from_utf8_lossy(name)).collect();
        let more = if names.len() > NAMES_MAX { ", ..." } else { "" };
        format!(
            "there is no such column: give a number from 1 to {}, or a name of the first line: {}{more}",
            names.len(),
            shown.join(", ")
        )
    })
}

/// A name without a byte order mark and without quotes.
fn bare(field: &[u8]) -> &[u8] {
    let field = field.strip_prefix(b"\xef\xbb\xbf").unwrap_or(field);
    field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_number() {
        let fields: Vec<Vec<u8>> = [&b"\xef\xbb\xbfid"[..], b"\"2019\"", b"day", b"day"]
            .iter()
            .map(|field| field.to_vec())
            .collect();
        for (name, at) in [("id", 0), ("2019", 1), ("1", 0), ("4", 3)] {
            assert_eq!(chosen(&fields, name), Ok(at), "{name}");
        }
        for (name, words) in [
            ("day", "several columns"),
            ("0", "from 1 to 4"),
            ("5", "from 1 to 4"),
            ("", "a name of the first line: id, 2019, day, day"),
        ] {
            assert!(chosen(&fields, name).unwrap_err().contains(words), "{name}");
        }
        assert!(chosen(&[], "1").unwrap_err().contains("no table"));
        assert!(chosen(&vec![b"x".to_vec(); 30], "y").unwrap_err().ends_with("x, ..."));
    }
}
