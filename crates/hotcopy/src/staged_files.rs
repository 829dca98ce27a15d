//! What is read while nobody commits, or just after that, and put aside until it is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use block::tree::{ConcurrentUse, Node};
use block::{BLOCK, CHUNK, ChunkRead, ChunkRequest};
use disk::{Kind, Source};

use crate::control_file::Control;
use crate::file::{self, When};
use crate::{HotFeed, named, parts_of};

/// Pages of a new tablespace (`FIL_IBD_FILE_INITIAL_SIZE`).
const NEW_PAGES: u64 = 4;

/// Bytes of a page of Aria's log. The first page of a file has no records.
const LOG_PAGE: u64 = 8192;

/// A file that was put aside.
pub struct Aside {
    pub node: Node,
    /// Where it begins in what was put aside.
    pub offset: u64,
}

/// A file to which the server only adds, as long as it was while nobody committed.
pub struct Tail {
    pub node: Node,
    pub file: Box<dyn Source>,
}

fn is_control(node: &Node) -> bool {
    node.path == Path::new(file::ARIA_CONTROL)
}

impl HotFeed<'_> {
    /// Reads what may change until nobody commits.
    pub fn put_aside(&mut self) -> io::Result<Vec<Aside>> {
        // Aria's control file first, then the tables, then its logs, each with the length that it has then:
        // so no table is shorter than at the checkpoint, and nothing is newer than the logs.
        let (_, then) = self.read_control()?;
        // All but the last two are whole, and a server removes old ones at its next checkpoint.
        let mut logs = self.logs()?;
        logs.retain(|number, _| number + 1 < then.newest());
        let mut known: BTreeSet<u32> = logs.keys().copied().collect();
        let mut rest = self.read_settled(logs.into_values().collect())?;
        let nodes = self.left(self.folders.iter().map(PathBuf::as_path))?;
        let (altered, files): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| file::is_altered(&node.path));
        let is_table = |node: &Node| !file::is_aria_log(&node.path) && !is_control(node);
        rest.extend(self.read_settled(files.into_iter().filter(is_table).collect())?);
        let (control, now) = self.read_control()?;
        let (mut logs, newest) = self.logs_up_to(now.newest())?;
        logs.retain(|number, _| known.insert(*number));
        // A log that was begun anew may have no checkpoint yet, and the first file has number 1.
        if let Some(missing) = (then.checkpoint().max(1)..=newest).find(|number| !known.contains(number)) {
            return Err(io::Error::other(format!("Aria's log file {missing} is gone; make the copy again")));
        }
        rest.extend(self.read_settled(logs.into_values().collect())?);
        self.aside.replace(control.offset, &now.joined(&then, newest))?;
        rest.push(control);
        for node in altered {
            let whole = self.places.real(&node.path);
            match self.machine.disk().open(&whole) {
                Ok(file) => {
                    let (offset, len) = self.aside.add(file)?;
                    rest.push(Aside { node: node.with_len(len), offset });
                }
                // The ALTER TABLE that made it has failed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(named(&whole, error)),
            }
        }
        for (node, bytes) in std::mem::take(&mut self.places.leads) {
            let (offset, _) = self.aside.add(&*bytes)?;
            rest.push(Aside { node, offset });
        }
        Ok(rest)
    }

    /// Puts Aria's control file aside.
    fn read_control(&mut self) -> io::Result<(Aside, Control)> {
        let whole = self.places.real(Path::new(file::ARIA_CONTROL));
        let mut nodes = self.left([Path::new("")])?;
        nodes.retain(is_control);
        let read = self.read_settled(nodes)?.pop();
        let read = read.ok_or_else(|| named(&whole, io::Error::other("it is gone")))?;
        let mut bytes = vec![0; usize::try_from(read.node.len).map_err(io::Error::other)?];
        self.aside.read(read.offset, &mut bytes)?;
        Ok((read, Control::new(bytes).map_err(|error| named(&whole, error))?))
    }

    /// The files of Aria's log, by their numbers.
    fn logs(&self) -> io::Result<BTreeMap<u32, Node>> {
        let nodes = self.left([Path::new("")])?;
        Ok(nodes.into_iter().filter_map(|node| Some((file::aria_log(&node.path)?, node))).collect())
    }

    /// The files of Aria's log up to this one, and the number of the last one that has something in it.
    fn logs_up_to(&self, newest: u32) -> io::Result<(BTreeMap<u32, Node>, u32)> {
        // They are written one after the other: the length of an older one is that of a later moment, so that
        // it is whole if there is anything in the newer one.
        let mut last = self.logs()?;
        Ok(up_to(newest, self.logs()?, last.remove(&newest)))
    }

    /// Reads whole files until they are not written to meanwhile.
    fn read_settled(&mut self, nodes: Vec<Node>) -> io::Result<Vec<Aside>> {
        let read = self.put_together(nodes)?;
        self.settle(&read)?;
        Ok(read)
    }

    /// The files in some folders that are read while nobody commits.
    pub fn left<'a>(&self, folders: impl IntoIterator<Item = &'a Path>) -> io::Result<Vec<Node>> {
        let mut nodes = Vec::new();
        for folder in folders {
            let entries = self.places.entries(self.machine, folder)?;
            let is_left =
                |node: &Node| node.kind == Kind::File && self.names.when(&node.path) == When::NoCommit;
            nodes.extend(entries.into_iter().filter(is_left));
        }
        Ok(nodes)
    }

    /// Reads whole files, one after the other, as one volume: on another machine that takes few questions.
    fn put_together(&mut self, mut nodes: Vec<Node>) -> io::Result<Vec<Aside>> {
        let mut next = 0;
        for node in &mut nodes {
            let end = next + node.len.div_ceil(BLOCK as u64);
            node.blocks.extend((next < end).then_some(next..end));
            next = end;
        }
        let len = next * BLOCK as u64;
        let find = |path: &Path| (self.places.real(path), ConcurrentUse::Unchanging);
        let mut feed = self.machine.scan_parts(len, parts_of(&nodes), &find)?;
        let (start, count) = (self.aside.len(), len.div_ceil(CHUNK as u64));
        let bytes =
            |number: u64| usize::try_from(len - number * CHUNK as u64).map_or(CHUNK, |left| left.min(CHUNK));
        let (mut announced, mut buffer) = (0, Vec::new());
        for number in 0..count {
            while announced < count && announced <= number + feed.ahead() {
                feed.expect(announced, bytes(announced), ChunkRequest::All(None))?;
                announced += 1;
            }
            if self.login.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("stopped"));
            }
            if let Some(stages) = &mut self.stages {
                stages.stay()?;
            }
            match feed.read(&mut buffer)? {
                ChunkRead::Hole => self.aside.add(io::repeat(0).take(bytes(number) as u64))?,
                _ => self.aside.add(buffer.get(..bytes(number)).unwrap_or_default())?,
            };
        }
        let place = |mut node: Node| {
            let block = node.blocks.first().map_or(0, |range| range.start);
            node.blocks.clear();
            Aside { node, offset: start + block * BLOCK as u64 }
        };
        Ok(nodes.into_iter().map(place).collect())
    }

    /// Tablespaces that were made since DDL was stopped: an ALTER TABLE that had begun before may make one. A
    /// server does not recover without such a file, but it needs only the name: the redo log has all pages.
    pub fn fresh(&self) -> io::Result<Vec<Node>> {
        let known: BTreeSet<&Path> = self.kept.iter().map(|node| &*node.path).collect();
        let mut fresh = Vec::new();
        for folder in self.kept.iter().filter(|node| node.kind == Kind::Folder) {
            let top = self.places.real(&folder.path);
            let names = match self.machine.disk().list(&top) {
                // Only the copy has it, with a table from outside somewhere in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                names => names?,
            };
            for name in names {
                let (whole, path) = (top.join(&name), folder.path.join(name));
                if self.names.when(&path) != When::Pages || known.contains(&*path) {
                    continue;
                }
                // There others may have tables, too.
                if self.places.is_outside(&folder.path) && !file::is_altered(&path) {
                    continue;
                }
                match self.machine.tree().entry(&whole) {
                    Ok(entry) => {
                        let len = entry.len.max(NEW_PAGES * u64::from(self.names.page_bytes));
                        fresh.push(Node::of(path, entry).with_len(len));
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(named(&whole, error)),
                }
            }
        }
        Ok(fresh)
    }

    /// Opens the parts of the binary log that were not read before, by their names and lengths. The second is
    /// where the position is: the server may have begun another file since, and nothing is in that.
    pub fn open_logs(
        &mut self,
        mut logs: Vec<(String, u64)>,
        (last, offset): (&str, u64),
    ) -> io::Result<Vec<Tail>> {
        match logs.iter().position(|(name, _)| name == last) {
            Some(at) if logs[at].1 < offset => {
                return Err(io::Error::other(
                    "the server began its binary log anew just then (RESET MASTER); make the copy again",
                ));
            }
            Some(at) => logs.truncate(at + 1),
            None if last.is_empty() && logs.is_empty() => {}
            None => {
                return Err(io::Error::other(format!(
                    "the server removed its binary log {last} just then; make the copy again"
                )));
            }
        }
        let mut open = Vec::new();
        for (name, len) in logs {
            let Some(path) = self.names.binary_log(&name) else { continue };
            if self.kept.iter().any(|node| node.path == path && node.len == len) {
                continue;
            }
            self.kept.retain(|node| node.path != path);
            let whole = self.places.real(&path);
            let entry = self.machine.tree().entry(&whole).map_err(|error| named(&whole, error))?;
            let file = self.machine.disk().open(&whole).map_err(|error| named(&whole, error))?;
            open.push(Tail { node: Node::of(path, entry).with_len(len), file });
        }
        Ok(open)
    }

    /// Puts aside the list of the binary log's files as it was when `last` was the newest. Something else
    /// than a commit may begin another file at any time.
    pub fn put_index_aside(&mut self, last: &str, rest: &mut Vec<Aside>) -> io::Result<()> {
        let Some(path) = self.names.index.clone().filter(|_| !last.is_empty()) else { return Ok(()) };
        let whole = self.places.real(&path);
        let list = self.contents(&path)?.unwrap_or_default();
        let len = file::listed_up_to(&list, last).ok_or_else(|| {
            named(&whole, io::Error::other(format!("it does not list {last}; make the copy again")))
        })?;
        let entry = self.machine.tree().entry(&whole).map_err(|error| named(&whole, error))?;
        let (offset, len) = self.aside.add(list.get(..len).unwrap_or_default())?;
        rest.push(Aside { node: Node::of(path, entry).with_len(len), offset });
        Ok(())
    }

    /// Reads files up to the lengths that they had.
    pub fn put_tails_aside(
        &mut self,
        tails: impl Iterator<Item = Tail>,
        rest: &mut Vec<Aside>,
    ) -> io::Result<()> {
        for Tail { node, file } in tails {
            let whole = self.places.real(&node.path);
            let (offset, read) = self.aside.add(file.take(node.len)).map_err(|error| named(&whole, error))?;
            if read != node.len {
                return Err(named(&whole, io::Error::other("it is shorter than it was")));
            }
            rest.push(Aside { node, offset });
        }
        Ok(())
    }
}

/// The files of Aria's log up to the `newest`, which was seen as `last` before the others, and the number of
/// the last one that has more than its first page. A server that starts writes to a wrong place if there is
/// nothing in the newest.
fn up_to(newest: u32, mut logs: BTreeMap<u32, Node>, last: Option<Node>) -> (BTreeMap<u32, Node>, u32) {
    logs.retain(|number, _| *number <= newest);
    let Some(last) = last else { return (logs, newest) };
    let before = newest.saturating_sub(1);
    if last.len <= LOG_PAGE && logs.contains_key(&before) {
        logs.remove(&newest);
        return (logs, before);
    }
    logs.insert(newest, last);
    (logs, newest)
}

#[cfg(test)]
mod tests {
    use disk::{Attributes, Extended};

    use super::*;

    fn log(len: u64) -> Node {
        Node {
            path: PathBuf::new(),
            kind: Kind::File,
            len,
            attributes: Attributes::default(),
            extended: Extended::default(),
            same_as: None,
            blocks: Vec::new(),
        }
    }

    #[test]
    fn a_log_of_aria_ends_with_a_file_that_has_something_in_it() {
        let of = |newest: u32, logs: &[(u32, u64)], last: Option<u64>| {
            let logs = logs.iter().map(|(number, len)| (*number, log(*len))).collect();
            let (logs, newest) = up_to(newest, logs, last.map(log));
            (logs.into_iter().map(|(number, node)| (number, node.len)).collect::<Vec<_>>(), newest)
        };
        let [page, more, whole] = [LOG_PAGE, 2 * LOG_PAGE, 1 << 23];
        let logs = [(5, whole), (6, whole), (7, more), (8, page)];
        // It is as long as it was when it was seen first: then the one before was whole.
        assert_eq!(of(7, &logs, Some(page)), (vec![(5, whole), (6, whole)], 6));
        assert_eq!(of(7, &logs, Some(page + 1)), (vec![(5, whole), (6, whole), (7, page + 1)], 7));
        assert_eq!(of(7, &logs, None), (vec![(5, whole), (6, whole), (7, more)], 7));
        // The only one has nothing in it yet.
        assert_eq!(of(7, &[(7, page)], Some(page)), (vec![(7, page)], 7));
    }
}
