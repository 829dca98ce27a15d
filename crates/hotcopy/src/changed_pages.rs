//! Which pages a server has written to since the generation before. Its redo log tells, if it still goes back
//! so far.
//!
//! A copy has each page as it was at the checkpoint with which its log begins, or later. So a page that the
//! log has not changed from there on is the same one now, and need not be read. What is written without the
//! redo log is read in any case: the system tablespace, undo tablespaces, and every file whose name or number
//! the log makes, deletes or renames. While the server does not run, anything may be done to its files, so it
//! must not have been started meanwhile.

use std::io;
use std::ops::Range;
use std::path::Path;

use block::BLOCK;
use block::backup::ChangedRanges;
use block::tree::{Layout, LayoutBuilder, Node};
use innodb::redo::ChangedPages;
use physical::redo_copy::RedoCopier;
use physical::{Error, RedoPosition};
use serde_json::Value;
use server::Session;

use crate::early::Early;
use crate::file;
use crate::{HotFeed, preflight};

/// The share of the log that may have been written since: before it is read, the server goes on writing.
const REACH: f64 = 0.9;

/// Whether a block has changed since some moment.
pub(crate) type Moves = Box<dyn Fn(&[u8]) -> bool + Sync>;

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
    // Both are of the moment at which the statement began.
    let asked = session.value(
        "SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Uptime'",
    );
    asked.map_err(io::Error::other)
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

impl HotFeed<'_> {
    /// Where the first region may have changed since the generation before, and the LSN up to which that is
    /// known; or why it is unknown.
    pub fn changes(&self, before: &Before<'_>) -> io::Result<Result<(ChangedRanges, u64), String>> {
        let known = match known(before, &self.note) {
            _ if self.page_bytes() > BLOCK => Err("the server's pages are larger than 16 KiB".to_owned()),
            known => known,
        };
        let known = match known {
            Ok(known) => known,
            Err(why) => return Ok(Err(why)),
        };
        let (_, mut session) = self.login.connect(self.machine)?;
        match self.go_back((before.shown, &known), &mut session) {
            Ok(Ok(log)) => {
                let ranges = self.ranges(before.layout, log.changed_pages())?;
                Ok(Ok((ChangedRanges { since: before.number, ranges }, log.proven())))
            }
            Ok(Err(why)) => Ok(Err(why)),
            // The log is not what it was.
            Err(error @ (Error::Log { .. } | Error::File { .. })) => Ok(Err(error.to_string())),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// The log, read from there up to what is flushed; or why that can't be done.
    fn go_back(
        &self,
        (shown, known): (&str, &Known<'_>),
        session: &mut Session,
    ) -> Result<Result<RedoCopier, String>, Error> {
        let (disk, log) = (self.machine.disk(), self.places.log.clone());
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

    /// The bytes of the volume that may have changed; all of them if nobody knows what was touched.
    fn ranges(&self, before: &Layout, touched: Option<&ChangedPages>) -> io::Result<Vec<Range<u64>>> {
        let nodes: Vec<Node> = self.early.values().map(|(node, _)| node.clone()).collect();
        let mut ranges = LayoutBuilder::changed(nodes, before, |node| {
            let pages = match (self.early.get(&node.path), touched) {
                (Some((_, early)), Some(touched)) if file::is_table(&node.path) => {
                    self.pages(&node.path, early, touched)?
                }
                _ => None,
            };
            let whole = || std::iter::once(0..node.len).collect();
            Ok::<_, io::Error>(pages.unwrap_or_else(whole))
        })?;
        // What is behind the region is read in any case.
        ranges.retain(|range| range.start < self.len);
        Ok(ranges)
    }

    /// The bytes of a tablespace that may have changed; none if that is not known.
    fn pages(
        &self,
        path: &Path,
        early: &Early,
        touched: &ChangedPages,
    ) -> io::Result<Option<Vec<Range<u64>>>> {
        let size = self.page_bytes() as u64;
        let name = preflight::name_in_log(path);
        let touched = touched.pages(early.space, &name).filter(|_| early.space != 0);
        let Some(touched) = touched else { return Ok(None) };
        let ranges: Vec<Range<u64>> =
            touched.map(|page| u64::from(page) * size..(u64::from(page) + 1) * size).collect();
        // Those of ROW_FORMAT=COMPRESSED are smaller.
        let is_known = ranges.is_empty() || self.is_of_usual_pages(path)?;
        Ok(is_known.then_some(ranges))
    }

    /// Whether a block may have changed after the LSN `since`, by what is in it.
    pub fn moves(&self, since: u64) -> Moves {
        let page_bytes = self.page_bytes();
        Box::new(move |block| innodb::page_check::may_be_newer(block, page_bytes, since))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_generation_of_the_same_log_is_gone_back_to() {
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
            let told = why(note, is_unsound).err();
            assert!(told.as_ref().is_some_and(|told| told.contains(word)), "{told:?}: {word}");
        }
        let mut silent = note("7-99", "1000");
        silent["log"]["started"].take();
        let before = Before { number: 1, shown: "db@1", layout: &layout, note: &silent, is_unsound: false };
        assert!(known(&before, &silent).is_err(), "nobody knows when it was started");
    }
}
