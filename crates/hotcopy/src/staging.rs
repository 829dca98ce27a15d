//! Reads what may change until nobody commits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use block::tree::{ConcurrentUse, Node};
use block::{BLOCK, CHUNK, ChunkRead, ChunkRequest};

use crate::control_file::Control;
use crate::data_files::DataFiles;
use crate::file;
use crate::file_list::NoCommitFiles;
use crate::region::parts_of;
use crate::staged_files::{StagedFile, StagedFiles};
use crate::{named, quiesce};

/// Bytes of a page of Aria's log. The first page of a file has no records.
const LOG_PAGE: u64 = 8192;

fn is_control(node: &Node) -> bool {
    node.path == Path::new(file::ARIA_CONTROL)
}

/// Stages files while nobody commits.
pub(crate) struct Staging<'a> {
    pub files: &'a DataFiles<'a>,
    /// What they were when they were listed.
    pub list: &'a NoCommitFiles,
    /// Called between reads: keeps the server's session, or fails if the run must stop.
    pub stay: &'a mut dyn FnMut() -> io::Result<()>,
    pub staged: &'a mut StagedFiles,
}

impl Staging<'_> {
    /// Stages all of them.
    pub(crate) fn all(&mut self) -> io::Result<()> {
        // Aria's control file first, then the tables, then its logs, each with the length that it has then:
        // so no table is shorter than at the checkpoint, and nothing is newer than the logs.
        let (_, before) = self.read_control()?;
        // All but the last two are whole, and a server removes old ones at its next checkpoint.
        let mut logs = self.logs()?;
        logs.retain(|number, _| number + 1 < before.newest());
        let mut known: BTreeSet<u32> = logs.keys().copied().collect();
        self.add_settled(logs.into_values().collect())?;
        let nodes = self.files.read_without_commits(self.list.folders.iter().map(PathBuf::as_path))?;
        let (altered, nodes): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| file::is_altered(&node.path));
        let is_table = |node: &Node| !file::is_aria_log(&node.path) && !is_control(node);
        self.add_settled(nodes.into_iter().filter(is_table).collect())?;
        let (control, after) = self.read_control()?;
        let (mut logs, newest) = self.logs_up_to(after.newest())?;
        logs.retain(|number, _| known.insert(*number));
        // A log that was begun again may have no checkpoint yet, and the first file has number 1.
        if let Some(missing) = (before.checkpoint().max(1)..=newest).find(|number| !known.contains(number)) {
            return Err(io::Error::other(format!("Aria's log file {missing} is gone; make the copy again")));
        }
        self.add_settled(logs.into_values().collect())?;
        self.staged.spool().replace(control.offset, &after.joined(&before, newest))?;
        self.staged.add_read([control]);
        self.add_altered(altered)?;
        for (node, bytes) in &self.files.places.link_files {
            self.staged.add(node.clone(), &**bytes)?;
        }
        Ok(())
    }

    /// Stages files of tables that an ALTER TABLE is making.
    fn add_altered(&mut self, nodes: Vec<Node>) -> io::Result<()> {
        for node in nodes {
            let place = self.files.places.real(&node.path);
            match self.files.machine.disk().open(&place) {
                Ok(file) => drop(self.staged.add(node, file)?),
                // The ALTER TABLE that made it has failed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(named(&place, error)),
            }
        }
        Ok(())
    }

    /// Reads Aria's control file.
    fn read_control(&mut self) -> io::Result<(StagedFile, Control)> {
        let place = self.files.places.real(Path::new(file::ARIA_CONTROL));
        let mut nodes = self.files.read_without_commits([Path::new("")])?;
        nodes.retain(is_control);
        let read = self.read_settled(nodes)?.pop();
        let read = read.ok_or_else(|| named(&place, io::Error::other("it is gone")))?;
        let mut bytes = vec![0; usize::try_from(read.node.len).map_err(io::Error::other)?];
        self.staged.spool().read(read.offset, &mut bytes)?;
        Ok((read, Control::new(bytes).map_err(|error| named(&place, error))?))
    }

    /// The files of Aria's log, by their numbers.
    fn logs(&self) -> io::Result<BTreeMap<u32, Node>> {
        let nodes = self.files.read_without_commits([Path::new("")])?;
        Ok(nodes.into_iter().filter_map(|node| Some((file::aria_log(&node.path)?, node))).collect())
    }

    /// The files of Aria's log up to this one, and the number of the last one that has something in it.
    fn logs_up_to(&self, newest: u32) -> io::Result<(BTreeMap<u32, Node>, u32)> {
        // They are written one after the other: the length of an older one is listed later, so that it is
        // whole if there is anything in the newer one.
        let mut newest_first = self.logs()?;
        Ok(up_to(newest, self.logs()?, newest_first.remove(&newest)))
    }

    /// Stages whole files, as they are when nobody writes to them.
    fn add_settled(&mut self, nodes: Vec<Node>) -> io::Result<()> {
        let read = self.read_settled(nodes)?;
        self.staged.add_read(read);
        Ok(())
    }

    /// Reads whole files, and again those that were written meanwhile.
    fn read_settled(&mut self, nodes: Vec<Node>) -> io::Result<Vec<StagedFile>> {
        let read = self.read_together(nodes)?;
        // On another machine each folder is a question, and nobody commits while it is asked.
        let folders: BTreeSet<&Path> = read.iter().filter_map(|file| file.node.path.parent()).collect();
        let nodes = self.files.read_without_commits(folders)?;
        let now: BTreeMap<PathBuf, i128> =
            nodes.into_iter().map(|node| (node.path, node.attributes.modified_ns)).collect();
        for StagedFile { node, offset } in &read {
            let before = self.list.modified_ns.get(&node.path);
            if before.is_some() && now.get(&node.path) == before {
                continue;
            }
            let place = self.files.places.real(&node.path);
            let file = self.files.machine.disk().open(&place).map_err(|error| named(&place, error))?;
            let read = |at, buffer: &mut [u8]| file.read_full_at(at, buffer);
            quiesce::settle(read, node.len, (self.staged.spool(), *offset))
                .map_err(|error| named(&place, error))?;
        }
        Ok(read)
    }

    /// Reads whole files, one after the other, as one volume: on another machine that takes few questions.
    fn read_together(&mut self, mut nodes: Vec<Node>) -> io::Result<Vec<StagedFile>> {
        let mut next = 0;
        for node in &mut nodes {
            let end = next + node.len.div_ceil(BLOCK as u64);
            node.blocks.extend((next < end).then_some(next..end));
            next = end;
        }
        let len = next * BLOCK as u64;
        let find = |path: &Path| (self.files.places.real(path), ConcurrentUse::Unchanging);
        let mut reader = self.files.machine.scan_parts(len, parts_of(&nodes), &find)?;
        let (start, count) = (self.staged.spool().len(), len.div_ceil(CHUNK as u64));
        let bytes =
            |number: u64| usize::try_from(len - number * CHUNK as u64).map_or(CHUNK, |left| left.min(CHUNK));
        let (mut announced, mut buffer) = (0, Vec::new());
        for number in 0..count {
            while announced < count && announced <= number + reader.ahead() {
                reader.expect(announced, bytes(announced), ChunkRequest::All(None))?;
                announced += 1;
            }
            (self.stay)()?;
            let spool = self.staged.spool_mut();
            match reader.read(&mut buffer)? {
                ChunkRead::Hole => spool.add(io::repeat(0).take(bytes(number) as u64))?,
                _ => spool.add(buffer.get(..bytes(number)).unwrap_or_default())?,
            };
        }
        let staged = |mut node: Node| {
            let block = node.blocks.first().map_or(0, |range| range.start);
            node.blocks.clear();
            StagedFile { node, offset: start + block * BLOCK as u64 }
        };
        Ok(nodes.into_iter().map(staged).collect())
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
    use disk::{Attributes, Extended, Kind};

    use super::*;
    use crate::control_file::tests::FILE;
    use crate::fixture::DataFolder;

    /// Stages what is left of a folder. `happens` before each read, with the number of the reads so far.
    fn staged(folder: &DataFolder, happens: &dyn Fn(usize)) -> io::Result<BTreeMap<String, Vec<u8>>> {
        let files = folder.files();
        let mut staged = StagedFiles::new(Path::new("/tmp"))?;
        let mut list = NoCommitFiles::default();
        list.folders.extend(["", "d"].map(PathBuf::from));
        let nodes = files.read_without_commits(list.folders.iter().map(PathBuf::as_path))?;
        let listed = nodes.into_iter().map(|node| (node.path, node.attributes.modified_ns));
        list.modified_ns.extend(listed);
        let mut reads = 0;
        let mut stay = || {
            happens(reads);
            reads += 1;
            Ok(())
        };
        Staging { files: &files, list: &list, stay: &mut stay, staged: &mut staged }.all()?;
        let mut contents = BTreeMap::new();
        for StagedFile { node, offset } in staged.files() {
            let mut bytes = vec![0; usize::try_from(node.len).unwrap()];
            staged.spool().read(*offset, &mut bytes)?;
            let before = contents.insert(node.path.display().to_string(), bytes);
            assert_eq!(before, None, "{} is staged once", node.path.display());
        }
        Ok(contents)
    }

    /// A folder whose control file says that the checkpoint is in log 133 and the newest log is 135.
    fn folder() -> DataFolder {
        let folder = DataFolder::new();
        folder.write("aria_log_control", &FILE);
        for log in 132..=135 {
            folder.write(&format!("aria_log.00000{log}"), &[log; 9000]);
        }
        folder.write("d/t.MAD", &[1; 40_000]);
        folder
    }

    #[test]
    fn what_may_change_until_nobody_commits_is_staged() {
        let folder = folder();
        folder.write("d/#sql-a.frm", b"an ALTER TABLE");
        // These are copied at another time.
        folder.write_each(&["d/t.frm", "d/t.ibd", "binlog.000001", "host.pid"]);
        let staged = staged(&folder, &|_| ()).unwrap();
        let logs = (132..=135).map(|log| format!("aria_log.00000{log}"));
        let expected: BTreeSet<String> =
            logs.chain(["aria_log_control", "d/#sql-a.frm", "d/t.MAD"].map(str::to_owned)).collect();
        assert_eq!(staged.keys().cloned().collect::<BTreeSet<_>>(), expected);
        assert_eq!(staged["aria_log_control"], FILE);
        assert_eq!(staged["d/t.MAD"], [1; 40_000]);
        assert_eq!(staged["aria_log.00000134"], [134; 9000]);
    }

    #[test]
    fn a_table_that_is_written_while_it_is_read_is_read_again() {
        let folder = folder();
        folder.write("d/t.MAD", &[1; CHUNK + 100]);
        // The reads are of the control file, of the first logs, and of both parts of the table.
        let write = |reads| {
            if reads == 3 {
                folder.overwrite("d/t.MAD", &[2; 100]);
            }
        };
        let staged = staged(&folder, &write).unwrap();
        let (first, rest) = staged["d/t.MAD"].split_at(100);
        assert_eq!(first, [2; 100]);
        assert!(rest.len() == CHUNK && rest.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn a_log_of_aria_that_ends_with_an_empty_file_ends_before_that() {
        let folder = folder();
        folder.write("aria_log.00000135", &[135; 8192]);
        let staged = staged(&folder, &|_| ()).unwrap();
        assert!(!staged.contains_key("aria_log.00000135"));
        let control = Control::new(staged["aria_log_control"].clone()).unwrap();
        assert_eq!((control.checkpoint(), control.newest()), (133, 134));
    }

    #[test]
    fn a_log_of_aria_without_one_of_its_files_is_refused() {
        let folder = folder();
        folder.remove("aria_log.00000134");
        let error = staged(&folder, &|_| ()).unwrap_err().to_string();
        assert_eq!(error, "Aria's log file 134 is gone; make the copy again");
        folder.remove("aria_log_control");
        let error = staged(&folder, &|_| ()).unwrap_err().to_string();
        assert!(error.ends_with("aria_log_control: it is gone"), "{error}");
    }

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
