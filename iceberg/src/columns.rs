//! Columns: the types of Iceberg for those of a file, and what becomes of a table whose columns have changed.
//!
//! A column keeps its number as long as its name is the same. The files have names and no numbers, so each
//! table has a mapping from one to the other, which also knows columns of earlier dumps.
//! <https://iceberg.apache.org/spec/#schema-evolution>, <https://iceberg.apache.org/spec/#column-projection>.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, bail};
use iceberg::spec::{
    ListType, MappedField, NameMapping, NestedField, NestedFieldRef, PrimitiveType, Schema, TableMetadata,
    Type,
};
use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::schema::types::Type as Field;

/// The element of a list, for Iceberg and for Parquet.
const ELEMENT: &str = "element";

/// A column of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Numbers of nested fields are 0 in it.
    pub(crate) kind: Type,
}

/// What becomes of a table's columns.
pub(crate) struct Evolved {
    pub(crate) schema: Schema,
    /// A line for each column that is another than before.
    pub(crate) changes: Vec<String>,
}

/// The columns of a file.
pub(crate) fn of_file(root: &Field) -> Result<Vec<Column>> {
    let column = |field: &Arc<Field>| Ok(Column { name: field.name().to_owned(), kind: kind(field)? });
    root.get_fields().iter().map(column).collect()
}

fn kind(field: &Field) -> Result<Type> {
    if field.is_group() {
        return list(field);
    }
    let info = field.get_basic_info();
    let kind = match (info.logical_type_ref(), field.get_physical_type()) {
        (Some(LogicalType::Decimal(decimal)), _) => {
            let digits = |number: i32| u32::try_from(number);
            PrimitiveType::Decimal { precision: digits(decimal.precision)?, scale: digits(decimal.scale)? }
        }
        (Some(LogicalType::Date), Physical::INT32) => PrimitiveType::Date,
        (Some(LogicalType::Timestamp(timestamp)), Physical::INT64) if timestamp.unit == TimeUnit::MICROS => {
            if timestamp.is_adjusted_to_u_t_c {
                PrimitiveType::Timestamptz
            } else {
                PrimitiveType::Timestamp
            }
        }
        (Some(LogicalType::String), Physical::BYTE_ARRAY) => PrimitiveType::String,
        (None, Physical::BOOLEAN) => PrimitiveType::Boolean,
        (None, Physical::INT32) => PrimitiveType::Int,
        (None, Physical::INT64) => PrimitiveType::Long,
        (None, Physical::FLOAT) => PrimitiveType::Float,
        (None, Physical::DOUBLE) => PrimitiveType::Double,
        (None, Physical::BYTE_ARRAY) => PrimitiveType::Binary,
        (logical, physical) => bail!("column {}: no type for {physical} as {logical:?}", field.name()),
    };
    Ok(kind.into())
}

fn list(field: &Field) -> Result<Type> {
    let [inner] = field.get_fields() else { bail!("column {}: it is nested", field.name()) };
    let nested = if inner.is_group() { inner.get_fields() } else { &[] };
    let [element] = nested else {
        bail!("column {}: it is nested, and no list", field.name());
    };
    if element.is_group() || element.name() != ELEMENT {
        bail!("column {}: it is a list of more than values", field.name());
    }
    Ok(list_of(0, kind(element)?, !element.is_optional()))
}

fn list_of(id: i32, kind: Type, is_required: bool) -> Type {
    Type::List(ListType { element_field: NestedField::list_element(id, kind, is_required).into() })
}

/// The columns of a table that does not exist yet, numbered from 1; elements of lists come last.
pub(crate) fn schema(columns: &[Column]) -> Result<Schema> {
    let mut numbers = 1..;
    let mut next = || numbers.next().unwrap_or_default();
    let ids: Vec<i32> = columns.iter().map(|_| next()).collect();
    let fields = columns.iter().zip(ids).map(|(column, id)| field(id, column, &mut next));
    Ok(Schema::builder().with_fields(fields).build()?)
}

fn field(id: i32, column: &Column, next: &mut impl FnMut() -> i32) -> NestedFieldRef {
    let kind = match &column.kind {
        Type::List(list) => {
            list_of(next(), (*list.element_field.field_type).clone(), list.element_field.required)
        }
        other => other.clone(),
    };
    NestedField::optional(id, &column.name, kind).into()
}

/// What becomes of the columns of a table when it gets files with these. The error says why that is not
/// possible.
pub(crate) fn evolve(table: &TableMetadata, columns: &[Column]) -> Result<Evolved> {
    let known = known(table);
    let current = table.current_schema();
    let mut last = table.last_column_id();
    let mut next = || {
        last += 1;
        last
    };
    let (mut changes, mut taken, mut fields) = (Vec::new(), BTreeSet::new(), Vec::new());
    for column in columns {
        let before = known.get(column.name.as_str()).filter(|field| taken.insert(field.id));
        let Some(before) = before else {
            changes.push(format!("column {} is new: {}", column.name, column.kind));
            fields.push(field(next(), column, &mut next));
            continue;
        };
        let kind = unified(&before.field_type, &column.kind);
        let Some(kind) = kind else {
            bail!(
                "column {} is {} in the dump and was {}, and Iceberg has no way from one to the other; drop the \
                 table, or take another warehouse",
                column.name,
                column.kind,
                before.field_type
            );
        };
        if current.field_by_id(before.id).is_none() {
            changes.push(format!("column {} is back: {kind}", column.name));
        } else if kind != *before.field_type {
            changes.push(format!("column {} was {} and is {kind}", column.name, before.field_type));
        }
        fields.push(NestedField::optional(before.id, &column.name, kind).into());
    }
    let dropped = current.as_struct().fields().iter().filter(|field| !taken.contains(&field.id));
    changes.extend(dropped.map(|field| format!("column {} is gone", field.name)));
    Ok(Evolved { schema: Schema::builder().with_fields(fields).build()?, changes })
}

/// The fields that the names of columns stand for, now or in earlier states of the table.
fn known(table: &TableMetadata) -> BTreeMap<&str, &NestedFieldRef> {
    let mut schemas: Vec<_> = table.schemas_iter().collect();
    schemas.sort_by_key(|schema| (schema.schema_id() == table.current_schema_id(), schema.schema_id()));
    let fields = schemas.into_iter().flat_map(|schema| schema.as_struct().fields());
    fields.map(|field| (field.name.as_str(), field)).collect()
}

/// The type that has the values of both, if files of both can be read as that.
fn unified(before: &Type, now: &Type) -> Option<Type> {
    use PrimitiveType::{Decimal, Double, Float, Int, Long};
    let (before, now) = match (before, now) {
        (Type::Primitive(before), Type::Primitive(now)) => (before, now),
        (Type::List(was), Type::List(is)) => {
            let is_same = was.element_field.field_type == is.element_field.field_type;
            return is_same.then(|| before.clone());
        }
        _ => return None,
    };
    let kind = match (before, now) {
        (before, now) if before == now => before.clone(),
        (Int, Long) | (Long, Int) => Long,
        (Float, Double) | (Double, Float) => Double,
        (Decimal { precision: before, scale: one }, Decimal { precision: now, scale: other })
            if one == other =>
        {
            Decimal { precision: *before.max(now), scale: *one }
        }
        _ => return None,
    };
    Some(kind.into())
}

/// The numbers for the names in files, as the property `schema.name-mapping.default` has it.
pub(crate) fn mapping(table: &TableMetadata) -> Result<String> {
    let mapped = |(name, field): (&str, &NestedFieldRef)| {
        let nested = match &*field.field_type {
            Type::List(list) => {
                vec![MappedField::new(Some(list.element_field.id), vec![ELEMENT.to_owned()], Vec::new())]
            }
            _ => Vec::new(),
        };
        MappedField::new(Some(field.id), vec![name.to_owned()], nested)
    };
    // A number has one entry, also if a column was renamed by somebody else.
    let mut fields: BTreeMap<i32, MappedField> = BTreeMap::new();
    for (name, field) in known(table) {
        let new = mapped((name, field));
        let entry = match fields.remove(&field.id) {
            Some(other) => {
                let names = [other.names(), new.names()].concat();
                let nested = other.fields().iter().map(|field| (**field).clone()).collect();
                MappedField::new(other.field_id(), names, nested)
            }
            None => new,
        };
        fields.insert(field.id, entry);
    }
    Ok(serde_json::to_string(&NameMapping::new(fields.into_values().collect()))?)
}
