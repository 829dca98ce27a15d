//! Proves that everything of the dump is on the server and unchanged.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use server::catalogue::{Catalogue, Kind, Object};
use server::definition::{counter, database_defaults, folded, sorted};
use server::{Session, TableName, snapshot};

use super::Load;
use crate::Error;
use crate::manifest_filter::{ManifestFilter, fold};

impl Load<'_> {
    /// Checks that every object of the dump is on the server, and, when both servers are of one release, is
    /// exactly the same.
    pub(super) fn verify_objects(&self) -> Result<(), Error> {
        let mut session = snapshot::connect(self.target)?;
        let folded = fold_of(&session);
        let filter = ManifestFilter::new(&self.manifest, folded.folds);
        let there = Catalogue::definitions(&mut session, &filter)?;
        let exact = session.about.release() == self.manifest.source.release();
        let objects: BTreeMap<_, _> = there.objects.iter().map(|found| (folded.key(found), found)).collect();
        let mut differences = Vec::new();
        for object in &self.manifest.objects {
            if self.is_for_others(&mut session, object, &there)? {
                continue;
            }
            let title = object.title();
            match objects.get(&folded.key(object)) {
                None => differences.push(format!("{title} is missing")),
                Some(found) if !folded.same(object, found, exact) => {
                    differences.push(format!("{title} differs"));
                }
                Some(_) => {}
            }
        }
        let tables: BTreeMap<_, _> =
            there.tables.iter().map(|found| (folded.table(&found.name), found)).collect();
        for entry in &self.manifest.tables {
            let (name, wanted) = (&entry.table.name, &entry.table.definition);
            let Some(found) = tables.get(&folded.table(name)) else {
                differences.push(format!("table {name} is missing"));
                continue;
            };
            if exact && sorted(&folded.text(&found.definition)) != sorted(&folded.text(wanted)) {
                differences.push(format!("the definition of table {name} differs"));
            }
            // A higher counter gives no number twice; rows that were inserted during the dump may have moved
            // it.
            let (found, wanted) = (counter(&found.definition).unwrap_or(1), counter(wanted).unwrap_or(1));
            if found < wanted {
                differences
                    .push(format!("the AUTO_INCREMENT of table {name} is {found} instead of {wanted}"));
            }
        }
        if differences.is_empty() {
            Ok(())
        } else {
            Err(Error::Different { tables: self.manifest.tables.len(), differences })
        }
    }

    /// Whether this load does not answer for an object: it was left out and listed, or it existed before and
    /// stays as it is, or this account may not see it.
    fn is_for_others(
        &self,
        session: &mut Session,
        object: &Object,
        there: &Catalogue,
    ) -> Result<bool, Error> {
        let title = object.title();
        if self.summary.omitted.iter().any(|line| line.starts_with(&format!("{title}: "))) {
            return Ok(true);
        }
        if object.kind < Kind::Role {
            return Ok(false);
        }
        let unseen = there.omitted.iter().any(|line| line.starts_with("roles and users: "));
        Ok(unseen || !self.is_made(session, &object.name)?)
    }
}

/// How names and definitions are compared: as they are, or without the case of names, if one of the servers
/// does not keep it.
#[derive(Clone, Copy)]
pub(crate) struct NameFolding {
    pub(crate) folds: bool,
}

/// How a target compares names with those of a source.
pub(crate) fn fold_of(session: &Session) -> NameFolding {
    NameFolding { folds: session.about.lower_case_table_names != 0 }
}

impl NameFolding {
    /// By which an object is found.
    pub(crate) fn key(self, object: &Object) -> (Kind, String, String) {
        // Names of accounts always keep their case.
        let folds = self.folds && object.kind < Kind::Role;
        (object.kind, fold(&object.schema, folds), fold(&object.name, folds))
    }

    /// By which a table is found.
    pub(crate) fn table(self, name: &TableName) -> (String, String) {
        (fold(&name.schema, self.folds), fold(&name.table, self.folds))
    }

    /// A definition, to be compared.
    pub(crate) fn text(self, definition: &str) -> Cow<'_, str> {
        if self.folds { Cow::Owned(folded(definition)) } else { Cow::Borrowed(definition) }
    }

    /// As [`same`].
    pub(crate) fn same(self, one: &Object, other: &Object, exact: bool) -> bool {
        let fold = |object: &Object| {
            let statements = object.statements.iter().map(|text| folded(text)).collect();
            Object { statements, ..object.clone() }
        };
        same(one, other, exact) || (self.folds && same(&fold(one), &fold(other), exact))
    }
}

/// Whether two objects of one name are the same, as far as servers of the same release, or of different ones,
/// show it.
pub(crate) fn same(one: &Object, other: &Object, exact: bool) -> bool {
    match one.kind {
        Kind::Database if !exact => same_defaults(one, other),
        Kind::Grant if exact => {
            one.statements.iter().collect::<BTreeSet<_>>() == other.statements.iter().collect::<BTreeSet<_>>()
        }
        // A sequence's position changes all the time.
        Kind::Sequence if exact => one.statements.first() == other.statements.first(),
        _ => !exact || (&one.statements, &one.settings) == (&other.statements, &other.settings),
    }
}

/// Whether two databases give new tables the same character set and collation, as far as both state them.
fn same_defaults(one: &Object, other: &Object) -> bool {
    let of = |object: &Object| database_defaults(object.statements.first().map_or("", String::as_str));
    let ((set, collation), (other_set, other_collation)) = (of(one), of(other));
    set == other_set && (collation.is_none() || other_collation.is_none() || collation == other_collation)
}
