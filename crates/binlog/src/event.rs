//! Events, which a log consists of.
//!
//! Facts: `log_event.h` and `log_event.cc` of MariaDB's source, `libs/mysql/binlog/event` of MySQL's, and
//! MySQL's documents on its replication protocol.

pub mod format;
pub mod gtid;
mod kind;
mod metadata;
pub mod mysql_gtid;
pub mod payload;
pub mod query;
pub mod rows;
pub mod small;
pub mod table;

use std::borrow::Cow;
use std::rc::Rc;

use crate::Corrupt;
use crate::error::Flaw;
use crate::wire::{self, Wire};
use format::Format;
use gtid::{Gtid, GtidList};
pub use kind::{Change, Kind};
use mysql_gtid::{Ranges, Tsid};
use payload::Payload;
use query::Query;
use rows::Rows;
use small::{Checkpoint, Encryption, ExecuteLoad, LoadBlock, Rotate, UserVariable, XaPrepare};
use table::Table;

/// What a log begins with.
pub const MAGIC: [u8; 4] = [0xFE, b'b', b'i', b'n'];
/// Bytes of a header, at least.
pub(crate) const HEADER_BYTES: usize = 19;
/// Bytes of a checksum.
pub(crate) const SUM_BYTES: usize = 4;
/// Where the flags are in a header.
pub const FLAGS_AT: usize = 17;

/// The file is being written, or its server was killed.
pub const IN_USE: u16 = 0x1;
/// Made for the reader; it is in no log file.
pub const ARTIFICIAL: u16 = 0x20;
/// The file is a relay log: its first event says so.
pub const RELAY: u16 = 0x40;
/// Readers that do not know the event may skip it.
pub const IGNORABLE: u16 = 0x80;

/// The first bytes of a file, as many as [`is_relayed`] needs.
pub const FIRST_BYTES: usize = MAGIC.len() + HEADER_BYTES;

/// Whether a file that begins with these bytes is a replica's copy of its source's log, whatever its name is.
#[must_use]
pub fn is_relayed(first: &[u8]) -> bool {
    let header = first.strip_prefix(&MAGIC).and_then(|rest| rest.first_chunk());
    header.is_some_and(|header| Header::parse(*header).flags & RELAY != 0)
}

/// What every event begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// When the statement began, or the transaction ended; seconds since 1970.
    pub timestamp: u32,
    /// What it is.
    pub kind: Kind,
    /// The `server_id` of the server that wrote it.
    pub server_id: u32,
    /// Its length in bytes, with header and checksum.
    pub len: u32,
    /// The offset of the next event in the log of the server that wrote it, modulo 2^32.
    pub next_position: u32,
    /// Such as [`IN_USE`].
    pub flags: u16,
}

impl Header {
    /// Reads the first 19 bytes of an event.
    pub(crate) fn parse(bytes: [u8; HEADER_BYTES]) -> Header {
        let [t0, t1, t2, t3, kind, s0, s1, s2, s3, l0, l1, l2, l3, p0, p1, p2, p3, f0, f1] = bytes;
        Header {
            timestamp: u32::from_le_bytes([t0, t1, t2, t3]),
            kind: Kind(kind),
            server_id: u32::from_le_bytes([s0, s1, s2, s3]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            next_position: u32::from_le_bytes([p0, p1, p2, p3]),
            flags: u16::from_le_bytes([f0, f1]),
        }
    }
}

/// An event whose checksum is correct.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Where it begins in the file or stream; if it was decompressed, where its TRANSACTION_PAYLOAD begins.
    pub at: u64,
    /// Its header.
    pub header: Header,
    /// The body: what follows the header, without the checksum.
    pub body: &'a [u8],
    /// The format of the log.
    pub format: &'a Format,
    /// The offset after it.
    pub(crate) end: u64,
}

/// The content of an event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Body<'a> {
    /// The format of the events after it.
    Format(Box<Format>),
    /// The next file.
    Rotate(Rotate<'a>),
    /// The server was stopped.
    Stop,
    /// A statement.
    Query(Query<'a>),
    /// A transaction was committed; InnoDB's number for it.
    Xid(u64),
    /// The value of LAST_INSERT_ID (1) or of the first AUTO_INCREMENT (2) for the next statement.
    Intvar(u8, u64),
    /// The seeds of RAND for the next statement.
    Rand(u64, u64),
    /// A user variable for the next statement.
    UserVariable(UserVariable<'a>),
    /// The table of the rows after it.
    Table(Rc<Table>),
    /// Rows.
    Rows(Rows<'a>),
    /// The statement whose rows follow, of MariaDB (ANNOTATE_ROWS) or MySQL (ROWS_QUERY).
    Annotate(&'a [u8]),
    /// MariaDB's start of a transaction or statement.
    Gtid(Gtid<'a>),
    /// MariaDB's GTID state before this file.
    GtidList(GtidList),
    /// The oldest file that a recovery needs.
    Checkpoint(Checkpoint<'a>),
    /// The rest of the file is encrypted.
    Encryption(Encryption),
    /// MySQL's start of a transaction or statement; `None` if it is anonymous.
    MySqlGtid(Option<(Tsid, u64)>),
    /// MySQL's executed GTIDs before this file, by source.
    PreviousGtids(Vec<(Tsid, Ranges)>),
    /// The events of a transaction, compressed. [`crate::reader::Reader::unpacking`] gives them instead.
    Payload(Payload<'a>),
    /// A heartbeat: nothing happened up to this position of this file.
    Heartbeat(&'a [u8]),
    /// A part of a LOAD DATA file.
    LoadBlock(LoadBlock<'a>),
    /// LOAD DATA of a file whose parts came before.
    ExecuteLoad(ExecuteLoad<'a>),
    /// A LOAD DATA file is no longer needed: its number.
    DeleteFile(u32),
    /// XA PREPARE, or XA COMMIT ... ONE PHASE.
    XaPrepare(XaPrepare<'a>),
    /// An incident: something happened that is not in the log. Its number and a message.
    Incident(u16, &'a [u8]),
    /// An event of a kind that this crate does not know.
    Unknown,
}

/// Checks the checksum at the end of an event. That of the first event was computed before the file was in
/// use.
pub(crate) fn check_sum(event: &[u8], header: Header, at: u64) -> Result<(), Corrupt> {
    let corrupt = |what: &str| Corrupt { what: what.to_owned(), place: place(header.kind, at) };
    let Some((bytes, sum)) = event.split_last_chunk::<SUM_BYTES>() else {
        return Err(corrupt("it is too short for a checksum"));
    };
    let stored = u32::from_le_bytes(*sum);
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    if header.kind == Kind::FORMAT_DESCRIPTION {
        let mut bytes = bytes.to_vec();
        if let Some(flags) = bytes.get_mut(FLAGS_AT) {
            *flags &= !(IN_USE.to_le_bytes()[0]);
        }
        digest.update(&bytes);
    } else {
        digest.update(bytes);
    }
    match digest.finalize() == u64::from(stored) {
        true => Ok(()),
        false if header.kind == Kind::FORMAT_DESCRIPTION => {
            Err(corrupt("wrong checksum, or of a server before MySQL 5.6 or MariaDB 5.3, which wrote none"))
        }
        false => Err(corrupt("wrong checksum")),
    }
}

impl<'a> Event<'a> {
    /// A single event, which will be at this offset.
    ///
    /// # Errors
    /// [`Corrupt`] if its length or its checksum is wrong.
    pub fn checked(bytes: &'a [u8], at: u64, format: &'a Format) -> Result<Event<'a>, Corrupt> {
        let event = Event::unchecked(bytes, at, format)?;
        if event.has_sum() {
            check_sum(bytes, event.header, at)?;
        }
        Ok(event)
    }

    /// Whether it ends with a checksum. FORMAT_DESCRIPTION does so in every log.
    fn has_sum(&self) -> bool {
        self.format.has_sums || self.header.kind == Kind::FORMAT_DESCRIPTION
    }

    /// The same without checking the checksum.
    ///
    /// # Errors
    /// [`Corrupt`] if its length is wrong.
    pub fn unchecked(bytes: &'a [u8], at: u64, format: &'a Format) -> Result<Event<'a>, Corrupt> {
        let corrupt = |kind, what: &str| Corrupt { what: what.to_owned(), place: place(kind, at) };
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(corrupt(Kind(0), "it is shorter than a header"));
        };
        let header = Header::parse(*head);
        let end = at.saturating_add(header.len.into());
        let mut event = Event { at, header, body: &[], format, end };
        let body_end = bytes.len().checked_sub(if event.has_sum() { SUM_BYTES } else { 0 });
        let body = body_end.and_then(|end| bytes.get(HEADER_BYTES..end));
        event.body = body
            .filter(|_| u64::from(header.len) == bytes.len() as u64)
            .ok_or_else(|| corrupt(header.kind, "its length field does not match its size"))?;
        Ok(event)
    }

    /// Whether readers that do not know it may skip it.
    #[must_use]
    pub fn is_ignorable(&self) -> bool {
        self.header.flags & IGNORABLE != 0
    }

    /// The offset after it; if it was decompressed, after its TRANSACTION_PAYLOAD.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Parses the body. For TABLE_MAP events [`crate::tables::Tables`] is faster, because it remembers them.
    ///
    /// # Errors
    /// [`Corrupt`] for a body that is too short, or that no server writes.
    pub fn parse(&self) -> Result<Body<'a>, Corrupt> {
        self.body().map_err(|flaw| flaw.at(self.place()))
    }

    /// The number of the table that it describes, or whose rows it has.
    ///
    /// # Errors
    /// [`Corrupt`] for a body that is too short.
    pub(crate) fn table_id(&self) -> Result<u64, Corrupt> {
        let len = self.format.table_id_bytes(self.header.kind);
        Wire(self.body).uint(len).map_err(|flaw| flaw.at(self.place()))
    }

    /// The table that it describes.
    pub(crate) fn table(&self) -> Result<Table, Corrupt> {
        described(Wire(self.body), self.format).map_err(|flaw| flaw.at(self.place()))
    }

    /// Its kind and its offset, for messages.
    #[must_use]
    pub fn place(&self) -> String {
        place(self.header.kind, self.at)
    }

    fn body(&self) -> Result<Body<'a>, Flaw> {
        let mut wire = Wire(self.body);
        let kind = self.header.kind;
        Ok(match kind {
            Kind::FORMAT_DESCRIPTION => Body::Format(Box::new(Format::parse(self.body)?)),
            Kind::ROTATE => Body::Rotate(Rotate::parse(wire)?),
            Kind::STOP => Body::Stop,
            Kind::QUERY | Kind::QUERY_COMPRESSED => Body::Query(Query::parse(wire, self.format, kind)?),
            Kind::XID => Body::Xid(wire.u64()?),
            Kind::INTVAR => Body::Intvar(wire.u8()?, wire.u64()?),
            Kind::RAND => Body::Rand(wire.u64()?, wire.u64()?),
            Kind::USER_VAR => Body::UserVariable(UserVariable::parse(wire)?),
            Kind::TABLE_MAP => Body::Table(Rc::new(described(wire, self.format)?)),
            kind if kind.rows().is_some() => Body::Rows(Rows::parse(wire, self.format, kind)?),
            Kind::ANNOTATE_ROWS => Body::Annotate(wire.rest()),
            Kind::ROWS_QUERY => Body::Annotate(small::rows_query(wire)?),
            Kind::GTID => Body::Gtid(Gtid::parse(wire, self.header.server_id)?),
            Kind::GTID_LIST => Body::GtidList(GtidList::parse(wire)?),
            Kind::BINLOG_CHECKPOINT => Body::Checkpoint(Checkpoint::parse(wire)?),
            Kind::START_ENCRYPTION => Body::Encryption(Encryption::parse(wire)?),
            Kind::MYSQL_GTID => Body::MySqlGtid(Some(mysql_gtid::untagged(wire)?)),
            Kind::GTID_TAGGED => Body::MySqlGtid(Some(mysql_gtid::tagged(wire)?)),
            Kind::ANONYMOUS_GTID => Body::MySqlGtid(None),
            Kind::PREVIOUS_GTIDS => Body::PreviousGtids(mysql_gtid::previous(wire)?),
            Kind::TRANSACTION_PAYLOAD => Body::Payload(Payload::parse(wire)?),
            Kind::HEARTBEAT => Body::Heartbeat(wire.rest()),
            Kind::HEARTBEAT_V2 => Body::Heartbeat(small::heartbeat(wire)?),
            Kind::BEGIN_LOAD_QUERY | Kind::APPEND_BLOCK => Body::LoadBlock(LoadBlock::parse(wire)?),
            Kind::EXECUTE_LOAD_QUERY => Body::ExecuteLoad(ExecuteLoad::parse(wire, self.format)?),
            Kind::DELETE_FILE => Body::DeleteFile(wire.u32()?),
            Kind::XA_PREPARE => Body::XaPrepare(XaPrepare::parse(wire)?),
            Kind::INCIDENT => Body::Incident(wire.u16()?, wire.short_text().unwrap_or_default()),
            _ => Body::Unknown,
        })
    }
}

/// A kind of event and its offset, for messages.
pub(crate) fn place(kind: Kind, at: u64) -> String {
    format!("{} at {at}", kind.name())
}

/// The table that a TABLE_MAP describes.
fn described(mut wire: Wire<'_>, format: &Format) -> Result<Table, Flaw> {
    let mut table = Table::parse(&mut wire, format)?;
    metadata::read(wire, &mut table, format.is_mariadb())?;
    Ok(table)
}

/// The bytes themselves, or decompressed.
fn unpacked(bytes: &[u8], is_packed: bool) -> Result<Cow<'_, [u8]>, Flaw> {
    if is_packed { wire::unpacked(bytes).map(Cow::Owned) } else { Ok(Cow::Borrowed(bytes)) }
}
