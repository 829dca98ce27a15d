//! Cursors over the rows of a queue.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Error;
use crate::format::record::RowId;
use crate::index::RowState;
use crate::queue::Queue;
use crate::queue::lease_table::DeliveryInfo;
use crate::queue::state::State;
use crate::store::file::{ByteRange, SegmentReader};

/// Rows that a cursor locates at once.
const CURSOR_ROWS: usize = 128;

/// A cursor over rows. It skips rows that arrive later, and may still return rows that are removed
/// meanwhile.
pub struct Cursor {
    queue: Arc<Queue>,
    epoch: u64,
    next: RowId,
    end: RowId,
    visibility: Visibility,
    /// Whether it is a lessee's.
    leased: bool,
    /// The next rows: in which of the files, and where in it.
    ready: VecDeque<(RowId, usize, ByteRange)>,
    files: Vec<SegmentReader>,
    /// For each row in `ready`, if the queue's policy says that it is shown, and for the last row.
    infos: VecDeque<DeliveryInfo>,
    info: DeliveryInfo,
}

/// Which rows a cursor returns.
enum Visibility {
    /// Those that wait.
    Waiting,
    /// Those that nobody owns.
    Unowned,
    /// These, in the order of the queue.
    Own(std::vec::IntoIter<RowId>),
    /// All, to be copied; with those that were ended and are kept, or without.
    All(bool),
    /// All, owned or not.
    Live,
    /// Those that were ended and are kept.
    Kept,
}

impl Cursor {
    fn new(queue: &Arc<Queue>, epoch: u64, next: RowId, end: RowId, visibility: Visibility) -> Cursor {
        let (queue, ready, files) = (queue.clone(), VecDeque::new(), Vec::new());
        let (leased, infos, info) = (false, VecDeque::new(), DeliveryInfo::default());
        Cursor { queue, epoch, next, end, visibility, leased, ready, files, infos, info }
    }

    /// A walk over the rows that exist now.
    fn of_now(queue: &Arc<Queue>, first: RowId, visibility: Visibility) -> Cursor {
        let state = queue.lock();
        let (epoch, end) = (state.epoch, state.arrived);
        drop(state);
        Cursor::new(queue, epoch, first, end, visibility)
    }

    /// A cursor from this row on, including owned rows.
    #[must_use]
    pub fn starting_at(queue: &Arc<Queue>, first: RowId) -> Cursor {
        Cursor::of_now(queue, first, Visibility::Live)
    }

    /// A cursor over the rows without an owner, including scheduled ones.
    #[must_use]
    pub fn of_unowned(queue: &Arc<Queue>) -> Cursor {
        Cursor::of_now(queue, RowId(0), Visibility::Unowned)
    }

    /// A walk over the rows that wait.
    pub(crate) fn of_waiting(queue: &Arc<Queue>) -> Cursor {
        Cursor::of_now(queue, RowId(0), Visibility::Waiting)
    }

    /// A walk over these rows, which are from this epoch of the queue and were taken in this order.
    pub(crate) fn of_own(queue: &Arc<Queue>, epoch: u64, mut rows: Vec<RowId>) -> Cursor {
        let end = rows.iter().max().map_or(RowId(0), |last| RowId(last.0 + 1));
        if queue.definition().order.priority.is_none() {
            rows.sort_unstable();
        }
        Cursor::new(queue, epoch, RowId(0), end, Visibility::Own(rows.into_iter()))
    }

    /// Says that it is the lessee who walks.
    pub(crate) fn for_lessee(self) -> Cursor {
        Cursor { leased: true, ..self }
    }

    /// A cursor over acknowledged rows that are kept.
    #[must_use]
    pub fn of_kept(queue: &Arc<Queue>) -> Cursor {
        Cursor::of_now(queue, RowId(0), Visibility::Kept)
    }

    /// A walk over all rows, for copying; also over those that were ended and are kept.
    pub(crate) fn of_all(queue: &Arc<Queue>, epoch: u64, end: RowId, kept: bool) -> Cursor {
        Cursor::new(queue, epoch, RowId(0), end, Visibility::All(kept))
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The end: the next row id when the cursor was opened.
    #[must_use]
    pub fn end(&self) -> RowId {
        self.end
    }

    /// The next row and its id.
    ///
    /// # Errors
    /// Those of [`Queue::read`].
    pub fn advance(&mut self) -> Result<Option<(RowId, &[u8])>, Error> {
        if self.ready.is_empty() && self.next < self.end {
            self.fill()?;
        }
        let Some((id, file, range)) = self.ready.pop_front() else { return Ok(None) };
        if let Some(info) = self.infos.pop_front() {
            self.info = info;
        }
        Ok(Some((id, self.files[file].row(id, range)?)))
    }

    fn shows_delivery_info(&self) -> bool {
        let policy = &self.queue.definition().policy;
        policy.shows_delivery_info || self.leased && policy.is_set()
    }

    /// Delivery information of the last row, if the queue's policy shows it.
    #[must_use]
    pub fn delivery_info(&self) -> &DeliveryInfo {
        &self.info
    }

    /// Reads a row by its id, whatever the position of the cursor.
    ///
    /// # Errors
    /// Those of [`Queue::read`].
    pub fn read(&mut self, id: RowId) -> Result<Option<Vec<u8>>, Error> {
        if self.shows_delivery_info() {
            self.info = self.queue.lock().leases.delivery_info(id, self.leased);
        }
        self.queue.read(id)
    }

    fn fill(&mut self) -> Result<(), Error> {
        let queue = self.queue.clone();
        let mut state = queue.lock();
        state.usable()?;
        queue.touch(&mut state);
        if state.epoch == self.epoch { self.locate(&mut state) } else { Ok(()) }
    }

    /// Looks up where the next rows are, in the state of its queue and epoch.
    pub(super) fn locate(&mut self, state: &mut State) -> Result<(), Error> {
        let shows_info = self.shows_delivery_info();
        self.files.clear();
        if let Visibility::Own(rows) = &self.visibility {
            self.ready.reserve(rows.len().min(CURSOR_ROWS));
        }
        while self.ready.len() < CURSOR_ROWS {
            let found = match &mut self.visibility {
                Visibility::Own(rows) => rows.next(),
                Visibility::Waiting => state.index.next_waiting(self.next)?,
                Visibility::All(true) => state.index.next_there(self.next)?,
                Visibility::Kept => state.index.next_kept(self.next)?,
                Visibility::All(false) | Visibility::Live | Visibility::Unowned => {
                    state.index.next_live(self.next)?
                }
            };
            let Some(id) = found.filter(|id| *id < self.end) else {
                self.next = self.end;
                break;
            };
            if !matches!(self.visibility, Visibility::Own(_)) {
                self.next = RowId(id.0 + 1);
            }
            if matches!(self.visibility, Visibility::Unowned) && state.index.row_state(id)? == RowState::Owned
            {
                continue;
            }
            let Some((file, range)) = state.index.byte_range(id)? else { continue };
            if self.files.last().is_none_or(|last| !last.is_of(file)) {
                self.files.push(SegmentReader::of(file)?);
            }
            self.ready.push_back((id, self.files.len() - 1, range));
            if matches!(self.visibility, Visibility::All(_)) {
                note_copied(state, id)?;
            }
            if shows_info {
                self.infos.push_back(state.leases.delivery_info(id, self.leased));
            }
        }
        Ok(())
    }
}

/// Notes what a queue that is copied knows of the next row that is read.
fn note_copied(state: &mut State, id: RowId) -> Result<(), Error> {
    let ended_s = if state.index.row_state(id)? == RowState::Kept {
        let before = state.copy_state.as_ref().and_then(|copy_state| copy_state.ended_s(id));
        // One that is in no run would be given again as a row that was never ended.
        before.or_else(|| state.index.retained.ended_s(id)).or(Some(0))
    } else {
        None
    };
    let leases = &state.leases;
    let is_known = leases.get(id).is_some() || leases.failure(id).is_some();
    let is_owned = is_known || state.owners.contains_key(&id);
    let readers = state.readers.bits_ended(id);
    state.copy_state.iter_mut().for_each(|copy_state| match ended_s {
        Some(ended_s) => copy_state.note_kept(ended_s),
        None => copy_state.note(id, is_owned, readers),
    });
    Ok(())
}
