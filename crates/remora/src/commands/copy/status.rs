//! `remora copy status`: the copies into a server that follow their sources.

use follow::{CutOver, Noted, State, Verified};
use progress::count;
use serde_json::json;
use server::{Session, Target};

use crate::exit::Exit;
use crate::report::Report;

pub(super) fn run(to: &Target, report: &Report) -> anyhow::Result<Exit> {
    let mut session = to.connect()?;
    for state in State::all(&mut session)? {
        if let Some(noted) = state.read(&mut session)? {
            tell(&state, &noted, &mut session, report)?;
        }
    }
    Ok(Exit::Done)
}

fn tell(state: &State, noted: &Noted, session: &mut Session, report: &Report) -> anyhow::Result<()> {
    let is_running = state.is_followed(session)?;
    let verified = state.last_verified(session)?;
    let position = &noted.reached.position;
    let how = match (&noted.cut_over, &noted.stopped) {
        (Some(CutOver { is_over: true, .. }), _) => "has taken over".to_owned(),
        (Some(_), _) if is_running => "takes over now".to_owned(),
        (Some(_), _) => "a cut-over was cut off: --resume gives the source back".to_owned(),
        (None, Some(why)) => format!("ended at {why}"),
        (None, None) if is_running => "follows".to_owned(),
        (None, None) => "does not run".to_owned(),
    };
    if report.is_json() {
        report.message(&json!({
            "message_type": "status", "source": noted.source, "tables": noted.tables.len(),
            "reached": position, "is_running": is_running, "stopped": noted.stopped, "verified": verified,
            "has_taken_over": noted.cut_over.as_ref().is_some_and(|how| how.is_over),
        }))?;
        return Ok(());
    }
    let tables = count(noted.tables.len(), "table");
    report.data(&format!("{tables} of {}: {how}", noted.source))?;
    report.data(&format!("  applied up to {position}"))?;
    report.data(&match verified {
        None => "  not verified".to_owned(),
        Some(Verified { at, rows, .. }) => format!("  verified {at} UTC: {} equal", count(rows, "row")),
    })?;
    Ok(())
}
