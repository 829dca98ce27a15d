//! `remora binlog`

mod alone;
mod begin;
mod compare;
mod follow;
mod kept;
mod lacks;

use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use binlog::archive::pieces::Keeper;
use binlog::archive::{Archive, FOLDER};
use block::{Sealed, Store};
use clap::Args;
use disk::RealDisk;
use progress::Progress;
use server::required_privileges::{Task, require};
use server::{Session, Target};

use self::begin::Beginning;
use self::follow::{Follow, Left};
use self::kept::Kept;
use self::lacks::Unwaited;
use crate::archived::Place;
use crate::args::ServerArgs;
use crate::calendar;
use crate::exit::{self, Exit, Held};
use crate::home::Home;
use crate::keys::KeyArguments;
use crate::report::Report;
use crate::retain::RetainArguments;
use crate::{address, archived, repository, shown, stop};

/// How long to wait before the next attempt to connect: the first time, and at most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How often it is noted that everything is archived, while a server writes without a pause.
const NOTE: Duration = Duration::from_secs(10);

/// How often it is looked whether the key was replaced.
const LOOK: Duration = Duration::from_secs(60);

/// What a server says if it has not what is asked for: it was told to begin its log anew.
const NO_SUCH_PLACE: u16 = 1236;
/// How long a run waits for the end of a lock in a store, which ends by itself when it is not renewed, and
/// how often it tries.
const LOCK_WAIT: Duration = Duration::from_secs(150);
const LOCK_LOOK: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "EXAMPLES
  remora binlog /backup/db1 -h db1
      archive the log of db1 from now on, until stopped; every second what came is made durable
  remora binlog /backup/db1 --once
      archive what is new and end, for a job every few minutes
  remora binlog /backup/db1 -h db1 --ack
      a COMMIT on db1 returns only when its transaction is durable here too
  remora binlog /backup/db1 -h db1 --key db1.put
      encrypted: with a put key this host can add to the archive, and read nothing of it
  remora binlog s3://company-backups/db1 -h db1
      into an object store, in pieces of a second each
  remora binlog s3://company-backups/db1 -h db1 --retain 30d
      which nobody can remove for 30 days
  remora log /backup/db1 --since -1h --table shop.orders
      look into the archive

  The account needs: GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO ... (REPLICATION CLIENT on MySQL)";

/// Archive a server's binary log as it is written
///
/// remora connects as a replica does, and keeps the server's files byte for byte in REPO/NAME/log. In an
/// encrypted name and in a store it keeps them in pieces, from which the other commands read. A run that was
/// stopped or killed goes on where it was, after it has compared what the server has there with what is
/// archived. If the server has another history (RESET MASTER, an older state put back), or has purged files
/// that were not archived yet, a new line begins beside the former one: nothing is overwritten, and what
/// happened is told (exit code 12 with --once).
///
/// When the connection breaks it is made again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A name in a repository; it is made if it does not exist. REPO is a folder or s3://BUCKET/PREFIX
    #[arg(value_name = "REPO/NAME")]
    to: PathBuf,

    /// Archive what is there and end
    #[arg(long)]
    once: bool,

    /// How long what came may wait until it is made durable: 0s, 1s, 1m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = calendar::duration_s)]
    sync: u64,

    /// Let every COMMIT wait until its transaction is durable here (semi-synchronous replication)
    #[arg(long, conflicts_with = "once")]
    ack: bool,

    /// The number by which the server knows us, which no replica has [default: made of the machine and
    /// REPO/NAME]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    server_id: Option<u32>,

    #[command(flatten)]
    retain: RetainArguments,

    #[command(flatten)]
    key: KeyArguments,

    #[command(flatten)]
    server: ServerArgs,
}

/// What a run needs.
pub(crate) struct Run<'a> {
    once: bool,
    sync: Duration,
    ack: bool,
    server_id: u32,
    target: &'a Target,
    kept: &'a Kept,
    sealed: Option<&'a Sealed>,
    /// When it was looked last whether the key was replaced.
    looked: Cell<Instant>,
    /// How often what is older is retained anew, if it is.
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
    report: &'a Report,
}

impl Run<'_> {
    /// The time by the server's clock.
    fn time_s(&self) -> i64 {
        calendar::now_s() + self.ahead_s.get()
    }

    /// Looks how the server's clock differs from ours: transactions have the server's times, and so has what
    /// is noted of when they came.
    fn compare_clocks(&self, session: &mut Session) -> Result<()> {
        let now_s = calendar::now_s();
        let time = session.value("SELECT UNIX_TIMESTAMP()")?.unwrap_or_default();
        let time_s: i64 = time.parse().with_context(|| format!("the server says that its time is {time}"))?;
        self.ahead_s.set(time_s - now_s);
        Ok(())
    }

    /// Notes that everything is archived.
    fn note_now(&self) -> Result<()> {
        let now_s = calendar::now_s();
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

    /// Keeps from being removed what the pieces that are written need, and the keys. It is done before the
    /// first one is written.
    fn retain(&self) -> Result<()> {
        let Some(renew) = self.renew else { return Ok(()) };
        if self.renewed.get().is_some_and(|renewed| renewed.elapsed() < renew) {
            return Ok(());
        }
        if let Some(sealed) = self.sealed {
            sealed.openers()?.iter().try_for_each(|name| sealed.retain(name))?;
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
        let time_s = time_s.min(calendar::now_s()).max(noted_s);
        self.noted.set((time_s, Some(Instant::now())));
        self.look_for_unwaited();
        self.must_have_the_key()?;
        self.retain()?;
        Ok(self.kept.note_caught_up(time_s)?)
    }
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let target = arguments.server.target(password)?;
    let line = report.clone();
    let stop = stop::flag(move || line.print_line())?;
    let (kept, sealed) = open(arguments, (&stop, report))?;
    let run = Run {
        once: arguments.once,
        sync: Duration::from_secs(arguments.sync),
        ack: arguments.ack,
        server_id: arguments.server_id.map_or_else(|| number(&arguments.to), Ok)?,
        target: &target,
        kept: &kept,
        sealed: sealed.as_ref(),
        looked: Cell::new(Instant::now()),
        renew: arguments.retain.renewed(),
        renewed: Cell::new(None),
        stop,
        has_told: Cell::new(false),
        has_archived: Cell::new(false),
        noted: Cell::new((0, None)),
        ahead_s: Cell::new(0),
        silent: Cell::new(None),
        unwaited: arguments.ack.then(Unwaited::default),
        report,
    };
    match run.once {
        true => report.phase("archiving", None),
        false => report.endless("archiving"),
    }
    let mut is_broken = false;
    let mut pause = PAUSE;
    let mut has_connected = false;
    let mut must_look = false;
    while !run.stop.load(Ordering::Relaxed) {
        for damage in kept.damages() {
            report.warn(&format!(
                "{damage}; the run goes on behind it, and 'remora verify' tells what is lost"
            ));
        }
        if std::mem::take(&mut must_look) {
            kept.look()?;
        }
        match once(&run, &mut is_broken, &mut has_connected) {
            Ok(Left::End) => {
                report.end();
                return Ok(if is_broken { Exit::Broken } else { Exit::Done });
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
                stop::pause(pause, &run.stop);
                must_look = true;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => return Err(error),
        }
    }
    report.end();
    Ok(exit::stopped())
}

/// One connection.
fn once(run: &Run<'_>, is_broken: &mut bool, has_connected: &mut bool) -> Result<Left> {
    let mut session = run.target.connect()?;
    if run.ack {
        can_acknowledge(&mut session, run.report)?;
    }
    if !*has_connected {
        require(&mut session, &[Task::Archive])?;
        alone::must_be(&mut session, run.target, run.server_id)?;
        lacks::tell(&mut session, run.report)?;
    }
    run.compare_clocks(&mut session)?;
    run.retain()?;
    let Beginning { line, tail, first, end } = begin::begin(run, &mut session, is_broken)?;
    *has_connected = true;
    Follow::new(run, &line, tail, (first, end))?.all()
}

/// Opens what is written: files of the server in a folder that is not encrypted, or else pieces.
fn open(arguments: &Arguments, world: (&AtomicBool, &Report)) -> Result<(Kept, Option<Sealed>)> {
    let home = arguments.retain.renewing().on(Home::of(&arguments.to)?)?;
    let busy = |shown: String| anyhow::Error::new(Held(format!("{shown}: another run archives into it")));
    let key = arguments.key.read()?;
    repository::must_be_of_one(&arguments.to, &home)?;
    if let Some(folder) = home.folder()
        && key.is_none()
        && !block::is_sealed(&*home.store())?
        && !archived::has_pieces(&home)?
    {
        let folder = folder.join(FOLDER);
        let archive = Archive::open(&RealDisk, &folder).with_context(|| shown::path(&folder))?;
        return Ok((Kept::Files(archive.ok_or_else(|| busy(shown::path(&folder)))?), None));
    }
    if archived::has_files(&home) {
        return Err(exit::usage(format!(
            "{}: the log that is archived here is not encrypted, and rows in clear must not lie beside encrypted ones: leave out the \
             key, or archive under another name",
            home.shown()
        )));
    }
    // In a store the lock of a run that was killed ends by itself; in a folder it has ended.
    let waits = !arguments.once && home.folder().is_none();
    let until = Instant::now() + if waits { LOCK_WAIT } else { Duration::ZERO };
    let mut has_told = false;
    loop {
        let Place { store, sealed } = archived::place(&home, key.as_ref())?;
        let keeper = Keeper::open(store).with_context(|| home.log().shown())?;
        if let Some(keeper) = keeper {
            return Ok((Kept::Pieces(Box::new(RefCell::new(keeper))), sealed));
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
        if !stop::pause(LOCK_LOOK, world.0) {
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

/// Whether a store did not answer, or has a piece that an earlier request has written behind our back.
fn is_away(error: &(dyn std::error::Error + 'static)) -> bool {
    let kind = match (error.downcast_ref::<io::Error>(), error.downcast_ref::<binlog::Error>()) {
        (Some(error), _) | (_, Some(binlog::Error::Io(error))) => error.kind(),
        _ => return false,
    };
    matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::AlreadyExists)
}

/// A number for this archive: the same each time, and hardly another's.
fn number(to: &std::path::Path) -> Result<u32> {
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
fn can_acknowledge(session: &mut Session, report: &Report) -> Result<()> {
    let is_on = session.value("SELECT @@global.rpl_semi_sync_master_enabled");
    if !matches!(is_on, Ok(Some(ref on)) if on == "1" || on == "ON") {
        bail!(
            "--ack: the server does not wait for replicas: SET GLOBAL rpl_semi_sync_master_enabled = ON (and write it into its \
             option file)"
        );
    }
    let timeout = session.value("SELECT @@global.rpl_semi_sync_master_timeout")?.unwrap_or_default();
    report.note(&format!(
        "a COMMIT waits for us for {timeout} ms (rpl_semi_sync_master_timeout); after that the server goes on without, until \
         we have caught up"
    ));
    Ok(())
}
