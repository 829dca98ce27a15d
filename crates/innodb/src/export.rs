//! The `.cfg` file that FLUSH TABLES ... FOR EXPORT writes beside a table's file: its columns, its indexes,
//! and where the indexes begin.
//!
//! Facts: `row0quiesce.cc` of MariaDB's source.

use crate::Error;
use crate::page::{PAGE_BYTES, u32_at, u64_at};
use crate::write::Root;

/// The only version that exists.
const VERSION: u32 = 1;
/// Bytes of a column, of an index and of its field before their names.
const COLUMN_BYTES: usize = 7 * 4;
const INDEX_BYTES: usize = 8 + 8 * 4;
const FIELD_BYTES: usize = 2 * 4;
/// The most columns, and the most fields.
const COUNT_MAX: u32 = 1100;

/// The index with the definition of a table, in files of MySQL from 8.0 on: the length of its name, its name.
const SDI: &[u8] = b"\0\0\0\x0eCLUST_IND_SDI\0";
/// The number of that index.
const SDI_INDEX: u64 = u64::MAX;

/// The tablespace that a file of a newer version was written for, which [`Export::parse`] does not read. Such
/// a file has the index with the table's definition. `None` if it has none, or does not say it clearly.
#[must_use]
pub fn sdi_space_id(bytes: &[u8]) -> Option<u32> {
    if u32_at(bytes, 0) <= VERSION {
        return None;
    }
    let mut found =
        (INDEX_BYTES..bytes.len()).filter(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(SDI)));
    let at = found.next().filter(|_| found.next().is_none())?;
    let index = bytes.get(at - INDEX_BYTES..at)?;
    (u64_at(index, 0) == SDI_INDEX).then(|| u32_at(index, 8))
}

/// The contents of such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    bytes: Vec<u8>,
    counter_at: usize,
    /// The tablespace that it was written for.
    pub space_id: Option<u32>,
    /// Indexes, the clustered one first: the name of each, and where it begins.
    pub indexes: Vec<(String, Root)>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(count);
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(self.corrupt("the file ends too early"));
        };
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Error> {
        Ok(u32_at(self.take(4)?, 0))
    }

    /// Reads the number of items that follow.
    fn count(&mut self) -> Result<u32, Error> {
        let count = self.number()?;
        if count <= COUNT_MAX { Ok(count) } else { Err(self.corrupt("more than there can be")) }
    }

    /// Reads a name, which has its length before it and a zero after it.
    fn name(&mut self) -> Result<String, Error> {
        let length = self.number()? as usize;
        let bytes = self.take(length)?;
        let name = bytes.strip_suffix(&[0]).and_then(|name| std::str::from_utf8(name).ok());
        name.map(str::to_owned).ok_or_else(|| self.corrupt("a name without an end"))
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::Corrupt { what: what.to_owned(), place: format!("byte {} of the .cfg file", self.at) }
    }
}

impl Export {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] for another version, or other pages than of 16 KiB.
    pub fn parse(bytes: Vec<u8>) -> Result<Export, Error> {
        let mut reader = Reader { bytes: &bytes, at: 0 };
        if reader.number()? != VERSION {
            return Err(Error::unsupported("its .cfg file is of a version that is not known here"));
        }
        let (_host, _table) = (reader.name()?, reader.name()?);
        let counter_at = reader.at;
        reader.take(8)?;
        let page_bytes = reader.number()? as usize;
        if page_bytes != PAGE_BYTES {
            return Err(Error::unsupported("its pages do not have 16 KiB"));
        }
        let _flags = reader.number()?;
        for _ in 0..reader.count()? {
            reader.take(COLUMN_BYTES)?;
            reader.name()?;
        }
        let (mut space_id, mut indexes) = (None, Vec::new());
        for _ in 0..reader.count()? {
            let index = reader.take(INDEX_BYTES)?;
            space_id = Some(u32_at(index, 8));
            let (root, fields) =
                (Root { index_id: u64_at(index, 0), page: u32_at(index, 12) }, u32_at(index, 36));
            indexes.push((reader.name()?, root));
            for _ in 0..fields.min(COUNT_MAX) {
                reader.take(FIELD_BYTES)?;
                reader.name()?;
            }
        }
        if reader.at != bytes.len() {
            return Err(reader.corrupt("the file continues after its end"));
        }
        Ok(Export { counter_at, space_id, indexes, bytes })
    }

    /// The file with another next value of the AUTO_INCREMENT column. The server takes it from here; with the
    /// value of an empty table it would assign numbers twice.
    #[must_use]
    pub fn with_auto_increment(&self, next: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some(place) = bytes.get_mut(self.counter_at..self.counter_at + 8) {
            place.copy_from_slice(&next.to_be_bytes());
        }
        bytes
    }
}
