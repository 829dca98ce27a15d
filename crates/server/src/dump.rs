//! The binary log as a server sends it to a replica: event by event, as its file has them.
//!
//! The protocol is described in MariaDB's documents on replication ("Replica Registration",
//! "COM_BINLOG_DUMP", "Semi-Sync Replication"). The driver's own stream asks a server to leave out events, so
//! the packets are read here.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mysql::Conn;

use crate::secure::{self, Secure};
use crate::stream::{self, PAYLOAD_MAX};
use crate::{Error, Target, code};

const QUERY: u8 = 0x03;
const REGISTER: u8 = 0x15;
const DUMP: u8 = 0x12;
/// The server ends instead of waiting for more.
const NON_BLOCK: u16 = 1;
/// The statements of row changes come too.
const ANNOTATE: u16 = 2;
/// Marks packets of semi-synchronous replication.
const SEMI_SYNC: u8 = 0xEF;
/// What servers say, with different codes, to who has the same number as one that came later.
const SAME_NUMBER: &str = "with the same server_uuid/server_id";
/// The host that we name in SHOW SLAVE HOSTS.
pub const HOST: &str = "remora";
/// The bytes of a packet before its payload: its length, and a number.
const HEAD_BYTES: usize = 4;
/// Bytes per read.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes per read from which on more is there already.
const MUCH_BYTES: usize = 64 << 10;
/// The longest event that a server writes.
const EVENT_BYTES_MAX: usize = 1 << 30;

/// What part of a log is asked for, and how.
#[derive(Clone, Debug)]
pub struct From {
    /// The file.
    pub file: String,
    /// Where in it. It must be the beginning of an event.
    pub at: u32,
    /// The number by which the server knows us. It ends the dump of whoever else has the number.
    pub server_id: u32,
    /// Whether to end when all is sent, instead of waiting for more.
    pub ends: bool,
    /// Whether COMMIT waits until we say that an event is durable.
    pub acknowledges: bool,
    /// How often the server says that there is nothing to send.
    pub heartbeat: Duration,
}

/// What comes.
#[derive(Debug)]
pub enum Packet<'a> {
    /// An event.
    Event {
        /// All of its bytes.
        bytes: &'a [u8],
        /// Whether a COMMIT waits for [`Dump::acknowledge`].
        waits: bool,
    },
    /// Nothing came in time.
    Nothing,
    /// All is sent.
    End,
}

/// A log that a server sends.
pub struct Dump {
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
}

/// Where the packets come from.
enum Wire {
    /// A connection without TLS: the driver made it, and we have its socket.
    Plain {
        /// Ends the connection.
        _conn: Box<Conn>,
        socket: File,
    },
    Secure(Box<Secure>),
}

impl Wire {
    fn open(target: &Target) -> Result<Wire, Error> {
        if let Some(secure) = target.connect_securely()? {
            return Ok(Wire::Secure(Box::new(secure)));
        }
        let conn = target.connect()?.into_plain().ok_or_else(|| Error::Protocol {
            what: "the server offers TLS now, and did not a moment ago".to_owned(),
        })?;
        let socket = stream::socket(conn.as_raw_fd()).ok_or_else(|| Error::Protocol {
            what: "the system does not give out the connection's socket".to_owned(),
        })?;
        Ok(Wire::Plain { _conn: Box::new(conn), socket })
    }

    fn arrives(&mut self, wait: Duration) -> io::Result<bool> {
        match self {
            Wire::Plain { socket, .. } => secure::arrives(socket, wait),
            Wire::Secure(secure) => secure.arrives(wait),
        }
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain { socket, .. } => socket.read(room),
            Wire::Secure(secure) => secure.read(room),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Wire::Plain { socket, .. } => socket.write_all(bytes),
            Wire::Secure(secure) => secure.write_all(bytes).and_then(|()| secure.flush()),
        }
    }
}

impl Target {
    /// Asks for the binary log, over a connection of its own.
    ///
    /// # Errors
    /// Those of connecting and of a statement.
    pub fn dump(&self, from: &From) -> Result<Dump, Error> {
        let mut dump = Dump {
            wire: Wire::open(self)?,
            target: self.to_string(),
            what: format!("the binary log {} from {}", from.file, from.at),
            server_id: from.server_id,
            is_semi_sync: from.acknowledges,
            has_sums: false,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            whole: 0..0,
            long: Vec::new(),
        };
        dump.ask(&format!("SET @master_heartbeat_period = {}", from.heartbeat.as_nanos()))?;
        // Without it the server refuses a log with checksums.
        dump.ask("SET @master_binlog_checksum = @@global.binlog_checksum")?;
        let sums = dump.ask("SELECT @master_binlog_checksum")?;
        dump.has_sums = sums.is_some_and(|method| method != b"NONE");
        // It knows all events of MariaDB: none is left out or replaced.
        dump.ask("SET @mariadb_slave_capability = 4")?;
        if from.acknowledges {
            dump.ask("SET @rpl_semi_sync_slave = 1")?;
        }
        dump.register(from.server_id)?;
        let mut command = vec![DUMP];
        command.extend_from_slice(&from.at.to_le_bytes());
        let flags = ANNOTATE | if from.ends { NON_BLOCK } else { 0 };
        command.extend_from_slice(&flags.to_le_bytes());
        command.extend_from_slice(&from.server_id.to_le_bytes());
        command.extend_from_slice(from.file.as_bytes());
        dump.send(&command)?;
        Ok(dump)
    }
}

/// The length of the payload of a packet that begins with these bytes, if they are enough to tell it.
fn length(packet: &[u8]) -> Option<usize> {
    let (&[low, middle, high, _], _) = packet.split_first_chunk::<HEAD_BYTES>()?;
    Some(usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16)
}

impl Dump {
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
        self.receive(None)?;
        if self.payload().first() == Some(&0) { Ok(()) } else { Err(self.said()) }
    }

    /// Runs a statement. Returns the short value that it selects, if it does.
    fn ask(&mut self, sql: &str) -> Result<Option<Vec<u8>>, Error> {
        self.send(&[&[QUERY], sql.as_bytes()].concat())?;
        self.receive(None)?;
        match self.payload().first() {
            Some(0) => return Ok(None),
            Some(0xFF) | None => return Err(self.said()),
            Some(_) => {}
        }
        // The column, an end, the row, an end.
        let mut value = None;
        let mut ends = 0;
        while ends < 2 {
            self.receive(None)?;
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
        if !self.receive(Some(wait))? {
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

    /// Whether another packet is here already, whole.
    #[must_use]
    pub fn has_more(&self) -> bool {
        let came = self.buffer.get(self.start..self.end).unwrap_or_default();
        length(came).is_some_and(|len| came.len() - HEAD_BYTES >= len)
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

    /// Says that everything up to there is durable. Every COMMIT that waits for it ends.
    ///
    /// # Errors
    /// [`Error::LostConnection`].
    pub fn acknowledge(&mut self, file: &str, at: u64) -> Result<(), Error> {
        let mut payload = vec![SEMI_SYNC];
        payload.extend_from_slice(&at.to_le_bytes());
        payload.extend_from_slice(file.as_bytes());
        self.send(&payload)
    }

    /// Reads a payload. Returns false if it did not begin to arrive in time.
    fn receive(&mut self, wait: Option<Duration>) -> Result<bool, Error> {
        if let Some(wait) = wait
            && self.start == self.end
            && !self.wire.arrives(wait).map_err(|error| self.lost(&error))?
        {
            return Ok(false);
        }
        self.long.clear();
        loop {
            self.need(HEAD_BYTES)?;
            let len = self.buffer.get(self.start..self.end).and_then(length).unwrap_or_default();
            self.start += HEAD_BYTES;
            if self.long.is_empty() && len <= BUFFER_BYTES {
                self.need(len)?;
                self.whole = self.start..self.start + len;
                self.start += len;
                return Ok(true);
            }
            if self.long.len() + len > EVENT_BYTES_MAX {
                return Err(Error::Protocol { what: format!("{}: an event of more than 1 GiB", self.what) });
            }
            let mut left = len;
            while left > 0 {
                self.need(1)?;
                let piece = left.min(self.end - self.start);
                let bytes = self.buffer.get(self.start..self.start + piece).unwrap_or_default();
                self.long.extend_from_slice(bytes);
                self.start += piece;
                left -= piece;
            }
            if len < PAYLOAD_MAX {
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

    /// Makes at least this many bytes available: few enough for the buffer.
    fn need(&mut self, bytes: usize) -> Result<(), Error> {
        if self.end - self.start < bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < bytes {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.wire.read(room) {
                Ok(0) => return Err(self.lost(&io::Error::other("the server closed the connection"))),
                Ok(got) => self.end += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
        Ok(())
    }

    /// What the server says instead of an event.
    fn said(&self) -> Error {
        let said = stream::server_error(self.payload());
        if crate::privilege::is_denial(said.code) {
            return Error::Privilege {
                what: format!("{} may not read the binary log", self.target),
                grant: "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO the account (REPLICATION CLIENT on MySQL)".to_owned(),
                code: said.code,
            };
        }
        if said.code == code::SLAVE_SAME_ID || said.message.contains(SAME_NUMBER) {
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
