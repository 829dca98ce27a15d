//! FORMAT_DESCRIPTION: how the events after it are written.

use crate::error::Flaw;
use crate::event::{HEADER_BYTES, Kind};
use crate::wire::Wire;

/// Bytes of the version's text.
const VERSION_BYTES: usize = 50;

/// How the events of a log are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The server that wrote it, such as `10.11.19-MariaDB-log`.
    pub server: String,
    /// When that server was started; 0 in all files but its first.
    pub created: u32,
    /// Whether every event ends with a checksum.
    pub has_sums: bool,
    /// For each kind, from 1 on, the bytes with a fixed place.
    fixed: Vec<u8>,
}

impl Format {
    /// Reads the body of the event, without its checksum. It ends with the method of checksums.
    pub(crate) fn parse(body: &[u8]) -> Result<Format, Flaw> {
        let mut wire = Wire(body);
        if wire.u16()? != 4 {
            return Err(Flaw("the version of the log is not 4: its server is older than MySQL 5.0"));
        }
        let text = wire.take(VERSION_BYTES)?;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let server = String::from_utf8_lossy(text).into_owned();
        let created = wire.u32()?;
        if usize::from(wire.u8()?) != HEADER_BYTES {
            return Err(Flaw("the event header length is not 19"));
        }
        let mut fixed = wire.rest().to_vec();
        let has_sums = match fixed.pop() {
            Some(0) => false,
            Some(1) => true,
            _ => return Err(Flaw("the kind of checksum is unknown")),
        };
        Ok(Format { server, created, has_sums, fixed })
    }

    /// A format for a stream whose first event was not read.
    #[must_use]
    pub fn without_sums() -> Format {
        Format { server: String::new(), created: 0, has_sums: false, fixed: Vec::new() }
    }

    /// Whether it was read from a log.
    pub(crate) fn is_known(&self) -> bool {
        !self.fixed.is_empty()
    }

    /// Whether MariaDB wrote it, whose kinds have higher numbers than MySQL's. A format that was not read
    /// counts as MariaDB's.
    pub(crate) fn is_mariadb(&self) -> bool {
        self.fixed.is_empty() || self.fixed.len() >= usize::from(Kind::ANNOTATE_ROWS.0)
    }

    /// Bytes of a kind of event with a fixed place.
    pub(crate) fn fixed(&self, kind: Kind, otherwise: usize) -> usize {
        let at = usize::from(kind.0).checked_sub(1);
        at.and_then(|at| self.fixed.get(at)).map_or(otherwise, |len| usize::from(*len))
    }

    /// Bytes of the number of a table, in TABLE_MAP and in rows. Very old servers had four.
    pub(crate) fn table_id_bytes(&self, kind: Kind) -> usize {
        if self.fixed(kind, 8) == 6 { 4 } else { 6 }
    }
}
