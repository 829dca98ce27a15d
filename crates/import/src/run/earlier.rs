//! What earlier imports into the same table have left.

use server::{Session, TableName};

use crate::job::{Job, LoadStrategy, Names, State};
use crate::ledger::{FinishedChunks, Ledger};
use crate::request::{OnDuplicate, Physical, Request};
use crate::{Error, connect, durability, shadow};
use progress::{Progress, count};

/// Restores settings that a dead run left relaxed.
pub(super) fn restore_settings(session: &mut Session, progress: &dyn Progress) -> Result<(), Error> {
    for line in durability::undo(session)?.lines {
        progress.warn(&format!("restored a setting that a killed run had changed: {line}"));
    }
    Ok(())
}

/// Refuses to continue past a stopped import that keeps its ledger in another database than this one would.
pub(super) fn refuse_other_import(session: &mut Session, names: &Names) -> Result<(), Error> {
    let [own, apart] = names.ledgers();
    let mut found = session.strings(&format!(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_name = '{apart}'"
    ))?;
    found.extend(session.strings(&format!(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_name = '{own}' AND table_schema = {}",
        session.quote(&names.table.schema)
    ))?);
    for row in found {
        let mut cells = row.into_iter().flatten();
        let (Some(schema), Some(table)) = (cells.next(), cells.next()) else { continue };
        let ledger = TableName { schema, table };
        if ledger != names.ledger {
            return Err(Error::Target(format!(
                "an import into {} was stopped, and its ledger is {ledger}: continue or discard it with \
                 --work-database {} and --resume or --restart",
                names.table, ledger.schema
            )));
        }
    }
    Ok(())
}

/// What a stopped import into the same table left, if the user wants to resume it.
pub(super) fn earlier(
    session: &mut Session,
    request: &Request,
    names: &Names,
    ledger: &Ledger,
) -> Result<Option<(Job, FinishedChunks)>, Error> {
    if request.restart {
        // A ledger that can't be read is discarded.
        let mut logged = !request.no_binlog;
        if let Ok(Some((job, finished))) = ledger.read(session) {
            restartable(names, &job, &finished)?;
            logged = !job.no_binlog;
        }
        if !logged {
            connect::log(session, false)?;
        }
        shadow::discard(session, names)?;
        ledger.remove(session)?;
        if !logged {
            connect::log(session, true)?;
        }
        return Ok(None);
    }
    let Some((job, finished)) = ledger.read(session)? else {
        if request.resume {
            return Err(Error::Target(format!(
                "no import into {} was stopped, so there is nothing to resume; omit --resume to start one",
                names.table
            )));
        }
        return Ok(None);
    };
    if request.resume {
        let other = request.on_duplicate != OnDuplicate::Error && request.on_duplicate != job.on_duplicate;
        if other {
            return Err(Error::Mismatch(format!(
                "the stopped import was started with --on-duplicate {}; resume it with the same",
                job.on_duplicate.word()
            )));
        }
        if let Some(begun) = &job.meaning {
            let other =
                request.meaning().into_iter().find(|(option, value)| begun.get(option) != Some(value));
            if let Some((option, _)) = other {
                return Err(Error::Mismatch(format!(
                    "the stopped import was started {} {option}: resume it in the same way, or start over with \
                     --restart",
                    if begun.contains_key(&option) { "with another value of" } else { "without" }
                )));
            }
        }
        if request.physical == Physical::Only && job.filled.is_none() && job.state == State::Loading {
            return Err(Error::Mismatch(
                "the stopped import sends its rows to the server; resume it without --physical, or start over with \
                 --restart"
                    .to_owned(),
            ));
        }
        return Ok(Some((job, finished)));
    }
    let rows = job.filled.unwrap_or(0) + finished.values().map(|chunk| chunk.loaded).sum::<u64>();
    Err(Error::Unfinished { table: names.table.to_string(), rows })
}

/// Chunks that went straight into the table can't be taken back.
pub(super) fn restartable(names: &Names, job: &Job, finished: &FinishedChunks) -> Result<(), Error> {
    let rows: u64 = finished.values().map(|chunk| chunk.loaded).sum();
    if job.strategy != LoadStrategy::ByChunk || rows == 0 {
        return Ok(());
    }
    Err(Error::Target(format!(
        "the stopped import has put {} into {} for good, and beginning again would put the same in again: \
         go on with --resume, or delete what is in and drop {}",
        count(rows, "row"),
        names.table,
        names.ledger
    )))
}
