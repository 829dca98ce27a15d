//! Removes the pieces that no backup needs any more.

use std::collections::BTreeMap;
use std::io;

use block::{Freed, READER, Store};
use disk::Share;

use super::chain::Pieces;
use super::{Entry, FIRST, chosen, put_note};
use crate::Error;
use crate::archive::{Forgotten, piece};

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
    let bytes_of = |entry: &Entry| ((entry.front.piece.first, entry.front.piece.last), entry.bytes);
    let mut bytes: BTreeMap<(u64, u64), u64> = older.iter().map(bytes_of).collect();
    let mut done =
        Forgotten { files: names.count() as u64, bytes: bytes.values().sum(), ..Forgotten::default() };
    let first = pieces.entries.get(from).map(|entry| entry.front.piece.first);
    let Some(first) = first.filter(|_| !is_tried && from > 0) else { return Ok(Some(done)) };
    let store = pieces.into_store();
    put_note(&*store, FIRST, &[i64::try_from(first).unwrap_or(i64::MAX)])?;
    let (retained, until_s) = remove(&*store, first)?;
    done.retained_until_s = until_s;
    for name in retained {
        done.bytes -= piece::numbers(&name).and_then(|numbers| bytes.remove(&numbers)).unwrap_or(0);
        done.retained.push(store.shown(&name));
    }
    Ok(Some(done))
}

/// Removes what is before a piece. What is being read stays, and the next prune removes it. Returns the names
/// of what the store keeps, and until when nobody can remove the last of it, if that is known.
fn remove(store: &dyn Store, first: u64) -> io::Result<(Vec<String>, Option<i64>)> {
    let mut retained = (Vec::new(), None);
    let Some(_alone) = store.lock(READER, Share::Exclusive)? else { return Ok(retained) };
    let (_, stale) = chosen(&store.list()?, first);
    let is_older = |name: &String| piece::numbers(name).is_some_and(|(_, last)| last < first);
    for name in stale.into_iter().filter(is_older) {
        if let Freed::Kept { until_s } = store.free(&name)? {
            retained = (retained.0, retained.1.max(until_s));
            retained.0.push(name);
        }
    }
    Ok(retained)
}
