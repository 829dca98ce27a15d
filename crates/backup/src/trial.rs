//! Starts a server on a copy of the data before the backup counts.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use block::Error;
use host::{Call, Machine};
use instance::Wanted;
use instance::boot::boot;
use instance::requirements::NOTHING;
use progress::count;
use repository::Named;
use repository::location::Location;
use seal::Key;
use serde_json::json;
use snapshot::Snapshot;
use snapshot::trial_start::{self, Trial, Tried};

use crate::Backup;
use crate::run::Proof;

/// The most defects that are noted in the repository.
const NOTED_MAX: usize = 5;

/// One in this many parts of the file system must be free.
const ROOM: u64 = 20;

/// Why the soundness of the data is unknown.
enum Unknown {
    /// No check was to be expected.
    Never,
    Because(String),
    Stopped,
}

/// Fails when recovery of a server on the copy could use up space that the original needs.
fn has_room(machine: &Machine, path: &Path) -> io::Result<()> {
    let words = ["stat", "--file-system", "--format=%a %b", "--"].map(OsStr::new);
    let output = machine.tool(&[&words[..], &[path.as_os_str()]].concat())?;
    let output = String::from_utf8_lossy(&output);
    let numbers: Vec<u64> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match *numbers {
        [free, all] if free >= all / ROOM => Ok(()),
        [..] => Err(io::Error::other(
            "less than a twentieth of its file system is free, and recovery takes space",
        )),
    }
}

impl Backup<'_> {
    /// Finds out whether the snapshot is sound; `None` if that is impossible at low cost, or not wanted. If
    /// it was requested and not done, `clean` becomes false.
    pub(crate) fn prove(
        &self,
        snapshot: &mut dyn Snapshot,
        machine: &Machine,
        clean: &mut bool,
    ) -> Result<Option<Proof>, Error> {
        if self.request.no_prove || snapshot.start().is_none() {
            return Ok(None);
        }
        let tried = self.try_out(snapshot, machine);
        // If the removal fails, it is tried again with the snapshot, and reported then.
        snapshot.remove_spare(machine).ok();
        let why = match tried {
            Ok(tried) => return Ok(Some(self.proof_of(tried))),
            Err(Unknown::Stopped) => return Err(Error::Stopped),
            Err(Unknown::Never) if !self.request.prove => return Ok(None),
            Err(Unknown::Never) => {
                "a second snapshot can't be made at little cost; see 'remora verify --boot'".to_owned()
            }
            Err(Unknown::Because(why)) => why,
        };
        let line = format!("{}: not proven: {why}", self.source.name());
        if self.request.prove {
            *clean = false;
            self.output.warn(&line);
        } else {
            self.output.note(&line);
        }
        Ok(None)
    }

    fn try_out(&self, snapshot: &mut dyn Snapshot, machine: &Machine) -> Result<Tried, Unknown> {
        let because = |error: io::Error| Unknown::Because(error.to_string());
        if let Some(Err(why)) = snapshot.start() {
            return Err(Unknown::Because(why.clone()));
        }
        has_room(machine, &snapshot.path()).map_err(because)?;
        let data = snapshot.spare(machine).map_err(because)?.ok_or(Unknown::Never)?;
        let Some(Ok(start)) = snapshot.start() else { return Err(Unknown::Never) };
        let folder = trial_start::folder(machine).map_err(because)?;
        let there = trial_start::socket(&folder);
        let places = [there.display().to_string()];
        let call = Call { options: &self.request.ssh_option, nice: self.request.nice, places: &places };
        // The server's protocol uses a separate connection.
        let through = match machine {
            Machine::Here => Machine::Here,
            Machine::There(_) => self.source.reach(call).map_err(|error| {
                // The folder is still empty.
                machine.disk().remove_folder(&folder).ok();
                Unknown::Because(error.to_string())
            })?,
        };
        let socket = through.sockets().pop().unwrap_or(there);
        let time = Duration::from_secs(self.request.prove_for_s);
        let trial = Trial { machine, start, data: &data, folder: &folder, socket: &socket, time };
        trial.go(self.world.stop, self.world.progress).context("a copy can't be tried").map_err(|error| {
            match error.downcast_ref::<Error>() {
                Some(Error::Stopped) => Unknown::Stopped,
                _ => Unknown::Because(format!("{error:#}")),
            }
        })
    }

    /// Starts a server on a generation that was copied while the original ran, if that was requested. Returns
    /// how much is wrong. If it can't be done, `clean` becomes false.
    pub(crate) fn prove_copy(&self, generation: u64, clean: &mut bool) -> usize {
        let to = self.request.to.join(self.name);
        let what = format!("{}@{generation}", self.name);
        let verify = format!("'remora verify --boot {}'", to.display());
        let is_sealed = matches!(self.key, Some(Key::Put(_)));
        if !self.request.prove || is_sealed {
            let how = match is_sealed {
                true => format!("{verify} does that, with the full key"),
                false => format!("{verify} or --prove"),
            };
            self.output.note(&format!("{what} is not proven, because no server has recovered it yet: {how}"));
            if self.request.prove {
                *clean = false;
                self.output.warn("--prove of such a copy needs the full key, and a put key was given");
            }
            return 0;
        }
        let home = Location::new(&self.request.to, self.name);
        let named = home.and_then(|home| Ok(Named::open((self.name.to_owned(), home), self.key)?));
        let named = match named {
            Ok(named) => named,
            Err(error) => {
                *clean = false;
                self.output.warn(&format!("{what} is not proven: {error:#}"));
                return 0;
            }
        };
        let jobs = self.request.jobs;
        let wanted = Wanted {
            data_folder: None,
            server: None,
            options: &[],
            work: None,
            needs: &NOTHING,
            account: None,
        };
        let request = block::restore::Request::new(Some(generation), jobs);
        let booted = boot(&named, request, wanted, (self.world.stop, &self.login.report));
        let told = booted.and_then(|booted| {
            self.output.booted(self.name, &booted)?;
            Ok(booted.checked.damages.len())
        });
        told.unwrap_or_else(|error| {
            *clean = false;
            self.output.warn(&format!("{what} is not proven: {error:#}"));
            0
        })
    }

    fn proof_of(&self, tried: Tried) -> Proof {
        let Tried { version, checked, seconds } = tried;
        let (tables, looked_at) = (checked.tables, checked.checked);
        if checked.damages.is_empty() {
            let all = if looked_at == tables { "all".to_owned() } else { format!("{looked_at}") };
            self.output.note(&format!(
                "{}: a server ({version}) has started on a copy, {all} of {} checked in {seconds:.1} s, \
                 all sound",
                self.source.name(),
                count(tables, "table"),
            ));
            let known =
                json!({"server": version, "tables": tables, "checked": looked_at, "seconds": seconds});
            return Proof { note: ("proven", known), damages: Vec::new() };
        }
        for damage in &checked.damages {
            self.output.warn(&format!("{}: {damage}", self.source.name()));
        }
        let noted: Vec<&String> = checked.damages.iter().take(NOTED_MAX).collect();
        Proof { note: ("unsound", json!(noted)), damages: checked.damages }
    }
}
