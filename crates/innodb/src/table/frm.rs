//! `.frm` files, in which MariaDB keeps the definition of a table.
//!
//! Numbers are little-endian. docs/formats/innodb.md says which parts of the file are read, and where they
//! are.

mod column;
mod key;
mod reader;

use super::{RowFormat, Table, Version, sql};
use crate::Error;
use reader::Reader;

/// Bytes of the header; the typed sections follow it.
const HEADER_BYTES: usize = 64;
/// Bytes of the header of columns.
const COLUMNS_HEADER_BYTES: usize = 288;
/// The first version whose files are read, because it changed the formats of times.
const VERSION_FIRST: Version = Version(100_100);
/// The first version of MySQL 5.7, which has formats of its own.
const MYSQL_FIRST: Version = Version(50_700);
/// The first version of the format with expressions apart from columns.
const WITH_EXPRESSIONS: u8 = 11;
/// The first version of the format that distinguishes VARCHAR from CHAR.
const WITH_VARCHAR: u8 = 10;

/// The typed sections that are needed.
#[derive(Default)]
struct Sections<'a> {
    partition_engine: Option<&'a [u8]>,
    /// The columns of the start and end of rows.
    system_period: Option<&'a [u8]>,
    options: Option<&'a [u8]>,
    /// A byte for each column: who can see it.
    column_flags: Option<&'a [u8]>,
    /// Names of types from plugins.
    type_names: Option<&'a [u8]>,
}

/// The table that a `.frm` file defines.
///
/// # Errors
/// [`Error::Corrupt`] when the bytes are not such a file; [`Error::Unsupported`] for a table whose files this
/// crate does not read.
pub fn parse(bytes: &[u8]) -> Result<Table, Error> {
    let file = Reader::new(bytes);
    let format = file.u8(2)?;
    if !bytes.starts_with(&[0xfe, 1]) || !(WITH_VARCHAR..=WITH_EXPRESSIONS).contains(&format) {
        return Err(file.corrupt(0, "this is no .frm file of a table of MariaDB"));
    }
    let version = Version(file.u32(51)?);
    if (MYSQL_FIRST..VERSION_FIRST).contains(&version) {
        return Err(Error::unsupported(
            "the .frm file is of MySQL 5.7: give what SHOW CREATE TABLE says with --schema".to_owned(),
        ));
    }
    if version < VERSION_FIRST {
        return Err(Error::unsupported(format!(
            "the .frm file is of version {}, and those of MariaDB 10.1 and later are read: rebuild the table \
             (ALTER TABLE ... FORCE)",
            version.0
        )));
    }
    let section_bytes = usize::from(file.u16(4)?);
    let sections = sections(file.part(HEADER_BYTES, section_bytes)?)?;
    let start = reader::size(file.u32(HEADER_BYTES + section_bytes)?);
    // Tables of other engines have row formats of their own: the engine is what is told.
    let partitioning = engine(&file, &sections)?;
    let row_format = row_format(&file, &sections)?;
    let mut columns = column::parse(&file, start, &sections, version)?;
    let keys = key::parse(&file, &mut columns)?;
    let partitions = match partitioning {
        Some(text) => sql::partitions(&text)?,
        None => Vec::new(),
    };
    Table::new(columns, keys, row_format, partitions)
}

fn sections(bytes: Reader<'_>) -> Result<Sections<'_>, Error> {
    let mut sections = Sections::default();
    let mut at = 0;
    while at < bytes.len() {
        let kind = bytes.u8(at)?;
        let (length, head) = match bytes.u8(at + 1)? {
            0 => (usize::from(bytes.u16(at + 2)?), 4),
            short => (usize::from(short), 2),
        };
        let data = Some(bytes.slice(at + head, length)?);
        match kind {
            1 => sections.partition_engine = data,
            4 => sections.system_period = data,
            128 => sections.options = data,
            129 => sections.column_flags = data,
            130 => sections.type_names = data,
            // These do not affect how rows are stored; a reader must know all sections from 128 on.
            0..128 | 131 => {}
            _ => {
                return Err(Error::unsupported(format!(
                    "the .frm file has a section of kind {kind}, which is of a later MariaDB"
                )));
            }
        }
        at += head + length;
    }
    Ok(sections)
}

fn row_format(file: &Reader<'_>, sections: &Sections<'_>) -> Result<RowFormat, Error> {
    if let Some(options) = sections.options {
        storage_options(Reader::new(options))?;
    }
    if file.u16(62)? > 0 {
        return sql::row_format("COMPRESSED");
    }
    const NAMES: [&str; 7] = ["DEFAULT", "FIXED", "DYNAMIC", "COMPRESSED", "REDUNDANT", "COMPACT", "PAGE"];
    match NAMES.get(usize::from(file.u8(40)?)) {
        Some(name) => sql::row_format(name),
        None => Err(file.corrupt(40, "a row format that there is not")),
    }
}

/// The table's own engine options, which come before those of columns and keys.
fn storage_options(bytes: Reader<'_>) -> Result<(), Error> {
    let mut at = 0;
    loop {
        let name_bytes = usize::from(bytes.u8(at)?);
        if name_bytes == 0 {
            return Ok(());
        }
        let name = bytes.text(at + 1, name_bytes)?;
        // The first bit says whether the value is quoted.
        let value_bytes = usize::from(bytes.u16(at + 1 + name_bytes)? & 0x7fff);
        let value = bytes.text(at + 3 + name_bytes, value_bytes)?;
        sql::storage_option(name, value)?;
        at += 3 + name_bytes + value_bytes;
    }
}

/// Checks the engine. Returns PARTITION BY, if there is one.
fn engine(file: &Reader<'_>, sections: &Sections<'_>) -> Result<Option<String>, Error> {
    let keys = reader::size(u32::from(file.u16(6)?));
    let row = keys + key::section_bytes(file)?;
    let extra = row + usize::from(file.u16(16)?);
    let connection_bytes = usize::from(file.u16(extra)?);
    let at = extra + 2 + connection_bytes;
    let name_bytes = usize::from(file.u16(at)?);
    let name = file.text(at + 2, name_bytes)?;
    let own = if name.eq_ignore_ascii_case("partition") {
        sections.partition_engine.map(String::from_utf8_lossy).unwrap_or_default()
    } else {
        name.into()
    };
    if !own.eq_ignore_ascii_case("InnoDB") {
        return Err(Error::unsupported(format!("the table's engine is {own}, not InnoDB")));
    }
    let at = at + 2 + name_bytes;
    let text_bytes = reader::size(file.u32(at)?);
    let text = file.text(at + 4, text_bytes)?;
    Ok((!text.is_empty()).then(|| text.to_owned()))
}
