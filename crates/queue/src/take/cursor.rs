//! Walks over the rows of a queue.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Error;
use crate::format::record::RowId;
use crate::index::Doing;
use crate::queue::Queue;
use crate::queue::lease::Known;
use crate::queue::state::State;
use crate::store::file::{Reading, Spot};

/// Rows that a cursor locates at once.
const CURSOR_ROWS: usize = 128;

/// A walk over the rows that a session sees. It leaves out rows that arrive later, and may show rows that go
/// meanwhile.
pub struct Cursor {
    queue: Arc<Queue>,
    epoch: u64,
    next: RowId,
    end: RowId,
    sees: Sees,
    /// Whether it is a lessee's.
    leased: bool,
    /// The next rows: in which of the files, and where in it.
    ready: VecDeque<(RowId, usize, Spot)>,
    files: Vec<Reading>,
    /// For each row in `ready`, if the queue's policy says that it is shown, and for the last row.
    noted: VecDeque<Known>,
    known: Known,
}

/// Which rows a cursor returns.
enum Sees {
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
    fn new(queue: &Arc<Queue>, epoch: u64, next: RowId, end: RowId, sees: Sees) -> Cursor {
        let (queue, ready, files) = (queue.clone(), VecDeque::new(), Vec::new());
        let (leased, noted, known) = (false, VecDeque::new(), Known::default());
        Cursor { queue, epoch, next, end, sees, leased, ready, files, noted, known }
    }

    /// A walk over the rows that exist now.
    fn of_now(queue: &Arc<Queue>, first: RowId, sees: Sees) -> Cursor {
        let state = queue.lock();
        let (epoch, end) = (state.epoch, state.arrived);
        drop(state);
        Cursor::new(queue, epoch, first, end, sees)
    }

    /// A walk over the rows from this one on, including owned ones.
    #[must_use]
    pub fn starting_at(queue: &Arc<Queue>, first: RowId) -> Cursor {
        Cursor::of_now(queue, first, Sees::Live)
    }

    /// A walk over the rows that nobody owns, also those that are due later.
    #[must_use]
    pub fn of_unowned(queue: &Arc<Queue>) -> Cursor {
        Cursor::of_now(queue, RowId(0), Sees::Unowned)
    }

    /// A walk over the rows that wait.
    pub(crate) fn of_waiting(queue: &Arc<Queue>) -> Cursor {
        Cursor::of_now(queue, RowId(0), Sees::Waiting)
    }

    /// A walk over these rows, which are from this epoch of the queue and were taken in this order.
    pub(crate) fn of_own(queue: &Arc<Queue>, epoch: u64, mut rows: Vec<RowId>) -> Cursor {
        let end = rows.iter().max().map_or(RowId(0), |last| RowId(last.0 + 1));
        if queue.definition().order.priority.is_none() {
            rows.sort_unstable();
        }
        Cursor::new(queue, epoch, RowId(0), end, Sees::Own(rows.into_iter()))
    }

    /// Says that it is the lessee who walks.
    pub(crate) fn for_lessee(self) -> Cursor {
        Cursor { leased: true, ..self }
    }

    /// A walk over the rows that were ended and are kept.
    #[must_use]
    pub fn of_kept(queue: &Arc<Queue>) -> Cursor {
        Cursor::of_now(queue, RowId(0), Sees::Kept)
    }

    /// A walk over all rows, for copying; also over those that were ended and are kept.
    pub(crate) fn of_all(queue: &Arc<Queue>, epoch: u64, end: RowId, kept: bool) -> Cursor {
        Cursor::new(queue, epoch, RowId(0), end, Sees::All(kept))
    }

    /// The queue it walks over.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The row before which it ends: the id that the next row had when the walk began.
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
        let Some((id, file, spot)) = self.ready.pop_front() else { return Ok(None) };
        if let Some(known) = self.noted.pop_front() {
            self.known = known;
        }
        Ok(Some((id, self.files[file].row(id, spot)?)))
    }

    fn is_noted(&self) -> bool {
        let policy = &self.queue.definition().policy;
        policy.noted || self.leased && policy.is_set()
    }

    /// What is known of the last row besides, if the queue's policy says that it is shown.
    #[must_use]
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Reads a row of the queue, wherever the walk is.
    ///
    /// # Errors
    /// Those of [`Queue::read`].
    pub fn read(&mut self, id: RowId) -> Result<Option<Vec<u8>>, Error> {
        if self.is_noted() {
            self.known = self.queue.lock().leases.known(id, self.leased);
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
        let noted = self.is_noted();
        self.files.clear();
        if let Sees::Own(rows) = &self.sees {
            self.ready.reserve(rows.len().min(CURSOR_ROWS));
        }
        while self.ready.len() < CURSOR_ROWS {
            let found = match &mut self.sees {
                Sees::Own(rows) => rows.next(),
                Sees::Waiting => state.index.next_waiting(self.next)?,
                Sees::All(true) => state.index.next_there(self.next)?,
                Sees::Kept => state.index.next_kept(self.next)?,
                Sees::All(false) | Sees::Live | Sees::Unowned => state.index.next_live(self.next)?,
            };
            let Some(id) = found.filter(|id| *id < self.end) else {
                self.next = self.end;
                break;
            };
            if !matches!(self.sees, Sees::Own(_)) {
                self.next = RowId(id.0 + 1);
            }
            if matches!(self.sees, Sees::Unowned) && state.index.doing(id)? == Doing::Owned {
                continue;
            }
            let Some((file, spot)) = state.index.spot(id)? else { continue };
            if self.files.last().is_none_or(|last| !last.is_of(file)) {
                self.files.push(Reading::of(file)?);
            }
            self.ready.push_back((id, self.files.len() - 1, spot));
            if matches!(self.sees, Sees::All(_)) {
                note_copied(state, id)?;
            }
            if noted {
                self.noted.push_back(state.leases.known(id, self.leased));
            }
        }
        Ok(())
    }
}

/// Notes what a queue that is copied knows of the next row that is read.
fn note_copied(state: &mut State, id: RowId) -> Result<(), Error> {
    let ended_s = if state.index.doing(id)? == Doing::Kept {
        let before = state.copying.as_ref().and_then(|copying| copying.ended_s(id));
        // One that is in no run would be given again as a row that was never ended.
        before.or_else(|| state.index.keeps.ended_s(id)).or(Some(0))
    } else {
        None
    };
    let leases = &state.leases;
    let is_known = leases.get(id).is_some() || leases.past(id).is_some();
    let is_owned = is_known || state.owners.contains_key(&id);
    let ended = state.readers.iter().map(|reader| u64::from(reader.ended.end_of(id.0).is_some()));
    let readers = ended.enumerate().fold(0, |bits, (nth, ended)| bits | ended << nth);
    state.copying.iter_mut().for_each(|copying| match ended_s {
        Some(ended_s) => copying.note_kept(ended_s),
        None => copying.note(id, is_owned, readers),
    });
    Ok(())
}
