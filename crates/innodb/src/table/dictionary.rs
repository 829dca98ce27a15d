//! A table's definition in MySQL's data dictionary, from the JSON of its SDI.
//!
//! Facts: `sql/dd/impl/types` of MySQL's source says what is in the JSON; `storage/innobase/dict/dict0dd.cc`
//! what InnoDB adds to it. What is not listed here is not read.

mod column;
mod create;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{
    Column, Field, Generated, Index, Key, KeyKind, Length, Part, Partition, RowFormat, Stored, StoredField,
    StoredTree, Table,
};
use crate::Error;

/// Visibility of a column: InnoDB's own, and that of an expression in a key.
const HIDDEN_BY_ENGINE: u8 = 2;
const HIDDEN_BY_SERVER: u8 = 3;
/// The order of a descending key part.
const DESCENDING: u8 = 3;
/// The column that a FULLTEXT key adds.
const DOC_ID: &str = "FTS_DOC_ID";
/// The bit of a column's place that says that the upper 16 bits are the place of its prefix in the key.
const PREFIXED: usize = 0x8000;
/// Stands for the whole column in InnoDB's own parts of an index.
const WHOLE: u32 = u32::MAX;

/// A table's definition.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Definition {
    dd_object: Object,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct Object {
    name: String,
    schema_ref: String,
    engine: String,
    #[serde(default)]
    se_private_data: Pairs,
    #[serde(default)]
    row_format: u8,
    columns: Vec<DictColumn>,
    indexes: Vec<DictIndex>,
    #[serde(default)]
    partitions: Vec<DictPartition>,
    // For the text alone.
    collation_id: u16,
    #[serde(default)]
    comment: String,
    #[serde(default)]
    options: Pairs,
    #[serde(default)]
    tablespace_ref: String,
    #[serde(default)]
    foreign_keys: Vec<ForeignKey>,
    #[serde(default)]
    check_constraints: Vec<Check>,
    #[serde(default)]
    partition_type: u8,
    #[serde(default)]
    partition_expression: String,
    #[serde(default)]
    default_partitioning: u8,
    #[serde(default)]
    subpartition_type: u8,
    #[serde(default)]
    subpartition_expression: String,
    #[serde(default)]
    default_subpartitioning: u8,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct Check {
    name: String,
    state: u8,
    check_clause: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct ForeignKey {
    name: String,
    update_rule: u8,
    delete_rule: u8,
    referenced_table_schema_name: String,
    referenced_table_name: String,
    elements: Vec<ForeignPart>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct ForeignPart {
    column_opx: usize,
    referenced_column_name: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct DictColumn {
    name: String,
    #[serde(rename = "type")]
    kind: u8,
    is_nullable: bool,
    is_zerofill: bool,
    is_unsigned: bool,
    is_auto_increment: bool,
    is_virtual: bool,
    hidden: u8,
    char_length: u32,
    numeric_precision: u32,
    numeric_scale: u32,
    numeric_scale_null: bool,
    #[serde(default)]
    generation_expression: String,
    #[serde(default)]
    options: Pairs,
    #[serde(default)]
    se_private_data: Pairs,
    #[serde(default)]
    elements: Vec<Element>,
    collation_id: u16,
    // For the text alone.
    #[serde(default)]
    column_type_utf8: String,
    #[serde(default)]
    is_explicit_collation: bool,
    #[serde(default)]
    has_no_default: bool,
    #[serde(default)]
    default_value_utf8_null: bool,
    #[serde(default)]
    default_value_utf8: String,
    #[serde(default)]
    default_option: String,
    #[serde(default)]
    update_option: String,
    #[serde(default)]
    comment: String,
    #[serde(default)]
    srs_id_null: bool,
    #[serde(default)]
    srs_id: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct Element {
    name: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct DictIndex {
    name: String,
    hidden: bool,
    #[serde(rename = "type")]
    kind: u8,
    #[serde(default)]
    se_private_data: Pairs,
    elements: Vec<DictPart>,
    // For the text alone.
    #[serde(default)]
    comment: String,
    #[serde(default)]
    options: Pairs,
    #[serde(default)]
    algorithm: u8,
    #[serde(default)]
    is_algorithm_explicit: bool,
    is_visible: bool,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct DictPart {
    length: u32,
    order: u8,
    hidden: bool,
    column_opx: usize,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct DictPartition {
    name: String,
    #[serde(default)]
    se_private_data: Pairs,
    #[serde(default)]
    indexes: Vec<PartitionIndex>,
    #[serde(default)]
    subpartitions: Vec<DictPartition>,
    // For the text alone.
    #[serde(default)]
    description_utf8: String,
    #[serde(default)]
    comment: String,
    #[serde(default)]
    options: Pairs,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct PartitionIndex {
    index_opx: usize,
    #[serde(default)]
    se_private_data: Pairs,
}

/// `name=value;name=value;`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
struct Pairs(String);

impl Pairs {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.split(';').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

impl Definition {
    /// Reads the JSON of a table.
    ///
    /// # Errors
    /// [`Error::Corrupt`]
    pub fn parse(json: &[u8]) -> Result<Definition, Error> {
        serde_json::from_slice(json).map_err(|error| corrupt(format!("its SDI is no definition: {error}")))
    }

    /// The name of its database.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.dd_object.schema_ref
    }

    /// The name of the table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.dd_object.name
    }

    /// The table.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] for a table whose files this crate does not read.
    pub fn table(&self) -> Result<Table, Error> {
        let object = &self.dd_object;
        if object.engine != "InnoDB" {
            return Err(Error::unsupported(format!("the table's engine is {}, not InnoDB", object.engine)));
        }
        let row_format = match object.row_format {
            2 => RowFormat::Dynamic,
            5 => RowFormat::Compact,
            3 => super::sql::row_format("COMPRESSED")?,
            4 => super::sql::row_format("REDUNDANT")?,
            other => return Err(corrupt(format!("it has the row format {other}, which there is not"))),
        };
        let columns = object.columns.iter().map(DictColumn::column).collect::<Result<Vec<_>, _>>()?;
        // A key of an expression has a hidden column, and finds no row by a column.
        let keys = object.indexes.iter().filter(|index| !index.hidden).map(|index| index.key(&columns));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let partitions = object.partitions.iter().map(DictPartition::partition).collect();
        let clustered = self.clustered(&columns)?;
        let stored = Stored { fields: self.fields(&columns, &clustered)?, trees: self.trees()? };
        Ok(Table { columns, keys, row_format, partitions, indexes: vec![clustered], stored: Some(stored) })
    }

    /// The clustered index, which is the first one.
    fn clustered(&self, columns: &[Column]) -> Result<Index, Error> {
        let index = self.dd_object.indexes.first().ok_or_else(|| corrupt("it has no index"))?;
        let mut fields = Vec::new();
        let mut key_fields = None;
        for part in &index.elements {
            let (own, column) = self.column_of(columns, part.column_opx)?;
            if own.name == "DB_TRX_ID" && own.hidden == HIDDEN_BY_ENGINE {
                key_fields = Some(fields.len());
            }
            let mut field = own.field(part.column_opx, column);
            if part.length < WHOLE && !part.hidden {
                field.prefix = prefix(&column.kind, part.length);
                if let (Length::Fixed(bytes), Some(prefix)) = (field.length, field.prefix) {
                    field.length = Length::Fixed(u16::try_from(prefix).unwrap_or(u16::MAX).min(bytes));
                }
                field.descending = part.order == DESCENDING;
            }
            fields.push(field);
        }
        // The index does not mention it.
        let is_doc_id = |own: &&DictColumn| own.name == DOC_ID && own.hidden == HIDDEN_BY_ENGINE;
        for (at, (own, column)) in
            self.dd_object.columns.iter().zip(columns).enumerate().filter(|(_, (own, _))| is_doc_id(own))
        {
            fields.push(own.field(at, column));
        }
        let key_fields =
            key_fields.filter(|count| *count > 0).ok_or_else(|| corrupt("its first index has no key"))?;
        let name = if index.hidden { "GEN_CLUST_INDEX".to_owned() } else { index.name.clone() };
        Ok(Index { name, fields, key_fields, unique_fields: key_fields, spatial: false })
    }

    fn column_of<'a>(
        &'a self,
        columns: &'a [Column],
        at: usize,
    ) -> Result<(&'a DictColumn, &'a Column), Error> {
        let found = self.dd_object.columns.get(at).zip(columns.get(at));
        found.ok_or_else(|| corrupt("an index has a column that there is not"))
    }

    /// The fields of a record. Without instant changes they have the order of the index.
    fn fields(&self, columns: &[Column], clustered: &Index) -> Result<Vec<StoredField>, Error> {
        let own = &self.dd_object.columns;
        let parts = self.dd_object.indexes[0].elements.iter().map(|part| part.column_opx);
        // FTS_DOC_ID is the only field that is not a part of the index.
        let more = clustered.fields.iter().skip(parts.len()).filter_map(|field| field.column);
        let mut fields = Vec::new();
        for (at, field) in parts.chain(more).zip(&clustered.fields) {
            let column = self.column_of(columns, at)?.0;
            fields.push((column.place(field.prefix.is_some()), column.stored(*field)?));
        }
        for (column, described) in own.iter().zip(columns) {
            if column.se_private_data.get("version_dropped").is_some() {
                let field = Field { column: None, ..column.field(0, described) };
                fields.push((column.place(false), column.stored(field)?));
            }
        }
        if fields.iter().any(|(place, _)| place.is_some()) {
            return ordered(fields);
        }
        Ok(fields.into_iter().map(|(_, field)| field).collect())
    }

    /// The roots of the clustered index in the table's tablespaces.
    fn trees(&self) -> Result<BTreeMap<u32, StoredTree>, Error> {
        let object = &self.dd_object;
        let tree = |index: &Pairs, table: &Pairs| {
            let place = index.number("space_id").zip(index.number("root"));
            let (space, root) = place.ok_or_else(|| corrupt("it does not say where its first index is"))?;
            Ok((space, StoredTree { root, instant_columns: table.number("instant_col") }))
        };
        let leaves =
            object.partitions.iter().flat_map(|partition| match partition.subpartitions.as_slice() {
                [] => std::slice::from_ref(partition),
                subpartitions => subpartitions,
            });
        let mut trees = BTreeMap::new();
        for partition in leaves {
            let index = partition.indexes.iter().find(|index| index.index_opx == 0);
            let index = index.ok_or_else(|| corrupt("a partition has no index"))?;
            let (space, tree) = tree(&index.se_private_data, &partition.se_private_data)?;
            if trees.insert(space, tree).is_some() {
                return Err(Error::unsupported("several of its partitions are in one general tablespace"));
            }
        }
        if let (true, Some(index)) = (trees.is_empty(), object.indexes.first()) {
            trees.extend([tree(&index.se_private_data, &object.se_private_data)?]);
        }
        Ok(trees)
    }
}

/// Fields by their places in a record, which are all numbers from 0.
fn ordered(fields: Vec<(Option<usize>, StoredField)>) -> Result<Vec<StoredField>, Error> {
    let fault = || corrupt("the places of its columns contradict each other");
    let mut places: Vec<Option<StoredField>> = vec![None; fields.len()];
    for (place, field) in fields {
        match place.and_then(|place| places.get_mut(place)) {
            Some(slot @ None) => *slot = Some(field),
            _ => return Err(fault()),
        }
    }
    places.into_iter().collect::<Option<Vec<_>>>().ok_or_else(fault)
}

impl DictIndex {
    fn key(&self, columns: &[Column]) -> Result<Key, Error> {
        let kind = match self.kind {
            1 => KeyKind::Primary,
            2 => KeyKind::Unique,
            3 => KeyKind::Plain,
            4 => KeyKind::Fulltext,
            5 => KeyKind::Spatial,
            other => return Err(corrupt(format!("it has a key of type {other}, which there is not"))),
        };
        let mut parts = Vec::new();
        for part in self.elements.iter().filter(|part| !part.hidden) {
            let column = columns
                .get(part.column_opx)
                .ok_or_else(|| corrupt("a key has a column that there is not"))?;
            let prefix = prefix(&column.kind, part.length);
            parts.push(Part { column: part.column_opx, prefix, descending: part.order == DESCENDING });
        }
        Ok(Key { name: self.name.clone(), kind, parts })
    }
}

/// The length of a key's part, if it is not the whole column.
fn prefix(kind: &super::Type, bytes: u32) -> Option<u32> {
    use super::Type;
    match kind {
        Type::Char { chars, collation } | Type::Varchar { chars, collation, .. } => {
            (bytes < u32::from(*chars) * u32::from(collation.charset().max)).then_some(bytes)
        }
        Type::Blob { .. } | Type::Geometry(_) => Some(bytes),
        _ => None,
    }
}

impl DictPartition {
    fn partition(&self) -> Partition {
        let subpartitions = self.subpartitions.iter().map(|part| part.name.clone()).collect();
        Partition { name: self.name.clone(), subpartitions }
    }
}

impl DictColumn {
    /// Its place in a record, if the table had instant changes. If a key has its beginning, that has a place
    /// too.
    fn place(&self, is_prefix: bool) -> Option<usize> {
        let place: usize = self.se_private_data.number("physical_pos")?;
        Some(if is_prefix { place >> 16 } else { place & (PREFIXED - 1) })
    }

    fn column(&self) -> Result<Column, Error> {
        let generated = match (self.is_virtual, self.generation_expression.is_empty()) {
            (true, _) => Generated::Virtual,
            (false, false) => Generated::Stored,
            (false, true) => Generated::No,
        };
        Ok(Column {
            name: self.name.clone(),
            kind: self.kind()?,
            nullable: self.is_nullable,
            generated,
            hidden: [HIDDEN_BY_ENGINE, HIDDEN_BY_SERVER].contains(&self.hidden),
            auto_increment: self.is_auto_increment,
        })
    }

    /// Its whole field in the clustered index. InnoDB's own columns are none of the table's.
    fn field(&self, at: usize, column: &Column) -> Field {
        let own = match (self.hidden, self.name.as_str()) {
            (HIDDEN_BY_ENGINE, "DB_ROW_ID" | "DB_TRX_ID") => Some(6),
            (HIDDEN_BY_ENGINE, "DB_ROLL_PTR") => Some(7),
            _ => None,
        };
        Field {
            column: own.is_none().then_some(at),
            nullable: self.is_nullable,
            length: own.map_or_else(|| column.kind.length(), Length::Fixed),
            prefix: None,
            descending: false,
        }
    }

    fn stored(&self, field: Field) -> Result<StoredField, Error> {
        let data = &self.se_private_data;
        let default =
            data.get("default").map(|hex| bytes_of_hex(hex).ok_or_else(|| self.wrong("its default")));
        Ok(StoredField {
            field,
            added: data.number("version_added").unwrap_or(0),
            dropped: data.number("version_dropped"),
            default: default.transpose()?,
        })
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Corrupt {
            what: format!("{what} is invalid"),
            place: format!("column `{}` of the SDI", self.name),
        }
    }
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

/// Base64, in lines.
fn bytes_of_base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(digits).ok()
}

fn corrupt(what: impl Into<String>) -> Error {
    Error::Corrupt { what: what.into(), place: "SDI".to_owned() }
}
