//! Records which files are generations, once some have been pruned.

use std::collections::BTreeSet;

use crate::format::NUMBER_MAX;
use crate::mirrored::{Holds, Mirrored};
use crate::store::Store;
use crate::{Error, numbers};

const MAGIC: [u8; 8] = *b"remocat\n";

/// The files with numbers up to `through` that contain generations. Every file with a higher number contains
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Catalogue {
    pub(crate) through: u64,
    pub(crate) files: Vec<u64>,
}

impl Catalogue {
    /// `000042.catalogue`
    pub(crate) fn name(through: u64) -> String {
        format!("{through:06}.catalogue")
    }

    /// Writes the catalogue; it is valid from then on.
    pub(crate) fn write(&self, store: &dyn Store) -> Result<(), Error> {
        let all = std::iter::once(self.through).chain(self.files.iter().copied());
        numbers::write(store, &Catalogue::name(self.through), &MAGIC, all)
    }

    /// The newest catalogue, and the names of the others.
    pub(crate) fn newest(store: &dyn Store, names: &[String]) -> Result<(Catalogue, Vec<String>), Error> {
        let numbered = names.iter().filter_map(|name| Some((Catalogue::number(name)?, name)));
        let mut numbered: Vec<(u64, &String)> = numbered.collect();
        numbered.sort();
        let Some((through, _)) = numbered.pop() else { return Ok((Catalogue::default(), Vec::new())) };
        let old = numbered.into_iter().map(|(_, name)| name.clone()).collect();
        Ok((Catalogue::read(store, through)?, old))
    }

    /// The number in the name of the newest catalogue; 0 if there is none.
    pub(crate) fn newest_of<'a>(names: impl Iterator<Item = &'a String>) -> u64 {
        names.filter_map(|name| Catalogue::number(name)).max().unwrap_or(0)
    }

    /// The number in a name from [`Catalogue::name`].
    pub(crate) fn number(name: &str) -> Option<u64> {
        let through = name.strip_suffix(".catalogue")?.parse().ok()?;
        (through <= NUMBER_MAX && Catalogue::name(through) == name).then_some(through)
    }

    /// The catalogue of a number.
    pub(crate) fn read(store: &dyn Store, through: u64) -> Result<Catalogue, Error> {
        let name = &Catalogue::name(through);
        let mut all = numbers::read(store, name, &MAGIC)?.flatten().unwrap_or_default().into_iter();
        match all.next().filter(|found| *found == through) {
            Some(through) => Ok(Catalogue { through, files: all.collect() }),
            None => Err(Error::corrupt(
                store.shown(name),
                "the list of generations is damaged; 'rm' it to see all generations again, pruned ones as well",
            )),
        }
    }
}

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
