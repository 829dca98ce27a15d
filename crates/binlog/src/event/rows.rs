//! Events with rows: which columns they have, and the rows as bytes.

use std::borrow::Cow;

use crate::error::Flaw;
use crate::event::format::Format;
use crate::event::kind::{Change, Kind};
use crate::event::unpacked;
use crate::wire::Wire;

/// The last event of a statement.
const ENDS_STATEMENT: u16 = 0x1;
/// Foreign keys were not checked: the session wants it so, or a foreign key changed these rows itself.
const UNCHECKED: u16 = 0x2;
/// The server itself, and not InnoDB, did what foreign keys say, so that it is in the log: MySQL from 9.6 on.
const LOGS_CASCADES: u16 = 0x10;

/// The rows of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<'a> {
    /// What happened to them.
    pub change: Change,
    /// The number of their table.
    pub table_id: u64,
    /// Such as the end of a statement, and whether foreign keys and unique keys were checked.
    pub flags: u16,
    /// The number of columns of the table.
    pub columns: usize,
    /// A bit for each column that is in the image of a row before the change. `None`: there is no such image.
    pub before: Option<&'a [u8]>,
    /// The same, after the change.
    pub after: Option<&'a [u8]>,
    /// Whether the image after the change may have only the changed parts of JSON documents.
    pub is_partial: bool,
    /// The images.
    pub data: Cow<'a, [u8]>,
}

impl<'a> Rows<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>, format: &Format, kind: Kind) -> Result<Rows<'a>, Flaw> {
        let form = kind.rows().ok_or(Flaw("it has no rows"))?;
        let table_id = wire.uint(format.table_id_bytes(kind))?;
        let flags = wire.u16()?;
        if form.has_extra {
            let len = usize::from(wire.u16()?).checked_sub(2);
            wire.take(len.ok_or(Flaw("the length of its extra data is wrong"))?)?;
        }
        let columns = wire.packed_len()?;
        let bitmap = columns.div_ceil(8);
        let first = Some(wire.take(bitmap)?);
        let (before, after) = match form.change {
            Change::Insert => (None, first),
            Change::Delete => (first, None),
            Change::Update => (first, Some(wire.take(bitmap)?)),
        };
        let data = unpacked(wire.rest(), form.is_packed)?;
        Ok(Rows {
            change: form.change,
            table_id,
            flags,
            columns,
            before,
            after,
            is_partial: form.is_partial,
            data,
        })
    }

    /// Whether foreign keys were not checked.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        self.flags & UNCHECKED != 0
    }

    /// Whether the log also has the rows that foreign keys changed along with these: in the same statement,
    /// before them. They are [`Rows::is_unchecked`], but those with which the statement ends are so only if
    /// its session checks no foreign keys.
    #[must_use]
    pub fn logs_cascades(&self) -> bool {
        self.flags & LOGS_CASCADES != 0
    }

    /// Whether the statement ends with this event.
    #[must_use]
    pub fn ends_statement(&self) -> bool {
        self.flags & ENDS_STATEMENT != 0
    }
}
