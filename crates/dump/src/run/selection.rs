//! Which databases and tables.

mod pattern;

use server::catalogue::{Catalogue, Wanted};

use crate::Error;

pub use pattern::Pattern;

/// What is to be dumped, loaded or compared.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Databases and tables; empty for all.
    pub include: Vec<Pattern>,
    /// Those to leave out of these.
    pub exclude: Vec<Pattern>,
    /// Leave roles, users and grants out.
    pub no_accounts: bool,
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
    /// A pattern that stands for nothing is a mistake.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_included_and_not_excluded_is_wanted() {
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
    fn expressions_include_and_exclude() {
        let selection = Selection {
            include: vec![r"/^shop\d*\./".parse().unwrap(), "web".parse().unwrap()],
            exclude: vec![r"/_(old|tmp)$/".parse().unwrap(), "/^web\\./".parse().unwrap()],
            no_accounts: false,
        };
        assert!(selection.table("shop12", "orders") && !selection.table("shopping", "orders"));
        assert!(!selection.table("shop1", "orders_old") && !selection.table("web", "hits"));
        assert!(selection.programs("shop12") && !selection.programs("web") && !selection.programs("other"));
        // Any database may have a table that an expression stands for.
        assert!(selection.schema("other"));
        assert_eq!(selection.include[0].to_string(), r"/^shop\d*\./");
    }
}
