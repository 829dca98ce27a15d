//! `remora poke set`: a value that SQL calls read-only.

use anyhow::{Context, Result, bail, ensure};
use poke::access::{Access, Sql, store};
use poke::variables::{Requirement, Variable};
use progress::Progress;
use server::{Flavour, Session};

use super::{Change, Which, consent, tell};
use crate::exit::Exit;
use crate::report::Report;

/// Stores a value, if everything fits.
pub(super) fn run(
    access: &Access,
    known: &Variable,
    new: u64,
    which: &Which,
    report: &Report,
) -> Result<Exit> {
    let mut session = match access.sql()? {
        Sql::Answers(session, _) => Some(session),
        Sql::Silent(error, _) => {
            report.warn(&format!("SQL can't be asked: {error}"));
            None
        }
    };
    if let Some(session) = &mut session
        && !is_read_only(session, known)?
    {
        let old = by_sql(session, known)?;
        session.execute(&format!("SET GLOBAL {} = {new}", known.name))?;
        ensure!(by_sql(session, known)? == new, "SET GLOBAL {} did not change it", known.name);
        return tell(None, &Change { name: known.name, old, new, by: "by SQL" }, report);
    }
    let memory = access.memory()?;
    let (cell, old) = memory.variable(known)?;
    match &mut session {
        Some(session) => {
            memory.check(session)?;
            let says = by_sql(session, known)?;
            ensure!(says == old, "{} is {says} by SQL, but {old} in memory: nothing was changed", known.name);
            known.needs.iter().try_for_each(|need| check(session, *need, known))?;
        }
        None if !known.needs.is_empty() => {
            bail!("{} can be stored only if SQL says that no replica runs: nothing was changed", known.name)
        }
        None => {}
    }
    if old == new {
        report.note(&format!("{} is {old} already", known.name));
        return Ok(Exit::Done);
    }
    consent(which.yes_i_know, known, old, new)?;
    store(&cell, known, new)?;
    if let Some(session) = &mut session {
        let says = by_sql(session, known)?;
        if says != new {
            cell.write(old)?;
            bail!("{} was set to {new} in memory, but SQL says {says}: it is {old} again", known.name);
        }
    }
    tell(Some(&memory), &Change { name: known.name, old, new, by: "in memory" }, report)?;
    let undo = which.on_server(&format!("remora poke set {} {old} --yes-i-know", known.name));
    explain(known, new, &undo, session.as_mut(), report)?;
    if session.is_none() {
        report.warn("SQL could not confirm it: the server does not answer");
        return Ok(Exit::Partial);
    }
    Ok(Exit::Done)
}

fn explain(
    known: &Variable,
    new: u64,
    undo: &str,
    session: Option<&mut Session>,
    report: &Report,
) -> Result<()> {
    let name = known.name;
    report.note(&format!("it takes effect {}", known.takes_effect));
    if name == "log_slave_updates"
        && let Some(session) = session
    {
        let position = session.value("SELECT @@global.gtid_slave_pos")?.unwrap_or_default();
        let position = if position.is_empty() { "now".to_owned() } else { position };
        report.note(&format!(
            "changes that were applied up to {position} are not, or only partly, in this server's binary log"
        ));
    }
    report.note(&format!("to undo it: {undo}"));
    report.note(&format!(
        "a restart forgets it: to keep it, write {name} = {new} below [mariadbd] in the option file"
    ));
    Ok(())
}

/// Whether SQL calls it read-only.
fn is_read_only(session: &mut Session, known: &Variable) -> Result<bool> {
    let version = &session.about.version_text;
    ensure!(
        session.about.flavour == Flavour::MariaDb,
        "this is {version}: writing to memory was tried only on MariaDB"
    );
    let sql = format!(
        "SELECT READ_ONLY FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = '{}'",
        known.name.to_uppercase()
    );
    let says = session.value(&sql)?;
    let says = says.with_context(|| format!("this server has no variable {}", known.name))?;
    Ok(says == "YES")
}

fn by_sql(session: &mut Session, known: &Variable) -> Result<u64> {
    let says = session.value(&format!("SELECT @@global.{}", known.name))?.unwrap_or_default();
    says.parse().with_context(|| format!("{} is '{says}' by SQL, which is not a number", known.name))
}

/// Fails unless a condition is met.
fn check(session: &mut Session, need: Requirement, known: &Variable) -> Result<()> {
    let name = known.name;
    match need {
        Requirement::ReplicaStopped => {
            let running = running(session)?;
            ensure!(
                !running,
                "{name} is used by the threads of a replica, and they are running: STOP ALL SLAVES first"
            );
        }
        Requirement::BinaryLog => {
            let on = session.value("SELECT @@global.log_bin")?;
            ensure!(on.as_deref() == Some("1"), "{name} does nothing here: the server has no binary log");
        }
        Requirement::NoCluster => {
            let on = session.value("SELECT COUNT(*) FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'WSREP_ON' AND VARIABLE_VALUE = 'ON'")?;
            ensure!(
                on.as_deref() == Some("0"),
                "a Galera node may use {name} at any time: restart the node instead"
            );
        }
    }
    Ok(())
}

/// Whether a replica thread runs, for any of its sources.
fn running(session: &mut Session) -> Result<bool> {
    let rows = session.named_rows("SHOW ALL SLAVES STATUS")?;
    // A running thread shows 'Yes', but also 'Connecting' or 'Preparing'.
    let is_stopped = |row: &Vec<(String, String)>, thread: &str| {
        row.iter().any(|(name, says)| name == thread && says == "No")
    };
    let is_still = |row| is_stopped(row, "Slave_IO_Running") && is_stopped(row, "Slave_SQL_Running");
    Ok(!rows.iter().all(is_still))
}
