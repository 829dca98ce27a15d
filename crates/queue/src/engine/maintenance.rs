//! Maintenance: compaction of sparse segments, checkpoints, removal of empty files.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use disk::Output;

use crate::Error;
use crate::format::batch::{
    self, BATCH_HEADER, Header, IndexLocation, Kind, SEGMENT_HEADER, SegmentId, SegmentName,
};
use crate::format::checkpoint::{Checkpoint, CheckpointSegment};
use crate::format::record::{RowId, encode_moved};
use crate::format::segment_index::IndexedRow;
use crate::index::{Index, NewRow, RowState, Segment};
use crate::queue::Queue;
use crate::queue::commit::{fail, fail_if_lost};
use crate::queue::state::State;
use crate::row_attributes::{AttributeReader, RowAttributes};
use crate::store::file::{ByteRange, RowLocation, SegmentFile, unlink};
use crate::store::folder::Folder;
use crate::store::log::Log;
use crate::sync::wait;

/// Bytes of a batch of rewritten rows.
const MOVED_BATCH: usize = 1 << 20;

/// A segment is small when it has less than 1/`SMALL` of the bytes of a full one. Small segments are
/// merged...
const SMALL: u64 = 8;

/// ...when this many of them are neighbours.
const MANY: usize = 8;

/// What to rewrite: consecutive segments, and the rows in them.
struct Plan {
    epoch: u64,
    /// The first ids of the segments, which are their keys in the index.
    bases: Vec<RowId>,
    file: Arc<SegmentFile>,
    rows: Vec<PlannedRow>,
}

/// A row that is moved.
struct PlannedRow {
    row: IndexedRow,
    file: Arc<SegmentFile>,
    inserted_ms: u64,
    /// It keeps its place among the others, also if priorities age.
    priority: i64,
}

/// Marks that somebody compacts or writes a checkpoint, as long as this value lives.
pub(crate) struct MaintenanceGuard<'queue>(&'queue Queue);

impl Drop for MaintenanceGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if std::thread::panicking() {
            fail(&mut state, &Error::Failed { why: "a panic during maintenance".into() });
        }
        state.maintaining = false;
        self.0.write_lock_released.notify_all();
    }
}

impl Queue {
    /// Rewrites sparse segments, writes a checkpoint and removes files that hold nothing.
    ///
    /// # Errors
    /// [`Error::Disk`], [`Error::Corrupt`]: the queue stays in service, and this is tried again later;
    /// [`Error::Failed`] and [`Error::Dropped`] when it is out of service.
    pub fn maintain(&self) -> Result<(), Error> {
        self.maintain_with(Segment::is_sparse)
    }

    /// Like [`Queue::maintain`], but rewrites every sealed segment that has a dead row.
    ///
    /// # Errors
    /// Those of [`Queue::maintain`].
    pub fn compact(&self) -> Result<(), Error> {
        self.maintain_with(Segment::has_dead)
    }

    fn maintain_with(&self, worth: fn(&Segment) -> bool) -> Result<(), Error> {
        let _maintenance = self.begin_maintenance()?;
        let compacted = self.compact_all(worth);
        let checkpointed = self.checkpoint();
        let result = compacted.and(checkpointed);
        self.lock().counters.maintenance_errors += u64::from(result.is_err());
        result
    }

    /// Waits until nobody compacts or writes a checkpoint, and keeps others from it.
    pub(crate) fn begin_maintenance(&self) -> Result<MaintenanceGuard<'_>, Error> {
        let mut state = self.lock();
        while state.maintaining {
            state = wait(&self.write_lock_released, state);
        }
        state.usable()?;
        self.touch(&mut state);
        state.maintaining = true;
        Ok(MaintenanceGuard(self))
    }

    fn compact_all(&self, worth: fn(&Segment) -> bool) -> Result<(), Error> {
        let mut from = RowId(0);
        loop {
            let mut state = self.lock();
            state.usable()?;
            let limit = self.shared.options.segment_bytes;
            let Some(plan) = plan(&mut state, &self.folder, (from, limit), worth)? else { return Ok(()) };
            drop(state);
            from = plan.rows.last().map_or(from, |last| RowId(last.row.id.0 + 1));
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

    /// Writes the rows of a plan into a new file, without holding the lock.
    fn rewrite(&self, plan: &Plan) -> Result<Segment, Error> {
        let (disk, path, segment_id) = (self.folder.disk(), plan.file.path(), *plan.file.id());
        let first = plan.rows.first().map_or(RowId(0), |first| first.row.id);
        let mut segment = Segment::active(plan.file.clone(), first);
        let mut output = Output::create(disk, &path).map_err(Error::disk(&path))?;
        let mut put = |bytes: &[u8]| output.write_all(bytes).map_err(Error::disk(&path));
        put(&batch::encode_segment_header(&segment_id, first))?;
        let mut end = SEGMENT_HEADER as u64;
        let time_ms = self.shared.now_ms();
        let mut rows = plan.rows.iter().peekable();
        while let Some(next) = rows.peek() {
            let (first, mut before) = (next.row.id, next.row.id);
            let mut bytes = vec![0; BATCH_HEADER];
            while let Some(PlannedRow { row, file, inserted_ms, priority }) =
                rows.next_if(|_| bytes.len() < MOVED_BATCH)
            {
                let (inserted_ms, contents) = (*inserted_ms, place_of(row, file).read(row.id)?);
                let at = encode_moved(&mut bytes, row.id, before, inserted_ms, &contents);
                let (offset, len) = (end + at as u64, bytes.len() - at);
                let said =
                    AttributeReader::read(self.attribute_reader.as_ref(), time_ms, inserted_ms, &contents);
                let attributes = RowAttributes { priority: *priority, ..said };
                segment.push(&NewRow { id: row.id, offset, len, time_ms: inserted_ms, attributes });
                before = row.id;
            }
            batch::seal(
                &mut bytes,
                &segment_id,
                end,
                &Header { kind: Kind::Records, first, synced: 0, time_ms },
            );
            put(&bytes)?;
            end += bytes.len() as u64;
        }
        let mut index = vec![0; BATCH_HEADER];
        segment.listing(time_ms).encode(&mut index, first, segment_id.features);
        batch::seal(&mut index, &segment_id, end, &Header { kind: Kind::Index, first, synced: 0, time_ms });
        put(&index)?;
        let len = index.len() as u64;
        segment.seal(IndexLocation { offset: end, len, file_len: end + len });
        output.finish().map_err(Error::disk(&path))?;
        Ok(segment)
    }

    /// Syncs what is applied, writes a checkpoint of it, and removes the files that the checkpoint does not
    /// list. Only one may run at a time: [`Queue::begin_maintenance`].
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        // So that the log is not behind the checkpoint.
        self.flush()?;
        let mut state = self.acquire_write_lock(self.lock());
        let snapshot = state.usable().map(|()| (snapshot(&mut state, self), state.index.take_emptied()));
        let mut log = state.log.take();
        drop(state);
        // A checkpoint must not be more durable than the rows that it lists.
        let synced = log.as_mut().map_or(Ok(()), Log::sync);
        let mut state = self.lock();
        state.log = log;
        if let Err(error) = &synced {
            fail_if_lost(&mut state, error);
        }
        self.release_write_lock(&mut state);
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
}

fn place_of(row: &IndexedRow, file: &Arc<SegmentFile>) -> RowLocation {
    let len = usize::try_from(row.len).unwrap_or(usize::MAX);
    RowLocation::new(file, ByteRange { offset: row.offset, len })
}

/// The next segments from `from` on that are worth rewriting and fit into one segment of `limit` bytes.
fn plan(
    state: &mut State,
    folder: &Arc<Folder>,
    (from, limit): (RowId, u64),
    worth: fn(&Segment) -> bool,
) -> Result<Option<Plan>, Error> {
    let mut bases: Vec<RowId> = Vec::new();
    let (mut bytes, mut segment_id, mut worthy) = (0, None, false);
    for segment in state.index.segments().filter(|segment| segment.base() >= from) {
        let first = bases.first().copied().unwrap_or(segment.base());
        let fits = bytes + segment.live_bytes() <= limit && segment.end().0 - first.0 < u64::from(u32::MAX);
        let wanted = segment.is_sealed() && (worth(segment) || segment.live_bytes() < limit / SMALL);
        if !wanted || !fits {
            if worthy || bases.len() >= MANY {
                break;
            }
            (bytes, segment_id, worthy) = (0, None, false);
            bases.clear();
            if !wanted {
                continue;
            }
        }
        worthy |= worth(segment);
        bytes += segment.live_bytes();
        segment_id.get_or_insert(*segment.file().id());
        bases.push(segment.base());
    }
    let Some(segment_id) = segment_id.filter(|_| worthy || bases.len() >= MANY) else { return Ok(None) };
    let name = SegmentName { generation: segment_id.name.generation + 1, ..segment_id.name };
    let file = SegmentFile::new(folder, SegmentId { name, ..segment_id });
    let mut rows = Vec::new();
    for base in &bases {
        let Some(segment) = state.index.segment_mut(*base) else { continue };
        let listed = segment.rows()?;
        let old = segment.file().clone();
        old.open()?;
        for (row, _) in listed {
            let (inserted_ms, priority) =
                (segment.time_ms(row.id), segment.row_keys(row.id)?.order_key.priority);
            rows.push(PlannedRow { row, file: old.clone(), inserted_ms, priority });
        }
    }
    Ok(Some(Plan { epoch: state.epoch, bases, file, rows }))
}

/// Puts the rewritten segment in the place of the old ones, and applies what happened to the rows meanwhile.
fn exchange(index: &mut Index, plan: &Plan, mut segment: Segment) -> Result<(), Error> {
    let mut now = BTreeMap::new();
    let mut old = Vec::new();
    for base in &plan.bases {
        // A segment that became empty meanwhile is already gone.
        if let Some(mut gone) = index.remove_segment(*base) {
            now.extend(gone.rows()?.into_iter().map(|(row, row_state)| (row.id, row_state)));
            old.push(gone.file().clone());
        }
    }
    for PlannedRow { row, .. } in &plan.rows {
        let row_state = now.get(&row.id).copied().unwrap_or(RowState::Gone);
        if row_state != RowState::Waiting {
            segment.change(row.id, RowState::Waiting, row_state)?;
        }
    }
    index.insert(segment);
    index.add_emptied(old);
    Ok(())
}

fn snapshot(state: &mut State, queue: &Queue) -> Checkpoint {
    let listed = state.index.segments().filter_map(|segment| {
        Some(CheckpointSegment {
            name: segment.file().name(),
            stored: segment.stored()?,
            live_bytes: segment.live_bytes(),
            oldest_ms: segment.oldest_ms(),
            runs: segment.runs(),
            live: segment.live(),
            scheduled: segment.scheduled() > 0 || state.scheduled.has_owned_in(segment.base()..segment.end()),
            kept: segment.kept(),
        })
    });
    // Those that are about to wait again do so when that is written.
    let cut: Vec<_> = state.next_batch.replayed.iter().map(|(_, run)| *run).collect();
    Checkpoint {
        incarnation: state.incarnation,
        replay_from: state.log.as_ref().map_or(1, |log| log.file().name().number),
        next: state.active_next,
        definition: queue.definition().clone(),
        segments: listed.collect(),
        journal: state.journal.clone(),
        transactions: state.transactions.clone(),
        leases: state.leases.snapshot(queue.clock()),
        failures: state.leases.failures(),
        dedupe_entries: state.dedupe.window.list(queue.shared.now_ms()),
        kept: state.index.retained.runs_and(&cut),
        ended: state.readers.ended(),
    }
}
