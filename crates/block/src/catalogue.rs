//! Records which files are generations, once some have been pruned.

use crate::format::NUMBER_MAX;
use crate::store::Store;
use crate::{Error, number_file};

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
        number_file::write(store, &Catalogue::name(self.through), &MAGIC, all)
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
        let mut all = number_file::read(store, name, &MAGIC)?.flatten().unwrap_or_default().into_iter();
        match all.next().filter(|found| *found == through) {
            Some(through) => Ok(Catalogue { through, files: all.collect() }),
            None => Err(Error::corrupt(
                store.shown(name),
                "the list of generations is damaged; remove this file to see all generations again, \
                 including pruned ones",
            )),
        }
    }
}
