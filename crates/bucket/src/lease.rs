//! Locks in a store, which has none: small files that are renewed while their run is alive.
//!
//! An exclusive lock is the file with the highest number, `lease.writer.000042`. It is written on the
//! condition that no file of that name exists, so only one of two runs gets the number; no number is used
//! twice. The lock is free when its run says so, or when it was not renewed for so long that the run must be
//! dead. Only the store's clock counts. A run that takes over aborts all uploads of the former holder before
//! it reads anything, and each run checks whether it still holds the lock after an upload has begun and
//! before it is completed. So a run that was merely slow can't add anything after its successor has taken
//! over.
//!
//! A shared lock is a file for each of its holders, `lease.reader.with-ID`.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use block::{NUMBER_MAX, WRITER_LOCK};
use disk::{Guard, Share};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use crate::client::{Bucket, StoreRequest, StoreResponse};
use crate::random;

/// The prefix of these files' names.
pub(crate) const BEGIN: &str = "lease.";
/// A lock that was not renewed for this many seconds is free.
const SECONDS: i64 = 120;
/// The interval between renewals.
const RENEW: Duration = Duration::from_secs(30);
/// Attempts to take a lock while other runs take and release it.
const TRIES: u32 = 8;
/// The first line of each of these files.
const MAGIC: &str = "remora lease";

/// The content of such a file.
struct LeaseFile {
    is_free: bool,
    seconds: i64,
    holder: String,
    id: String,
    /// Seconds since it was written.
    age: i64,
}

impl LeaseFile {
    fn is_taken(&self) -> bool {
        !self.is_free && self.age <= self.seconds
    }

    fn read(text: &str, age: i64) -> Option<LeaseFile> {
        let mut lines = text.lines();
        lines.next().filter(|line| *line == MAGIC)?;
        let pairs: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(' ')).collect();
        let value = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        Some(LeaseFile {
            is_free: value("state")? == "free",
            // Nobody can keep others out for longer, whoever has written it.
            seconds: value("seconds")?.parse::<i64>().ok()?.min(SECONDS),
            holder: value("holder")?.to_owned(),
            id: value("id")?.to_owned(),
            age,
        })
    }
}

/// A held lock.
struct Lease {
    bucket: Bucket,
    file: String,
    /// Whether it is exclusive, and so numbered.
    is_numbered: bool,
    is_writer: bool,
    id: String,
    /// Dropping it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Guard for Lease {}

/// `lease.writer.000042`
fn file(lock: &str, number: u64) -> String {
    format!("{BEGIN}{lock}.{number:06}")
}

/// The number in a name from [`file`].
fn number_of(lock: &str, name: &str) -> Option<u64> {
    let number = name.strip_prefix(BEGIN)?.strip_prefix(lock)?.strip_prefix('.')?.parse().ok()?;
    ((1..=NUMBER_MAX).contains(&number) && file(lock, number) == name).then_some(number)
}

/// Whether this is the file of one holder of a shared lock.
fn is_shared(name: &str) -> bool {
    name.contains(".with-")
}

/// The seconds between a file's last change and this response, both by the store's clock.
fn age(answer: &StoreResponse) -> Option<i64> {
    let time = |name: &str| -> Option<Timestamp> {
        DateTimeParser::new().parse_timestamp(answer.header(name)?).ok()
    };
    Some(time("date")?.as_second() - time("last-modified")?.as_second())
}

impl Bucket {
    /// Takes a lock without waiting.
    pub(crate) fn lease(&self, lock: &str, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        let lease = match share {
            Share::Exclusive => self.acquire_exclusive(lock)?,
            Share::Shared => self.acquire_shared(lock)?,
        };
        Ok(lease.map(|lease| Box::new(lease) as Box<dyn Guard>))
    }

    /// The holder of a lock that could not be taken.
    pub(crate) fn other_holder(&self) -> Option<String> {
        self.state.other.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fails if another run has taken over the lock for writing.
    pub(crate) fn check_held(&self) -> io::Result<()> {
        let number = self.state.number.load(Ordering::Acquire);
        let newest = || Ok::<_, io::Error>(self.leases(WRITER_LOCK)?.0.unwrap_or(0));
        if number == 0 || (!self.state.is_lost.load(Ordering::Acquire) && newest()? <= number) {
            return Ok(());
        }
        self.state.is_lost.store(true, Ordering::Release);
        let text = format!(
            "another run has taken over {}, because this one did not renew its lock for {SECONDS} seconds; \
             this one stops writing",
            self.shown("")
        );
        Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
    }

    /// Whether another run is known to have taken over.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.is_lost.load(Ordering::Acquire)
    }

    fn acquire_exclusive(&self, lock: &str) -> io::Result<Option<Lease>> {
        self.require_object_lock()?;
        let id = random()?;
        for _ in 0..TRIES {
            let (newest, _) = self.leases(lock)?;
            let newest = newest.unwrap_or(0);
            let last = if newest == 0 { None } else { self.read_lease(&file(lock, newest))? };
            if newest > 0 && last.is_none() {
                // Another run has taken the next number, and removed this one.
                continue;
            }
            if let Some(last) = last.as_ref().filter(|last| last.is_taken()) {
                self.note_holder(last);
                return Ok(None);
            }
            let number = newest + 1;
            if number > NUMBER_MAX {
                let text = format!(
                    "{}: lock numbers are exhausted; remove this file",
                    self.shown(&file(lock, newest))
                );
                return Err(io::Error::other(text));
            }
            let answer = self.put(&file(lock, number), self.text("held", &id).as_bytes(), true)?;
            match answer.status() {
                200 => {}
                // An earlier attempt, whose response was lost, may have written it.
                412 if self.read_lease(&file(lock, number))?.is_some_and(|seen| seen.id == id) => {}
                412 => continue,
                _ => return Err(self.failure("write", &file(lock, number), answer)),
            }
            if let Some(last) = last.filter(|last| !last.is_free) {
                let (shown, holder, age) = (self.shown(""), last.holder, last.age);
                tracing::warn!("{shown}: {holder} has not renewed its lock for {age} s; this run takes over");
            }
            return self.take(lock, number, id);
        }
        Err(io::Error::other(format!(
            "{}: other runs take and release the lock all the time; try again",
            self.shown("")
        )))
    }

    /// Finishes taking a lock whose file is written.
    fn take(&self, lock: &str, number: u64, id: String) -> io::Result<Option<Lease>> {
        let is_writer = lock == WRITER_LOCK;
        if is_writer {
            self.state.is_lost.store(false, Ordering::Release);
            self.state.number.store(number, Ordering::Release);
        }
        // From here on it is released whatever happens.
        let lease = Lease::new(self, file(lock, number), (true, is_writer), id);
        if !self.state.conditions_checked.load(Ordering::Acquire) {
            self.check_conditional_writes(&lease.file, self.text("held", &lease.id).as_bytes())?;
            self.state.conditions_checked.store(true, Ordering::Release);
        }
        for other in self.leases(lock)?.1 {
            match self.read_lease(&other)? {
                Some(seen) if seen.is_taken() => {
                    self.note_holder(&seen);
                    return Ok(None);
                }
                _ => self.try_remove(&other),
            }
        }
        if is_writer {
            self.abort_all_unfinished()?;
        }
        for name in self.files(&format!("{BEGIN}{lock}."))?.into_keys() {
            match number_of(lock, &name) {
                Some(older) if older < number => self.try_remove(&name),
                None if !is_shared(&name) => {
                    tracing::warn!("{}: not a lock file; remove it", self.shown(&name))
                }
                _ => {}
            }
        }
        Ok(Some(lease))
    }

    fn acquire_shared(&self, lock: &str) -> io::Result<Option<Lease>> {
        let id = random()?;
        let name = format!("{BEGIN}{lock}.with-{id}");
        let answer = self.put(&name, self.text("held", &id).as_bytes(), false)?;
        if answer.status() != 200 {
            return Err(self.failure("write", &name, answer));
        }
        let lease = Lease::new(self, name, (false, false), id);
        let Some(newest) = self.leases(lock)?.0 else { return Ok(Some(lease)) };
        match self.read_lease(&file(lock, newest))? {
            Some(seen) if seen.is_taken() => {
                self.note_holder(&seen);
                Ok(None)
            }
            _ => Ok(Some(lease)),
        }
    }

    /// Whether a run holds an exclusive lock.
    pub(crate) fn is_leased(&self, lock: &str) -> io::Result<bool> {
        let Some(newest) = self.leases(lock)?.0 else { return Ok(false) };
        Ok(self.read_lease(&file(lock, newest))?.is_some_and(|seen| seen.is_taken()))
    }

    fn note_holder(&self, seen: &LeaseFile) {
        let left = seen.seconds - seen.age;
        let text = format!(
            "{}, which renewed its lock {} s ago; if it was killed, the lock expires in {left} s",
            seen.holder, seen.age
        );
        *self.state.other.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// The highest number of an exclusive lock, and the files of shared holders.
    fn leases(&self, lock: &str) -> io::Result<(Option<u64>, Vec<String>)> {
        let begin = format!("{BEGIN}{lock}.");
        let names: Vec<String> = self.files(&begin)?.into_keys().collect();
        let newest = names.iter().filter_map(|name| number_of(lock, name)).max();
        Ok((newest, names.into_iter().filter(|name| is_shared(name)).collect()))
    }

    /// The content of such a file; `None` if it does not exist.
    fn read_lease(&self, name: &str) -> io::Result<Option<LeaseFile>> {
        let (answer, text) = self.send_text(&StoreRequest::about("GET", name))?;
        match answer.status() {
            200 => {
                // Without timestamps it counts as new.
                let age = age(&answer).unwrap_or(0).max(0);
                let damaged = || {
                    let text = format!("{}: not a lock file; remove it", self.shown(name));
                    io::Error::new(io::ErrorKind::InvalidData, text)
                };
                LeaseFile::read(&text, age).map(Some).ok_or_else(damaged)
            }
            404 => Ok(None),
            _ => Err(self.failure("read", name, answer)),
        }
    }

    fn text(&self, state: &str, id: &str) -> String {
        let holder = &self.settings.holder;
        format!("{MAGIC}\nstate {state}\nseconds {SECONDS}\nholder {holder}\nid {id}\n")
    }

    /// Removes a file that is no longer needed; without permission, it stays.
    fn try_remove(&self, name: &str) {
        if let Err(error) = self.delete(name) {
            tracing::info!("{error}");
        }
    }

    /// Removes a file.
    pub(crate) fn delete(&self, name: &str) -> io::Result<()> {
        let answer = self.send(&StoreRequest::about("DELETE", name))?;
        match answer.status() {
            200 | 204 | 404 => {
                // In a bucket with versions a delete marker hides the file.
                if answer.header("x-amz-delete-marker") == Some("true") {
                    self.state.keeps_removed.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
            _ => Err(self.failure("remove", name, answer)),
        }
    }
}

impl Lease {
    fn new(bucket: &Bucket, file: String, (is_numbered, is_writer): (bool, bool), id: String) -> Lease {
        let (end, ended) = channel::<()>();
        let (own, name, text) = (bucket.clone(), file.clone(), bucket.text("held", &id));
        let thread = std::thread::spawn(move || {
            while ended.recv_timeout(RENEW) == Err(RecvTimeoutError::Timeout) {
                // If it can't be renewed, others may take it; that is detected before anything is added.
                if let Err(error) = own.put(&name, text.as_bytes(), false) {
                    tracing::warn!("the lock can't be renewed: {error}");
                }
                if is_writer && own.check_held().is_err() && own.is_lost() {
                    return;
                }
            }
        });
        Lease {
            bucket: bucket.clone(),
            file,
            is_numbered,
            is_writer,
            id,
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        let is_lost = self.is_writer && self.bucket.is_lost();
        if self.is_writer {
            self.bucket.state.number.store(0, Ordering::Release);
        }
        // The file with the highest number stays, so that no number is used twice.
        if is_lost || (!self.is_numbered && self.bucket.delete(&self.file).is_ok()) {
            return;
        }
        let free = self.bucket.text("free", &self.id);
        if let Err(error) = self.bucket.put(&self.file, free.as_bytes(), false) {
            tracing::warn!("the lock could not be released and expires in {SECONDS} seconds: {error}");
        }
    }
}
