//! `remora copy --follow`: a copy, and then every change that A commits.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use dump::{CopyRequest, CopySummary};
use failure::usage;
use follow::{Followed, Noted, Reached, Request, State, Summary};
use progress::{Progress, count};
use serde_json::json;
use server::{Position, Target};

use super::{tell_omitted, world};
use crate::exit::{self, Exit};
use crate::report::Report;

/// How to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Follow {
    /// Apply the row events of A's binary log
    Apply,
}

/// The servers: A and B.
type Servers<'a> = (&'a Target, &'a Target);

/// A copy that is continued without following is of another time than B has noted.
pub(super) fn forget((from, to): Servers<'_>, request: &CopyRequest) -> anyhow::Result<()> {
    let state = State::of(&dump::copy_id(from, request)?);
    Ok(follow::forget(&state, to, request.write.no_binlog)?)
}

pub(super) fn run(
    servers: Servers<'_>,
    request: &CopyRequest,
    once: bool,
    report: &Report,
) -> anyhow::Result<Exit> {
    let context = world(report)?;
    let (from, to) = servers;
    let state = State::of(&dump::copy_id(from, request)?);
    let mut omitted = Vec::new();
    if !is_noted(&state, to, request, report)? {
        let began = Instant::now();
        let before = beginning(&state, from)?;
        let summary = dump::copy(&context, servers, request)?;
        super::summarise(&summary, began.elapsed().as_secs_f64(), report)?;
        tell_omitted(&summary.omitted, report);
        let noted = noted(&state, from, &summary, &before)?;
        follow::begin(&state, to, &noted, request.write.no_binlog)?;
        omitted = summary.omitted;
    }
    match once {
        true => report.phase("following", None),
        false => report.endless("following"),
    }
    let request = Request {
        from,
        to,
        state,
        wanted: &request.read.selection,
        once,
        no_binlog: request.write.no_binlog,
    };
    let stop: &AtomicBool = &context.stop;
    let summary = follow::follow(&request, stop, report)?;
    report.end();
    summarise(&summary, report)?;
    omitted.extend(summary.omitted);
    Ok(match (summary.is_stopped, omitted.is_empty()) {
        (true, _) => exit::stopped(),
        (false, true) => Exit::Done,
        (false, false) => Exit::Partial,
    })
}

/// Whether B knows from where to follow. If following has ended for good, the copy is made again.
fn is_noted(state: &State, to: &Target, request: &CopyRequest, report: &Report) -> anyhow::Result<bool> {
    let Some(noted) = state.read(&mut to.connect()?)? else { return Ok(false) };
    if !request.write.resume {
        return Err(usage("B has such a copy, which follows A; continue it with --resume"));
    }
    let Some(why) = noted.stopped else { return Ok(true) };
    report.note(&format!("following had ended at {why}"));
    Ok(false)
}

/// Which file A writes, and when it was begun. So this account may read the log, too.
fn beginning(state: &State, from: &Target) -> anyhow::Result<(String, u32)> {
    let position = from.connect()?.position()?;
    let Some(Position { file, .. }) = position else {
        return Err(usage("A has no binary log (log_bin), or this account may not see its position"));
    };
    let begun = follow::begun(state, from, &file)?;
    Ok((file, begun))
}

/// From where to follow.
fn noted(
    state: &State,
    from: &Target,
    summary: &CopySummary,
    (file, begun): &(String, u32),
) -> anyhow::Result<Noted> {
    let position = summary.source.position.clone();
    let position =
        position.ok_or_else(|| usage("the position of the snapshot in A's binary log is not known"))?;
    let found = follow::begun(state, from, &position.file)?;
    if position.file == *file && found != *begun {
        return Err(usage(
            "A's binary log was begun again while it was copied (RESET MASTER); start again with --resume",
        ));
    }
    let cascading = follow::cascading(&mut from.connect()?)?;
    let followed = |(table, target): &(server::catalogue::Table, server::TableName)| Followed {
        table: table.clone(),
        target: target.clone(),
        cascades: cascading.get(&table.name).cloned().unwrap_or_default(),
    };
    let tables = summary.tables.iter().map(followed).collect();
    Ok(Noted { reached: Reached { position, begun: found }, stopped: None, tables })
}

fn summarise(summary: &Summary, report: &Report) -> anyhow::Result<()> {
    let Summary { transactions, changes, omitted, reached, .. } = summary;
    if report.is_json() {
        report.message(&json!({
            "message_type": "followed", "transactions": transactions, "changes": changes, "reached": reached,
            "omitted": omitted,
        }))?;
        return Ok(());
    }
    report.note(&format!(
        "followed up to {reached}: {} of {} applied",
        count(*changes, "change"),
        count(*transactions, "transaction")
    ));
    Ok(())
}
