//! Which files of a repository contain generations.

use std::collections::BTreeSet;

use crate::Error;
use crate::catalogue::Catalogue;
use crate::mirrored::{Holds, Mirrored};
use crate::store::Store;

/// Which files contain generations: what the newest catalogue says, or in a mirror what its own note says.
pub(crate) struct Listed {
    /// Highest file number that the newest catalogue covers; 0 without one.
    pub(crate) through: u64,
    /// Numbers up to `through` of files that contain generations.
    files: BTreeSet<u64>,
    /// The note of a mirror, which needs no catalogue any more.
    pub(crate) mirrored: Option<Mirrored>,
    /// Catalogues that nothing refers to.
    pub(crate) old: Vec<String>,
}

impl Listed {
    /// What is known in a store with files of these names.
    pub(crate) fn read(store: &dyn Store, names: &[String]) -> Result<Listed, Error> {
        let Some(mut note) = Mirrored::read(store)? else {
            let (Catalogue { through, files }, old) = Catalogue::newest(store, names)?;
            return Ok(Listed { through, files: files.into_iter().collect(), mirrored: None, old });
        };
        let through = Catalogue::newest_of(names.iter());
        let referred = note.catalogues();
        let is_old = |name: &&String| {
            Catalogue::number(name).is_some_and(|number| number != through && !referred.contains(&number))
        };
        let old = names.iter().filter(is_old).cloned().collect();
        note.resolve(store, names)?;
        Ok(Listed { through, files: BTreeSet::new(), mirrored: Some(note), old })
    }

    /// What a file contains.
    pub(crate) fn holds(&self, number: u64) -> Holds {
        match &self.mirrored {
            Some(note) => note.files.get(&number).map_or(Holds::IfWhole, |entry| entry.holds),
            None if number > self.through || self.files.contains(&number) => Holds::Generation,
            None => Holds::Blocks,
        }
    }

    /// Files with generations that must be there.
    pub(crate) fn expected(&self) -> BTreeSet<u64> {
        match &self.mirrored {
            Some(note) => {
                let all = note.files.iter().filter(|(_, entry)| entry.holds == Holds::Generation);
                all.map(|(number, _)| *number).collect()
            }
            None => self.files.clone(),
        }
    }
}
