//! COM_BINLOG_DUMP: the binary log as a server sends it to a replica, event by event.
//!
//! The protocol is described in MariaDB's documents on replication ("Replica Registration",
//! "COM_BINLOG_DUMP", "Semi-Sync Replication"). The driver's own stream asks a server to leave out events, so
//! the packets are read here.

mod wire;

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use self::wire::Wire;
use crate::stream::{self, PAYLOAD_MAX};
use crate::{Error, Target, error_code};

const QUERY: u8 = 0x03;
const REGISTER: u8 = 0x15;
const DUMP: u8 = 0x12;
/// The server ends instead of waiting for more.
const NON_BLOCK: u16 = 1;
/// The statements of row changes come too, from MariaDB. To MySQL, which always sends them, the same bit says
/// that a heartbeat may have its second form.
const ANNOTATE: u16 = 2;
/// What only MariaDB has in its version or the comment on it.
const MARIADB: &[u8] = b"MariaDB";
/// Marks packets of semi-synchronous replication.
const SEMI_SYNC: u8 = 0xEF;
/// What servers say, with different codes, to who has the same number as one that came later.
const SAME_NUMBER: &str = "with the same server_uuid/server_id";
/// The host name that we register for SHOW SLAVE HOSTS.
pub const HOST: &str = "remora";
/// The bytes of a packet before its payload: its length, and a number.
const HEAD_BYTES: usize = 4;
/// Bytes per read.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes per read from which on more is there already.
const MUCH_BYTES: usize = 64 << 10;
/// The longest event that a server writes.
const EVENT_BYTES_MAX: usize = 1 << 30;
/// How long a server may take to answer what goes before the log.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Which part of the binary log to request, and how.
#[derive(Clone, Debug)]
pub struct DumpRequest {
    /// The file.
    pub file: String,
    /// Where in it. It must be the beginning of an event.
    pub at: u32,
    /// The `server_id` to register with. The server ends the dump of another client with the same one.
    pub server_id: u32,
    /// Whether to end at the end of the log instead of waiting for more.
    pub ends: bool,
    /// Semi-synchronous replication: COMMIT waits until we acknowledge the event.
    pub acknowledges: bool,
    /// How often the server sends a heartbeat when there are no events.
    pub heartbeat: Duration,
}

/// What was received.
#[derive(Debug)]
pub enum Packet<'a> {
    /// An event.
    Event {
        /// All of its bytes.
        bytes: &'a [u8],
        /// Whether a COMMIT waits for [`BinlogDump::acknowledge`].
        waits: bool,
    },
    /// No event, or only a part of one, arrived in time.
    Nothing,
    /// The end of the log.
    End,
}

/// A running binary log dump.
pub struct BinlogDump {
    wire: Wire,
    target: String,
    what: String,
    server_id: u32,
    is_semi_sync: bool,
    has_sums: bool,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where the payload is in the buffer, if all of it is.
    whole: Range<usize>,
    /// The payload, if it is longer: of several packets perhaps.
    long: Vec<u8>,
    /// How many bytes of its present packet are still to come, and whether another packet of it follows.
    left: usize,
    goes_on: bool,
    /// When something came last.
    heard: Instant,
}

impl Target {
    /// Requests the binary log over a new connection.
    ///
    /// # Errors
    /// Those of connecting and of a statement.
    pub fn dump(&self, from: &DumpRequest) -> Result<BinlogDump, Error> {
        let what = format!("the binary log {} from {}", from.file, from.at);
        let mut dump = BinlogDump::over(Wire::open(self)?, (self.to_string(), what), from);
        dump.ask(&format!("SET @master_heartbeat_period = {}", from.heartbeat.as_nanos()))?;
        // Without it the server refuses a log with checksums.
        dump.ask("SET @master_binlog_checksum = @@global.binlog_checksum")?;
        let sums = dump.ask("SELECT @master_binlog_checksum")?;
        dump.has_sums = sums.is_some_and(|method| method != b"NONE");
        let about = dump.ask("SELECT CONCAT(@@version, ' ', @@version_comment)")?.unwrap_or_default();
        // It knows all events of MariaDB: none is left out or replaced.
        let uuid = format!("72656d6f-7261-4000-8000-{:012x}", from.server_id);
        // MySQL 5.6 sends everybody who asks for SHOW SLAVE HOSTS rows that are too short if a replica has no
        // UUID.
        dump.ask(&format!(
            "SET @mariadb_slave_capability = 4, @slave_uuid = '{uuid}', @replica_uuid = '{uuid}'"
        ))?;
        if from.acknowledges {
            // The second name is that of MySQL 8.0.26 and later.
            dump.ask("SET @rpl_semi_sync_slave = 1, @rpl_semi_sync_replica = 1")?;
        }
        dump.register(from.server_id)?;
        let mut command = vec![DUMP];
        command.extend_from_slice(&from.at.to_le_bytes());
        command.extend_from_slice(&flags(&about, from.ends).to_le_bytes());
        command.extend_from_slice(&from.server_id.to_le_bytes());
        command.extend_from_slice(from.file.as_bytes());
        dump.send(&command)?;
        Ok(dump)
    }
}

/// The flags of the request. `about`: what the server says of its version.
fn flags(about: &[u8], ends: bool) -> u16 {
    let is_mariadb = about.windows(MARIADB.len()).any(|part| part == MARIADB);
    let annotate = if is_mariadb { ANNOTATE } else { 0 };
    annotate | if ends { NON_BLOCK } else { 0 }
}

/// The length of the payload of a packet that begins with these bytes, if they are enough to tell it.
fn length(packet: &[u8]) -> Option<usize> {
    let (&[low, middle, high, _], _) = packet.split_first_chunk::<HEAD_BYTES>()?;
    Some(usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16)
}

impl BinlogDump {
    /// A connection over which nothing was said yet.
    fn over(wire: Wire, (target, what): (String, String), from: &DumpRequest) -> BinlogDump {
        BinlogDump {
            wire,
            target,
            what,
            server_id: from.server_id,
            is_semi_sync: from.acknowledges,
            has_sums: false,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            whole: 0..0,
            long: Vec::new(),
            left: 0,
            goes_on: false,
            heard: Instant::now(),
        }
    }

    /// Says who we are, for SHOW SLAVE HOSTS.
    fn register(&mut self, server_id: u32) -> Result<(), Error> {
        let mut command = vec![REGISTER];
        command.extend_from_slice(&server_id.to_le_bytes());
        // The host, the account and its password, each after a byte with its length.
        command.extend(u8::try_from(HOST.len()));
        command.extend_from_slice(HOST.as_bytes());
        command.extend_from_slice(&[0; 2]);
        // The port, a rank that is not used, and the number of our source, which the server fills in.
        command.extend_from_slice(&[0; 10]);
        self.send(&command)?;
        self.answer()?;
        if self.payload().first() == Some(&0) { Ok(()) } else { Err(self.said()) }
    }

    /// Runs a statement. Returns the short value that it selects, if it does.
    fn ask(&mut self, sql: &str) -> Result<Option<Vec<u8>>, Error> {
        self.send(&[&[QUERY], sql.as_bytes()].concat())?;
        self.answer()?;
        match self.payload().first() {
            Some(0) => return Ok(None),
            Some(0xFF) | None => return Err(self.said()),
            Some(_) => {}
        }
        // The column, an end, the row, an end.
        let mut value = None;
        let mut ends = 0;
        while ends < 2 {
            self.answer()?;
            match self.payload() {
                payload @ [0xFE, ..] if payload.len() < 9 => ends += 1,
                [0xFF, ..] => return Err(self.said()),
                // A byte with its length goes before the value, or one that says NULL.
                [len, bytes @ ..] if ends == 1 && usize::from(*len) == bytes.len() => {
                    value = Some(bytes.to_vec());
                }
                _ => {}
            }
        }
        Ok(value)
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        let mut packet = payload.len().to_le_bytes()[..3].to_vec();
        packet.push(0);
        packet.extend_from_slice(payload);
        self.wire.write(&packet).map_err(|error| self.lost(&error))
    }

    /// The next event, or [`Packet::Nothing`] after this time.
    ///
    /// # Errors
    /// [`Error::Sql`] and [`Error::Privilege`] are what the server says; [`Error::LostConnection`].
    pub fn next(&mut self, wait: Duration) -> Result<Packet<'_>, Error> {
        if !self.receive(wait)? {
            return Ok(Packet::Nothing);
        }
        let bytes = match self.payload() {
            [0, bytes @ ..] => bytes,
            payload @ [0xFE, ..] if payload.len() < 9 => return Ok(Packet::End),
            _ => return Err(self.said()),
        };
        Ok(match bytes {
            [SEMI_SYNC, waits, bytes @ ..] if self.is_semi_sync => {
                Packet::Event { bytes, waits: *waits == 1 }
            }
            _ => Packet::Event { bytes, waits: false },
        })
    }

    /// Whether events end with checksums before the first FORMAT_DESCRIPTION says so.
    #[must_use]
    pub fn has_sums(&self) -> bool {
        self.has_sums
    }

    /// Whether another complete packet has already been received.
    #[must_use]
    pub fn has_more(&self) -> bool {
        let came = self.buffer.get(self.start..self.end).unwrap_or_default();
        length(came).is_some_and(|len| came.len() - HEAD_BYTES >= len)
    }

    /// The time since anything was last received.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.heard.elapsed()
    }

    /// Whether an event has been received only in part.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        (self.start < self.end && !self.has_more()) || self.left > 0 || self.goes_on
    }

    /// Lets more come if all is read that came, and it was little. A server sends each transaction as soon as
    /// it is written: then both sides wake up for it. While nobody reads, the connection fills, and what
    /// follows is sent together.
    #[expect(clippy::disallowed_methods, reason = "what is waited for is that time passes")]
    pub fn gather(&self, pause: Duration) {
        if self.start == self.end && self.end < MUCH_BYTES {
            std::thread::sleep(pause);
        }
    }

    /// Acknowledges everything up to this position as durable, for which COMMIT waits.
    ///
    /// # Errors
    /// [`Error::LostConnection`].
    pub fn acknowledge(&mut self, file: &str, at: u64) -> Result<(), Error> {
        let mut payload = vec![SEMI_SYNC];
        payload.extend_from_slice(&at.to_le_bytes());
        payload.extend_from_slice(file.as_bytes());
        self.send(&payload)
    }

    /// Reads an answer.
    fn answer(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        // A signal ends the wait earlier.
        while !self.receive(ANSWER_MAX)? {
            if began.elapsed() >= ANSWER_MAX {
                return Err(self.lost(&io::Error::other("it does not answer")));
            }
        }
        Ok(())
    }

    /// Reads a payload. Returns false if not all of it arrived in time. What arrived is kept, and nothing
    /// waits longer: a network that fails within an event must not keep the caller from other work.
    fn receive(&mut self, wait: Duration) -> Result<bool, Error> {
        // What is here already needs no clock.
        let until = if self.has_more() { None } else { Some(Instant::now() + wait) };
        if self.left == 0 && !self.goes_on {
            self.long.clear();
        }
        loop {
            if self.left == 0 {
                if !self.need(HEAD_BYTES, until)? {
                    return Ok(false);
                }
                let len = self.buffer.get(self.start..self.end).and_then(length).unwrap_or_default();
                let short = HEAD_BYTES + len;
                if self.long.is_empty() && short <= BUFFER_BYTES {
                    if !self.need(short, until)? {
                        return Ok(false);
                    }
                    self.whole = self.start + HEAD_BYTES..self.start + short;
                    self.start += short;
                    return Ok(true);
                }
                if self.long.len() + len > EVENT_BYTES_MAX {
                    let what = format!("{}: an event of more than 1 GiB", self.what);
                    return Err(Error::Protocol { what });
                }
                self.start += HEAD_BYTES;
                (self.left, self.goes_on) = (len, len == PAYLOAD_MAX);
            }
            while self.left > 0 {
                if !self.need(1, until)? {
                    return Ok(false);
                }
                let piece = self.left.min(self.end - self.start);
                let bytes = self.buffer.get(self.start..self.start + piece).unwrap_or_default();
                self.long.extend_from_slice(bytes);
                self.start += piece;
                self.left -= piece;
            }
            if !self.goes_on {
                return Ok(true);
            }
        }
    }

    /// What was read last.
    fn payload(&self) -> &[u8] {
        if self.long.is_empty() {
            self.buffer.get(self.whole.clone()).unwrap_or_default()
        } else {
            &self.long
        }
    }

    /// Makes at least this many bytes available: few enough for the buffer. Returns false if they are not
    /// there by then; without a time it does not wait.
    fn need(&mut self, bytes: usize, until: Option<Instant>) -> Result<bool, Error> {
        if self.end - self.start < bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < bytes {
            let wait = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if !self.wire.arrives(wait).map_err(|error| self.lost(&error))? {
                return Ok(false);
            }
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.wire.read(room) {
                Ok(0) => return Err(self.lost(&io::Error::other("the server closed the connection"))),
                Ok(got) => self.end += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
            self.heard = Instant::now();
        }
        Ok(true)
    }

    /// What the server says instead of an event.
    fn said(&self) -> Error {
        let said = stream::server_error(self.payload());
        if crate::access_denied::is_denial(said.code) {
            return Error::Privilege {
                what: format!("{} may not read the binary log", self.target),
                grant: "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO the account (REPLICATION CLIENT on MySQL)".to_owned(),
                code: said.code,
            };
        }
        if said.code == error_code::SLAVE_SAME_ID || said.message.contains(SAME_NUMBER) {
            return Error::SameNumber {
                target: self.target.clone(),
                server_id: self.server_id,
                who: "another replica or archiver has connected with".to_owned(),
            };
        }
        Error::Sql { code: said.code, state: said.state, message: said.message, statement: self.what.clone() }
    }

    fn lost(&self, error: &io::Error) -> Error {
        Error::LostConnection {
            target: self.target.clone(),
            why: error.to_string(),
            statement: self.what.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A moment in which nothing comes.
    const MOMENT: Duration = Duration::from_millis(2);

    fn dump() -> (BinlogDump, UnixStream) {
        let (own, peer) = UnixStream::pair().unwrap();
        let own: OwnedFd = own.into();
        let from = DumpRequest {
            file: "binlog.000001".to_owned(),
            at: 4,
            server_id: 1,
            ends: false,
            acknowledges: false,
            heartbeat: MOMENT,
        };
        let wire = Wire::Plain { _conn: Box::new(()), socket: own.into() };
        (BinlogDump::over(wire, ("a server".to_owned(), "a log".to_owned()), &from), peer)
    }

    /// The bit of annotations is another one for MySQL, whose heartbeats would have another kind.
    #[test]
    fn only_mariadb_is_asked_for_annotations() {
        assert_eq!(flags(b"10.11.19-MariaDB-log Debian", true), 3);
        assert_eq!(flags(b"11.8.2-log MariaDB Server", false), 2);
        assert_eq!(flags(b"9.7.4-2 (Debian)", true), 1);
        assert_eq!(flags(b"5.6.51-log MySQL Community Server (GPL)", false), 0);
    }

    /// An event of so many bytes as it is sent.
    fn packets(len: usize) -> Vec<u8> {
        let payload = [&[0][..], &vec![7; len]].concat();
        let mut all = Vec::new();
        for piece in payload.chunks(PAYLOAD_MAX) {
            all.extend_from_slice(&piece.len().to_le_bytes()[..3]);
            all.push(0);
            all.extend_from_slice(piece);
        }
        if payload.len().is_multiple_of(PAYLOAD_MAX) {
            all.extend_from_slice(&[0; 4]);
        }
        all
    }

    fn event(dump: &mut BinlogDump) -> usize {
        loop {
            match dump.next(MOMENT).unwrap() {
                Packet::Event { bytes, .. } if bytes.iter().all(|byte| *byte == 7) => return bytes.len(),
                Packet::Nothing => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_server_that_stalls_within_an_event_is_not_waited_for() {
        let long = [BUFFER_BYTES - 5, BUFFER_BYTES - 4, BUFFER_BYTES, PAYLOAD_MAX - 1, PAYLOAD_MAX + 9];
        for len in [20, 300].into_iter().chain(long) {
            let (mut dump, peer) = dump();
            let bytes = packets(len);
            for cut in [1, 4, 5, bytes.len() / 2, bytes.len() - 5, bytes.len() - 1] {
                let write = |bytes: &[u8]| (&peer).write_all(bytes).unwrap();
                std::thread::scope(|scope| {
                    let writer = scope.spawn(|| write(&bytes[..cut]));
                    while !writer.is_finished() {
                        assert!(matches!(dump.next(MOMENT), Ok(Packet::Nothing)), "{len} {cut}");
                    }
                    assert!(matches!(dump.next(MOMENT), Ok(Packet::Nothing)), "{len} {cut}");
                    assert!(dump.is_amid() && !dump.has_more(), "{len} {cut}");
                    scope.spawn(|| write(&[&bytes[cut..], &packets(30)].concat()));
                    assert_eq!((event(&mut dump), event(&mut dump)), (len, 30), "{cut}");
                    assert!(!dump.is_amid(), "{len} {cut}");
                });
            }
        }
    }
}
