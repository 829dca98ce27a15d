//! Is every byte of a repository as it was written, and does every generation lead to what was backed up?

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, bounded};

use crate::Error;
use crate::backup::World;
use crate::chain::{Chain, ContentHasher};
use crate::fetch::Fetcher;
use crate::file::File;
use crate::format::{BLOCK, CHUNK, Group, IndexEntry, Place, chunk_hash};
use crate::repository::{Loaded, Repository};
use crate::view::Views;

/// Most threads that make sense.
const JOBS_MAX: usize = 12;
/// Most damages that are told one by one.
pub const DAMAGES_MAX: usize = 1000;

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// File and byte offset.
    pub place: String,
    /// What is wrong, and which block of the volume it concerns.
    pub what: String,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Generations that were looked at.
    pub generations: u64,
    /// Files.
    pub files: u64,
    /// Blocks that were unpacked and hashed.
    pub blocks: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// What is damaged, at most [`DAMAGES_MAX`].
    pub damages: Vec<Damage>,
}

/// One record to be looked at, with what lies behind it up to `end`.
struct Job {
    file: Arc<File>,
    entry: IndexEntry,
    end: u64,
    /// Whether the file is a generation, or only holds blocks for others.
    live: bool,
}

struct Findings {
    damages: Mutex<Vec<Damage>>,
    blocks: AtomicU64,
}

impl Findings {
    fn add(&self, place: String, what: String) {
        let mut damages = self.damages.lock().unwrap_or_else(PoisonError::into_inner);
        if damages.len() < DAMAGES_MAX {
            damages.push(Damage { place, what });
        }
    }

    /// Damage is a finding; anything else ends the run.
    fn take(&self, error: Error, context: &str) -> Result<(), Error> {
        match error {
            Error::Corrupt { what, place } => {
                self.add(place, format!("{what}{context}"));
                Ok(())
            }
            Error::Missing(text) => {
                self.add(text, "a chain that ends in nothing".to_owned());
                Ok(())
            }
            other => Err(other),
        }
    }
}

/// Reads everything: every byte of every file against its hash, every block of every generation unpacked
/// and hashed, every chain to its end.
///
/// # Errors
/// When the repository can't be read; damage is no error but a finding.
pub fn verify(repository: &Repository, jobs: usize, world: World<'_>) -> Result<Verified, Error> {
    let _stays = repository.reading()?;
    let loaded = repository.load()?;
    if loaded.files.is_empty() && loaded.broken.is_empty() {
        return Err(Error::Missing(format!("there is no backup in {}", repository.store().shown(""))));
    }
    let findings = Findings { damages: Mutex::new(Vec::new()), blocks: AtomicU64::new(0) };
    let bytes = loaded.files.values().map(|file| file.len).sum();
    let (files, generations) = (loaded.files.len() as u64, loaded.generations.len() as u64);
    for error in loaded.broken.values() {
        let text = error.to_string();
        let (place, what) = text.split_once(": ").unwrap_or((&text, "damaged"));
        findings.add(place.to_owned(), what.to_owned());
    }
    world.progress.phase("verifying", Some(bytes));
    contents(&loaded, &findings, world)?;
    blocks(repository, &loaded, &findings, jobs, world)?;
    let damages = findings.damages.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Verified { generations, files, blocks: findings.blocks.into_inner(), bytes, damages })
}

/// Follows every chain: parents are there and are the right ones, chunks and volumes have the content that
/// was noted.
fn contents(loaded: &Loaded, findings: &Findings, world: World<'_>) -> Result<(), Error> {
    let mut sound: BTreeMap<u64, Arc<File>> = BTreeMap::new();
    for (number, file) in &loaded.generations {
        match Chain::new(&loaded.generations, *number) {
            Ok(_) => drop(sound.insert(*number, Arc::clone(file))),
            Err(error) => findings.take(error, "")?,
        }
    }
    let most = sound.values().map(|file| file.chunks()).max().unwrap_or(0);
    let mut contents: BTreeMap<u64, ContentHasher> =
        sound.iter().map(|(number, file)| (*number, ContentHasher::new(file.header.len))).collect();
    let mut views = Views::new(&sound);
    for chunk in 0..most {
        if world.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let found = match views.chunk(chunk) {
            Ok(found) => found,
            // The record itself is looked at below; without it nothing can be said here.
            Err(error) => return findings.take(error, "; chains are not followed further"),
        };
        for (number, view) in found {
            if view.own && chunk_hash(&view.chunk.hashes()) != view.chunk.content {
                let place = sound.get(&number).map(|file| file.shown.clone()).unwrap_or_default();
                findings.add(place, format!("chunk {chunk} is not what was backed up"));
            }
            if let Some(content) = contents.get_mut(&number) {
                content.add(&view.chunk.content);
            }
        }
    }
    for (file, content) in sound.values().zip(contents.values()) {
        if content.finish() != file.trailer.content {
            findings.add(file.shown.clone(), "the chain does not lead to what was backed up".to_owned());
        }
    }
    Ok(())
}

/// Looks at every record and every block of every file.
fn blocks(
    repository: &Repository,
    loaded: &Loaded,
    findings: &Findings,
    jobs: usize,
    world: World<'_>,
) -> Result<(), Error> {
    let workers = jobs.clamp(1, JOBS_MAX);
    let (send, receive) = bounded::<Job>(workers * 4);
    let fetcher = Fetcher::new(repository.store());
    let failed = Mutex::new(None);
    let fed = std::thread::scope(|scope| {
        for _ in 0..workers {
            let (receive, fetcher, failed) = (receive.clone(), &fetcher, &failed);
            scope.spawn(move || {
                if let Err(error) = work(&receive, fetcher, findings, world) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
        drop(receive);
        for file in loaded.files.values() {
            let holder = loaded.generations.get(&file.header.generation);
            let live = holder.is_some_and(|holder| holder.number == file.number);
            feed(file, live, world, &mut |job| send.send(job).is_ok(), findings)?;
        }
        drop(send);
        Ok(())
    });
    fed?;
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Cuts a file into its records.
fn feed(
    file: &Arc<File>,
    live: bool,
    world: World<'_>,
    send: &mut dyn FnMut(Job) -> bool,
    findings: &Findings,
) -> Result<(), Error> {
    let expected = file.header_len;
    let mut index = file.index().peekable();
    let first = match index.peek() {
        Some(Ok(entry)) => entry.offset,
        _ => file.trailer.index_offset,
    };
    if first != expected {
        findings.add(format!("{} at byte {expected}", file.shown), "bytes that belong to nothing".to_owned());
    }
    while let Some(entry) = index.next() {
        if world.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return findings.take(error, ""),
        };
        let end = match index.peek() {
            Some(Ok(next)) => next.offset,
            _ => file.trailer.index_offset,
        };
        if !send(Job { file: Arc::clone(file), entry, end, live }) {
            break;
        }
    }
    Ok(())
}

fn work(
    jobs: &Receiver<Job>,
    fetcher: &Fetcher<'_>,
    findings: &Findings,
    world: World<'_>,
) -> Result<(), Error> {
    let mut buffer = vec![0; CHUNK];
    for job in jobs {
        if let Err(error) = look(&job, fetcher, findings, &mut buffer) {
            findings.take(
                error,
                &format!("; chunk {} of generation {}", job.entry.chunk, job.file.header.generation),
            )?;
        }
        world.progress.read(job.end.saturating_sub(job.entry.offset));
    }
    Ok(())
}

fn look(job: &Job, fetcher: &Fetcher<'_>, findings: &Findings, buffer: &mut [u8]) -> Result<(), Error> {
    let record = job.file.record(&job.entry)?;
    let mut own: BTreeMap<u64, Group> = BTreeMap::new();
    for place in record.changes.iter().filter_map(|(_, place)| place.as_ref()) {
        for group in [Some(&place.group), place.base.as_ref().map(|(group, _)| group)].into_iter().flatten() {
            if group.file == job.file.number {
                own.insert(group.offset, *group);
            }
        }
    }
    let mut at = job.entry.offset + u64::from(job.entry.len);
    for group in own.values() {
        if group.offset != at {
            let place = format!("{} at byte {at}", job.file.shown);
            return Err(Error::corrupt(place, "bytes that belong to nothing"));
        }
        at += u64::from(group.stored);
    }
    if at != job.end {
        return Err(Error::corrupt(
            format!("{} at byte {at}", job.file.shown),
            "bytes that belong to nothing",
        ));
    }
    let context = |block: u64| format!("; block {block} of generation {}", job.file.header.generation);
    let first = job.entry.chunk * (CHUNK / BLOCK) as u64;
    if !job.live {
        for group in own.values() {
            fetcher.stored(group).map(drop).or_else(|error| findings.take(error, &context(first)))?;
        }
        return Ok(());
    }
    let mut places: Vec<Option<Place>> = vec![None; CHUNK / BLOCK];
    for (block, place) in &record.changes {
        if let Some(entry) = places.get_mut(usize::from(*block)) {
            *entry = *place;
        }
    }
    findings.blocks.fetch_add(places.iter().flatten().count() as u64, Ordering::Relaxed);
    fetcher.blocks(&places, buffer, &mut |block, error| findings.take(error, &context(first + block as u64)))
}
