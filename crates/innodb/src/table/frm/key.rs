//! Keys in a `.frm` file.

use super::reader::{Reader, size};
use crate::Error;
use crate::table::{Column, Generated, Key, KeyKind, Part, Type};

const KEY_BYTES: usize = 8;
const PART_BYTES: usize = 9;
const SEPARATOR: u8 = 0xff;
/// The first bit of a key's flags is inverted: as stored, it is clear when the key is unique.
const NOT_UNIQUE: u16 = 1;
const FULLTEXT: u16 = 128;
const SPATIAL: u16 = 1024;
const BY_HASH: u8 = 5;
const VECTOR: u8 = 7;
const COLUMN_BITS: u16 = 0x3fff;
const DESCENDING: u8 = 0x80;

/// Length of the description of all keys.
pub(super) fn section_bytes(file: &Reader<'_>) -> Result<usize, Error> {
    match file.u16(14)? {
        u16::MAX => Ok(size(file.u32(47)?)),
        bytes => Ok(usize::from(bytes)),
    }
}

/// All keys. The last columns are the hashes of keys that are unique by a hash.
pub(super) fn parse(file: &Reader<'_>, columns: &mut [Column]) -> Result<Vec<Key>, Error> {
    let bytes = file.part(usize::from(file.u16(6)?), section_bytes(file)?)?;
    let first = bytes.u8(0)?;
    let count = match first & 0x80 {
        0 => usize::from(first),
        _ => usize::from(bytes.u8(1)?) << 7 | usize::from(first & 0x7f),
    };
    let mut keys = Vec::new();
    let mut at = 6;
    for _ in 0..count {
        let parts = usize::from(bytes.u8(at + 4)?);
        let kind = kind(bytes.u16(at)?, bytes.u8(at + 5)?);
        let mut key = Key { name: String::new(), kind, parts: Vec::new() };
        for part in 0..parts {
            key.parts.push(self::part(
                bytes.part(at + KEY_BYTES + part * PART_BYTES, PART_BYTES)?,
                kind,
                columns,
            )?);
        }
        keys.push(key);
        at += KEY_BYTES + parts * PART_BYTES;
    }
    let rest = bytes.slice(at, bytes.len().saturating_sub(at))?;
    let names = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut names = names.split(|byte| *byte == SEPARATOR).skip(1);
    for key in &mut keys {
        let name = names.next().and_then(|name| std::str::from_utf8(name).ok());
        name.ok_or_else(|| bytes.corrupt(at, "a key without a name"))?.clone_into(&mut key.name);
    }
    if let Some(first) = keys.first_mut().filter(|key| key.name.eq_ignore_ascii_case("PRIMARY")) {
        first.kind = KeyKind::Primary;
    }
    hashes(&bytes, columns, &mut keys)?;
    Ok(keys)
}

fn kind(flags: u16, algorithm: u8) -> KeyKind {
    match algorithm {
        BY_HASH => KeyKind::UniqueHash,
        VECTOR => KeyKind::Vector,
        _ if flags & FULLTEXT > 0 => KeyKind::Fulltext,
        _ if flags & SPATIAL > 0 => KeyKind::Spatial,
        _ if flags & NOT_UNIQUE == 0 => KeyKind::Unique,
        _ => KeyKind::Plain,
    }
}

fn part(bytes: Reader<'_>, kind: KeyKind, columns: &[Column]) -> Result<Part, Error> {
    // Columns count from 1.
    let column = usize::from(bytes.u16(0)? & COLUMN_BITS).checked_sub(1);
    let column = column.filter(|column| *column < columns.len());
    let column = column.ok_or_else(|| bytes.corrupt(0, "a key of a column that there is not"))?;
    let length = u32::from(bytes.u16(7)?);
    let whole = match &columns[column].kind {
        _ if !matches!(kind, KeyKind::Primary | KeyKind::Unique | KeyKind::Plain) => length,
        Type::Char { chars, collation } | Type::Varchar { chars, collation, .. } => {
            u32::from(*chars) * u32::from(collation.charset().max)
        }
        Type::Blob { .. } | Type::Geometry(_) => u32::MAX,
        _ => length,
    };
    let prefix = (length < whole).then_some(length);
    Ok(Part { column, prefix, descending: bytes.u8(4)? & DESCENDING > 0 })
}

fn hashes(bytes: &Reader<'_>, columns: &mut [Column], keys: &mut [Key]) -> Result<(), Error> {
    let hashed = keys.iter().filter(|key| key.kind == KeyKind::UniqueHash).count();
    let first = columns.len().checked_sub(hashed);
    let first = first.ok_or_else(|| bytes.corrupt(0, "more hashes than columns"))?;
    let keys = keys.iter_mut().filter(|key| key.kind == KeyKind::UniqueHash);
    for (column, key) in (first..).zip(keys) {
        columns[column].generated = Generated::Virtual;
        key.parts = vec![Part { column, prefix: None, descending: false }];
    }
    Ok(())
}
