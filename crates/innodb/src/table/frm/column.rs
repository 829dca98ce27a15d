//! Columns in a `.frm` file.

use super::reader::Reader;
use super::{COLUMNS_HEADER_BYTES, Sections, WITH_EXPRESSIONS};
use crate::Error;
use crate::table::collation::Collation;
use crate::table::{Column, FloatFormat, Generated, GeometryKind, Members, Type, Version};

/// Bytes of a column's description.
const COLUMN_BYTES: usize = 17;
/// Bytes before the first expression, and before the name of each.
const EXPRESSIONS_HEADER_BYTES: usize = 16;
const EXPRESSION_HEADER_BYTES: usize = 6;

const SIGNED: u16 = 1;
const ZEROFILL: u16 = 4;
const NULLABLE: u16 = 0x8000;
/// The decimals of a FLOAT or DOUBLE that is declared without them.
const NO_DECIMALS: u8 = 31;
/// What the server does to a column automatically.
const AUTO_INCREMENT: u8 = 15;
const COMPRESSED: u8 = 24;
/// Who can see a column: from this value on no statement can.
const VISIBILITY: u8 = 3;
const UNSEEN: u8 = 2;

/// All columns; hash columns are not marked as virtual yet.
pub(super) fn parse(
    file: &Reader<'_>,
    start: usize,
    sections: &Sections<'_>,
    version: Version,
) -> Result<Vec<Column>, Error> {
    let header = file.part(start, COLUMNS_HEADER_BYTES)?;
    let length = |at| header.u16(at).map(usize::from);
    let count = length(258)?;
    let fields = start + COLUMNS_HEADER_BYTES + length(260)?;
    let (name_bytes, member_bytes) = (length(268)?, length(274)?);
    let names_at = fields + count * COLUMN_BYTES;
    let members_at = names_at + name_bytes;
    let expressions_at = members_at + member_bytes + length(284)?;
    let names = file.slice(names_at, name_bytes)?;
    let names = lists(names).into_iter().next().unwrap_or_default();
    let lists = lists(file.slice(members_at, member_bytes)?);
    let types = type_names(sections, count)?;
    if names.len() != count {
        return Err(file.corrupt(names_at, "another number of names than of columns"));
    }
    let mut columns = Vec::new();
    for (at, (name, type_name)) in names.iter().zip(types).enumerate() {
        let name = text(file, names_at, name)?;
        let field =
            Field { name: &name, bytes: file.part(fields + at * COLUMN_BYTES, COLUMN_BYTES)?, lists: &lists };
        let flags = field.flags()?;
        let visibility =
            sections.column_flags.and_then(|flags| flags.get(at)).map_or(0, |byte| byte & VISIBILITY);
        let kind = field.kind(type_name, version)?;
        let auto_increment = field.bytes.u8(10)? == AUTO_INCREMENT;
        columns.push(Column {
            name,
            kind,
            nullable: flags & NULLABLE > 0,
            generated: Generated::No,
            hidden: visibility >= UNSEEN,
            auto_increment,
        });
    }
    if let Some(period) = sections.system_period {
        let period = Reader::new(period);
        for (at, generated) in [(0, Generated::RowStart), (2, Generated::RowEnd)] {
            generate(file, &mut columns, period.u16(at)?, generated)?;
        }
    }
    if file.u8(2)? >= WITH_EXPRESSIONS {
        expressions(file, file.part(expressions_at, length(286)?)?, &mut columns)?;
    }
    Ok(columns)
}

fn text(file: &Reader<'_>, at: usize, name: &[u8]) -> Result<String, Error> {
    String::from_utf8(name.to_vec()).map_err(|_| file.corrupt(at, "a name that is not UTF-8"))
}

fn generate(file: &Reader<'_>, columns: &mut [Column], at: u16, generated: Generated) -> Result<(), Error> {
    let column = columns.get_mut(usize::from(at));
    column.ok_or_else(|| file.corrupt(0, "a column beyond the last one"))?.generated = generated;
    Ok(())
}

/// Finds out which columns are computed.
fn expressions(file: &Reader<'_>, bytes: Reader<'_>, columns: &mut [Column]) -> Result<(), Error> {
    let mut at = EXPRESSIONS_HEADER_BYTES;
    while at < bytes.len() {
        let column = bytes.u16(at + 1)?;
        match bytes.u8(at)? {
            0 => generate(file, columns, column, Generated::Virtual)?,
            1 => generate(file, columns, column, Generated::Stored)?,
            // A default or a check.
            _ => {}
        }
        let text_bytes = usize::from(bytes.u16(at + 3)?);
        let name_bytes = usize::from(bytes.u8(at + 5)?);
        at += EXPRESSION_HEADER_BYTES + name_bytes + text_bytes;
    }
    Ok(())
}

/// Lists of names. Each list begins with the separator that follows each of its names, and ends with a zero.
fn lists(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut lists = Vec::new();
    let mut rest = bytes;
    // A zero ends a list, so none is separated by zeros.
    while let Some((separator, mut names)) = rest.split_first().filter(|(separator, _)| **separator != 0) {
        let mut list = Vec::new();
        while names.first().is_some_and(|byte| *byte != 0) {
            let Some(end) = names.iter().position(|byte| byte == separator) else { return lists };
            list.push(&names[..end]);
            names = &names[end + 1..];
        }
        rest = names.get(1..).unwrap_or_default();
        lists.push(list);
    }
    lists
}

/// The name of each column's type, if it comes from a plugin.
fn type_names<'a>(sections: &Sections<'a>, count: usize) -> Result<Vec<Option<&'a str>>, Error> {
    let mut names = vec![None; count];
    let bytes = Reader::new(sections.type_names.unwrap_or_default());
    let mut at = 0;
    // Numbers below 251 are one byte; others are that byte and two more.
    let number = |at: &mut usize| {
        let first = bytes.u8(*at)?;
        let (number, len) = match first {
            252 => (bytes.u16(*at + 1)?, 3),
            253.. => return Err(bytes.corrupt(*at, "a length that is too large")),
            _ => (u16::from(first), 1),
        };
        *at += len;
        Ok(usize::from(number))
    };
    while at < bytes.len() {
        let column = number(&mut at)?;
        let name_bytes = number(&mut at)?;
        let name = names.get_mut(column);
        *name.ok_or_else(|| bytes.corrupt(at, "a column beyond the last one"))? =
            Some(bytes.text(at, name_bytes)?);
        at += name_bytes;
    }
    Ok(names)
}

/// A column's seventeen bytes, and the member lists.
struct Field<'a> {
    name: &'a str,
    bytes: Reader<'a>,
    lists: &'a [Vec<&'a [u8]>],
}

impl Field<'_> {
    fn flags(&self) -> Result<u16, Error> {
        self.bytes.u16(8)
    }

    fn kind(&self, type_name: Option<&str>, version: Version) -> Result<Type, Error> {
        let flags = self.flags()?;
        let length = self.bytes.u16(3)?;
        let compressed = self.bytes.u8(10)? == COMPRESSED;
        if let Some(name) = type_name {
            return self.named(name, version);
        }
        if let Some(number) = self.number(length, flags)? {
            return Ok(number);
        }
        let fraction = |whole: u16| self.fraction(length, whole);
        Ok(match self.bytes.u8(13)? {
            14 => Type::Date,
            19 => Type::Time { fraction: fraction(10)? },
            18 => Type::Datetime { fraction: fraction(19)? },
            17 => Type::Timestamp { fraction: fraction(19)?, wide: version.has_wide_timestamps() },
            7 | 10..=12 => return Err(Error::old_time(self.name)),
            254 => Type::Char { chars: self.chars(length)?, collation: self.collation()? },
            15 => {
                // The length includes the byte that says whether a value is compressed.
                let length = length.checked_sub(u16::from(compressed));
                let length = length.ok_or_else(|| self.fault("a VARCHAR of impossible length"))?;
                Type::Varchar { chars: self.chars(length)?, collation: self.collation()?, compressed }
            }
            249..=252 => {
                let length_bytes = match flags >> 3 & 15 {
                    1 => 1,
                    2 => 2,
                    9 => 3,
                    3 => 4,
                    _ => return Err(self.fault("a BLOB of impossible length")),
                };
                Type::Blob { length_bytes, collation: self.collation()?, compressed }
            }
            247 => Type::Enum(self.members()?),
            248 => {
                let members = self.members()?;
                if members.names().len() > 64 {
                    return Err(self.fault("a SET with more than 64 members"));
                }
                Type::Set(members)
            }
            255 => {
                let shape = GeometryKind::ALL.get(usize::from(self.bytes.u8(14)?));
                Type::Geometry(*shape.ok_or_else(|| self.fault("a kind of geometry that there is not"))?)
            }
            _ => return Err(self.fault("a type that is not known")),
        })
    }

    /// The type, if it is numeric.
    fn number(&self, length: u16, flags: u16) -> Result<Option<Type>, Error> {
        let decimals = u8::try_from(flags >> 8 & 63).unwrap_or_default();
        let unsigned = flags & SIGNED == 0;
        let zerofill = flags & ZEROFILL > 0;
        let int = |bytes| -> Result<Type, Error> {
            let zerofill = if zerofill { self.small(length)? } else { 0 };
            Ok(Type::Int { bytes, unsigned, zerofill })
        };
        let real = || -> Result<FloatFormat, Error> {
            let digits = if decimals == NO_DECIMALS { None } else { Some((self.small(length)?, decimals)) };
            Ok(FloatFormat { digits, unsigned, zerofill })
        };
        Ok(Some(match self.bytes.u8(13)? {
            1 => int(1)?,
            2 => int(2)?,
            9 => int(3)?,
            3 => int(4)?,
            8 => int(8)?,
            4 => Type::Float(real()?),
            5 => Type::Double(real()?),
            246 => {
                let signs = u16::from(decimals > 0) + u16::from(!unsigned);
                let precision = length.checked_sub(signs).filter(|digits| (1..=65).contains(digits));
                let precision = precision.filter(|digits| *digits >= u16::from(decimals) && decimals <= 38);
                let precision = precision.ok_or_else(|| self.fault("a DECIMAL of impossible length"))?;
                Type::Decimal { precision: self.small(precision)?, scale: decimals, unsigned, zerofill }
            }
            16 if (1..=64).contains(&length) => Type::Bit { bits: self.small(length)? },
            13 => Type::Year { short: length == 2 },
            _ => return Ok(None),
        }))
    }

    /// A type from a plugin.
    fn named(&self, name: &str, version: Version) -> Result<Type, Error> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "uuid" => Type::Uuid { always_swapped: version.swaps_all_uuids() },
            "inet4" => Type::Inet4,
            "inet6" => Type::Inet6,
            "vector" => Type::Vector { dimensions: self.bytes.u16(3)? / 4 },
            _ => return Err(self.unknown(&format!("type {name}"))),
        })
    }

    /// Fractional digits: the width minus that of whole seconds and a point.
    fn fraction(&self, length: u16, whole: u16) -> Result<u8, Error> {
        match length.checked_sub(whole) {
            Some(0) => Ok(0),
            Some(more @ 2..=7) => self.small(more - 1),
            _ => Err(self.fault("a time of impossible length")),
        }
    }

    fn collation(&self) -> Result<Collation, Error> {
        let number = u16::from(self.bytes.u8(14)?) | u16::from(self.bytes.u8(11)?) << 8;
        Collation::of_number(number).ok_or_else(|| self.unknown(&format!("collation of number {number}")))
    }

    /// Number of characters in a length in bytes.
    fn chars(&self, bytes: u16) -> Result<u16, Error> {
        Ok(bytes / u16::from(self.collation()?.charset().max))
    }

    fn members(&self) -> Result<Members, Error> {
        let collation = self.collation()?;
        let place = usize::from(self.bytes.u8(12)?).checked_sub(1);
        let list = place.and_then(|place| self.lists.get(place)).filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| self.fault("an ENUM or SET without members"))?;
        // Characters of several bytes may contain any byte, and are written in hexadecimal.
        let names: Option<Vec<Vec<u8>>> = match collation.charset().min {
            1 => Some(list.iter().map(|name| name.to_vec()).collect()),
            _ => list.iter().map(|name| hexadecimal(name)).collect(),
        };
        let names = names.ok_or_else(|| self.fault("a member that is not in hexadecimal"))?;
        Ok(Members::new(names, collation))
    }

    fn small(&self, number: u16) -> Result<u8, Error> {
        u8::try_from(number).map_err(|_| self.fault("a type of impossible length"))
    }

    fn fault(&self, what: &str) -> Error {
        Error::Corrupt { what: what.to_owned(), place: format!("column `{}` of the .frm file", self.name) }
    }

    fn unknown(&self, what: &str) -> Error {
        Error::unsupported(format!("column `{}` has a {what}, which is not known", self.name))
    }
}

fn hexadecimal(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Sections, lists, type_names};

    #[test]
    fn names_of_types_are_by_the_numbers_of_columns() {
        let bytes = [252, 44, 1, 1, b'x', 5, 2, b'y', b'z', 250, 0];
        let names = |bytes: &[u8]| {
            let sections = Sections { type_names: Some(bytes), ..Sections::default() };
            type_names(&sections, 301)
                .map(|names| names.into_iter().map(|name| name.map(str::to_owned)).collect())
        };
        let found: Vec<_> = names(&bytes).unwrap();
        assert_eq!((found[300].as_deref(), found[5].as_deref()), (Some("x"), Some("yz")));
        assert_eq!((found[250].as_deref(), found.iter().flatten().count()), (Some(""), 3));
        for wrong in [&[253, 0][..], &[252, 45, 1, 1, b'x'], &[0, 9, b'x'], &[252, 1]] {
            assert!(names(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_list_begins_with_its_separator_and_ends_with_a_zero() {
        let read = |bytes: &[u8]| -> Vec<Vec<String>> {
            let text = |name: &&[u8]| name.escape_ascii().to_string();
            lists(bytes).iter().map(|list| list.iter().map(text).collect()).collect()
        };
        assert_eq!(read(b"\xffa\xffb\xff\0"), [["a", "b"]]);
        assert_eq!(read(b"\xffa\xff\0,\xff,b,\0"), [vec!["a"], vec!["\\xff", "b"]]);
        assert_eq!(read(b"\xff\0,b,\0"), [vec![], vec!["b"]]);
        // Without its end there is no list, and after a separator that is a zero there are no more.
        assert_eq!(read(b"\xffa\xff\0,b"), [["a"]]);
        assert_eq!(read(b"\xffa\xff\0\0b\0c\0\0"), [["a"]]);
    }
}
