//! Selects the objects of a dump on a server, by name.

use std::collections::BTreeSet;

use server::catalogue::{Kind, Wanted};

use crate::manifest::Manifest;

/// Selects exactly what a dump contains, so that the server is asked about nothing else. Names are also
/// looked up in lower case on a server that ignores their case.
pub(crate) struct ManifestFilter {
    schemas: BTreeSet<String>,
    /// Tables, views and sequences, and tables that have triggers.
    tables: BTreeSet<(String, String)>,
    /// Databases, routines and events; a database alone has an empty name.
    programs: BTreeSet<(String, String)>,
    accounts: bool,
    folds: bool,
}

impl ManifestFilter {
    pub(crate) fn new(manifest: &Manifest, folds: bool) -> ManifestFilter {
        let mut named = ManifestFilter {
            schemas: BTreeSet::new(),
            tables: BTreeSet::new(),
            programs: BTreeSet::new(),
            accounts: false,
            folds,
        };
        let fold = |name: &str| fold(name, folds);
        for entry in &manifest.tables {
            let name = &entry.table.name;
            named.tables.insert((fold(&name.schema), fold(&name.table)));
        }
        for object in &manifest.objects {
            let (schema, name) = (fold(&object.schema), fold(&object.name));
            match object.kind {
                Kind::Role | Kind::User | Kind::Grant => named.accounts = true,
                Kind::Database => {
                    named.programs.insert((name, String::new()));
                }
                Kind::Table | Kind::View | Kind::Sequence => {
                    named.tables.insert((schema, name));
                }
                Kind::Trigger => {
                    named.tables.insert((schema, fold(object.table.as_deref().unwrap_or_default())));
                }
                // The case of their names does not count anywhere.
                _ => {
                    named.programs.insert((schema, object.name.to_lowercase()));
                }
            }
        }
        named.schemas =
            named.tables.iter().chain(&named.programs).map(|(schema, _)| schema.clone()).collect();
        named
    }
}

/// A name as a server stores it, depending on whether it ignores case.
pub(crate) fn fold(name: &str, folds: bool) -> String {
    if folds { name.to_lowercase() } else { name.to_owned() }
}

impl Wanted for ManifestFilter {
    fn schema(&self, schema: &str) -> bool {
        self.schemas.contains(&fold(schema, self.folds))
    }

    fn table(&self, schema: &str, table: &str) -> bool {
        self.tables.contains(&(fold(schema, self.folds), fold(table, self.folds)))
    }

    fn programs(&self, schema: &str) -> bool {
        let schema = fold(schema, self.folds);
        self.programs
            .range((schema.clone(), String::new())..)
            .next()
            .is_some_and(|(first, _)| *first == schema)
    }

    fn program(&self, schema: &str, name: &str) -> bool {
        self.programs.contains(&(fold(schema, self.folds), name.to_lowercase()))
    }

    fn accounts(&self) -> bool {
        self.accounts
    }
}
