//! The binary log of a copy: up to the position at which nobody committed.

use std::io;

use block::tree::Node;

use crate::data_files::DataFiles;
use crate::file;
use crate::named;
use crate::staged_files::{StagedFiles, Tail};

/// The end of the binary log; no file if the server has none.
pub(crate) struct Position<'a> {
    pub file: &'a str,
    pub offset: u64,
}

/// The server's files of the log up to its end, each with its length. The server may have begun another file
/// since, and nothing is in that.
pub(crate) fn up_to(end: &Position<'_>, mut logs: Vec<(String, u64)>) -> io::Result<Vec<(String, u64)>> {
    match logs.iter().position(|(name, _)| name == end.file) {
        Some(at) if logs[at].1 < end.offset => Err(io::Error::other(
            "the server began its binary log again just then (RESET MASTER); make the copy again",
        )),
        Some(at) => {
            logs.truncate(at + 1);
            Ok(logs)
        }
        None if end.file.is_empty() && logs.is_empty() => Ok(logs),
        None => Err(io::Error::other(format!(
            "the server removed its binary log {} just then; make the copy again",
            end.file
        ))),
    }
}

/// Opens those files of the log, by their names and lengths, that were not `copied` whole before.
pub(crate) fn open(
    files: &DataFiles<'_>,
    logs: Vec<(String, u64)>,
    copied: &mut Vec<Node>,
) -> io::Result<Vec<Tail>> {
    let mut tails = Vec::new();
    for (name, len) in logs {
        let Some(path) = files.names.binary_log(&name) else { continue };
        if copied.iter().any(|node| node.path == path && node.len == len) {
            continue;
        }
        copied.retain(|node| node.path != path);
        let place = files.places.real(&path);
        let entry = files.entry(&path).map_err(|error| named(&place, error))?;
        let file = files.machine.disk().open(&place).map_err(|error| named(&place, error))?;
        tails.push(Tail { node: Node::of(path, entry).with_len(len), file });
    }
    Ok(tails)
}

/// Stages the list of the log's files as it was when `newest` was the newest. Something else than a commit
/// may begin another file at any time.
pub(crate) fn stage_index(files: &DataFiles<'_>, newest: &str, staged: &mut StagedFiles) -> io::Result<()> {
    let Some(path) = files.names.index.clone().filter(|_| !newest.is_empty()) else { return Ok(()) };
    let place = files.places.real(&path);
    let list = files.contents(&path)?.unwrap_or_default();
    let len = file::listed_up_to(&list, newest).ok_or_else(|| {
        named(&place, io::Error::other(format!("it does not list {newest}; make the copy again")))
    })?;
    let entry = files.entry(&path).map_err(|error| named(&place, error))?;
    staged.add(Node::of(path, entry), list.get(..len).unwrap_or_default())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fixture::DataFolder;

    fn logs(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter().map(|(name, len)| ((*name).to_owned(), *len)).collect()
    }

    #[test]
    fn the_log_ends_with_the_file_of_the_position() {
        let end = Position { file: "binlog.000002", offset: 300 };
        let begun_since = logs(&[("binlog.000001", 900), ("binlog.000002", 350), ("binlog.000003", 4)]);
        let expected = logs(&[("binlog.000001", 900), ("binlog.000002", 350)]);
        assert_eq!(up_to(&end, begun_since).unwrap(), expected);
        let reset = up_to(&end, logs(&[("binlog.000002", 299)])).unwrap_err();
        assert!(reset.to_string().contains("RESET MASTER"), "{reset}");
        let purged = up_to(&end, logs(&[("binlog.000003", 4)])).unwrap_err();
        assert!(purged.to_string().contains("removed its binary log binlog.000002"), "{purged}");
        let none = Position { file: "", offset: 0 };
        assert_eq!(up_to(&none, Vec::new()).unwrap(), []);
    }

    #[test]
    fn only_files_that_were_not_copied_whole_are_opened() {
        let folder = DataFolder::new();
        for log in ["binlog.000001", "binlog.000002", "binlog.000003"] {
            folder.write(log, b"events");
        }
        let mut files = folder.files();
        let mut copied = files.list().unwrap().nodes;
        copied.retain(|node| !node.path.ends_with("binlog.000003"));
        folder.append("binlog.000002", b"more");
        let now = logs(&[("binlog.000001", 6), ("binlog.000002", 10), ("binlog.000003", 6)]);
        let tails = open(&files, now, &mut copied).unwrap();
        let tails: Vec<_> =
            tails.iter().map(|tail| (tail.node.path.to_str().unwrap(), tail.node.len)).collect();
        assert_eq!(tails, [("binlog.000002", 10), ("binlog.000003", 6)]);
        let copied: Vec<_> = copied.iter().filter_map(|node| node.path.to_str()).collect();
        assert_eq!(copied, ["", "binlog.000001"]);
    }

    #[test]
    fn a_tail_has_the_length_that_it_had_while_nobody_committed() {
        let folder = DataFolder::new();
        folder.write("binlog.000001", b"events");
        let files = folder.files();
        let tails = open(&files, logs(&[("binlog.000001", 6)]), &mut Vec::new()).unwrap();
        folder.append("binlog.000001", b" and more");
        let mut staged = StagedFiles::new(Path::new("/tmp")).unwrap();
        staged.add_tails(tails, &files.places).unwrap();
        let mut bytes = [0; 6];
        let file = &staged.files()[0];
        staged.spool().read(file.offset, &mut bytes).unwrap();
        assert_eq!((file.node.len, &bytes), (6, b"events"));
        let tails = open(&files, logs(&[("binlog.000001", 99)]), &mut Vec::new()).unwrap();
        let error = staged.add_tails(tails, &files.places).unwrap_err().to_string();
        assert!(error.ends_with("binlog.000001: it is shorter than it was"), "{error}");
    }

    #[test]
    fn the_list_of_the_log_ends_with_its_newest_file() {
        let folder = DataFolder::new();
        folder.write("binlog.index", b"./binlog.000001\n./binlog.000002\n");
        let (files, mut staged) = (folder.files(), StagedFiles::new(Path::new("/tmp")).unwrap());
        stage_index(&files, "binlog.000001", &mut staged).unwrap();
        assert_eq!(staged.files()[0].node.len, 16);
        let error = stage_index(&files, "binlog.000003", &mut staged).unwrap_err().to_string();
        assert!(error.contains("it does not list binlog.000003"), "{error}");
        // A server without a binary log.
        stage_index(&files, "", &mut staged).unwrap();
        assert_eq!(staged.files().len(), 1);
    }
}
