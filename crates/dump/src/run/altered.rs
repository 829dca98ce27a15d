//! Tables that were altered while they were dumped, or whose rows the server can't read.

use server::Session;
use server::catalogue::{Catalogue, Only};

use super::shared::{Job, Shared, is_damage};
use crate::journal::Step;
use crate::manifest::{Chunk, Manifest};
use crate::{Error, plan};

/// Leaves out the rows of a table that the server can't read. Returns a line that says so.
pub(super) fn leave_out(
    job: Job<'_>,
    manifest: &mut Manifest,
    at: usize,
    what: &str,
) -> Result<String, Error> {
    // What was read of it before does not count.
    job.journal.add(&Step::Again(at))?;
    let entry = &mut manifest.tables[at];
    entry.data = false;
    entry.set_chunks(Vec::new());
    super::resume::clear_table(&*job.context.disk, &job.request.folder, entry)?;
    Ok(format!("rows of table {}: the server can't read them ({what})", entry.table.name))
}

/// Reads an altered table once more, in one piece and under its new definition, if the snapshot allows that.
/// If not, all other tables are complete by now, and a resumed dump has to read only this one.
pub(super) fn read_again(
    job: Job<'_>,
    session: &mut Session,
    manifest: &mut Manifest,
    (at, what): (usize, String),
) -> Result<(), Error> {
    let name = manifest.tables[at].table.name.clone();
    job.journal.add(&Step::Again(at))?;
    let found = Catalogue::read(session, &Only(std::slice::from_ref(&name)), &mut |_, _| {})?;
    session.execute(plan::RELEASE_LOCKS)?;
    let Some(table) = found.tables.into_iter().find(|table| table.name == name) else {
        return Err(Error::Altered { table: name.to_string(), what });
    };
    let entry = job.request.entry(&table)?;
    // What was masked may have another name now.
    if !entry.masks.keys().eq(manifest.tables[at].masks.keys()) {
        return Err(Error::Altered { table: name.to_string(), what });
    }
    manifest.tables[at] = entry;
    let entry = &manifest.tables[at];
    let folder = job.request.folder.join(&entry.folder);
    super::resume::clear_table(&*job.context.disk, &job.request.folder, entry)?;
    job.context.disk.create_folder(&folder).map_err(Error::file(&folder))?;
    let shared = Shared::new(job, manifest, None);
    (shared.state(at).planned, shared.state(at).open) = (true, 1);
    let chunk = Chunk::planned(0, Vec::new(), None);
    let chunk = match shared.own_files(session, at, chunk) {
        // It is not that the table was altered.
        Err(Error::Server(source)) if is_damage(&source) => {
            return Err(Error::Object { object: format!("table {name}"), source: Box::new(source) });
        }
        read => read.map_err(|error| shared.explain_error(error, entry))?,
    };
    shared.chunk_done(session, at, Some(chunk))?;
    let state = std::mem::take(&mut *shared.state(at));
    state.store(&mut manifest.tables[at]);
    job.context.progress.note(&format!(
        "table {name} was altered while it was dumped ({what}); it was read again with its new definition"
    ));
    Ok(())
}
