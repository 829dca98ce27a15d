//! Values: the bytes that are stored, and the text that a dump of the server has for them
//! (docs/formats/dump.md), before anything is escaped.

use crate::Error;
use crate::table::{Column, Type};

/// Writes the text of a stored value, which is not NULL.
///
/// # Errors
/// [`Error::Corrupt`] when these bytes are no value of the column.
pub fn decode(column: &Column, stored: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    match &column.kind {
        Type::Varchar { compressed: false, .. } | Type::Blob { compressed: false, .. } => {
            out.extend_from_slice(stored);
            Ok(())
        }
        _ => Err(Error::unsupported(format!("column `{}`: its type is not read yet", column.name))),
    }
}

/// Writes the bytes that are stored for a text, as the server would with STRICT_ALL_TABLES.
///
/// # Errors
/// [`Error::Value`] when the column can't hold exactly this value.
pub fn encode(column: &Column, text: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    match &column.kind {
        Type::Varchar { compressed: false, .. } | Type::Blob { compressed: false, .. } => {
            out.extend_from_slice(text);
            Ok(())
        }
        _ => Err(Error::unsupported(format!("column `{}`: its type is not written yet", column.name))),
    }
}
