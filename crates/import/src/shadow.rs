//! The table in which rows wait until all of them are loaded, and how it gets the target's name.

use server::definition::{plain_indexes, sorted};
use server::{Session, TableName};

use crate::Error;
use crate::job::{Job, Names};
use crate::reject::shorten;
use crate::request::Indexes;
use crate::target::{self, Table};
use progress::{Progress, count};

/// For files of at least this size plain indexes are built after all rows are loaded: sorting once costs less
/// than finding the place of each entry (docs/benchmarks.md). For less, the second pass does not pay.
const DEFER_FROM_BYTES: u64 = 16 << 20;

/// Decisions made when creating a shadow table.
#[derive(Default)]
pub(crate) struct Made {
    /// Clauses of the indexes that are built at the end.
    pub deferred: Vec<String>,
    /// The shadow's definition with all its indexes.
    pub definition: String,
}

/// Creates the shadow of an existing table: identical except, perhaps, for its plain indexes.
pub(crate) fn like(
    session: &mut Session,
    names: &Names,
    table: &Table,
    choice: (Indexes, Option<u64>),
    progress: &dyn Progress,
) -> Result<Made, Error> {
    let shadow = &names.shadow;
    session.execute(&format!("CREATE TABLE {shadow} LIKE {}", names.table))?;
    if let Some(next) = table.auto_increment.filter(|next| *next > 1) {
        session.execute(&format!("ALTER TABLE {shadow} AUTO_INCREMENT = {next}"))?;
    }
    let definition = definition(session, shadow)?;
    let (indexes, bytes) = choice;
    let later = match indexes {
        Indexes::Before => false,
        Indexes::After => true,
        // The length of a stream is unknown.
        Indexes::Auto => bytes.is_none_or(|bytes| bytes >= DEFER_FROM_BYTES),
    };
    let indexes = if later { plain_indexes(&definition) } else { Vec::new() };
    let deferred: Vec<_> = indexes.iter().map(|index| index.clause.to_owned()).collect();
    if !indexes.is_empty() {
        let drops: Vec<_> = indexes.iter().map(|index| format!("DROP KEY {}", index.name)).collect();
        session.execute(&format!("ALTER TABLE {shadow} {}", drops.join(", ")))?;
        progress.note(&format!("{} to be built when all rows are in", count(drops.len(), "index")));
    }
    Ok(Made { deferred, definition })
}

/// The table's definition as the server prints it, with sorted lines, because the order of indexes does not
/// matter.
fn definition(session: &mut Session, table: &TableName) -> Result<String, Error> {
    Ok(sorted(&session.definition(table)?).join("\n"))
}

/// Builds the deferred indexes, and proves that the table is as intended.
pub(crate) fn build_indexes(session: &mut Session, names: &Names, job: &Job) -> Result<(), Error> {
    if job.deferred.is_empty() {
        return Ok(());
    }
    let shadow = &names.shadow;
    if definition(session, shadow)? == job.definition {
        // A run that was stopped here had already built them.
        return Ok(());
    }
    let adds: Vec<_> = job.deferred.iter().map(|clause| format!("ADD {clause}")).collect();
    session.execute(&format!("ALTER TABLE {shadow} {}", adds.join(", ")))?;
    let built = definition(session, shadow)?;
    if built == job.definition {
        return Ok(());
    }
    Err(Error::Target(format!(
        "the indexes of {} could not be built again as they were; load it with --indexes before. Wanted:\n{}\ngot:\n{built}",
        names.table, job.definition
    )))
}

/// Gives the target's name to the shadow table, which has `rows` rows, in one step. It can be called again
/// after it was stopped anywhere.
///
/// Changes that somebody made to the target meanwhile are searched for twice: before the renames, and again
/// when the target has another name under which nobody can change it any more.
pub(crate) fn swap(session: &mut Session, names: &Names, job: &Job, rows: u64) -> Result<(), Error> {
    let Names { table, shadow, old, .. } = names;
    if exists(session, shadow)? {
        let there = exists(session, table)?;
        if job.exists && there {
            refuse_changed(session, table, names, job)?;
            session.execute(&format!("RENAME TABLE {table} TO {old}, {shadow} TO {table}"))?;
        } else if job.exists && !exists(session, old)? {
            return Err(Error::Target(format!(
                "{table} was dropped while the import ran, so its rows are not put in; import again with --create"
            )));
        } else {
            // Not every server renames two tables in one step: a crash may have come in between.
            session.execute(&format!("RENAME TABLE {shadow} TO {table}"))?;
        }
    }
    if !exists(session, old)? {
        return Ok(());
    }
    if let Err(changed) = refuse_changed(session, old, names, job) {
        session.execute(&format!("RENAME TABLE {table} TO {shadow}, {old} TO {table}"))?;
        return Err(keep_theirs(session, names, rows, changed)?);
    }
    session.execute(&format!("DROP TABLE {old}"))?;
    Ok(())
}

/// Fails when the target, under its own name or under its temporary one, is not what it was when the import
/// began.
fn refuse_changed(session: &mut Session, place: &TableName, names: &Names, job: &Job) -> Result<(), Error> {
    let table = &names.table;
    if !job.replace && session.value(&format!("SELECT 1 FROM {place} LIMIT 1"))?.is_some() {
        return Err(Error::Target(format!(
            "{table} was empty when the import began and has rows now; \
             --append adds to them, --replace replaces them"
        )));
    }
    if job.before.is_empty() {
        return Ok(());
    }
    let now = target::definition(session, place)?;
    let triggers = target::triggers(session, place)?;
    let keys = target::keys_to(session, place)?;
    let what = if now != job.before {
        format!("was altered ({})", first_difference(&job.before, &now))
    } else if !triggers.is_empty() {
        format!("got triggers ({})", triggers.join(", "))
    } else if let Some(key) = keys.iter().find(|key| key.child != *place) {
        format!("got a foreign key of {} that points at it", key.child)
    } else {
        return Ok(());
    };
    Err(Error::Target(format!(
        "{table} {what} while the import ran; it stays as it is now, and nothing was imported. Import again"
    )))
}

/// The first line of a definition that is missing from the other, in either direction.
fn first_difference(before: &str, now: &str) -> String {
    let only = |one: &str, other: &str| {
        let line = one.lines().find(|line| !other.lines().any(|known| known == *line));
        line.map(|line| shorten(line.trim().trim_end_matches(',')))
    };
    let gone = only(before, now).map(|line| format!("before: {line}"));
    let new = only(now, before).map(|line| format!("now: {line}"));
    gone.into_iter().chain(new).collect::<Vec<_>>().join("; ")
}

/// Keeps the rows that somebody inserted into the shadow table in the moment when it had the target's name.
fn keep_theirs(session: &mut Session, names: &Names, rows: u64, changed: Error) -> Result<Error, Error> {
    let Names { shadow, kept, .. } = names;
    let count = session.value(&format!("SELECT COUNT(*) FROM {shadow}"))?;
    let theirs = count.and_then(|count| count.parse().ok()).is_some_and(|count: u64| count > rows);
    if !theirs {
        return Ok(changed);
    }
    session.execute(&format!("RENAME TABLE {shadow} TO {kept}"))?;
    Ok(Error::Target(format!("{changed}. Rows that others wrote in that moment are in {kept}")))
}

/// Removes everything that an import leaves beside the target, except the ledger. The target stays as before;
/// if a crash left the replaced table under its temporary name, it gets its own name back.
pub(crate) fn discard(session: &mut Session, names: &Names) -> Result<(), Error> {
    let Names { table, shadow, old, .. } = names;
    if exists(session, old)? {
        match exists(session, table)? {
            true => session.execute(&format!("RENAME TABLE {table} TO {shadow}, {old} TO {table}"))?,
            false => session.execute(&format!("RENAME TABLE {old} TO {table}"))?,
        };
    }
    session.execute(&format!("DROP TABLE IF EXISTS {}", names.shadow))?;
    Ok(())
}

fn exists(session: &mut Session, table: &TableName) -> Result<bool, Error> {
    let (schema, name) = (session.quote(&table.schema), session.quote(&table.table));
    let found = session.value(&format!(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {name}"
    ))?;
    Ok(found.is_some())
}
