//! Where to begin: which timeline, and where in it.

use anyhow::{Context, Result, bail};
use binlog::archive::{BeginReason, GtidState, Tail, TimelineInfo, gtid_state, missing_gtids};
use binlog::event::format::Format;
use binlog::event::{Body, Event};
use humanize::date_time;
use server::binlog_dump::{DumpRequest, Packet};
use server::{Error, Session};
use transactions::names::number;

use crate::Run;
use crate::follow::HEARTBEAT;
use crate::output::Written;

/// How long the head of a file may take to arrive.
const PATIENCE: u32 = 30;

/// How the names of MariaDB's logs end that InnoDB writes. Who receives one gets a stream without files and
/// positions.
const IN_INNODB: &str = ".ibb";

/// A timeline to write, and where to go on.
pub(crate) struct Beginning<'a> {
    pub timeline: Written<'a>,
    /// What is archived, and is to be compared. `None`: all that is archived is whole.
    pub tail: Option<Tail>,
    /// The file from which on the server is asked.
    pub first: String,
    /// Where the server's log ends: the newest file, and its length.
    pub end: (String, u64),
}

/// Finds out where to go on. A new timeline begins if the server has purged what comes next.
pub(crate) fn begin<'a>(
    run: &'a Run<'_>,
    session: &mut Session,
    is_broken: &mut bool,
) -> Result<Beginning<'a>> {
    let files = files(session)?;
    let (Some((oldest, _)), Some(end)) = (files.first().cloned(), files.last().cloned()) else {
        bail!("the server has no binary log (log_bin is off)")
    };
    let Some(timeline) = run.kept.newest()? else {
        let timeline = begin_timeline(
            run,
            session,
            &oldest,
            Reason { why: BeginReason::First, what: String::new(), before: None },
        )?;
        return Ok(Beginning { timeline, tail: None, first: oldest, end });
    };
    let Some(tail) = timeline.tail()? else {
        // It was begun, and no file of it is there.
        let first = if files.iter().any(|(file, _)| file == timeline.first()) {
            timeline.first().to_owned()
        } else {
            oldest
        };
        return Ok(Beginning { timeline, tail: None, first, end });
    };
    if let Some(damage) = &tail.damage {
        run.report.warn(&format!("{}: {damage}; what follows is fetched again", tail.file));
    }
    if files.iter().any(|(file, _)| *file == tail.file) {
        let first = tail.file.clone();
        return Ok(Beginning { timeline, tail: Some(tail), first, end });
    }
    let known = tail.state.as_ref();
    let before = if known.is_some() { listed(run, &oldest)? } else { None };
    // The list alone could be that of another history with as many transactions.
    if tail.next.as_deref() == Some(&oldest) && known.is_some() && known == before.as_ref() {
        return Ok(Beginning { timeline, tail: None, first: oldest, end });
    }
    *is_broken = true;
    let (why, what) = match number(&end.0) < number(&tail.file) {
        true => (
            BeginReason::Fork,
            format!("the server has started its log again: it no longer has {}", tail.file),
        ),
        false => between(&tail, &oldest, before.as_ref()),
    };
    let timeline = begin_timeline(run, session, &oldest, Reason { why, what, before: Some(&tail) })?;
    Ok(Beginning { timeline, tail: None, first: oldest, end })
}

/// Begins a timeline because the server's history is another than the one archived.
pub(crate) fn fork(run: &Run<'_>, what: &str) -> Result<()> {
    let tail = run.kept.newest()?.map_or(Ok(None), |timeline| timeline.tail())?;
    let mut session = run.target.connect()?;
    let (oldest, _) =
        files(&mut session)?.into_iter().next().context("the server has no binary log any more")?;
    let reason = Reason { why: BeginReason::Fork, what: what.to_owned(), before: tail.as_ref() };
    begin_timeline(run, &mut session, &oldest, reason)?;
    Ok(())
}

/// Why a timeline begins, and what was found.
struct Reason<'t> {
    why: BeginReason,
    what: String,
    /// The end of the timeline before it.
    before: Option<&'t Tail>,
}

fn begin_timeline<'a>(
    run: &'a Run<'_>,
    session: &mut Session,
    first: &str,
    reason: Reason<'_>,
) -> Result<Written<'a>> {
    let row = session.strings("SELECT @@server_id, @@version")?.into_iter().next().unwrap_or_default();
    let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let Reason { why, what, before } = reason;
    let mut info =
        TimelineInfo::new(why, date_time::now_s(), cell(0).parse().unwrap_or(0), cell(1), first.to_owned());
    info.before = before.map(|tail| (tail.file.clone(), tail.end));
    info.detail.clone_from(&what);
    let timeline = run.kept.begin(info)?;
    if why != BeginReason::First {
        run.report.warn(&format!("{what}; timeline {} begins with {first}", timeline.number()));
    }
    Ok(timeline)
}

/// The server's files, the oldest first, and their lengths.
fn files(session: &mut Session) -> Result<Vec<(String, u64)>> {
    let rows = match session.strings("SHOW BINARY LOGS") {
        Err(Error::Sql { code: 1381, .. }) => bail!("the server has no binary log: log_bin is off"),
        rows => rows?,
    };
    let of = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().flatten();
        Some((cells.next()?, cells.next()?.parse().ok()?))
    };
    let files: Vec<(String, u64)> = rows.into_iter().filter_map(of).collect();
    if files.iter().any(|(file, _)| file.ends_with(IN_INNODB)) {
        bail!(
            "the server writes its binary log into InnoDB (binlog_storage_engine=innodb), as MariaDB can from 12.3 on: such a log \
             has no files that can be archived; without that option, it can be"
        );
    }
    Ok(files)
}

/// What is between the archive's end and the server's oldest file, before which it had these transactions.
fn between(tail: &Tail, oldest: &str, before: Option<&GtidState>) -> (BeginReason, String) {
    let file = &tail.file;
    let gone = format!("the server has no {file} any more, its oldest file is {oldest}");
    let unknown = || (BeginReason::Gap, format!("{gone}: what may be between them is not archived"));
    let Some((known, before)) = tail.state.as_ref().zip(before) else { return unknown() };
    let is_less = |(of, number): (&(u32, u32), &u64)| known.get(of).is_some_and(|own| own > number);
    if let Some(((domain, server_id), sequence)) = before.iter().find(|entry| is_less(*entry)) {
        let what = format!(
            "{gone}, with {domain}-{server_id}-{sequence} as the last one of its domain and server before it: what is \
             archived goes further, so it is of another history"
        );
        return (BeginReason::Fork, what);
    }
    missing_gtids(known, before).map_or_else(unknown, |missing| {
        (BeginReason::Gap, format!("{gone}: what is between them is not archived, {missing}"))
    })
}

/// The transactions before a file, as MariaDB writes them at its beginning.
fn listed(run: &Run<'_>, file: &str) -> Result<Option<GtidState>> {
    let from = DumpRequest {
        file: file.to_owned(),
        at: 4,
        server_id: run.server_id,
        ends: true,
        acknowledges: false,
        heartbeat: HEARTBEAT,
    };
    let mut dump = run.target.dump(&from)?;
    let mut format = Format::without_sums();
    format.has_sums = dump.has_sums();
    let mut at = 4;
    for _ in 0..PATIENCE {
        let bytes = match dump.next(HEARTBEAT)? {
            Packet::Event { bytes, .. } => bytes,
            Packet::Nothing => continue,
            Packet::End => return Ok(None),
        };
        let next = {
            let event = Event::checked(bytes, at, &format)?;
            at += bytes.len() as u64;
            match event.parse()? {
                Body::Format(format) => *format,
                Body::GtidList(list) => return Ok(Some(gtid_state(&list))),
                Body::Rotate(_) | Body::Encryption(_) => continue,
                _ => return Ok(None),
            }
        };
        format = next;
    }
    bail!("the server does not send the beginning of {file}")
}
