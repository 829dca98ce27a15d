//! What `remora verify` does with the archive of a binary log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use binlog::archive::{self, segments};
use block::verify::Sample;
use disk::RealDisk;
use humanize::text;
use progress::{Progress, count};
use repository::Named;
use repository::log_archive::{self, Archive};
use serde_json::json;

use super::part_of;
use crate::report::{self, Report};

/// The archives, and their names.
pub(super) fn find<'a>(all: impl Iterator<Item = &'a Named>) -> Result<Vec<(String, Archive)>> {
    let mut found = Vec::new();
    for named in all {
        if let Some(archive) = log_archive::find(&named.home, named.key.as_ref())? {
            found.push((named.name.clone(), archive));
        }
    }
    Ok(found)
}

/// Proves an archive, or the files of a sample. Returns whether it is damaged.
pub(super) fn verify(
    (name, archive): (&str, Archive),
    sample: Option<Sample>,
    stop: &AtomicBool,
    report: &Report,
) -> Result<bool> {
    let began = Instant::now();
    report.phase("verifying the log", None);
    let mut goes_on = |bytes| {
        report.read(bytes);
        !stop.load(Ordering::Relaxed)
    };
    let (done, shown) = match archive {
        Archive::Segments(all) => {
            let shown = all.shown();
            (segments::verify(&Arc::new(all), sample, &mut goes_on), shown)
        }
        Archive::Files(folder) => {
            (archive::verify(&RealDisk, &folder, sample, &mut goes_on), text::path(&folder))
        }
    };
    if stop.load(Ordering::Relaxed) {
        return Err(block::Error::Stopped.into());
    }
    let found = done.with_context(|| shown)?;
    for damage in &found.damages {
        if report.is_json() {
            report.message(&json!({
                "message_type": "damage", "name": name, "place": damage.place, "what": damage.what,
            }))?;
        } else {
            report.data(&format!("{}: {}", damage.place, damage.what))?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    if report.is_json() {
        report.message(&json!({
            "message_type": "log", "name": name, "segments": found.segments, "files": found.files,
            "opened": found.is_opened, "bytes": found.bytes, "damages": found.damages.len(), "seconds": seconds,
            "part": sample.map(|sample| sample.part + 1), "parts": sample.map(|sample| sample.parts),
        }))?;
        return Ok(!found.damages.is_empty());
    }
    let damages = match found.damages.len() {
        0 => "all sound".to_owned(),
        number => count(number as u64, "damaged place"),
    };
    report.note(&format!(
        "{name}, archived log: {}{}, {}, {}{}, {seconds:.1} s: {damages}",
        count(found.files, "file"),
        if found.segments == 0 { String::new() } else { format!(" in {}", count(found.segments, "segment")) },
        report::size(found.bytes),
        match found.is_opened {
            true => "event by event",
            false => "as they are stored (a put key opens none)",
        },
        part_of(sample),
    ));
    Ok(!found.damages.is_empty())
}
