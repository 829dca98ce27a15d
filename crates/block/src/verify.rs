//! Verifies that every byte of a repository is as it was written, and that every generation reproduces what
//! was backed up.

mod cost;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, bounded};

use crate::Error;
use crate::backup::RunContext;
use crate::chain::{Chain, ContentHasher};
use crate::chunk_versions::ChunkVersions;
use crate::fetch::Fetcher;
use crate::file::File;
use crate::format::{BLOCK, BlockLocation, CHUNK, Group, IndexEntry, chunk_hash};
use crate::notes::{DamageEntry, KnownDamage, NewestNote};
use crate::repository::{Repository, RepositoryState};

use self::cost::LOSSES_MAX;
pub use self::cost::{Cost, NotedDamage, noted};

/// The maximum number of worker threads.
const JOBS_MAX: usize = 12;
/// The maximum number of damaged places that are listed individually.
pub const DAMAGES_MAX: usize = 1000;

/// Something that differs from what was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Damage {
    /// File and byte offset.
    pub place: String,
    /// What is wrong, and which block of the volume it affects.
    pub what: String,
    /// What can't be restored because of it, of the generations that are there. Empty if none of them needs
    /// it, or if everything in it is stored elsewhere too.
    pub costs: Vec<Cost>,
    /// Whether a generation may be lost that is not among them: the file is missing or can't be opened, so
    /// nobody can see whether it was one.
    pub may_lose_generation: bool,
}

impl Damage {
    /// Whether every generation can be restored whole despite it.
    #[must_use]
    pub fn costs_nothing(&self) -> bool {
        self.costs.is_empty() && !self.may_lose_generation
    }
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Generations that were checked.
    pub generations: u64,
    /// Files.
    pub files: u64,
    /// Blocks that were decompressed and hashed.
    pub blocks: u64,
    /// Whether blocks were decompressed. With a put key only their stored bytes are checked.
    pub is_opened: bool,
    /// Bytes of all files.
    pub bytes: u64,
    /// The damage, at most [`DAMAGES_MAX`] entries.
    pub damages: Vec<Damage>,
    /// Whether the damage was recorded in the repository, or there is none: only then does the next backup
    /// store the affected blocks again.
    pub is_noted: bool,
}

/// A part of the data. Verifying each part once verifies everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Which part, from 0 on; taken modulo `parts`.
    pub part: u64,
    /// How many parts there are, at least 1.
    pub parts: u64,
}

impl Sample {
    /// Whether something belongs to this part, by two numbers: for a record and its blocks, the numbers of
    /// its file and its chunk. It always belongs to the same part.
    #[must_use]
    pub fn has(self, file: u64, chunk: u64) -> bool {
        let parts = self.parts.max(1);
        file.wrapping_add(chunk) % parts == self.part % parts
    }
}

/// One record to check, with everything that follows it up to `end`.
struct RecordJob {
    file: Arc<File>,
    entry: IndexEntry,
    end: u64,
    /// Whether the file is a generation, or only contains blocks for others.
    live: bool,
}

/// What is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DamageSite {
    /// A record, or the blocks of a group.
    Entry(DamageEntry),
    /// A file, by its number: its frame, or all of it.
    File(u64),
    /// The file of the newest generation, which is missing: no other one builds on it.
    Newest,
    /// What a generation says of its own content, by its number.
    Generation(u64),
    /// What no generation needs: a note, blocks that none has, bytes between the records.
    Unneeded,
}

struct Findings {
    damages: Mutex<Vec<(Damage, DamageSite)>>,
    /// All damage, including what is not listed any more.
    bad: Mutex<Vec<DamageEntry>>,
    blocks: AtomicU64,
}

impl Findings {
    fn add(&self, place: String, what: String, hit: DamageSite) {
        if let DamageSite::Entry(bad) = hit {
            self.bad.lock().unwrap_or_else(PoisonError::into_inner).push(bad);
        }
        let mut damages = self.damages.lock().unwrap_or_else(PoisonError::into_inner);
        if damages.len() < DAMAGES_MAX {
            damages.push((Damage { place, what, ..Damage::default() }, hit));
        }
    }

    /// Damage is a finding; any other error ends the run.
    fn take(&self, error: Error, suffix: &str, hit: DamageSite) -> Result<(), Error> {
        match error {
            Error::Corrupt { what, place } => self.add(place, format!("{what}{suffix}"), hit),
            away if away.is_away() => return Err(away),
            Error::Store { name, source } => self.add(name, format!("{source}{suffix}"), hit),
            Error::Missing(text) => {
                self.add(text, "a chain that leads to a missing generation".to_owned(), hit)
            }
            other => return Err(other),
        }
        Ok(())
    }
}

/// Reads everything: checks every byte of every file against its hash, decompresses and hashes every block of
/// every generation, follows every chain to its end. Reports what each damage costs, and records it for the
/// next backup.
///
/// A sample limits records and blocks only: all indexes are read, all chains followed, and known damage is
/// checked again.
///
/// # Errors
/// If the repository can't be read. Damage is not an error but part of the result.
pub fn verify(
    repository: &Repository,
    jobs: usize,
    sample: Option<Sample>,
    context: RunContext<'_>,
) -> Result<Verified, Error> {
    let _stays = repository.lock_reader()?;
    let loaded = repository.load()?;
    if loaded.files.is_empty() && loaded.first_damage().is_none() {
        return Err(Error::Missing(format!("there is no backup in {}", repository.store().shown(""))));
    }
    let findings =
        Findings { damages: Mutex::new(Vec::new()), bad: Mutex::new(Vec::new()), blocks: AtomicU64::new(0) };
    let bytes = loaded.files.values().map(|file| file.len).sum();
    let (files, generations) = (loaded.files.len() as u64, loaded.generations.len() as u64);
    frames(repository, &loaded, &findings)?;
    context.progress.phase("verifying", Some(bytes / sample.map_or(1, |sample| sample.parts.max(1))));
    contents(&loaded, &findings, context)?;
    blocks(repository, &Checked { loaded: &loaded, sample }, jobs, &findings, context)?;
    let mut damages = findings.damages.into_inner().unwrap_or_else(PoisonError::into_inner);
    let known = KnownDamage::new(findings.bad.into_inner().unwrap_or_else(PoisonError::into_inner));
    if !damages.is_empty() {
        context.progress.phase("what that costs", None);
        cost::tell(repository, &known, &mut damages)?;
    }
    // If the repository is read-only, no backup can be made into it.
    let is_noted = known == loaded.damage || known.write(repository.store()).is_ok();
    let damages = merge(damages);
    let blocks = findings.blocks.into_inner();
    let is_opened = repository.store().reads_blocks();
    Ok(Verified { generations, files, blocks, is_opened, bytes, damages, is_noted })
}

/// Each damaged place once. A group is looked at for its own file, and for each generation that needs it:
/// what its damage costs is added up.
fn merge(found: Vec<(Damage, DamageSite)>) -> Vec<Damage> {
    let mut damages: Vec<Damage> = Vec::new();
    let mut groups: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for (damage, site) in found {
        let group = match site {
            DamageSite::Entry(DamageEntry { file, group: Some(group), .. }) => Some((file, group)),
            _ => None,
        };
        let known = group.and_then(|group| groups.get(&group)).and_then(|at| damages.get_mut(*at));
        let Some(known) = known else {
            groups.extend(group.map(|group| (group, damages.len())));
            damages.push(damage);
            continue;
        };
        if known.costs.is_empty() {
            // Words about a chunk that nobody needs any more say less.
            known.what = damage.what;
        }
        for cost in damage.costs {
            match known.costs.iter_mut().find(|own| own.generation == cost.generation) {
                Some(own) => own.losses.extend(cost.losses),
                None => known.costs.push(cost),
            }
        }
    }
    for damage in &mut damages {
        damage.costs.sort_by_key(|cost| cost.generation);
        damage.costs.iter_mut().for_each(|cost| cost.losses.truncate(LOSSES_MAX));
    }
    damages
}

/// Files that can't be opened, are missing, or are unknown.
fn frames(repository: &Repository, loaded: &RepositoryState, findings: &Findings) -> Result<(), Error> {
    let hits = loaded.broken.iter().map(|(number, error)| (error, DamageSite::File(*number)));
    let missing_newest = loaded.missing_newest.iter().map(|error| (error, DamageSite::Newest));
    for (error, hit) in hits.chain(missing_newest) {
        let text = error.to_string();
        let (place, what) = text.split_once(": ").unwrap_or((&text, "damaged"));
        findings.add(place.to_owned(), what.to_owned(), hit);
    }
    match NewestNote::read(repository.store()) {
        Err(error) => findings.take(error, "", DamageSite::Unneeded),
        Ok(_) => Ok(()),
    }
}

/// Follows every chain: parents must exist and match, chunks and volumes must have the recorded content.
fn contents(loaded: &RepositoryState, findings: &Findings, context: RunContext<'_>) -> Result<(), Error> {
    let mut sound: BTreeMap<u64, Arc<File>> = BTreeMap::new();
    for (number, file) in &loaded.generations {
        match Chain::new(&loaded.generations, *number) {
            Ok(_) => drop(sound.insert(*number, Arc::clone(file))),
            Err(error) => findings.take(error, "", DamageSite::File(file.number))?,
        }
    }
    let most = sound.values().map(|file| file.chunks()).max().unwrap_or(0);
    let mut contents: BTreeMap<u64, ContentHasher> =
        sound.iter().map(|(number, file)| (*number, ContentHasher::new(file.header.len))).collect();
    let mut views = ChunkVersions::new(&sound);
    // Records are checked below, one by one.
    let mut damages = Vec::new();
    for chunk in 0..most {
        if context.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        damages.clear();
        for (number, view) in views.chunk(chunk, &mut damages)? {
            let known = view.own && view.chunk.unknown.is_none();
            if known && chunk_hash(&view.chunk.hashes()) != view.chunk.content {
                let place = sound.get(&number).map(|file| file.shown.clone()).unwrap_or_default();
                findings.add(
                    place,
                    format!("chunk {chunk} does not match its hash"),
                    DamageSite::Generation(number),
                );
            }
            if let Some(content) = contents.get_mut(&number) {
                content.add(&view.chunk.content);
            }
        }
    }
    for ((number, file), content) in sound.iter().zip(contents.values()) {
        if content.finish() != file.trailer.content {
            let what = "the chain does not reproduce what was backed up".to_owned();
            findings.add(file.shown.clone(), what, DamageSite::Generation(*number));
        }
    }
    Ok(())
}

/// What is verified.
struct Checked<'a> {
    loaded: &'a RepositoryState,
    /// None for everything.
    sample: Option<Sample>,
}

/// Checks every record and every block of every file, or those of a sample.
fn blocks(
    repository: &Repository,
    Checked { loaded, sample }: &Checked<'_>,
    jobs: usize,
    findings: &Findings,
    context: RunContext<'_>,
) -> Result<(), Error> {
    let workers = jobs.clamp(1, JOBS_MAX);
    let (send, receive) = bounded::<RecordJob>(workers * 4);
    let fetcher = Fetcher::new(repository.store());
    let failed = Mutex::new(None);
    let fed = std::thread::scope(|scope| {
        for _ in 0..workers {
            let (receive, fetcher, failed) = (receive.clone(), &fetcher, &failed);
            scope.spawn(move || {
                if let Err(error) = work(&receive, fetcher, findings, context) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
        drop(receive);
        for file in loaded.files.values() {
            let holder = loaded.generations.get(&file.header.generation);
            let live = holder.is_some_and(|holder| holder.number == file.number);
            let is_due = |job: &RecordJob| {
                let chunk = job.entry.chunk;
                sample.is_none_or(|sample| sample.has(file.number, chunk)) || loaded.damage.touches(chunk)
            };
            feed(file, live, context, &mut |job| !is_due(&job) || send.send(job).is_ok(), findings)?;
        }
        drop(send);
        Ok(())
    });
    fed?;
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Splits a file into its records.
fn feed(
    file: &Arc<File>,
    live: bool,
    context: RunContext<'_>,
    send: &mut dyn FnMut(RecordJob) -> bool,
    findings: &Findings,
) -> Result<(), Error> {
    let expected = file.header_len;
    let mut index = file.index().peekable();
    let first = match index.peek() {
        Some(Ok(entry)) => entry.offset,
        _ => file.trailer.index_offset,
    };
    if first != expected {
        let place = format!("{} at byte {expected}", file.shown);
        findings.add(place, "bytes that belong to no record".to_owned(), DamageSite::Unneeded);
    }
    while let Some(entry) = index.next() {
        if context.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return findings.take(error, "", DamageSite::File(file.number)),
        };
        let end = match index.peek() {
            Some(Ok(next)) => next.offset,
            _ => file.trailer.index_offset,
        };
        if !send(RecordJob { file: Arc::clone(file), entry, end, live }) {
            break;
        }
    }
    Ok(())
}

fn work(
    jobs: &Receiver<RecordJob>,
    fetcher: &Fetcher<'_>,
    findings: &Findings,
    context: RunContext<'_>,
) -> Result<(), Error> {
    let mut buffer = vec![0; CHUNK];
    for job in jobs {
        if let Err(error) = look(&job, fetcher, findings, &mut buffer) {
            let (chunk, file) = (job.entry.chunk, job.file.number);
            let suffix = format!("; chunk {chunk} of generation {}", job.file.header.generation);
            // If a file contains no generation, its records are not used.
            let hit = if job.live {
                DamageSite::Entry(DamageEntry { chunk, file, group: None })
            } else {
                DamageSite::Unneeded
            };
            findings.take(error, &suffix, hit)?;
        }
        context.progress.read(job.end.saturating_sub(job.entry.offset));
    }
    Ok(())
}

fn look(job: &RecordJob, fetcher: &Fetcher<'_>, findings: &Findings, buffer: &mut [u8]) -> Result<(), Error> {
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
            break;
        }
        at += u64::from(group.stored);
    }
    if at != job.end {
        // The blocks are still checked: they may be needed, and be undamaged.
        let place = format!("{} at byte {at}", job.file.shown);
        findings.add(place, "bytes that belong to no record".to_owned(), DamageSite::Unneeded);
    }
    let chunk = job.entry.chunk;
    let first = chunk * (CHUNK / BLOCK) as u64;
    let suffix = |block: u64| format!("; block {block} of generation {}", job.file.header.generation);
    let hit =
        |group: &Group| DamageSite::Entry(DamageEntry { chunk, file: group.file, group: Some(group.offset) });
    if !job.live || !fetcher.reads() {
        // Blocks of a generation that was removed belong to later ones.
        let suffix = if job.live { suffix(first) } else { String::new() };
        for group in own.values() {
            let read = fetcher.stored(group);
            read.map(drop).or_else(|error| findings.take(error, &suffix, hit(group)))?;
        }
        return Ok(());
    }
    let mut places: Vec<Option<BlockLocation>> = vec![None; CHUNK / BLOCK];
    for (block, place) in &record.changes {
        if let Some(entry) = places.get_mut(usize::from(*block)) {
            *entry = *place;
        }
    }
    findings.blocks.fetch_add(places.iter().flatten().count() as u64, Ordering::Relaxed);
    fetcher.blocks(&places, buffer, &mut |blocks, error| {
        let block = blocks.first().copied().unwrap_or(0);
        let place = places.get(block).and_then(Option::as_ref);
        // Only one block is wrong: either the delta is damaged, or the block does not match the record.
        let group = place.map(|place| if whole(fetcher, place) { &place.group } else { unpacked(place) });
        let own = DamageSite::Generation(job.file.header.generation);
        findings.take(error, &suffix(first + block as u64), group.map_or(own, hit))
    })
}

/// The group that is decompressed for a block.
fn unpacked(place: &BlockLocation) -> &Group {
    place.base.as_ref().map_or(&place.group, |(base, _)| base)
}

/// Whether that group is undamaged, so that the delta must be wrong.
fn whole(fetcher: &Fetcher<'_>, place: &BlockLocation) -> bool {
    place.base.is_some() && fetcher.group(unpacked(place)).is_ok()
}
