//! SDI, serialized dictionary information: the definitions of a tablespace's tables, which MySQL 8 and later
//! keeps in the tablespace itself, in a tree of its own.
//!
//! Facts: `dict0sdi.h`, `dict0mem.h` and `fsp0fsp.cc` of MySQL's source. A record is a type (4 bytes) and a
//! number (8) as its key, DB_TRX_ID, DB_ROLL_PTR, the length of the text (4), that of the zlib stream (4),
//! and the stream.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::index_page::IndexPage;
use crate::leaf;
use crate::off_page::Reference;
use crate::page::{Pages, corrupt, u32_at};
use crate::record::{FieldValue, Layout};
use crate::space::{self, Space};
use crate::table::{Field, Length};
use crate::tree::{Scratch, Tree};

/// The lengths of all fields but the last.
const FIXED: [u16; 6] = [4, 8, 6, 7, 4, 4];
const KEY_FIELDS: usize = 2;
/// The fields with the type, the length of the text, and the stream.
const TYPE: usize = 0;
const TEXT_LEN: usize = 4;
const STREAM: usize = 6;
/// The type of tables; the only other one is that of tablespaces.
const TABLE: u32 = 1;
/// A longer text is no definition: 4096 columns have less.
const TEXT_BYTES_MAX: u32 = 256 << 20;

/// The definitions of all tables in a tablespace, as JSON. None if it is not one of MySQL 8 or later.
///
/// # Errors
/// [`crate::Error::Corrupt`], and errors of the pages.
pub fn tables<P: Pages>(space: &Space, pages: &mut P) -> Result<Option<Vec<Vec<u8>>>, P::Error> {
    let Some(root) = space::sdi_root(pages.page(0)?) else { return Ok(None) };
    let layout = layout();
    let tree = Tree::read(root, &layout, pages)?;
    let mut leaves = Vec::new();
    for parent in 0..tree.parents.len() {
        leaves.extend(tree.leaves(parent, &layout, pages)?);
    }
    if tree.parents.is_empty() {
        leaves.push(root);
    }
    let (mut scratch, mut texts) = (Scratch::default(), Vec::new());
    for leaf in leaves {
        let bytes = *pages.page(leaf)?;
        let page = IndexPage::parse(&bytes, leaf)?;
        leaf::rows(&page, &layout, &mut scratch, |row| -> Result<(), P::Error> {
            let number = |field| match row.stored(field) {
                FieldValue::Whole(bytes) => u32_at(bytes, 0),
                _ => 0,
            };
            if row.deleted || number(TYPE) != TABLE {
                return Ok(());
            }
            let mut stream = Vec::new();
            match row.stored(STREAM) {
                FieldValue::Null => {}
                FieldValue::Whole(bytes) => stream.extend_from_slice(bytes),
                FieldValue::External(local, reference) => {
                    stream.extend_from_slice(local);
                    Reference::parse(reference).read(space.id, pages, &mut stream)?;
                }
            }
            let text = inflated(&stream, number(TEXT_LEN));
            texts.push(text.map_err(|what| corrupt(leaf, row.extent.origin, what))?);
            Ok(())
        })?;
    }
    Ok(Some(texts))
}

fn layout() -> Layout {
    let field = |length| Field { column: None, nullable: false, length, prefix: None, descending: false };
    let mut fields: Vec<Field> = FIXED.iter().map(|bytes| field(Length::Fixed(*bytes))).collect();
    fields.push(field(Length::Variable { max: u32::MAX, external: true }));
    let count = fields.len();
    Layout::of(fields, KEY_FIELDS, count)
}

fn inflated(stream: &[u8], len: u32) -> Result<Vec<u8>, &'static str> {
    if len > TEXT_BYTES_MAX {
        return Err("a definition is longer than any is");
    }
    let mut text = Vec::new();
    // One more, so that too much is noticed.
    let read = ZlibDecoder::new(stream).take(u64::from(len) + 1).read_to_end(&mut text);
    match read {
        Ok(count) if count == len as usize => Ok(text),
        _ => Err("a definition can't be decompressed"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::Compression;
    use flate2::read::ZlibEncoder;

    use super::{TEXT_BYTES_MAX, inflated};

    #[test]
    fn a_definition_has_the_length_that_it_says() {
        let mut stream = Vec::new();
        ZlibEncoder::new(&b"{}{}"[..], Compression::fast()).read_to_end(&mut stream).unwrap();
        assert_eq!(inflated(&stream, 4).as_deref(), Ok(&b"{}{}"[..]));
        for len in [3, 5, TEXT_BYTES_MAX] {
            assert!(inflated(&stream, len).unwrap_err().contains("can't be decompressed"), "{len}");
        }
        assert!(inflated(&stream, TEXT_BYTES_MAX + 1).unwrap_err().contains("longer than any"));
    }
}
