//! Records what was read in the journal, a table after its last chunk.

use std::sync::PoisonError;

use server::Session;

use super::shared::Shared;
use crate::Error;
use crate::journal::Step;
use crate::manifest::Chunk;
use crate::reading::table_check::{TABLES_PER_CHECK, TableCheck};

impl Shared<'_> {
    /// Records a chunk. After a table's last chunk, checks that the table is still the one in the catalogue.
    pub(super) fn chunk_done(
        &self,
        session: &mut Session,
        at: usize,
        chunk: Option<Chunk>,
    ) -> Result<(), Error> {
        if self.add_chunk(at, chunk)? { self.checked(session, &[at]).remove(0) } else { Ok(()) }
    }

    /// Records a chunk. Returns whether it was the table's last one.
    pub(super) fn add_chunk(&self, at: usize, chunk: Option<Chunk>) -> Result<bool, Error> {
        if let Some(chunk) = &chunk {
            self.job.journal.add(&Step::Chunk(at, chunk.clone()))?;
        }
        let mut state = self.state(at);
        state.open -= usize::from(chunk.is_some());
        state.chunks.extend(chunk);
        Ok(state.planned && state.open == 0)
    }

    /// Checks tables that were read completely, and continues without those that were altered.
    pub(super) fn check_tables(&self, session: &mut Session, tables: &[usize]) -> Result<(), Error> {
        for some in tables.chunks(TABLES_PER_CHECK) {
            for (at, checked) in some.iter().zip(self.checked(session, some)) {
                self.survive(*at, checked)?;
            }
        }
        Ok(())
    }

    /// Checks that tables are still those in the catalogue, and records those that are.
    fn checked(&self, session: &mut Session, tables: &[usize]) -> Vec<Result<(), Error>> {
        let check = TableCheck { tables: &self.manifest.tables, settled: self.job.settled };
        let found = check.check(session, tables);
        tables.iter().zip(found).map(|(at, found)| self.whole(*at, found?)).collect()
    }

    /// Records a table that was read, and its AUTO_INCREMENT counter, if rows have moved that.
    fn whole(&self, at: usize, counter: Option<u64>) -> Result<(), Error> {
        if counter.is_some() {
            self.state(at).counter = counter;
        }
        self.job.journal.add(&Step::Table(at))?;
        self.tallies[at].end(&*self.job.context.progress);
        if !self.manifest.tables[at].table.is_transactional() {
            self.unlock_one();
        }
        Ok(())
    }

    /// A table that no snapshot covers was read. The last one ends the locks on all of them.
    fn unlock_one(&self) {
        let mut locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        locked.0 = locked.0.saturating_sub(1);
        if locked.0 == 0 {
            locked.1 = None;
        }
    }
}
