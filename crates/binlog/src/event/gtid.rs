//! GTIDs of MariaDB.

use std::fmt;
use std::str::FromStr;

use crate::error::Flaw;
use crate::wire::Wire;

/// One event follows, and no end of a transaction.
const STANDALONE: u8 = 0x01;
/// The number of a group commit follows.
const HAS_COMMIT_ID: u8 = 0x02;
const PREPARED_XA: u8 = 0x40;
const COMPLETED_XA: u8 = 0x80;

/// A GTID of MariaDB, written as `0-1-42`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    /// The domain, an order of its own.
    pub domain: u32,
    /// The `server_id` of the server that assigned it.
    pub server_id: u32,
    /// The sequence number in the domain.
    pub sequence: u64,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server_id, self.sequence)
    }
}

impl FromStr for Number {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Number, &'static str> {
        let error = "a GTID is three numbers, such as 0-1-42";
        let mut parts = text.split('-');
        let mut next = || parts.next().ok_or(error);
        let (domain, server_id, sequence) = (next()?, next()?, next()?);
        let number = Number {
            domain: domain.parse().map_err(|_| error)?,
            server_id: server_id.parse().map_err(|_| error)?,
            sequence: sequence.parse().map_err(|_| error)?,
        };
        if parts.next().is_some() { Err(error) } else { Ok(number) }
    }
}

/// MariaDB's start of a transaction, or of a single statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gtid<'a> {
    /// Its GTID.
    pub number: Number,
    /// The bits that say what follows.
    pub flags: u8,
    /// Transactions with the same number were committed together.
    pub commit_id: Option<u64>,
    /// The identifier of a distributed transaction.
    pub xid: Option<Xid<'a>>,
    /// Further bits, since MariaDB 10.8.
    pub flags_extra: u8,
    /// The number of the transaction that began an ALTER TABLE which this one ends.
    pub alter_began: Option<u64>,
    /// The session, since MariaDB 11.5.
    pub thread_id: Option<u32>,
}

/// The identifier of a distributed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xid<'a> {
    /// The kind of identifier.
    pub format: u32,
    /// The global part.
    pub global: &'a [u8],
    /// The part of a branch.
    pub branch: &'a [u8],
}

impl<'a> Gtid<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>, server_id: u32) -> Result<Gtid<'a>, Flaw> {
        // Short ones are filled up with zeros.
        if wire.0.len() < 19 {
            return Err(Flaw("it ends too early"));
        }
        let (sequence, domain, flags) = (wire.u64()?, wire.u32()?, wire.u8()?);
        let commit_id = (flags & HAS_COMMIT_ID != 0).then(|| wire.u64()).transpose()?;
        let xid = (flags & (PREPARED_XA | COMPLETED_XA) != 0).then(|| Xid::parse(&mut wire)).transpose()?;
        let flags_extra = wire.u8().unwrap_or(0);
        if flags_extra & 1 != 0 {
            // How many more engines take part.
            wire.u8()?;
        }
        let alter_began = (flags_extra & (4 | 8) != 0).then(|| wire.u64()).transpose()?;
        let thread_id = (flags_extra & 16 != 0).then(|| wire.u32()).transpose()?;
        let number = Number { domain, server_id, sequence };
        Ok(Gtid { number, flags, commit_id, xid, flags_extra, alter_began, thread_id })
    }

    /// Whether it is a single statement, without a commit event.
    #[must_use]
    pub fn is_standalone(&self) -> bool {
        self.flags & STANDALONE != 0
    }
}

impl<'a> Xid<'a> {
    fn parse(wire: &mut Wire<'a>) -> Result<Xid<'a>, Flaw> {
        let (format, global, branch) = (wire.u32()?, wire.u8()?, wire.u8()?);
        Ok(Xid { format, global: wire.take(global.into())?, branch: wire.take(branch.into())? })
    }
}

/// MariaDB's last GTID of every domain and server before a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GtidList {
    /// The four highest bits say what it is for.
    pub flags: u8,
    /// The transactions.
    pub numbers: Vec<Number>,
}

impl GtidList {
    pub(crate) fn parse(mut wire: Wire<'_>) -> Result<GtidList, Flaw> {
        let [b0, b1, b2, b3] = wire.u32()?.to_le_bytes();
        let count = u32::from_le_bytes([b0, b1, b2, b3 & 0x0F]);
        let mut numbers = Vec::new();
        for _ in 0..count {
            let (domain, server_id) = (wire.u32()?, wire.u32()?);
            numbers.push(Number { domain, server_id, sequence: wire.u64()? });
        }
        Ok(GtidList { flags: b3 >> 4, numbers })
    }
}
