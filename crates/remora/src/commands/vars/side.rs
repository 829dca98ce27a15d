//! One side of a comparison.

use std::path::{Path, PathBuf};

use anyhow::Context;
use dryrun::{fresh, program};
use failure::usage;
use server::{OptionFile, OptionFiles, OptionLine};
use status::variable::{Snapshot, read_file, read_server, shipped};

use crate::args::{ServerArgs, is_address};

/// A side; an option file's names are not interpreted yet.
pub(super) enum Side {
    Whole(Box<Snapshot>),
    File(PathBuf, Vec<OptionLine>),
}

/// Both sides. The names of an option file are interpreted by the other side.
pub(super) fn two(
    a: &str,
    b: &str,
    server: &ServerArgs,
    password: Option<&String>,
) -> anyhow::Result<(Snapshot, Snapshot)> {
    Ok(match (one(a, server, password)?, one(b, server, password)?) {
        (Side::Whole(a), Side::Whole(b)) => (*a, *b),
        (Side::Whole(a), Side::File(path, lines)) => {
            let b = file(&path, &lines, &a);
            (*a, b)
        }
        (Side::File(path, lines), Side::Whole(b)) => (file(&path, &lines, &b), *b),
        (Side::File(a, a_lines), Side::File(b, b_lines)) => {
            let like = any_server().context("no snapshot ships")?;
            (file(&a, &a_lines, &like), file(&b, &b_lines, &like))
        }
    })
}

fn file(path: &Path, lines: &[OptionLine], like: &Snapshot) -> Snapshot {
    read_file(&path.display().to_string(), lines, like)
}

/// Every option and every group of any series, for files whose server is unknown.
fn any_server() -> Option<Snapshot> {
    let mut all = shipped::all().into_iter().rev();
    let mut any = all.next()?;
    for other in all {
        for group in other.groups {
            if !any.groups.contains(&group) {
                any.groups.push(group);
            }
        }
        for (name, variable) in other.variables {
            let known = any.variables.entry(name).or_insert_with(|| variable.clone());
            // An option that has no effect in one series may have one in another.
            if known.ignored.is_some() && variable.ignored.is_none() {
                *known = variable;
            }
        }
    }
    Some(any)
}

/// A side that is not an option file.
pub(super) fn whole(text: &str, server: &ServerArgs, password: Option<&String>) -> anyhow::Result<Snapshot> {
    match one(text, server, password)? {
        Side::Whole(snapshot) => Ok(*snapshot),
        Side::File(path, _) => Err(usage(format!(
            "{} is an option file; name a series, a server, binary:PATH or a snapshot",
            path.display()
        ))),
    }
}

/// Reads a side.
pub(super) fn one(text: &str, server: &ServerArgs, password: Option<&String>) -> anyhow::Result<Side> {
    let fresh_series = text.strip_prefix("sandbox:").filter(|choice| fresh::is_choice(choice));
    if let Some(series) = fresh_series {
        return Ok(Side::Whole(Box::new(fresh::fresh(series, false)?)));
    }
    if is_address(text) || text == "server" {
        let server = if text == "server" { server.clone() } else { server.at(text) };
        let mut session = server.target(password.cloned())?.connect()?;
        return Ok(Side::Whole(Box::new(with_series(read_server(&mut session)?))));
    }
    if let Some(path) = text.strip_prefix("binary:") {
        let mut snapshot = program::read(Path::new(path))?;
        if let Some(series) = shipped::find(snapshot.series()) {
            snapshot.correct(&series);
        }
        return Ok(Side::Whole(Box::new(snapshot)));
    }
    if let Some(snapshot) = shipped::find(text) {
        return Ok(Side::Whole(Box::new(snapshot)));
    }
    let path = Path::new(text);
    if !path.exists() {
        let series = shipped::names().join(", ");
        return Err(usage(format!(
            "{text} is no file, no server's URL and no series; the series that ship are {series}"
        )));
    }
    let content = std::fs::read(path).with_context(|| format!("cannot read {text}"))?;
    let content = String::from_utf8_lossy(&content);
    if Snapshot::is_snapshot(&content) {
        let mut snapshot = Snapshot::read(&content).with_context(|| text.to_owned())?;
        snapshot.assume_groups();
        return Ok(Side::Whole(Box::new(snapshot)));
    }
    Ok(Side::File(path.to_owned(), read_lines(path)?))
}

/// All lines of an option file and of the files that it includes.
pub(super) fn read_lines(path: &Path) -> anyhow::Result<Vec<OptionLine>> {
    let files = OptionFiles {
        files: vec![OptionFile { path: path.to_owned(), required: true }],
        home: std::env::var_os("HOME").map(PathBuf::from),
    };
    Ok(server::read_all_options(&files)?)
}

/// Adds what a server does not tell about itself from the shipped snapshot of its series.
fn with_series(mut snapshot: Snapshot) -> Snapshot {
    if let Some(series) = shipped::find(snapshot.series()) {
        snapshot.learn(&series);
    }
    snapshot.assume_groups();
    snapshot
}
