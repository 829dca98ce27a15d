//! A table as a server's catalogue describes it.

use innodb::table::{Generated, Key, KeyKind, Table, Type, sql};
use server::catalogue::{self, Origin};
use server::{TableName, quote_name};

use crate::{Error, TableFiles};

impl TableFiles {
    /// The table as a server's catalogue describes it, with the definition in `statements`, which must be the
    /// output of SHOW CREATE TABLE: it is compared word by word with the table that is created from it. A
    /// `.frm` file is not enough, because it has no foreign keys.
    ///
    /// # Errors
    /// [`Error::Missing`] for a definition in another format; [`Error::Bytes`] when there is none.
    pub fn described(&self, table: &Table, statements: &str) -> Result<catalogue::Table, Error> {
        let definition = sql::find(statements, Some(&self.schema), &self.name)?;
        let other = |what: &str| {
            Error::Missing(format!(
                "its CREATE TABLE is not as SHOW CREATE TABLE prints it, which a dump needs: {what}"
            ))
        };
        let head = format!("CREATE TABLE {} (\n", quote_name(&self.name));
        let body = definition.strip_prefix(&head).ok_or_else(|| other("it does not begin like that"))?;
        let mut columns = Vec::new();
        for column in table.columns().iter().filter(|column| !column.hidden) {
            let start = format!("  {} ", quote_name(&column.name));
            let kind = body.lines().find_map(|line| type_of(line.strip_prefix(&start)?));
            let Some((data_type, column_type)) = kind else {
                return Err(other(&format!("column {}", quote_name(&column.name))));
            };
            columns.push(catalogue::Column {
                name: column.name.clone(),
                data_type,
                column_type,
                character_set: character_set(&column.kind).map(ToOwned::to_owned),
                origin: origin(column.generated, &column.kind),
            });
        }
        let versioned = table.columns().iter().any(|column| column.generated == Generated::RowEnd);
        // The end of a row's validity is a part of each of its keys.
        let key = table.keys().iter().find(|key| !versioned && is_exact(table, key));
        let names =
            |key: &Key| key.parts.iter().map(|part| table.columns()[part.column].name.clone()).collect();
        let partition = |name: &str| catalogue::Partition { name: name.to_owned(), rows: 0, bytes: 0 };
        Ok(catalogue::Table {
            name: TableName { schema: self.schema.clone(), table: self.name.clone() },
            engine: "InnoDB".to_owned(),
            definition: definition.to_owned(),
            created: String::new(),
            rows: 0,
            bytes: 0,
            columns,
            key: key.map(names).unwrap_or_default(),
            key_name: key.map(|key| key.name.clone()).unwrap_or_default(),
            partitions: table.partitions().iter().map(|part| partition(&part.name)).collect(),
            versioned,
        })
    }
}

/// Whether a file of the table has its rows in the ascending order of this key.
#[must_use]
pub fn is_ordered_by(table: &Table, key: &[String]) -> bool {
    let index = table.clustered();
    let mut fields = index.fields.iter().take(index.key_fields);
    let is_next = |name: &String| {
        let field = fields.next().filter(|field| field.prefix.is_none() && !field.descending);
        let column = field.and_then(|field| table.columns().get(field.column?));
        column.is_some_and(|column| column.name == *name)
    };
    !key.is_empty() && key.iter().all(is_next)
}

/// Whether a key finds each row, by whole values.
fn is_exact(table: &Table, key: &Key) -> bool {
    matches!(key.kind, KeyKind::Primary | KeyKind::Unique)
        && key.parts.iter().all(|part| {
            let column = table.columns().get(part.column);
            part.prefix.is_none() && column.is_some_and(|column| !column.nullable && !column.hidden)
        })
}

/// The first word of a type, and all of it: `varchar` and `varchar(10)`.
fn type_of(text: &str) -> Option<(String, String)> {
    let word = text.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit()).unwrap_or(text.len());
    let mut end = word;
    if text.get(word..)?.starts_with('(') {
        let mut quoted = false;
        // A quote in a name is doubled, so each closes what it opens.
        let close = text.get(word..)?.find(|c| {
            quoted ^= c == '\'';
            c == ')' && !quoted
        })?;
        end = word + close + 1;
    }
    for more in [" unsigned", " zerofill"] {
        if text.get(end..)?.starts_with(more) {
            end += more.len();
        }
    }
    (word > 0).then(|| (text[..word].to_owned(), text[..end].to_owned()))
}

fn character_set(kind: &Type) -> Option<&'static str> {
    let collation = match kind {
        Type::Char { collation, .. } | Type::Varchar { collation, .. } | Type::Blob { collation, .. } => {
            *collation
        }
        Type::Enum(members) | Type::Set(members) => members.collation(),
        _ => return None,
    };
    Some(collation.charset().name).filter(|name| *name != "binary")
}

fn origin(generated: Generated, kind: &Type) -> Origin {
    match generated {
        Generated::No => Origin::Stored,
        Generated::Virtual | Generated::Stored => Origin::Generated,
        Generated::RowStart | Generated::RowEnd if matches!(kind, Type::Int { .. }) => Origin::RowTransaction,
        Generated::RowStart | Generated::RowEnd => Origin::RowTime,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_ascending_columns_are_an_order() {
        let ordered = |key: &str, names: &[&str]| {
            let text = format!(
                "CREATE TABLE t (a INT NOT NULL, b VARCHAR(50) NOT NULL, c INT, PRIMARY KEY ({key})) CHARSET=latin1"
            );
            let table = sql::parse(&text, innodb::table::Version(110_800)).unwrap();
            is_ordered_by(&table, &names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert!(ordered("a", &["a"]) && ordered("b, a", &["b", "a"]) && ordered("b, a", &["b"]));
        assert!(!ordered("a DESC", &["a"]) && !ordered("b(10), a", &["b", "a"]) && !ordered("b, a", &["a"]));
        assert!(!ordered("a", &[]) && !ordered("a", &["a", "b"]));
    }

    #[test]
    fn a_type_ends_where_the_next_clause_begins() {
        for (text, word, all) in [
            ("int(11) NOT NULL,", "int", "int(11)"),
            ("bigint(20) unsigned zerofill DEFAULT 1", "bigint", "bigint(20) unsigned zerofill"),
            ("enum('a)','it''s','') CHARACTER SET latin1,", "enum", "enum('a)','it''s','')"),
            ("inet6 DEFAULT NULL", "inet6", "inet6"),
            ("text", "text", "text"),
            ("double(12,3) DEFAULT NULL", "double", "double(12,3)"),
        ] {
            assert_eq!(type_of(text), Some((word.to_owned(), all.to_owned())), "{text}");
        }
        assert_eq!(type_of("INT NOT NULL"), None);
    }
}
