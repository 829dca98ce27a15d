//! Removes the segments that no backup needs any more, and those that are contained in others.

use std::collections::BTreeMap;
use std::io;

use block::{READER_LOCK, Removal, Store, WRITER_LOCK};
use disk::Share;

use super::index::SegmentArchive;
use super::segment_set::select;
use super::{Entry, FIRST, put_note};
use crate::archive::{Pruned, segment};
use crate::{Corrupt, Error};

/// Removes the segments that are older than all backups, like [`prune`](crate::archive::prune()) for files
/// and with the same arguments. Returns `None`, and removes nothing, if the archive has no file that is
/// needed.
///
/// Only segments before the first one that is needed are removed: later ones of a timeline in between stay.
///
/// # Errors
/// [`Error::Io`]; [`Error::Corrupt`], and nothing is removed, if `first.note` names a segment after one that
/// is needed.
pub fn prune(segments: SegmentArchive, needed: &[String], is_tried: bool) -> Result<Option<Pruned>, Error> {
    let expired = expired(&segments, needed)?;
    let keeps = segments
        .timelines()
        .iter()
        .flat_map(|timeline| &timeline.files)
        .find(|file| needed.contains(&file.name));
    let Some(from) = keeps.map(|file| file.entries.start) else { return Ok(None) };
    let older = expired.iter().chain(segments.entries.get(..from).unwrap_or_default());
    let mut bytes: BTreeMap<_, u64> = older.map(|entry| (entry.name(), entry.bytes)).collect();
    let names = segments
        .timelines()
        .iter()
        .flat_map(|timeline| &timeline.files)
        .filter(|file| file.entries.end <= from);
    let mut done = Pruned { files: names.count() as u64, bytes: bytes.values().sum(), ..Pruned::default() };
    let first = segments.entries.get(from).map(|entry| entry.header.segment.first);
    let Some(first) = first.filter(|_| !is_tried && !bytes.is_empty()) else { return Ok(Some(done)) };
    let store = segments.into_store();
    put_note(&*store, FIRST, &[first])?;
    // Segments that are being read stay; the next prune removes them.
    let Some(_alone) = store.lock(READER_LOCK, Share::Exclusive)? else { return Ok(Some(done)) };
    for numbers in select(&*store, first)?.expired {
        let name = segment::name(numbers);
        if let Removal::Retained { until_s } = store.try_remove(&name)? {
            done.bytes -= bytes.remove(&name).unwrap_or(0);
            done.keep(store.shown(&name), until_s);
        }
    }
    Ok(Some(done))
}

/// Segments that an interrupted prune has left: they come before the first one that is kept. If a backup
/// needs one of them, `first.note` is wrong, by mistake or by intent.
fn expired(segments: &SegmentArchive, needed: &[String]) -> Result<Vec<Entry>, Error> {
    let store = &*segments.store;
    let read = |numbers: &segment::Numbers| Entry::read(store, *numbers);
    let expired: Vec<Entry> = segments.expired.iter().map(read).collect::<Result<_, _>>()?;
    match expired.iter().find(|rest| needed.contains(&rest.header.segment.file)) {
        None => Ok(expired),
        Some(rest) => {
            let what = format!("it leaves out {}, which a kept backup needs", rest.name());
            Err(Corrupt { what, place: store.shown(FIRST) }.into())
        }
    }
}

/// Removes the segments that were verified to be contained in larger ones, and the locks of runs that have
/// ended: the archiver may lack the permission. Nothing is removed while somebody archives or reads.
///
/// # Errors
/// [`Error::Io`].
pub fn remove_superseded(store: &dyn Store) -> Result<Pruned, Error> {
    let mut done = Pruned::default();
    // Taking a lock removes what others have left of it.
    let Some(_writer) = store.lock(WRITER_LOCK, Share::Exclusive)? else { return Ok(done) };
    let Some(_alone) = store.lock(READER_LOCK, Share::Exclusive)? else { return Ok(done) };
    for covered in select(store, 1)?.superseded {
        for part in covered.proven(store)? {
            let Removal::Retained { until_s } = store.try_remove(&part.name())? else {
                done.bytes += part.bytes;
                continue;
            };
            done.keep(store.shown(&part.name()), until_s);
            // Without permission to remove this one, none can be removed. A file that the store only hides
            // counts as removed.
            match store.open(&part.name()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => {
                    drop(opened?);
                    return Ok(done);
                }
            }
        }
    }
    Ok(done)
}
