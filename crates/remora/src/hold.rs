//! Waiting for the lock that holds a server still.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use server::{Attempt, Blocker, Hold, HoldMode, Session, Target};

use crate::exit::Held;

/// Others may have to wait behind an attempt for as long as it lasts, so it is short.
const ATTEMPT: Duration = Duration::from_secs(2);
/// A statement that has been running for so long is waited for before another attempt, not behind one.
const LONG_S: u64 = 2;
/// How long to wait before looking again whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Tries until the time is up, never making others wait for longer than one attempt. `pause` waits for a
/// time, and fails when the run is to stop.
///
/// # Errors
/// [`Held`], which names what stands in the way; those of the server; those of `pause`.
pub(crate) fn take(
    mut session: Session,
    mode: &HoldMode,
    wait: Duration,
    target: &Target,
    pause: impl Fn(Duration) -> Result<()>,
) -> Result<Hold> {
    let end = Instant::now() + wait;
    let mut last: Option<Blocker> = None;
    loop {
        let blocker = session.blockers(LONG_S)?.into_iter().next();
        let left = end.saturating_duration_since(Instant::now());
        // BACKUP STAGE and LOCK INSTANCE do not make transactions wait behind them.
        if blocker.is_none() || *mode != HoldMode::Global {
            session = match Hold::attempt(session, mode, ATTEMPT.min(left))? {
                Attempt::Held(hold) => return Ok(hold),
                Attempt::Waited(session) => session,
            };
            last = session.blockers(0)?.into_iter().next().or(blocker).or(last);
        } else {
            last = blocker;
            pause(LOOK_AGAIN)?;
        }
        if Instant::now() >= end {
            return Err(anyhow::Error::new(Held(refusal(last.as_ref(), wait, target))));
        }
    }
}

fn refusal(blocker: Option<&Blocker>, wait: Duration, target: &Target) -> String {
    let seconds = wait.as_secs();
    match blocker {
        None => format!("{target} could not be locked within {seconds} s; --wait gives it more"),
        Some(blocker) => format!(
            "{target} could not be locked within {seconds} s; in the way is {blocker}; wait for it (--wait), or KILL {}",
            blocker.id
        ),
    }
}

/// Where the server stands while it is held: file, offset and GTID of its binary log, and how far a replica
/// has come in its source's.
///
/// # Errors
/// Those of the server.
pub(crate) fn position(hold: &mut Hold) -> Result<Value, server::Error> {
    let position = hold.position()?.unwrap_or_default();
    let source: Vec<_> = hold.source_position()?.into_iter().map(|(_, value)| value).collect();
    let source = source.join(" ");
    Ok(json!({"file": position.file, "offset": position.offset, "gtid": position.gtid, "source": source}))
}

/// The same for people; none on a server without a binary log.
pub(crate) fn shown(position: &Value) -> Option<String> {
    let text = |name: &str| position.get(name).and_then(Value::as_str).unwrap_or_default();
    let offset = position.get("offset").and_then(Value::as_u64).unwrap_or(0);
    let line = format!("binary log position: {} {offset} {}", text("file"), text("gtid"));
    (!text("file").is_empty()).then(|| line.trim_end().to_owned())
}
