//! Archives a server's binary log as it is written.
//!
//! It connects as a replica does. `begin` compares what the server has with what is archived and says where
//! to go on; `follow` receives events and hands them to an `ArchiveOutput`: the server's files in a
//! folder, or segments in an encrypted folder or a store.

mod begin;
mod compare;
mod follow;
mod output;
mod server_checks;
mod server_id;

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use binlog::archive::segments::SegmentWriter;
use binlog::archive::{Archive, FOLDER};
use block::{EncryptedStore, Store};
use disk::RealDisk;
use humanize::{date_time, text};
use progress::Progress;
use repository::location::Location;
use repository::log_archive::Place;
use repository::{address, log_archive};
use seal::Key;
use server::required_privileges::{Task, require};
use server::{Flavour, Session, Target};

use self::begin::Beginning;
use self::follow::{Follow, Left};
use self::output::ArchiveOutput;
use self::server_checks::Unwaited;

/// How long to wait before the next attempt to connect: the first time, and at most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How often it is noted that everything is archived, while a server writes without a pause.
const NOTE: Duration = Duration::from_secs(10);

/// How often it is looked whether the key was replaced.
const LOOK: Duration = Duration::from_secs(60);

/// What a server says if it has not what is asked for: it was told to begin its log again.
const NO_SUCH_PLACE: u16 = 1236;
/// How long a run waits for the end of a lock in a store, which ends by itself when it is not renewed, and
/// how often it tries.
const LOCK_WAIT: Duration = Duration::from_secs(150);
const LOCK_LOOK: Duration = Duration::from_secs(2);

/// What to archive, and how.
pub struct Options<'a> {
    /// The server.
    pub target: &'a Target,
    /// A name in a repository.
    pub to: &'a Path,
    /// Where that is, with what is to be retained.
    pub location: Location,
    /// What encrypts the archive.
    pub key: Option<Key>,
    /// Archive what is there and end.
    pub once: bool,
    /// Maximum delay before received events are synced.
    pub sync: Duration,
    /// Whether every COMMIT waits until its transaction is durable here.
    pub ack: bool,
    /// `server_id` to register with; must be unique.
    pub server_id: Option<u32>,
    /// How often what is older is retained again, if it is.
    pub renew: Option<Duration>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that the server has is archived, in one timeline.
    Complete,
    /// The same, but a new timeline was begun.
    NewTimeline,
    /// The run was asked to stop.
    Stopped,
}

/// What a run needs.
struct Run<'a> {
    once: bool,
    sync: Duration,
    ack: bool,
    server_id: u32,
    target: &'a Target,
    kept: &'a ArchiveOutput,
    sealed: Option<&'a EncryptedStore>,
    /// When it was looked last whether the key was replaced.
    looked: Cell<Instant>,
    /// How often what is older is retained again, if it is.
    renew: Option<Duration>,
    /// When that was done last.
    renewed: Cell<Option<Instant>>,
    stop: Arc<AtomicBool>,
    /// Whether it was told that everything is archived.
    has_told: Cell<bool>,
    /// Whether something was archived since a connection broke last.
    has_archived: Cell<bool>,
    /// Up to when everything is archived, and when that was noted last.
    noted: Cell<(i64, Option<Instant>)>,
    /// How far the server's clock is ahead of ours, in seconds.
    ahead_s: Cell<i64>,
    /// Where in its log the server had nothing more, and when, by its clock.
    silent: Cell<Option<(u64, i64)>>,
    /// With --ack: commits that did not wait for us.
    unwaited: Option<Unwaited>,
    report: &'a dyn Progress,
}

impl Run<'_> {
    /// The time by the server's clock.
    fn time_s(&self) -> i64 {
        date_time::now_s() + self.ahead_s.get()
    }

    /// Looks how the server's clock differs from ours: transactions have the server's times, and so has what
    /// is noted of when they came.
    fn compare_clocks(&self, session: &mut Session) -> Result<()> {
        let now_s = date_time::now_s();
        let time = session.value("SELECT UNIX_TIMESTAMP()")?.unwrap_or_default();
        let time_s: i64 = time.parse().with_context(|| format!("the server says that its time is {time}"))?;
        self.ahead_s.set(time_s - now_s);
        Ok(())
    }

    /// Notes that everything is archived.
    fn note_now(&self) -> Result<()> {
        let now_s = date_time::now_s();
        self.noted.set((now_s, Some(Instant::now())));
        self.must_have_the_key()?;
        self.retain()?;
        Ok(self.kept.note_caught_up(now_s)?)
    }

    /// The server has nothing more behind this place in its log, at this time.
    fn hears_nothing(&self, place: (u64, i64)) {
        self.silent.set(Some(place));
        self.look_for_unwaited();
    }

    /// Tells commits that did not wait for us.
    fn look_for_unwaited(&self) {
        if let Some(unwaited) = &self.unwaited {
            unwaited.look(self.target, self.report);
        }
    }

    /// Ends the run if the key that it was given is not the one that opens the backups any more.
    fn must_have_the_key(&self) -> Result<()> {
        let Some(sealed) = self.sealed else { return Ok(()) };
        if self.looked.get().elapsed() < LOOK {
            return Ok(());
        }
        self.looked.set(Instant::now());
        if sealed.is_replaced()? {
            bail!(
                "the key was replaced ('remora rekey'): start it again with the new one, so that the old one does not open what comes"
            );
        }
        Ok(())
    }

    /// Keeps from being removed what the segments that are written need, and the keys. It is done before the
    /// first one is written.
    fn retain(&self) -> Result<()> {
        let Some(renew) = self.renew else { return Ok(()) };
        if self.renewed.get().is_some_and(|renewed| renewed.elapsed() < renew) {
            return Ok(());
        }
        if let Some(sealed) = self.sealed {
            sealed.key_files()?.iter().try_for_each(|name| sealed.retain(name))?;
        }
        self.kept.retain()?;
        self.renewed.set(Some(Instant::now()));
        Ok(())
    }

    /// Notes that everything up to this time is archived, unless that was done a moment ago. The time is what
    /// a transaction says: sessions may set it, and a long statement has that of its beginning.
    fn note(&self, time_s: i64) -> Result<()> {
        let (noted_s, last) = self.noted.get();
        if last.is_some_and(|last| last.elapsed() < NOTE) {
            return Ok(());
        }
        let time_s = time_s.min(date_time::now_s()).max(noted_s);
        self.noted.set((time_s, Some(Instant::now())));
        self.look_for_unwaited();
        self.must_have_the_key()?;
        self.retain()?;
        Ok(self.kept.note_caught_up(time_s)?)
    }
}

/// Archives until everything is archived (with [`Options::once`]) or the run is asked to stop.
///
/// # Errors
/// Failures that will not pass by themselves; at the first connection all of them.
pub fn run(options: Options<'_>, stop: Arc<AtomicBool>, report: &dyn Progress) -> Result<Outcome> {
    // Nothing is made for a server that is not there, or not to be archived.
    let mut first = None;
    if is_new(&options.location)? {
        require(first.insert(options.target.connect()?), &[Task::Archive])?;
    }
    let (kept, sealed) = open(&options, (&stop, report))?;
    let run = Run {
        once: options.once,
        sync: options.sync,
        ack: options.ack,
        server_id: options.server_id.map_or_else(|| number(options.to), Ok)?,
        target: options.target,
        kept: &kept,
        sealed: sealed.as_ref(),
        looked: Cell::new(Instant::now()),
        renew: options.renew,
        renewed: Cell::new(None),
        stop,
        has_told: Cell::new(false),
        has_archived: Cell::new(false),
        noted: Cell::new((0, None)),
        ahead_s: Cell::new(0),
        silent: Cell::new(None),
        unwaited: options.ack.then(Unwaited::default),
        report,
    };
    let mut is_broken = false;
    let mut pause = PAUSE;
    let mut has_connected = false;
    let mut must_look = false;
    while !run.stop.load(Ordering::Relaxed) {
        for damage in kept.damages() {
            report.warn(&format!(
                "{damage}; the run continues behind it, and 'remora verify' tells what is lost"
            ));
        }
        if std::mem::take(&mut must_look) {
            kept.look()?;
        }
        match once(&run, first.take(), &mut is_broken, &mut has_connected) {
            Ok(Left::End) => {
                return Ok(if is_broken { Outcome::NewTimeline } else { Outcome::Complete });
            }
            Ok(Left::Stopped) => break,
            Ok(Left::Again) => pause = PAUSE,
            Ok(Left::Forked(what)) => {
                begin::fork(&run, &what)?;
                (is_broken, pause) = (true, PAUSE);
                run.has_told.set(false);
            }
            Err(error) if has_connected && !run.once && is_passing(&error) => {
                report.warn(&format!("{error:#}; trying again"));
                run.has_told.set(false);
                if run.has_archived.take() {
                    pause = PAUSE;
                }
                progress::pause(pause, &run.stop);
                must_look = true;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Outcome::Stopped)
}

/// Whether there is a folder with neither an archive nor a key for one. In a store another run may have its
/// lock, which has to be asked first.
fn is_new(home: &Location) -> Result<bool> {
    Ok(home.folder().is_some()
        && !log_archive::has_files(home)
        && !log_archive::has_segments(home)?
        && !home.is_encrypted()?)
}

/// One connection: the first one, or a new one.
fn once(
    run: &Run<'_>,
    first: Option<Session>,
    is_broken: &mut bool,
    has_connected: &mut bool,
) -> Result<Left> {
    let mut session = first.map_or_else(|| run.target.connect(), Ok)?;
    if run.ack {
        can_acknowledge(&mut session, run.report)?;
    }
    if !*has_connected {
        require(&mut session, &[Task::Archive])?;
        server_id::must_be_free(&mut session, run.target, run.server_id)?;
        server_checks::tell(&mut session, run.report)?;
    }
    run.compare_clocks(&mut session)?;
    run.retain()?;
    let Beginning { timeline, tail, first, end } = begin::begin(run, &mut session, is_broken)?;
    *has_connected = true;
    Follow::new(run, &timeline, tail, (first, end))?.all()
}

/// Opens what is written: files of the server in a folder that is not encrypted, or else segments.
fn open(
    options: &Options<'_>,
    world: (&AtomicBool, &dyn Progress),
) -> Result<(ArchiveOutput, Option<EncryptedStore>)> {
    let home = options.location.clone();
    let busy = |shown: String| failure::busy(format!("{shown}: another run archives into it"));
    let key = &options.key;
    repository::must_be_of_one(options.to, &home)?;
    if key.is_none() && !log_archive::has_files(&home) && !log_archive::has_segments(&home)? {
        repository::may_be_in_clear(options.to.parent().unwrap_or(options.to), &home)?;
    }
    if let Some(folder) = home.folder()
        && key.is_none()
        && !home.is_encrypted()?
        && !log_archive::has_segments(&home)?
    {
        let folder = folder.join(FOLDER);
        let archive = Archive::open(&RealDisk, &folder).with_context(|| text::path(&folder))?;
        return Ok((ArchiveOutput::Files(archive.ok_or_else(|| busy(text::path(&folder)))?), None));
    }
    if log_archive::has_files(&home) {
        return Err(failure::usage(format!(
            "{}: the log that is archived here is not encrypted, and rows in clear must not lie beside encrypted ones: leave out the \
             key, or archive under another name",
            home.shown()
        )));
    }
    // In a store the lock of a run that was killed ends by itself; in a folder it has ended.
    let waits = !options.once && home.folder().is_none();
    let until = Instant::now() + if waits { LOCK_WAIT } else { Duration::ZERO };
    let mut has_told = false;
    loop {
        let Place { store, sealed } = log_archive::place(&home, key.as_ref())?;
        let keeper = SegmentWriter::open(store).with_context(|| home.log().shown())?;
        if let Some(keeper) = keeper {
            return Ok((ArchiveOutput::Segments(Box::new(RefCell::new(keeper))), sealed));
        }
        if Instant::now() >= until {
            return Err(busy(home.log().shown()));
        }
        if !std::mem::replace(&mut has_told, true) {
            world.1.note(&format!(
                "{}: another run archives into it, or was killed a short time ago; waiting for up to {} s until its lock ends",
                home.log().shown(),
                LOCK_WAIT.as_secs()
            ));
        }
        if !progress::pause(LOCK_LOOK, world.0) {
            return Err(block::Error::Stopped.into());
        }
    }
}

/// Whether the same may work later.
fn is_passing(error: &anyhow::Error) -> bool {
    if error.chain().any(is_away) {
        return true;
    }
    let server = error.chain().find_map(|cause| cause.downcast_ref::<server::Error>());
    server.is_some_and(|error| error.is_passing() || error.code() == Some(NO_SUCH_PLACE))
}

/// Whether a store did not answer, or has a segment that an earlier request has written behind our back.
fn is_away(error: &(dyn std::error::Error + 'static)) -> bool {
    let kind = match (error.downcast_ref::<io::Error>(), error.downcast_ref::<binlog::Error>()) {
        (Some(error), _) | (_, Some(binlog::Error::Io(error))) => error.kind(),
        _ => return false,
    };
    matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::AlreadyExists)
}

/// A number for this archive: the same each time, and hardly another's.
fn number(to: &Path) -> Result<u32> {
    let mut hasher = blake3::Hasher::new();
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    hasher.update(machine.trim().as_bytes());
    let place = if address::is_in_store(to) { to.to_owned() } else { to.canonicalize()? };
    hasher.update(place.as_os_str().as_encoded_bytes());
    let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
    // People count from 1 on, and use dates and addresses.
    Ok(u32::from_le_bytes([a, b, c, d]) | 0x8000_0000)
}

/// Says what COMMIT waits for.
fn can_acknowledge(session: &mut Session, report: &dyn Progress) -> Result<()> {
    let rows = session.strings("SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync%'")?;
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.first().is_some_and(|own| own.as_deref() == Some(name)));
        row.and_then(|row| row.get(1).cloned().flatten())
    };
    // MySQL 8.0.26 and later have a plugin of each name, and 9 has only that of the source.
    let parts = ["master", "source"].map(|side| (side, value(&format!("rpl_semi_sync_{side}_enabled"))));
    let Some((side, _)) = parts.iter().find(|(_, on)| on.as_deref() == Some("ON")) else {
        let command = match (session.about.flavour, &parts) {
            (Flavour::MariaDb, _) | (_, [(_, Some(_)), _]) => "SET GLOBAL rpl_semi_sync_master_enabled = ON",
            (_, [_, (_, Some(_))]) => "SET GLOBAL rpl_semi_sync_source_enabled = ON",
            _ => {
                "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so' (before MySQL 8.0.26 rpl_semi_sync_master and \
                 'semisync_master.so'), then SET GLOBAL rpl_semi_sync_source_enabled = ON"
            }
        };
        bail!("--ack: the server does not wait for replicas: {command} (and write it into its option file)");
    };
    let name = format!("rpl_semi_sync_{side}_timeout");
    let timeout = value(&name).unwrap_or_default();
    report.note(&format!(
        "a COMMIT waits for us for {timeout} ms ({name}); after that the server continues without us, until we have caught up"
    ));
    Ok(())
}
