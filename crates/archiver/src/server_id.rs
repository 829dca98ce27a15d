//! Whether a replica has our number. The server would end what it sends to it.

use anyhow::Result;
use server::binlog_dump::HOST;
use server::{Error, Session, Target};

/// Ends the run if the server knows a replica by our number. An archiver does not count: it may be the
/// connection of an earlier run that was killed.
pub(crate) fn must_be_free(session: &mut Session, target: &Target, server_id: u32) -> Result<()> {
    // That takes a privilege that an archive does not need.
    let rows = match session.replicas() {
        Err(error) if error.code().is_some() => return Ok(()),
        rows => rows?,
    };
    let number = server_id.to_string();
    for row in rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let (id, host) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        if id == number && host != HOST {
            let port = cells.next().unwrap_or_default();
            let who = format!("the replica {host}:{port} has");
            return Err(Error::SameNumber { target: target.to_string(), server_id, who }.into());
        }
    }
    Ok(())
}
