//! Reads one column of a block without the others.

use crate::block::{Parts, decode};
use crate::split::Dialect;
use crate::{Error, TEXT_BYTES_MAX};

/// How the records of a table are cut into fields. Each block of a stream is cut on its own; the layout of
/// the first block ensures that a column is the same in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    delimiter: Option<u8>,
    columns: usize,
}

impl Layout {
    /// The layout of most lines of the text; none when they do not look like a table.
    #[must_use]
    pub fn guess(text: &[u8]) -> Option<Layout> {
        let Dialect { delimiter, columns, .. } = Dialect::guess(text)?;
        Some(Layout { delimiter, columns })
    }

    /// The fields of the first record of a text, exactly as in the text.
    #[must_use]
    pub fn first(self, text: &[u8]) -> Vec<&[u8]> {
        let mut fields = Vec::new();
        Dialect::with(text, self.delimiter, self.columns).record(text, 0, |span| fields.push(span.of(text)));
        fields
    }
}

/// A column of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its texts exactly as in the file, with quotes and escapes, one after the other: one text for each
    /// record that has as many fields as the layout has columns.
    pub bytes: Vec<u8>,
    /// Where each text ends.
    pub ends: Vec<usize>,
    /// Records with more or fewer fields, which are left out.
    pub left_out: usize,
}

/// A column of a block, by its index from 0. None when the layout has no such column.
///
/// # Errors
/// [`Error::Corrupt`] when the bytes are not a result of [`encode`](crate::encode).
pub fn column(block: &[u8], layout: Layout, at: usize) -> Result<Option<Column>, Error> {
    let mut column = Column::default();
    let parts = Parts::of(block)?;
    if at >= layout.columns {
        return Ok(None);
    }
    let like = |parts: &Parts<'_>| (parts.delimiter, parts.parts.len()) == (layout.delimiter, layout.columns);
    if let Some(mut parts) = parts.filter(like) {
        column.left_out = parts.gaps.len();
        let mut all: Vec<_> = parts.parts.iter().map(|_| None).collect();
        parts.fill(at, &mut all)?;
        if let Some(cells) = all.get_mut(at).and_then(Option::as_mut) {
            for row in 0..parts.rows {
                cells.print(row, &mut column.bytes);
                if column.bytes.len() > TEXT_BYTES_MAX {
                    return Err(Error::Corrupt("a column has more text than the block"));
                }
                column.ends.push(column.bytes.len());
            }
        }
        return Ok(Some(column));
    }
    let text = decode(block)?;
    let table = Dialect::with(&text, layout.delimiter, layout.columns).split(&text);
    column.left_out = table.odd.len();
    for span in table.columns.get(at).into_iter().flatten() {
        column.bytes.extend_from_slice(span.of(&text));
        column.ends.push(column.bytes.len());
    }
    Ok(Some(column))
}
