//! Reuses what an interrupted run has left: chunks that it stored need not be compressed again.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use disk::Source;

use crate::file::{self, read_exact_at};
use crate::format::{Change, Group, Hash, Header, RECORD_FRAME_BYTES, Record, hash, record_len};
use crate::store::Store;

/// A file that was never finished, read in order.
pub(super) struct Salvage {
    source: Arc<dyn Source>,
    number: u64,
    offset: u64,
    next: Option<Record>,
}

/// A chunk of such a file.
pub(super) struct Salvaged {
    source: Arc<dyn Source>,
    number: u64,
    record: Record,
}

impl Salvage {
    /// What is left of the file with this number, if it has the same parent as `header`.
    pub(super) fn open(store: &dyn Store, number: u64, header: &Header) -> Option<Salvage> {
        let source: Arc<dyn Source> = Arc::from(store.leftover(&file::name(number)).ok()??);
        let mut fixed = [0; Header::FIXED_BYTES];
        read_exact_at(&*source, 0, &mut fixed).ok()?;
        let len = Header::total_bytes(&fixed).ok()?;
        let mut bytes = vec![0; len];
        read_exact_at(&*source, 0, &mut bytes).ok()?;
        let found = Header::decode(&bytes).ok()?;
        if (found.parent, found.parent_content) != (header.parent, header.parent_content) {
            return None;
        }
        let mut salvage = Salvage { source, number, offset: len as u64, next: None };
        salvage.next = salvage.read();
        Some(salvage)
    }

    /// The next record. After a damaged record nothing more is used.
    fn read(&mut self) -> Option<Record> {
        let mut frame = [0; RECORD_FRAME_BYTES];
        read_exact_at(&*self.source, self.offset, &mut frame).ok()?;
        let mut bytes = vec![0; record_len(&frame).ok()?];
        read_exact_at(&*self.source, self.offset, &mut bytes).ok()?;
        let record = Record::decode(&bytes).ok()?;
        self.offset += bytes.len() as u64;
        let end = own_groups(&record, self.number).map(|group| group.offset + u64::from(group.stored)).max();
        self.offset = end.unwrap_or(self.offset).max(self.offset);
        Some(record)
    }

    /// The contents for a chunk. Chunks must be asked for in ascending order.
    pub(super) fn chunk(&mut self, number: u64) -> Option<Salvaged> {
        while self.next.as_ref().is_some_and(|record| record.chunk < number) {
            self.next = self.read();
        }
        let record = self.next.take_if(|record| record.chunk == number)?;
        self.next = self.read();
        Some(Salvaged { source: Arc::clone(&self.source), number: self.number, record })
    }
}

fn own_groups(record: &Record, number: u64) -> impl Iterator<Item = &Group> {
    let places = record.changes.iter().filter_map(|(_, place)| place.as_ref());
    places.map(|place| &place.group).filter(move |group| group.file == number)
}

impl Salvaged {
    /// The changes and the bytes of their groups, if the chunk's content is still the same and all bytes are
    /// undamaged.
    pub(super) fn take(self, content: &Hash) -> Option<(Vec<Change>, Vec<u8>)> {
        if self.record.content != *content {
            return None;
        }
        let mut bytes = Vec::new();
        let mut moved: BTreeMap<u64, Group> = BTreeMap::new();
        let Salvaged { source, number, mut record } = self;
        for place in record.changes.iter_mut().filter_map(|(_, place)| place.as_mut()) {
            if place.group.file != number {
                // A backup never writes this.
                return None;
            }
            let group = match moved.get(&place.group.offset) {
                Some(group) => *group,
                None => copy(&*source, &place.group, &mut bytes).ok()?,
            };
            moved.insert(place.group.offset, group);
            place.group = group;
        }
        Some((record.changes, bytes))
    }
}

/// Reads a group and appends it to others.
fn copy(source: &dyn Source, group: &Group, bytes: &mut Vec<u8>) -> io::Result<Group> {
    let start = bytes.len();
    bytes.resize(start + group.stored as usize, 0);
    let stored = bytes.get_mut(start..).unwrap_or_default();
    read_exact_at(source, group.offset, stored)?;
    if hash(stored) != group.sum {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Group { file: 0, offset: start as u64, ..*group })
}
