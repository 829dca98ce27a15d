//! Removes the pieces that no backup needs any more.

use std::io;

use block::{READER, Store};
use disk::Share;

use super::chain::Pieces;
use super::{FIRST, chosen, put_note};
use crate::Error;
use crate::archive::Forgotten;

/// Removes the pieces that are older than all backups: as [`forget`](crate::archive::forget()) does it with
/// files, and with the same arguments. Returns none, and removes nothing, if no file of the archive is
/// needed.
///
/// Only what is before the first piece that is needed goes: what follows it in a line between stays.
///
/// # Errors
/// [`Error::Io`].
pub fn forget(pieces: Pieces, needed: &[String], is_tried: bool) -> Result<Option<Forgotten>, Error> {
    let keeps = pieces.lines().iter().flat_map(|line| &line.files).find(|file| needed.contains(&file.name));
    let Some(from) = keeps.map(|file| file.entries.start) else { return Ok(None) };
    let older = pieces.entries.get(..from).unwrap_or_default();
    let names = pieces.lines().iter().flat_map(|line| &line.files).filter(|file| file.entries.end <= from);
    let done = Forgotten { files: names.count() as u64, bytes: older.iter().map(|entry| entry.bytes).sum() };
    let first = pieces.entries.get(from).map(|entry| entry.front.piece.first);
    let Some(first) = first.filter(|_| !is_tried && from > 0) else { return Ok(Some(done)) };
    let store = pieces.into_store();
    put_note(&*store, FIRST, &[i64::try_from(first).unwrap_or(i64::MAX)])?;
    remove(&*store, first)?;
    Ok(Some(done))
}

/// Removes what is before a piece. What is being read stays, and the next prune removes it.
fn remove(store: &dyn Store, first: u64) -> io::Result<()> {
    let Some(_alone) = store.lock(READER, Share::Exclusive)? else { return Ok(()) };
    let (_, stale) = chosen(&store.list()?, first);
    let is_older =
        |name: &&String| crate::archive::piece::numbers(name).is_some_and(|(_, last)| last < first);
    for name in stale.iter().filter(is_older) {
        match store.remove(name) {
            Err(error)
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}
