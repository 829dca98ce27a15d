//! Rewrites a definition for databases with other names.

use std::collections::{BTreeMap, BTreeSet};

use server::catalogue::Kind;
use server::definition::closing;
use server::quote_name;

use crate::manifest::Manifest;

/// Which parts of a text have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strings {
    /// Strings have names, too: a body may have a quote in a comment, so that it is not known where a string
    /// ends.
    HaveNames,
    /// Strings stay as they are, in a definition that the server has written itself.
    Stay,
}

/// Replaces the names of databases in a text. Names joined by dots are one chain. Of three names the first is
/// a database. Of two it is a database, unless they are a table, or an alias that has the name of a database,
/// and its column.
pub(crate) fn moved(
    text: &str,
    strings: Strings,
    schemas: &BTreeMap<String, String>,
    names: &BTreeSet<(String, String)>,
) -> String {
    let chains = chains(text, strings);
    // A name that stands alone, or after a database, may be a table or an alias.
    let tables: BTreeSet<&str> = chains
        .iter()
        .filter_map(|chain| if chain.names.len() == 1 { chain.names.first() } else { chain.names.get(1) })
        .map(|(_, name)| name.as_str())
        .collect();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for chain in &chains {
        let [(at, first), rest @ ..] = chain.names.as_slice() else { continue };
        let (Some(own), Some((_, second))) = (schemas.get(first), rest.first()) else { continue };
        let is_database = rest.len() > 1
            || !tables.contains(first.as_str())
            || names.contains(&(first.clone(), second.clone()));
        if is_database {
            out.push_str(&text[done..*at]);
            out.push_str(&quote_name(own));
            done = at + quote_name(first).len();
        }
    }
    out.push_str(&text[done..]);
    out
}

/// The names that may follow a database and a dot.
pub(crate) fn names(manifest: &Manifest) -> BTreeSet<(String, String)> {
    let tables = manifest.tables.iter().map(|entry| (&entry.table.name.schema, &entry.table.name.table));
    let objects =
        manifest.objects.iter().filter(|object| object.kind < Kind::Role && object.kind > Kind::Database);
    let objects = objects.map(|object| (&object.schema, &object.name));
    tables.chain(objects).map(|(schema, name)| (schema.clone(), name.clone())).collect()
}

/// Names in backquotes, joined by dots: the offset and the text of each.
struct NameChain {
    names: Vec<(usize, String)>,
}

fn chains(text: &str, strings: Strings) -> Vec<NameChain> {
    let mut found: Vec<NameChain> = Vec::new();
    let (mut at, mut joined) = (0, false);
    let begins = |char: char| char == '`' || char == '\'' && strings == Strings::Stay;
    while let Some(start) = text[at..].find(begins).map(|start| at + start) {
        if text[start..].starts_with('\'') {
            (at, joined) = (start + closing(&text[start..], '\''), false);
            continue;
        }
        let end = start + closing(&text[start..], '`');
        // A name without an end is not a name, and no database is called that.
        let name = text.get(start + 1..end.saturating_sub(1)).unwrap_or_default().replace("``", "`");
        match found.last_mut().filter(|_| joined && start == at) {
            Some(chain) => chain.names.push((start, name)),
            None => found.push(NameChain { names: vec![(start, name)] }),
        }
        joined = text[end..].starts_with('.');
        at = end + usize::from(joined);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_be_called_like_its_database() {
        let schemas =
            BTreeMap::from([("shop".to_owned(), "T0".to_owned()), ("b`".to_owned(), "T1".to_owned())]);
        let names =
            BTreeSet::from([("shop", "shop"), ("shop", "v"), ("shop", "f"), ("shop", "o"), ("b`", "t")])
                .into_iter()
                .map(|(schema, name)| (schema.to_owned(), name.to_owned()))
                .collect();
        for (text, expected) in [
            (
                "VIEW `shop`.`v` AS select `shop`.`shop`.`id` AS `id` from `shop`.`shop`",
                "VIEW `T0`.`v` AS select `T0`.`shop`.`id` AS `id` from `T0`.`shop`",
            ),
            (
                "select `shop`.`id` AS `id`,`shop`.`f`(1) from `shop`.`shop`",
                "select `shop`.`id` AS `id`,`T0`.`f`(1) from `T0`.`shop`",
            ),
            ("select `shop`.`x` from `b```.`t` `shop`", "select `shop`.`x` from `T1`.`t` `shop`"),
            ("select 1 from `shop`.`left_out`", "select 1 from `T0`.`left_out`"),
            ("CREATE TABLE `t` (`a` int) -- no `", "CREATE TABLE `t` (`a` int) -- no `"),
            ("from (`shop`.`o` join `other`.`o`)", "from (`T0`.`o` join `other`.`o`)"),
        ] {
            for strings in [Strings::HaveNames, Strings::Stay] {
                assert_eq!(moved(text, strings, &schemas, &names), expected);
            }
        }
        let text = "`a` text COMMENT 'it''s `shop`.`o`', FOREIGN KEY (`a`) REFERENCES `shop`.`o` (`a`)";
        assert_eq!(
            moved(text, Strings::Stay, &schemas, &names),
            "`a` text COMMENT 'it''s `shop`.`o`', FOREIGN KEY (`a`) REFERENCES `T0`.`o` (`a`)"
        );
    }
}
