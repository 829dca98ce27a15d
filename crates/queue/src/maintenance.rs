//! What happens behind publishers and takers: sparse segments are rewritten, checkpoints written, empty files
//! removed; and what happens to a whole queue: emptying, dropping, resting.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use disk::{Disk, Output};

use crate::batch::{
    self, BATCH_HEADER, Header, Indexed, Kind, Place, SEGMENT_HEADER, SegmentName, encode_index,
};
use crate::checkpoint::{Checkpoint, Listed};
use crate::commit::{fail, fail_if_lost};
use crate::engine::first_checkpoint;
use crate::file::SegmentFile;
use crate::index::{Arrival, Doing, Index, Segment, Stored};
use crate::log::Log;
use crate::origin::Journal;
use crate::queue::Queue;
use crate::record::{RowId, encode_moved};
use crate::state::{Gather, State};
use crate::sync::{MutexGuard, wait};
use crate::wait::{News, tell_all};
use crate::{Counters, Error, Status};

/// Bytes of a batch of moved rows.
const MOVED_BATCH: usize = 1 << 20;

/// Segments with less than one part in so many of a full one are put together with their neighbours...
const SMALL: u64 = 8;

/// ...when there are so many of them.
const MANY: usize = 8;

/// What to rewrite: segments that follow each other, and the rows in them.
struct Plan {
    epoch: u64,
    /// First ids, under which the index has them.
    bases: Vec<RowId>,
    file: Arc<SegmentFile>,
    rows: Vec<(Indexed, Arc<SegmentFile>, u64)>,
}

impl Queue {
    /// Rewrites sparse segments, writes a checkpoint and removes files that hold nothing.
    ///
    /// # Errors
    /// [`Error::Disk`], [`Error::Corrupt`]: the queue goes on, and it will be tried again;
    /// [`Error::Failed`] and [`Error::Dropped`] when it is out of service.
    pub fn maintain(&self) -> Result<(), Error> {
        self.maintain_with(Segment::is_sparse)
    }

    /// As [`Queue::maintain`], for every sealed segment that has a dead row.
    ///
    /// # Errors
    /// Those of [`Queue::maintain`].
    pub fn compact(&self) -> Result<(), Error> {
        self.maintain_with(Segment::has_dead)
    }

    fn maintain_with(&self, worth: fn(&Segment) -> bool) -> Result<(), Error> {
        let mut state = self.lock();
        while state.maintaining {
            state = wait(&self.turn, state);
        }
        state.usable()?;
        self.touch(&mut state);
        state.maintaining = true;
        drop(state);
        let compacted = self.compact_all(worth);
        let checkpointed = self.checkpoint();
        let mut state = self.lock();
        state.maintaining = false;
        self.turn.notify_all();
        let result = compacted.and(checkpointed);
        state.counters.maintenance_errors += u64::from(result.is_err());
        result
    }

    fn compact_all(&self, worth: fn(&Segment) -> bool) -> Result<(), Error> {
        let mut from = RowId(0);
        loop {
            let mut state = self.lock();
            state.usable()?;
            let limit = self.shared.options.segment_bytes;
            let Some(plan) = plan(&mut state, &self.folder, (from, limit), worth)? else { return Ok(()) };
            drop(state);
            from = plan.rows.last().map_or(from, |(row, ..)| RowId(row.id.0 + 1));
            let segment = self.rewrite(&plan)?;
            let mut state = self.lock();
            if state.epoch != plan.epoch || state.dropped {
                drop(state);
                let path = plan.file.path();
                return self.folder.disk().remove(&path).map_err(Error::disk(&path));
            }
            state.counters.compacted += plan.bases.len() as u64;
            exchange(&mut state.index, &plan, segment)?;
        }
    }

    /// Writes the rows of a plan into their new file, without the lock.
    fn rewrite(&self, plan: &Plan) -> Result<Segment, Error> {
        let (disk, path, place) = (self.folder.disk(), plan.file.path(), *plan.file.place());
        let first = plan.rows.first().map_or(RowId(0), |(row, ..)| row.id);
        let mut segment = Segment::active(plan.file.clone(), first);
        let mut output = Output::create(disk, &path).map_err(Error::disk(&path))?;
        let mut put = |bytes: &[u8]| output.write_all(bytes).map_err(Error::disk(&path));
        put(&batch::encode_segment_header(&place, first))?;
        let mut end = SEGMENT_HEADER as u64;
        let time_ms = self.shared.now_ms();
        let mut rows = plan.rows.iter().peekable();
        while let Some((row, ..)) = rows.peek() {
            let (first, mut before) = (row.id, row.id);
            let mut bytes = vec![0; BATCH_HEADER];
            while let Some((row, file, inserted_ms)) = rows.next_if(|_| bytes.len() < MOVED_BATCH) {
                let contents = place_of(row, file).read(row.id)?;
                let at = encode_moved(&mut bytes, row.id, before, *inserted_ms, &contents);
                let (offset, len) = (end + at as u64, bytes.len() - at);
                segment.push(&Arrival { id: row.id, offset, len, time_ms: *inserted_ms });
                before = row.id;
            }
            batch::seal(&mut bytes, &place, end, &Header { kind: Kind::Records, first, synced: 0, time_ms });
            put(&bytes)?;
            end += bytes.len() as u64;
        }
        let mut index = vec![0; BATCH_HEADER];
        encode_index(&mut index, first, segment.listed().into_iter(), segment.times());
        batch::seal(&mut index, &place, end, &Header { kind: Kind::Index, first, synced: 0, time_ms });
        put(&index)?;
        let len = index.len() as u64;
        segment.seal(Stored { offset: end, len, file_len: end + len });
        output.finish().map_err(Error::disk(&path))?;
        Ok(segment)
    }

    /// Writes a checkpoint of what is applied, after making it durable, then removes files that it does not
    /// list.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        // So that the log is not behind what the checkpoint tells.
        self.flush()?;
        let mut state = self.take_turn(self.lock());
        let snapshot =
            state.usable().map(|()| (snapshot(&mut state, self.definition()), state.index.take_emptied()));
        let mut log = state.log.take();
        drop(state);
        // What the checkpoint tells must not be more durable than the rows it tells of.
        let synced = log.as_mut().map_or(Ok(()), Log::sync);
        let mut state = self.lock();
        state.log = log;
        if let Err(error) = &synced {
            fail_if_lost(&mut state, error);
        }
        self.give_turn(&mut state);
        let (checkpoint, emptied) = snapshot?;
        if let Err(error) = synced {
            state.index.add_emptied(emptied);
            return Err(error);
        }
        drop(state);
        let folder = self.folder.path();
        let disk = self.folder.disk();
        let written = checkpoint.write(disk, &folder).map_err(Error::disk(&folder));
        let left = if written.is_ok() { unlink(disk, emptied) } else { emptied };
        let mut state = self.lock();
        state.index.add_emptied(left);
        state.counters.checkpoints += u64::from(written.is_ok());
        written
    }

    /// Closes the files when the queue was not used since this was last asked.
    pub(crate) fn rest_if_idle(&self) -> Result<(), Error> {
        let mut state = self.lock();
        if std::mem::take(&mut state.used) {
            self.shared.schedule_rest(self);
            return Ok(());
        }
        state.watched = false;
        drop(state);
        self.rest()
    }

    /// Closes the files until the next use, after making everything durable.
    pub(crate) fn rest(&self) -> Result<(), Error> {
        let flushed = self.flush();
        let mut state = self.take_turn(self.lock());
        let mut log = state.log.take();
        let rested = flushed.and(state.usable()).and_then(|()| log.as_mut().map_or(Ok(()), Log::rest));
        state.log = log;
        state.index.segments().for_each(|segment| segment.file().close());
        if let Err(error) = &rested {
            fail_if_lost(&mut state, error);
        }
        self.give_turn(&mut state);
        rested
    }

    /// Removes all rows at once, also those that are owned. Row ids start over, and the journal of relayed
    /// rows too. Those who wait go on waiting.
    ///
    /// # Errors
    /// [`Error::Disk`]: all rows are there still, or the queue is out of service when that can't be told.
    pub fn truncate(&self) -> Result<(), Error> {
        let mut state = self.quiet();
        let result = state.usable().and_then(|()| self.start_over(&mut state));
        state.maintaining = false;
        self.give_turn(&mut state);
        result
    }

    /// The state while nobody writes or tidies up.
    pub(crate) fn quiet(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        // Whoever has something in the batch to come is let go first.
        while state.writing || state.maintaining || state.open.is_some() {
            state = wait(&self.turn, state);
        }
        state.writing = true;
        state.maintaining = true;
        state
    }

    /// Runs `work` while nobody opens, writes or removes a file of the queue.
    pub(crate) fn undisturbed<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.quiet();
        let result = work();
        state.maintaining = false;
        self.give_turn(&mut state);
        result
    }

    fn start_over(&self, state: &mut State) -> Result<(), Error> {
        let incarnation = (self.shared.options.random)();
        let number = state.log.as_ref().map_or(1, |log| log.file().name().number + 1);
        let (folder, disk) = (self.folder.path(), self.folder.disk());
        let checkpoint = first_checkpoint(incarnation, number, self.definition().clone());
        let log = Log::create(&self.folder, incarnation, number, RowId(1))?;
        let written = checkpoint.begin(disk, &folder).map_err(Error::disk(&folder));
        let begun = written.inspect_err(|_| {
            // Nothing is decided: the segment that was begun is no part of the queue, and its end is not to
            // look like one.
            disk.remove(&log.file().path()).ok();
        })?;
        // From here on a failure leaves it open which of the two states a crash would find.
        let decided = begun.finish().map_err(Error::disk(&folder));
        decided.inspect_err(|error| fail(state, error))?;
        let old = state.log.replace(log).into_iter().map(|log| log.file().clone());
        let sealed = state.index.segments().map(|segment| segment.file().clone());
        let mut gone: Vec<_> = old.chain(sealed).collect();
        gone.extend(state.index.take_emptied());
        gone.sort_by_key(|file| file.name());
        gone.dedup_by_key(|file| file.name());
        state.gather = Gather::default();
        state.index = Index::default();
        state.index.add_emptied(unlink(self.folder.disk(), gone));
        state.incarnation = incarnation;
        state.epoch += 1;
        state.journal = Journal::default();
        state.owners.clear();
        state.conditions.clear();
        (state.next, state.arrived, state.active_next) = (RowId(1), RowId(1), RowId(1));
        self.note_rows(state);
        Ok(())
    }

    /// Puts a queue out of use whose files are about to be removed.
    pub(crate) fn drop_rows(&self) {
        let mut state = self.quiet();
        state.dropped = true;
        tell_all(&mut state, &News::Dropped);
        state.gather = Gather::default();
        state.index = Index::default();
        state.owners.clear();
        state.log = None;
        self.note_rows(&state);
        state.maintaining = false;
        self.give_turn(&mut state);
    }

    /// What happened since it was opened.
    pub(crate) fn counters(&self) -> Counters {
        self.folder.calls.counted(self.lock().counters)
    }

    /// What is in the queue, and what happened since it was opened.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut state = self.lock();
        let active = state.log.as_ref().map_or(0, Log::end);
        let sealed = state.index.segments().filter_map(Segment::stored).map(|stored| stored.file_len);
        let bytes = active + sealed.sum::<u64>();
        let live_bytes = state.index.segments().map(Segment::live_bytes).sum();
        let owned = state.index.owned();
        let now_ms = self.shared.now_ms();
        Status {
            waiting: state.index.live() - owned,
            owned,
            oldest_ms: state.index.oldest_ms(),
            bytes,
            live_bytes,
            memory: state.index.memory() as u64,
            waiters: state.waiters.len() as u64,
            written_per_s: state.written.per_second(now_ms),
            removed_per_s: state.removed.per_second(now_ms),
            counters: self.folder.calls.counted(state.counters),
        }
    }
}

fn place_of(row: &Indexed, file: &Arc<SegmentFile>) -> crate::index::Location {
    let len = usize::try_from(row.len).unwrap_or(usize::MAX);
    crate::index::Location { file: file.clone(), offset: row.offset, len, opened: None }
}

/// The next segments from `from` on that are worth rewriting and fit into one of `limit` bytes.
fn plan(
    state: &mut State,
    folder: &Arc<crate::folder::Folder>,
    (from, limit): (RowId, u64),
    worth: fn(&Segment) -> bool,
) -> Result<Option<Plan>, Error> {
    let mut bases: Vec<RowId> = Vec::new();
    let (mut bytes, mut name, mut worthy) = (0, None, false);
    for segment in state.index.segments().filter(|segment| segment.base() >= from) {
        let first = bases.first().copied().unwrap_or(segment.base());
        let fits = bytes + segment.live_bytes() <= limit && segment.end().0 - first.0 < u64::from(u32::MAX);
        let wanted = segment.is_sealed() && (worth(segment) || segment.live_bytes() < limit / SMALL);
        if !wanted || !fits {
            if worthy || bases.len() >= MANY {
                break;
            }
            (bytes, name, worthy) = (0, None, false);
            bases.clear();
            if !wanted {
                continue;
            }
        }
        worthy |= worth(segment);
        bytes += segment.live_bytes();
        name.get_or_insert(segment.file().name());
        bases.push(segment.base());
    }
    let Some(name) = name.filter(|_| worthy || bases.len() >= MANY) else { return Ok(None) };
    let name = SegmentName { number: name.number, generation: name.generation + 1 };
    let file = SegmentFile::new(folder, Place { incarnation: state.incarnation, name });
    let mut rows = Vec::new();
    for base in &bases {
        let Some(segment) = state.index.segment_mut(*base) else { continue };
        let listed = segment.rows()?;
        let old = segment.file().clone();
        old.open()?;
        for (row, _) in listed {
            rows.push((row, old.clone(), segment.time_ms(row.id)));
        }
    }
    Ok(Some(Plan { epoch: state.epoch, bases, file, rows }))
}

/// Puts the rewritten segment in the place of the old ones, with what became of the rows meanwhile.
fn exchange(index: &mut Index, plan: &Plan, mut segment: Segment) -> Result<(), Error> {
    let mut now = BTreeMap::new();
    let mut old = Vec::new();
    for base in &plan.bases {
        // One that became empty meanwhile is not there any more.
        if let Some(mut gone) = index.remove_segment(*base) {
            now.extend(gone.rows()?.into_iter().map(|(row, doing)| (row.id, doing)));
            old.push(gone.file().clone());
        }
    }
    for (row, ..) in &plan.rows {
        let doing = now.get(&row.id).copied().unwrap_or(Doing::Gone);
        if doing != Doing::Waiting {
            segment.change(row.id, Doing::Waiting, doing)?;
        }
    }
    index.insert(segment);
    index.add_emptied(old);
    Ok(())
}

fn snapshot(state: &mut State, definition: &crate::Definition) -> Checkpoint {
    let listed = state.index.segments().filter_map(|segment| {
        Some(Listed {
            name: segment.file().name(),
            stored: segment.stored()?,
            live_bytes: segment.live_bytes(),
            oldest_ms: segment.oldest_ms(),
            runs: segment.runs(),
            live: segment.live(),
        })
    });
    Checkpoint {
        incarnation: state.incarnation,
        replay_from: state.log.as_ref().map_or(1, |log| log.file().name().number),
        next: state.active_next,
        definition: definition.clone(),
        segments: listed.collect(),
        journal: state.journal.clone(),
    }
}

/// Removes files; those that could not be removed are returned.
fn unlink(disk: &dyn Disk, files: Vec<Arc<SegmentFile>>) -> Vec<Arc<SegmentFile>> {
    let there = |path: &Path| disk.stat(path).is_ok();
    files.into_iter().filter(|file| disk.remove(&file.path()).is_err() && there(&file.path())).collect()
}
