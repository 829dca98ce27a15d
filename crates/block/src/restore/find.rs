//! Finds the files of a repository that make up a generation, even a damaged one.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Request;
use crate::Error;
use crate::chain::Chain;
use crate::file::File;
use crate::format::CHUNK;
use crate::repository::{Repository, RepositoryState};

/// If only a damaged header gives a volume's length, it may be at most this many times that of any other.
const LONGER_MAX: u64 = 16;

/// The note of a generation. If its file is damaged, the note may be wrong.
///
/// # Errors
/// When the generation does not exist.
pub fn note(repository: &Repository, request: Request) -> Result<String, Error> {
    let (_, chain, _) = find(repository, request)?;
    Ok(chain.newest().map(|file| file.header.note.clone()).unwrap_or_default())
}

/// Hash of the volume: from the file itself, or from one that builds on it.
pub(crate) fn expected(loaded: &RepositoryState, newest: Option<&Arc<File>>) -> Option<[u8; 32]> {
    let newest = newest?;
    let mut children = loaded.generations.values().filter(|file| file.is_sound());
    let mut child = || children.find(|file| file.header.parent == newest.header.generation);
    newest.expected().copied().or_else(|| child().map(|child| child.header.parent_content))
}

/// The chain to restore, and the known damage that affects it.
pub(crate) fn find(
    repository: &Repository,
    request: Request,
) -> Result<(RepositoryState, Chain, Vec<String>), Error> {
    if !request.keep_going {
        let loaded = repository.load()?;
        let chain = repository.chain(&loaded, request.generation)?;
        return Ok((loaded, chain, Vec::new()));
    }
    let loaded = repository.load_damaged()?;
    let newest = request.generation.or_else(|| loaded.generations.keys().next_back().copied());
    let Some((chain, why)) = newest.and_then(|number| Chain::partial(&loaded.generations, number)) else {
        // That error describes best what exists.
        return Err(repository.chain(&loaded, request.generation).err().unwrap_or(Error::Worker));
    };
    let chain = with_length(repository, &loaded, chain)?;
    let named = request.generation.is_some();
    let others = loaded.damages().filter(|_| !named || why.is_some() || !chain.is_sound());
    let damages = others.chain(&why).map(ToString::to_string).collect();
    Ok((loaded, chain, damages))
}

/// The chain, if the volume's length is uncertain: tries known lengths until the content matches.
fn with_length(repository: &Repository, loaded: &RepositoryState, chain: Chain) -> Result<Chain, Error> {
    let Some(newest) = chain.newest().filter(|newest| !newest.is_sound()) else { return Ok(chain) };
    let Some(expected) = expected(loaded, Some(newest)) else { return Ok(chain) };
    if chain.content()? == expected {
        return Ok(chain);
    }
    let others = loaded.generations.values().filter(|file| file.is_sound()).map(|file| file.header.len);
    let lens: BTreeSet<u64> = others.collect();
    for len in &lens {
        let file = File::rebuild(repository.store(), newest.number, Some(*len));
        if let Some(other) =
            file.map(|file| chain.with(file)).filter(|other| other.content().ok() == Some(expected))
        {
            return Ok(other);
        }
    }
    // A volume does not grow that much from one backup to the next.
    let most = lens.last().map_or(u64::MAX, |longest| longest.saturating_mul(LONGER_MAX).max(CHUNK as u64));
    if chain.len() > most {
        let text = "the volume's length is damaged, and nothing else records it";
        return Err(Error::corrupt(&newest.shown, text));
    }
    Ok(chain)
}
