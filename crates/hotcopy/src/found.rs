//! What is found while the folders of a copy are listed, each file once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use block::tree::Node;
use disk::Entry;

use crate::early::Early;

/// A file or folder by its device and its number there.
pub(crate) type Identity = (u64, u64);

/// What is found while folders are listed.
#[derive(Default)]
pub(crate) struct Found {
    pub nodes: BTreeMap<PathBuf, Node>,
    pub seen: BTreeMap<PathBuf, Early>,
    pub files: BTreeMap<Identity, PathBuf>,
    /// Folders that must not be listed again.
    pub folders: BTreeSet<Identity>,
}

impl Found {
    /// Adds a file. `who` says which file a path leads to now: while folders are listed, a table that is
    /// altered takes another name, and a new file the number of one that is gone.
    pub(crate) fn add(
        &mut self,
        path: PathBuf,
        entry: Entry,
        who: impl Fn(&Path) -> io::Result<Option<Identity>>,
    ) -> io::Result<()> {
        let file = identity(&entry);
        if let Some(other) = self.files.get(&file) {
            let leads = |path| who(path).map(|now| now == Some(file));
            if !leads(&path)? {
                return Ok(());
            }
            if leads(other)? {
                return Err(has_two_names(&path, other));
            }
            self.nodes.remove(other);
            self.seen.remove(other);
        }
        if self.nodes.contains_key(&path) {
            return Err(has_two_names(&path, &path));
        }
        self.files.insert(file, path.clone());
        self.seen.insert(path.clone(), Early::of(&entry));
        self.nodes.insert(path.clone(), Node::of(path, entry));
        Ok(())
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
        let mut found = Found::default();
        let who = |path: &Path| {
            Ok(now.iter().find(|(name, _)| path == Path::new(name)).map(|(_, inode)| (1, *inode)))
        };
        for (name, inode) in files {
            found.add(name.into(), entry(name, *inode), who).map_err(|error| error.to_string())?;
        }
        assert!(found.nodes.keys().eq(found.seen.keys()), "both know the same files");
        Ok(found.nodes.keys().map(|path| path.display().to_string()).collect())
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
