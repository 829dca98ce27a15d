//! Reads a log from a position on, and writes files.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use disk::{Disk, Share};
use failure::{Completeness, usage};
use progress::{Progress, WithoutNotes, count, pause};
use transactions::{LogFile, Place, Walk, names};

use crate::position::{LogPosition, State};
use crate::request::{Request, Start, Summary};
use crate::writer::{Round, Writer};

/// Who writes into a folder locks this file.
const LOCK: &str = "_lock";
/// Where the first event of a file begins.
const FIRST: u64 = 4;

/// Writes what a log changes, as far as nothing is damaged.
///
/// # Errors
/// If the folder is being written, was begun otherwise, or is none of ours; if the log has not what comes
/// next; what the log does not say of a table; errors of the disk.
pub fn publish(
    request: &Request<'_>,
    disk: &dyn Disk,
    report: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary> {
    let folder = request.to.as_path();
    let shown = || folder.display().to_string();
    let begun = State::read(disk, folder)?;
    if begun.is_none() && disk.list(folder).is_ok_and(|names| names.iter().any(|name| !is_own(name))) {
        return Err(usage(format!("{} has files and is no folder of changes: give another one", shown())));
    }
    // Before anything is made: a wrong name of a log leaves nothing behind.
    let begun = match begun {
        Some(state) => state,
        None => State::new(request.format, first(request)?),
    };
    disk.make_folder(folder).with_context(shown)?;
    let path = folder.join(LOCK);
    let Some(_lock) = disk.lock(&path, Share::Exclusive).with_context(shown)? else {
        let holder = disk.holder(&path).map_or_else(String::new, |holder| format!(" ({holder})"));
        return Err(failure::busy(format!("another run writes changes into {}{holder}", shown())));
    };
    // Another run may have ended between.
    let state = match State::read(disk, folder)? {
        Some(state) if state.format != request.format => {
            return Err(usage(format!("{} has changes in another format", shown())));
        }
        Some(state) => {
            report.note(&format!("{} continues at {}", shown(), state.next));
            state
        }
        None => {
            // Before there is a folder of a table, so that it is known whose that is.
            begun.write(disk, folder)?;
            begun
        }
    };
    let mut writer = Writer::new(request, disk, state);
    loop {
        let is_whole = read(&mut writer, report, stop)?;
        let summary = writer.summary();
        let is_followed = request.every.is_some_and(|every| is_whole && pause(every, stop));
        if !is_followed {
            return Ok(summary);
        }
    }
}

/// Whether a name may be that of what a run leaves behind that ended before it has written anything. In a
/// store the lock is called `writer`.
fn is_own(name: &OsStr) -> bool {
    name == "writer" || name.to_string_lossy().starts_with('_')
}

/// Where the first batch begins.
fn first(request: &Request<'_>) -> Result<LogPosition> {
    let found = (request.files)()?;
    let Some((first, last)) = found.files.first().zip(found.files.last()) else {
        bail!("the log has no file")
    };
    let begin = match &request.start {
        Start::First => return readable(first).map(|()| beginning(first)),
        Start::At(position) => LogPosition { timeline: last.timeline(), ..position.clone() },
    };
    let is_its = |file: &&LogFile| file.timeline() == begin.timeline && names::file(file) == begin.file;
    match found.files.iter().find(is_its) {
        Some(file) => readable(file).map(|()| begin),
        None => {
            let [first, last] = [first, last].map(|file| names::file(file));
            bail!("the log has no {}: it begins with {first} and ends with {last}", begin.file)
        }
    }
}

/// Whether a file is there, and is a log.
fn readable(file: &LogFile) -> Result<()> {
    transactions::begun(file).map(drop).with_context(|| file.display().to_string())
}

/// The beginning of a file.
fn beginning(file: &LogFile) -> LogPosition {
    LogPosition { timeline: file.timeline(), file: names::file(file), at: FIRST }
}

/// Reads what the log has now. Returns whether there may be more later.
fn read(writer: &mut Writer<'_>, report: &dyn Progress, stop: &AtomicBool) -> Result<bool> {
    let request = writer.request;
    let found = (request.files)()?;
    for damage in &found.damages {
        report.warn(damage);
        writer.completeness = Completeness::Damaged;
    }
    let files = &found.files;
    let next = writer.state.next.clone();
    let is_next = |file: &LogFile| file.timeline() == next.timeline && names::file(file) == next.file;
    let Some(begin) = files.iter().position(is_next) else { return Err(gone(&next, files, &found.missing)) };
    // That the last file is being written, and its last transaction has no end yet, is no news.
    let quiet = WithoutNotes(report);
    for (number, file) in files.iter().enumerate().skip(begin) {
        let from = if number == begin { next.at } else { FIRST };
        let begun = transactions::begun(file).with_context(|| file.display().to_string())?;
        if number == begin && writer.state.begun.is_some_and(|known| known != begun) {
            bail!(
                "{} was begun again since it was read (RESET MASTER), or is of another server: what follows does not \
                 continue these changes. Dump the tables again, and write changes into another folder",
                file.display()
            );
        }
        writer.begin_file(begun);
        let mut round = Round::new(writer, files, report, stop);
        let mut walk = Walk::new(files, request.filter, request.known, &mut round, &quiet);
        let walked = walk.one(Place { file: number, at: from });
        if stop.load(Ordering::Relaxed) {
            // What has no name yet is written by the next run.
            writer.batch = None;
            return Ok(false);
        }
        let walked = walked?;
        let behind = files.get(number + 1).filter(|_| walked == Completeness::Complete);
        if let Some(behind) = behind.filter(|behind| !follows(file, behind)) {
            writer.end_file(None)?;
            bail!("the log has no file between {} and {}", file.display(), behind.display());
        }
        writer.end_file(behind.map(beginning))?;
        if walked != Completeness::Complete {
            writer.completeness = walked;
            return Ok(false);
        }
    }
    if let Some(until) = &writer.state.until {
        bail!("the log ends before {until}, although it was read up to there: is this another log?");
    }
    report.state(&format!("at {}, {}", writer.state.next, count(writer.rows, "change")));
    Ok(true)
}

/// Whether no file is missing between two.
fn follows(file: &LogFile, behind: &LogFile) -> bool {
    let [first, second] = [file, behind].map(|file| names::number(&names::file(file)));
    match (first, second) {
        (Some(first), Some(second)) => first + 1 == second,
        // Files with other names are in the order in which they were given.
        _ => true,
    }
}

/// Why the log can't be read on from a position.
fn gone(next: &LogPosition, files: &[LogFile], missing: &[String]) -> anyhow::Error {
    let newest = files.last().map_or(0, LogFile::timeline);
    if newest != next.timeline {
        return anyhow::anyhow!(
            "the archive has timeline {newest} now, and these changes are of timeline {}: the server was restored or \
             replaced, and what follows does not continue them. Dump the tables again, and write changes into another \
             folder",
            next.timeline
        );
    }
    let missing = missing.first().map_or_else(String::new, |line| format!(" ({line})"));
    anyhow::anyhow!(
        "the log has no {} any more{missing}: the changes from {next} on are lost. Dump the tables again, and write \
         changes into another folder",
        next.file
    )
}
