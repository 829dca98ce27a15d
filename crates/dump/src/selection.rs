//! Selects databases and tables.

mod columns;
mod pattern;

use serde::{Deserialize, Serialize};
use server::TableName;
use server::catalogue::{Catalogue, Wanted};

use crate::Error;

pub use columns::ColumnNames;
pub use pattern::Pattern;

/// What to dump, load or compare.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Selection {
    /// Databases and tables; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<Pattern>,
    /// Databases and tables to leave out of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Pattern>,
    /// Leave roles, users and grants out.
    #[serde(default)]
    pub no_accounts: bool,
}

/// What both selections include.
pub(crate) struct InBoth<'a>(pub(crate) &'a Selection, pub(crate) &'a Selection);

impl Wanted for InBoth<'_> {
    fn schema(&self, schema: &str) -> bool {
        self.0.schema(schema) && self.1.schema(schema)
    }

    fn table(&self, schema: &str, table: &str) -> bool {
        self.0.table(schema, table) && self.1.table(schema, table)
    }

    fn programs(&self, schema: &str) -> bool {
        self.0.programs(schema) && self.1.programs(schema)
    }

    fn accounts(&self) -> bool {
        self.0.accounts() && self.1.accounts()
    }
}

impl Wanted for Selection {
    fn schema(&self, schema: &str) -> bool {
        let included =
            self.include.is_empty() || self.include.iter().any(|pattern| pattern.may_touch(schema));
        included && !self.exclude.iter().any(|pattern| pattern.is_all_of(schema))
    }

    fn table(&self, schema: &str, table: &str) -> bool {
        let included =
            self.include.is_empty() || self.include.iter().any(|pattern| pattern.covers(schema, table));
        included && !self.exclude.iter().any(|pattern| pattern.covers(schema, table))
    }

    fn programs(&self, schema: &str) -> bool {
        let included =
            self.include.is_empty() || self.include.iter().any(|pattern| pattern.covers_database(schema));
        included && !self.exclude.iter().any(|pattern| pattern.covers_database(schema))
    }

    fn accounts(&self) -> bool {
        self.include.is_empty() && !self.no_accounts
    }
}

impl Selection {
    /// The same for a server that has all names in lower case.
    pub(crate) fn folded(&self) -> Selection {
        let fold = |patterns: &[Pattern]| patterns.iter().map(Pattern::folded).collect();
        Selection {
            include: fold(&self.include),
            exclude: fold(&self.exclude),
            no_accounts: self.no_accounts,
        }
    }

    /// Refuses a pattern that matches nothing, because it is a mistake.
    pub(crate) fn check(&self, catalogue: &Catalogue) -> Result<(), Error> {
        for pattern in &self.include {
            let tables = || catalogue.tables.iter().map(|table| (&table.name.schema, &table.name.table));
            let objects = || catalogue.objects.iter().map(|object| (&object.schema, &object.name));
            let found = objects().any(|(schema, _)| pattern.covers_database(schema))
                || tables().chain(objects()).any(|(schema, name)| pattern.covers(schema, name));
            if !found {
                return Err(Error::Mismatch(format!("{pattern}: there is no such database or table")));
            }
        }
        Ok(())
    }
}

/// SQL conditions for the rows to dump.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// For every table without its own condition.
    pub all: Option<String>,
    /// For the tables that a pattern matches; the first match counts.
    pub tables: Vec<(Pattern, String)>,
}

impl Conditions {
    /// Whether there are none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_none() && self.tables.is_empty()
    }

    /// The condition for a table's rows.
    #[must_use]
    pub fn of(&self, table: &TableName) -> Option<&str> {
        let own = self.tables.iter().find(|(pattern, _)| pattern.covers(&table.schema, &table.table));
        own.map(|(_, sql)| sql.as_str()).or(self.all.as_deref())
    }

    /// The first pattern that matches no table.
    pub(crate) fn unused(&self, catalogue: &Catalogue) -> Option<&Pattern> {
        let patterns = self.tables.iter().map(|(pattern, _)| pattern);
        let names = || catalogue.tables.iter().map(|table| &table.name);
        patterns.into_iter().find(|pattern| !names().any(|name| pattern.covers(&name.schema, &name.table)))
    }

    /// Adds a condition as it is written on the command line: `SQL`, or `db.table:SQL`.
    ///
    /// # Errors
    /// When it is a second condition for all tables.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        if let Some((pattern, sql)) = own(text) {
            self.tables.push((pattern, sql.trim().to_owned()));
        } else if let Some(all) = self.all.replace(text.to_owned()) {
            return Err(format!(
                "{all:?} and {text:?} are both for every table; join them by AND, or write db.table:SQL"
            ));
        }
        Ok(())
    }
}

/// The name and the condition in `db.table:SQL`. No SQL begins like that.
fn own(text: &str) -> Option<(Pattern, &str)> {
    let (mut quoted, mut dot) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'`' => quoted = !quoted,
            _ if quoted => {}
            b':' => return text[..at].parse().ok().filter(|_| dot).map(|pattern| (pattern, &text[at + 1..])),
            b'.' => dot = true,
            b'*' | b'?' | b'_' | b'$' | b'-' | 0x80.. => {}
            other if other.is_ascii_alphanumeric() => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_tables_that_are_not_excluded_are_selected() {
        let selection = Selection {
            include: vec!["shop".parse().unwrap(), "web.hit*".parse().unwrap()],
            exclude: vec!["*.tmp_*".parse().unwrap(), "`a.b`".parse().unwrap()],
            no_accounts: false,
        };
        assert!(selection.table("shop", "orders") && selection.table("web", "hits"));
        assert!(!selection.table("shop", "tmp_1") && !selection.table("web", "pages"));
        assert!(selection.schema("web") && !selection.schema("other"));
        assert!(selection.programs("shop") && !selection.programs("web") && !selection.accounts());
    }

    #[test]
    fn a_condition_is_for_all_tables_or_for_some() {
        let mut conditions = Conditions::default();
        for text in ["shop.orders:day > '2026-01-01 10:00'", "`a:b`.t*: id = 1", "name = 'a.b:c'"] {
            conditions.add(text).unwrap();
        }
        let of = |schema: &str, table: &str| {
            conditions.of(&TableName { schema: schema.into(), table: table.into() }).unwrap().to_owned()
        };
        assert_eq!(of("shop", "orders"), "day > '2026-01-01 10:00'");
        assert_eq!(of("a:b", "tmp"), "id = 1");
        assert_eq!(of("shop", "items"), "name = 'a.b:c'");
        assert!(conditions.clone().add("id=1").unwrap_err().contains("join them"));
        assert!(own("id:x").is_none() && own("t.id=1").is_none() && own("`a.b`:x").is_none());
    }

    #[test]
    fn expressions_include_and_exclude() {
        let selection = Selection {
            include: vec![r"/^shop\d*\./".parse().unwrap(), "web".parse().unwrap()],
            exclude: vec![r"/_(old|tmp)$/".parse().unwrap(), "/^web\\./".parse().unwrap()],
            no_accounts: false,
        };
        assert!(selection.table("shop12", "orders") && !selection.table("shopping", "orders"));
        assert!(!selection.table("shop1", "orders_old") && !selection.table("web", "hits"));
        assert!(selection.programs("shop12") && !selection.programs("web") && !selection.programs("other"));
        // Any database may have a table that an expression matches.
        assert!(selection.schema("other"));
        assert_eq!(selection.include[0].to_string(), r"/^shop\d*\./");
    }
}
