//! Whether the log in a backup is the archived one.

use std::time::Duration;

use anyhow::{Result, bail};
use binlog::archive::Same;
use binlog::event::format::Format;
use binlog::event::{ARTIFICIAL, Event};
use disk::Source;
use sandbox::Sandbox;
use server::dump::{From, Packet};

use crate::boot;
use crate::boot::binary_log::Position;

/// Where the first event of a file is.
const FIRST: u32 = 4;
/// How long the server may take for the next event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a private server, which has recovered the data, has the archived bytes in its log up to there. It
/// is asked as by a replica, because an archive has a log as servers send it, and in the data it may be
/// encrypted.
pub(super) fn is_same(server: &Sandbox, (file, end): &Position, archived: Box<dyn Source>) -> Result<bool> {
    let from = From {
        file: file.clone(),
        at: FIRST,
        server_id: u32::MAX,
        ends: true,
        acknowledges: false,
        heartbeat: PATIENCE,
    };
    let mut dump = boot::target(server)?.dump(&from)?;
    let format = Format::without_sums();
    let mut archived = Same::new(archived);
    let mut at = u64::from(FIRST);
    while at < *end {
        let Packet::Event { bytes, .. } = dump.next(PATIENCE)? else {
            bail!("the log in the backup ends at {}:{at}, before the generation's place in it", from.file);
        };
        if Event::cut(bytes, at, &format)?.header.flags & ARTIFICIAL != 0 {
            continue;
        }
        if !archived.has(bytes, at)? {
            return Ok(false);
        }
        at += bytes.len() as u64;
    }
    Ok(true)
}
