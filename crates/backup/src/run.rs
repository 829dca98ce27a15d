//! The backup of one source.

use std::ffi::OsStr;
use std::io;
use std::time::Instant;

use block::backup::{ChangedRanges, Request, Summary};
use block::tree::{Layout, save_placements};
use block::{Error, Generation, Repository};
use failure::Completeness;
use host::{Call, Machine};
use humanize::{date_time, text};
use progress::count;
use serde_json::{Value, json};
use snapshot::identity::Identity;
use snapshot::{Mark, Opened, Snapshot, Watched, server_lock};

use crate::Backup;

/// The result of checking a snapshot.
pub(crate) struct Proof {
    /// The name and value of the entry in the generation's note.
    pub(crate) note: (&'static str, Value),
    pub(crate) damages: Vec<String>,
}

/// A new generation.
pub(crate) struct Made {
    pub(crate) summary: Summary,
    /// How much a server that was started on it has found wrong.
    pub(crate) unsound: usize,
    /// Whether it was copied while the server ran.
    pub(crate) is_copy: bool,
    /// Whether something was left out, which was reported.
    pub(crate) is_part: bool,
}

impl Backup<'_> {
    /// Makes a generation. It is [`Completeness::Partial`] when not everything is backed up, or when the work
    /// after it failed; [`Completeness::Damaged`] if the repository is damaged, or if a server that was
    /// started on the backup finds it unsound.
    ///
    /// # Errors
    /// If there is no new generation. What the repository had before is unchanged.
    pub fn run(&self) -> Result<Completeness, Error> {
        let began = Instant::now();
        let machine = self.reach()?;
        let mut clean = true;
        let made = match hook(&machine, self.request.before.as_deref()) {
            Ok(()) => self.still(&machine, &mut clean),
            Err(error) => Err(self.source.failed(error)),
        };
        clean &= self.finally(
            &machine,
            |_| "--after failed".to_owned(),
            |machine| hook(machine, self.request.after.as_deref()),
        );
        let Made { summary, mut unsound, is_copy, is_part } = made?;
        clean &= !is_part;
        self.output.stored(self.source, self.name, &summary, began.elapsed());
        for damage in &summary.damages {
            self.output.warn(&format!("{}: {damage}", self.name));
        }
        if is_copy && !self.request.no_prove {
            unsound += self.prove_copy(summary.generation, &mut clean);
        }
        if unsound > 0 {
            let stored = format!("{}@{}", self.name, summary.generation);
            self.output
                .warn(&format!("{stored} is stored but not sound: {}, see above", count(unsound, "problem")));
        }
        Ok(match (summary.damages.is_empty() && unsound == 0, clean) {
            (false, _) => Completeness::Damaged,
            (true, false) => Completeness::Partial,
            (true, true) => Completeness::Complete,
        })
    }

    fn reach(&self) -> Result<Machine, Error> {
        let places = self.login.server.places();
        let (options, nice) = (&*self.request.ssh_option, self.request.nice);
        self.source.reach(Call { options, nice, places: &places })
    }

    /// Removes whatever was made for the backup, whatever happened. If the connection broke, it opens another
    /// one.
    fn finally(
        &self,
        machine: &Machine,
        what: impl Fn(&io::Error) -> String,
        mut act: impl FnMut(&Machine) -> io::Result<()>,
    ) -> bool {
        let mut done = act(machine);
        if done.as_ref().is_err_and(Machine::is_gone) {
            done = self.reach().map_err(io::Error::other).and_then(|again| act(&again));
        }
        if let Err(error) = &done {
            self.output.warn(&format!("{}: {}: {error}", self.source.name(), what(error)));
        }
        done.is_ok()
    }

    /// Reads the source, or a snapshot of it that is created, and then removed or kept.
    fn still(&self, machine: &Machine, clean: &mut bool) -> Result<Made, Error> {
        let mut repository = repository::named(&self.request.to, self.home.clone(), self.key)?;
        if self.is_copied(machine)? {
            return self.copy(&mut repository, machine);
        }
        let snapshot = self.source.snapshot(machine, self.login, self.request.snapshot_size)?;
        let (mut all, note) = self.begin(&mut repository, machine)?;
        let stamps: Vec<String> = all.iter().map(|one| stamp(one.number, &one.content)).collect();
        let newest = all.pop().filter(|_| !self.request.full);
        let Some(mut snapshot) = snapshot else {
            let (summary, whole) = self.store(&repository, None, (None, &note), machine)?;
            *clean &= whole;
            return Ok(Made { summary, unsound: 0, is_copy: false, is_part: false });
        };
        let failed = |source| Error::Store { name: self.request.to.display().to_string(), source };
        let whose = repository::mark(&self.request.to, self.name).map_err(failed)?;
        let known = newest.as_ref().filter(|_| self.request.track);
        let known = known.map(|known| stamp(known.number, &known.content));
        let mark = Mark { whose: &whose, kept: known.as_deref(), all: &stamps };
        let made = snapshot
            .prepare(machine, &mark, self.world.progress)
            .and_then(|()| self.make(&mut *snapshot, machine))
            .map_err(|error| self.source.failed(error))
            .and_then(|()| self.prove(&mut *snapshot, machine, clean))
            .and_then(|proof| {
                let held = HeldStill { snapshot: &*snapshot, proof: proof.as_ref() };
                let stored = self.store(&repository, Some(&held), (newest.as_ref(), &note), machine)?;
                Ok((stored, proof.map_or(0, |proof| proof.damages.len())))
            });
        *clean &= self.has_all(&*snapshot);
        let kept = match &made {
            Ok(((summary, _), _)) if self.request.track => Some(stamp(summary.generation, &summary.content)),
            _ => None,
        };
        let made_at = snapshot.path();
        let left = |_: &io::Error| {
            format!("its snapshot {} may still be there, and the next run removes it", made_at.display())
        };
        *clean &= self.finally(machine, left, |machine| match &kept {
            Some(stamp) => snapshot.keep(machine, stamp),
            None => snapshot.remove(machine),
        });
        let ((summary, whole), unsound) = made?;
        *clean &= whole;
        Ok(Made { summary, unsound, is_copy: false, is_part: false })
    }

    /// Whether nobody renamed files while the snapshot was made. Otherwise the snapshot may lack them.
    fn has_all(&self, snapshot: &dyn Snapshot) -> bool {
        let vanished = snapshot.vanished();
        if vanished > 0 {
            self.output.warn(&format!(
                "{}: {} renamed or removed each time remora tried to clone it: a file that has another name now may be missing; --lock, or --before and --after, can prevent that",
                self.source.name(),
                count(vanished, "file")
            ));
        }
        vanished == 0
    }

    /// Keeps other runs from writing to this name. Returns its generations, and the note of the next one.
    /// Refuses to continue the backups of another source.
    pub(crate) fn begin(
        &self,
        repository: &mut Repository,
        machine: &Machine,
    ) -> Result<(Vec<Generation>, Value), Error> {
        let own = Identity::new(self.source, machine, self.login)?;
        repository.hold()?;
        let all = repository.list()?.generations;
        let known = all.last().map(Identity::of);
        if let Some(known) = known.filter(|known| !self.request.adopt && known.differs(&own)) {
            return Err(Error::Unfit(format!(
                "{}: {} in {} has backups of another source: {known}; this is {own}. In one name they would push each other out: \
                 give this one a name of its own with --name, or say with --adopt that it has taken the place of the other",
                self.source.name(),
                self.name,
                self.request.to.display()
            )));
        }
        let mut note = json!({
            "source": self.source.to_string(), "host": own.host, "identity": own.noted(),
        });
        if self.request.adopt {
            note["adopted"] = json!(true);
        }
        Ok((all, note))
    }

    /// Notes where the files are, if the repository is encrypted.
    pub(crate) fn save_placements(&self, repository: &Repository, made: &Summary, layout: Option<&Layout>) {
        let Some(layout) = layout else { return };
        if let Err(error) = save_placements(repository, made.generation, layout) {
            let what = "a backup with the put key will store more than what changed";
            self.output
                .warn(&format!("{}: {what}, because this could not be noted: {error}", self.source.name()));
        }
    }

    fn make(&self, snapshot: &mut dyn Snapshot, machine: &Machine) -> io::Result<()> {
        let began = Instant::now();
        snapshot.make(machine, self.request.lock.as_deref())?;
        let seconds = began.elapsed().as_secs_f64();
        if let Some(position) = snapshot.noted() {
            let held = position.get("seconds_held").and_then(Value::as_f64).unwrap_or(seconds);
            let lock = position.get("lock").and_then(Value::as_str).unwrap_or_default();
            self.output.note(&format!("{}: the lock ({lock}) was held for {held:.2} s", self.source.name()));
            if let (Some(still), Some(files)) = (position.get("seconds_still"), position.get("files")) {
                let (still, files) = (still.as_f64().unwrap_or(0.0), files.as_u64().unwrap_or(0));
                let line =
                    format!("the server was frozen for {still:.3} s, to clone {}", count(files, "file"));
                self.output.note(&format!("{}: {line}", self.source.name()));
            }
            if let Some(text) = server_lock::shown(position) {
                self.output.note(&format!("{}: {text}", self.source.name()));
            }
        } else if self.request.lock.is_some() {
            self.output
                .note(&format!("{}: the snapshot took {seconds:.2} s under its lock", self.source.name()));
        }
        Ok(())
    }
}

/// What is read, with the note of the new generation as far as it is known.
struct Reading<'a> {
    machine: &'a Machine,
    /// The snapshot, if there is one.
    held: Option<&'a HeldStill<'a>>,
    note: &'a Value,
}

/// A snapshot, and what is known about it.
struct HeldStill<'a> {
    snapshot: &'a dyn Snapshot,
    proof: Option<&'a Proof>,
}

impl Backup<'_> {
    /// Reads the source, or its snapshot. False when a part can't be backed up.
    fn store(
        &self,
        repository: &Repository,
        held: Option<&HeldStill<'_>>,
        (newest, note): (Option<&Generation>, &Value),
        machine: &Machine,
    ) -> Result<(Summary, bool), Error> {
        let snapshot = held.map(|held| held.snapshot);
        let mut opened = self.source.open(machine, snapshot, (repository, newest))?;
        for left in &opened.left {
            self.output.warn(&format!(
                "{}: {} is left out: {}",
                self.source.name(),
                text::path(&left.path),
                left.what
            ));
        }
        let whole = opened.left.iter().all(|left| left.is_harmless);
        let changed = std::mem::replace(&mut opened.changed, Err(String::new()));
        if let (Err(why), true, Some(_)) = (&changed, self.request.track, newest) {
            self.output.note(&format!("{}: everything is read: {why}", self.source.name()));
        }
        let reading = Reading { machine, held, note };
        let mut made = self.read(repository, &reading, opened, changed.ok());
        if let Err(error @ Error::Untracked { .. }) = &made {
            self.output.warn(&format!("{error}: everything is read"));
            let anew = self.source.open(machine, snapshot, (repository, newest))?;
            made = self.read(repository, &reading, anew, None);
        }
        made.map(|summary| (summary, whole))
    }

    fn read(
        &self,
        repository: &Repository,
        reading: &Reading<'_>,
        opened: Opened,
        changed: Option<ChangedRanges>,
    ) -> Result<Summary, Error> {
        let Reading { machine, held, note } = *reading;
        let shown = self.source.name();
        let mut note = note.clone();
        if opened.is_tree {
            note["tree"] = json!(true);
        }
        let snapshot = held.map(|held| held.snapshot);
        if let Some(position) = snapshot.and_then(Snapshot::noted) {
            note["position"] = position.clone();
            if let Some(server) = note["position"].as_object_mut().and_then(|all| all.remove("server")) {
                note["server"] = server;
            }
        }
        if let Some((name, value)) = held.and_then(|held| Some(&held.proof?.note)) {
            note[*name] = value.clone();
        }
        let request = Request {
            name: &shown,
            taken_s: date_time::now_s(),
            note: note.to_string(),
            full: self.request.full,
            changed,
            is_newer: None,
            before: opened.before.as_ref().map(|before| before as &dyn disk::Source),
            live: self.request.live,
            jobs: self.request.jobs,
            rate: self.request.rate,
            is_frozen: snapshot.is_some(),
            is_suspect: None,
        };
        let mut feed = opened.feed;
        let mut watched = snapshot.map(|snapshot| Watched::new(&mut *feed, snapshot, machine));
        let made = match &mut watched {
            Some(watched) => block::backup(repository, watched, &request, self.world),
            None => block::backup(repository, &mut *feed, &request, self.world),
        };
        let made = made.map_err(|error| explain(error, machine))?;
        self.save_placements(repository, &made, opened.layout.as_ref());
        Ok(made)
    }
}

/// Adds the messages of ssh.
pub(crate) fn explain(error: Error, machine: &Machine) -> Error {
    match error {
        Error::Source { name, source } => Error::Source { name, source: machine.explain(source) },
        error => error,
    }
}

/// The stamp that identifies a snapshot as that of a generation.
fn stamp(number: u64, content: &[u8; 32]) -> String {
    let hash: String = content.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{number}-{hash}")
}

/// Runs a command of the user in a shell on the source's machine.
fn hook(machine: &Machine, command: Option<&str>) -> io::Result<()> {
    let Some(command) = command else { return Ok(()) };
    machine.run(&["sh", "-c", command].map(OsStr::new)).map(drop)
}
