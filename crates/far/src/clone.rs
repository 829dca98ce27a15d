//! Copies a folder so that the files share their blocks with the original, under a lock, while a server is
//! stopped.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use block::tree::is_own;
use disk::{OnVanish, Reflink};

use crate::command::LockHolder;
use crate::freeze::{Freeze, FrozenProcess};
use crate::wire::{Decoder, Encoder, corrupt};

/// How often a copy is tried while others rename files in the folder.
const TRIES: u32 = 5;

/// A request for a copy. Names at the top that are our own ([`is_own`]) are not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneRequest {
    /// The folder to copy.
    pub from: PathBuf,
    /// The copy. Files that it already has from an earlier call cost less.
    pub to: PathBuf,
    /// The folder will be copied once more, so files may disappear meanwhile.
    pub first: bool,
    /// A shell command that holds a lock while it runs another command; empty for none.
    pub lock: OsString,
    /// The process to stop meanwhile.
    pub freeze: Option<Freeze>,
}

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneReport {
    /// How many files.
    pub files: u64,
    /// How long it took, until nobody had to be held any more.
    pub lasted: Duration,
    /// How many things were listed and then gone, although it was tried several times.
    pub vanished: u64,
}

impl CloneReport {
    pub(crate) fn encode(self) -> Vec<u8> {
        Encoder::default().u64(self.files).u64(nanos(self.lasted)).u64(self.vanished).0
    }

    pub(crate) fn decode(payload: &[u8]) -> io::Result<CloneReport> {
        let mut input = Decoder(payload);
        let (files, lasted) = (input.u64()?, Duration::from_nanos(input.u64()?));
        let cloned = CloneReport { files, lasted, vanished: input.u64()? };
        input.end()?;
        Ok(cloned)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Encoder {
    pub(crate) fn cloning(self, cloning: &CloneRequest) -> Encoder {
        let freeze = cloning.freeze.unwrap_or(Freeze { process: 0, bound: Duration::ZERO });
        let out = self
            .path(&cloning.from)
            .path(&cloning.to)
            .u8(u8::from(cloning.first))
            .bytes(cloning.lock.as_encoded_bytes());
        out.u8(u8::from(cloning.freeze.is_some())).u32(freeze.process).u64(nanos(freeze.bound))
    }
}

impl Decoder<'_> {
    pub(crate) fn cloning(&mut self) -> io::Result<CloneRequest> {
        let (from, to) = (self.path()?, self.path()?);
        let (first, lock, stops) = (self.flag()?, self.text()?, self.flag()?);
        let freeze = Freeze { process: self.u32()?, bound: Duration::from_nanos(self.u64()?) };
        if !stops && freeze != (Freeze { process: 0, bound: Duration::ZERO }) {
            return Err(corrupt("a process that is not to be stopped"));
        }
        Ok(CloneRequest { from, to, first, lock, freeze: stops.then_some(freeze) })
    }
}

/// Makes the copy.
///
/// # Errors
/// Errors of the operating system; errors of the lock's command, even if it fails only in the end; an error
/// when the process was not stopped all the time.
pub fn clone(cloning: &CloneRequest) -> io::Result<CloneReport> {
    // Whoever is held renames nothing.
    let is_free = cloning.lock.is_empty() && cloning.freeze.is_none();
    let vanish = if cloning.first || is_free { OnVanish::Fine } else { OnVanish::Error };
    let held = match cloning.lock.is_empty() {
        true => None,
        false => Some(LockHolder::new(&cloning.lock)?),
    };
    let began = Instant::now();
    let stopped = cloning.freeze.map(FrozenProcess::new).transpose()?;
    let make = || Reflink::make(&cloning.from, &cloning.to, is_own, vanish);
    let mut made = make();
    // What has another name now is found under that.
    for _ in 1..TRIES {
        if !cloning.first && made.as_ref().is_ok_and(|made| !made.vanished().is_empty()) {
            made = make();
        }
    }
    let lasted = match stopped.map(FrozenProcess::end) {
        None => began.elapsed(),
        Some(ended) => ended?,
    };
    let made = made?;
    held.map_or(Ok(()), LockHolder::release)?;
    made.finish()?;
    let vanished = made.vanished().len() as u64;
    Ok(CloneReport { files: made.files() - vanished.min(made.files()), lasted, vanished })
}
