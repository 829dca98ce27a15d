//! Ways into a server that is full.

use anyhow::Result;
use poke::access::{Access, Sql};
use progress::Progress;
use server::{Session, Target};

use crate::args::ServerArgs;
use crate::report::Report;

/// A session, also on a server that is full, and then by which way; or what to do if there is none.
pub(crate) fn enter(server: &ServerArgs, password: Option<String>, report: &Report) -> Result<Session> {
    let sql = Access::of(server.target(password)?).sql()?;
    let is_full = sql.is_full();
    match sql {
        Sql::Answers(session, "") => Ok(session),
        Sql::Answers(session, door) => {
            report.note(&format!("the server is full: this is a session{door}"));
            Ok(session)
        }
        Sql::Silent(error, second) if is_full => {
            let second = second.map_or_else(String::new, |why| format!(", and refuses {why}"));
            let [kill, room] = ["remora poke kill-query ID", "remora poke max-connections N"]
                .map(|line| server.on_server(line));
            Err(anyhow::Error::new(error)
                .context(format!("the server is full{second}: {kill} or {room} gets in all the same")))
        }
        Sql::Silent(error, _) => Err(error.into()),
    }
}

/// Where to open sessions for a longer time: at the second port of a server that is full.
pub(crate) fn way_in(target: Target, report: &Report) -> Target {
    let Some((second, door)) = Access::of(target.clone()).way_in() else { return target };
    report.note(&format!("the server is full: this is a session{door}"));
    second
}
