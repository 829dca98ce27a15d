//! What is known of each repository: one thread reads it, however many look.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use block::Generation;
use block::verify::NotedDamage;
use humanize::date_time;
use progress::pause;
use repository::unlock;
use repository::{Named, address};
use seal::Key;
use snapshot::identity::Identity;
use web::Changes;

use repository::log_summary::LogSummary;
use repository::state::{Evidence, KnownDamage};

/// How often a repository on this machine is read.
const FOLDER: Duration = Duration::from_secs(60);
/// How often one in an object store is read, where each look costs requests.
const STORE: Duration = Duration::from_secs(600);

/// A repository that is watched.
pub(crate) struct Archive {
    root: PathBuf,
    /// As a command line names it.
    pub(crate) address: String,
    /// How often it is read.
    pub(crate) interval: Duration,
    state: Mutex<State>,
}

/// What is known of a repository.
#[derive(Default)]
pub(crate) struct State {
    /// When it was last read.
    pub(crate) seen: Option<Instant>,
    /// Why it could not be read since.
    pub(crate) trouble: Option<String>,
    /// Its names.
    pub(crate) names: Vec<NameState>,
    /// Names that no key opens.
    pub(crate) locked: Vec<String>,
}

/// What is known of a name.
pub(crate) struct NameState {
    pub(crate) name: String,
    /// In order, the oldest first.
    pub(crate) generations: Vec<GenerationState>,
    /// Files that can't be used, and why.
    pub(crate) damages: Vec<String>,
    /// What the last `remora verify` noted.
    pub(crate) noted: NotedDamage,
    /// The archive of its binary log.
    pub(crate) log: LogState,
}

/// How far the archive of a binary log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogState {
    /// Its server writes none, as far as the backups tell.
    Unneeded,
    /// Its server writes one, and it is not archived.
    Missing,
    /// It last had everything then, in seconds since 1970; none if it never had.
    Archived(Option<i64>),
}

/// What is known of a generation.
pub(crate) struct GenerationState {
    pub(crate) number: u64,
    /// 0 for a full one.
    pub(crate) parent: u64,
    /// When it was made, in seconds since 1970.
    pub(crate) taken_s: i64,
    pub(crate) bytes: u64,
    pub(crate) bytes_stored: u64,
    pub(crate) known: Evidence,
    /// Whether all that it needs is there.
    pub(crate) is_whole: bool,
    /// Whether it needs something that `remora verify` noted as damaged.
    pub(crate) is_damaged: bool,
    /// The machine that it is of.
    pub(crate) host: String,
}

impl Archive {
    pub(crate) fn new(root: &Path) -> Archive {
        let interval = if address::is_in_store(root) { STORE } else { FOLDER };
        let address = root.display().to_string();
        Archive { root: root.to_owned(), address, interval, state: Mutex::default() }
    }

    /// What is known now.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that reads it.
    pub(crate) fn start(
        self: &Arc<Archive>,
        key: Option<Key>,
        (stop, changes): (&Arc<AtomicBool>, &Changes),
    ) {
        let (archive, stop, changes) = (Arc::clone(self), Arc::clone(stop), changes.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let read = read(&archive.root, key.as_ref());
                let mut state = archive.state();
                match read {
                    Ok(read) => *state = read,
                    Err(error) => state.trouble = Some(failure::text(&error)),
                }
                drop(state);
                changes.tell();
                pause(archive.interval, &stop);
            }
        });
    }
}

fn read(root: &Path, key: Option<&Key>) -> Result<State> {
    let found = unlock::all(root, key)?;
    let mut names = Vec::new();
    for named in &found.backups {
        names.push(backups(named)?);
    }
    for named in &found.only_logs {
        let (log, damages) = log(named, false)?;
        names.push(NameState {
            name: named.name.clone(),
            generations: Vec::new(),
            damages,
            noted: NotedDamage::default(),
            log,
        });
    }
    let locked = found.locked.iter().map(|locked| locked.name.clone()).collect();
    Ok(State { seen: Some(Instant::now()), trouble: None, names, locked })
}

/// A name with backups.
fn backups(named: &Named) -> Result<NameState> {
    let listing = named.repository.list()?;
    let writes_log = listing.generations.last().and_then(repository::position).is_some();
    let KnownDamage { texts: mut damages, noted } = KnownDamage::of(named, &listing);
    let (log, of_log) = log(named, writes_log)?;
    damages.extend(of_log);
    let state = |one| generation_state(one, noted.generations.contains_key(&one.number));
    let generations = listing.generations.iter().map(state).collect();
    Ok(NameState { name: named.name.clone(), generations, damages, noted, log })
}

/// How far the archived log of a name is, and what is damaged there. `is_needed`: whether its server writes
/// one.
fn log(named: &Named, is_needed: bool) -> Result<(LogState, Vec<String>)> {
    Ok(match LogSummary::find(named, false)? {
        Some(log) => (LogState::Archived(log.caught_up), log.damages),
        None if is_needed => (LogState::Missing, Vec::new()),
        None => (LogState::Unneeded, Vec::new()),
    })
}

fn generation_state(generation: &Generation, is_damaged: bool) -> GenerationState {
    GenerationState {
        number: generation.number,
        parent: generation.parent,
        taken_s: generation.taken_s,
        bytes: generation.len,
        bytes_stored: generation.file_bytes,
        known: Evidence::of(generation),
        is_whole: generation.is_whole,
        is_damaged,
        host: Identity::of(generation).host,
    }
}

/// How long ago something was, by the clocks of two machines; none if it is in the future.
pub(crate) fn since(then_s: i64) -> Option<Duration> {
    u64::try_from(date_time::now_s() - then_s).ok().map(Duration::from_secs)
}
