//! A column of a table, as it is described to the writer and the reader.

use std::collections::BTreeSet;
use std::sync::Arc;

use innodb::table::collation::Collation;
use innodb::table::{FloatFormat, Type as SqlType};
use parquet::schema::types::Type;

use crate::Error;
use crate::kind::Kind;
use crate::number::{Number, Store};

/// The type of a column that has no values of its own.
const NOTHING: &str = "nothing";

/// A column, as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type without parameters: `varchar`.
    pub data_type: String,
    /// Its type with everything: `varchar(20)`, `int(10) unsigned zerofill`.
    pub column_type: String,
    /// The character set of its text; `None` if it has none.
    pub character_set: Option<String>,
    /// Whether members of an ENUM or SET are numbers in lines.
    pub is_numbered: bool,
    /// Whether all rows of a file have one value, which the name of its folder has instead of the file.
    pub is_in_path: bool,
}

impl Column {
    /// What a line has that has no columns: one value, which is NULL.
    pub(crate) fn nothing() -> Column {
        Column {
            name: NOTHING.to_owned(),
            data_type: NOTHING.to_owned(),
            column_type: String::new(),
            character_set: None,
            is_numbered: false,
            is_in_path: false,
        }
    }

    /// How its values are stored.
    pub(crate) fn kind(&self) -> Kind {
        if self.is_in_path { Kind::InPath } else { self.value_kind() }
    }

    /// How its values would be stored in a file.
    pub(crate) fn value_kind(&self) -> Kind {
        let is_unsigned = self.column_type.contains("unsigned") || self.is_zerofill();
        let integer = |store| Kind::Number(Number { store, decimals: None, scale: 0, pad: self.pad() });
        match self.data_type.as_str() {
            NOTHING | "tinyint" | "smallint" | "mediumint" => integer(Store::Int32),
            "int" if !is_unsigned => integer(Store::Int32),
            "int" => integer(Store::Int64),
            "bigint" if !is_unsigned => integer(Store::Int64),
            "bigint" => Kind::Number(Number::decimal(20, 0, self.pad())),
            "year" => Kind::Number(Number { store: Store::Int32, decimals: None, scale: 0, pad: 4 }),
            "decimal" => self.decimal(),
            "float" | "double" => self.float(),
            "bit" => match self.parameters().first().copied().unwrap_or(1) {
                1 => Kind::Bool,
                bits => Kind::Bits(bits.clamp(1, 64)),
            },
            "date" => Kind::Date,
            "datetime" | "timestamp" => Kind::Datetime {
                fraction: self.parameters().first().copied().unwrap_or(0).min(6),
                is_utc: self.data_type == "timestamp",
            },
            "enum" | "set" if self.is_numbered => integer(Store::Int64),
            "time" | "uuid" | "inet4" | "inet6" | "json" => Kind::utf8(),
            "vector" => Kind::Vector,
            name if is_geometry(name) => Kind::Geometry,
            _ => self.text(),
        }
    }

    /// Whether a look-up by a value can use a Bloom filter.
    #[must_use]
    pub fn can_have_bloom(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Number(_)
                | Kind::Bits(_)
                | Kind::Date
                | Kind::Datetime { .. }
                | Kind::Text { .. }
                | Kind::Bytes
        )
    }

    fn is_zerofill(&self) -> bool {
        self.column_type.contains("zerofill")
    }

    /// The digits that a number has at least, before its point.
    fn pad(&self) -> u8 {
        if self.is_zerofill() { self.parameters().first().copied().unwrap_or(1) } else { 1 }
    }

    /// The numbers in parentheses.
    fn parameters(&self) -> Vec<u8> {
        let inside = self.column_type.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let numbers = inside.map(|(inside, _)| inside.split(',').filter_map(|part| part.trim().parse().ok()));
        numbers.map(Iterator::collect).unwrap_or_default()
    }

    fn decimal(&self) -> Kind {
        let parameters = self.parameters();
        let precision = parameters.first().copied().unwrap_or(10);
        let scale = parameters.get(1).copied().unwrap_or(0);
        if precision > Number::DIGITS_MAX {
            return Kind::utf8();
        }
        let pad = if self.is_zerofill() { precision.saturating_sub(scale).max(1) } else { 1 };
        Kind::Number(Number::decimal(precision, scale, pad))
    }

    fn float(&self) -> Kind {
        let is_declared = self.column_type.contains('(');
        let zerofill = self.is_zerofill() && !is_declared;
        // A line has all digits, whatever the declared ones are.
        let format = FloatFormat { digits: None, unsigned: false, zerofill };
        // A FLOAT with digits is one too: docs/formats/dump.md.
        if self.data_type == "float" {
            Kind::Float(SqlType::Float(format))
        } else {
            Kind::Double(SqlType::Double(format))
        }
    }

    fn text(&self) -> Kind {
        match self.character_set.as_deref() {
            None | Some("binary") => Kind::Bytes,
            Some(name) => match Collation::of_charset(name) {
                Some(collation) => Kind::text_in(collation.charset()),
                None => Kind::Bytes,
            },
        }
    }
}

fn is_geometry(data_type: &str) -> bool {
    matches!(
        data_type,
        "geometry"
            | "point"
            | "linestring"
            | "polygon"
            | "multipoint"
            | "multilinestring"
            | "multipolygon"
            | "geometrycollection"
            | "geomcollection"
    )
}

/// The columns of a file, with the types of their values.
pub(crate) struct Columns {
    pub(crate) kinds: Vec<Kind>,
    /// The fields of the file; a geometry has two.
    pub(crate) schema: Arc<Type>,
    /// The names of those that are geometries, in the file.
    pub(crate) geometries: Vec<String>,
}

impl Columns {
    pub(crate) fn new(columns: &[Column]) -> Result<Columns, Error> {
        let nothing = [Column::nothing()];
        let columns = if columns.is_empty() { &nothing[..] } else { columns };
        let kinds: Vec<Kind> = columns.iter().map(Column::kind).collect();
        let mut fields = Vec::new();
        let mut geometries = Vec::new();
        // Some readers know no difference between letters in upper and lower case.
        let mut taken: BTreeSet<String> = columns.iter().map(|column| column.name.to_lowercase()).collect();
        for (column, kind) in columns.iter().zip(&kinds) {
            let mut srid = format!("{}__srid", column.name);
            if matches!(kind, Kind::Geometry) {
                while !taken.insert(srid.to_lowercase()) {
                    srid.push('_');
                }
            }
            fields.extend(kind.fields(&column.name, &srid)?.into_iter().map(Arc::new));
            if matches!(kind, Kind::Geometry) {
                geometries.push(column.name.clone());
            }
        }
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        Ok(Columns { kinds, schema: Arc::new(schema), geometries })
    }
}
