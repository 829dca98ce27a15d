//! `remora poke max-connections` and `kill-query`: for a server that is full.

use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use poke::access::{Access, Sql, store};
use poke::process::Process;
use poke::variables;
use progress::Progress;
use server::Session;

use super::{Change, Which, consent, tell};
use crate::exit::Exit;
use crate::report::Report;

/// Other clients want the new connections, too: how often to try to get one, and how long to wait in between.
const TRIES: usize = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// This many additional connections are enough for ours.
const ROOM: u64 = 10;

/// Changes the connection limit: by SQL if the server answers, else in memory.
pub(crate) fn limit(access: &Access, new: u64, agreed: bool, report: &Report) -> Result<Exit> {
    let known = variables::find("max_connections")?;
    let why = match access.sql()? {
        Sql::Answers(mut session, place) => {
            let old = limit_by_sql(&mut session)?;
            set_limit(&mut session, new)?;
            return tell(None, &Change { name: known.name, old, new, by: &format!("by SQL{place}") }, report);
        }
        Sql::Silent(why, _) => why,
    };
    report.warn(&format!("SQL can't be asked: {why}"));
    let memory = access.memory()?;
    let (cell, old) = memory.variable(known)?;
    if old != new {
        consent(agreed, known, old, new)?;
        store(&cell, known, new)?;
    }
    warn_of_files(&memory.process, old, new, report)?;
    tell(Some(&memory), &Change { name: known.name, old, new, by: "in memory" }, report)?;
    let Some(mut session) = enter(access)? else {
        report.warn("SQL could not confirm it: the server still does not let us in");
        return Ok(Exit::Partial);
    };
    let says = limit_by_sql(&mut session)?;
    if says != new {
        store(&cell, known, old)?;
        bail!("max_connections was set to {new} in memory, but SQL says {says}: it is {old} again");
    }
    // This also does what the server does besides storing the value.
    set_limit(&mut session, new)?;
    report.note("SQL answers again and says the same");
    report.note(&format!("to undo it: SET GLOBAL max_connections = {old}"));
    Ok(Exit::Done)
}

/// Kills a statement by SQL; if the server is full, room is made in its memory first.
pub(super) fn kill_query(access: &Access, id: u64, which: &Which, report: &Report) -> Result<Exit> {
    let sql = access.sql()?;
    let is_full = sql.is_full();
    let why = match sql {
        Sql::Answers(session, place) => return kill(session, id, place, report),
        Sql::Silent(why, _) => why,
    };
    if !is_full {
        return Err(anyhow!(why).context(format!(
            "the statement of connection {id} was not ended: without SQL there is no safe way to do that. Find out \
             why SQL does not answer"
        )));
    }
    report.warn(&format!("SQL can't be asked: {why}"));
    let known = variables::find("max_connections")?;
    let memory = access.memory()?;
    let (cell, old) = memory.variable(known)?;
    let room = (old + ROOM).min(*known.range.end());
    consent(which.yes_i_know, known, old, room)?;
    store(&cell, known, room)?;
    report.note(&format!("max_connections is {room} for a moment"));
    let done = match enter(access) {
        Ok(Some(mut session)) => {
            let back = set_limit(&mut session, old);
            kill(session, id, " in a connection that room was made for", report)
                .and_then(|exit| back.map(|()| exit))
        }
        Ok(None) => Err(anyhow!(
            "the new room was taken by others: {} makes more",
            which.on_server("remora poke max-connections N")
        )),
        Err(error) => Err(error),
    };
    // The SQL statement may not have been executed.
    if cell.read()? == room {
        store(&cell, known, old)?;
    }
    done
}

fn kill(mut session: Session, id: u64, place: &str, report: &Report) -> Result<Exit> {
    let rows = session.strings(&format!(
        "SELECT CONCAT(user, '@', host), LEFT(info, 120) FROM information_schema.processlist WHERE id = {id}"
    ))?;
    let Some(row) = rows.into_iter().next() else { bail!("there is no connection {id}") };
    let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let (account, statement) = (text(0), text(1).replace('\n', " "));
    ensure!(!statement.is_empty(), "connection {id} of {account} runs no statement");
    session.execute(&format!("KILL QUERY {id}"))?;
    if report.is_json() {
        report.message(&serde_json::json!({
            "message_type": "killed", "connection": id, "account": account, "statement": statement,
        }))?;
    } else {
        report.data(&format!(
            "by SQL{place}, ended the statement of connection {id} of {account}: {statement}"
        ))?;
    }
    Ok(Exit::Done)
}

fn limit_by_sql(session: &mut Session) -> Result<u64> {
    let says = session.value("SELECT @@global.max_connections")?.unwrap_or_default();
    Ok(says.parse()?)
}

fn set_limit(session: &mut Session, new: u64) -> Result<()> {
    session.execute(&format!("SET GLOBAL max_connections = {new}"))?;
    let is = limit_by_sql(session)?;
    ensure!(is == new, "max_connections should be {new} now, but is {is}");
    Ok(())
}

/// Opens a session when there is room. Others want it too, so this takes more than one try.
fn enter(access: &Access) -> Result<Option<Session>> {
    let never = crossbeam_channel::never::<()>();
    for _ in 0..TRIES {
        match access.sql()? {
            Sql::Answers(session, _) => return Ok(Some(session)),
            sql if !sql.is_full() => return Ok(None),
            _ => {}
        }
        // Nobody sends on this channel: it is a wait that ends by itself.
        never.recv_timeout(LOOK_AGAIN).ok();
    }
    Ok(None)
}

/// Each connection needs a file descriptor; a server without any left can't even refuse properly.
fn warn_of_files(process: &Process, old: u64, new: u64, report: &Report) -> Result<()> {
    let (open, most) = process.files()?;
    if open.saturating_add(new.saturating_sub(old)) > most {
        report.warn(&format!(
            "the process has {open} files open and may have {most}: that is not enough for all new connections (prlimit --nofile)"
        ));
    }
    Ok(())
}
