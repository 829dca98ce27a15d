//! Reads blocks from their files, and checks each against its hash.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use disk::Source;
use seal::BlockSealer;

use crate::Error;
use crate::compress::{decompress, decompress_delta};
use crate::file::{self, read_exact_at};
use crate::format::{BLOCK, BlockLocation, Group, block_hash, hash};
use crate::store::Store;

/// The files that were opened so far, by number. Several threads use it.
#[derive(Default)]
pub(crate) struct OpenedFiles {
    files: Mutex<BTreeMap<u64, Arc<dyn Source>>>,
    /// Bytes that were read.
    fetched: AtomicU64,
}

impl OpenedFiles {
    pub(crate) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }
}

/// Opens files when they are first needed. Several threads use it.
pub(crate) struct Fetcher<'a> {
    store: &'a dyn Store,
    opened: Arc<OpenedFiles>,
}

/// Receives the indexes of blocks that can't be read, and why.
pub(crate) type OnDamage<'a> = &'a mut dyn FnMut(&[usize], Error) -> Result<(), Error>;

/// A wanted block, its location, and the delta to apply.
struct WantedBlock<'a> {
    block: usize,
    place: &'a BlockLocation,
}

impl<'a> Fetcher<'a> {
    pub(crate) fn new(store: &'a dyn Store) -> Fetcher<'a> {
        Fetcher::sharing(store, Arc::default())
    }

    /// A fetcher that shares open files of this store with others.
    pub(crate) fn sharing(store: &'a dyn Store, opened: Arc<OpenedFiles>) -> Fetcher<'a> {
        Fetcher { store, opened }
    }

    fn file(&self, number: u64) -> io::Result<Arc<dyn Source>> {
        let mut files = self.opened.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(&number) {
            return Ok(Arc::clone(file));
        }
        let file: Arc<dyn Source> = Arc::from(self.store.open(&file::name(number))?);
        files.insert(number, Arc::clone(&file));
        Ok(file)
    }

    /// The location of a group, for messages.
    pub(crate) fn place(&self, group: &Group) -> String {
        format!("{} at byte {}", self.store.shown(&file::name(group.file)), group.offset)
    }

    /// The stored bytes of a group, checked against their hash.
    pub(crate) fn stored(&self, group: &Group) -> Result<Vec<u8>, Error> {
        self.opened.fetched.fetch_add(u64::from(group.stored), Ordering::Relaxed);
        let mut bytes = vec![0; group.stored as usize];
        let read = self.file(group.file).and_then(|file| read_exact_at(&*file, group.offset, &mut bytes));
        match read {
            Ok(()) if hash(&bytes) == group.sum => Ok(bytes),
            Ok(()) => Err(Error::corrupt(self.place(group), "damaged blocks")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Error::corrupt(self.place(group), "the file is truncated"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::corrupt(self.place(group), "the file is missing"))
            }
            Err(source) => Err(Error::Store { name: self.place(group), source }),
        }
    }

    /// What blocks are sealed with, if the store is encrypted.
    pub(crate) fn sealer(&self) -> Option<&'a BlockSealer> {
        self.store.sealer()
    }

    /// Whether blocks can be read, and not only stored. A put key can't read them.
    pub(crate) fn reads(&self) -> bool {
        self.store.reads_blocks()
    }

    /// The compressed bytes of a group.
    fn packed(&self, group: &Group) -> Result<Vec<u8>, Error> {
        let stored = self.stored(group)?;
        let Some(sealer) = self.sealer() else { return Ok(stored) };
        sealer.open(&stored).map_err(|error| match error {
            seal::Error::Damaged(what) => Error::corrupt(self.place(group), what),
            error => Error::Key(format!("{}: {error}", self.place(group))),
        })
    }

    /// The blocks of a group that is not a delta.
    pub(crate) fn group(&self, group: &Group) -> Result<Vec<u8>, Error> {
        decompress(group, &self.packed(group)?)
            .ok_or_else(|| Error::corrupt(self.place(group), "blocks that can't be decompressed"))
    }

    /// Puts blocks into `out`, which has room for all `blocks`. Zeros are not written. Blocks that can't be
    /// read are passed to `damaged`, with the indexes of the affected blocks.
    pub(crate) fn blocks(
        &self,
        blocks: &[Option<BlockLocation>],
        out: &mut [u8],
        damaged: OnDamage<'_>,
    ) -> Result<(), Error> {
        // Sorted by the group to decompress, so that each is decompressed once.
        let mut wanted: BTreeMap<(u64, u64), (&Group, Vec<WantedBlock<'_>>)> = BTreeMap::new();
        for (block, place) in blocks.iter().enumerate() {
            let Some(place) = place else { continue };
            let whole = place.base.as_ref().map_or(&place.group, |(base, _)| base);
            let uses = &mut wanted.entry((whole.file, whole.offset)).or_insert((whole, Vec::new())).1;
            uses.push(WantedBlock { block, place });
        }
        for (group, uses) in wanted.into_values() {
            match self.group(group) {
                Err(error) => {
                    let all: Vec<usize> = uses.iter().map(|wanted| wanted.block).collect();
                    damaged(&all, error)?;
                }
                Ok(raw) => {
                    for wanted in uses {
                        let target = out.get_mut(wanted.block * BLOCK..(wanted.block + 1) * BLOCK);
                        let found = self.block(wanted.place, &raw, target.unwrap_or_default());
                        found.or_else(|error| damaged(&[wanted.block], error))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn block(&self, place: &BlockLocation, raw: &[u8], target: &mut [u8]) -> Result<(), Error> {
        let slot = |slot: u8| {
            let start = usize::from(slot) * BLOCK;
            raw.get(start..start + BLOCK).unwrap_or_default()
        };
        let corrupt = |what: &str| Error::corrupt(self.place(&place.group), what);
        match &place.base {
            None => target.copy_from_slice(slot(place.slot)),
            Some((_, base_slot)) => {
                let block = decompress_delta(slot(*base_slot), &self.packed(&place.group)?);
                target.copy_from_slice(&block.ok_or_else(|| corrupt("a delta that can't be applied"))?);
            }
        }
        if block_hash(target) == place.hash {
            Ok(())
        } else {
            Err(corrupt("a block that does not match its hash"))
        }
    }
}
