//! Databases that get another name on the target.

use std::collections::BTreeMap;

use server::catalogue::{Catalogue, Kind};
use server::definition::closing;
use server::{TableName, quote_name};

use crate::Error;
use crate::load::schema_names::{Strings, moved, names};
use crate::load::{LoadSummary, retitled_database};
use crate::manifest::Manifest;

/// Databases with other names on the target than on the source; none by default.
#[derive(Clone, Debug, Default)]
pub struct Renames(BTreeMap<String, String>);

impl Renames {
    /// Renames as they are written on the command line: `old:new`, in backquotes where a name has a colon.
    ///
    /// # Errors
    /// What is wrong with a text.
    pub fn new(texts: &[String]) -> Result<Renames, String> {
        let mut renames = BTreeMap::new();
        for text in texts {
            let pair = name(text).and_then(|(old, rest)| Some((old, name(rest.strip_prefix(':')?)?)));
            let Some((old, (new, ""))) = pair else {
                return Err(format!("{text:?} is not OLD:NEW, two names of databases"));
            };
            if let Some(other) = renames.insert(old.clone(), new.clone()).filter(|other| *other != new) {
                return Err(format!("database {old} can't be both {other} and {new}"));
            }
        }
        Ok(Renames(renames))
    }

    /// The names on the way back. Two databases never become one.
    #[must_use]
    pub fn reversed(&self) -> Renames {
        Renames(self.0.iter().map(|(old, new)| (new.clone(), old.clone())).collect())
    }

    /// The name of something on the target.
    pub(super) fn of(&self, name: &TableName) -> TableName {
        let schema = self.0.get(&name.schema).unwrap_or(&name.schema).clone();
        TableName { schema, table: name.table.clone() }
    }

    /// Whether no name changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each of these databases gets another name.
    pub(super) fn cover(&self, catalogue: &Catalogue) -> bool {
        let tables = catalogue.tables.iter().map(|table| &table.name.schema);
        let mut schemas = tables.chain(catalogue.objects.iter().map(|object| &object.schema));
        !self.is_empty() && schemas.all(|schema| self.0.get(schema).is_some_and(|new| new != schema))
    }

    /// Gives databases other names, with all that is in them. Definitions of tables and views are written by
    /// the server, so that each name in them is known. Bodies are as somebody wrote them: those with the old
    /// name in them are left out.
    pub(super) fn apply(&self, manifest: &mut Manifest, summary: &mut LoadSummary) -> Result<(), Error> {
        self.check(manifest)?;
        let names = names(manifest);
        let moved = |text: &str| moved(text, Strings::Stay, &self.0, &names);
        for entry in &mut manifest.tables {
            entry.table.definition = moved(&entry.table.definition);
            if let Some(new) = self.0.get(&entry.table.name.schema) {
                entry.table.name.schema.clone_from(new);
            }
        }
        for mut object in std::mem::take(&mut manifest.objects) {
            let own = self.0.get(&object.schema).cloned();
            match object.kind {
                Kind::Database => {
                    if let Some(new) = &own {
                        let old = quote_name(&object.name);
                        summary
                            .rewrites
                            .push(format!("database {old}: its name becomes {}", quote_name(new)));
                        object = retitled_database(object, new);
                    }
                }
                Kind::View | Kind::Sequence => {
                    object.statements.iter_mut().for_each(|text| *text = moved(text));
                }
                _ => {
                    let texts = || object.statements.iter();
                    let named = self.0.keys().find(|old| texts().any(|text| mentions(text, old)));
                    if let Some(old) = named {
                        summary.omitted.push(format!(
                            "{}: its text has the name of database {}, which --rename can't change there",
                            object.title(),
                            quote_name(old)
                        ));
                        continue;
                    }
                }
            }
            object.schema = own.unwrap_or(object.schema);
            manifest.objects.push(object);
        }
        Ok(())
    }

    fn check(&self, manifest: &Manifest) -> Result<(), Error> {
        let schemas = || {
            let tables = manifest.tables.iter().map(|entry| &entry.table.name.schema);
            tables.chain(manifest.objects.iter().map(|object| &object.schema))
        };
        for (old, new) in &self.0 {
            let shown = format!("--rename {old}:{new}");
            if !schemas().any(|schema| schema == old) {
                return Err(Error::Mismatch(format!("{shown}: no such database is copied")));
            }
            let is_taken = |schema: &String| self.0.get(schema).unwrap_or(schema) == new && schema != old;
            if schemas().any(is_taken) {
                return Err(Error::Mismatch(format!("{shown}: another database would have that name")));
            }
        }
        Ok(())
    }
}

/// A name at the beginning of a text, and the rest.
fn name(text: &str) -> Option<(String, &str)> {
    let (name, rest) = if text.starts_with('`') {
        let (quoted, rest) = text.split_at(closing(text, '`'));
        (quoted.strip_prefix('`')?.strip_suffix('`')?.replace("``", "`"), rest)
    } else {
        let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        (name.to_owned(), rest)
    };
    (!name.is_empty()).then_some((name, rest))
}

/// Whether a text has a name in it as a word, in any case of its letters.
fn mentions(text: &str, name: &str) -> bool {
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    let is_part = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || "_$".contains(char));
    text.match_indices(&name).any(|(at, found)| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + found.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_are_joined_by_a_colon() {
        let new = |text: &str| Renames::new(&[text.to_owned()]);
        for (text, old, other) in [("shop:test", "shop", "test"), ("`a:b`:`c``d`", "a:b", "c`d")] {
            assert_eq!(new(text).unwrap().0, BTreeMap::from([(old.to_owned(), other.to_owned())]));
        }
        for text in ["shop", "shop:", ":test", "a:b:c", "`a:b", "`a`b:c", ""] {
            assert!(new(text).unwrap_err().contains("is not OLD:NEW"), "{text}");
        }
        let twice = ["a:b", "a:c"].map(str::to_owned);
        assert!(Renames::new(&twice).unwrap_err().contains("both b and c"));
    }

    #[test]
    fn a_name_is_found_as_a_word_only() {
        for text in ["UPDATE Shop.t SET a = 1", "`shop`.`t`", "call shop . p()", "shop"] {
            assert!(mentions(text, "shop"), "{text}");
        }
        for text in ["shop_2.t", "workshop", "$shop", "SELECT 1"] {
            assert!(!mentions(text, "shop"), "{text}");
        }
    }
}
