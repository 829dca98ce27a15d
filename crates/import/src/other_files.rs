//! The second and later files of an import: how they may differ from the first.

use rows::{Findings, LineEnd};

use crate::Error;
use crate::job::Order;
use crate::request::Request;
use crate::source::Files;

/// Bytes examined in each file after the first.
const OTHER_SAMPLE_BYTES: usize = 64 << 10;

/// The form of a later file, as far as it may differ from the first: line ends and the order of columns.
pub(crate) fn look_again(request: &Request, text: &[u8], whole: bool, first: &Findings) -> Findings {
    let dialect = first.dialect;
    let hints = rows::Hints {
        delimiter: Some(dialect.delimiter),
        quote: Some(dialect.quote),
        escape: Some(dialect.escape),
        line_end: request.hints.line_end,
        header: Some(first.header),
        encoding: Some(first.encoding),
        // It is already in the dialect.
        plain: true,
        ..rows::Hints::default()
    };
    let start = text.get(..OTHER_SAMPLE_BYTES).unwrap_or(text);
    rows::sniff(start, whole && start.len() == text.len(), first.encoding, &hints)
}

/// The line end of a file, if it has more than one line.
pub(crate) fn sure_line_end(text: &[u8], findings: &Findings) -> Option<LineEnd> {
    memchr::memchr2(b'\n', b'\r', text).map(|_| findings.dialect.line_end)
}

/// The line end of all files.
pub(crate) fn same_line_end(
    (known, own): (Option<LineEnd>, Option<LineEnd>),
    (files, file): (&Files<'_>, usize),
) -> Result<Option<LineEnd>, Error> {
    let (Some(known), Some(own)) = (known, own) else { return Ok(known.or(own)) };
    match (known, own) {
        _ if known == own => Ok(Some(known)),
        (LineEnd::Cr, _) | (_, LineEnd::Cr) => Err(Error::Mismatch(format!(
            "the lines of {} end with {own}, those of the files before it with {known}; import it separately",
            files.name(file)
        ))),
        _ => Ok(Some(LineEnd::Any)),
    }
}

/// The column order of a later file, if it differs from the first file's.
pub(crate) fn order(
    known: &Findings,
    (other, text): (&Findings, &[u8]),
    (files, file): (&Files<'_>, usize),
) -> Result<Option<Order>, Error> {
    let (wanted, own) = (&known.names, &other.names);
    if wanted == own {
        return Ok(None);
    }
    let place = |name: &String| {
        let mut places = wanted.iter().enumerate().filter(|(_, known)| *known == name).map(|(at, _)| at);
        places.next().filter(|_| places.next().is_none())
    };
    let mut fields: Vec<usize> = own.iter().filter_map(place).collect();
    let heading = rows::records(&other.dialect, text).next().unwrap_or_default().to_vec();
    let order = Order { fields: fields.clone(), heading };
    fields.sort_unstable();
    fields.dedup();
    if fields.len() == wanted.len() && own.len() == wanted.len() && wanted.len() == known.columns {
        return Ok(Some(order));
    }
    Err(Error::Mismatch(format!(
        "the header of {} differs from that of {}: {} there, {} here",
        files.name(file),
        files.name(0),
        wanted.join(","),
        own.join(",")
    )))
}
