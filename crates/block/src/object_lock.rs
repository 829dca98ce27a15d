//! Which files must be retained to keep a generation safe: a new one refers to much older files.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::chain::Chain;
use crate::file;
use crate::repository::{Repository, RepositoryState};

impl Repository {
    /// Retains the files that a generation built on this chain needs, for as long as its own file will be
    /// retained. This is done before its file is written: a generation must never exist of which a part can
    /// be removed.
    pub(crate) fn retain(&self, loaded: &RepositoryState, chain: Option<&Chain>) -> Result<(), Error> {
        for name in self.needed(loaded, chain)? {
            self.store().retain(&name).map_err(Error::store(self.store().shown(&name)))?;
        }
        Ok(())
    }

    /// Until when the store retains everything that a generation needs, in seconds since the epoch, for each
    /// generation. `None`: some of it is not retained.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn retained(&self) -> Result<BTreeMap<u64, Option<i64>>, Error> {
        let loaded = self.load()?;
        let mut known: BTreeMap<String, Option<i64>> = BTreeMap::new();
        let mut all = BTreeMap::new();
        for number in loaded.generations.keys() {
            let Ok(chain) = Chain::new(&loaded.generations, *number) else {
                all.insert(*number, None);
                continue;
            };
            let mut earliest = Some(i64::MAX);
            for name in self.needed(&loaded, Some(&chain))? {
                let until_s = match known.get(&name) {
                    Some(until_s) => *until_s,
                    None => {
                        let asked = self.store().retained_until(&name);
                        asked.map_err(Error::store(self.store().shown(&name)))?
                    }
                };
                known.insert(name, until_s);
                earliest = earliest.min(until_s);
            }
            all.insert(*number, earliest);
        }
        Ok(all)
    }

    /// The names of the files that a chain may need. This includes all files that a prune has kept for their
    /// blocks: finding out which of them are needed would require their indexes.
    fn needed(&self, loaded: &RepositoryState, chain: Option<&Chain>) -> Result<BTreeSet<String>, Error> {
        let mut names =
            BTreeSet::from_iter(self.store().key_files().map_err(Error::store(self.store().shown("")))?);
        names.extend(loaded.catalogues());
        if let Some(chain) = chain {
            let needs = |number: &u64| chain.includes_file(*number) || loaded.is_left(*number);
            names
                .extend(loaded.files.keys().filter(|number| needs(number)).map(|number| file::name(*number)));
        }
        Ok(names)
    }
}
