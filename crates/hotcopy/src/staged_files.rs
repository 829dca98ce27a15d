//! Files that were read while nobody committed, or just after that, until they can be stored.

use std::io::{self, Read};
use std::path::Path;

use block::tree::Node;
use disk::Source;

use crate::file_places::Places;
use crate::named;
use crate::spool::Spool;

/// A file that is staged.
pub(crate) struct StagedFile {
    pub node: Node,
    /// Where it begins in the spool.
    pub offset: u64,
}

/// A file to which the server only adds, as long as it was while nobody committed.
pub(crate) struct Tail {
    pub node: Node,
    pub file: Box<dyn Source>,
}

/// Files that are staged.
pub(crate) struct StagedFiles {
    spool: Spool,
    files: Vec<StagedFile>,
}

impl StagedFiles {
    /// None yet. The spool is a file without a name in `room`.
    pub(crate) fn new(room: &Path) -> io::Result<StagedFiles> {
        Ok(StagedFiles { spool: Spool::new(room)?, files: Vec::new() })
    }

    /// The files so far.
    pub(crate) fn files(&self) -> &[StagedFile] {
        &self.files
    }

    /// Their bytes.
    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// The same, for who adds bytes before it knows whether they are a file.
    pub(crate) fn spool_mut(&mut self) -> &mut Spool {
        &mut self.spool
    }

    pub(crate) fn into_spool(self) -> Spool {
        self.spool
    }

    /// Stages a file that is as long as what is read from `from`. Returns how many bytes that is.
    pub(crate) fn add(&mut self, node: Node, from: impl Read) -> io::Result<u64> {
        let (offset, len) = self.spool.add(from)?;
        self.files.push(StagedFile { node: node.with_len(len), offset });
        Ok(len)
    }

    /// Stages files whose bytes are in the spool already.
    pub(crate) fn add_read(&mut self, files: impl IntoIterator<Item = StagedFile>) {
        self.files.extend(files);
    }

    /// Reads files up to the lengths that they had.
    pub(crate) fn add_tails(&mut self, tails: Vec<Tail>, places: &Places) -> io::Result<()> {
        for Tail { node, file } in tails {
            let (place, len) = (places.real(&node.path), node.len);
            if self.add(node, file.take(len)).map_err(|error| named(&place, error))? != len {
                return Err(named(&place, io::Error::other("it is shorter than it was")));
            }
        }
        Ok(())
    }
}
