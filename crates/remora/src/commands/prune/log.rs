//! What `remora prune` removes of an archived binary log.

use anyhow::{Context, Result};
use binlog::archive::{self, Pruned};
use block::Generation;
use disk::RealDisk;
use humanize::{date_time, text};
use progress::{Progress, count};
use repository::Named;
use repository::log_archive::{self, Archive};
use serde_json::json;

use crate::report::{self, Report};

/// Removes the files that are older than all kept generations. If anything is in doubt, all of them stay.
pub(super) fn forget<'a>(
    named: &Named,
    kept: impl Iterator<Item = &'a Generation>,
    is_damaged: bool,
    dry_run: bool,
    report: &Report,
) -> Result<()> {
    let name = &named.name;
    if !dry_run && log_archive::has_segments(&named.home)? {
        let store = log_archive::keyed(&named.home, named.key.as_ref())?;
        let cleared =
            archive::segments::remove_superseded(&*store).with_context(|| named.home.log().shown())?;
        if cleared != Pruned::default() {
            tell(name, &cleared, dry_run, report)?;
        }
    }
    let Some(archive) = log_archive::find(&named.home, named.key.as_ref())? else { return Ok(()) };
    let stays = |why: &str| report.note(&format!("{name}: the archived log stays as it is: {why}"));
    if is_damaged {
        stays("what damaged generations need of it is unknown");
        return Ok(());
    }
    let mut needed = Vec::new();
    for generation in kept {
        let Some((file, _)) = repository::position(generation) else {
            stays(&format!("{name}@{} does not say its position in the log", generation.number));
            return Ok(());
        };
        needed.push(file);
    }
    let done = match archive {
        Archive::Files(folder) => {
            archive::prune(&RealDisk, &folder, &needed, dry_run).with_context(|| text::path(&folder))?
        }
        Archive::Segments(segments) => {
            if let Some(damage) = segments.damages().first() {
                stays(&damage.to_string());
                return Ok(());
            }
            match archive::segments::prune(segments, &needed, dry_run) {
                Err(binlog::Error::Corrupt(damage)) => {
                    stays(&damage.to_string());
                    return Ok(());
                }
                done => done.with_context(|| named.home.shown())?,
            }
        }
    };
    let Some(done) = done else {
        stays("it has none of the files that recovery from a kept generation begins with");
        return Ok(());
    };
    tell(name, &done, dry_run, report)
}

fn tell(name: &str, done: &Pruned, dry_run: bool, report: &Report) -> Result<()> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "log", "name": name, "dry_run": dry_run, "files": done.files, "bytes_freed": done.bytes,
            "files_retained": done.retained, "retained_until": done.retained_until_s.map(date_time::machine),
        }))?;
        return Ok(());
    }
    if done.bytes > 0 {
        let would = if dry_run { "would be " } else { "" };
        let files = match done.files {
            0 => "segments that were compacted".to_owned(),
            files => count(files, "file"),
        };
        report.note(&format!(
            "{name}: {would}freed in the archived log: {files}, {}",
            report::size(done.bytes)
        ));
    }
    let retained = (&*done.retained, done.retained_until_s);
    super::tell_retained(name, retained, " of the archived log", report);
    Ok(())
}
