//! Which pages a server has written to since the generation before, by its redo log, if that still goes back
//! so far.
//!
//! A copy has each page as it was at the checkpoint with which its log begins, or later. So a page that the
//! log has not changed from there on is the same one now, and need not be read. What is written without the
//! redo log is read in any case: the system tablespace, undo tablespaces, and every file whose name or number
//! the log makes, deletes or renames. While the server does not run, anything may be done to its files, so it
//! must not have been started meanwhile.

use std::io;
use std::ops::Range;

use block::BLOCK;
use block::tree::{Layout, LayoutBuilder, Node};
use innodb::redo::ChangedPages;
use physical::redo_copy::RedoCopier;
use physical::{Error, RedoPosition};
use serde_json::Value;
use server::Session;

use crate::data_files::DataFiles;
use crate::file;
use crate::read_files::{ReadFile, ReadFiles};
use crate::tablespaces::name_in_log;

/// The share of the log that may have been written since: before it is read, the server writes more.
const REACH: f64 = 0.9;

/// Whether a block may have changed since some LSN.
pub(crate) type IsNewer = Box<dyn Fn(&[u8]) -> bool + Sync>;

/// The generation before.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    /// The generation.
    pub number: u64,
    /// What it is called, such as `db@3`.
    pub shown: &'a str,
    /// Where its files are.
    pub layout: &'a Layout,
    /// What was noted of it.
    pub note: &'a Value,
    /// Whether a server that was started on it has found it unsound.
    pub is_unsound: bool,
}

/// When the server was started, by its own clock, in seconds since the epoch.
pub(crate) fn started(session: &mut Session) -> io::Result<Option<String>> {
    // Both are of the time at which the statement began.
    let seconds = session.value(
        "SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Uptime'",
    );
    seconds.map_err(io::Error::other)
}

/// The part of the log that the generation before has: its LSNs, and what tells it from others.
struct Known<'a> {
    lsns: Range<u64>,
    mark: &'a str,
}

/// What the generation before has of the same log, or why it has nothing.
fn known<'a>(before: &Before<'a>, now: &Value) -> Result<Known<'a>, String> {
    let of = |name: &str| [before.note, now].map(|note| note.pointer(name).and_then(Value::as_str));
    let number = |name: &str| before.note.pointer(name).and_then(Value::as_u64);
    let mark = before.note.pointer("/log/mark").and_then(Value::as_str);
    let (Some(from), Some(to), Some(mark)) = (number("/log/from"), number("/log/to"), mark) else {
        return Err(format!("{} has no place in the redo log", before.shown));
    };
    let shown = before.shown;
    match (of("/log/of"), of("/log/started")) {
        ([before, now], _) if before != now => Err(format!("{shown} is of other data")),
        (_, [None, _]) => Err("nobody knows when the server was started".to_owned()),
        (_, [before, now]) if before != now => Err(format!("the server was started since {shown}")),
        _ if before.is_unsound => Err(format!("{shown} is not sound")),
        _ if before.note.pointer("/log/doubted").is_some() => {
            Err(format!("{shown} has pages that can't be right"))
        }
        _ => Ok(Known { lsns: from..to, mark }),
    }
}

/// The log of the server from where the generation before ends, up to what is flushed; or why that can't be
/// read. `now`: the note of the new generation.
pub(crate) fn read_log(
    files: &DataFiles<'_>,
    before: &Before<'_>,
    now: &Value,
    connect: &dyn Fn() -> io::Result<Session>,
) -> io::Result<Result<RedoCopier, String>> {
    if files.page_bytes() > BLOCK {
        return Ok(Err("the server's pages are larger than 16 KiB".to_owned()));
    }
    let known = match known(before, now) {
        Ok(known) => known,
        Err(why) => return Ok(Err(why)),
    };
    match read_since(files, before.shown, &known, &mut connect()?) {
        // The log is not what it was.
        Err(error @ (Error::Log { .. } | Error::File { .. })) => Ok(Err(error.to_string())),
        read => read.map_err(io::Error::other),
    }
}

fn read_since(
    files: &DataFiles<'_>,
    shown: &str,
    known: &Known<'_>,
    session: &mut Session,
) -> Result<Result<RedoCopier, String>, Error> {
    let (disk, log) = (files.machine.disk(), files.places.log.clone());
    let mut follow = RedoCopier::since(disk, log, known.lsns.start)?;
    let now = RedoPosition::read(session)?;
    if follow.behind(now.current) > REACH {
        return Ok(Err(format!(
            "the server has written {} MB to its redo log since {shown}, and that keeps {} MB; a larger innodb_log_file_size \
             reaches further back",
            (now.current - known.lsns.start) / 1_000_000,
            follow.capacity() / 1_000_000
        )));
    }
    if follow.mark(known.lsns.end)? != known.mark {
        return Ok(Err("the redo log has another history".to_owned()));
    }
    let mut current = || Ok(RedoPosition::read(session)?.current);
    follow.step(now.flushed, &mut current)?;
    Ok(Ok(follow))
}

/// The bytes of the volume that may have changed in the files of the first region since a layout; all of them
/// if nobody knows what was `changed`.
pub(crate) fn ranges(
    files: &DataFiles<'_>,
    read: &ReadFiles,
    before: &Layout,
    changed: Option<&ChangedPages>,
) -> io::Result<Vec<Range<u64>>> {
    let nodes: Vec<Node> = read.values().map(|read| read.node.clone()).collect();
    LayoutBuilder::changed(nodes, before, |node| {
        let pages = match (read.get(&node.path), changed) {
            (Some(read), Some(changed)) if file::is_table(&node.path) => pages(files, read, changed)?,
            _ => None,
        };
        let whole = || std::iter::once(0..node.len).collect();
        Ok(pages.unwrap_or_else(whole))
    })
}

/// The bytes of a tablespace that may have changed; none if that is not known.
fn pages(
    files: &DataFiles<'_>,
    read: &ReadFile,
    changed: &ChangedPages,
) -> io::Result<Option<Vec<Range<u64>>>> {
    let (path, space, size) = (&read.node.path, read.state.space, files.page_bytes() as u64);
    let name = name_in_log(path);
    let pages = changed.pages(space, &name).filter(|_| space != 0);
    let Some(pages) = pages else { return Ok(None) };
    let ranges: Vec<Range<u64>> =
        pages.map(|page| u64::from(page) * size..(u64::from(page) + 1) * size).collect();
    // Those of ROW_FORMAT=COMPRESSED are smaller.
    let is_known = ranges.is_empty() || files.has_usual_pages(path)?;
    Ok(is_known.then_some(ranges))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{DataFolder, Log, PAGE, about_file, imported_table, written_page};
    use crate::read_files;

    #[test]
    fn the_log_is_read_only_from_a_generation_of_the_same_log_on() {
        let note = |of: &str, started: &str| json!({"log": {"of": of, "started": started, "from": 500, "to": 700, "mark": "ab"}});
        let layout = Layout::new(Vec::new(), None);
        let why = |note: &Value, is_unsound: bool| {
            let before = Before { number: 1, shown: "db@1", layout: &layout, note, is_unsound };
            let now = json!({"log": {"of": "7-99", "started": "1000"}});
            known(&before, &now).map(|known| (known.lsns, known.mark.to_owned()))
        };
        assert_eq!(why(&note("7-99", "1000"), false), Ok((500..700, "ab".to_owned())));
        let mut doubted = note("7-99", "1000");
        doubted["log"]["doubted"] = true.into();
        let mut without = note("7-99", "1000");
        without["log"]["mark"].take();
        for (note, is_unsound, word) in [
            (&note("7-98", "1000"), false, "other data"),
            (&note("7-99", "1001"), false, "started since"),
            (&note("7-99", "1000"), true, "not sound"),
            (&doubted, false, "can't be right"),
            (&without, false, "no place in the redo log"),
            (&json!({}), false, "no place in the redo log"),
        ] {
            let refused = why(note, is_unsound).err();
            assert!(refused.as_ref().is_some_and(|why| why.contains(word)), "{refused:?}: {word}");
        }
        let mut silent = note("7-99", "1000");
        silent["log"]["started"].take();
        let before = Before { number: 1, shown: "db@1", layout: &layout, note: &silent, is_unsound: false };
        assert!(known(&before, &silent).is_err(), "nobody knows when it was started");
    }

    #[test]
    fn only_pages_that_the_log_has_changed_are_read_again() {
        let folder = DataFolder::new();
        for (table, space) in
            [("d/a.ibd", 1), ("d/b.ibd", 2), ("d/made.ibd", 3), ("d/imported.ibd", 4), ("ibdata1", 0)]
        {
            folder.tablespace(table, space);
        }
        let mut files = folder.files();
        let mut read = read_files::tests::read(&mut files);
        let mut nodes: Vec<Node> = read.values().map(|file| file.node.clone()).collect();
        let mut layout = LayoutBuilder::new(None, files.names.page_bytes);
        layout.add(&mut nodes);
        read.values_mut().zip(&nodes).for_each(|(file, node)| file.node = node.clone());
        let before = layout.finish(nodes);
        let changed = |records: &[Vec<u8>]| {
            let copier = Log::new(records).copier();
            let ranges = ranges(&files, &read, &before, copier.changed_pages()).unwrap();
            let is_in = |at: u64| ranges.iter().any(|range| range.contains(&at));
            let pages = read.values().flat_map(|file| {
                let name = file.node.path.to_str().unwrap();
                let pages = file.node.places().flat_map(|(place, _)| place.step_by(PAGE)).enumerate();
                pages.filter(|(_, at)| is_in(*at)).map(move |(page, _)| format!("{name} {page}"))
            });
            pages.collect::<Vec<_>>()
        };
        // The log does not have everything of the system tablespace.
        let system = ["ibdata1 0", "ibdata1 1"];
        assert_eq!(changed(&[written_page(9, 0)]), system);
        assert_eq!(changed(&[written_page(2, 1)]), ["d/b.ibd 1", "ibdata1 0", "ibdata1 1"]);
        let made = [about_file(0x80, 3, "./d/made.ibd")];
        assert_eq!(changed(&made), ["d/made.ibd 0", "d/made.ibd 1", "ibdata1 0", "ibdata1 1"]);
        let imported = [imported_table("d/imported")];
        assert_eq!(changed(&imported), ["d/imported.ibd 0", "d/imported.ibd 1", "ibdata1 0", "ibdata1 1"]);
    }
}
