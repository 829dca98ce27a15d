//! The type of a column, from MySQL's number of it.

use super::{DictColumn, bytes_of_base64};
use crate::Error;
use crate::table::collation::Collation;
use crate::table::{FloatFormat, GeometryKind, Members, Type};

/// Characters of a time and of a date with a time, without a fraction and its point.
const TIME_CHARS: u32 = 10;
const DATETIME_CHARS: u32 = 19;

impl DictColumn {
    /// Its type. Of a column that was dropped only what determines its length is known: not the precision of
    /// a DECIMAL, but the characters of its text.
    pub(super) fn kind(&self) -> Result<Type, Error> {
        let int = |bytes| {
            let zerofill = if self.is_zerofill { self.small(self.char_length)? } else { 0 };
            Ok::<_, Error>(Type::Int { bytes, unsigned: self.is_unsigned, zerofill })
        };
        let fraction = |chars: u32| match self.char_length.saturating_sub(chars) {
            0 => Ok(0),
            // A point precedes the digits.
            more @ 2..=7 => self.small(more - 1),
            _ => Err(self.wrong("its length")),
        };
        Ok(match self.kind {
            2 => int(1)?,
            3 => int(2)?,
            // InnoDB's own columns have these types, and lengths of their own.
            10 => int(3)?,
            4 => int(4)?,
            9 => int(8)?,
            5 => Type::Float(self.float()?),
            6 => Type::Double(self.float()?),
            21 => self.decimal()?,
            17 => match self.char_length {
                bits @ 1..=64 => Type::Bit { bits: self.small(bits)? },
                _ => return Err(self.wrong("its length")),
            },
            14 => Type::Year { short: false },
            15 => Type::Date,
            20 => Type::Time { fraction: fraction(TIME_CHARS)? },
            19 => Type::Datetime { fraction: fraction(DATETIME_CHARS)? },
            18 => Type::Timestamp { fraction: fraction(DATETIME_CHARS)?, wide: false },
            29 => Type::Char { chars: self.chars()?, collation: self.collation()? },
            16 => Type::Varchar { chars: self.chars()?, collation: self.collation()?, compressed: false },
            24 => self.blob(1)?,
            27 => self.blob(2)?,
            25 => self.blob(3)?,
            26 => self.blob(4)?,
            22 => Type::Enum(self.members(usize::from(u16::MAX))?),
            23 => Type::Set(self.members(64)?),
            30 => self.geometry()?,
            31 => Type::Json,
            // A VECTOR is stored like a BLOB, and SELECT shows its bytes.
            32 => Type::Blob { length_bytes: 4, collation: Collation::BINARY, compressed: false },
            1 | 8 | 11 | 12 | 13 => return Err(Error::old_time(&self.name)),
            other => {
                let what = format!("column `{}` has the type {other}, which is not known here", self.name);
                return Err(Error::unsupported(what));
            }
        })
    }

    fn float(&self) -> Result<FloatFormat, Error> {
        let digits = match self.numeric_scale_null {
            true => None,
            false => Some((self.small(self.numeric_precision)?, self.small(self.numeric_scale)?)),
        };
        // Of a dropped column nothing is said, and nothing printed.
        let digits = digits.filter(|(digits, _)| *digits > 0);
        Ok(FloatFormat { digits, unsigned: self.is_unsigned, zerofill: self.is_zerofill })
    }

    fn decimal(&self) -> Result<Type, Error> {
        let scale = self.numeric_scale;
        // A point and a sign are counted too.
        let more = u32::from(scale > 0) + u32::from(!self.is_unsigned);
        let precision = self.char_length.saturating_sub(more);
        if !(1..=65).contains(&precision) || scale > precision.min(38) {
            return Err(self.wrong("its number of digits"));
        }
        let (precision, scale) = (self.small(precision)?, self.small(scale)?);
        Ok(Type::Decimal { precision, scale, unsigned: self.is_unsigned, zerofill: self.is_zerofill })
    }

    fn blob(&self, length_bytes: u8) -> Result<Type, Error> {
        Ok(Type::Blob { length_bytes, collation: self.collation()?, compressed: false })
    }

    /// Its length in characters; it is given in bytes.
    fn chars(&self) -> Result<u16, Error> {
        self.small(self.char_length / u32::from(self.collation()?.charset().max))
    }

    fn members(&self, max: usize) -> Result<Members, Error> {
        if self.elements.is_empty() || self.elements.len() > max {
            return Err(self.wrong("its number of members"));
        }
        let names: Option<Vec<_>> =
            self.elements.iter().map(|member| bytes_of_base64(&member.name)).collect();
        let names = names.ok_or_else(|| self.wrong("a member"))?;
        Ok(Members::new(names, self.collation()?))
    }

    fn geometry(&self) -> Result<Type, Error> {
        let number = self.options.number("geom_type").unwrap_or(0_usize);
        let kind = GeometryKind::ALL.get(number).ok_or_else(|| self.wrong("its kind of geometry"))?;
        Ok(Type::Geometry(*kind))
    }

    fn collation(&self) -> Result<Collation, Error> {
        Collation::of_number(self.collation_id).ok_or_else(|| {
            let number = self.collation_id;
            Error::unsupported(format!(
                "column `{}` has the collation {number}, which is not known here",
                self.name
            ))
        })
    }

    fn small<T: TryFrom<u32>>(&self, number: u32) -> Result<T, Error> {
        T::try_from(number).map_err(|_| self.wrong("its length"))
    }
}
