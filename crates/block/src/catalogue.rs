//! Which files are generations, once some have been pruned.

use crate::Error;
use crate::file::read_exact_at;
use crate::store::Store;

const MAGIC: [u8; 8] = *b"remocat\n";
/// More than a repository can come to have.
const LEN_MAX: u64 = 1 << 26;

/// The files that hold generations, among those that are numbered up to `through`. Files with higher
/// numbers all hold one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Catalogue {
    pub(crate) through: u64,
    pub(crate) files: Vec<u64>,
}

impl Catalogue {
    /// `000042.catalogue`
    fn name(through: u64) -> String {
        format!("{through:06}.catalogue")
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for number in [self.through].iter().chain(&self.files) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let sum = *blake3::hash(&out).as_bytes();
        out.extend_from_slice(&sum);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Catalogue> {
        let (covered, sum) = bytes.split_last_chunk::<32>()?;
        let numbers = covered.strip_prefix(&MAGIC)?;
        if blake3::hash(covered).as_bytes() != sum || numbers.len() % 8 != 0 {
            return None;
        }
        let (numbers, _) = numbers.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        Some(Catalogue { through: numbers.next()?, files: numbers.collect() })
    }

    /// Writes it; from then on it holds.
    pub(crate) fn write(&self, store: &dyn Store) -> Result<(), Error> {
        let name = Catalogue::name(self.through);
        let failed = Error::store(store.shown(&name));
        let written = store.create(&name).and_then(|mut upload| {
            upload.write_all(&self.encode())?;
            upload.finish()
        });
        written.map_err(failed)
    }

    /// The newest one of these files, and the names of the others.
    pub(crate) fn newest(store: &dyn Store, names: &[String]) -> Result<(Catalogue, Vec<String>), Error> {
        let mut numbered: Vec<(u64, &String)> = names
            .iter()
            .filter_map(|name| Some((name.strip_suffix(".catalogue")?.parse().ok()?, name)))
            .collect();
        numbered.sort();
        let Some((through, name)) = numbered.pop() else { return Ok((Catalogue::default(), Vec::new())) };
        let shown = store.shown(name);
        let failed = |source| Error::Store { name: shown.clone(), source };
        let source = store.open(name).map_err(failed)?;
        let len = source.stat().map_err(failed)?.len.min(LEN_MAX);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        read_exact_at(&*source, 0, &mut bytes).map_err(failed)?;
        let old = numbered.into_iter().map(|(_, name)| name.clone()).collect();
        match Catalogue::decode(&bytes).filter(|found| found.through == through) {
            Some(catalogue) => Ok((catalogue, old)),
            None => Err(Error::corrupt(
                shown,
                "the list of generations is damaged; 'rm' it to see all generations again, pruned ones as well",
            )),
        }
    }
}
