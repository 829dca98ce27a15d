//! What is read in the first phase, while the server works.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use block::tree::Node;
use disk::Kind;

use crate::data_files::DataFiles;
use crate::file::{self, When};
use crate::listing::FileState;

/// A file of the first region.
#[derive(Debug)]
pub(crate) struct ReadFile {
    pub node: Node,
    /// What it was before it was read.
    pub state: FileState,
}

/// The files of the first region, by their paths in the copy.
pub(crate) type ReadFiles = BTreeMap<PathBuf, ReadFile>;

/// The files that are read while the server works.
pub(crate) fn list(files: &mut DataFiles<'_>) -> io::Result<Vec<(Node, FileState)>> {
    let listed = files.list()?;
    let is_closed = |node: &&Node| files.names.when(&node.path) == When::Closed;
    let growing = file::newest(listed.nodes.iter().filter(is_closed));
    let mut read = Vec::new();
    for node in listed.nodes.into_iter().filter(|node| node.kind == Kind::File) {
        let Some(mut state) = listed.states.get(&node.path).copied() else { continue };
        match files.names.when(&node.path) {
            When::Pages => {
                let Some(space) = files.space(&node.path)? else { continue };
                state.space = space;
            }
            When::Closed if !growing.contains(&node.path) => {}
            _ => continue,
        }
        read.push((node, state));
    }
    Ok(read)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use crate::fixture::DataFolder;

    /// The first pass over a folder, without a server.
    pub(crate) fn read(files: &mut DataFiles<'_>) -> ReadFiles {
        let read = list(files).unwrap().into_iter();
        read.map(|(node, state)| (node.path.clone(), ReadFile { node, state })).collect()
    }

    #[test]
    fn pages_and_files_that_have_ended_are_read_while_the_server_works() {
        let folder = DataFolder::new();
        for table in ["ibdata1", "undo001", "d/t.ibd", "d/#sql-a.ibd"] {
            folder.tablespace(table, 7);
        }
        for closed in ["binlog.000001", "binlog.000002", "d/q.queue/1.0.seg", "d/q.queue/2.0.seg"] {
            folder.write(closed, b"rows");
        }
        folder.write("d/empty.ibd", b"");
        for later in ["aria_log_control", "d/t.frm", "d/m.MYD", "d/q.queue/checkpoint", "ib_logfile0"] {
            folder.write(later, b"later");
        }
        let read = read(&mut folder.files());
        let paths: Vec<&str> = read.keys().filter_map(|path| path.to_str()).collect();
        let expected =
            ["binlog.000001", "d/#sql-a.ibd", "d/q.queue/1.0.seg", "d/t.ibd", "ibdata1", "undo001"];
        assert_eq!(paths, expected, "the newest of the binary log and of a queue still grow");
        assert_eq!(read[Path::new("d/t.ibd")].state.space, 7);
    }
}
