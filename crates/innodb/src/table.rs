//! A table as the storage engine sees it: columns, keys, and the fields of its indexes in storage order.

mod charset_decode;
mod charset_encode;
pub mod collation;
mod column;
pub mod dictionary;
pub mod frm;
mod index_fields;
pub mod sql;

pub use charset_encode::latin1;
pub use column::{Column, FloatFormat, Generated, GeometryKind, Members, Type};
pub use index_fields::decimal_bytes;

use std::collections::BTreeMap;

use crate::Error;

/// The root of the clustered index of a table of MariaDB with its own file.
pub const CLUSTERED_ROOT: u32 = 3;

/// The version of the server that wrote a definition, as in `.frm` files: 101119 for 10.11.19.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// Whether TIMESTAMP extends to 2106 and not only to 2038.
    pub(crate) fn has_wide_timestamps(self) -> bool {
        self >= Version(110_500)
    }

    /// Whether the parts of every UUID are swapped. In each series there is a patch release from which on
    /// UUIDs of version 6 and up, which are ordered anyway, are stored unchanged.
    pub(crate) fn swaps_all_uuids(self) -> bool {
        const FIRST: [u32; 6] = [100_908, 101_006, 101_105, 110_003, 110_102, 110_201];
        let same = FIRST.iter().find(|first| **first / 100 == self.0 / 100);
        self.0 < *same.unwrap_or(&FIRST[5])
    }
}

/// How records are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// The server's default when the table was created or rebuilt; DYNAMIC if nobody changed it.
    Default,
    /// DYNAMIC.
    Dynamic,
    /// COMPACT.
    Compact,
}

/// The purpose of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
    /// UNIQUE by a hash in a hidden virtual column, which is the key's only part.
    UniqueHash,
    /// Neither.
    Plain,
    /// FULLTEXT: it has tables of its own.
    Fulltext,
    /// SPATIAL.
    Spatial,
    /// VECTOR: it has a table of its own.
    Vector,
}

/// A part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The column, by its index in the table.
    pub column: usize,
    /// Bytes of the column in the key, if not all are.
    pub prefix: Option<u32>,
    /// Whether it is descending.
    pub descending: bool,
}

/// A key as it was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub kind: KeyKind,
    /// Its parts; in a system-versioned table including a row's end.
    pub parts: Vec<Part>,
}

/// A partition, or a subpartition, which has its own file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// The names of its subpartitions; empty if there are none.
    pub subpartitions: Vec<String>,
}

/// The length of a field in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Fixed.
    Fixed(u16),
    /// Given by the record.
    Variable {
        /// The most bytes of the column, even if only a prefix of it is stored.
        max: u32,
        /// Whether it is a BLOB or longer than 255 bytes: then lengths from 128 on take two bytes, and the
        /// value may be stored off-page.
        external: bool,
    },
}

/// A field of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The column, by its index in the table; `None` for DB_ROW_ID (6 bytes), DB_TRX_ID (6), DB_ROLL_PTR (7).
    pub column: Option<usize>,
    /// Whether it may be NULL, and so has a NULL bit.
    pub nullable: bool,
    /// Its length.
    pub length: Length,
    /// Bytes of the column that are stored, if not all are.
    pub prefix: Option<u32>,
    /// Whether the index is descending in it.
    pub descending: bool,
}

/// An index: a tree in the table's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The key's name; `GEN_CLUST_INDEX` for rows without a key.
    pub name: String,
    /// Fields in the order in which a leaf stores them.
    pub fields: Vec<Field>,
    /// How many fields, from the first, identify an entry in the tree: all of them in a secondary index. Node
    /// pointers have just these.
    pub key_fields: usize,
    /// How many fields, from the first, must differ between any two entries unless one is NULL. The same as
    /// `key_fields` if the index is not unique.
    pub unique_fields: usize,
    /// Whether it is an R-tree, whose first field is a rectangle.
    pub spatial: bool,
}

/// How the rows of a table of MySQL 8 and later are stored, which is part of its definition there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The fields of the clustered index, and of columns that were dropped, in the order of a record.
    pub(crate) fields: Vec<StoredField>,
    /// By the number of the tablespace.
    pub(crate) trees: BTreeMap<u32, StoredTree>,
}

/// A field, and the versions of the table that have it: each instant change made a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredField {
    pub(crate) field: Field,
    /// The version that it was added with; 0 if the table was created with it.
    pub(crate) added: u8,
    /// The version from which on it is not there.
    pub(crate) dropped: Option<u8>,
    /// The value that it has in older rows; none for NULL.
    pub(crate) default: Option<Vec<u8>>,
}

/// The clustered index of a table, or of one of its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredTree {
    pub(crate) root: u32,
    /// The number of columns that the table had before MySQL 8.0.12 to 8.0.28 added others instantly.
    pub(crate) instant_columns: Option<usize>,
}

impl Stored {
    /// Which fields a record has that was written for this version.
    pub(crate) fn fields_of(&self, version: u8) -> Vec<bool> {
        let is_there = |field: &StoredField| {
            field.added <= version && field.dropped.is_none_or(|dropped| dropped > version)
        };
        self.fields.iter().map(is_there).collect()
    }

    /// The number of fields of a record that says neither a version nor a number.
    pub(crate) fn core_fields(&self, space_id: u32) -> usize {
        let first = || self.fields.iter().filter(|field| field.added == 0);
        let all = first().count();
        let Some(before) = self.trees.get(&space_id).and_then(|tree| tree.instant_columns) else {
            return all;
        };
        // A key may have the beginning of a column, which is not counted again; system fields are not
        // counted.
        let is_column = |field: &&StoredField| {
            field.field.prefix.is_none() && (field.field.column.is_some() || field.dropped.is_some())
        };
        let added = first().filter(is_column).count().saturating_sub(before);
        all.saturating_sub(added)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    keys: Vec<Key>,
    row_format: RowFormat,
    partitions: Vec<Partition>,
    indexes: Vec<Index>,
    /// Only for a table of MySQL 8 and later.
    stored: Option<Stored>,
}

impl Table {
    /// A table with these columns and keys, including hidden columns. FTS_DOC_ID is added for a FULLTEXT key.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when keys and columns do not match.
    pub fn new(
        columns: Vec<Column>,
        keys: Vec<Key>,
        row_format: RowFormat,
        partitions: Vec<Partition>,
    ) -> Result<Table, Error> {
        let mut table = Table { columns, keys, row_format, partitions, indexes: Vec::new(), stored: None };
        let doc_id = index_fields::add_doc_id(&mut table.columns, &table.keys);
        table.indexes = index_fields::indexes(&table.columns, &table.keys, doc_id)?;
        Ok(table)
    }

    /// The root of the clustered index in this tablespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the tablespace is not one of the table's.
    pub fn root(&self, space_id: u32) -> Result<u32, Error> {
        let Some(stored) = &self.stored else { return Ok(CLUSTERED_ROOT) };
        let tree = stored.trees.get(&space_id).ok_or_else(|| {
            Error::unsupported(format!(
                "its definition does not know the tablespace {space_id}, which it is in"
            ))
        })?;
        Ok(tree.root)
    }

    /// The tablespaces that the table is in, by number; none if the definition does not say it.
    #[must_use]
    pub fn spaces(&self) -> Vec<u32> {
        self.stored.iter().flat_map(|stored| stored.trees.keys().copied()).collect()
    }

    /// How its rows are stored, if the definition says so.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        self.stored.as_ref()
    }

    /// Columns in the order of the definition, including virtual and hidden ones.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Keys as declared, in the server's order.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// How records are laid out.
    #[must_use]
    pub fn row_format(&self) -> RowFormat {
        self.row_format
    }

    /// Partitions, each with its own file; none for a table with just one file.
    #[must_use]
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The index that contains the rows.
    ///
    /// # Panics
    /// Never: each table has one.
    #[must_use]
    pub fn clustered(&self) -> &Index {
        &self.indexes[0]
    }

    /// All indexes that are trees in the table's file: the clustered one first, then the others in the order
    /// of keys. Of a table of MySQL 8 and later only the clustered one is known.
    #[must_use]
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Field, Length, Stored, StoredField, StoredTree};

    fn field(column: Option<usize>, prefix: Option<u32>, added: u8, dropped: Option<u8>) -> StoredField {
        let field = Field { column, nullable: false, length: Length::Fixed(4), prefix, descending: false };
        StoredField { field, added, dropped, default: None }
    }

    /// The beginning of a column as the key, what every row has, the columns, one of them dropped and one
    /// added.
    fn stored(instant_columns: Option<usize>) -> Stored {
        let fields = vec![
            field(Some(0), Some(2), 0, None),
            field(None, None, 0, None),
            field(None, None, 0, None),
            field(Some(0), None, 0, None),
            field(Some(1), None, 0, None),
            field(None, None, 0, Some(2)),
            field(Some(2), None, 1, None),
        ];
        let tree = StoredTree { root: 4, instant_columns };
        Stored { fields, trees: BTreeMap::from([(9, tree)]) }
    }

    #[test]
    fn a_version_has_what_was_added_by_then_and_not_yet_dropped() {
        let missing = [0, 1, 2, 3].map(|version| {
            let fields = stored(None).fields_of(version);
            (0..fields.len()).filter(|at| !fields[*at]).collect::<Vec<_>>()
        });
        assert_eq!(missing, [vec![6], vec![], vec![5], vec![5]]);
    }

    #[test]
    fn a_record_without_a_number_has_what_the_table_had_first() {
        assert_eq!(stored(None).core_fields(9), 6);
        // There were two columns, and a third was added without a version.
        for (before, fields) in [(2, 5), (3, 6), (1, 4), (7, 6)] {
            assert_eq!(stored(Some(before)).core_fields(9), fields, "{before}");
            assert_eq!(stored(Some(before)).core_fields(8), 6, "another tablespace");
        }
    }
}
