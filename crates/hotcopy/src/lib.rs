//! A running server that is copied file by file, on any file system: no snapshot is needed.
//!
//! Pages are read while the server writes them. The redo log is followed from the last checkpoint before the
//! first page was read, so a server that starts on the copy brings all pages to the moment at which the log
//! was cut. What the log does not cover is read while the server stands still in one way or another
//! (`BACKUP STAGE`), and the log is cut while nobody commits: the copy has exactly what is committed at the
//! position of the binary log that is noted.
//!
//! The copy is a volume of three regions ([`LayoutBuilder`]): what is read while the server works; what is
//! read while nobody changes definitions, among it every table that DDL has touched meanwhile; and what was
//! put aside while nobody committed.

mod backup_stage;
mod changed_pages;
mod control_file;
mod doubt;
mod early;
mod file;
mod file_places;
mod found;
mod preflight;
mod queue;
mod quiesce;
mod redo_log;
mod spool;
mod staged_files;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block::tree::{ConcurrentUse, Layout, LayoutBuilder, Node, Part, TreeSource};
use block::{BLOCK, ChunkRead, ChunkRequest, ChunkSource, Scan};
use disk::{Kind, RealDisk, Stat};
use instance::{plugins, settings};
use physical::redo_copy::CopiedLog;
use progress::Progress;
use serde_json::{Value, json};
use snapshot::server::Login;
use snapshot::server_files::{self, Reach};
use snapshot::server_lock;

use self::backup_stage::Stages;
pub use self::changed_pages::Before;
use self::early::Early;
use self::file::{Names, When};
use self::file_places::Places;
use self::redo_log::{LogReader, Stopped};
use self::spool::Spool;
use self::staged_files::Aside;
use host::Machine;

/// Blanks in place of a note that is known later.
const NOTE_ROOM: usize = 16 << 10;
/// How long pages wait for the log before they look again.
const WAIT_FOR_LOG: Duration = Duration::from_millis(20);

/// A server that can be copied in this way.
pub struct HotCopy<'a> {
    login: &'a Login<'a>,
    session: ::server::Session,
    places: Places,
    names: Names,
    /// What the user should know about things that the copy lacks.
    lacks: Vec<String>,
}

impl<'a> HotCopy<'a> {
    /// Finds the server's data. Fails with a reason if they can't be copied rightly.
    pub fn find(machine: &Machine, login: &'a Login<'a>) -> io::Result<HotCopy<'a>> {
        let (_, mut session) = login.connect(machine)?;
        preflight::server(&mut session)?;
        // All that is missing, and not one after the other. Without a log there is none to see.
        if session.about.log_bin {
            ::server::required_privileges::require(
                &mut session,
                &[::server::required_privileges::Task::Copy],
            )
            .map_err(io::Error::other)?;
        }
        let mut places = Places::of(&mut session, machine)?;
        places.list(machine)?;
        let outside = places.outside(machine)?;
        let log_folder = places.log.parent().unwrap_or(&places.data);
        let folders: Vec<&Path> =
            outside.iter().map(PathBuf::as_path).chain([&*places.data, log_folder]).collect();
        let reach = Reach::Folders(&folders);
        let mut lacks = server_files::check_settings(&mut session, machine, &places.data, &reach)?;
        if let Some(keys) = preflight::keys(&mut session)? {
            let file = keys["file"].as_str().unwrap_or_default();
            lacks.push(format!("tablespaces are encrypted: the keys are not in the backup; keep {file}"));
        }
        let system = places.system().map(Path::to_owned).collect();
        let inside = |written: &Path, real: &Path| places.inside(written, real);
        let names = Names::of(&mut session, machine, (&places.data, system), inside)?;
        let system = places.system().next().map(|system| places.real(system));
        system.map_or(Ok(()), |system| preflight::new_system(machine, &system))?;
        Ok(HotCopy { login, session, places, names, lacks })
    }

    /// Links in the data folder that lead to nothing, so that the server has nothing there either.
    pub fn dangling(&self) -> &[PathBuf] {
        &self.places.dangling
    }

    /// Whether a place would be in a copy of the data folder, or will be once it is made.
    pub fn has(&self, place: &Path) -> bool {
        self.places.has(place)
    }

    /// The paths that the files that there are now have in a copy.
    pub fn paths(&mut self, machine: &Machine) -> io::Result<Vec<PathBuf>> {
        let (nodes, _) = self.places.list(machine)?;
        let leads = self.places.leads.iter().map(|(node, _)| node.path.clone());
        Ok(nodes.into_iter().map(|node| node.path).chain(leads).collect())
    }

    /// Begins a copy. What is put aside goes to a file without a name in `room`. `before`: where the files
    /// were in the generation before, and what was noted of it.
    pub fn begin(
        mut self,
        machine: &'a Machine,
        room: &Path,
        before: Option<&Before<'_>>,
        mut note: Value,
    ) -> io::Result<HotFeed<'a>> {
        self.lacks.iter().for_each(|line| self.login.report.note(line));
        let started = changed_pages::started(&mut self.session)?;
        note["server"] = settings::note(&mut self.session).map_err(io::Error::other)?;
        let stages = Stages::start(self.session, self.login.wait)?;
        let (_, session) = self.login.connect(machine)?;
        let redo = Spool::new(room)?;
        let log = LogReader::begin(machine, &self.places.log, &redo, session)?;
        note["log"] = json!({"of": doubt::identity(machine, &self.places)?, "started": started});
        let since = before.and_then(|before| doubt::since(before.note, &note, log.checkpoint));
        let growing = LayoutBuilder::new(before.map(|before| before.layout), self.names.page_bytes);
        let mut feed = HotFeed {
            machine,
            login: self.login,
            places: self.places,
            names: self.names,
            stages: Some(stages),
            log: Some(log),
            redo,
            aside: Spool::new(room)?,
            growing,
            layout: None,
            early: BTreeMap::new(),
            kept: Vec::new(),
            spaces: BTreeMap::new(),
            unwritten: Vec::new(),
            folders: BTreeSet::from([PathBuf::new()]),
            queues: Vec::new(),
            before: BTreeMap::new(),
            listed: Instant::now(),
            feed: Box::new(Scan::new(Box::new(TreeSource::new(Arc::new(RealDisk), 0)))),
            len: 0,
            region: 0,
            since,
            doubted: Arc::default(),
            note,
        };
        feed.read_pages()?;
        Ok(feed)
    }
}

/// The copy, while it is made.
pub struct HotFeed<'a> {
    machine: &'a Machine,
    login: &'a Login<'a>,
    places: Places,
    names: Names,
    stages: Option<Stages>,
    log: Option<LogReader>,
    /// The redo log.
    redo: Spool,
    /// What was read while nobody committed.
    aside: Spool,
    growing: LayoutBuilder,
    /// Where all files are, once that is known.
    pub layout: Option<Layout>,
    /// The files of the first region; later those of them that are in the copy.
    early: BTreeMap<PathBuf, (Node, Early)>,
    /// Everything that is in the copy, as far as it is known.
    kept: Vec<Node>,
    /// The tablespaces in the copy, by their numbers. Two files may have one number, such as a copy that
    /// waits for its IMPORT.
    spaces: BTreeMap<u32, Vec<PathBuf>>,
    /// Those whose first page was not written yet when they were listed.
    unwritten: Vec<PathBuf>,
    /// The folders with files that are read while nobody commits.
    folders: BTreeSet<PathBuf>,
    /// The folders of queues.
    queues: Vec<PathBuf>,
    /// When the files that are read while nobody commits were written last, some time before that.
    before: BTreeMap<PathBuf, i128>,
    /// When that was looked at.
    listed: Instant,
    /// Reads the region that is being read.
    feed: Box<dyn ChunkSource>,
    len: u64,
    region: usize,
    /// Pages that nobody has written to since this LSN are as they were in the generation before.
    since: Option<u64>,
    /// Whether there is a page that can't be right.
    doubted: Arc<AtomicBool>,
    note: Value,
}

impl HotFeed<'_> {
    /// The note for the beginning, with room for what is known at the end.
    pub fn room_for_note() -> String {
        format!("{:NOTE_ROOM$}", "{}")
    }

    /// Bytes of a page of InnoDB.
    pub fn page_bytes(&self) -> usize {
        usize::try_from(self.names.page_bytes).unwrap_or(BLOCK)
    }

    /// The first region: what is read while the server works.
    fn read_pages(&mut self) -> io::Result<()> {
        let (nodes, seen) = self.places.list(self.machine)?;
        let growing = file::newest(nodes.iter().filter(|node| self.names.when(&node.path) == When::Closed));
        let (mut read, mut early) = (Vec::new(), Vec::new());
        for node in nodes.into_iter().filter(|node| node.kind == Kind::File) {
            let Some(mut known) = seen.get(&node.path).copied() else { continue };
            match self.names.when(&node.path) {
                When::Pages => {
                    let Some(space) = self.space(&node.path)? else { continue };
                    known.space = space;
                }
                When::Closed if !growing.contains(&node.path) => {}
                _ => continue,
            }
            read.push(node);
            early.push(known);
        }
        self.len = self.growing.add(&mut read);
        let mut parts = parts_of(&read);
        parts.push((0..BLOCK as u64, Part::Bytes(LayoutBuilder::first_block())));
        self.feed = self.scan(parts)?;
        self.early =
            read.into_iter().zip(early).map(|(node, early)| (node.path.clone(), (node, early))).collect();
        Ok(())
    }

    /// Reads parts of the volume from the server's files.
    fn scan(&self, parts: Vec<(Range<u64>, Part<'_>)>) -> io::Result<Box<dyn ChunkSource>> {
        let care = |path: &Path| match self.names.when(path) {
            When::Pages => ConcurrentUse::PageWrites(self.names.page_bytes),
            When::Closed => ConcurrentUse::Removal,
            _ => ConcurrentUse::Unchanging,
        };
        self.machine.scan_parts(self.len, parts, &|path| (self.places.real(path), care(path)))
    }

    /// The second region: stops DDL, and reads what was not read before, or has become another file since.
    fn read_unlogged(&mut self) -> io::Result<()> {
        self.stages()?.block_ddl()?;
        let ddl = self.contents(Path::new(file::DDL))?.unwrap_or_default();
        let named = file::named_in(&String::from_utf8(ddl).map_err(io::Error::other)?);
        let (nodes, seen) = self.places.list(self.machine)?;
        self.listed = Instant::now();
        preflight::engines(self.stages()?.session())?;
        if let Some(keys) = preflight::keys(self.stages()?.session())? {
            self.note["keys"] = keys;
        }
        let early = std::mem::take(&mut self.early);
        let mut anew = Vec::new();
        for mut node in nodes {
            // There may be very many files, and each that has changed is asked for.
            self.stages()?.stay()?;
            if node.kind != Kind::File {
                self.queues.extend(plugins::is_queue(&node.path).then(|| node.path.clone()));
                self.kept.push(node);
                continue;
            }
            let when = self.names.when(&node.path);
            match when {
                When::Pages | When::Closed => {
                    let known = early.get(&node.path).zip(seen.get(&node.path));
                    let same = match known {
                        Some(((_, then), now)) => {
                            !file::is_named(&named, &node.path)
                                && self.is_same(&node.path, *then, *now, when)?
                        }
                        None => false,
                    };
                    if let Some(((read, then), _)) = known.filter(|_| same) {
                        if when == When::Pages {
                            self.note_space(then.space, &node.path);
                            self.early.insert(node.path.clone(), (read.clone(), *then));
                        }
                        // What is behind its end by now is in the redo log.
                        (node.len, node.blocks) = (read.len, read.blocks.clone());
                        self.kept.push(node);
                    } else if when == When::Pages {
                        if let Some(space) = self.space(&node.path)? {
                            self.note_space(space, &node.path);
                        }
                        anew.push(node);
                    }
                }
                When::NoDdl => anew.push(node),
                // A table's files stay in their folder.
                When::NoCommit => {
                    self.folders.extend(node.path.parent().map(Path::to_owned));
                    self.before.insert(node.path, node.attributes.modified_ns);
                }
                When::Never => {}
            }
        }
        self.len = self.growing.add(&mut anew);
        let parts = parts_of(&anew);
        self.feed = self.scan(parts)?;
        self.kept.append(&mut anew);
        Ok(())
    }

    /// The third region: stops commits, puts aside what is left, cuts the redo log, and lets the server go
    /// on.
    fn read_rest(&mut self) -> io::Result<()> {
        quiesce::wait_after(self.listed);
        self.stages()?.block_commit()?;
        // From here on it must not be read beyond the end, which is not known yet.
        let log = self.log.take().ok_or_else(ended)?.stop()?;
        let mut rest = self.put_aside()?;
        let (position, end) = self.stages()?.position()?;
        // They have been synced with that: what is committed in them needs no coordinator.
        let queues = self.open_queues(&mut rest)?;
        // They are opened now: later they may be purged.
        let logs = self.stages()?.binary_logs()?;
        let newest = position["file"].as_str().unwrap_or_default();
        let logs = self.open_logs(logs, (newest, position["offset"].as_u64().unwrap_or_default()))?;
        self.put_index_aside(newest, &mut rest)?;
        let fresh = self.fresh()?;
        let waited = self.stages.take().ok_or_else(ended)?.end()?;
        // First, because the server may write over it.
        let log = self.end_log(log, end)?;
        // To these files the server only adds.
        self.put_tails_aside(queues.into_iter().chain(logs), &mut rest)?;
        self.lay_out(&rest, fresh, &log)?;
        let (ddl_s, commits_s) = (waited.ddl.as_secs_f64(), waited.commits.as_secs_f64());
        self.tell(&position, ddl_s, commits_s);
        self.note["way"] = "copy".into();
        self.note["position"] = position;
        self.note["position"]["lock"] = "backup-stage".into();
        self.note["position"]["seconds_held"] = commits_s.into();
        self.note["position"]["seconds_without_ddl"] = ddl_s.into();
        self.note["log"]["from"] = log.checkpoint.into();
        self.note["log"]["to"] = log.end.into();
        self.note["log"]["size"] = log.log_size().into();
        self.note["log"]["mark"] = log.mark.clone().into();
        self.places.note(self.machine, &mut self.note)?;
        if self.note.to_string().len() > NOTE_ROOM {
            return Err(io::Error::other("the server's position is too long to be noted"));
        }
        Ok(())
    }

    /// Reads the redo log up to its end.
    fn end_log(&mut self, log: Stopped, end: u64) -> io::Result<CopiedLog> {
        let began = log.began;
        let log = log.finish(end)?;
        self.refuse_imported(&log, began)?;
        self.refuse_lost(&log)?;
        self.refuse_doubles(&log)?;
        self.redo.replace(0, &log.head)?;
        Ok(log)
    }

    /// Gives places to the files of the third region, and begins to read it. Of the `fresh` ones only the
    /// names are known.
    fn lay_out(&mut self, rest: &[Aside], fresh: Vec<Node>, log: &CopiedLog) -> io::Result<()> {
        let redo = self.machine.tree().entry(&self.places.log)?;
        let redo = Node::of(file::REDO.into(), redo).with_len(log.file_bytes());
        let (redo_path, aside_path) = (self.redo.path(), self.aside.path());
        // Where the bytes of each file are.
        let mut from = vec![(&redo_path, 0)];
        from.extend(rest.iter().map(|aside| (&aside_path, aside.offset)));
        let mut files = vec![redo];
        files.extend(rest.iter().map(|aside| aside.node.clone()));
        files.extend(fresh);
        self.growing.add(&mut files);
        let mut all = std::mem::take(&mut self.kept);
        all.extend(files.iter().cloned());
        all.sort_by(|one, other| one.path.cmp(&other.path));
        let layout = std::mem::replace(&mut self.growing, LayoutBuilder::new(None, 0)).finish(all);
        self.len = layout.volume_len();
        let mut reader = TreeSource::new(Arc::new(RealDisk), self.len);
        for (place, part) in layout.parts() {
            if let Part::Bytes(bytes) = part {
                reader.add_bytes(place.start, bytes);
            }
        }
        for (node, (path, start)) in files.iter().zip(from) {
            for (place, offset) in node.places() {
                reader.add_file(place, path.clone(), start + offset, ConcurrentUse::Unchanging);
            }
        }
        self.feed = Box::new(Scan::new(Box::new(reader)));
        self.layout = Some(layout);
        Ok(())
    }

    fn tell(&self, position: &Value, ddl_s: f64, commits_s: f64) {
        let (report, source) = (&self.login.report, self.note["source"].as_str().unwrap_or_default());
        let source = snapshot::in_messages(source);
        report.note(&format!(
            "{source}: commits waited for {commits_s:.3} s, DDL and tables without transactions for {ddl_s:.3} s"
        ));
        if let Some(text) = server_lock::shown(position) {
            report.note(&format!("{source}: {text}"));
        }
    }

    fn stages(&mut self) -> io::Result<&mut Stages> {
        self.stages.as_mut().ok_or_else(ended)
    }

    /// Waits while much of the redo log is unread; fails if it can't be followed any more.
    fn wait_for_log(&mut self) -> io::Result<()> {
        let began = Instant::now();
        while let Some(log) = &self.log {
            if log.has_failed() {
                let failed = self.log.take().map(LogReader::stop);
                return Err(failed.and_then(Result::err).unwrap_or_else(ended));
            }
            // The log may be read through the connection that waits here, so that must go on.
            if !log.is_late()
                || began.elapsed() > Duration::from_secs(1)
                || !progress::pause(WAIT_FOR_LOG, &self.login.stop)
            {
                break;
            }
        }
        Ok(())
    }
}

fn ended() -> io::Error {
    io::Error::other("the copy had ended before")
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The places of files in the volume.
fn parts_of(nodes: &[Node]) -> Vec<(Range<u64>, Part<'_>)> {
    let files = nodes
        .iter()
        .flat_map(|node| node.places().map(|(place, offset)| (place, Part::File(&node.path, offset))));
    files.collect()
}

impl ChunkSource for HotFeed<'_> {
    fn stat(&mut self) -> io::Result<Stat> {
        let mut stat = self.feed.stat()?;
        stat.len = self.len;
        Ok(stat)
    }

    fn ahead(&self) -> u64 {
        self.feed.ahead()
    }

    fn expect(&mut self, number: u64, bytes: usize, want: ChunkRequest) -> io::Result<()> {
        self.feed.expect(number, bytes, want)
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
        self.wait_for_log()?;
        if let Some(stages) = &mut self.stages {
            stages.stay()?;
        }
        self.feed.read(buffer)
    }

    fn more(&mut self) -> io::Result<Option<u64>> {
        match self.region {
            0 => self.read_unlogged()?,
            1 => self.read_rest()?,
            _ => return Ok(None),
        }
        self.region += 1;
        Ok(Some(self.len))
    }

    fn is_urgent(&self) -> bool {
        self.region == 1
    }

    fn note(&self) -> Option<String> {
        let mut note = self.note.clone();
        if self.doubted.load(Ordering::Relaxed) {
            // The next generation must not take its pages as they are.
            note["log"]["doubted"] = true.into();
        }
        Some(note.to_string())
    }
}
