//! What is in the folders of a copy, each file once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use block::tree::Node;
use disk::Entry;

/// A file or folder by its device and its number there.
pub(crate) type Identity = (u64, u64);

/// A file as it was when it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    pub inode: u64,
    pub device: u64,
    /// When it was made: another file may have its inode number now. 0 if that is unknown.
    pub born_ns: i128,
    pub modified_ns: i128,
    /// The number of its tablespace; 0 in a new file that the server has not written yet.
    pub space: u32,
}

impl FileState {
    pub(crate) fn of(entry: &Entry) -> FileState {
        FileState {
            inode: entry.inode,
            device: entry.device,
            born_ns: entry.born_ns,
            modified_ns: entry.attributes.modified_ns,
            space: 0,
        }
    }
}

/// The files and folders of a copy.
pub(crate) struct ListedFiles {
    pub nodes: Vec<Node>,
    /// What each file was just then.
    pub states: BTreeMap<PathBuf, FileState>,
}

/// The files and folders so far, while folders are listed.
#[derive(Default)]
pub(crate) struct Listing {
    pub nodes: BTreeMap<PathBuf, Node>,
    states: BTreeMap<PathBuf, FileState>,
    pub files: BTreeMap<Identity, PathBuf>,
    /// Folders that must not be listed again.
    pub folders: BTreeSet<Identity>,
}

impl Listing {
    /// Adds a file. `identity_now` says which file a path leads to now: while folders are listed, a table
    /// that is altered takes another name, and a new file the number of one that is gone.
    pub(crate) fn add(
        &mut self,
        path: PathBuf,
        entry: Entry,
        identity_now: impl Fn(&Path) -> io::Result<Option<Identity>>,
    ) -> io::Result<()> {
        let file = identity(&entry);
        if let Some(other) = self.files.get(&file) {
            let is_at = |path| identity_now(path).map(|now| now == Some(file));
            if !is_at(&path)? {
                return Ok(());
            }
            if is_at(other)? {
                return Err(has_two_names(&path, other));
            }
            self.nodes.remove(other);
            self.states.remove(other);
        }
        if self.nodes.contains_key(&path) {
            return Err(has_two_names(&path, &path));
        }
        self.files.insert(file, path.clone());
        self.states.insert(path.clone(), FileState::of(&entry));
        self.nodes.insert(path.clone(), Node::of(path, entry));
        Ok(())
    }

    /// All of them.
    pub(crate) fn finish(self) -> ListedFiles {
        ListedFiles { nodes: self.nodes.into_values().collect(), states: self.states }
    }
}

fn has_two_names(path: &Path, other: &Path) -> io::Error {
    io::Error::other(format!(
        "{} is in the copy already, as {}: a file that has two names can't be copied while it is written",
        path.display(),
        other.display()
    ))
}

pub(crate) fn identity(entry: &Entry) -> Identity {
    (entry.device, entry.inode)
}

#[cfg(test)]
mod tests {
    use disk::{Attributes, Extended, Kind};

    use super::*;

    /// A file's entry under a name.
    fn entry(name: &str, inode: u64) -> Entry {
        Entry {
            name: name.into(),
            kind: Kind::File,
            len: 1,
            device: 1,
            inode,
            born_ns: 0,
            links: 1,
            attributes: Attributes::default(),
            extended: Extended::default(),
        }
    }

    /// Adds files; `now` is what their names lead to afterwards.
    fn added(files: &[(&str, u64)], now: &[(&str, u64)]) -> Result<Vec<String>, String> {
        let mut listing = Listing::default();
        let identity_now = |path: &Path| {
            Ok(now.iter().find(|(name, _)| path == Path::new(name)).map(|(_, inode)| (1, *inode)))
        };
        for (name, inode) in files {
            listing.add(name.into(), entry(name, *inode), identity_now).map_err(|error| error.to_string())?;
        }
        assert!(listing.nodes.keys().eq(listing.states.keys()), "both know the same files");
        Ok(listing.nodes.keys().map(|path| path.display().to_string()).collect())
    }

    #[test]
    fn a_file_that_is_renamed_while_folders_are_listed_is_in_the_copy_once() {
        let seen = [("#sql-1.ibd", 7), ("t.ibd", 7)];
        assert_eq!(added(&seen, &[("t.ibd", 7)]).unwrap(), ["t.ibd"]);
        assert_eq!(added(&seen, &[("#sql-1.ibd", 7)]).unwrap(), ["#sql-1.ibd"]);
        // The old name is another file's by now, which is found when DDL waits.
        assert_eq!(added(&seen, &[("t.ibd", 7), ("#sql-1.ibd", 8)]).unwrap(), ["t.ibd"]);
        // It was removed after that.
        assert_eq!(added(&seen, &[]).unwrap(), ["#sql-1.ibd"]);
    }

    #[test]
    fn a_file_with_two_names_is_refused() {
        let both = [("a.ibd", 7), ("b.ibd", 7)];
        let error = added(&both, &both).unwrap_err();
        assert!(error.starts_with("b.ibd is in the copy already, as a.ibd: "), "{error}");
    }
}
