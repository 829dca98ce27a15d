//! Queues (`ENGINE=QUEUE`): rows are taken and ended at any time, also while nobody commits.
//!
//! A queue is a folder of files ([format](../../../../../docs/formats/queue.md)). Bytes are only added,
//! at the end of the newest file. A file is removed when a newer `checkpoint` does not list it. So what the
//! checkpoint lists, and all files behind that, are a queue as after a crash at some moment: nothing is
//! published then, because `INSERT` has to wait, and a row that is ended a moment later is still there.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use block::tree::Node;

use crate::staged_files::{Aside, Tail};
use crate::{HotFeed, file, named};

/// The name of a queue's list of files.
const CHECKPOINT: &str = "checkpoint";
/// How often to look for the files of a queue while they change.
const LOOKS: usize = 20;

impl HotFeed<'_> {
    /// Opens the files of queues that were not read before, and puts their checkpoints aside. To be called
    /// while nobody can publish.
    pub fn open_queues(&mut self, rest: &mut Vec<Aside>) -> io::Result<Vec<Tail>> {
        let mut open = Vec::new();
        for folder in std::mem::take(&mut self.queues) {
            open.extend(
                self.open_queue(&folder, rest).map_err(|error| named(&self.places.real(&folder), error))?,
            );
        }
        Ok(open)
    }

    fn open_queue(&mut self, folder: &Path, rest: &mut Vec<Aside>) -> io::Result<Vec<Tail>> {
        let path = folder.join(CHECKPOINT);
        for _ in 0..LOOKS {
            let before = self.contents(&path)?;
            let Some(parts) = self.open_parts(folder)? else { continue };
            let entry = match self.machine.tree().entry(&self.places.real(&path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                entry => Some(entry?),
            };
            // A file that the checkpoint lists is only removed after it was replaced.
            if entry.is_some() != before.is_some() || self.contents(&path)? != before {
                continue;
            }
            if let Some((bytes, entry)) = before.zip(entry) {
                let (offset, len) = self.aside.add(&*bytes)?;
                rest.push(Aside { node: Node::of(path, entry).with_len(len), offset });
            }
            return Ok(self.not_read_before(folder, parts));
        }
        Err(io::Error::other(format!("its files changed in each of {LOOKS} looks; make the copy again")))
    }

    /// The files with rows; none if one was removed meanwhile.
    fn open_parts(&self, folder: &Path) -> io::Result<Option<Vec<Tail>>> {
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        // First their names and then their lengths, so that all but the newest are whole.
        let names = match self.machine.disk().list(&self.places.real(folder)) {
            Err(error) if missing(&error) => return Ok(Some(Vec::new())),
            names => names?,
        };
        let mut parts = Vec::new();
        for path in names.into_iter().map(|name| folder.join(name)).filter(|path| file::is_queue_part(path)) {
            let whole = self.places.real(&path);
            let opened = self.machine.disk().open(&whole).and_then(|file| Ok((file.stat()?.len, file)));
            let entry = self.machine.tree().entry(&whole);
            match opened.and_then(|(len, file)| Ok(Tail { node: Node::of(path, entry?).with_len(len), file }))
            {
                Ok(part) => parts.push(part),
                Err(error) if missing(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(parts))
    }

    /// Those of the parts that are not in the copy yet. What of the folder is in the copy, but no part any
    /// more, leaves it.
    fn not_read_before(&mut self, folder: &Path, parts: Vec<Tail>) -> Vec<Tail> {
        let mut parts: BTreeMap<PathBuf, Tail> =
            parts.into_iter().map(|part| (part.node.path.clone(), part)).collect();
        self.kept.retain(|node| {
            let same = parts.get(&node.path).is_some_and(|part| part.node.len == node.len);
            if same {
                parts.remove(&node.path);
            }
            same || node.path.parent() != Some(folder)
        });
        parts.into_values().collect()
    }
}
