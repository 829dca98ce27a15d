//! Queues (`ENGINE=QUEUE`): rows are taken and ended at any time, also while nobody commits.
//!
//! A queue is a folder of files ([format](../../../../../docs/formats/queue.md)). Bytes are only added, at
//! the end of the newest file. A file is removed when a newer `checkpoint` does not list it. So what the
//! checkpoint lists, and all files behind that, are a queue as after a crash at some point in time. Nothing
//! is published then, because `INSERT` has to wait. A row that is ended just after that is still there.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use block::tree::Node;

use crate::data_files::DataFiles;
use crate::file;
use crate::named;
use crate::staged_files::{StagedFiles, Tail};

/// The name of a queue's list of files.
const CHECKPOINT: &str = "checkpoint";
/// The files of a queue that is paused, and of one whose keys are.
const PAUSED: [&str; 2] = ["paused", "paused-keys"];
/// How often to look for the files of a queue while they change.
const LOOKS: usize = 20;

/// Opens the files of queues that were not read before, and stages their checkpoints. What of a queue is
/// `copied`, but no part of it any more, leaves the copy. To be called while nobody can publish.
pub(crate) fn open(
    files: &DataFiles<'_>,
    folders: &[PathBuf],
    copied: &mut Vec<Node>,
    staged: &mut StagedFiles,
) -> io::Result<Vec<Tail>> {
    let mut tails = Vec::new();
    for folder in folders {
        let parts =
            settled_parts(files, folder, staged).map_err(|error| named(&files.places.real(folder), error))?;
        tails.extend(not_read_before(folder, parts, copied));
    }
    Ok(tails)
}

/// The files with rows that a queue has together with its checkpoint, which is staged.
fn settled_parts(files: &DataFiles<'_>, folder: &Path, staged: &mut StagedFiles) -> io::Result<Vec<Tail>> {
    let path = folder.join(CHECKPOINT);
    for _ in 0..LOOKS {
        let before = files.contents(&path)?;
        let Some(parts) = open_parts(files, folder)? else { continue };
        let entry = match files.entry(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            entry => Some(entry?),
        };
        // A file that the checkpoint lists is only removed after it was replaced.
        if entry.is_some() != before.is_some() || files.contents(&path)? != before {
            continue;
        }
        if let Some((bytes, entry)) = before.zip(entry) {
            staged.add(Node::of(path, entry), &*bytes)?;
        }
        return Ok(parts);
    }
    Err(io::Error::other(format!("its files changed in each of {LOOKS} looks; make the copy again")))
}

/// The files with rows, and the one that says that it is paused; none if one was removed meanwhile.
fn open_parts(files: &DataFiles<'_>, folder: &Path) -> io::Result<Option<Vec<Tail>>> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    // First their names and then their lengths, so that all but the newest are whole.
    let names = match files.machine.disk().list(&files.places.real(folder)) {
        Err(error) if missing(&error) => return Ok(Some(Vec::new())),
        names => names?,
    };
    let mut parts = Vec::new();
    let is_part =
        |path: &PathBuf| file::is_queue_part(path) || PAUSED.iter().any(|name| path.ends_with(name));
    for path in names.into_iter().map(|name| folder.join(name)).filter(is_part) {
        match open_part(files, path) {
            Ok(part) => parts.push(part),
            Err(error) if missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(parts))
}

/// A file with rows, as long as it is now.
fn open_part(files: &DataFiles<'_>, path: PathBuf) -> io::Result<Tail> {
    let file = files.machine.disk().open(&files.places.real(&path))?;
    let len = file.stat()?.len;
    let entry = files.entry(&path)?;
    Ok(Tail { node: Node::of(path, entry).with_len(len), file })
}

/// Those of the parts that are not in the copy yet.
fn not_read_before(folder: &Path, parts: Vec<Tail>, copied: &mut Vec<Node>) -> Vec<Tail> {
    let mut parts: BTreeMap<PathBuf, Tail> =
        parts.into_iter().map(|part| (part.node.path.clone(), part)).collect();
    copied.retain(|node| {
        let same = parts.get(&node.path).is_some_and(|part| part.node.len == node.len);
        if same {
            parts.remove(&node.path);
        }
        same || node.path.parent() != Some(folder)
    });
    parts.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::DataFolder;

    #[test]
    fn the_parts_that_a_queue_has_now_are_in_the_copy_with_its_checkpoint() {
        let folder = DataFolder::new();
        for part in ["1.0.seg", "2.0.seg", "3.0.seg"] {
            folder.write(&format!("d/q.queue/{part}"), b"rows");
        }
        folder.write("d/q.queue/checkpoint", b"list");
        folder.write("d/q.queue/4.0.seg.partial", b"unfinished");
        folder.write("d/q.queue/paused", b"");
        folder.write("d/q.queue/paused-keys", b"keys");
        let mut files = folder.files();
        let mut copied = files.list().unwrap().nodes;
        copied.retain(|node| !node.path.ends_with("3.0.seg") && !node.path.ends_with("checkpoint"));
        copied.retain(|node| !node.path.ends_with("paused") && !node.path.ends_with("paused-keys"));
        // Since then one was removed, and one was written to.
        folder.remove("d/q.queue/1.0.seg");
        folder.append("d/q.queue/2.0.seg", b"more");
        let mut staged = StagedFiles::new(Path::new("/tmp")).unwrap();
        let tails = open(&files, &["d/q.queue".into()], &mut copied, &mut staged).unwrap();
        let tails: Vec<_> =
            tails.iter().map(|tail| (tail.node.path.to_str().unwrap(), tail.node.len)).collect();
        let expected = [
            ("d/q.queue/2.0.seg", 8),
            ("d/q.queue/3.0.seg", 4),
            ("d/q.queue/paused", 0),
            ("d/q.queue/paused-keys", 4),
        ];
        assert_eq!(tails, expected);
        let copied: Vec<_> = copied.iter().filter_map(|node| node.path.to_str()).collect();
        assert_eq!(copied, ["", "d", "d/q.queue"]);
        let staged: Vec<_> = staged.files().iter().filter_map(|file| file.node.path.to_str()).collect();
        assert_eq!(staged, ["d/q.queue/checkpoint"]);
    }

    #[test]
    fn a_part_that_was_read_before_and_has_not_grown_stays() {
        let folder = DataFolder::new();
        folder.write("d/q.queue/1.0.seg", b"rows");
        let mut files = folder.files();
        let mut copied = files.list().unwrap().nodes;
        let mut staged = StagedFiles::new(Path::new("/tmp")).unwrap();
        assert!(open(&files, &["d/q.queue".into()], &mut copied, &mut staged).unwrap().is_empty());
        assert!(copied.iter().any(|node| node.path.ends_with("1.0.seg")));
        assert!(staged.files().is_empty(), "it has no checkpoint yet");
        // A queue that is dropped has nothing.
        let gone = open(&files, &["d/gone.queue".into()], &mut copied, &mut staged).unwrap();
        assert!(gone.is_empty());
    }
}
