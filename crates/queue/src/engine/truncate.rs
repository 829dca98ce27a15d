//! Truncates a queue, and takes a dropped queue out of use.

use crate::Error;
use crate::format::batch::SegmentId;
use crate::format::checkpoint::Checkpoint;
use crate::format::lease_record::Leases;
use crate::format::origin::Journal;
use crate::format::record::RowId;
use crate::index::Index;
use crate::index::arrival_times::ArrivalTimes;
use crate::index::scheduled::ScheduledRows;
use crate::queue::Queue;
use crate::queue::batch::BatchBuilder;
use crate::queue::commit::fail;
use crate::queue::state::State;
use crate::queue::waiter::Notification;
use crate::store::file::unlink;
use crate::store::log::Log;

impl Queue {
    /// Removes all rows at once, including owned ones. Row ids start over, and so does the journal of relayed
    /// rows. Waiting sessions go on waiting.
    ///
    /// # Errors
    /// [`Error::Prepared`]; [`Error::Disk`]: all rows are still there, or, when that can't be known, the
    /// queue is out of service.
    pub fn truncate(&self) -> Result<(), Error> {
        let mut state = self.lock_exclusively();
        let usable = state.usable().and_then(|()| state.nothing_prepared());
        let result = usable.and_then(|()| self.start_over(&mut state));
        state.maintaining = false;
        self.release_write_lock(&mut state);
        result
    }

    fn start_over(&self, state: &mut State) -> Result<(), Error> {
        let incarnation = (self.shared.options.random)();
        let number = state.log.as_ref().map_or(1, |log| log.file().name().number + 1);
        let (folder, disk) = (self.folder.path(), self.folder.disk());
        let mut checkpoint = Checkpoint::first(incarnation, number, self.definition().clone());
        // Rows go, but a token from before must not fit a later lease.
        checkpoint.leases = Leases { rows: Vec::new(), ..state.leases.snapshot(self.clock()) };
        let segment_id = SegmentId::active(incarnation, state.features(self.definition()), number);
        let log = Log::create(&self.folder, segment_id, RowId(1))?;
        let written = checkpoint.begin(disk, &folder).map_err(Error::disk(&folder));
        let begun = written.inspect_err(|_| {
            // Nothing is decided yet: the new segment is not part of the queue, and must not look like its
            // last one.
            disk.remove(&log.file().path()).ok();
        })?;
        // After a failure from here on nobody knows which of the two states a crash would leave.
        let decided = begun.finish().map_err(Error::disk(&folder));
        decided.inspect_err(|error| fail(state, error))?;
        let old = state.log.replace(log).into_iter().map(|log| log.file().clone());
        let sealed = state.index.segments().map(|segment| segment.file().clone());
        let mut gone: Vec<_> = old.chain(sealed).collect();
        gone.extend(state.index.take_emptied());
        gone.sort_by_key(|file| file.name());
        gone.dedup_by_key(|file| file.name());
        state.next_batch = BatchBuilder::default();
        state.index = state.index.start_over(self.definition());
        state.index.add_emptied(unlink(self.folder.disk(), gone));
        state.incarnation = incarnation;
        state.epoch += 1;
        state.journal = Journal::default();
        state.owners.clear();
        state.leases.clear();
        (state.arrivals, state.scheduled) = (ArrivalTimes::from(RowId(1)), ScheduledRows::default());
        state.dedupe.clear();
        state.readers.clear();
        (state.next, state.arrived, state.active_next) = (RowId(1), RowId(1), RowId(1));
        self.note_rows(state);
        Ok(())
    }

    /// Puts a queue out of use before its files are removed. One that is out of service goes with its
    /// prepared transactions.
    pub(crate) fn drop_rows(&self) -> Result<(), Error> {
        let mut state = self.lock_exclusively();
        if state.usable().is_ok()
            && let Err(error) = state.nothing_prepared()
        {
            state.maintaining = false;
            self.release_write_lock(&mut state);
            return Err(error);
        }
        state.dropped = true;
        state.waiters.wake_all(&Notification::Dropped);
        std::mem::take(&mut state.next_batch).result.finish(Err(Error::Dropped));
        state.index = Index::default();
        state.owners.clear();
        state.leases.clear();
        state.scheduled = ScheduledRows::default();
        state.log = None;
        self.note_rows(&state);
        state.maintaining = false;
        self.release_write_lock(&mut state);
        Ok(())
    }
}
