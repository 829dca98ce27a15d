//! The types of a table that is made for a file with typed columns: those of the file, exactly.

use parquet_rows::foreign::{Column, Kind, Table};
use progress::Progress;
use rows::{ColumnKind, ColumnStats, ColumnType, Habits, Written};

use crate::Error;
use crate::request::Request;
use crate::source::Files;

/// The most digits of a DECIMAL, and those behind its point, that every server has.
const DECIMAL_MAX: (i16, i16) = (65, 30);
/// The longest BINARY and VARBINARY.
const BINARY_MAX: u32 = 255;
const VARBINARY_MAX: u32 = 16_383;

/// A column that is made.
pub(super) struct Declared {
    /// Its type, or one of the same size.
    pub(super) column_type: ColumnType,
    /// The type as SQL, if no [`ColumnKind`] is the same.
    pub(super) sql: Option<String>,
}

impl Declared {
    /// The type as SQL.
    pub(super) fn text(&self) -> String {
        self.sql.clone().unwrap_or_else(|| self.column_type.kind.to_string())
    }

    fn kind(kind: ColumnKind) -> Declared {
        let (max_chars, max_bytes) = (0, 0);
        let column_type =
            ColumnType { kind, nullable: true, max_chars, max_bytes, written: Written::Plainly };
        Declared { column_type, sql: None }
    }

    fn sql(sql: impl Into<String>, size: ColumnKind) -> Declared {
        Declared { sql: Some(sql.into()), ..Declared::kind(size) }
    }
}

/// Where the types come from.
pub(super) struct Declaration<'a> {
    pub(super) request: &'a Request,
    pub(super) files: &'a Files<'a>,
    pub(super) stats: &'a [ColumnStats],
    pub(super) habits: &'a Habits,
    /// Whether the server has the type UUID.
    pub(super) has_uuid: bool,
    pub(super) progress: &'a dyn Progress,
}

impl Declaration<'_> {
    /// The types of all columns, if the files have some.
    ///
    /// # Errors
    /// When no type of a server holds what a column may have, and none was given.
    pub(super) fn types(&self) -> Result<Option<Vec<Declared>>, Error> {
        let Some(table) = self.files.table(0) else { return Ok(None) };
        let columns = table.columns().iter().zip(self.stats).enumerate();
        let types = columns.map(|(at, (column, stats))| {
            let is_given = self.request.types.iter().any(|(name, _)| *name == column.name);
            let mut declared = if is_given {
                let mut own = Declared::kind(ColumnKind::LongText);
                own.column_type = stats.decide_by(self.habits);
                own
            } else {
                self.declared((at, table), column, stats)?
            };
            declared.column_type.nullable = match self.habits.roomy {
                true => !column.required,
                false => stats.has_nulls(),
            };
            Ok(declared)
        });
        types.collect::<Result<Vec<_>, Error>>().map(Some)
    }

    fn declared(
        &self,
        (at, table): (usize, &Table),
        column: &Column,
        stats: &ColumnStats,
    ) -> Result<Declared, Error> {
        let digits = |fraction: u8| if self.habits.roomy { 6 } else { fraction.min(6) };
        Ok(match column.kind {
            Kind::Null | Kind::InPath => own(stats.decide_by(self.habits)),
            Kind::Boolean => Declared::kind(ColumnKind::Boolean),
            Kind::Integer { bytes, unsigned } => Declared::kind(ColumnKind::Int { bytes, unsigned }),
            Kind::Decimal { precision, scale } => decimal(column, precision, scale)?,
            Kind::Float => Declared::sql("FLOAT", ColumnKind::Double),
            Kind::Double => Declared::kind(ColumnKind::Double),
            Kind::Date => Declared::kind(ColumnKind::Date),
            Kind::Time { fraction } => Declared::kind(ColumnKind::Time { fraction: digits(fraction) }),
            Kind::Timestamp { fraction, utc } => {
                let fraction = digits(fraction);
                let wide = ColumnKind::DateTime { fraction, utc: false };
                let in_range = || (0..self.files.len()).all(|file| self.is_in_range(file, at));
                if utc && in_range() {
                    Declared::sql(format!("TIMESTAMP({fraction})"), wide)
                } else {
                    self.tell_of_utc(column, table, utc);
                    Declared::kind(wide)
                }
            }
            Kind::Text => own(stats.decide_text(self.habits)),
            Kind::Json | Kind::Nested => Declared::sql("JSON", ColumnKind::LongText),
            Kind::Bytes { length: None | Some(0) } => own(stats.decide_bytes(self.habits)),
            Kind::Bytes { length: Some(bytes) } if bytes <= BINARY_MAX => {
                Declared::sql(format!("BINARY({bytes})"), ColumnKind::Varbinary { bytes })
            }
            Kind::Bytes { length: Some(bytes) } if bytes <= VARBINARY_MAX => {
                Declared::kind(ColumnKind::Varbinary { bytes })
            }
            Kind::Bytes { .. } => own(stats.decide_bytes(self.habits)),
            Kind::Uuid if self.has_uuid => Declared::sql("UUID", ColumnKind::Varbinary { bytes: 16 }),
            Kind::Uuid => Declared::sql("CHAR(36)", ColumnKind::Varchar { chars: 36 }),
            Kind::Geometry => Declared::sql("GEOMETRY", ColumnKind::LongBlob),
        })
    }

    fn is_in_range(&self, file: usize, column: usize) -> bool {
        self.files.table(file).is_some_and(|table| table.is_in_timestamp_range(column))
    }

    fn tell_of_utc(&self, column: &Column, table: &Table, utc: bool) {
        if utc {
            self.progress.note(&format!(
                "{}: some times of the {} file are beyond the range of TIMESTAMP, so all are stored in UTC as DATETIME",
                column.name,
                table.format().name()
            ));
        }
    }
}

fn own(column_type: ColumnType) -> Declared {
    Declared { column_type, sql: None }
}

fn decimal(column: &Column, precision: u8, scale: i8) -> Result<Declared, Error> {
    let (digits, behind) = (i16::from(precision), i16::from(scale));
    // Zeros before the point belong to the number, and those behind it too.
    let digits = if behind < 0 { digits - behind } else { digits.max(behind) };
    let behind = behind.max(0);
    let name = &column.name;
    match (u8::try_from(digits), u8::try_from(behind)) {
        (Ok(precision), Ok(scale)) if digits <= DECIMAL_MAX.0 && behind <= DECIMAL_MAX.1 => {
            Ok(Declared::kind(ColumnKind::Decimal { precision, scale }))
        }
        _ => Err(Error::Mismatch(format!(
            "column {name} is DECIMAL({digits},{behind}), and no server has one with more than {} digits or more than {} \
             behind the point; --type '{name}=VARCHAR({})' keeps the numbers as text",
            DECIMAL_MAX.0,
            DECIMAL_MAX.1,
            digits + 3
        ))),
    }
}
