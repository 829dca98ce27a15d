//! The staging table, into which rows are loaded, and the swap in which it gets the target's name.

use server::definition::{plain_indexes, sorted};
use server::{Flavour, Session, TableName};

use crate::Error;
use crate::job::{Job, Names};
use crate::reject::shorten;
use crate::request::Indexes;
use crate::target::{self, Table};
use progress::{Progress, count};

/// For files of at least this size plain indexes are built after all rows are loaded: sorting once costs less
/// than finding the place of each entry (docs/benchmarks.md). For less, the second pass does not pay.
const DEFER_FROM_BYTES: u64 = 16 << 20;

/// A staging table that was created.
#[derive(Default)]
pub(crate) struct ShadowTable {
    /// Clauses of the indexes that are built at the end.
    pub deferred: Vec<String>,
    /// The shadow's definition with all its indexes.
    pub definition: String,
}

/// When plain indexes are built.
#[derive(Clone, Copy)]
pub(crate) struct IndexTiming {
    pub(crate) asked: Indexes,
    /// The length of the files in bytes; that of a stream is unknown.
    pub(crate) bytes: Option<u64>,
}

impl IndexTiming {
    /// Whether they are built after the rows are loaded.
    fn are_deferred(self) -> bool {
        match self.asked {
            Indexes::Before => false,
            Indexes::After => true,
            Indexes::Auto => self.bytes.is_none_or(|bytes| bytes >= DEFER_FROM_BYTES),
        }
    }
}

/// Creates the shadow of an existing table: identical except, perhaps, for its plain indexes.
pub(crate) fn like(
    session: &mut Session,
    names: &Names,
    table: &Table,
    indexes: IndexTiming,
    progress: &dyn Progress,
) -> Result<ShadowTable, Error> {
    let shadow = &names.shadow;
    same(session, names, table, progress)?;
    if let Some(next) = table.auto_increment.filter(|next| *next > 1) {
        session.execute(&format!("ALTER TABLE {shadow} AUTO_INCREMENT = {next}"))?;
    }
    let definition = definition(session, shadow)?;
    let indexes = if indexes.are_deferred() { plain_indexes(&definition) } else { Vec::new() };
    let deferred: Vec<_> = indexes.iter().map(|index| index.clause.to_owned()).collect();
    if !indexes.is_empty() {
        let drops: Vec<_> = indexes.iter().map(|index| format!("DROP KEY {}", index.name)).collect();
        session.execute(&format!("ALTER TABLE {shadow} {}", drops.join(", ")))?;
        progress.note(&format!("{} will be built after all rows are loaded", count(drops.len(), "index")));
    }
    Ok(ShadowTable { deferred, definition })
}

/// Creates a table that is defined as the target is. LIKE leaves some things out, such as DATA DIRECTORY;
/// what is printed has them.
fn same(session: &mut Session, names: &Names, table: &Table, progress: &dyn Progress) -> Result<(), Error> {
    let Names { table: target, shadow, .. } = names;
    let other = |session: &mut Session| {
        let made = target::definition(session, shadow)?;
        let wanted = as_compared(session, &table.definition);
        Ok::<_, Error>(
            (wanted != as_compared(session, &made)).then(|| first_difference(&table.definition, &made)),
        )
    };
    session.execute(&format!("CREATE TABLE {shadow} LIKE {target}"))?;
    let Some(mut why) = other(session)? else {
        if table.checks_named {
            progress.note("the server gives the CHECK constraints of the table new names");
        }
        return Ok(());
    };
    session.execute(&format!("DROP TABLE {shadow}"))?;
    // InnoDB does not move a file from the folder of one database into that of another one.
    if shadow.schema == target.schema {
        match session.execute(&format!("CREATE TABLE {shadow} (\n{}", table.definition)) {
            Ok(_) => match other(session)? {
                None => return Ok(()),
                Some(difference) => why = difference,
            },
            Err(error) => why = error.to_string(),
        }
        session.execute(&format!("DROP TABLE IF EXISTS {shadow}"))?;
    }
    Err(Error::Target(format!(
        "no table like {target} can be made beside it ({why}), and a swap would change that; {}",
        match (shadow.schema == target.schema, table.transactional) {
            (false, _) => "leave --work-database out",
            (true, true) => "--append sends the rows into the table itself",
            (true, false) => "use LOAD DATA",
        }
    )))
}

/// The lines of a definition that two tables of the same kind have in common. MySQL has no two CHECK
/// constraints of one name in a database.
fn as_compared(session: &Session, definition: &str) -> Vec<String> {
    let mut lines = sorted(definition);
    if session.about.flavour == Flavour::MySql {
        lines.iter_mut().for_each(|line| {
            if let Some(name) = target::check_name(line) {
                *line = line.replacen(name, "", 1);
            }
        });
        lines.sort();
    }
    lines
}

/// Whether two definitions of a table are the same but for the names that MySQL gives to CHECK constraints
/// when the table gets another name.
fn is_same(session: &Session, one: &str, other: &str) -> bool {
    let parts = |definition: &str| {
        let lines = definition.lines().map(|line| line.trim_end_matches(','));
        let (checks, rest): (Vec<_>, Vec<_>) = lines.partition(|line| target::check_name(line).is_some());
        let mut checks: Vec<String> = checks
            .iter()
            .map(|line| line.replacen(target::check_name(line).unwrap_or_default(), "", 1))
            .collect();
        checks.sort();
        (checks, rest.join("\n"))
    };
    one == other || session.about.flavour == Flavour::MySql && parts(one) == parts(other)
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

/// Gives the target's name to the staging table, which has `rows` rows, in one step. It can be called again
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
                "{table} was dropped while the import ran, so nothing was imported; import again with --create"
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
        return Err(keep_foreign_rows(session, names, rows, changed)?);
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
    let what = if !is_same(session, &now, &job.before) {
        format!("was altered ({})", first_difference(&job.before, &now))
    } else if !triggers.is_empty() {
        format!("got triggers ({})", triggers.join(", "))
    } else if let Some(key) = keys.iter().find(|key| key.child != *place) {
        format!("got a foreign key of {} that points at it", key.child)
    } else {
        return Ok(());
    };
    Err(Error::Target(format!(
        "{table} {what} while the import ran; it was left as it is, and nothing was imported. Import again"
    )))
}

/// The first line of a definition that is missing from the other, in either direction. Of two lines of
/// options it is the end that differs.
fn first_difference(before: &str, now: &str) -> String {
    let only = |one: &str, other: &str| {
        let line = one.lines().find(|line| !other.lines().any(|known| known == *line));
        line.map(|line| line.trim().trim_end_matches(',').to_owned())
    };
    let (mut gone, mut new) = (only(before, now), only(now, before));
    if let (Some(one), Some(other)) = (&mut gone, &mut new)
        && one.starts_with(") ")
    {
        let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
        let word = one.get(..same).and_then(|same| same.rfind(' ')).map_or(0, |blank| blank + 1);
        for line in [one, other] {
            line.replace_range(..word, "...");
        }
    }
    let gone = gone.map(|line| format!("before: {}", shorten(&line)));
    let new = new.map(|line| format!("now: {}", shorten(&line)));
    gone.into_iter().chain(new).collect::<Vec<_>>().join("; ")
}

/// Keeps rows that somebody inserted into the staging table while it had the target's name.
fn keep_foreign_rows(
    session: &mut Session,
    names: &Names,
    rows: u64,
    changed: Error,
) -> Result<Error, Error> {
    let Names { shadow, kept, .. } = names;
    let count = session.value(&format!("SELECT COUNT(*) FROM {shadow}"))?;
    let theirs = count.and_then(|count| count.parse().ok()).is_some_and(|count: u64| count > rows);
    if !theirs {
        return Ok(changed);
    }
    session.execute(&format!("RENAME TABLE {shadow} TO {kept}"))?;
    Ok(Error::Target(format!("{changed}. Rows that others wrote in that moment are in {kept}")))
}

/// Drops the work tables of an import, except the ledger. The target is unchanged;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_where_it_is() {
        let of = |one: &str, other: &str| first_difference(one, other);
        let (one, other) = (") ENGINE=InnoDB COMMENT='a' DATA DIRECTORY='/x'", ") ENGINE=InnoDB COMMENT='a'");
        assert_eq!(
            of(one, other),
            "before: ...COMMENT='a' DATA DIRECTORY='/x'; now: ...COMMENT='a'".replace('\'', "\\'")
        );
        assert_eq!(of("  `a` int,\n  `b` int,\n)", "  `a` int,\n)"), "before: `b` int");
        assert_eq!(of("  `a` int,\n)", "  `a` bigint,\n)"), "before: `a` int; now: `a` bigint");
    }

    #[test]
    fn only_the_names_that_mysql_gives_are_known() {
        let line = "  CONSTRAINT `t_chk_1` CHECK ((`a` > 0)),";
        assert_eq!(target::check_name(line), Some("`t_chk_1`"));
        assert_eq!(target::check_name("  CONSTRAINT `t_chk_1` FOREIGN KEY (`a`)"), None);
        assert!(!target::has_named_checks(line, "t") && target::has_named_checks(line, "u"));
    }
}
