//! What damage costs: which generations can't be restored completely, and which parts of them are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::{Damage, DamageSite};
use crate::Error;
use crate::chain::Chain;
use crate::chunk_versions::{ChunkVersion, ChunkVersions};
use crate::fallback_reader::{FallbackReader, runs};
use crate::file::{self, File};
use crate::format::{BLOCK, BlockLocation, CHUNK, Hash};
use crate::notes::{DamageEntry, KnownDamage};
use crate::repository::{Repository, RepositoryState};
use crate::restore::Loss;
use crate::tree::{Layout, read_layout};

/// The most losses that are listed for one damage in one generation.
pub(super) const LOSSES_MAX: usize = 1000;

/// What one damage costs in one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The generation.
    pub generation: u64,
    /// Byte ranges of the volume, or of the files of a tree, that can't be restored. Empty: they can't be
    /// listed individually, and everything may be lost.
    pub losses: Vec<Loss>,
}

/// Damage that a verification noted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotedDamage {
    /// Since when it is noted, in seconds since 1970, by the clock of the repository's file system. `None` if
    /// there is none, or the store does not know.
    pub since_s: Option<i64>,
    /// The damaged files, as people know them.
    pub files: BTreeSet<String>,
    /// Generations of which something can't be read, each with the files that cause it. Other damage costs
    /// nothing: another file has the same blocks, or nobody needs them.
    pub generations: BTreeMap<u64, BTreeSet<String>>,
}

/// Finds out for each damage what it costs.
pub(super) fn tell(
    repository: &Repository,
    known: &KnownDamage,
    damages: &mut [(Damage, DamageSite)],
) -> Result<(), Error> {
    let loaded = repository.load_damaged()?;
    let copies = FallbackReader::new(repository.store(), &loaded.files);
    let mut teller = CostReport { loaded: &loaded, copies: &copies, layouts: BTreeMap::new() };
    for (damage, hit) in damages.iter_mut() {
        match hit {
            DamageSite::File(number) => {
                damage.costs = chains(&loaded, *number);
                damage.may_lose_generation = !loaded.files.contains_key(number);
            }
            DamageSite::Newest => damage.may_lose_generation = true,
            DamageSite::Generation(number) => {
                damage.costs = vec![Cost { generation: *number, losses: Vec::new() }];
            }
            DamageSite::Entry(_) | DamageSite::Unneeded => {}
        }
    }
    // The listed damage by its place, with its index in the list.
    let told: BTreeMap<DamageEntry, usize> = damages
        .iter()
        .enumerate()
        .filter_map(|(at, (_, hit))| match hit {
            DamageSite::Entry(bad) => Some((*bad, at)),
            _ => None,
        })
        .collect();
    each_lost(&loaded, known, &copies, |generation, bad, blocks| {
        let Some((damage, _)) = told.get(&bad).and_then(|at| damages.get_mut(*at)) else { return };
        let losses = teller.losses(generation, bad.chunk, blocks);
        match damage.costs.iter_mut().find(|cost| cost.generation == generation) {
            Some(cost) => cost.losses.extend(losses),
            None => damage.costs.push(Cost { generation, losses }),
        }
    })?;
    Ok(())
}

/// The damage that the last verification noted, and what can't be read because of it.
///
/// # Errors
/// If the repository can't be read.
pub fn noted(repository: &Repository) -> Result<NotedDamage, Error> {
    let mut noted = NotedDamage::default();
    let known = KnownDamage::read(repository.store())?;
    if known.chunks().next().is_none() {
        return Ok(noted);
    }
    noted.since_s = KnownDamage::written_s(repository.store());
    let loaded = repository.load_damaged()?;
    let name = |number: u64| repository.store().shown(&file::name(number));
    // A file that was removed since has no damage any more.
    let files = known.files().into_iter().filter(|number| loaded.files.contains_key(number));
    noted.files = files.map(name).collect();
    let copies = FallbackReader::new(repository.store(), &loaded.files);
    each_lost(&loaded, &known, &copies, |generation, bad, _| {
        noted.generations.entry(generation).or_default().insert(name(bad.file));
    })?;
    Ok(noted)
}

/// Calls `each` with what each generation has lost by known damage: the generation, the damage, and blocks of
/// its chunk.
fn each_lost(
    loaded: &RepositoryState,
    known: &KnownDamage,
    copies: &FallbackReader<'_>,
    mut each: impl FnMut(u64, DamageEntry, BTreeSet<usize>),
) -> Result<(), Error> {
    let mut views = ChunkVersions::new(&loaded.generations);
    let mut ignored = Vec::new();
    for chunk in known.chunks() {
        let found = views.chunk(chunk, &mut ignored)?;
        let others = copies.places(chunk);
        for (generation, view) in &found {
            for (bad, blocks) in lost(chunk, view, known, &others) {
                each(*generation, bad, blocks);
            }
        }
    }
    Ok(())
}

/// Generations whose chain includes a file.
fn chains(loaded: &RepositoryState, number: u64) -> Vec<Cost> {
    // A file of which nothing can be read leaves incomplete chains.
    let is_read = loaded.files.contains_key(&number);
    let through = |generation: &&u64| {
        let chain = Chain::partial(&loaded.generations, **generation);
        chain.is_some_and(|(chain, why)| if is_read { chain.includes_file(number) } else { why.is_some() })
    };
    let all = loaded.generations.keys().filter(through);
    all.map(|generation| Cost { generation: *generation, losses: Vec::new() }).collect()
}

/// Blocks of a chunk that a generation has lost, by the damage that caused it.
fn lost(
    chunk: u64,
    view: &ChunkVersion,
    known: &KnownDamage,
    others: &BTreeMap<Hash, Vec<BlockLocation>>,
) -> BTreeMap<DamageEntry, BTreeSet<usize>> {
    let mut lost: BTreeMap<DamageEntry, BTreeSet<usize>> = BTreeMap::new();
    if let Some(file) = view.cause {
        let bad = DamageEntry { chunk, file, group: None };
        let unknown = (0..view.chunk.blocks.len()).filter(|block| view.chunk.is_unknown(*block));
        lost.entry(bad).or_default().extend(unknown);
    }
    for (block, place) in view.chunk.blocks.iter().enumerate() {
        let Some(place) = place.as_ref().filter(|place| known.hits(chunk, place)) else { continue };
        let elsewhere = others.get(&place.hash).into_iter().flatten();
        if elsewhere.into_iter().any(|other| !known.hits(chunk, other)) {
            continue;
        }
        for group in [Some(&place.group), place.base.as_ref().map(|(base, _)| base)].into_iter().flatten() {
            let bad = DamageEntry { chunk, file: group.file, group: Some(group.offset) };
            if known.contains(&bad) {
                lost.entry(bad).or_default().insert(block);
            }
        }
    }
    lost
}

struct CostReport<'a> {
    loaded: &'a RepositoryState,
    copies: &'a FallbackReader<'a>,
    /// The layouts of generations that are trees of files; none for the others.
    layouts: BTreeMap<u64, Option<Layout>>,
}

impl CostReport<'_> {
    /// Blocks of a chunk as bytes of the volume, or of the files of a tree.
    fn losses(&mut self, generation: u64, chunk: u64, blocks: BTreeSet<usize>) -> Vec<Loss> {
        let Some(file) = self.loaded.generations.get(&generation) else { return Vec::new() };
        let layout =
            self.layouts.entry(generation).or_insert_with(|| layout(self.loaded, self.copies, generation));
        let ranges = ranges(file, chunk, blocks);
        match layout {
            None => ranges.into_iter().map(|bytes| Loss { path: None, bytes }).collect(),
            Some(layout) => {
                let of_list = layout.of_list(&ranges).map(|bytes| Loss { path: Some("".into()), bytes });
                of_list.into_iter().chain(layout.losses(&ranges)).collect()
            }
        }
    }
}

fn layout(loaded: &RepositoryState, copies: &FallbackReader<'_>, generation: u64) -> Option<Layout> {
    let (chain, _) = Chain::partial(&loaded.generations, generation)?;
    // What is not a tree has no list of files.
    read_layout(&chain, copies, true).ok().map(|found| found.layout)
}

fn ranges(file: &Arc<File>, chunk: u64, blocks: BTreeSet<usize>) -> Vec<Range<u64>> {
    let at = |block: usize| (chunk * CHUNK as u64 + (block * BLOCK) as u64).min(file.header.len);
    let runs = runs(blocks).into_iter().map(|run| at(run.start)..at(run.end));
    runs.filter(|range| range.start < range.end).collect()
}
