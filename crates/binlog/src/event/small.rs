//! Events with a few fields each.

use crate::error::Flaw;
use crate::event::Kind;
use crate::event::format::Format;
use crate::event::gtid::Xid;
use crate::event::query::{Head, Query};
use crate::wire::Wire;

/// Bytes of EXECUTE_LOAD_QUERY with a fixed place: those of a statement and 13 more.
const LOAD_MORE_BYTES: usize = 13;

/// The next file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Where it is to be read from.
    pub position: u64,
    /// Its name.
    pub file: &'a [u8],
}

impl<'a> Rotate<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>) -> Result<Rotate<'a>, Flaw> {
        Ok(Rotate { position: wire.u64()?, file: wire.rest() })
    }
}

/// The statement whose rows follow, as MySQL has it: the length in front is modulo 256.
pub(crate) fn rows_query(mut wire: Wire<'_>) -> Result<&[u8], Flaw> {
    wire.u8()?;
    Ok(wire.rest())
}

/// The name of the file in a heartbeat of MySQL's second form: fields with a kind and a length.
pub(crate) fn heartbeat(mut wire: Wire<'_>) -> Result<&[u8], Flaw> {
    let mut name: &[u8] = &[];
    loop {
        let field = wire.packed()?;
        if field == 0 {
            return Ok(name);
        }
        let len = wire.packed_len()?;
        let value = wire.take(len)?;
        if field == 1 {
            name = value;
        }
    }
}

/// A user variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserVariable<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value; `None` is NULL.
    pub value: Option<UserValue<'a>>,
}

/// The value of a user variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserValue<'a> {
    /// 0 text, 1 double, 2 integer, 4 decimal.
    pub kind: u8,
    /// The number of its collation.
    pub collation: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Whether an integer is unsigned.
    pub is_unsigned: bool,
}

impl<'a> UserVariable<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>) -> Result<UserVariable<'a>, Flaw> {
        let len = wire.uint(4)?;
        let name = wire.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        if wire.u8()? != 0 {
            return Ok(UserVariable { name, value: None });
        }
        let (kind, collation, len) = (wire.u8()?, wire.u32()?, wire.uint(4)?);
        let bytes = wire.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        let is_unsigned = wire.u8().unwrap_or(0) & 1 != 0;
        Ok(UserVariable { name, value: Some(UserValue { kind, collation, bytes, is_unsigned }) })
    }
}

/// The oldest file that a recovery of the server needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint<'a> {
    /// Its name.
    pub file: &'a [u8],
}

impl<'a> Checkpoint<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>) -> Result<Checkpoint<'a>, Flaw> {
        let len = wire.u32()?;
        Ok(Checkpoint { file: wire.take(usize::try_from(len).unwrap_or(usize::MAX))? })
    }
}

/// The rest of the file is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The method.
    pub scheme: u8,
    /// The version of the key.
    pub key_version: u32,
}

impl Encryption {
    pub(crate) fn parse(mut wire: Wire<'_>) -> Result<Encryption, Flaw> {
        let (scheme, key_version) = (wire.u8()?, wire.u32()?);
        wire.take(12)?;
        Ok(Encryption { scheme, key_version })
    }
}

/// A part of a file of LOAD DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBlock<'a> {
    /// Which file.
    pub file_id: u32,
    /// The part.
    pub bytes: &'a [u8],
}

impl<'a> LoadBlock<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>) -> Result<LoadBlock<'a>, Flaw> {
        Ok(LoadBlock { file_id: wire.u32()?, bytes: wire.rest() })
    }
}

/// LOAD DATA of a file whose parts came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecuteLoad<'a> {
    /// The statement.
    pub query: Query<'a>,
    /// Which file.
    pub file_id: u32,
    /// Where the name of the file begins and ends in the statement.
    pub name: (u32, u32),
    /// 0: a duplicate is an error, 1: IGNORE, 2: REPLACE.
    pub duplicates: u8,
}

impl<'a> ExecuteLoad<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>, format: &Format) -> Result<ExecuteLoad<'a>, Flaw> {
        let head = Head::parse(&mut wire, format, Kind::EXECUTE_LOAD_QUERY)?;
        // A format that was not read leaves these where the rest is.
        let mut more = match head.more.is_empty() {
            true => Wire(wire.take(LOAD_MORE_BYTES)?),
            false => Wire(head.more),
        };
        let (file_id, name, duplicates) = (more.u32()?, (more.u32()?, more.u32()?), more.u8()?);
        Ok(ExecuteLoad { query: head.query(wire, false)?, file_id, name, duplicates })
    }
}

/// The end of a distributed transaction's first half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XaPrepare<'a> {
    /// Whether it is committed with it.
    pub one_phase: bool,
    /// Its identifier.
    pub xid: Xid<'a>,
}

impl<'a> XaPrepare<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>) -> Result<XaPrepare<'a>, Flaw> {
        let (one_phase, format) = (wire.u8()? != 0, wire.u32()?);
        let (global, branch) = (wire.u32()?, wire.u32()?);
        if global > 64 || branch > 64 {
            return Err(Flaw("the identifier of a distributed transaction is too long"));
        }
        let [global, branch] = [global, branch].map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        let xid = Xid { format, global: wire.take(global)?, branch: wire.take(branch)? };
        Ok(XaPrepare { one_phase, xid })
    }
}
