//! Whether the log in a backup is the archived one.

use std::time::Duration;

use anyhow::{Result, bail};
use binlog::archive::EventComparer;
use binlog::event::format::Format;
use binlog::event::{ARTIFICIAL, Event, Kind};
use disk::Source;
use instance::binary_log::Position;
use sandbox::Sandbox;
use server::binlog_dump::{DumpRequest, Packet};

/// Where the first event of a file is.
const FIRST: u32 = 4;
/// What every file begins with.
const HEAD: [Kind; 3] = [Kind::FORMAT_DESCRIPTION, Kind::GTID_LIST, Kind::PREVIOUS_GTIDS];
/// How long the server may take for the next event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a private server, which has recovered the data, has the archived bytes in its log up to there, and
/// in any case those that a file begins with. It is asked as by a replica, because an archive has a log as
/// servers send it, and in the data it may be encrypted.
pub(crate) fn is_same(server: &Sandbox, (file, end): &Position, archived: Box<dyn Source>) -> Result<bool> {
    let from = DumpRequest {
        file: file.clone(),
        at: FIRST,
        server_id: u32::MAX,
        ends: true,
        acknowledges: false,
        heartbeat: PATIENCE,
    };
    let mut dump = instance::target(server)?.dump(&from)?;
    let format = Format::without_sums();
    let mut archived = EventComparer::new(archived);
    let (mut at, mut is_head) = (u64::from(FIRST), true);
    loop {
        let Packet::Event { bytes, .. } = dump.next(PATIENCE)? else {
            if at >= *end && at > u64::from(FIRST) {
                break;
            }
            bail!("the log in the backup ends at {}:{at}, before the generation's place in it", from.file);
        };
        let header = Event::unchecked(bytes, at, &format)?.header;
        is_head &= at == u64::from(FIRST) || HEAD.contains(&header.kind);
        // Before the first transaction the beginning alone tells: when the server began the file, and what it
        // had before.
        if at >= *end && !is_head {
            break;
        }
        if header.flags & ARTIFICIAL != 0 {
            continue;
        }
        if !archived.matches(bytes, at)? {
            return Ok(false);
        }
        at += bytes.len() as u64;
    }
    Ok(true)
}
