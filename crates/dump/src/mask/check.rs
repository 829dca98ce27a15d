//! Which masks a server's tables allow: what is masked must be storable, unique where a key says so, and
//! equal on both sides of a foreign key.

use std::collections::BTreeMap;

use server::catalogue::{Catalogue, Table};
use server::{Session, TableName, quote_name};

use super::{DOMAIN, Mask, Masked, MaskedColumn, Masks, bits};
use crate::Error;

/// Two masked values that differ by fewer bits collide in a large table.
const UNIQUE_BITS: u64 = 64;
/// So much of a column has that many of them.
const HASH_CHARS_MIN: u64 = UNIQUE_BITS / 4;
const HASH_BYTES_MIN: u64 = UNIQUE_BITS / 8;
const EMAIL_CHARS_MIN: u64 = 1 + HASH_CHARS_MIN + DOMAIN.len() as u64;

/// Masked columns of each table that has any.
type Found<'a> = BTreeMap<&'a TableName, (&'a Table, Masked)>;

/// Refuses masks that match no column, and those that a table does not allow.
///
/// # Errors
/// [`Error::Mismatch`] with the mask and the reason; errors of the server.
pub(crate) fn check(session: &mut Session, catalogue: &Catalogue, masks: &Masks) -> Result<(), Error> {
    let tables = || catalogue.tables.iter();
    for rule in &masks.rules {
        let names = |table: &&Table| rule.covers(table) && table.columns.iter().any(|one| rule.names(one));
        if !tables().any(|table| names(&table)) {
            return Err(Error::Mismatch(format!(
                "--mask {}: none of the tables that are read has such a column",
                rule.text
            )));
        }
    }
    let mut found = Found::new();
    for table in tables() {
        let masked = masks.of(table)?;
        if !masked.is_empty() {
            found.insert(&table.name, (table, masked));
        }
    }
    if masks.has_key() && session.value("SELECT SHA2('', 256)")?.is_none() {
        return Err(Error::Mismatch(
            "this server was built without SHA2(), of which masks are made; --mask ...=null needs none"
                .to_owned(),
        ));
    }
    for (table, masked) in found.values() {
        nullable(session, table, masked)?;
        check_constraints(table, masked)?;
        unique(session, table, masked)?;
    }
    if found.is_empty() { Ok(()) } else { foreign_keys(session, &found) }
}

fn refused(mask: Mask, table: &TableName, column: &str, why: &str) -> Error {
    Error::Mismatch(format!("--mask {table}.{}={mask}: {why}", quote_name(column)))
}

/// The condition for the rows of information_schema about a table.
fn of_table(session: &Session, name: &TableName) -> String {
    format!("TABLE_SCHEMA = {} AND TABLE_NAME = {}", session.quote(&name.schema), session.quote(&name.table))
}

fn nullable(session: &mut Session, table: &Table, masked: &Masked) -> Result<(), Error> {
    if masked.values().all(|one| one.mask != Mask::Null) {
        return Ok(());
    }
    let of = of_table(session, &table.name);
    let rows = session.strings(&format!(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE {of} AND IS_NULLABLE = 'NO'"
    ))?;
    for column in rows.into_iter().flatten().flatten() {
        if masked.get(&column).is_some_and(|one| one.mask == Mask::Null) {
            return Err(refused(Mask::Null, &table.name, &column, "the column is NOT NULL"));
        }
    }
    Ok(())
}

/// A load into MariaDB does not ask constraints, so nobody would find what does not meet them.
fn check_constraints(table: &Table, masked: &Masked) -> Result<(), Error> {
    for (column, MaskedColumn { mask, .. }) in masked.iter().filter(|(_, one)| one.mask != Mask::Null) {
        let name = quote_name(column);
        let conditions = table.definition.lines().filter_map(|line| Some(line.split_once("CHECK (")?.1));
        if let Some(condition) = conditions.into_iter().find(|condition| condition.contains(&name)) {
            let condition = condition.trim_end_matches([',', ')']);
            let why = format!("masked values may not meet CHECK ({condition}); null can be stored");
            return Err(refused(*mask, &table.name, column, &why));
        }
    }
    Ok(())
}

fn unique(session: &mut Session, table: &Table, masked: &Masked) -> Result<(), Error> {
    let of = of_table(session, &table.name);
    let rows = session.strings(&format!(
        "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS \
         WHERE {of} AND NON_UNIQUE = 0 AND COLUMN_NAME IS NOT NULL"
    ))?;
    for row in rows {
        let [Some(key), Some(name), prefix] = row.as_slice() else { continue };
        let (Some(MaskedColumn { mask, .. }), Some(column)) =
            (masked.get(name), table.columns.iter().find(|column| column.name == *name))
        else {
            continue;
        };
        let prefix = prefix.as_ref().and_then(|chars| chars.parse().ok()).unwrap_or(u64::MAX);
        // Any number of rows may have NULL in a unique key.
        if *mask != Mask::Null && bits(column, *mask, prefix) < UNIQUE_BITS {
            let why = format!(
                "values could collide in unique key {key}: hash needs {HASH_CHARS_MIN} characters or {HASH_BYTES_MIN} bytes there, \
                 fake:email {EMAIL_CHARS_MIN} characters"
            );
            return Err(refused(*mask, &table.name, name, &why));
        }
    }
    Ok(())
}

/// A column of a foreign key and the one it refers to are masked by the same hash, or not at all; a column
/// that refers to another may become NULL.
fn foreign_keys(session: &mut Session, found: &Found<'_>) -> Result<(), Error> {
    let rows = session.strings(
        "SELECT K.CONSTRAINT_NAME, K.TABLE_SCHEMA, K.TABLE_NAME, K.COLUMN_NAME, K.REFERENCED_TABLE_SCHEMA, \
         K.REFERENCED_TABLE_NAME, K.REFERENCED_COLUMN_NAME, C.COLLATION_NAME \
         FROM information_schema.KEY_COLUMN_USAGE K JOIN information_schema.COLUMNS C \
         ON C.TABLE_SCHEMA = K.TABLE_SCHEMA AND C.TABLE_NAME = K.TABLE_NAME AND C.COLUMN_NAME = K.COLUMN_NAME \
         WHERE K.REFERENCED_TABLE_NAME IS NOT NULL",
    )?;
    for row in rows {
        let [
            Some(key),
            Some(schema),
            Some(table),
            Some(column),
            Some(to_schema),
            Some(to),
            Some(to_column),
            collation,
        ] = row.as_slice()
        else {
            continue;
        };
        let child = TableName { schema: schema.clone(), table: table.clone() };
        let parent = TableName { schema: to_schema.clone(), table: to.clone() };
        let side = |name: &TableName, column: &str| {
            let (table, masked) = found.get(name)?;
            let own = table.columns.iter().find(|one| one.name == column)?;
            Some((masked.get(column)?.mask, own))
        };
        let name = |mask, table: &TableName, column: &str, why: &str| {
            Err(refused(mask, table, column, &format!("foreign key {key} of {child}: {why}")))
        };
        match (side(&child, column), side(&parent, to_column)) {
            (None, None) | (Some((Mask::Null, _)), _) => {}
            (Some((mask, _)), None) => {
                return name(
                    mask,
                    &child,
                    column,
                    &format!("{parent}.{to_column} is not masked by the same"),
                );
            }
            (None, Some((mask, _))) => {
                return name(
                    mask,
                    &parent,
                    to_column,
                    &format!("{child}.{column} is not masked by the same"),
                );
            }
            (Some((mask, one)), Some((other, to))) => {
                let same = (&one.column_type, &one.character_set) == (&to.column_type, &to.character_set);
                if mask != other || !same {
                    let why = format!("{parent}.{to_column} has another mask or another type");
                    return name(mask, &child, column, &why);
                }
                // Texts that a collation takes for equal have different hashes.
                let is_exact = collation.as_ref().is_none_or(|collation| collation.ends_with("_bin"));
                if !is_exact {
                    let why = "its collation treats different texts as equal, and a hash does not";
                    return name(mask, &child, column, why);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use server::catalogue::{Column, Origin};

    use super::*;

    #[test]
    fn what_a_refusal_asks_for_is_enough_and_no_more() {
        let column = |column_type: String| Column {
            name: "c".to_owned(),
            data_type: column_type.split('(').next().unwrap().to_owned(),
            column_type,
            character_set: None,
            origin: Origin::Stored,
        };
        for (kind, mask, least) in [
            ("varchar", Mask::Hash, HASH_CHARS_MIN),
            ("binary", Mask::Hash, HASH_BYTES_MIN),
            ("varbinary", Mask::Hash, HASH_BYTES_MIN),
            ("char", Mask::Email, EMAIL_CHARS_MIN),
        ] {
            let bits = |length: u64| bits(&column(format!("{kind}({length})")), mask, u64::MAX);
            assert!(bits(least) >= UNIQUE_BITS && bits(least - 1) < UNIQUE_BITS, "{kind} {mask}");
        }
    }
}
