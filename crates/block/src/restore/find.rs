//! Which files of a repository make up a generation, also of one that is damaged.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Request;
use crate::Error;
use crate::chain::Chain;
use crate::file::File;
use crate::format::CHUNK;
use crate::repository::{Loaded, Repository};

/// Times as long as any other a volume is believed to be when only a damaged header says so.
const LONGER_MAX: u64 = 16;

/// What was noted of a generation when it was made, also where its file is damaged: then it may not be what
/// it was.
///
/// # Errors
/// When there is no such generation.
pub fn note(repository: &Repository, request: Request) -> Result<String, Error> {
    let (_, chain, _) = find(repository, request)?;
    Ok(chain.newest().map(|file| file.header.note.clone()).unwrap_or_default())
}

/// Hash of the volume as it was: of the file itself, or of one that builds upon it.
pub(super) fn expected(loaded: &Loaded, newest: Option<&Arc<File>>) -> Option<[u8; 32]> {
    let newest = newest?;
    let mut children = loaded.generations.values().filter(|file| file.is_sound());
    let mut child = || children.find(|file| file.header.parent == newest.header.generation);
    newest.expected().copied().or_else(|| child().map(|child| child.header.parent_content))
}

/// The chain to restore, and what of the repository is known to stand in its way.
pub(crate) fn find(repository: &Repository, request: Request) -> Result<(Loaded, Chain, Vec<String>), Error> {
    if !request.keep_going {
        let loaded = repository.load()?;
        let chain = repository.chain(&loaded, request.generation)?;
        return Ok((loaded, chain, Vec::new()));
    }
    let loaded = repository.load_damaged()?;
    let newest = request.generation.or_else(|| loaded.generations.keys().next_back().copied());
    let Some((chain, why)) = newest.and_then(|number| Chain::partial(&loaded.generations, number)) else {
        // It says best what there is.
        return Err(repository.chain(&loaded, request.generation).err().unwrap_or(Error::Worker));
    };
    let chain = with_length(repository, &loaded, chain)?;
    let named = request.generation.is_some();
    let others = loaded.damages().filter(|_| !named || why.is_some() || !chain.is_sound());
    let damages = others.chain(&why).map(ToString::to_string).collect();
    Ok((loaded, chain, damages))
}

/// The chain, where nothing proves how long the volume is: as long as makes it what was backed up.
fn with_length(repository: &Repository, loaded: &Loaded, chain: Chain) -> Result<Chain, Error> {
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
    // Nothing is that much larger from one day to the next.
    let most = lens.last().map_or(u64::MAX, |longest| longest.saturating_mul(LONGER_MAX).max(CHUNK as u64));
    if chain.len() > most {
        let text = "the length of the volume is damaged, and nothing else tells it";
        return Err(Error::corrupt(&newest.shown, text));
    }
    Ok(chain)
}
