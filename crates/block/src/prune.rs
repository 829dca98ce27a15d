//! Removes generations. The remaining ones may need blocks of removed ones: they refer to these in place, or
//! the blocks are copied if most of their file is no longer needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use crate::Error;
use crate::backup::RunContext;
use crate::catalogue::Catalogue;
use crate::chain::{Chain, Chunk};
use crate::chunk_versions::{ChunkVersion, ChunkVersions};
use crate::fetch::Fetcher;
use crate::file;
use crate::format::{CHUNK, Change, Group, Header, Record};
use crate::mirror_note::{Entry, FileContents};
use crate::notes::NewestNote;
use crate::repository::{Repository, RepositoryState};
use crate::store::Removal;
use crate::writer::Writer;

/// A file that is not a generation is emptied if less than one part in this many of it is needed.
const WORTH_KEEPING: u64 = 2;

/// The result, or with a dry run the expected result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Generations that were removed.
    pub forgotten: Vec<u64>,
    /// Generations that stay and got a new file, because their ancestors were removed.
    pub rewritten: Vec<u64>,
    /// Generations that stay but are incomplete, because the repository is damaged; they keep their
    /// ancestors.
    pub damaged: Vec<u64>,
    /// Bytes of the new files; of a dry run about those of the blocks that they will contain.
    pub written: u64,
    /// Bytes of the files that were removed.
    pub freed: u64,
    /// Files that are no longer needed but are being read; the next prune removes them.
    pub left: u64,
    /// Files that are no longer needed but that the store retains: it is append-only, or keeps earlier
    /// versions.
    pub retained: Vec<String>,
    /// Until when nobody can remove the last of them, in seconds since the epoch, if that is known.
    pub retained_until_s: Option<i64>,
    /// Files that can't be used but stay, because something may still be recovered from them.
    pub unused: Vec<String>,
    /// Files that no generation needs, and that stay in this mirror because its source still has them.
    pub at_source: u64,
}

/// What prune will do.
struct Plan {
    /// The new parent of each remaining generation.
    parents: BTreeMap<u64, u64>,
    /// Generations that get a new file.
    rewrite: BTreeSet<u64>,
    /// Files whose needed blocks are copied elsewhere.
    empty: BTreeSet<u64>,
    /// Bytes of these blocks.
    copies: u64,
    /// Files with needed blocks.
    needed: BTreeSet<u64>,
    /// Remaining generations that are damaged.
    damaged: BTreeSet<u64>,
    /// Files that can't be used: those that are removed, and those that stay.
    broken: (BTreeSet<u64>, BTreeSet<u64>),
}

/// Removes all generations except those in `keep`. A damaged one stays as it is, with everything that it may
/// need.
///
/// # Errors
/// If another run uses the repository, or if it can't be written. Every generation of `keep` exists at every
/// moment.
pub fn prune(
    repository: &Repository,
    keep: &BTreeSet<u64>,
    dry_run: bool,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    let _alone = repository.lock_writer()?;
    let loaded = repository.load()?;
    let missing = keep.iter().find(|number| !loaded.generations.contains_key(number));
    if let Some(number) = missing {
        return Err(repository.no_generation(&loaded, *number));
    }
    // Files from which nothing can be copied because a needed part is damaged, or that stay anyway.
    let mut fixed = loaded.at_source();
    let all: BTreeSet<u64> = loaded.files.keys().copied().collect();
    loop {
        match attempt(repository, &loaded, &Wanted { keep, fixed: &fixed, dry_run }, context) {
            // On a full disk nothing is copied: what remains to be written is short.
            Err(error) if error.is_full() && !fixed.is_superset(&all) => {
                let text = "there is no room for copies of the blocks that remain: files with other blocks stay \
                            until a prune that has room";
                context.progress.warn(text);
                fixed.extend(&all);
            }
            ended => match ended? {
                Ok(summary) => return Ok(summary),
                Err(file) => drop(fixed.insert(file)),
            },
        }
    }
}

/// What a run is to do.
struct Wanted<'a> {
    /// The generations that stay.
    keep: &'a BTreeSet<u64>,
    /// The files that stay even if nothing needs them.
    fixed: &'a BTreeSet<u64>,
    dry_run: bool,
}

/// One attempt. Returns the number of a file if blocks must be copied from it but can't be.
fn attempt(
    repository: &Repository,
    loaded: &RepositoryState,
    wanted: &Wanted<'_>,
    context: RunContext<'_>,
) -> Result<Result<Summary, u64>, Error> {
    let Wanted { keep, fixed, dry_run } = *wanted;
    let bytes: u64 = loaded.generations.values().map(|file| file.header.len).max().unwrap_or(0);
    context.progress.phase("looking", Some(bytes));
    let plan = Plan::make(loaded, keep, fixed, context)?;
    let gone = loaded.generations.keys().filter(|number| !plan.parents.contains_key(number));
    let shown = |number: &u64| repository.store().shown(&file::name(*number));
    let mut summary = Summary {
        forgotten: gone.copied().collect(),
        rewritten: plan.rewrite.iter().copied().collect(),
        damaged: plan.damaged.iter().copied().collect(),
        unused: plan.broken.1.iter().map(shown).collect(),
        ..Summary::default()
    };
    if dry_run {
        summary.written = plan.copies;
    } else {
        context.progress.phase("writing", Some(bytes));
        let mut files: BTreeMap<u64, u64> = BTreeMap::new();
        summary.written = match rewrite(repository, loaded, &plan, context, &mut files)? {
            Ok(written) => written,
            Err(file) => return Ok(Err(file)),
        };
        decide(repository, loaded, &plan, &files)?;
    }
    clean(repository, loaded, &plan, dry_run, &mut summary)?;
    Ok(Ok(summary))
}

/// Records which files contain the generations now.
fn decide(
    repository: &Repository,
    loaded: &RepositoryState,
    plan: &Plan,
    files: &BTreeMap<u64, u64>,
) -> Result<(), Error> {
    let holder = |generation: &u64| {
        files.get(generation).copied().or(loaded.generations.get(generation).map(|file| file.number))
    };
    let mut listed: BTreeSet<u64> = plan.parents.keys().filter_map(holder).collect();
    listed.extend(plan.broken.1.iter().filter(|number| loaded.is_listed(**number)));
    let newest = plan.parents.keys().next_back().and_then(|newest| {
        let number = holder(newest)?;
        Some(NewestNote { generation: *newest, file: number })
    });
    // Before the catalogue, so that nobody expects the removed generations; until then the note only claims
    // too little. In a mirror the note is that of its source.
    let is_noted = |newest: &NewestNote| match (&loaded.inventory.mirror_note, loaded.noted) {
        (Some(_), Some(noted)) => noted.generation == newest.generation,
        (_, noted) => noted == Some(*newest),
    };
    if let Some(newest) = newest.filter(|newest| !is_noted(newest)) {
        let newest = NewestNote { file: newest.file.max(loaded.next_file() - 1), ..newest };
        newest.write(repository.store())?;
    }
    if let Some(mut note) = loaded.inventory.mirror_note.clone() {
        let stays: BTreeSet<u64> = plan.broken.1.iter().copied().collect();
        note.files.retain(|number, _| loaded.files.contains_key(number) || stays.contains(number));
        for number in loaded.files.keys().chain(files.values()) {
            let contents =
                if listed.contains(number) { FileContents::Generation } else { FileContents::Blocks };
            note.files.entry(*number).or_insert(Entry { contents, is_at_source: false }).contents = contents;
        }
        return note.write(repository.store());
    }
    let catalogue = Catalogue {
        through: files.values().copied().max().unwrap_or(0).max(loaded.next_file() - 1),
        files: listed.into_iter().collect(),
    };
    catalogue.write(repository.store())
}

impl Plan {
    fn make(
        loaded: &RepositoryState,
        keep: &BTreeSet<u64>,
        fixed: &BTreeSet<u64>,
        context: RunContext<'_>,
    ) -> Result<Plan, Error> {
        let mut uses = Uses::look(loaded, keep, context)?;
        let damaged: BTreeSet<u64> = uses.damaged.intersection(keep).copied().collect();
        let mut keep = keep.clone();
        // Nothing can replace the ancestors of a damaged generation.
        for number in &damaged {
            let above = std::iter::successors(Some(*number), |number| {
                loaded.generations.get(number).map(|file| file.header.parent)
            });
            keep.extend(above.filter(|number| loaded.generations.contains_key(number)));
        }
        if !damaged.is_empty() {
            uses = Uses::look(loaded, &keep, context)?;
        }
        let Uses { parents, live, used, .. } = uses;
        // A damaged generation may need everything that is older.
        let file = |generation: &u64| loaded.generations.get(generation).map(|file| file.number);
        let pinned = damaged.iter().filter_map(file).max().unwrap_or(0);
        let mut rewrite: BTreeSet<u64> = parents
            .iter()
            .filter(|(number, parent)| {
                let file = loaded.generations.get(number);
                !damaged.contains(number) && file.is_some_and(|file| file.header.parent != **parent)
            })
            .map(|(number, _)| *number)
            .collect();
        let stays = |number: &u64| {
            let contents = loaded.files.get(number).map(|file| file.header.generation);
            let current = contents.and_then(|generation| loaded.generations.get(&generation));
            contents.is_some_and(|generation| keep.contains(&generation) && !rewrite.contains(&generation))
                && current.is_some_and(|file| file.number == *number)
        };
        let wasteful = |(number, live): (&u64, &u64)| {
            let stored = loaded.files.get(number).map_or(0, |file| file.trailer.stored);
            let may = *number > pinned && !fixed.contains(number) && !stays(number);
            (may && live.saturating_mul(WORTH_KEEPING) < stored).then_some(*number)
        };
        let empty: BTreeSet<u64> = live.iter().filter_map(wasteful).collect();
        let copies = empty.iter().filter_map(|number| live.get(number)).sum();
        let emptied = used.iter().filter(|(_, used)| !used.is_disjoint(&empty)).map(|(number, _)| *number);
        rewrite.extend(emptied.filter(|number| !damaged.contains(number)));
        let mut needed: BTreeSet<u64> = live.into_keys().filter(|number| !empty.contains(number)).collect();
        needed.extend(loaded.files.keys().filter(|number| **number <= pinned));
        // An unreadable file may be a generation; it is removed if it is older than all that stay.
        let oldest = keep.first().copied().unwrap_or(0);
        // A read error of the disk may be temporary.
        let is_read = |number: &u64| matches!(loaded.broken.get(number), Some(Error::Corrupt { .. }));
        let goes = |number: &u64| {
            *number < oldest && *number > pinned && !needed.contains(number) && is_read(number)
        };
        let broken = loaded.broken.keys().copied().partition(goes);
        Ok(Plan { parents, rewrite, empty, copies, needed, damaged, broken })
    }
}

/// What the remaining generations need.
struct Uses {
    parents: BTreeMap<u64, u64>,
    /// Needed bytes of each file.
    live: BTreeMap<u64, u64>,
    /// Files that each generation needs.
    used: BTreeMap<u64, BTreeSet<u64>>,
    /// Generations, remaining or not, of which not everything is known.
    damaged: BTreeSet<u64>,
}

impl Uses {
    fn look(loaded: &RepositoryState, keep: &BTreeSet<u64>, context: RunContext<'_>) -> Result<Uses, Error> {
        let parents: BTreeMap<u64, u64> =
            keep.iter().map(|number| (*number, kept_ancestor(loaded, keep, *number))).collect();
        let cut = |number: &&u64| Chain::new(&loaded.generations, **number).is_err();
        let damaged = loaded.generations.keys().filter(cut).copied().collect();
        let mut uses = Uses { parents, live: BTreeMap::new(), used: BTreeMap::new(), damaged };
        each_chunk(loaded, context, &mut |chunk, views| {
            let unknown = views.iter().filter(|(_, view)| view.chunk.unknown.is_some());
            uses.damaged.extend(unknown.map(|(number, _)| *number));
            let mut groups: BTreeMap<(u64, u64), u32> = BTreeMap::new();
            for (number, parent) in &uses.parents {
                let Some(changes) = changes_of(chunk, views, loaded, *number, *parent) else { continue };
                let used = uses.used.entry(*number).or_default();
                for group in groups_of(&changes) {
                    used.insert(group.file);
                    groups.insert((group.file, group.offset), group.stored);
                }
            }
            for ((file, _), stored) in groups {
                *uses.live.entry(file).or_default() += u64::from(stored);
            }
            Ok(())
        })?;
        Ok(uses)
    }
}

/// The nearest remaining ancestor; 0 if there is none.
fn kept_ancestor(loaded: &RepositoryState, keep: &BTreeSet<u64>, number: u64) -> u64 {
    let parent = |number: u64| loaded.generations.get(&number).map_or(0, |file| file.header.parent);
    let mut ancestor = parent(number);
    while ancestor != 0 && !keep.contains(&ancestor) {
        ancestor = parent(ancestor);
    }
    ancestor
}

/// Receives a chunk as it is in each generation.
type EachChunk<'a> = &'a mut dyn FnMut(u64, &BTreeMap<u64, ChunkVersion>) -> Result<(), Error>;

/// Goes through all chunks of all generations.
fn each_chunk(loaded: &RepositoryState, context: RunContext<'_>, each: EachChunk<'_>) -> Result<(), Error> {
    let most = loaded.generations.values().map(|file| file.chunks()).max().unwrap_or(0);
    let mut views = ChunkVersions::new(&loaded.generations);
    let mut damages = Vec::new();
    for chunk in 0..most {
        if context.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        // What can't be read marks generations as damaged.
        damages.clear();
        each(chunk, &views.chunk(chunk, &mut damages)?)?;
        context.progress.read(CHUNK as u64);
    }
    Ok(())
}

/// The changes for the record of a chunk in a generation that builds on `parent`.
fn changes_of(
    chunk: u64,
    views: &BTreeMap<u64, ChunkVersion>,
    loaded: &RepositoryState,
    number: u64,
    parent: u64,
) -> Option<Vec<Change>> {
    let view = views.get(&number)?;
    match views.get(&parent) {
        Some(parent) => view.chunk.changes_to(chunk, &parent.chunk, &loaded.damage),
        None => view.chunk.changes_to(chunk, &Chunk::zeros(), &loaded.damage),
    }
}

fn groups_of(changes: &[Change]) -> impl Iterator<Item = &Group> {
    let places = changes.iter().filter_map(|(_, place)| place.as_ref());
    places.flat_map(|place| [Some(&place.group), place.base.as_ref().map(|(base, _)| base)]).flatten()
}

/// Writes the new files and records which generation is in which. Returns their total bytes, or the file from
/// which something can't be copied.
fn rewrite(
    repository: &Repository,
    loaded: &RepositoryState,
    plan: &Plan,
    context: RunContext<'_>,
    files: &mut BTreeMap<u64, u64>,
) -> Result<Result<u64, u64>, Error> {
    let fetcher = Fetcher::new(repository.store());
    let mut copier = Copier { empty: &plan.empty, fetcher: &fetcher, moved: BTreeMap::new(), stuck: None };
    let mut writers: BTreeMap<u64, Writer<'_>> = BTreeMap::new();
    for (generation, number) in plan.rewrite.iter().zip(loaded.next_rewritten()..) {
        let (Some(old), Some(parent)) = (loaded.generations.get(generation), plan.parents.get(generation))
        else {
            continue;
        };
        let content = loaded.generations.get(parent).map_or([0; 32], |file| file.trailer.content);
        let header = Header { parent: *parent, parent_content: content, ..old.header.clone() };
        writers.insert(*generation, Writer::create(repository.store(), number, &header)?);
        files.insert(*generation, number);
    }
    let copied = each_chunk(loaded, context, &mut |chunk, views| {
        // Groups never extend beyond a chunk, so the copies made for a chunk can be forgotten after it.
        copier.moved.clear();
        for (generation, writer) in &mut writers {
            let (Some(view), Some(parent)) = (views.get(generation), plan.parents.get(generation)) else {
                continue;
            };
            writer.content(&view.chunk.content);
            if let Some(changes) = changes_of(chunk, views, loaded, *generation, *parent) {
                let record = Record { chunk, content: view.chunk.content, changes };
                copier.copy(writer, record)?;
            }
        }
        Ok(())
    });
    if let Some(file) = copier.stuck {
        return Ok(Err(file));
    }
    copied?;
    let mut written = 0;
    for writer in writers.into_values() {
        written += writer.finish()?.0;
    }
    Ok(Ok(written))
}

/// Copies the groups of files that will be emptied.
struct Copier<'a> {
    empty: &'a BTreeSet<u64>,
    fetcher: &'a Fetcher<'a>,
    /// Where groups of the chunk at hand are now, by their former file and offset.
    moved: BTreeMap<(u64, u64), Group>,
    /// The file of a group that can't be read.
    stuck: Option<u64>,
}

impl Copier<'_> {
    /// Writes a record, together with its groups from files that will be emptied.
    fn copy(&mut self, writer: &mut Writer<'_>, mut record: Record) -> Result<(), Error> {
        let Copier { empty, fetcher, moved, stuck } = self;
        let mut bytes = Vec::new();
        let mut origins: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut here: BTreeMap<(u64, u64), Group> = BTreeMap::new();
        let mut settle = |group: &mut Group| -> Result<(), Error> {
            let key = (group.file, group.offset);
            if let Some(new) = moved.get(&key).or(here.get(&key)) {
                *group = *new;
            } else if empty.contains(&group.file) {
                let stored = fetcher.stored(group).inspect_err(|error| {
                    *stuck = error.is_damage().then_some(group.file);
                })?;
                (group.file, group.offset) = (0, bytes.len() as u64);
                bytes.extend_from_slice(&stored);
                origins.insert(group.offset, key);
                here.insert(key, *group);
            }
            Ok(())
        };
        for place in record.changes.iter_mut().filter_map(|(_, place)| place.as_mut()) {
            settle(&mut place.group)?;
            if let Some((base, _)) = &mut place.base {
                settle(base)?;
            }
        }
        let asked = record.clone();
        let written = writer.add(record, &bytes)?;
        for (before, after) in groups_of(&asked.changes).zip(groups_of(&written.changes)) {
            if before.file == 0
                && let Some(origin) = origins.get(&before.offset)
            {
                moved.insert(*origin, *after);
            }
        }
        Ok(())
    }
}

/// Removes files that are no longer needed.
fn clean(
    repository: &Repository,
    loaded: &RepositoryState,
    plan: &Plan,
    dry_run: bool,
    summary: &mut Summary,
) -> Result<(), Error> {
    let current = |number: u64| {
        plan.parents.keys().any(|generation| {
            !plan.rewrite.contains(generation)
                && loaded.generations.get(generation).is_some_and(|file| file.number == number)
        })
    };
    let dead =
        loaded.files.values().filter(|file| !plan.needed.contains(&file.number) && !current(file.number));
    let shared = loaded.at_source();
    let (stay, dead): (Vec<_>, Vec<_>) = dead.partition(|file| shared.contains(&file.number));
    summary.at_source = stay.len() as u64;
    let alone = if dry_run { None } else { repository.lock_for_removal()? };
    for file in dead {
        if alone.is_some() && !is_removed(repository, &file::name(file.number), summary)? {
            continue;
        }
        if alone.is_some() || dry_run {
            summary.freed += file.len;
        } else {
            summary.left += 1;
        }
    }
    for number in &plan.broken.0 {
        let name = file::name(*number);
        if alone.is_none() {
            summary.left += u64::from(!dry_run);
            continue;
        }
        is_removed(repository, &name, summary)?;
    }
    if alone.is_some() {
        for name in &loaded.inventory.old {
            is_removed(repository, name, summary)?;
        }
    }
    Ok(())
}

/// Removes a file. If the store retains it, that is recorded.
fn is_removed(repository: &Repository, name: &str, summary: &mut Summary) -> Result<bool, Error> {
    let shown = repository.store().shown(name);
    let freed = repository.store().try_remove(name).map_err(Error::store(shown.clone()))?;
    if let Removal::Retained { until_s } = freed {
        summary.retained.push(shown);
        summary.retained_until_s = summary.retained_until_s.max(until_s);
    }
    Ok(freed == Removal::Removed)
}
