//! A column, as `SHOW CREATE TABLE` prints it.

use super::cursor::Cursor;
use super::lexer::Kind;
use crate::Error;
use crate::table::collation::Collation;
use crate::table::{Column, FloatFormat, Generated, GeometryKind, Members, Type, Version, charset_encode};

/// A column whose character set may still be the table's.
pub(super) struct Draft {
    pub(super) name: String,
    line: usize,
    type_name: String,
    numbers: Vec<u32>,
    texts: Vec<String>,
    unsigned: bool,
    zerofill: bool,
    compressed: bool,
    charset: Option<String>,
    collation: Option<String>,
    nullable: bool,
    generated: Generated,
    auto_increment: bool,
}

impl Draft {
    /// Reads a column up to the comma or parenthesis after it.
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Draft, Error> {
        let name = cursor.name()?;
        let line = cursor.peek().map_or(1, |token| token.line);
        let mut draft = Draft {
            name,
            line,
            type_name: cursor.word()?.to_ascii_lowercase(),
            numbers: Vec::new(),
            texts: Vec::new(),
            unsigned: false,
            zerofill: false,
            compressed: false,
            charset: None,
            collation: None,
            nullable: true,
            generated: Generated::No,
            auto_increment: false,
        };
        draft.arguments(cursor)?;
        if cursor.peek().is_some_and(|token| token.kind == Kind::OldTime) {
            return Err(Error::old_time(&draft.name));
        }
        while !cursor.is(0, ",") && !cursor.is(0, ")") {
            draft.attribute(cursor)?;
        }
        Ok(draft)
    }

    /// The parentheses after the type.
    fn arguments(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if !cursor.takes("(") {
            return Ok(());
        }
        loop {
            if cursor.peek().is_some_and(|token| token.kind == Kind::Text) {
                self.texts.push(cursor.text()?);
            } else {
                self.numbers.push(cursor.number()?);
            }
            if cursor.takes(")") {
                return Ok(());
            }
            cursor.expect(",")?;
        }
    }

    fn attribute(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.takes("UNSIGNED") {
            self.unsigned = true;
        } else if cursor.takes("ZEROFILL") {
            self.zerofill = true;
        } else if cursor.takes("COMPRESSED") {
            self.compressed = true;
            if cursor.takes("=") {
                cursor.word()?;
            }
        } else if cursor.takes_all(&["CHARACTER", "SET"]) || cursor.takes("CHARSET") {
            self.charset = Some(cursor.name()?);
        } else if cursor.takes("COLLATE") {
            self.collation = Some(cursor.name()?);
        } else if cursor.takes_all(&["NOT", "NULL"]) {
            self.nullable = false;
        } else if cursor.takes("AUTO_INCREMENT") {
            self.auto_increment = true;
        } else if cursor.takes("DEFAULT") || cursor.takes_all(&["ON", "UPDATE"]) {
            expression(cursor)?;
        } else if cursor.takes("CHECK") {
            cursor.skip_parenthesis()?;
        } else if cursor.takes("COMMENT") {
            cursor.text()?;
        } else if cursor.takes("REF_SYSTEM_ID") {
            cursor.expect("=")?;
            cursor.number::<u32>()?;
        } else if cursor.takes_all(&["GENERATED", "ALWAYS", "AS", "ROW"]) {
            self.nullable = false;
            self.generated = match cursor.word()?.to_ascii_uppercase().as_str() {
                "START" => Generated::RowStart,
                "END" => Generated::RowEnd,
                _ => return Err(cursor.unexpected("START or END before it")),
            };
        } else if cursor.takes_all(&["GENERATED", "ALWAYS", "AS"]) || cursor.takes("AS") {
            cursor.skip_parenthesis()?;
            self.generated = match cursor.word()?.to_ascii_uppercase().as_str() {
                "VIRTUAL" => Generated::Virtual,
                "STORED" | "PERSISTENT" => Generated::Stored,
                _ => return Err(cursor.unexpected("VIRTUAL or STORED before it")),
            };
        } else {
            let silent = cursor.takes("NULL")
                || cursor.takes("INVISIBLE")
                || cursor.takes_all(&["WITH", "SYSTEM", "VERSIONING"])
                || cursor.takes_all(&["WITHOUT", "SYSTEM", "VERSIONING"]);
            if !silent {
                return Err(cursor.unexpected("more of a column, ',' or ')'"));
            }
        }
        Ok(())
    }

    /// The column, in a table with this collation.
    pub(super) fn finish(self, table: Option<Collation>, version: Version) -> Result<Column, Error> {
        let kind = self.kind(table, version)?;
        Ok(Column {
            name: self.name,
            kind,
            nullable: self.nullable,
            generated: self.generated,
            hidden: false,
            auto_increment: self.auto_increment,
        })
    }

    fn kind(&self, table: Option<Collation>, version: Version) -> Result<Type, Error> {
        let fraction = || self.within(0, 0, 6);
        let chars = || self.within(0, 1, u32::from(u16::MAX)).and_then(|chars| self.small(chars));
        let collation = || self.collation(table);
        let binary = |length_bytes| Type::Blob {
            length_bytes,
            collation: Collation::BINARY,
            compressed: self.compressed,
        };
        let text = |length_bytes| {
            let (collation, compressed) = (self.collation(table)?, self.compressed);
            Ok::<_, Error>(Type::Blob { length_bytes, collation, compressed })
        };
        if let Some(number) = self.number()? {
            return Ok(number);
        }
        Ok(match self.type_name.as_str() {
            "date" => Type::Date,
            "time" => Type::Time { fraction: self.small(fraction()?)? },
            "datetime" => Type::Datetime { fraction: self.small(fraction()?)? },
            "timestamp" => {
                Type::Timestamp { fraction: self.small(fraction()?)?, wide: version.has_wide_timestamps() }
            }
            "char" => Type::Char { chars: chars()?, collation: collation()? },
            "binary" => Type::Char { chars: chars()?, collation: Collation::BINARY },
            "varchar" => {
                Type::Varchar { chars: chars()?, collation: collation()?, compressed: self.compressed }
            }
            "varbinary" => {
                Type::Varchar { chars: chars()?, collation: Collation::BINARY, compressed: self.compressed }
            }
            "tinytext" => text(1)?,
            "text" => text(2)?,
            "mediumtext" => text(3)?,
            "longtext" => text(4)?,
            "tinyblob" => binary(1),
            "blob" => binary(2),
            "mediumblob" => binary(3),
            "longblob" => binary(4),
            "enum" => Type::Enum(self.members(collation()?, usize::from(u16::MAX))?),
            "set" => Type::Set(self.members(collation()?, 64)?),
            "uuid" => Type::Uuid { always_swapped: version.swaps_all_uuids() },
            "inet4" => Type::Inet4,
            "inet6" => Type::Inet6,
            "json" => Type::Json,
            "vector" => {
                Type::Vector { dimensions: self.within(0, 0, 16383).and_then(|count| self.small(count))? }
            }
            other => {
                let shape = GEOMETRIES.iter().position(|name| *name == other);
                let shape = shape.and_then(|place| GeometryKind::ALL.get(place));
                Type::Geometry(*shape.ok_or_else(|| self.error("a type that is not known"))?)
            }
        })
    }

    /// The type, if it is numeric.
    fn number(&self) -> Result<Option<Type>, Error> {
        Ok(Some(match self.type_name.as_str() {
            "tinyint" => self.int(1)?,
            "smallint" => self.int(2)?,
            "mediumint" => self.int(3)?,
            "int" => self.int(4)?,
            "bigint" => self.int(8)?,
            "float" => Type::Float(self.real()?),
            "double" => Type::Double(self.real()?),
            "decimal" => {
                let (precision, scale) = (self.within(0, 10, 65)?, self.within(1, 0, 38)?);
                if scale > precision {
                    return Err(self.error("a DECIMAL with more decimals than digits"));
                }
                let zerofill = self.zerofill;
                let unsigned = self.unsigned || zerofill;
                Type::Decimal {
                    precision: self.small(precision)?,
                    scale: self.small(scale)?,
                    unsigned,
                    zerofill,
                }
            }
            "bit" => Type::Bit { bits: self.within(0, 1, 64).and_then(|bits| self.small(bits.max(1)))? },
            "year" => Type::Year { short: self.within(0, 4, 4)? == 2 },
            _ => return Ok(None),
        }))
    }

    fn int(&self, bytes: u8) -> Result<Type, Error> {
        // The server always prints the width; this is the default one.
        let usual = match bytes {
            1 => 3,
            2 => 5,
            3 => 8,
            4 => 10,
            _ => 20,
        };
        let zerofill = if self.zerofill { self.small(self.within(0, usual, 255)?)? } else { 0 };
        Ok(Type::Int { bytes, unsigned: self.unsigned || self.zerofill, zerofill })
    }

    fn real(&self) -> Result<FloatFormat, Error> {
        let digits = match self.numbers.as_slice() {
            [] => None,
            [_, _] => Some((self.small(self.within(0, 0, 255)?)?, self.small(self.within(1, 0, 38)?)?)),
            _ => return Err(self.error("a type with another number of arguments than it has")),
        };
        Ok(FloatFormat { digits, unsigned: self.unsigned || self.zerofill, zerofill: self.zerofill })
    }

    fn members(&self, collation: Collation, max: usize) -> Result<Members, Error> {
        let charset = collation.charset();
        if self.texts.is_empty() || self.texts.len() > max {
            return Err(self.error("a number of members that the type can't have"));
        }
        let names = self.texts.iter().map(|name| charset_encode::from_utf8(name, charset));
        let names: Option<Vec<_>> = names.collect();
        let names = names.ok_or_else(|| {
            Error::unsupported(format!(
                "column `{}` has members whose letters are not known in {}: its .frm file can be read",
                self.name, charset.name
            ))
        })?;
        Ok(Members::new(names, collation))
    }

    fn collation(&self, table: Option<Collation>) -> Result<Collation, Error> {
        let named = self.collation.as_ref().map(|name| Collation::of_name(name).ok_or(name));
        let own = || self.charset.as_ref().map(|name| Collation::of_charset(name).ok_or(name));
        match named.or_else(own) {
            Some(Ok(collation)) => Ok(collation),
            Some(Err(name)) => Err(self.error(&format!("the collation or character set {name}"))),
            None => table.ok_or_else(|| self.error("no character set, neither here nor of the table")),
        }
    }

    /// An argument of the type, checked against its bounds.
    fn within(&self, at: usize, usual: u32, max: u32) -> Result<u32, Error> {
        let number = self.numbers.get(at).copied().unwrap_or(usual);
        if number > max { Err(self.error("a type with a number that it can't have")) } else { Ok(number) }
    }

    fn small<T: TryFrom<u32>>(&self, number: u32) -> Result<T, Error> {
        T::try_from(number).map_err(|_| self.error("a type with a number that it can't have"))
    }

    fn error(&self, what: &str) -> Error {
        Error::Sql { line: self.line, what: format!("column `{}` {}: {what}", self.name, self.type_name) }
    }
}

/// Names of spatial types, each at its number.
const GEOMETRIES: [&str; 8] = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
];

/// Skips a default: a text, a number, a function, or anything in parentheses.
fn expression(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    if cursor.is(0, "(") {
        return cursor.skip_parenthesis();
    }
    if !cursor.takes("-") {
        cursor.takes("+");
    }
    let Some(token) = cursor.peek() else { return Err(cursor.unexpected("a default")) };
    match token.kind {
        Kind::Text | Kind::Number => cursor.skip(),
        Kind::Word | Kind::Name => {
            cursor.skip();
            // A function, which may be a stored one, or a text preceded by its character set.
            while cursor.takes(".") {
                cursor.name()?;
            }
            if cursor.is(0, "(") {
                cursor.skip_parenthesis()?;
            } else if cursor.peek().is_some_and(|next| next.kind == Kind::Text) {
                cursor.skip();
            }
        }
        Kind::Sign | Kind::OldTime => return Err(cursor.unexpected("a default")),
    }
    Ok(())
}
