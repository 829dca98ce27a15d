//! Another server has taken the source's place.

use progress::Progress;
use server::catalogue::Wanted;
use server::{Session, Target};

use crate::{Error, Noted, State, connect};

/// Makes the copy of a source that is gone the copy of the one that is followed now. It is noted as ended, so
/// that all rows are compared with a new snapshot: whatever the new source lacks, or has in addition, is
/// found. What was done is told.
///
/// # Errors
/// [`Error::Refused`] if there is not exactly one such copy; [`Error::Busy`] if it is followed still.
pub fn replace_source(
    former: &Target,
    (from, to): (&Target, &Target),
    copy: &dump::CopyRequest,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let state = State::of(&dump::copy_id(from, copy)?);
    let mut target = connect(to, copy.write.no_binlog)?;
    if state.exists(&mut target)? {
        return Ok(());
    }
    let (found, noted) = copy_of(&mut target, former, copy)?;
    if noted.cut_over.is_some() {
        return Err(Error::Refused(format!(
            "the target has begun to take over from {former}, so only that server can be given back"
        )));
    }
    if !found.lock(&mut target)? {
        return Err(Error::Busy);
    }
    found.stop(&mut target, &format!("{}: another server has replaced {former}", noted.reached.position))?;
    let renames: Vec<String> = found
        .own_tables()
        .iter()
        .zip(state.own_tables())
        .map(|(from, to)| format!("{from} TO {to}"))
        .collect();
    // All of them or, after a crash, none; MySQL before 8.0 may do a part.
    target.execute(&format!("RENAME TABLE {}", renames.join(", ")))?;
    progress.note(&format!("{from} takes the place of {former}"));
    Ok(())
}

/// The one copy of that source with none but the tables that are wanted.
fn copy_of(target: &mut Session, former: &Target, copy: &dump::CopyRequest) -> Result<(State, Noted), Error> {
    let (name, mut sources, mut found) = (former.to_string(), Vec::new(), Vec::new());
    for state in State::all(target)? {
        let Some(noted) = state.read(target)? else { continue };
        let is_wanted = |followed: &crate::Followed| {
            let name = &followed.table.name;
            copy.read.selection.table(&name.schema, &name.table)
        };
        match noted.source == name && noted.tables.iter().all(is_wanted) {
            true => found.push((state, noted)),
            false => sources.push(noted.source),
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err(Error::Refused(format!(
            "the target has several copies of {name} with such tables: name the same databases and tables as before"
        ))),
        (None, _) => {
            let others = match sources.is_empty() {
                true => "it has none that is followed".to_owned(),
                false => format!("it has copies of {}", sources.join(", ")),
            };
            Err(Error::Refused(format!("the target has no copy of {name} with these tables; {others}")))
        }
    }
}
