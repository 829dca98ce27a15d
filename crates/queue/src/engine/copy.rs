//! A queue that is copied and then replaced by its copy, as ALTER TABLE does. Meanwhile nobody takes a row.
//! Owners find their rows in the copy, and rows that they end while the copy is made do not come back with
//! it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::consumer::cursor::Cursor;
use crate::format::dedupe::DedupeEntry;
use crate::format::lease_record::{Lease, Phase};
use crate::format::origin::Journal;
use crate::format::readers::RowIdSet;
use crate::format::record::RowId;
use crate::format::retention::RetainedRun;
use crate::format::retry_policy::{FailureInfo, RetryPolicy};
use crate::queue::Queue;
use crate::queue::copy_state::{CopyState, Successor};
use crate::queue::lease_table::Clock;
use crate::queue::owner::Ownership;
use crate::queue::state::State;
use crate::queue::waiter::Notification;
use crate::sync::MutexGuard;
use crate::{Definition, Error};

impl Queue {
    /// Lets nobody take a row until [`Queue::end_copy`], so that [`Queue::copy_cursor`] can copy the rows.
    ///
    /// # Errors
    /// [`Error::Prepared`]; [`Error::ReadersActive`]; [`Error::Disk`] and [`Error::Backup`] when rows could
    /// not be moved to the queue for those that have no tries left; [`Error::Failed`] and [`Error::Dropped`]
    /// when the queue is out of service.
    pub fn begin_copy(&self) -> Result<(), Error> {
        let mut state = self.lock_without_dead_letters()?;
        state.usable()?;
        state.nothing_prepared()?;
        // A row that comes back to a reader would come back to the queue that is replaced.
        match state.readers.owned() {
            0 => {}
            rows => return Err(Error::ReadersActive { rows }),
        }
        state.holds += 1;
        state.copy_state = Some(CopyState::default());
        Ok(())
    }

    /// Whether the queue is not there any more: it was dropped, or a copy has its place.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.lock().dropped
    }

    /// Ends [`Queue::begin_copy`]; waiting sessions look again.
    pub fn end_copy(&self) {
        self.lock().copy_state = None;
        self.end_hold();
    }

    /// Lets nobody take a row until [`Queue::end_hold`].
    ///
    /// # Errors
    /// [`Error::Failed`] and [`Error::Dropped`] when the queue is out of service.
    pub fn hold(&self) -> Result<(), Error> {
        let mut state = self.lock();
        state.usable()?;
        state.holds += 1;
        Ok(())
    }

    /// Ends [`Queue::hold`]; waiting sessions look again.
    pub fn end_hold(&self) {
        let mut state = self.lock();
        state.holds = state.holds.saturating_sub(1);
        state.waiters.wake_all(&Notification::Again);
    }

    /// All rows of a queue that is held back, including owned ones, and with `kept` those that were ended and
    /// are kept: the copy keeps them too, or ends them if it keeps none. The caller must publish each of them
    /// to the copy in this order, and nothing else.
    #[must_use]
    pub fn copy_cursor(self: &Arc<Queue>, kept: bool) -> Cursor {
        let mut state = self.lock();
        let mut before = if kept { state.index.retained.runs_and(&[]) } else { Vec::new() };
        before.sort_by_key(|run| run.first);
        state.copy_state.iter_mut().for_each(|copy_state| copy_state.before = before.clone());
        Cursor::of_all(self, state.epoch, state.next, kept)
    }

    /// Whether a row that was copied is owned or kept, or was when it was copied.
    #[must_use]
    pub fn copied_owned(&self) -> bool {
        let state = self.lock();
        let copy_state = state.copy_state.as_ref();
        copy_state.is_some_and(|copy_state| !copy_state.rows.is_empty() || !copy_state.kept.is_empty())
    }

    /// Notes that the copy has all rows. From now on a crash may leave either of the two queues. When this
    /// returns, everything that was ended and relayed here is so in the copy too; what is ended later is
    /// ended in both.
    ///
    /// # Errors
    /// [`Error::Prepared`]; those of [`Queue::publish`], on both.
    pub fn copied_to(&self, copy: &Arc<Queue>) -> Result<(), Error> {
        let mut state = self.lock_flushed()?;
        let result = complete(&mut state, self.definition(), copy);
        state.maintaining = false;
        self.release_write_lock(&mut state);
        result
    }

    /// The state at a moment when nobody writes or tidies up and nothing waits to be written. If this queue
    /// comes back in the end, the rows that were ended must not come back with it.
    fn lock_flushed(&self) -> Result<MutexGuard<'_, State>, Error> {
        loop {
            self.flush()?;
            let mut state = self.lock_exclusively();
            if state.next_batch.bytes.is_empty() {
                return Ok(state);
            }
            state.maintaining = false;
            self.release_write_lock(&mut state);
        }
    }

    /// Has `replace` put the copy into this queue's place. From then on whoever owns a row here owns it
    /// there; rows that were ended here are gone there; rows that were relayed here are known there. This
    /// queue then answers as a dropped one does. [`Engine::rename`](crate::Engine::rename) of its folder
    /// undoes that: the rows that nobody had ended wait in it again.
    ///
    /// # Errors
    /// What `replace` fails with, and those of [`Queue::publish`] on the copy: both queues are then as
    /// before.
    pub fn replaced_by(
        &self,
        copy: &Arc<Queue>,
        replace: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut state = self.lock_flushed()?;
        // Nobody can end a row meanwhile, because that takes this queue's lock.
        let result = complete(&mut state, self.definition(), copy).and_then(|()| {
            let (owned, known) = (state.copied_owners(), state.copied_leases(self.clock()));
            let epoch = copy.adopt_owners(&owned, known)?;
            replace().inspect_err(|_| copy.disown_all(&owned)).map(|()| epoch)
        });
        if let Ok(epoch) = &result {
            let rows = state.copy_state.take().map(|copy_state| copy_state.rows).unwrap_or_default();
            state.dropped = true;
            state.waiters.wake_all(&Notification::Dropped);
            let of = state.epoch;
            self.successor.get_or_init(|| Successor { queue: copy.clone(), epoch: *epoch, of, rows });
        }
        state.maintaining = false;
        self.release_write_lock(&mut state);
        result.map(|_| ())
    }

    /// Takes over which rows are gone or kept, which came by relay, which numbers leases had, and which keys
    /// came a short time ago.
    fn adopt(&self, gone: &[RowId], known: CopiedState) -> Result<(), Error> {
        let kept: Vec<RowId> = known.kept.iter().flat_map(|run| run.first..run.end()).map(RowId).collect();
        if !kept.is_empty() {
            // In a closed segment a checkpoint says which rows are there, also when they have gone with their
            // time; in the active one the records do.
            self.lock().closing = true;
            self.end_copied(&kept)?;
        }
        if known.is_any() {
            let _maintenance = self.begin_maintenance()?;
            let mut state = self.lock();
            state.journal = known.journal.clone();
            state.leases.follow(known.numbers);
            state.dedupe.window.adopt(&known.dedupe_entries);
            state.index.replace_kept(&known.kept)?;
            state.readers.adopt(known.ended);
            self.schedule_due(&mut state, self.clock().up_ms);
            self.note_rows(&state);
            drop(state);
            self.checkpoint()?;
            self.lock().leases.allow();
        }
        self.end_copied(gone)
    }

    /// Gives rows the owners and the leases that they have in the queue which this one replaces. Returns the
    /// epoch of this queue.
    fn adopt_owners(&self, owned: &[(RowId, Ownership)], known: CopiedLeases) -> Result<u64, Error> {
        let mut state = self.lock();
        state.usable()?;
        let features = state.features(self.definition());
        let policy = &self.definition().policy;
        let leases = known.leases.into_iter().filter_map(|lease| lease_under(lease, policy, features));
        let leases: Vec<Lease> = leases.collect();
        let holding: BTreeSet<RowId> =
            leases.iter().filter(|lease| lease.blocks_delivery()).map(|lease| lease.row).collect();
        // What a lease held here may be free there.
        let stays = |(id, of): &&(RowId, Ownership)| !of.owner.is_lease() || holding.contains(id);
        for (id, ownership) in owned.iter().filter(stays) {
            // It was due when it was given, whatever it says in the new shape.
            state.make_due(*id)?;
            // The last row may have been left out of the copy.
            if state.is_waiting(*id)? {
                state.own(&[*id], *ownership)?;
            }
        }
        let clock = self.clock();
        for lease in leases {
            if state.index.row_state(lease.row)?.is_live() {
                state.next_batch.record_lease(&lease);
                if lease.phase == Phase::Dead {
                    state.index.unblock_group(lease.row)?;
                }
                state.leases.adopt(vec![lease], clock);
                if state.owners.get(&lease.row).is_some_and(|of| !of.owner.is_lease()) {
                    state.leases.begin_to_end(lease.row);
                }
            }
        }
        for (row, failure) in known.failures.into_iter().filter(|_| policy.is_set()) {
            if state.index.row_state(row)?.is_live() {
                state.next_batch.record_failure(row, &failure);
                state.leases.set_failure(row, failure);
            }
        }
        self.schedule_due(&mut state, clock.up_ms);
        self.schedule_flush(&mut state);
        Ok(state.epoch)
    }

    fn disown_all(&self, owned: &[(RowId, Ownership)]) {
        let mut state = self.lock();
        for (id, ownership) in owned {
            // The queue is about to be dropped by whoever made it.
            state.disown(&[*id], ownership.owner).ok();
        }
    }
}

/// Has the copy take over which of its rows are gone, unless it already has. `definition`: of this queue.
fn complete(state: &mut State, definition: &Definition, copy: &Arc<Queue>) -> Result<(), Error> {
    state.usable()?;
    // One may have been on its way when the queue was held back.
    state.nothing_prepared()?;
    let Some(copy_state) = &state.copy_state else { return Ok(()) };
    copy.set_paused(state.is_paused)?;
    copy.adopt_paused_keys(definition, &state.index.paused_keys())?;
    if copy_state.copy.is_some() {
        return Ok(());
    }
    let (mut gone, now_ms) = (Vec::new(), copy.shared.now_ms());
    for (old, new) in &copy_state.rows {
        if !state.index.row_state(*old)?.is_live() {
            gone.push(*new);
        }
    }
    let mut kept = copy_state.kept.clone();
    if !copy.definition().is_keeping() {
        gone.extend(kept.drain(..).flat_map(|run| run.first..run.end()).map(RowId));
        gone.sort_unstable();
    }
    let ended = reading_there(copy_state, &definition.readers, copy, &mut kept);
    if let Some((first, rest)) = ended.split_first() {
        // A reader that the copy does not have was the last that had not ended them.
        let rows = first.runs().flat_map(|(first, end)| first..end);
        gone.extend(rows.filter(|id| rest.iter().all(|ids| ids.end_of(*id).is_some())).map(RowId));
        gone.sort_unstable();
        gone.dedup();
    }
    let (journal, numbers) = (state.journal.clone(), state.leases.ceiling());
    copy.adopt(
        &gone,
        CopiedState { journal, numbers, dedupe_entries: state.dedupe.window.list(now_ms), kept, ended },
    )?;
    state.copy_state.iter_mut().for_each(|copy_state| copy_state.copy = Some(copy.clone()));
    Ok(())
}

/// What each reader of a copy has ended there: what the one of the same name has ended here. A new one begins
/// with the oldest row that is kept, so these are not kept there but wait for it.
fn reading_there(
    copy_state: &CopyState,
    names: &[String],
    copy: &Queue,
    kept: &mut Vec<RetainedRun>,
) -> Vec<RowIdSet> {
    let here = |name: &String| names.iter().position(|reader| reader == name);
    let readers: Vec<Option<usize>> = copy.definition().readers.iter().map(here).collect();
    let mut ended = vec![RowIdSet::default(); readers.len()];
    let waits = readers.contains(&None);
    let kept: Vec<RetainedRun> = if waits { std::mem::take(kept) } else { Vec::new() };
    for (reader, ids) in readers.iter().zip(&mut ended) {
        let Some(nth) = reader else { continue };
        let rows = copy_state.reading.iter().filter(|(_, readers)| readers >> nth & 1 == 1);
        rows.for_each(|(row, _)| ids.add(*row, row + 1));
        kept.iter().for_each(|run| ids.add(run.first, run.end()));
    }
    ended
}

impl State {
    /// The owned rows that were copied, with their ids in the copy.
    fn copied_owners(&self) -> Vec<(RowId, Ownership)> {
        let rows = self.copy_state.iter().flat_map(|copy_state| &copy_state.rows);
        rows.filter_map(|(old, new)| self.owners.get(old).map(|ownership| (*new, *ownership))).collect()
    }

    /// What is known of rows that were copied, with their ids in the copy.
    fn copied_leases(&self, clock: Clock) -> CopiedLeases {
        let rows = || self.copy_state.iter().flat_map(|copy_state| &copy_state.rows);
        let leased = rows().filter(|(old, _)| self.leases.get(**old).is_some());
        let leases = leased.map(|(old, new)| Lease { row: *new, ..self.leases.written(*old, clock) });
        let failures = rows().filter_map(|(old, new)| Some((*new, self.leases.failure(*old)?.clone())));
        CopiedLeases { leases: leases.collect(), failures: failures.collect() }
    }
}

/// What a queue that is copied knows besides its rows.
struct CopiedState {
    journal: Journal,
    /// Only numbers below this one have been given to leases.
    numbers: u64,
    dedupe_entries: Vec<DedupeEntry>,
    /// Rows of the copy that were ended here and are kept.
    kept: Vec<RetainedRun>,
    /// For each reader of the copy: the rows that it has ended, and another one has not.
    ended: Vec<RowIdSet>,
}

impl CopiedState {
    fn is_any(&self) -> bool {
        let known = self.journal != Journal::default() || self.numbers > 0;
        let read = self.ended.iter().any(|ended| ended.count() > 0);
        known || read || !self.dedupe_entries.is_empty() || !self.kept.is_empty()
    }
}

/// What is known of rows that were copied.
struct CopiedLeases {
    leases: Vec<Lease>,
    failures: Vec<(RowId, FailureInfo)>,
}

/// A lease as it continues under another policy, in files with these feature flags; nothing when they can't
/// have it.
fn lease_under(lease: Lease, policy: &RetryPolicy, features: u64) -> Option<Lease> {
    let phase = match lease.phase {
        Phase::Dead if !policy.is_exhausted(lease.failed) => Phase::Free,
        Phase::ExpiredDelayed(_) if !policy.is_set() => Phase::Expired,
        other => other,
    };
    Some(Lease { phase, ..lease }).filter(|lease| lease.features() & features != 0)
}
