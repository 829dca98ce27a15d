//! Opens a queue: reads the checkpoint, then what was written after it.

mod replay;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::Disk;

use crate::Error;
use crate::format::batch::{
    self, BATCH_HEADER, Incarnation, IndexLocation, Kind, SEGMENT_HEADER, SegmentId, SegmentName,
};
use crate::format::checkpoint::{self, Checkpoint, Definition};
use crate::format::lease_record::{Lease, Leases, Phase};
use crate::format::origin::Journal;
use crate::format::paused_keys;
use crate::format::readers::RowIdSet;
use crate::format::record::{RowId, decode};
use crate::format::retry_policy::FailureInfo;
use crate::format::segment_index::SegmentIndex;
use crate::format::transaction::Transactions;
use crate::index::dedupe_window::DedupeWindow;
use crate::index::scheduled::{ScheduledRows, postpone_all};
use crate::index::{Index, Segment};
use crate::row_attributes::AttributeReader;
use crate::store::file::SegmentFile;
use crate::store::files::OpenFiles;
use crate::store::folder::Folder;
use crate::store::log::Log;
use replay::{LogReplay, ReplayedBatch};

/// A segment after its replay.
struct ReplayedSegment {
    file: Arc<SegmentFile>,
    /// The end of its valid part.
    end: u64,
    sealed: bool,
}

/// A queue as it was found on disk.
pub(crate) struct RecoveredQueue {
    pub(crate) folder: Arc<Folder>,
    pub(crate) definition: Definition,
    pub(crate) attribute_reader: Option<AttributeReader>,
    pub(crate) state: RecoveredState,
}

/// What changes in a queue, as it was found on disk.
pub(crate) struct RecoveredState {
    pub(crate) incarnation: Incarnation,
    pub(crate) index: Index,
    pub(crate) journal: Journal,
    pub(crate) transactions: Transactions,
    /// The rows that the prepared transactions own.
    pub(crate) prepared_rows: Vec<(u64, Vec<RowId>)>,
    /// Those that are over count as such, and own their rows until somebody looks.
    pub(crate) leases: Leases,
    /// What is known of rows besides.
    pub(crate) failures: Vec<(RowId, FailureInfo)>,
    pub(crate) scheduled: ScheduledRows,
    pub(crate) dedupe_window: DedupeWindow,
    /// For each reader: the rows that it has ended, and another one has not.
    pub(crate) ended: Vec<RowIdSet>,
    /// The id of the next row.
    pub(crate) next: RowId,
    /// The id that the next row had when the active segment began.
    pub(crate) active_next: RowId,
    pub(crate) log: Log,
    /// Whether somebody has paused it.
    pub(crate) is_paused: bool,
}

/// Reads the queue in a folder, and removes files that are not part of it.
///
/// `now_ms`: which rows are due.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    files: &Arc<OpenFiles>,
    path: &Path,
    now_ms: u64,
) -> Result<RecoveredQueue, Error> {
    let checkpoint = Checkpoint::read(&**disk, path)?;
    let folder = Folder::new(disk.clone(), files.clone(), path);
    let numbers = clean(&**disk, path, &checkpoint)?;
    let mut replay = LogReplay::new(&checkpoint, now_ms)?;
    sealed_segments(&folder, &checkpoint, &mut replay)?;
    let log = replay_all(&folder, &checkpoint, &numbers, &mut replay)?;
    let paused = path.join(checkpoint::PAUSED);
    let is_paused = match disk.stat(&paused) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        other => other.map(|_| true).map_err(Error::disk(&paused))?,
    };
    let Checkpoint { incarnation, definition, leases, .. } = checkpoint;
    let prepared_rows = own_prepared(&mut replay)?;
    let leases = Leases { rows: own_leased(&mut replay)?, ..leases };
    let failures = live_failures(&mut replay)?;
    let held_rows: BTreeSet<RowId> = prepared_rows.iter().flat_map(|(_, rows)| rows).copied().collect();
    let scheduled = postpone_all(&mut replay.index, &replay.dues, now_ms, &held_rows)?;
    replay.index.pause_keys(&paused_keys::read(&**disk, path)?)?;
    // Nobody waits yet.
    replay.index.take_ready();
    let ended = only_live(&mut replay.index, std::mem::take(&mut replay.ended))?;
    Ok(RecoveredQueue {
        folder,
        definition,
        attribute_reader: replay.attribute_reader,
        state: RecoveredState {
            incarnation,
            index: replay.index,
            journal: replay.journal,
            transactions: replay.transactions,
            prepared_rows,
            leases,
            failures,
            scheduled,
            dedupe_window: replay.dedupe_window,
            ended,
            next: replay.next,
            active_next: replay.active_next,
            log,
            is_paused,
        },
    })
}

/// Takes the rows of the transactions that are still prepared.
fn own_prepared(replay: &mut LogReplay) -> Result<Vec<(u64, Vec<RowId>)>, Error> {
    let mut held = Vec::new();
    for (tx, prepared) in &replay.transactions.open {
        let mut rows = Vec::new();
        for (first, count) in prepared.ranges() {
            rows.extend(replay.index.take_run(RowId(first), count)?);
        }
        held.push((*tx, rows));
    }
    Ok(held)
}

/// Takes the rows that nobody is given because of their leases. One that a prepared transaction ends is taken
/// already; its lease continues if it comes back. Returns what is known of rows that are not gone.
fn own_leased(replay: &mut LogReplay) -> Result<Vec<Lease>, Error> {
    let mut known = Vec::new();
    for (row, mut lease) in std::mem::take(&mut replay.leases) {
        if !replay.index.row_state(row)?.is_live() {
            continue;
        }
        if lease.blocks_delivery() && !replay.index.take(row)? && !lease.has_valid_token() {
            lease.phase = Phase::Free;
        }
        if lease.phase == Phase::Dead {
            replay.index.unblock_group(row)?;
        }
        known.push(lease);
    }
    Ok(known)
}

/// The sets of readers without rows that are not there.
fn only_live(index: &mut Index, ended: Vec<RowIdSet>) -> Result<Vec<RowIdSet>, Error> {
    let mut kept = Vec::with_capacity(ended.len());
    for ids in ended {
        let mut live = RowIdSet::default();
        for (first, end) in ids.runs() {
            let mut from = RowId(first);
            while let Some(id) = index.next_live(from)?.filter(|id| id.0 < end) {
                live.add(id.0, id.0 + 1);
                from = RowId(id.0 + 1);
            }
        }
        kept.push(live);
    }
    Ok(kept)
}

/// What is known of rows that are not gone.
fn live_failures(replay: &mut LogReplay) -> Result<Vec<(RowId, FailureInfo)>, Error> {
    let mut known = Vec::new();
    for (row, failure) in std::mem::take(&mut replay.failures) {
        if replay.index.row_state(row)?.is_live() {
            known.push((row, failure));
        }
    }
    Ok(known)
}

/// Removes what is not part of the queue. Returns the numbers of the segments to replay.
fn clean(disk: &dyn Disk, folder: &Path, checkpoint: &Checkpoint) -> Result<BTreeSet<u64>, Error> {
    let listed: BTreeSet<_> = checkpoint.segments.iter().map(|listed| listed.name).collect();
    let mut numbers = BTreeSet::new();
    for name in disk.list(folder).map_err(Error::disk(folder))?.into_iter().map(PathBuf::from) {
        let segment = SegmentName::parse(&name.to_string_lossy());
        match segment {
            Some(segment) if listed.contains(&segment) => {}
            Some(segment) if segment.number >= checkpoint.replay_from && segment.generation == 0 => {
                numbers.insert(segment.number);
            }
            _ if checkpoint::is_ours(&name) && !name.to_str().is_some_and(checkpoint::is_fixed) => {
                let file = folder.join(name);
                disk.remove(&file).map_err(Error::disk(&file))?;
            }
            _ => {}
        }
    }
    Ok(numbers)
}

fn sealed_segments(
    folder: &Arc<Folder>,
    checkpoint: &Checkpoint,
    replay: &mut LogReplay,
) -> Result<(), Error> {
    let mut scheduled = Vec::new();
    for listed in &checkpoint.segments {
        let (incarnation, features) = (checkpoint.incarnation, checkpoint.features());
        let segment_id = SegmentId { incarnation, features, name: listed.name };
        let file = SegmentFile::new(folder, segment_id);
        let stat = folder.disk().stat(&file.path());
        let stat = stat.map_err(|error| file.corrupt(&format!("a missing segment ({error})"), 0))?;
        if stat.len != listed.stored.file_len {
            return Err(file.corrupt("a segment of the wrong length", stat.len.min(listed.stored.file_len)));
        }
        let segment =
            Segment::unread(file, listed.stored, listed.runs.clone(), listed.live, listed.live_bytes);
        scheduled.extend(listed.scheduled.then(|| segment.base()));
        let segment = segment.with_oldest(listed.oldest_ms);
        let all_kept = listed.kept > 0 && listed.kept == listed.live;
        replay.index.insert(if all_kept { segment.with_all_kept() } else { segment });
    }
    replay.index.adopt_kept(&checkpoint.kept)?;
    replay.dues = replay.index.load(&scheduled)?;
    replay.index.order()?;
    Ok(())
}

fn replay_all(
    folder: &Arc<Folder>,
    checkpoint: &Checkpoint,
    numbers: &BTreeSet<u64>,
    replay: &mut LogReplay,
) -> Result<Log, Error> {
    let mut last = numbers.last().copied().unwrap_or(checkpoint.replay_from);
    if last > checkpoint.replay_from && !is_begun(&segment_file(folder, checkpoint, last))? {
        last -= 1;
    }
    let mut active: Option<ReplayedSegment> = None;
    for number in checkpoint.replay_from..=last {
        let file = segment_file(folder, checkpoint, number);
        let bytes = read_whole(folder.disk(), &file)?;
        let header = batch::decode_segment_header(&file.path(), &bytes, file.id());
        if active.as_ref().is_some_and(|before| !before.sealed) {
            return Err(file.corrupt("a segment after one without an end", 0));
        }
        replay.active_next = header?;
        replay.next = replay.next.max(replay.active_next);
        active = Some(replay_segment(file, &bytes, number == last, replay)?);
    }
    match active {
        Some(active) if !active.sealed => Log::resume(folder, active.file, active.end),
        Some(active) => {
            replay.active_next = replay.next;
            let segment_id = *active.file.id();
            let number = segment_id.name.number + 1;
            Log::create(
                folder,
                SegmentId { name: SegmentName { number, ..segment_id.name }, ..segment_id },
                replay.next,
            )
        }
        None => Err(Error::Corrupt {
            file: folder.path().join(checkpoint::FILE),
            what: format!("no segment {:016x} to begin with", checkpoint.replay_from),
            offset: 0,
        }),
    }
}

fn segment_file(folder: &Arc<Folder>, checkpoint: &Checkpoint, number: u64) -> Arc<SegmentFile> {
    SegmentFile::new(folder, SegmentId::active(checkpoint.incarnation, checkpoint.features(), number))
}

/// Whether the last segment is part of the log. A crash may leave a segment whose header is incomplete, or
/// the first one of an emptying that did not take effect. Nothing was written to it, and it is removed.
fn is_begun(file: &SegmentFile) -> Result<bool, Error> {
    let bytes = read_whole(file.disk(), file)?;
    let begun =
        bytes.len() > SEGMENT_HEADER || batch::decode_segment_header(&file.path(), &bytes, file.id()).is_ok();
    if !begun {
        file.disk().remove(&file.path()).map_err(Error::disk(&file.path()))?;
    }
    Ok(begun)
}

fn read_whole(disk: &dyn Disk, file: &SegmentFile) -> Result<Vec<u8>, Error> {
    let path = file.path();
    let missing = |error: io::Error| file.corrupt(&format!("a missing segment ({error})"), 0);
    let mut source = disk.open(&path).map_err(missing)?;
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).map_err(Error::disk(&path))?;
    Ok(bytes)
}

fn replay_segment(
    file: Arc<SegmentFile>,
    bytes: &[u8],
    last: bool,
    replay: &mut LogReplay,
) -> Result<ReplayedSegment, Error> {
    let mut at = SEGMENT_HEADER;
    let mut sealed = false;
    while at < bytes.len() {
        let Some((header, body)) = batch::open(&bytes[at..], file.id(), at as u64) else { break };
        match header.kind {
            Kind::Records => {
                let records = decode(body, header.first, file.id().features)
                    .map_err(|(what, inside)| file.corrupt(what, (at + BATCH_HEADER + inside) as u64))?;
                let body_at = (at + BATCH_HEADER) as u64;
                let batch = ReplayedBatch { file: &file, body, body_at, time_ms: header.time_ms };
                for record in records {
                    replay.apply(&batch, record)?;
                }
                at += BATCH_HEADER + body.len();
            }
            Kind::Index => {
                let len = (BATCH_HEADER + body.len()) as u64;
                let stored = IndexLocation { offset: at as u64, len, file_len: at as u64 + len };
                let listed = SegmentIndex::decode(body, header.first, file.id().features)
                    .ok_or_else(|| file.corrupt("an invalid index", at as u64))?;
                replay.index.keep_listed(&file, &listed.rows)?;
                at += BATCH_HEADER + body.len();
                replay.index.seal(&file, stored);
                sealed = true;
                break;
            }
        }
    }
    let whole = at == bytes.len();
    if sealed && !whole {
        return Err(file.corrupt("bytes after the end of a segment", at as u64));
    }
    if !whole && (!last || batch::was_synced(bytes, file.id(), at)) {
        return Err(file.corrupt("a batch with a wrong checksum", at as u64));
    }
    Ok(ReplayedSegment { file, end: at as u64, sealed })
}
