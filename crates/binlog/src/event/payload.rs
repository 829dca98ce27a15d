//! TRANSACTION_PAYLOAD: the events of a transaction of MySQL 8.0.20 or later, compressed.
//!
//! Facts: `codecs/binary.cpp` and `compression` in `libs/mysql/binlog/event` of MySQL's source.

use std::fmt;
use std::io::{Cursor, Read};

use crate::error::Flaw;
use crate::event::{HEADER_BYTES, Header, Kind};
use crate::wire::Wire;

/// The longest event that a server writes.
const EVENT_BYTES_MAX: u32 = 1 << 30;
/// Bytes per read: a damaged length then allocates no more memory than there is data.
const PIECE_BYTES: u64 = 1 << 20;

/// How the events are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// With zstd.
    Zstd,
    /// Not at all.
    None,
}

/// The events of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// How they are compressed.
    pub method: Method,
    /// The length of the events, if the server says it.
    pub len: Option<u64>,
    /// The events, without checksums, compressed.
    pub bytes: &'a [u8],
}

impl<'a> Payload<'a> {
    pub(crate) fn parse(mut wire: Wire<'a>) -> Result<Payload<'a>, Flaw> {
        let (mut method, mut len, mut stored) = (None, None, None);
        loop {
            let field = wire.packed()?;
            if field == 0 {
                break;
            }
            let bytes = wire.packed_len()?;
            let mut value = Wire(wire.take(bytes)?);
            match field {
                1 => stored = Some(value.packed_len()?),
                2 => method = Some(value.packed()?),
                3 => len = Some(value.packed()?),
                _ => {}
            }
        }
        let method = match method {
            Some(0) => Method::Zstd,
            Some(255) => Method::None,
            _ => return Err(Flaw("unknown compression")),
        };
        let stored = stored.ok_or(Flaw("it does not say how long it is"))?;
        Ok(Payload { method, len, bytes: wire.take(stored)? })
    }
}

/// Decompresses events, one after the other.
pub(crate) struct Events {
    input: Box<dyn Read + Send>,
    /// How many bytes came, and how many there must be.
    read: u64,
    len: Option<u64>,
    /// The event.
    event: Vec<u8>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("read", &self.read).field("len", &self.len).finish_non_exhaustive()
    }
}

const UNREADABLE: Flaw = Flaw("it can't be decompressed");

impl Events {
    pub(crate) fn new(payload: &Payload<'_>) -> Result<Events, Flaw> {
        let stored = Cursor::new(payload.bytes.to_vec());
        let input: Box<dyn Read + Send> = match payload.method {
            Method::Zstd => {
                Box::new(zstd::stream::read::Decoder::with_buffer(stored).map_err(|_| UNREADABLE)?)
            }
            Method::None => Box::new(stored),
        };
        // One more, so that too much is noticed.
        let limit = payload.len.map_or(u64::MAX, |len| len.saturating_add(1));
        Ok(Events { input: Box::new(input.take(limit)), read: 0, len: payload.len, event: Vec::new() })
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Result<Option<Header>, Flaw> {
        self.event.clear();
        self.read(HEADER_BYTES as u64)?;
        if self.event.is_empty() {
            return match self.len.is_none_or(|len| len == self.read) {
                true => Ok(None),
                false => Err(Flaw("its uncompressed length is wrong")),
            };
        }
        let head = self.event.first_chunk().ok_or(Flaw("it ends within an event"))?;
        let header = Header::parse(*head);
        if matches!(header.kind, Kind::FORMAT_DESCRIPTION | Kind::TRANSACTION_PAYLOAD) {
            return Err(Flaw("it has an event that is never compressed"));
        }
        let body = u64::from(header.len).checked_sub(HEADER_BYTES as u64);
        let body = body.filter(|_| header.len <= EVENT_BYTES_MAX);
        self.read(body.ok_or(Flaw("the length of an event in it is wrong"))?)?;
        match self.event.len() as u64 == u64::from(header.len) {
            true => Ok(Some(header)),
            false => Err(Flaw("it ends within an event")),
        }
    }

    /// The body of the event that came last.
    pub(crate) fn body(&self) -> &[u8] {
        self.event.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// Appends the next bytes, as many as there are.
    fn read(&mut self, mut len: u64) -> Result<(), Flaw> {
        while len > 0 {
            let mut piece = self.input.by_ref().take(len.min(PIECE_BYTES));
            let got = piece.read_to_end(&mut self.event).map_err(|_| UNREADABLE)? as u64;
            if got == 0 {
                break;
            }
            self.read += got;
            len -= got;
        }
        Ok(())
    }
}
