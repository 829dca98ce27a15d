//! Rows that have no tries left are moved to the queue for them. It notes the origin of each in the same
//! record, as it does for relayed rows: a crash in between moves a row again, and it is there once.

use std::path::Path;

use crate::Error;
use crate::format::batch::Incarnation;
use crate::format::origin::{Origin, Source};
use crate::format::policy::Past;
use crate::format::record::RowId;
use crate::queue::Queue;
use crate::queue::state::State;
use crate::store::file::Location;
use crate::sync::{MutexGuard, wait};

/// Rows that are moved together, at most.
const ROWS_MAX: usize = 512;

/// The rows that are moved together have about this many bytes at most.
const BYTES_MAX: usize = 1 << 22;

/// How long to wait after rows could not be moved, milliseconds.
const AGAIN_MS: u64 = 2000;

/// A row on its way.
struct Moving {
    id: RowId,
    past: Past,
    place: Location,
}

impl Queue {
    /// Moves the rows that have no tries left to the queue for them, if there is one. If somebody is at it,
    /// this waits for them first.
    ///
    /// # Errors
    /// Why some could not be moved; they stay here and are given to nobody.
    pub fn bury(&self) -> Result<(), Error> {
        let Some(folder) = self.definition.policy.dead.as_deref() else { return Ok(()) };
        {
            let mut state = self.lock();
            while state.burial.busy {
                state = wait(&self.turn, state);
            }
            // Its copy would not know which rows are gone and which are there.
            if state.leases.dead().is_empty() || state.copying.is_some() {
                return Ok(());
            }
            state.burial.busy = true;
        }
        let burying = Burying { queue: self };
        let moved = burying.all(folder);
        drop(burying);
        let mut state = self.lock();
        let up_ms = self.clock().up_ms;
        state.burial.not_before_ms = if moved.is_err() { up_ms.saturating_add(AGAIN_MS) } else { 0 };
        state.burial.why = moved.as_ref().err().cloned();
        // Those that could not be moved, and those that came meanwhile.
        if !state.leases.dead().is_empty() {
            state.leases.scheduled = None;
            self.schedule_due(&mut state, up_ms);
        }
        moved
    }

    /// The state while nobody writes or moves rows, so that what is copied from now on is all there is. What
    /// may be in the other queue already is gone here.
    pub(crate) fn unburied(&self) -> Result<MutexGuard<'_, State>, Error> {
        match self.bury() {
            // There it can't be.
            Ok(()) | Err(Error::Missing { .. } | Error::Grave { .. } | Error::Dropped) => {}
            Err(error) => return Err(error),
        }
        let mut state = self.lock();
        while state.burial.busy || state.writing || state.led {
            state = wait(&self.turn, state);
        }
        Ok(state)
    }

    /// Like [`Queue::bury`], unless that failed a moment ago.
    pub(crate) fn bury_due(&self) -> Result<(), Error> {
        if self.bury_at(&self.lock()).is_none_or(|at| at > self.clock().up_ms) {
            return Ok(());
        }
        self.bury()
    }

    /// When to move rows that have no tries left.
    pub(crate) fn bury_at(&self, state: &State) -> Option<u64> {
        let some = self.definition.policy.dead.is_some() && !state.leases.dead().is_empty();
        (some && !state.burial.busy).then_some(state.burial.not_before_ms)
    }

    /// Why rows that have no tries left are still here: nothing when there are none.
    #[must_use]
    pub fn why_unburied(&self) -> Option<String> {
        let state = self.lock();
        let none = || "the table has no DEAD".to_owned();
        let why = || state.burial.why.as_ref().map_or_else(none, Error::to_string);
        (!state.leases.dead().is_empty()).then(why)
    }

    /// Some rows to move, from this one on, with their epoch, where they are from, and the lowest row that
    /// may still come.
    fn dying(&self, first: RowId) -> Result<(u64, Incarnation, RowId, Vec<Moving>), Error> {
        let mut state = self.lock();
        state.usable()?;
        let ids: Vec<RowId> = state.leases.dead().range(first..).copied().take(ROWS_MAX).collect();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for id in ids {
            let known = state.leases.known(id, false);
            let Some(mut place) = state.index.locate(id)? else { continue };
            bytes += place.spot.len;
            if bytes > BYTES_MAX && !rows.is_empty() {
                break;
            }
            place.open()?;
            rows.push(Moving { id, past: Past::new(known.failed, &known.why), place });
        }
        let floor = state.floor()?;
        Ok((state.epoch, state.incarnation, floor, rows))
    }

    /// Adds rows of another queue, and what is known of them, unless they came before. With other columns
    /// none can be added. Returns those that are there; they are durable then.
    fn receive(
        &self,
        (from, floor): (Incarnation, RowId),
        rows: &[Moving],
        fits: bool,
    ) -> Result<Vec<RowId>, Error> {
        let mut read = Vec::with_capacity(rows.len());
        for row in rows {
            read.push(row.place.read(row.id)?);
        }
        let mut state = self.room()?;
        if state.copying.is_some() {
            return Err(Error::Copied);
        }
        let mut there = Vec::with_capacity(rows.len());
        for (row, bytes) in rows.iter().zip(read) {
            let source = Source::Incarnation(from);
            let origin = Origin { source, row: row.id.0, floor: floor.0, overwrite: false };
            let duplicate = state.is_duplicate(&origin);
            state.counters.duplicates += u64::from(duplicate);
            if duplicate || fits {
                there.push(row.id);
            }
            if duplicate || !fits {
                continue;
            }
            let id = state.next;
            state.gather_row(&bytes, None, Some(&origin));
            state.come(&self.keys_of(&[&bytes]), self.shared.now_ms());
            if self.definition.policy.is_set() {
                state.gather.new_past(id, row.past.clone());
            }
        }
        self.commit(state)?;
        self.sync().map(|()| there)
    }
}

/// Marks that somebody moves rows, as long as this value lives.
struct Burying<'queue> {
    queue: &'queue Queue,
}

impl Burying<'_> {
    /// Moves all rows to the queue in this folder.
    fn all(&self, folder: &Path) -> Result<(), Error> {
        let (queue, grave) = (self.queue, || Error::Grave { folder: folder.to_owned() });
        let to = queue.shared.open(folder)?;
        if to.number == queue.number {
            return Err(grave());
        }
        let fits = to.definition.schema == queue.definition.schema;
        let mut first = RowId(0);
        loop {
            let _moving = queue.shared.begin_move()?;
            let (epoch, from, floor, rows) = queue.dying(first)?;
            let Some(last) = rows.last() else { return if fits { Ok(()) } else { Err(grave()) } };
            first = RowId(last.id.0 + 1);
            // Else a crash could bring the rows back with fewer failed tries, while they are there too.
            queue.sync()?;
            let there = to.receive((from, floor), &rows, fits)?;
            queue.acknowledge(epoch, &there, queue.gone())?;
            queue.lock().counters.buried += there.len() as u64;
        }
    }
}

impl Drop for Burying<'_> {
    fn drop(&mut self) {
        self.queue.lock().burial.busy = false;
        self.queue.turn.notify_all();
    }
}
