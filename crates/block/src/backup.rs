//! Creates a generation: the volume is read once, and what changed is stored.

mod announce;
mod change;
mod changed_ranges;
mod request;
mod reread;
mod salvage;
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::backup::announce::{Announced, Announcer};
use crate::backup::change::{Changer, ChunkResult, block_of};
use crate::backup::changed_ranges::ReadPlan;
use crate::backup::salvage::{Salvage, Salvaged};
use crate::chain::{Chain, Chunk};
use crate::chunk_source::{BlockSet, ChunkRead, ChunkSource};
use crate::fetch::Fetcher;
use crate::format::{CHUNK_BLOCKS, Hash, Header, Record, chunks_of};
use crate::notes::{KnownDamage, NewestNote};
use crate::repository::{Repository, RepositoryState};
use crate::scan::RateLimiter;
use crate::writer::Writer;
use crate::{CHUNK, Error};
use crossbeam_channel::{Receiver, Sender, bounded};

pub use crate::backup::changed_ranges::ChangedRanges;
pub use crate::backup::request::{NewerCheck, Request, RunContext, Summary, SuspectCheck};

/// The maximum number of worker threads: more would only use more memory.
const JOBS_MAX: usize = 12;

/// How many blocks changed, and how many of them an interrupted run had stored.
#[derive(Default)]
struct Counts {
    changed: u64,
    reused: u64,
    healed: u64,
    /// The hashes of the blocks of the chunks that are read again, empty for a hole.
    sample: BTreeMap<u64, Vec<Hash>>,
}

/// A chunk on its way to a worker.
struct ChunkJob {
    number: u64,
    what: ChunkInput,
}

/// What is known about a chunk.
enum ChunkInput {
    /// It is unchanged; this is the hash of its content.
    Unchanged(Hash),
    /// It was read.
    Read {
        prior: Option<Chunk>,
        /// What an interrupted run has stored of it.
        salvaged: Option<Salvaged>,
        seen: ChunkRead,
        /// None if it is a hole.
        buffer: Option<Vec<u8>>,
        /// The blocks that may have changed, if this chunk is part of the sample that checks that.
        claimed: Option<BlockSet>,
    },
}

/// A chunk on its way to the file.
struct ProcessedChunk {
    number: u64,
    found: ChunkResult,
    buffer: Option<Vec<u8>>,
}

/// Creates a generation from what `source` reads.
///
/// # Errors
/// If the source can't be read completely, or the repository can't be written. Then there is no new
/// generation, and existing ones are unchanged. [`Error::Untracked`]: the list of changes is incomplete; the
/// backup can be retried without it.
pub fn backup(
    repository: &Repository,
    source: &mut dyn ChunkSource,
    request: &Request<'_>,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    let _alone = repository.lock_writer()?;
    let loaded = repository.load()?;
    let parent = if request.full { None } else { loaded.parent()? };
    let chain = parent.map(|newest| Chain::new(&loaded.generations, newest)).transpose()?;
    repository.retain(&loaded, chain.as_ref())?;
    leave_source(repository, &loaded)?;
    let failed = |source| Error::Source { name: request.name.to_owned(), source };
    if !request.is_frozen {
        source.settle();
    }
    let before = source.stat().map_err(failed)?;
    let parent_file = chain.as_ref().and_then(Chain::newest);
    let mut header = Header {
        generation: loaded.next_generation(),
        parent: parent.unwrap_or(0),
        parent_content: parent_file.map_or([0; 32], |file| file.trailer.content),
        len: before.len,
        taken_s: request.taken_s,
        note: request.note.clone(),
    };
    context.progress.phase("reading", Some(before.len));
    let salvage = Salvage::open(repository.store(), loaded.next_file(), &header);
    if salvage.is_some() {
        context.progress.note("an interrupted run has left a partial backup, which is reused");
    }
    let mut writer = Writer::create(repository.store(), loaded.next_file(), &header)?;
    let changed = request.changed.as_ref().filter(|changed| Some(changed.since) == parent);
    let (chain, len, damage) = (chain.as_ref(), AtomicU64::new(before.len), &loaded.damage);
    let pipeline = Pipeline {
        repository,
        request,
        context,
        chain,
        changed,
        len,
        damage,
        damage_seen: Mutex::default(),
        suspect_blocks: Mutex::default(),
    };
    let counts = match pipeline.run(source, salvage, &mut writer) {
        Ok(counts) => counts,
        Err(error) => {
            writer.leave();
            return Err(error);
        }
    };
    if let Err(error) = source.finish() {
        writer.leave();
        return Err(failed(error));
    }
    let note = source.note();
    if let Err(error) = writer.begin_anew(&mut header, (pipeline.len(), note.as_deref())) {
        writer.leave();
        return Err(error);
    }
    if let Err(error) = reread::check_unchanged(source, &before, &counts.sample, (request, context)) {
        writer.leave();
        return Err(error);
    }
    let (written, content) = writer.finish()?;
    let newest = NewestNote { generation: header.generation, file: loaded.next_file() };
    if let Err(error) = newest.write(repository.store()) {
        // The note only helps to notice a missing generation, and this one exists.
        let text = "the new generation is complete, but newest.note could not be written";
        context.progress.warn(&format!("{text}: {error}"));
    }
    let mut summary = summary(&header, &counts, (written, content));
    let (damage_seen, suspect_blocks) = pipeline.found();
    summary.damages = loaded.damages().map(ToString::to_string).chain(damage_seen).collect();
    summary.suspect_blocks = suspect_blocks;
    Ok(summary)
}

/// A backup into a mirror makes it independent: its files are no longer kept because the source has them.
fn leave_source(repository: &Repository, loaded: &RepositoryState) -> Result<(), Error> {
    let Some(mut note) = loaded.inventory.mirror_note.clone() else { return Ok(()) };
    if note.leave_source() { note.write(repository.store()) } else { Ok(()) }
}

/// The summary, without damage.
fn summary(header: &Header, counts: &Counts, (written, content): (u64, [u8; 32])) -> Summary {
    Summary {
        generation: header.generation,
        parent: header.parent,
        len: header.len,
        changed: counts.changed,
        reused: counts.reused,
        written,
        content,
        healed: counts.healed,
        damages: Vec::new(),
        suspect_blocks: Vec::new(),
    }
}

/// One thread reads, some hash and compress, and the caller's writes.
struct Pipeline<'a> {
    repository: &'a Repository,
    request: &'a Request<'a>,
    context: RunContext<'a>,
    chain: Option<&'a Chain>,
    /// The ranges that may have changed since the newest generation.
    changed: Option<&'a ChangedRanges>,
    /// Length of the volume in bytes, as far as it is known.
    len: AtomicU64,
    /// The known damage of the chain.
    damage: &'a KnownDamage,
    /// Damage found during this run.
    damage_seen: Mutex<BTreeSet<String>>,
    /// Blocks whose content can't be right.
    suspect_blocks: Mutex<BTreeSet<u64>>,
}

impl Pipeline<'_> {
    fn run(
        &self,
        source: &mut dyn ChunkSource,
        salvage: Option<Salvage>,
        writer: &mut Writer<'_>,
    ) -> Result<Counts, Error> {
        let workers = self.request.jobs.clamp(1, JOBS_MAX);
        // Buffers circulate: the writer returns them. The reader has one more.
        let count = 2 * workers + 1;
        let (give, take) = bounded(count);
        (0..count).try_for_each(|_| give.send(Vec::new())).map_err(|_| Error::Worker)?;
        let (to_workers, jobs) = bounded::<ChunkJob>(count);
        let (to_writer, done) = bounded::<Result<ProcessedChunk, Error>>(count);
        let fetcher = Fetcher::new(self.repository.store());
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || self.read(source, salvage, &take, &to_workers));
            for _ in 0..workers {
                let (jobs, to_writer, fetcher) = (jobs.clone(), to_writer.clone(), &fetcher);
                let is_suspect = self.request.is_suspect.map(|is_suspect| (is_suspect, &self.suspect_blocks));
                let changer = Changer::new(
                    fetcher,
                    self.changed.and(self.request.before),
                    &self.damage_seen,
                    is_suspect,
                );
                scope.spawn(move || self.work(&jobs, &to_writer, changer));
            }
            drop((jobs, to_writer));
            // Passed by value: when the writer is gone, nobody waits for its buffers.
            let written = self.write(writer, done, give);
            // What was read before the failure is still written: the next run continues from there.
            match (written, reader.join()) {
                (Err(Error::Worker) | Ok(_), Ok(Err(error))) => Err(error),
                // The writer may have ended where the reader would have learned that there is more.
                (Ok(_), Err(_)) => Err(Error::Worker),
                (written, _) => written,
            }
        })
    }

    fn read(
        &self,
        source: &mut dyn ChunkSource,
        mut salvage: Option<Salvage>,
        take: &Receiver<Vec<u8>>,
        to_workers: &Sender<ChunkJob>,
    ) -> Result<(), Error> {
        let mut limiter = RateLimiter::new(self.request.rate, self.context.stop);
        let mut announcer = Announcer::new(self.chain, self.plan());
        let mut spare = None;
        for number in 0.. {
            if number == chunks_of(self.len()) && !self.grows(source)? {
                break;
            }
            let (prior, claimed, bytes) = match announcer.chunk(source, self)? {
                Announced::Unchanged(content) => {
                    if to_workers.send(ChunkJob { number, what: ChunkInput::Unchanged(content) }).is_err() {
                        return Ok(());
                    }
                    continue;
                }
                Announced::Read { prior, claimed, bytes } => (prior, claimed, bytes),
            };
            match source.is_urgent() {
                true => limiter.check_stop()?,
                false => limiter.wait()?,
            }
            let mut buffer = match spare.take() {
                Some(buffer) => buffer,
                None => take.recv().map_err(|_| Error::Worker)?,
            };
            let seen = source.read(&mut buffer).map_err(|error| self.failed(number, error))?;
            let buffer = if seen == ChunkRead::Hole {
                spare = Some(buffer);
                None
            } else {
                limiter.count(bytes);
                Some(buffer)
            };
            let salvaged = salvage.as_mut().and_then(|salvage| salvage.chunk(number));
            let what = ChunkInput::Read { prior, salvaged, seen, buffer, claimed };
            if to_workers.send(ChunkJob { number, what }).is_err() {
                // The other threads have failed and reported it.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Length of the volume in bytes, as far as it is known.
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Whether the volume has grown.
    fn grows(&self, source: &mut dyn ChunkSource) -> Result<bool, Error> {
        let failed = |source| Error::Source { name: self.request.name.to_owned(), source };
        let (len, more) = (self.len(), source.more().map_err(failed)?);
        let Some(more) = more else { return Ok(false) };
        if len % CHUNK as u64 != 0 || chunks_of(more) <= chunks_of(len) {
            return Err(failed(io::Error::other("it does not grow by whole chunks")));
        }
        self.len.store(more, Ordering::Release);
        self.context.progress.phase("reading the rest", Some(more - len));
        Ok(true)
    }

    fn plan(&self) -> Option<ReadPlan> {
        let (changed, newest) = (self.changed?, self.chain?.newest()?);
        let seed = newest.trailer.content.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Some(ReadPlan::new(
            changed,
            newest.header.len,
            self.len(),
            seed ^ self.request.taken_s.cast_unsigned(),
        ))
    }

    fn failed(&self, chunk: u64, error: io::Error) -> Error {
        let source = if error.kind() == io::ErrorKind::UnexpectedEof && error.get_ref().is_none() {
            io::Error::new(error.kind(), format!("it ends before its length of {} bytes", self.len()))
        } else {
            error
        };
        Error::Source { name: format!("{} at byte {}", self.request.name, chunk * CHUNK as u64), source }
    }

    fn write(
        &self,
        writer: &mut Writer<'_>,
        done: Receiver<Result<ProcessedChunk, Error>>,
        give: Sender<Vec<u8>>,
    ) -> Result<Counts, Error> {
        let (mut next, mut counts) = (0, Counts::default());
        let sample = reread::Sample::new(self.request, self.len());
        let mut waiting = BTreeMap::new();
        for one in done {
            let one = one?;
            waiting.insert(one.number, one);
            while let Some(one) = waiting.remove(&next) {
                let ChunkResult { content, hashes, changes, reused, healed } = one.found;
                counts.healed += healed;
                writer.content(&content);
                if sample.has(next) {
                    counts.sample.insert(next, hashes);
                }
                if let Some((changes, bytes)) = changes {
                    counts.changed += changes.len() as u64;
                    counts.reused += if reused { changes.len() as u64 } else { 0 };
                    writer.add(Record { chunk: next, content, changes }, &bytes)?;
                }
                if let Some(buffer) = one.buffer {
                    // The reader may have read everything and need no more.
                    give.send(buffer).ok();
                }
                self.context.progress.read(bytes_of(next, self.len()) as u64);
                next += 1;
            }
        }
        if next == chunks_of(self.len()) { Ok(counts) } else { Err(Error::Worker) }
    }
}

/// The bytes of a chunk in a volume of `len` bytes.
fn bytes_of(chunk: u64, len: u64) -> usize {
    usize::try_from(len - chunk * CHUNK as u64).unwrap_or(CHUNK).min(CHUNK)
}

impl Pipeline<'_> {
    fn work(
        &self,
        jobs: &Receiver<ChunkJob>,
        to_writer: &Sender<Result<ProcessedChunk, Error>>,
        mut changer: Changer<'_>,
    ) {
        for ChunkJob { number, what } in jobs {
            let done = self.look_at(number, what, &mut changer);
            let failed = done.is_err();
            if to_writer.send(done).is_err() || failed {
                return;
            }
        }
    }

    fn look_at(
        &self,
        number: u64,
        what: ChunkInput,
        changer: &mut Changer<'_>,
    ) -> Result<ProcessedChunk, Error> {
        let (prior, salvaged, seen, buffer, claimed) = match what {
            ChunkInput::Unchanged(content) => {
                return Ok(ProcessedChunk { number, found: ChunkResult::unread(content), buffer: None });
            }
            ChunkInput::Read { prior, salvaged, seen, buffer, claimed } => {
                (prior, salvaged, seen, buffer, claimed)
            }
        };
        let found = match &buffer {
            None => ChunkResult::hole(prior.as_ref()),
            Some(buffer) => changer.changes((number, buffer), &seen, prior.as_ref(), salvaged)?,
        };
        if let (Some(claimed), Some((changes, _))) = (claimed, &found.changes) {
            // A chunk of zeros lists no blocks.
            let all = changes.is_empty().then_some(0..CHUNK_BLOCKS).into_iter().flatten();
            let was =
                |block: &usize| prior.as_ref().is_some_and(|prior| prior.blocks.get(*block) != Some(&None));
            let listed = changes.iter().map(|(block, _)| usize::from(*block));
            let data = buffer.as_deref().unwrap_or_default();
            let has_moved =
                |block: &usize| self.request.is_newer.is_some_and(|moves| moves(block_of(data, *block)));
            let differing = all.filter(was).chain(listed).filter(|block| !has_moved(block));
            changed_ranges::check_claimed(self.request.name, number, &claimed, differing)?;
        }
        Ok(ProcessedChunk { number, found, buffer })
    }

    /// Records damage of earlier generations, because of which blocks are stored again.
    fn meet(&self, damages: Vec<Error>) {
        let mut damage_seen = self.damage_seen.lock().unwrap_or_else(PoisonError::into_inner);
        damage_seen.extend(damages.iter().map(ToString::to_string));
    }

    /// The damage found, and the suspect blocks.
    fn found(self) -> (BTreeSet<String>, Vec<u64>) {
        let damage_seen = self.damage_seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let suspect_blocks = self.suspect_blocks.into_inner().unwrap_or_else(PoisonError::into_inner);
        (damage_seen, suspect_blocks.into_iter().collect())
    }
}
