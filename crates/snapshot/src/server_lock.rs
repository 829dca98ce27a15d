//! Waits for the lock that holds a server.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use server::{Attempt, Hold, HoldMode, Obstacle, Position, Session, Target};

/// Others may have to wait behind an attempt as long as it lasts, so it is short.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The next attempt begins only after the end of statements that have been running for this long, so that it
/// does not wait behind them.
const LONG_S: u64 = 2;
/// How long to wait before checking whether they have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How to wait.
pub struct Waiting<'a> {
    /// For how long.
    pub wait: Duration,
    /// Waits for a time, and fails when the run must stop.
    pub pause: &'a dyn Fn(Duration) -> Result<()>,
    /// Reports who is waited for.
    pub note: &'a dyn Fn(&str),
}

/// Tries until the time is up, and never makes others wait for longer than one attempt.
///
/// # Errors
/// [`failure::Failure::Busy`], which names what blocks the lock; errors of the server; errors of the pause.
pub fn take(mut session: Session, mode: &HoldMode, target: &Target, waiting: &Waiting<'_>) -> Result<Hold> {
    let end = Instant::now() + waiting.wait;
    let mut last = Obstacle::default();
    loop {
        let running = session.blockers(LONG_S)?.into_iter().next();
        let left = end.saturating_duration_since(Instant::now());
        // Transactions do not wait behind BACKUP STAGE and LOCK INSTANCE.
        if running.is_none() || *mode != HoldMode::Global {
            session = match Hold::attempt(session, mode, ATTEMPT.min(left))? {
                Attempt::Held(hold) => return Ok(hold),
                Attempt::Waited(session) => session,
            };
        } else {
            (waiting.pause)(LOOK_AGAIN)?;
        }
        let mut found = session.obstacle(mode)?;
        found.blocker = found.blocker.or(running);
        if found != Obstacle::default() {
            tell(&found, &last, waiting.note);
            last = found;
        }
        if Instant::now() >= end {
            let seconds = waiting.wait.as_secs();
            return Err(failure::busy(format!(
                "{target} could not be locked within {seconds} s, blocked by {last}; --wait waits longer"
            )));
        }
    }
}

/// Reports each blocker once.
fn tell(found: &Obstacle, last: &Obstacle, note: &dyn Fn(&str)) {
    let id = |obstacle: &Obstacle| obstacle.blocker.as_ref().map(|blocker| blocker.id.clone());
    if *last == Obstacle::default() || id(found) != id(last) {
        note(&format!("waiting for the lock, blocked by {found}"));
    }
}

/// The server's position while it is held: file, offset and GTID of its binary log, and how far a replica has
/// applied its source's log.
///
/// # Errors
/// Errors of the server.
pub fn position(hold: &mut Hold) -> Result<Value, server::Error> {
    Ok(noted(hold.position()?, hold.source_position()?))
}

/// A position, and how far a replica has applied its source's log, as they are noted in a backup.
pub fn noted(position: Option<Position>, source: Vec<(String, String)>) -> Value {
    let position = position.unwrap_or_default();
    let source: Vec<_> = source.into_iter().map(|(_, value)| value).collect();
    let source = source.join(" ");
    json!({"file": position.file, "offset": position.offset, "gtid": position.gtid, "source": source})
}

/// The same for people; none on a server without a binary log.
pub fn shown(position: &Value) -> Option<String> {
    let text = |name: &str| position.get(name).and_then(Value::as_str).unwrap_or_default();
    let offset = position.get("offset").and_then(Value::as_u64).unwrap_or(0);
    let line = format!("binary log position: {} {offset} {}", text("file"), text("gtid"));
    (!text("file").is_empty()).then(|| line.trim_end().to_owned())
}
