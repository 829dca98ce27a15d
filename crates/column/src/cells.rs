//! Decoded columns, printed row by row.

use crate::field::Field;
use crate::{Error, short};

/// The texts of a column, by row.
pub(crate) enum Cells {
    /// Each row has a text of its own.
    Direct(Printer),
    /// Each row has a text from a dictionary.
    Words {
        /// All texts, one after the other, and [`STEP`] more bytes.
        bytes: Vec<u8>,
        /// Where each text begins, and how long it is.
        words: Vec<(u32, u32)>,
        /// The text of each row.
        codes: Vec<u32>,
    },
}

/// Bytes that are copied in one step.
const STEP: usize = 16;

/// A column that is printed from its first row on.
pub(crate) struct Printer {
    field: Field,
    row: usize,
    odd: usize,
}

impl Printer {
    pub(crate) fn new(field: Field) -> Printer {
        Printer { field, row: 0, odd: 0 }
    }

    /// Appends the text of the next row.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) {
        match &self.field {
            Field::Same(text) => out.extend_from_slice(text),
            Field::Numbers { shape, values, odd } => match odd.get(self.odd) {
                Some((row, text)) if *row == self.row => {
                    out.extend_from_slice(text);
                    self.odd += 1;
                }
                _ => shape.print(values.get(self.row - self.odd).copied().unwrap_or(0), out),
            },
            Field::Text { bytes, spans } => {
                out.extend_from_slice(spans.get(self.row).map_or(&[], |span| span.of(bytes)));
            }
        }
        self.row += 1;
    }
}

impl Cells {
    /// Reads a dictionary of `count` texts, whose bytes are deducted from `room`.
    pub(crate) fn words(
        field: Field,
        distinct: usize,
        codes: Vec<u32>,
        room: &mut usize,
    ) -> Result<Cells, Error> {
        let (mut bytes, mut words) = (Vec::new(), Vec::with_capacity(distinct));
        let mut printer = Printer::new(field);
        for _ in 0..distinct {
            let from = bytes.len();
            printer.next(&mut bytes);
            if bytes.len() > *room {
                return Err(Error::Corrupt("columns have more text than the block"));
            }
            words.push((short(from), short(bytes.len() - from)));
        }
        *room -= bytes.len();
        bytes.resize(bytes.len() + STEP, 0);
        Ok(Cells::Words { bytes, words, codes })
    }

    /// The index of each row's text, if there is a dictionary.
    pub(crate) fn codes(&self) -> Option<&[u32]> {
        match self {
            Cells::Words { codes, .. } => Some(codes),
            Cells::Direct(_) => None,
        }
    }

    /// Appends the text of a row; rows must be printed in order.
    pub(crate) fn print(&mut self, row: usize, out: &mut Vec<u8>) {
        match self {
            Cells::Direct(printer) => printer.next(out),
            Cells::Words { bytes, words, codes } => {
                let (from, len) =
                    codes.get(row).and_then(|code| words.get(*code as usize)).copied().unwrap_or((0, 0));
                let (from, len) = (from as usize, len as usize);
                // A copy of fixed length is one instruction; the surplus is cut off.
                if let (true, Some(step)) = (len <= STEP, bytes.get(from..from + STEP)) {
                    let end = out.len() + len;
                    out.extend_from_slice(step);
                    out.truncate(end);
                } else {
                    out.extend_from_slice(bytes.get(from..from + len).unwrap_or_default());
                }
            }
        }
    }
}
