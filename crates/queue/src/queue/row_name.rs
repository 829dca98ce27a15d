//! Names of rows that no other row ever has: what put a row into a queue finds out whether it is still there.

use crate::Error;
use crate::format::record::RowId;
use crate::queue::Queue;
use crate::queue::state::State;

impl Queue {
    /// Whether the row of this name waits, is due later, or somebody has it. A row without tries left does not
    /// count, and no row does after the queue was truncated or replaced by a copy.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Disk`] when the index can't be read; [`Error::Failed`] and
    /// [`Error::Dropped`] when the queue is out of service.
    pub fn has_row(&self, name: &str) -> Result<bool, Error> {
        let mut state = self.lock();
        state.usable()?;
        let Some((of, id)) = name.split_once(':') else { return Ok(false) };
        let Ok(id) = id.parse().map(RowId) else { return Ok(false) };
        let is_live = of == hex(&state) && state.index.row_state(id)?.is_live();
        Ok(is_live && !state.leases.dead().contains(&id))
    }

    /// The name of the first row that a prepared transaction adds.
    pub(crate) fn name_of_added(&self, tx: u64) -> Option<String> {
        let state = self.lock();
        let (first, count) = state.transactions.open.get(&tx)?.rows;
        (count > 0).then(|| format!("{}:{first}", hex(&state)))
    }
}

fn hex(state: &State) -> String {
    state.incarnation.iter().map(|byte| format!("{byte:02x}")).collect()
}
