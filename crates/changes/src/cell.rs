//! The columns of a table in a log, and the values of a row.

use binlog::column::Type;
use binlog::event::table::{self, BINARY, Table};
use binlog::row::{Cell, Image, Value};
use innodb::table::collation::Collation;
use innodb::table::{FloatFormat, Type as SqlType};
use innodb::value::decode_as;
use transactions::HASH_COLUMN;

/// What helps if the log does not say what columns are.
const WAY_OUT: &str = "With SET GLOBAL binlog_row_metadata = FULL on the server it does from then on: begin there with --position. Or give \
     the table's CREATE TABLE with --schema";

/// A FLOAT or DOUBLE with all its digits.
const ALL_DIGITS: FloatFormat = FloatFormat { digits: None, unsigned: false, zerofill: false };

/// A column whose values are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Which of the table in the log.
    at: usize,
    pub(crate) name: String,
    pub(crate) kind: Type,
    is_unsigned: bool,
    /// The character set of a text; `None` for what is none.
    charset: Option<&'static str>,
    /// Whether members of ENUM and SET have names.
    has_members: bool,
}

/// The columns of a table, without those that only the server knows.
///
/// # Errors
/// What the log does not say of one.
pub(crate) fn columns(table: &Table) -> Result<Vec<Column>, String> {
    let mut columns = Vec::with_capacity(table.columns.len());
    for (at, described) in table.columns.iter().enumerate() {
        let lacks = |what: &str| {
            let (schema, name) = (&table.schema, &table.name);
            format!("{schema}.{name}: the log does not say {what} of column {}. {WAY_OUT}", at + 1)
        };
        let Some(name) = described.name.clone() else { return Err(lacks("the name")) };
        if name.starts_with(HASH_COLUMN) {
            continue;
        }
        if described.is_unsigned.is_none() && matches!(described.kind, Type::Int(_)) {
            return Err(lacks("the sign"));
        }
        let charset = match described.collation {
            _ if !has_charset(described) => None,
            Some(BINARY) => None,
            None => return Err(lacks("the character set")),
            Some(number) => {
                let known = u16::try_from(number).ok().and_then(Collation::of_number);
                Some(known.ok_or_else(|| lacks("a character set that this program knows"))?.charset().name)
            }
        };
        columns.push(Column {
            at,
            name,
            kind: described.kind,
            is_unsigned: described.is_unsigned == Some(true),
            charset,
            has_members: described.members.is_some(),
        });
    }
    Ok(columns)
}

/// Whether values of a column may be text.
fn has_charset(column: &table::Column) -> bool {
    use Type::{Blob, Char, Enum, PackedBlob, PackedVarchar, Set, Varchar};
    match column.kind {
        Char(_) | Varchar(_) | PackedVarchar(_) | Blob(_) | PackedBlob(_) => true,
        Enum(_) | Set(_) => column.members.is_some(),
        _ => false,
    }
}

impl Column {
    /// Whether its values are points in time, which the log has in UTC.
    pub(crate) fn is_timestamp(&self) -> bool {
        matches!(self.kind, Type::Timestamp(_) | Type::OldTimestamp)
    }

    /// Whether its values are bytes.
    pub(crate) fn is_binary(&self) -> bool {
        self.charset.is_none()
    }

    /// A text in the column's character set, if it is one.
    pub(crate) fn decoded(&self, bytes: &[u8]) -> Option<String> {
        let charset = Collation::of_charset(self.charset?)?.charset();
        charset.text(bytes).map(|text| text.to_string())
    }

    /// The column as the writer of Parquet knows it.
    pub(crate) fn for_parquet(&self) -> parquet_rows::Column {
        let fraction = |name: &str, decimals: u8| (name.to_owned(), format!("{name}({decimals})"));
        let plain = |name: &str| (name.to_owned(), name.to_owned());
        let (data_type, mut column_type) = match self.kind {
            Type::Int(1) => plain("tinyint"),
            Type::Int(2) => plain("smallint"),
            Type::Int(3) => plain("mediumint"),
            Type::Int(4) => plain("int"),
            Type::Int(_) => plain("bigint"),
            Type::Float => plain("float"),
            Type::Double => plain("double"),
            Type::Decimal(precision, scale) => {
                ("decimal".to_owned(), format!("decimal({precision},{scale})"))
            }
            Type::Bit(bits) => ("bit".to_owned(), format!("bit({bits})")),
            Type::Year => plain("year"),
            Type::Date => plain("date"),
            Type::Time(_) | Type::OldTime => plain("time"),
            Type::Datetime(decimals) => fraction("datetime", decimals),
            Type::OldDatetime => plain("datetime"),
            Type::Timestamp(decimals) => fraction("timestamp", decimals),
            Type::OldTimestamp => plain("timestamp"),
            Type::Enum(_) => plain("enum"),
            Type::Set(_) => plain("set"),
            Type::Geometry(_) => plain("geometry"),
            Type::Vector(_) => plain("vector"),
            Type::Json(_) => plain("json"),
            Type::Char(_)
            | Type::Varchar(_)
            | Type::PackedVarchar(_)
            | Type::Blob(_)
            | Type::PackedBlob(_)
            | Type::Null => plain(if self.charset.is_some() { "text" } else { "blob" }),
        };
        if self.is_unsigned {
            column_type.push_str(" unsigned");
        }
        parquet_rows::Column {
            name: self.name.clone(),
            data_type,
            column_type,
            character_set: self.charset.map(str::to_owned),
            is_numbered: matches!(self.kind, Type::Enum(_) | Type::Set(_)) && !self.has_members,
            is_in_path: false,
        }
    }

    /// The bytes of a value as a line of a dump has them, without escapes.
    ///
    /// # Errors
    /// Why it can't be written.
    pub(crate) fn text(&self, value: &Value<'_>) -> Result<Vec<u8>, &'static str> {
        let printed = |kind: &SqlType, stored: &[u8]| {
            let mut out = Vec::new();
            decode_as(kind, stored, &mut out).map(|()| out).map_err(|_| "it is no number")
        };
        Ok(match value {
            Value::Float(value) => printed(&SqlType::Float(ALL_DIGITS), &value.to_le_bytes())?,
            Value::Double(value) => printed(&SqlType::Double(ALL_DIGITS), &value.to_le_bytes())?,
            Value::Decimal(text) | Value::Time(text) => text.clone().into_bytes(),
            Value::Bit(value, bits) => {
                let len = usize::from(bits.div_ceil(8)).min(8);
                value.to_be_bytes()[8 - len..].to_vec()
            }
            Value::Enum(_, Some(name)) => name.to_vec(),
            Value::Set(_, Some(names)) => names.join(&b","[..]),
            Value::Bytes(bytes, _) => bytes.to_vec(),
            Value::Json(json) => json.to_string().into_bytes(),
            Value::JsonChanges(_) => return Err("only its changed parts were logged (PARTIAL_JSON)"),
            Value::Either(..) => return Err("the log does not say whether it is signed"),
            Value::Null => return Err("it is NULL"),
            Value::Int(_)
            | Value::Unsigned(_)
            | Value::Year(_)
            | Value::Enum(_, None)
            | Value::Set(_, None) => value.to_string().into_bytes(),
        })
    }
}

/// The values of a row, one for each of the columns.
///
/// # Errors
/// Why they can't be read.
pub(crate) fn values<'a>(columns: &[Column], image: &Image<'a>) -> Result<Vec<Value<'a>>, String> {
    let mut cells = image.cells();
    let mut values = Vec::with_capacity(columns.len());
    for column in columns {
        let cell: Option<Cell<'a>> =
            cells.find(|cell| cell.at >= column.at).filter(|cell| cell.at == column.at);
        let Some(cell) = cell else {
            return Err(format!(
                "the row was not logged whole: {} is missing (binlog_row_image of its session was not FULL)",
                column.name
            ));
        };
        values.push(cell.value().map_err(|error| error.to_string())?);
    }
    Ok(values)
}
