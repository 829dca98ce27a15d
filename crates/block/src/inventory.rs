//! Which files of a repository contain generations.

use std::collections::BTreeSet;

use crate::Error;
use crate::catalogue::Catalogue;
use crate::mirror_note::{FileContents, MirrorNote};
use crate::store::Store;

/// Which files contain generations, by the newest catalogue, or in a mirror by the mirror's note.
pub(crate) struct Inventory {
    /// Highest file number that the newest catalogue covers; 0 without one.
    pub(crate) through: u64,
    /// Numbers up to `through` of files that contain generations.
    files: BTreeSet<u64>,
    /// The note of a mirror, which needs no catalogue.
    pub(crate) mirror_note: Option<MirrorNote>,
    /// Catalogues that are no longer used.
    pub(crate) old: Vec<String>,
}

impl Inventory {
    /// The inventory of a store with these files.
    pub(crate) fn read(store: &dyn Store, names: &[String]) -> Result<Inventory, Error> {
        let Some(mut note) = MirrorNote::read(store)? else {
            let (Catalogue { through, files }, old) = Catalogue::newest(store, names)?;
            return Ok(Inventory { through, files: files.into_iter().collect(), mirror_note: None, old });
        };
        let through = Catalogue::newest_of(names.iter());
        let referred = note.catalogues();
        let is_old = |name: &&String| {
            Catalogue::number(name).is_some_and(|number| number != through && !referred.contains(&number))
        };
        let old = names.iter().filter(is_old).cloned().collect();
        note.resolve(store, names)?;
        Ok(Inventory { through, files: BTreeSet::new(), mirror_note: Some(note), old })
    }

    /// What a file contains.
    pub(crate) fn contents(&self, number: u64) -> FileContents {
        match &self.mirror_note {
            Some(note) => note.files.get(&number).map_or(FileContents::IfComplete, |entry| entry.contents),
            None if number > self.through || self.files.contains(&number) => FileContents::Generation,
            None => FileContents::Blocks,
        }
    }

    /// Files with generations that must exist.
    pub(crate) fn expected(&self) -> BTreeSet<u64> {
        match &self.mirror_note {
            Some(note) => {
                let all = note.files.iter().filter(|(_, entry)| entry.contents == FileContents::Generation);
                all.map(|(number, _)| *number).collect()
            }
            None => self.files.clone(),
        }
    }
}
