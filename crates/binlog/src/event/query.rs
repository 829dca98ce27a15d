//! QUERY: a statement, and the settings of the session that it depends on.

use std::borrow::Cow;

use crate::error::Flaw;
use crate::event::format::Format;
use crate::event::{Kind, unpacked};
use crate::wire::Wire;

/// Bytes with a fixed place.
const FIXED_BYTES: usize = 13;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The session.
    pub thread_id: u32,
    /// How long it took, seconds.
    pub seconds: u32,
    /// The error that it ended with on its server.
    pub error: u16,
    /// The default database.
    pub schema: &'a [u8],
    /// The statement, in the character set of the client.
    pub sql: Cow<'a, [u8]>,
    /// The settings of the session.
    pub session: Session<'a>,
}

/// Settings of a session that a statement depends on, as far as they are in the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session<'a> {
    /// Bits such as FOREIGN_KEY_CHECKS=0.
    pub options: Option<u32>,
    /// The bits of `sql_mode`.
    pub sql_mode: Option<u64>,
    /// The numbers of the collations of the client, the connection and the server.
    pub charsets: Option<[u16; 3]>,
    /// `auto_increment_increment` and `auto_increment_offset`.
    pub auto_increment: Option<(u16, u16)>,
    /// `time_zone`.
    pub time_zone: Option<&'a [u8]>,
    /// `lc_time_names`.
    pub locale: Option<u16>,
    /// The collation of the default database.
    pub schema_collation: Option<u16>,
    /// The account that the definer is.
    pub invoker: Option<(&'a [u8], &'a [u8])>,
    /// Microseconds of the time at which it began.
    pub microseconds: Option<u32>,
    /// The number of a DDL statement that can be recovered.
    pub xid: Option<u64>,
}

impl<'a> Query<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>, format: &Format, kind: Kind) -> Result<Query<'a>, Flaw> {
        let head = Head::parse(&mut wire, format, kind)?;
        head.query(wire, kind == Kind::QUERY_COMPRESSED)
    }
}

/// The part of a statement with a fixed place.
pub(crate) struct Head<'a> {
    thread_id: u32,
    seconds: u32,
    schema_len: u8,
    error: u16,
    variables_len: u16,
    /// What is behind that: for LOAD DATA.
    pub(crate) more: &'a [u8],
}

impl<'a> Head<'a> {
    pub(crate) fn parse(wire: &mut Wire<'a>, format: &Format, kind: Kind) -> Result<Head<'a>, Flaw> {
        let fixed = format.fixed(kind, FIXED_BYTES);
        let mut head = Wire(wire.take(fixed)?);
        Ok(Head {
            thread_id: head.u32()?,
            seconds: head.u32()?,
            schema_len: head.u8()?,
            error: head.u16()?,
            variables_len: head.u16()?,
            more: head.rest(),
        })
    }

    pub(crate) fn query(self, mut wire: Wire<'a>, is_packed: bool) -> Result<Query<'a>, Flaw> {
        let session = Session::parse(Wire(wire.take(self.variables_len.into())?))?;
        let schema = wire.take(self.schema_len.into())?;
        if wire.u8()? != 0 {
            return Err(Flaw("the database name is not null-terminated"));
        }
        let sql = unpacked(wire.rest(), is_packed)?;
        let (thread_id, seconds, error) = (self.thread_id, self.seconds, self.error);
        Ok(Query { thread_id, seconds, error, schema, sql, session })
    }
}

impl<'a> Session<'a> {
    /// Reads settings up to one that is not known: only known ones have a known length.
    fn parse(mut wire: Wire<'a>) -> Result<Session<'a>, Flaw> {
        let mut this = Session::default();
        while !wire.is_empty() {
            match wire.u8()? {
                0 => this.options = Some(wire.u32()?),
                1 => this.sql_mode = Some(wire.u64()?),
                2 => {
                    wire.short_text_zero()?;
                }
                3 => this.auto_increment = Some((wire.u16()?, wire.u16()?)),
                4 => this.charsets = Some([wire.u16()?, wire.u16()?, wire.u16()?]),
                5 => this.time_zone = Some(wire.short_text()?),
                6 => {
                    wire.short_text()?;
                }
                7 => this.locale = Some(wire.u16()?),
                8 => this.schema_collation = Some(wire.u16()?),
                9 => {
                    wire.u64()?;
                }
                10 => {
                    wire.u32()?;
                }
                11 => this.invoker = Some((wire.short_text()?, wire.short_text()?)),
                12 => schemas(&mut wire)?,
                13 | 128 => this.microseconds = u32::try_from(wire.uint(3)?).ok(),
                129 => this.xid = Some(wire.u64()?),
                130 => {
                    if wire.u8()? & (4 | 8) != 0 {
                        wire.u64()?;
                    }
                }
                131 => {
                    let count = usize::from(wire.u8()?);
                    wire.take(4 * count)?;
                }
                _ => break,
            }
        }
        Ok(this)
    }
}

/// The databases that a statement changes, of MySQL; more than 254 are not named.
fn schemas(wire: &mut Wire<'_>) -> Result<(), Flaw> {
    let count = wire.u8()?;
    for _ in 0..if count == 254 { 0 } else { count } {
        let end = wire.0.iter().position(|byte| *byte == 0).ok_or(Flaw("a name is not null-terminated"))?;
        wire.take(end + 1)?;
    }
    Ok(())
}
