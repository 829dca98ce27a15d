//! Loads a dump while it is being written: its journal lists the data files that are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use server::TableName;

use super::rows::TaskSource;
use crate::journal::{self, Reader, Step};
use crate::manifest::{self, Chunk, Manifest, TableEntry};
use crate::reading::throttle::pause;
use crate::{Context, Error};

/// How long to wait before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long a dump may take to begin, because one script often starts both.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);

/// A dump that is being made.
pub(crate) struct RunningDump {
    folder: PathBuf,
    id: String,
    /// Its tables, as numbered in the journal.
    names: Vec<TableName>,
    reader: Reader,
    /// Steps that were read but not handled yet.
    steps: Vec<Step>,
}

/// The progress of a table.
#[derive(Default)]
struct State {
    /// The chunks of a table that must be loaded in one piece.
    all: Vec<Chunk>,
    /// Numbers of chunks that were handed on.
    given: BTreeSet<u32>,
    whole: bool,
}

impl RunningDump {
    /// Waits until the dump has started. Returns the manifest as known at that time, and no follower if
    /// the dump is already complete.
    pub(super) fn begin(context: &Context, folder: &Path) -> Result<(Manifest, Option<RunningDump>), Error> {
        context.progress.phase("waiting for the dump to begin", None);
        let began = Instant::now();
        let mut reader = Reader::new(folder);
        loop {
            let alive = journal::is_locked(&*context.disk, folder)?;
            if let Some(manifest) = complete(context, folder)? {
                return Ok((manifest, None));
            }
            let mut steps =
                if alive { reader.steps(&*context.disk)?.into_iter() } else { Vec::new().into_iter() };
            if let Some(Step::Begin(manifest)) = steps.next() {
                let names = manifest.tables.iter().map(|entry| entry.table.name.clone()).collect();
                let (folder, id, steps) = (folder.to_owned(), manifest.id.clone(), steps.collect());
                return Ok((*manifest, Some(RunningDump { folder, id, names, reader, steps })));
            }
            // As long as somebody holds the lock, the dump is only slow to read the catalogue.
            if !alive && began.elapsed() >= BEGIN_WITHIN {
                return Err(Error::Mismatch(format!(
                    "{}: no dump into it was started within {} s",
                    folder.display(),
                    BEGIN_WITHIN.as_secs()
                )));
            }
            if context.is_stopped() {
                return Err(Error::Stopped("nothing was loaded"));
            }
            pause(LOOK_AGAIN);
        }
    }

    /// Hands on chunks as they are completed, until the dump is complete.
    pub(super) fn feed(&mut self, feed: &TaskSource<'_>) -> Result<(), Error> {
        let wanted = &feed.manifest().tables;
        let by_name: BTreeMap<&TableName, usize> =
            wanted.iter().enumerate().map(|(at, entry)| (&entry.table.name, at)).collect();
        let places: Vec<Option<usize>> = self.names.iter().map(|name| by_name.get(name).copied()).collect();
        let mut states: Vec<State> = wanted.iter().map(|_| State::default()).collect();
        // What an earlier run of the dump has completed is there from the beginning.
        for (at, entry) in wanted.iter().enumerate().filter(|(_, entry)| entry.earlier.is_some()) {
            states[at].rest(feed, (at, entry), &entry.chunks)?;
        }
        loop {
            let alive = journal::is_locked(feed.disk(), &self.folder)?;
            let manifest = complete(feed.context(), &self.folder)?;
            self.steps.extend(self.reader.steps(feed.disk())?);
            for step in std::mem::take(&mut self.steps) {
                let at = match &step {
                    Step::Chunk(table, _) | Step::Table(table) => places.get(*table).copied().flatten(),
                    Step::Again(table) if places.get(*table).copied().flatten().is_none() => None,
                    Step::Again(_) => {
                        return Err(self.ended("a table was altered during the dump and is being read again"));
                    }
                    Step::Failed(why) => return Err(self.ended(why)),
                    Step::Begin(_) => return Err(self.ended("it was begun again")),
                };
                if let Some(at) = at {
                    states[at].step(feed, (at, &wanted[at]), step)?;
                }
            }
            if let Some(manifest) = manifest {
                let complete = self.entries(&manifest)?;
                for (at, entry) in wanted.iter().enumerate() {
                    let chunks = &self.entry(&complete, entry)?.chunks;
                    states[at].rest(feed, (at, entry), chunks)?;
                }
                return Ok(());
            }
            if !alive {
                return Err(self.ended("it was killed"));
            }
            feed.check_running()?;
            pause(LOOK_AGAIN);
        }
    }

    /// Takes over what is known only from the complete dump.
    pub(super) fn finish(&self, context: &Context, into: &mut Manifest) -> Result<(), Error> {
        let manifest = Manifest::read(&*context.disk, &self.folder)?;
        let complete = self.entries(&manifest)?;
        for entry in &mut into.tables {
            entry.set_chunks(self.entry(&complete, entry)?.chunks.clone());
        }
        Ok(())
    }

    /// The tables of the complete dump, by name.
    fn entries<'a>(&self, manifest: &'a Manifest) -> Result<BTreeMap<&'a TableName, &'a TableEntry>, Error> {
        if manifest.id != self.id {
            return Err(self.replaced());
        }
        Ok(manifest.tables.iter().map(|entry| (&entry.table.name, entry)).collect())
    }

    fn entry<'a>(
        &self,
        complete: &BTreeMap<&TableName, &'a TableEntry>,
        entry: &TableEntry,
    ) -> Result<&'a TableEntry, Error> {
        complete.get(&entry.table.name).copied().ok_or_else(|| self.replaced())
    }

    fn replaced(&self) -> Error {
        self.ended("another dump has replaced it")
    }

    fn ended(&self, why: &str) -> Error {
        Error::Mismatch(format!(
            "{}: the dump that was followed is not complete: {why}. What was loaded is on the server, without \
             proof: drop it, and the database `_remora`, before another load",
            self.folder.display()
        ))
    }
}

impl State {
    fn step(
        &mut self,
        feed: &TaskSource<'_>,
        (at, entry): (usize, &TableEntry),
        step: Step,
    ) -> Result<(), Error> {
        match step {
            Step::Chunk(_, chunk) if !entry.table.is_transactional() => self.all.push(chunk),
            Step::Chunk(_, chunk) => {
                self.given.insert(chunk.number);
                feed.send_chunk(at, chunk)?;
            }
            Step::Table(_) => {
                let known = std::mem::take(&mut self.all);
                self.rest(feed, (at, entry), &known)?;
            }
            Step::Begin(_) | Step::Failed(_) | Step::Again(_) => {}
        }
        Ok(())
    }

    /// Hands on the remaining chunks of a complete table.
    fn rest(
        &mut self,
        feed: &TaskSource<'_>,
        (at, entry): (usize, &TableEntry),
        chunks: &[Chunk],
    ) -> Result<(), Error> {
        if std::mem::replace(&mut self.whole, true) {
            return Ok(());
        }
        if !entry.table.is_transactional() {
            let mut chunks = chunks.to_vec();
            chunks.sort_by_key(|chunk| chunk.number);
            return feed.send_table(at, chunks);
        }
        for chunk in chunks {
            if self.given.insert(chunk.number) {
                feed.send_chunk(at, chunk.clone())?;
            }
        }
        Ok(())
    }
}

/// The manifest of a dump that is complete.
fn complete(context: &Context, folder: &Path) -> Result<Option<Manifest>, Error> {
    match context.disk.stat(&folder.join(manifest::NAME)) {
        Ok(_) => Manifest::read(&*context.disk, folder).map(Some),
        Err(_) => Ok(None),
    }
}
