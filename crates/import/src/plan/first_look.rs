//! What files with typed columns show before all of their rows are read.

use parquet_rows::foreign::Kind;
use rows::{ColumnStats, Dialect, Encoding, Findings, GuessedOptions, Hints, Nulls, Typed, ValueForm};

use crate::Error;
use crate::request::Request;
use crate::source::Files;

/// What is known of files before all of their rows are read.
pub(super) struct FirstLook {
    pub(super) findings: Findings,
    /// The first values of columns with text.
    pub(super) stats: Vec<ColumnStats>,
    /// The header of the text.
    pub(super) heading: Vec<u8>,
}

/// What files with typed columns say themselves. `None` for text files.
///
/// # Errors
/// When an option says how text is written; when a file can't be read.
pub(super) fn look(request: &Request, files: &Files<'_>) -> Result<Option<FirstLook>, Error> {
    let Some(table) = files.table(0) else { return Ok(None) };
    let hints = Hints { json: None, json_keys: None, columns: None, ..request.hints.clone() };
    let is_default = format!("{hints:?}") == format!("{:?}", Hints::default());
    if !is_default || request.hints.json.is_some() && request.hints.json_keys.is_none() {
        return Err(Error::Mismatch(format!(
            "{} is in the format {}, which has columns of its own: options that say how text is written don't apply to it",
            files.name(0),
            table.format().name()
        )));
    }
    let columns = table.columns();
    let form = |kind: Kind| match kind {
        Kind::Geometry => ValueForm::Shape,
        Kind::Timestamp { utc: true, .. } => ValueForm::Utc,
        kind if kind.is_hexadecimal() => ValueForm::Hexadecimal,
        _ => ValueForm::Text,
    };
    let forms = columns.iter().map(|column| form(column.kind)).collect();
    let findings = Findings {
        encoding: Encoding::Utf8,
        format: rows::Format::Typed(Typed { name: table.format().name().to_owned(), forms }),
        skip_lines: 0,
        dialect: Dialect::LOAD_DATA,
        header: true,
        names: columns.iter().map(|column| column.name.clone()).collect(),
        columns: columns.len(),
        nulls: Nulls::default(),
        guessed: GuessedOptions::default(),
        notes: Vec::new(),
    };
    let (stats, heading) = first_values(request, files, &findings)?;
    Ok(Some(FirstLook { findings, stats, heading }))
}

/// The first values of columns with text, and the header.
fn first_values(
    request: &Request,
    files: &Files<'_>,
    findings: &Findings,
) -> Result<(Vec<ColumnStats>, Vec<u8>), Error> {
    let (text, _) = files.head(0)?;
    let nulls = request.nulls.as_ref().unwrap_or(&findings.nulls);
    let mut stats = vec![ColumnStats::new(); findings.columns];
    let is_text = |column: usize| {
        let columns = files.table(0).map(|table| table.columns()).unwrap_or_default();
        columns.get(column).is_some_and(|column| column.kind == Kind::Text)
    };
    let texts: Vec<bool> = (0..findings.columns).map(is_text).collect();
    let end = memchr::memrchr(b'\n', &text).unwrap_or(0);
    let mut records = rows::records(&findings.dialect, text.get(..end).unwrap_or_default());
    let heading = records.next().unwrap_or_default().to_vec();
    let (mut row, mut scratch) = (Vec::new(), Vec::new());
    for record in records.take(10_000) {
        rows::fields(&findings.dialect, record, &mut row);
        if row.len() != findings.columns {
            continue;
        }
        for ((stats, field), _) in stats.iter_mut().zip(&row).zip(&texts).filter(|(_, is_text)| **is_text) {
            stats.observe((!field.is_null(nulls)).then(|| field.text(&findings.dialect, &mut scratch)));
        }
    }
    Ok((stats, heading))
}
