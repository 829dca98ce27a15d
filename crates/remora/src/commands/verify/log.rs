//! What `remora verify` does with the archive of a binary log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use binlog::archive::pieces::{self, Pieces};
use progress::{Progress, count};
use serde_json::json;

use crate::archived::{self, Archive};
use crate::report::{self, Report};
use crate::repository::Named;

/// The archives in pieces, and their names. One that is the server's files has no hashes of its own: 'remora
/// log' proves its events.
pub(super) fn find<'a>(all: impl Iterator<Item = &'a Named>) -> Result<Vec<(String, Pieces)>> {
    let mut found = Vec::new();
    for named in all {
        if let Some(Archive::Pieces(pieces)) = archived::find(&named.home, named.key.as_ref())? {
            found.push((named.name.clone(), pieces));
        }
    }
    Ok(found)
}

/// Proves an archive. Returns whether it is damaged.
pub(super) fn verify(name: &str, pieces: Pieces, stop: &AtomicBool, report: &Report) -> Result<bool> {
    let began = Instant::now();
    let pieces = Arc::new(pieces);
    report.phase("verifying the log", None);
    let mut goes_on = |bytes| {
        report.read(bytes);
        !stop.load(Ordering::Relaxed)
    };
    let done = pieces::verify(&pieces, &mut goes_on);
    if stop.load(Ordering::Relaxed) {
        return Err(block::Error::Stopped.into());
    }
    let found = done.with_context(|| pieces.shown())?;
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
            "message_type": "log", "name": name, "pieces": found.pieces, "files": found.files,
            "opened": found.is_opened, "bytes": found.bytes, "damages": found.damages.len(), "seconds": seconds,
        }))?;
        return Ok(!found.damages.is_empty());
    }
    let damages = match found.damages.len() {
        0 => "all sound".to_owned(),
        number => count(number as u64, "damaged place"),
    };
    report.note(&format!(
        "{name}, archived log: {} in {}, {}, {}, {seconds:.1} s: {damages}",
        count(found.files, "file"),
        count(found.pieces, "piece"),
        report::size(found.bytes),
        match found.is_opened {
            true => "event by event",
            false => "as they are stored (a put key opens none)",
        },
    ));
    Ok(!found.damages.is_empty())
}
