//! Which names of a repository the key opens: names may have other keys, or be in clear.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use block::Error;
use failure::{Completeness, usage};
use progress::Progress;
use seal::Key;

use crate::location::Location;
use crate::log_archive;
use crate::names::{self, Named};

/// The names of a repository, as far as they can be opened.
#[derive(Default)]
pub struct Unlocked {
    /// Those with backups.
    pub backups: Vec<Named>,
    /// Those that have only an archived log, if these were asked for.
    pub only_logs: Vec<Named>,
    /// Those that the key does not open.
    pub locked: Vec<Locked>,
}

/// An encrypted name that can't be opened.
pub struct Locked {
    /// The name.
    pub name: String,
    home: Location,
    why: Error,
}

/// Opens all names of a repository, also those that have only an archived log, as [`unlock`] does.
pub fn all(root: &Path, key: Option<&Key>) -> Result<Unlocked> {
    let mut names = names::names(root)?;
    let with_backups: BTreeSet<String> = names.iter().map(|(name, _)| name.clone()).collect();
    for (name, home) in names::places(root)? {
        if !with_backups.contains(&name) && log_archive::is_there(&home)? {
            names.push((name, home));
        }
    }
    let found = unlock(names, key)?;
    let (backups, only_logs) =
        found.backups.into_iter().partition(|named| with_backups.contains(&named.name));
    Ok(Unlocked { backups, only_logs, locked: found.locked })
}

/// Opens what can be opened: with a key the names that are encrypted with it, and those in clear.
///
/// # Errors
/// If the command line can't be meant: a key opens none of the names, or all of them want one.
pub fn unlock(names: Vec<(String, Location)>, key: Option<&Key>) -> Result<Unlocked> {
    let mut found = Unlocked::default();
    for (name, home) in names {
        let opened = home.is_encrypted().and_then(|is_sealed| {
            let own = key.filter(|_| is_sealed);
            Ok((own, names::at(&home, own)?))
        });
        match opened {
            Ok((own, repository)) => found.backups.push(Named { name, home, repository, key: own.cloned() }),
            Err(why @ (Error::Key(_) | Error::Corrupt { .. })) => {
                found.locked.push(Locked { name, home, why });
            }
            Err(error) => return Err(error.into()),
        }
    }
    if found.backups.iter().any(|named| named.key.is_some() == key.is_some()) {
        return Ok(found);
    }
    match (found.locked.pop(), found.backups.pop()) {
        (Some(locked), _) => Err(locked.why.into()),
        (None, Some(clear)) => Err(usage(format!(
            "{} is not encrypted, and a key is given: leave out the key",
            clear.home.shown()
        ))),
        (None, None) => Ok(found),
    }
}

impl Unlocked {
    /// Names what is in clear although a key is given: somebody may have put it where encrypted backups were.
    pub fn warn_of_clear(&self, key: Option<&Key>, report: &dyn Progress) {
        let all = self.backups.iter().chain(&self.only_logs);
        for named in all.filter(|named| key.is_some() && named.key.is_none()) {
            report.warn(&format!("{} is not encrypted", named.name));
        }
    }

    /// Names what is left out of what was asked for.
    pub fn warn_of_locked(&self, report: &dyn Progress) -> Completeness {
        self.locked.iter().fold(Completeness::Complete, |so_far, locked| {
            report.warn(&format!("{} is left out: {}", locked.name, locked.why));
            if locked.is_damaged() { Completeness::Damaged } else { so_far.and_left_out() }
        })
    }
}

impl Locked {
    /// Whether no key opens it, because its key file is damaged.
    pub fn is_damaged(&self) -> bool {
        matches!(self.why, Error::Corrupt { .. })
    }

    /// How many files its backups have, and the bytes of them.
    pub fn stored(&self) -> Result<(u64, u64)> {
        let store = self.home.store();
        let mut stored = (0, 0);
        for name in store.list()?.iter().filter(|name| name.ends_with(".blk")) {
            let source = store.open(name).with_context(|| store.shown(name))?;
            stored = (stored.0 + 1, stored.1 + source.stat()?.len);
        }
        Ok(stored)
    }
}
