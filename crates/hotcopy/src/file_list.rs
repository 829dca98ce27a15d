//! What is in the copy, by what was listed while DDL was blocked.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use block::tree::Node;
use disk::Kind;
use instance::plugins;

use crate::data_files::DataFiles;
use crate::file::{self, When};
use crate::listing::ListedFiles;
use crate::named;
use crate::read_files::{ReadFile, ReadFiles};
use crate::tablespaces::Tablespaces;

/// Pages of a new tablespace (`FIL_IBD_FILE_INITIAL_SIZE`).
const NEW_PAGES: u64 = 4;

/// Files that are read while nobody commits.
#[derive(Default)]
pub(crate) struct NoCommitFiles {
    /// Their folders.
    pub folders: BTreeSet<PathBuf>,
    /// When they were written last, as it was listed.
    pub modified_ns: BTreeMap<PathBuf, i128>,
}

/// What is in the copy, as far as it is known.
#[derive(Default)]
pub(crate) struct FileList {
    /// The files of the first two regions, and all folders and links.
    pub copied: Vec<Node>,
    pub tablespaces: Tablespaces,
    /// The folders of queues.
    pub queues: Vec<PathBuf>,
    pub no_commit: NoCommitFiles,
}

impl FileList {
    /// Sorts what is `listed` while DDL is blocked. Of what was `read` before, a file stays if it still is
    /// the same one and DDL has not `changed` its table. Returns also the files that must be read now; they
    /// are not in the list yet. Calls `stay` for each file.
    pub(crate) fn new(
        files: &DataFiles<'_>,
        listed: ListedFiles,
        read: &ReadFiles,
        changed: &BTreeSet<(String, String)>,
        stay: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<(FileList, Vec<Node>)> {
        let (mut list, mut again) = (FileList::default(), Vec::new());
        let ListedFiles { nodes, states } = listed;
        for node in nodes {
            stay()?;
            if node.kind != Kind::File {
                list.queues.extend(plugins::is_queue(&node.path).then(|| node.path.clone()));
                list.copied.push(node);
                continue;
            }
            match files.names.when(&node.path) {
                When::Pages | When::Closed => {
                    let same = match read.get(&node.path).zip(states.get(&node.path)) {
                        Some((before, now))
                            if !file::is_named(changed, &node.path)
                                && files.is_same(&node.path, before.state, *now)? =>
                        {
                            Some(before)
                        }
                        _ => None,
                    };
                    list.add_pages(files, node, same, &mut again)?;
                }
                When::NoDdl => again.push(node),
                // A table's files stay in their folder.
                When::NoCommit => {
                    list.no_commit.folders.extend(node.path.parent().map(Path::to_owned));
                    list.no_commit.modified_ns.insert(node.path, node.attributes.modified_ns);
                }
                When::Never => {}
            }
        }
        // Aria's files are at the top.
        list.no_commit.folders.insert(PathBuf::new());
        Ok((list, again))
    }

    /// Adds a file that may have been read before. A part of the binary log that was not is opened later.
    fn add_pages(
        &mut self,
        files: &DataFiles<'_>,
        mut node: Node,
        same: Option<&ReadFile>,
        again: &mut Vec<Node>,
    ) -> io::Result<()> {
        let has_pages = files.names.when(&node.path) == When::Pages;
        let is_system = files.is_system(&node.path);
        match same {
            Some(ReadFile { node: read, state }) => {
                if has_pages {
                    self.tablespaces.add(state.space, &node.path, is_system);
                    self.tablespaces.was_read_early(&node.path);
                }
                // What is behind its end by now is in the redo log.
                (node.len, node.blocks) = (read.len, read.blocks.clone());
                self.copied.push(node);
            }
            None if has_pages => {
                if let Some(space) = files.space(&node.path)? {
                    self.tablespaces.add(space, &node.path, is_system);
                }
                again.push(node);
            }
            None => {}
        }
        Ok(())
    }

    /// Tablespaces that were made since DDL was blocked: an ALTER TABLE that had begun before may make one. A
    /// server does not recover without such a file, but it needs only the name: the redo log has all pages.
    pub(crate) fn new_tablespaces(&self, files: &DataFiles<'_>) -> io::Result<Vec<Node>> {
        let known: BTreeSet<&Path> = self.copied.iter().map(|node| &*node.path).collect();
        let mut new = Vec::new();
        for folder in self.copied.iter().filter(|node| node.kind == Kind::Folder) {
            let names = match files.machine.disk().list(&files.places.real(&folder.path)) {
                // Only the copy has it, with a table from outside somewhere in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                names => names?,
            };
            for path in names.into_iter().map(|name| folder.path.join(name)) {
                if files.names.when(&path) != When::Pages || known.contains(&*path) {
                    continue;
                }
                // There others may have tables, too.
                if files.places.is_outside(&folder.path) && !file::is_altered(&path) {
                    continue;
                }
                match files.entry(&path) {
                    Ok(entry) => {
                        let len = entry.len.max(NEW_PAGES * u64::from(files.names.page_bytes));
                        new.push(Node::of(path, entry).with_len(len));
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(named(&files.places.real(&path), error)),
                }
            }
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::DataFolder;
    use crate::read_files::tests::read;

    fn paths<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<&'a str> {
        nodes.into_iter().filter_map(|node| node.path.to_str()).collect()
    }

    /// The files of a folder that are read again after something has `happened` since the first pass and DDL
    /// has named some tables; and the list.
    fn after(folder: &DataFolder, happened: impl FnOnce(), ddl: &[(&str, &str)]) -> (FileList, Vec<String>) {
        let mut files = folder.files();
        let first = read(&mut files);
        happened();
        let listed = files.list().unwrap();
        let changed = ddl.iter().map(|(schema, table)| ((*schema).to_owned(), (*table).to_owned())).collect();
        let (list, again) = FileList::new(&files, listed, &first, &changed, &mut || Ok(())).unwrap();
        (list, paths(&again).into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn a_table_is_read_again_if_ddl_names_it_or_its_file_is_another_one() {
        let folder = DataFolder::new();
        for (table, space) in [("d/a.ibd", 1), ("d/b.ibd", 2), ("d/c.ibd", 3), ("ibdata1", 0)] {
            folder.tablespace(table, space);
        }
        let happened = || {
            folder.remove("d/b.ibd");
            folder.tablespace("d/b.ibd", 2);
            folder.tablespace("d/new.ibd", 4);
            folder.write("d/a.frm", b"definition");
        };
        let (list, again) = after(&folder, happened, &[("d", "c")]);
        assert_eq!(again, ["d/a.frm", "d/b.ibd", "d/c.ibd", "d/new.ibd"]);
        let files = list.copied.iter().filter(|node| node.kind == Kind::File);
        assert_eq!(paths(files), ["d/a.ibd", "ibdata1"]);
    }

    #[test]
    fn a_table_that_was_only_written_to_stays_as_long_as_it_was_read() {
        let folder = DataFolder::new();
        folder.tablespace("d/grown.ibd", 7);
        folder.tablespace("d/imported.ibd", 8);
        let read_bytes = folder.len("d/grown.ibd");
        let happened = || {
            folder.append("d/grown.ibd", &[1; 16_384]);
            // The same inode, and another tablespace.
            folder.overwrite_space("d/imported.ibd", 9);
        };
        let (list, again) = after(&folder, happened, &[]);
        assert_eq!(again, ["d/imported.ibd"]);
        let grown = list.copied.iter().find(|node| node.path == Path::new("d/grown.ibd")).unwrap();
        assert_eq!(grown.len, read_bytes, "what is behind is in the redo log");
    }

    #[test]
    fn a_part_of_the_binary_log_that_was_written_to_is_not_taken_as_it_was_read() {
        let folder = DataFolder::new();
        folder.write_each(&["binlog.000001", "binlog.000002", "binlog.000003"]);
        let (list, again) = after(&folder, || folder.append("binlog.000001", b"more"), &[]);
        let logs = list.copied.iter().filter(|node| node.kind == Kind::File);
        assert_eq!((paths(logs), again.len()), (vec!["binlog.000002"], 0));
    }

    #[test]
    fn what_is_left_is_known_by_its_folders_and_times() {
        let folder = DataFolder::new();
        folder.write_each(&["aria_log_control", "d/t.MAD", "d/m.MYD", "d/q.queue/1.0.seg"]);
        let (list, again) = after(&folder, || (), &[]);
        assert_eq!(again, ["d/m.MYD"]);
        let folders: Vec<&str> = list.no_commit.folders.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(folders, ["", "d"]);
        let written: Vec<&str> = list.no_commit.modified_ns.keys().filter_map(|path| path.to_str()).collect();
        assert_eq!(written, ["aria_log_control", "d/t.MAD"]);
        assert_eq!(list.queues, [Path::new("d/q.queue")]);
    }

    #[test]
    fn a_tablespace_that_appears_while_ddl_is_blocked_is_in_the_copy_by_its_name() {
        let folder = DataFolder::new();
        folder.tablespace("d/t.ibd", 7);
        let (mut list, _) = after(&folder, || (), &[]);
        assert_eq!(list.new_tablespaces(&folder.files()).unwrap(), []);
        folder.tablespace("d/#sql-alter-1.ibd", 0);
        let new = list.new_tablespaces(&folder.files()).unwrap();
        assert_eq!((paths(&new), new[0].len), (vec!["d/#sql-alter-1.ibd"], 4 * 16_384));
        list.copied.extend(new);
        assert_eq!(list.new_tablespaces(&folder.files()).unwrap(), []);
    }
}
