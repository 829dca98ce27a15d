//! Dumps the tables: one session plans chunks, the others read them, largest tables first.

use std::sync::PoisonError;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use server::Session;
use server::snapshot::Snapshot;

use super::altered::{leave_out, read_again};
use super::shared::{Job, STOPPED, Shared, State, is_damage};
use super::table_ids::TableIds;
use crate::manifest::{Chunk, Manifest};
use crate::reading::read_units;
use crate::reading::table_check::explain;
use crate::{Error, plan};

/// What one session does at a time.
enum Task {
    /// A chunk to be read.
    Chunk {
        table: usize,
        chunk: Chunk,
        /// The bytes it was planned with, by which the time it takes is judged.
        bytes: u64,
    },
    /// Small tables to be read into one file, and the file's number.
    SmallTables { tables: Vec<usize>, file: u32 },
}

/// Reads the rows of all tables into files, and records the chunks in the manifest. Returns a line for each
/// table whose rows the server can't read.
pub(super) fn run(
    job: Job<'_>,
    snapshot: &mut Snapshot,
    identities: &TableIds,
    manifest: &mut Manifest,
) -> Result<Vec<String>, Error> {
    let total = manifest.tables.iter().filter(|entry| entry.is_due()).map(|entry| entry.table.bytes).sum();
    job.context.progress.phase("dumping", Some(total));
    let shared = Shared::new(job, manifest, snapshot.take_locks());
    let mut sessions = std::mem::take(&mut snapshot.sessions).into_iter();
    let mut planner = sessions.next();
    std::thread::scope(|scope| {
        let (send, tasks) = crossbeam_channel::bounded::<Task>(job.request.read.sessions);
        for session in sessions {
            let (tasks, shared) = (tasks.clone(), &shared);
            scope.spawn(move || shared.failure.guard(|| shared.work(session, &tasks)));
        }
        drop(tasks);
        shared.failure.guard(|| match &mut planner {
            Some(session) => shared.plan(session, &send),
            None => Ok(()),
        });
        drop(send);
    });
    shared.failure.into_result()?;
    let altered = shared.altered.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut damaged = shared.damaged.into_inner().unwrap_or_else(PoisonError::into_inner);
    let states: Vec<State> = shared
        .states
        .into_iter()
        .map(|state| state.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect();
    for (entry, state) in manifest.tables.iter_mut().zip(states).filter(|(entry, _)| entry.is_due()) {
        state.store(entry);
    }
    let Some(mut session) = planner else { return Ok(Vec::new()) };
    for (at, what) in altered.into_iter().filter(|(at, _)| !damaged.contains_key(at)).collect::<Vec<_>>() {
        let name = &manifest.tables[at].table.name;
        if !identities.same(&TableIds::read(&mut session)?, name) {
            return Err(Error::Altered { table: name.to_string(), what });
        }
        match read_again(job, &mut session, manifest, (at, what)) {
            Err(Error::Object { source, .. }) if is_damage(&source) => {
                damaged.insert(at, source.to_string());
            }
            done => done?,
        }
    }
    damaged.into_iter().map(|(at, what)| leave_out(job, manifest, at, &what)).collect()
}

impl Shared<'_> {
    fn plan(&self, session: &mut Session, tasks: &Sender<Task>) -> Result<(), Error> {
        let mut order: Vec<usize> = (0..self.manifest.tables.len()).collect();
        order.retain(|at| self.manifest.tables[*at].is_due());
        order.sort_by_key(|at| {
            let table = &self.manifest.tables[*at].table;
            (table.is_transactional(), std::cmp::Reverse(table.bytes))
        });
        let (small, large) = read_units::split(&self.manifest.tables, order, self.manifest.data_format);
        for at in large {
            let table = &self.manifest.tables[at].table;
            let mut number = 0;
            let mut hand_on = |partitions, range, bytes| {
                let chunk = Chunk::planned(number, partitions, range);
                number += 1;
                self.state(at).open += 1;
                self.send(tasks, Task::Chunk { table: at, chunk, bytes })
            };
            let planned =
                read_units::plan(&self.manifest.tables[at], session, &|| self.pace().bytes(), &mut hand_on);
            self.survive(at, planned.map_err(|error| explain(error, table)))?;
            session.execute(plan::RELEASE_LOCKS)?;
            self.state(at).planned = true;
            let closed = self.chunk_done(session, at, None);
            self.survive(at, closed)?;
        }
        // The numbers continue after those of files that a stopped dump has left.
        let chunks = self.manifest.tables.iter().flat_map(|entry| &entry.chunks);
        let kept = chunks.filter_map(|chunk| Some(chunk.within?.file + 1)).max().unwrap_or(0);
        for (file, tables) in (kept..).zip(small) {
            for at in &tables {
                let mut state = self.state(*at);
                (state.planned, state.open) = (true, 1);
            }
            self.send(tasks, Task::SmallTables { tables, file })?;
        }
        Ok(())
    }

    fn send(&self, tasks: &Sender<Task>, task: Task) -> Result<(), Error> {
        // If nobody takes it any more, the reason is in `error`.
        tasks.send(task).ok();
        if self.must_end() { Err(Error::Stopped(STOPPED)) } else { Ok(()) }
    }

    fn work(&self, mut session: Session, tasks: &Receiver<Task>) -> Result<(), Error> {
        for task in tasks {
            if self.must_end() {
                return Err(Error::Stopped(STOPPED));
            }
            self.throttle.begin(&mut session, &|| self.must_end())?;
            match task {
                Task::Chunk { table, .. } if self.is_out(table) => {}
                Task::Chunk { table, chunk, bytes } => {
                    let began = Instant::now();
                    let done = self.read_alone(&mut session, table, chunk);
                    self.survive(table, done)?;
                    self.pace().note(bytes, began.elapsed());
                }
                Task::SmallTables { tables, file } => self.read_small_tables(&mut session, tables, file)?,
            }
        }
        Ok(())
    }
}
