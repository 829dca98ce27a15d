//! A copy that is to be followed: rows of the source's log are applied to it afterwards.

use server::catalogue::{Kind, Table};
use server::{Session, TableName};

use super::{ReadTable, Refusals};
use crate::Error;
use crate::manifest::{Manifest, TableEntry};

/// Refuses tables that can't be followed, all reasons at once.
pub(super) fn check(
    session: &mut Session,
    tables: &[TableEntry],
    refusals: Option<Refusals>,
) -> Result<(), Error> {
    let why = refused(session, tables, refusals)?;
    if why.is_empty() {
        return Ok(());
    }
    Err(Error::Mismatch(format!("it can't be followed: {}", why.join("; "))))
}

/// Why tables can't be followed, a line for each reason.
pub(super) fn refused(
    session: &mut Session,
    tables: &[TableEntry],
    refusals: Option<Refusals>,
) -> Result<Vec<String>, Error> {
    let Some(refusals) = refusals else { return Ok(Vec::new()) };
    let tables: Vec<ReadTable<'_>> = tables.iter().map(ReadTable::of).collect();
    Ok(refusals(session, &tables)?)
}

/// Leaves out what would change rows on the target once more: the log of the source has what it did there.
/// Returns a line for each. `is_part`: the target never takes over, because it has only a part of the rows,
/// or masked ones.
pub(super) fn leave_out(manifest: &mut Manifest, is_part: bool) -> Vec<String> {
    let later = |what: &str| if is_part { String::new() } else { format!("; --cut-over {what}") };
    let mut postponed = Vec::new();
    manifest.objects.retain(|object| match object.kind {
        Kind::Trigger | Kind::Event => {
            let later = later("creates it");
            postponed.push(format!("{}: it would change rows a second time{later}", object.title()));
            false
        }
        Kind::Sequence => {
            let later = later("sets it");
            postponed.push(format!("{}: its value is that of the snapshot{later}", object.title()));
            true
        }
        _ => true,
    });
    postponed
}

/// The tables as the source defines them, and their names on the target.
pub(super) fn names(tables: &[TableEntry], manifest: &Manifest) -> Vec<(Table, TableName)> {
    let on_target = |own: &TableEntry| {
        let entry = manifest.tables.iter().find(|entry| entry.place == own.place)?;
        Some((own.table.clone(), entry.table.name.clone()))
    };
    tables.iter().filter_map(on_target).collect()
}
