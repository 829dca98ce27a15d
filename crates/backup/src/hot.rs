//! The backup of a server that is copied file by file, while it runs.

use block::backup::{Request, Summary};
use block::tree::{layout_of, load_placements};
use block::{Error, Repository};
use host::Machine;
use hotcopy::{Before, HotCopy, HotFeed};
use humanize::{date_time, text};
use progress::size;
use repository::address;
use seal::Key;
use serde_json::{Value, json};
use snapshot::server;

use crate::run::{Made, explain};
use crate::{Backup, Way};

/// The most pages that are reported.
const SUSPECTS_MAX: usize = 20;

/// Where a copy goes, and what it is compared with.
struct Target<'a> {
    repository: &'a Repository,
    machine: &'a Machine,
    /// The generation before, if there is one.
    before: Option<Before<'a>>,
    /// The note of the new generation, as far as it is known.
    note: &'a Value,
}

impl Backup<'_> {
    /// Whether the source is a server that is copied file by file.
    pub(crate) fn is_copied(&self, machine: &Machine) -> Result<bool, Error> {
        let chosen = self.request.way;
        if !self.source.is_server() || chosen == Some(Way::Snapshot) || self.request.needs_snapshot() {
            return Ok(false);
        }
        let can = || server::has_snapshots(machine, self.login).map_err(|error| self.source.failed(error));
        Ok(chosen == Some(Way::Copy) || !can()?)
    }

    /// Copies a server file by file, while it runs.
    pub(crate) fn copy(&self, repository: &mut Repository, machine: &Machine) -> Result<Made, Error> {
        let mut copy = self.find_copy(machine)?;
        if matches!(machine, Machine::Here) && copy.has(&self.request.to) {
            return Err(Error::Unfit(format!(
                "--to {}: the repository is inside the server's data folder, or a link in that leads to it, and each backup would \
                 copy it, too; choose a folder outside, or remove the link",
                self.request.to.display()
            )));
        }
        let dangling = copy.dangling().to_vec();
        for link in &dangling {
            let (source, link) = (self.source.name(), text::path(link));
            self.output.warn(&format!("{source}: the link {link} leads to nothing, and is left out"));
        }
        let (mut all, begun) = self.begin(repository, machine)?;
        // Without the generation before, every file gets new blocks: more is stored, but nothing is wrong.
        let newest = all.pop().filter(|newest| !self.request.full && repository::is_tree(newest));
        let known = newest.as_ref().and_then(|newest| layout_of(repository, Some(newest.number)).ok());
        // Who has only the put key can't read it, but knows its files by their marks.
        let noted = match (&known, &newest) {
            (None, Some(newest)) => {
                let paths = copy.paths().map_err(|error| self.source.failed(error))?;
                load_placements(repository, newest.number, paths).ok().flatten()
            }
            _ => None,
        };
        let note: Option<Value> =
            newest.as_ref().map(|newest| serde_json::from_str(&newest.note).unwrap_or_default());
        let shown =
            newest.as_ref().map(|newest| format!("{}@{}", self.name, newest.number)).unwrap_or_default();
        let before = newest.as_ref().zip(note.as_ref()).zip(known.as_ref().or(noted.as_ref()));
        let before = before.map(|((newest, note), layout)| Before {
            number: newest.number,
            shown: &shown,
            layout,
            note,
            is_unsound: newest.booted == Some(false),
        });
        let tracks = self.request.track && known.is_some();
        if self.request.track && known.is_none() && newest.is_some() {
            let source = self.source.name();
            let why = match self.key {
                Some(Key::Put(_)) => {
                    "--track needs the full key, and a put key can't read which files there are"
                }
                _ => "the list of its files can't be read",
            };
            self.output
                .note(&format!("{source}: everything is read, not only what changed since {shown}: {why}"));
        }
        let to = Target { repository, machine, before, note: &begun };
        let mut made = self.copy_to(&to, copy, tracks);
        if let Err(error @ Error::Untracked { .. }) = &made {
            self.output.warn(&format!("{error}: everything is read"));
            made = self.copy_to(&to, self.find_copy(machine)?, false);
        }
        made.map(|made| Made { is_part: !dangling.is_empty(), ..made })
    }

    fn find_copy<'a>(&'a self, machine: &'a Machine) -> Result<HotCopy<'a>, Error> {
        HotCopy::find(machine, self.login).map_err(|error| self.source.failed(error))
    }

    /// Copies a server that can be copied. `tracks`: reads only what has changed since the generation before,
    /// if that is known.
    fn copy_to(&self, to: &Target<'_>, copy: HotCopy<'_>, tracks: bool) -> Result<Made, Error> {
        let Target { repository, machine, before, .. } = *to;
        let failed = |error| self.source.failed(error);
        let shown = self.source.name();
        let mut note = to.note.clone();
        note["tree"] = json!(true);
        // Staged files are not encrypted, so they must not be where encrypted backups are.
        let is_here = self.key.is_none() && !address::is_in_store(&self.request.to);
        let room = if is_here { self.request.to.clone() } else { std::env::temp_dir() };
        let mut feed = copy.begin(&room, before.as_ref(), note).map_err(failed)?;
        let (mut changed, mut is_newer) = (None, None);
        if let Some(before) = before.as_ref().filter(|_| tracks) {
            self.world.progress.phase("reading the redo log", None);
            match feed.changes(before).map_err(failed)? {
                Ok((ranges, lsn)) => {
                    let (read, since) = (size(ranges.bytes()), before.shown);
                    self.output.note(&format!(
                        "{shown}: the redo log goes back to {since}; {read} of the tablespaces may have changed"
                    ));
                    (changed, is_newer) = (Some(ranges), Some(feed.is_newer(lsn)));
                }
                Err(why) => self.output.note(&format!("{shown}: everything is read: {why}")),
            }
        }
        let (is_suspect, page_bytes) = (feed.is_suspect(), feed.page_bytes());
        let request = Request {
            taken_s: date_time::now_s(),
            changed,
            is_newer: is_newer.as_deref(),
            is_suspect: is_suspect.as_deref(),
            note: HotFeed::room_for_note(),
            full: self.request.full,
            jobs: self.request.jobs,
            rate: self.request.rate,
            // What changes meanwhile is in the redo log.
            is_frozen: true,
            ..Request::new(&shown)
        };
        let made = block::backup(repository, &mut feed, &request, self.world);
        let summary = made.map_err(|error| explain(error, machine))?;
        self.save_placements(repository, &summary, feed.layout());
        let unsound = self.report_suspects(repository, &summary, page_bytes)?;
        Ok(Made { summary, unsound, is_copy: true, is_part: false })
    }

    /// Says which pages are others than before, although nobody has written to them. Returns how many.
    fn report_suspects(
        &self,
        repository: &Repository,
        summary: &Summary,
        page_bytes: usize,
    ) -> Result<usize, Error> {
        if summary.suspect_blocks.is_empty() {
            return Ok(0);
        }
        let layout = layout_of(repository, Some(summary.generation))?;
        for (path, offset) in
            summary.suspect_blocks.iter().take(SUSPECTS_MAX).filter_map(|block| layout.file_of(*block))
        {
            self.output.warn(&format!(
                "{}: {}, at page {}, is not what it was in {}@{}, but by its LSN nobody has written to it since: the disk \
                 has lost a write, or a read has returned something old; CHECK TABLE, and 'remora verify --boot' for both",
                self.source.name(),
                text::path(path),
                offset / page_bytes as u64,
                self.name,
                summary.parent
            ));
        }
        Ok(summary.suspect_blocks.len())
    }
}
