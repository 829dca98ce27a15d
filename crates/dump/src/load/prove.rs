//! Proves that everything of the dump is on the server and unchanged.

use std::collections::BTreeSet;

use server::catalogue::{Catalogue, Kind, Object};
use server::definition::{counter, database_defaults, sorted};
use server::{Session, snapshot};

use super::Load;
use crate::Error;

impl Load<'_> {
    /// Checks that every object of the dump is on the server, and, when both servers are of one release, is
    /// identical to the letter.
    pub(super) fn prove_objects(&self) -> Result<(), Error> {
        // A session without a default database, because the server would leave that name out.
        let mut session = snapshot::connect(self.target)?;
        let there = Catalogue::definitions(&mut session, &self.request.selection)?;
        let exact = session.about.release() == self.manifest.source.release();
        let mut differences = Vec::new();
        for object in &self.manifest.objects {
            if self.is_for_others(&mut session, object, &there)? {
                continue;
            }
            let title = object.title();
            match there.objects.iter().find(|known| is_one(known, object)) {
                None => differences.push(format!("{title} is not there")),
                Some(found) if !same(object, found, exact) => differences.push(format!("{title} is another")),
                Some(_) => {}
            }
        }
        for entry in &self.manifest.tables {
            let (name, wanted) = (&entry.table.name, &entry.table.definition);
            let Some(found) = there.tables.iter().find(|known| known.name == *name) else {
                differences.push(format!("table {name} is not there"));
                continue;
            };
            if exact && sorted(&found.definition) != sorted(wanted) {
                differences.push(format!("the definition of table {name} is another"));
            }
            // A higher counter gives no number twice; rows that were inserted during the dump may have moved
            // it.
            let (found, wanted) = (counter(&found.definition).unwrap_or(1), counter(wanted).unwrap_or(1));
            if found < wanted {
                differences
                    .push(format!("table {name} goes on with AUTO_INCREMENT {found} instead of {wanted}"));
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

/// Whether two objects have the same kind and name.
pub(crate) fn is_one(one: &Object, other: &Object) -> bool {
    one.kind == other.kind && one.schema == other.schema && one.name == other.name
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
