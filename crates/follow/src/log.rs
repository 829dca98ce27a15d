//! The source's binary log, event by event, with the place of each.
//!
//! Places are counted: MariaDB from 11.4 on does not say where events within a transaction end.

use std::time::{Duration, Instant};

use binlog::event::format::Format;
use binlog::event::{ARTIFICIAL, Body, Event, Kind};
use server::binlog_dump::{BinlogDump, DumpRequest, Packet};
use server::{Session, Target};
use transactions::names::number;

use crate::{Error, Noted};

/// Where the first event of a file is.
const FIRST: u64 = 4;
/// How often an idle server says that there is nothing.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A server that says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The server has no such place in its log: its files were removed, or the log was begun again.
const NO_SUCH_PLACE: u16 = 1236;

/// What the connection gave.
pub(crate) enum Next<'a> {
    /// An event of the log, and its bytes.
    Event(Event<'a>, &'a [u8]),
    /// A file of the log begins.
    File {
        /// Its name.
        file: String,
        /// When it was begun, as it says.
        begun: u32,
        /// Where its next event is.
        at: u64,
    },
    /// An event that only tells how others are sent.
    Passed,
    /// The server says that there is nothing more now.
    Silence,
    /// Nothing came in time.
    Nothing,
}

/// A connection over which the log comes.
pub(crate) struct Log {
    dump: BinlogDump,
    target: String,
    /// The file whose events come, empty before the server has said it.
    file: String,
    /// Where the next event is in it.
    at: u64,
    /// Where to begin in the first file, if the request could not say it.
    from: u64,
    format: Format,
    /// The server first repeats how events are written.
    repeats_format: bool,
}

fn request(file: &str, at: u32, (server_id, ends): (u32, bool)) -> DumpRequest {
    let file = file.to_owned();
    DumpRequest { file, at, server_id, ends, acknowledges: false, heartbeat: HEARTBEAT }
}

/// When the server began a file of its log, as the file says.
///
/// # Errors
/// Those of the server, which also are that this account may not read the log.
pub(crate) fn begun(from: &Target, file: &str, server_id: u32) -> Result<u32, Error> {
    let mut dump = from.dump(&request(file, u32::try_from(FIRST).unwrap_or(0), (server_id, true)))?;
    let format = Format::without_sums();
    let since = Instant::now();
    while since.elapsed() < SILENCE_MAX {
        match dump.next(HEARTBEAT)? {
            Packet::Event { bytes, .. } => {
                let event =
                    Event::unchecked(bytes, FIRST, &format).map_err(|source| corrupt(file, source))?;
                if event.header.kind == Kind::FORMAT_DESCRIPTION {
                    return Ok(event.header.timestamp);
                }
            }
            Packet::Nothing => {}
            Packet::End => break,
        }
    }
    Err(Error::Refused(format!("the source does not send the beginning of its {file}")))
}

fn corrupt(file: &str, source: binlog::Corrupt) -> Error {
    Error::Corrupt { file: file.to_owned(), source }
}

/// The file with this name is not the one that was read.
fn other(file: &str, at: u64, what: &str) -> Error {
    Error::Unapplied {
        place: format!("{file}:{at}"),
        what: format!("the source's log can't be read on from there: {what}"),
    }
}

impl Log {
    /// Asks for the log from the noted position on.
    pub(crate) fn open(from: &Target, noted: &Noted, server_id: u32) -> Result<Log, Error> {
        let (file, at) = (&noted.reached.position.file, noted.reached.position.offset);
        let gone = |error: Error| match error {
            Error::Server(server::Error::Sql { code: NO_SUCH_PLACE, message, .. }) => {
                other(file, at, &message)
            }
            error => error,
        };
        if begun(from, file, server_id).map_err(gone)? != noted.reached.begun {
            return Err(other(file, at, "the log was begun again (RESET MASTER), or this is another server"));
        }
        // Positions in requests have 32 bits.
        let (first, skip) = match u32::try_from(at) {
            Ok(first) => (first, 0),
            Err(_) => (u32::try_from(FIRST).unwrap_or(0), at),
        };
        let dump =
            from.dump(&request(file, first, (server_id, false))).map_err(|error| gone(error.into()))?;
        let mut format = Format::without_sums();
        format.has_sums = dump.has_sums();
        Ok(Log {
            dump,
            target: from.to_string(),
            file: String::new(),
            at: FIRST,
            from: skip,
            format,
            repeats_format: false,
        })
    }

    /// Whether more has come than was read.
    pub(crate) fn has_more(&self) -> bool {
        self.dump.has_more()
    }

    /// The next event, or nothing after this time.
    pub(crate) fn next(&mut self, wait: Duration) -> Result<Next<'_>, Error> {
        let Log { dump, target, file, at, from, format, repeats_format } = self;
        // Before it is read: the target may have taken longer, while the server had sent more.
        let silence = dump.silence();
        let packet = dump.next(wait).map_err(|error| match error {
            server::Error::Sql { code: NO_SUCH_PLACE, message, .. } => other(file, *at, &message),
            error => error.into(),
        })?;
        let bytes = match packet {
            Packet::Event { bytes, .. } => bytes,
            Packet::Nothing if silence > SILENCE_MAX => {
                return Err(lost(target, "it has said nothing for 30 s"));
            }
            Packet::Nothing => return Ok(Next::Nothing),
            Packet::End => return Err(lost(target, "it ended the log, as it does when it shuts down")),
        };
        // What an event is can be seen without knowing how it ends.
        let plain = Format::without_sums();
        let header = Event::unchecked(bytes, *at, &plain).map_err(|source| corrupt(file, source))?.header;
        match header.kind {
            Kind::HEARTBEAT | Kind::HEARTBEAT_V2 => return Ok(Next::Silence),
            Kind::ROTATE if header.flags & ARTIFICIAL != 0 => {
                let event = Event::checked(bytes, *at, format).map_err(|source| corrupt(file, source))?;
                if let Body::Rotate(rotate) = event.parse().map_err(|source| corrupt(file, source))? {
                    let name = String::from_utf8_lossy(rotate.file).into_owned();
                    if name != *file {
                        *repeats_format = file.is_empty() && rotate.position > FIRST;
                        (*file, *at) = (name, rotate.position);
                    }
                }
                return Ok(Next::Passed);
            }
            Kind::FORMAT_DESCRIPTION => {
                // The server changes the one that it repeats, and not always its checksum.
                let is_repeated = std::mem::take(repeats_format);
                let prove = if is_repeated { Event::unchecked } else { Event::checked };
                let event = prove(bytes, *at, &plain).map_err(|source| corrupt(file, source))?;
                if let Body::Format(new) = event.parse().map_err(|source| corrupt(file, source))? {
                    *format = *new;
                }
                if is_repeated {
                    return Ok(Next::Passed);
                }
                *at += bytes.len() as u64;
                // What is skipped moves no position back.
                if *from > 0 {
                    return Ok(Next::Passed);
                }
                return Ok(Next::File { file: file.clone(), begun: header.timestamp, at: *at });
            }
            _ if header.flags & ARTIFICIAL != 0 => return Ok(Next::Passed),
            // Also repeated, if the log is encrypted on the server; in its file it says where it ends.
            Kind::START_ENCRYPTION if header.next_position == 0 => return Ok(Next::Passed),
            _ => {}
        }
        let begin = std::mem::replace(at, *at + bytes.len() as u64);
        if header.next_position > 0 && u64::from(header.next_position) != *at & u64::from(u32::MAX) {
            let what = format!("it ends at {} and not at {at}", header.next_position);
            return Err(corrupt(file, binlog::Corrupt { what, place: format!("the event at {begin}") }));
        }
        if begin < *from {
            return Ok(Next::Passed);
        }
        *from = 0;
        let event = Event::checked(bytes, begin, format).map_err(|source| corrupt(file, source))?;
        Ok(Next::Event(event, bytes))
    }

    /// Whether the log ends elsewhere than what was sent: the server does not send all, or has begun its log
    /// again; or something was written just now.
    pub(crate) fn ends_elsewhere(&self, source: &mut Session) -> Result<bool, Error> {
        let Some(end) = source.position()? else { return Ok(false) };
        Ok(!self.has_more() && (number(&end.file), end.offset) != (number(&self.file), self.at))
    }

    /// The error after which the connection is made again.
    pub(crate) fn lost(&self, why: &str) -> Error {
        lost(&self.target, why)
    }
}

fn lost(target: &str, why: &str) -> Error {
    let (target, why) = (target.to_owned(), why.to_owned());
    server::Error::LostConnection { target, why, statement: "COM_BINLOG_DUMP".to_owned() }.into()
}
