//! Reads a log, from a file or a stream of any length.

use std::io::{self, Read};

use crate::event::format::Format;
use crate::event::payload::Events;
use crate::event::{self, Body, Event, HEADER_BYTES, Header, IN_USE, Kind, MAGIC, RELAY, SUM_BYTES};
use crate::{Corrupt, Error};

/// The first bytes of an encrypted file.
const ENCRYPTED_MAGIC: [u8; 4] = [0xFD, b'b', b'i', b'n'];
/// Bytes per read: a damaged length then allocates no more memory than there is data.
const PIECE_BYTES: u64 = 1 << 20;

/// How a log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// After an event.
    Whole,
    /// Within an event.
    Torn {
        /// Where that event begins.
        at: u64,
        /// How many of its bytes are there.
        have: u64,
        /// Its full length, if that much of it is there.
        need: Option<u32>,
    },
    /// The rest is encrypted, or all of it: as MySQL encrypts logs.
    Encrypted {
        /// Where that begins.
        at: u64,
    },
}

/// Reads the events of a log, one after the other.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Where the next event begins.
    at: u64,
    format: Format,
    /// The event that was read last, with its header.
    event: Vec<u8>,
    header: Header,
    /// Whether compressed events are given instead of their TRANSACTION_PAYLOAD, and those that are left.
    unpacks: bool,
    payload: Option<Unpacking>,
    is_in_use: bool,
    is_relay: bool,
    end: Option<End>,
}

/// The events of a TRANSACTION_PAYLOAD.
#[derive(Debug)]
struct Unpacking {
    events: Events,
    /// The header of the one that came last.
    header: Header,
    format: Format,
}

impl<R: Read> Reader<R> {
    /// Begins at the beginning of a file.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is not a binary log; [`Error::Io`].
    pub fn open(mut input: R) -> Result<Reader<R>, Error> {
        let mut magic = Vec::new();
        input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        let mut reader = Reader::at(input, MAGIC.len() as u64, Format::without_sums());
        if magic == MAGIC {
            return Ok(reader);
        }
        if magic == ENCRYPTED_MAGIC {
            reader.at = 0;
            reader.end = Some(End::Encrypted { at: 0 });
            return Ok(reader);
        }
        if !MAGIC.starts_with(&magic) {
            return Err(Error::Foreign("not a binary log: it does not begin with fe 62 69 6e"));
        }
        // Not even its first bytes were written.
        reader.at = 0;
        reader.end = Some(End::Torn { at: 0, have: magic.len() as u64, need: None });
        Ok(reader)
    }

    /// Starts at an event with this offset, in a log with this format.
    pub fn at(input: R, at: u64, format: Format) -> Reader<R> {
        Reader {
            input,
            at,
            format,
            event: Vec::new(),
            header: Header::parse([0; HEADER_BYTES]),
            unpacks: false,
            payload: None,
            is_in_use: false,
            is_relay: false,
            end: None,
        }
    }

    /// The same, but it gives the events that a TRANSACTION_PAYLOAD has instead of that one. They all have
    /// its place.
    #[must_use]
    pub fn unpacking(mut self) -> Reader<R> {
        self.unpacks = true;
        self
    }

    /// Continues with another event, at this offset of the same file. The input begins there.
    pub fn resume(&mut self, input: R, at: u64) {
        (self.input, self.at, self.payload) = (input, at, None);
    }

    /// Whether the server is still writing it, or was killed, as its first event says.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.is_in_use
    }

    /// Whether it is a relay log.
    #[must_use]
    pub fn is_relay(&self) -> bool {
        self.is_relay
    }

    /// The format of the events from here on.
    #[must_use]
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The offset of the next event.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }

    /// How it ended, once [`Reader::next`] has returned `None`.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The next event. After `None` or an error there is no other.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for an event whose length or checksum is wrong; [`Error::Io`].
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from it")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, Error> {
        match self.advance() {
            Ok(is_there) => Ok(is_there.then(|| self.current())),
            Err(error) => {
                (self.end, self.payload) = (Some(End::Whole), None);
                Err(error)
            }
        }
    }

    /// Whether there is another event, which is the current one then.
    fn advance(&mut self) -> Result<bool, Error> {
        if self.unpack()? {
            return Ok(true);
        }
        if self.end.is_some() {
            return Ok(false);
        }
        let Some(header) = self.fetch()? else { return Ok(false) };
        self.header = header;
        self.at = self.at.saturating_add(header.len.into());
        if !self.unpacks || header.kind != Kind::TRANSACTION_PAYLOAD {
            return Ok(true);
        }
        let event = self.current();
        let place = event.place();
        let Body::Payload(payload) = event.parse()? else { return Ok(true) };
        let events = Events::new(&payload).map_err(|flaw| flaw.at(place.as_str()))?;
        // They have no checksums of their own.
        let mut format = event.format.clone();
        format.has_sums = false;
        self.payload = Some(Unpacking { events, header, format });
        match self.unpack()? {
            true => Ok(true),
            false => Err(Corrupt { what: "it has no events".to_owned(), place }.into()),
        }
    }

    /// Whether the payload has another event.
    fn unpack(&mut self) -> Result<bool, Error> {
        let at = self.at.saturating_sub(self.header.len.into());
        let Some(payload) = &mut self.payload else { return Ok(false) };
        let next = payload.events.next();
        let next = next.map_err(|flaw| flaw.at(event::place(self.header.kind, at)))?;
        match next {
            Some(header) => payload.header = header,
            None => self.payload = None,
        }
        Ok(next.is_some())
    }

    fn current(&self) -> Event<'_> {
        let (at, end) = (self.at.saturating_sub(self.header.len.into()), self.at);
        if let Some(Unpacking { events, header, format }) = &self.payload {
            return Event { at, header: *header, body: events.body(), format, end };
        }
        let header = self.header;
        let has_sum = self.format.has_sums || header.kind == Kind::FORMAT_DESCRIPTION;
        let sum = if has_sum { SUM_BYTES } else { 0 };
        let body = self.event.get(HEADER_BYTES..self.event.len().saturating_sub(sum)).unwrap_or_default();
        Event { at, header, body, format: &self.format, end }
    }

    /// Reads the next event and verifies it.
    fn fetch(&mut self) -> Result<Option<Header>, Error> {
        self.event.clear();
        self.read(HEADER_BYTES as u64)?;
        let have = self.event.len() as u64;
        let Some(bytes) = self.event.first_chunk::<HEADER_BYTES>() else {
            self.end = Some(match have {
                0 => End::Whole,
                _ => End::Torn { at: self.at, have, need: None },
            });
            return Ok(None);
        };
        let header = Header::parse(*bytes);
        let at = self.at;
        let corrupt = |what: &str| Corrupt { what: what.to_owned(), place: event::place(header.kind, at) };
        let least = HEADER_BYTES + if self.format.has_sums { SUM_BYTES } else { 0 };
        if u64::from(header.len) < least as u64 {
            return Err(corrupt(&format!("its length is {}, too short for an event", header.len)).into());
        }
        self.read(u64::from(header.len) - HEADER_BYTES as u64)?;
        let have = self.event.len() as u64;
        if have < u64::from(header.len) {
            // Both give its end, unless the event is of another file.
            let end = self.at.wrapping_add(header.len.into()) & u64::from(u32::MAX);
            let agrees = u64::from(header.next_position) == end || header.next_position == 0 || self.is_relay;
            if !agrees {
                return Err(corrupt(
                    "its length reaches beyond the end of the file, but its end position does not",
                )
                .into());
            }
            self.end = Some(End::Torn { at: self.at, have, need: Some(header.len) });
            return Ok(None);
        }
        match header.kind {
            Kind::FORMAT_DESCRIPTION => self.begin(header)?,
            // Nobody knows whether events have checksums, so what is damaged would be believed.
            _ if at == MAGIC.len() as u64 && !self.format.is_known() => {
                return Err(corrupt("it is the first event, but no FORMAT_DESCRIPTION").into());
            }
            _ if self.format.has_sums => event::check_sum(&self.event, header, self.at)?,
            _ => {}
        }
        if header.kind == Kind::START_ENCRYPTION && header.flags & event::IGNORABLE == 0 {
            // The event itself is not encrypted.
            self.end = Some(End::Encrypted { at: self.at.saturating_add(header.len.into()) });
        }
        Ok(Some(header))
    }

    /// Appends the next bytes, as many as there are.
    fn read(&mut self, len: u64) -> io::Result<()> {
        let wanted = self.event.len() as u64 + len;
        loop {
            let missing = wanted - self.event.len() as u64;
            let piece = missing.min(PIECE_BYTES);
            if piece == 0 || self.input.by_ref().take(piece).read_to_end(&mut self.event)? == 0 {
                return Ok(());
            }
        }
    }

    /// Adopts the format of a FORMAT_DESCRIPTION, which always has a checksum itself. Servers before MySQL
    /// 5.6 and MariaDB 5.3 wrote none; their logs are not supported.
    fn begin(&mut self, header: Header) -> Result<(), Error> {
        event::check_sum(&self.event, header, self.at)?;
        let end = self.event.len().saturating_sub(SUM_BYTES);
        let body = self.event.get(HEADER_BYTES..end).unwrap_or_default();
        let none = Format::without_sums();
        let parsed = Event { at: self.at, header, body, format: &none, end: self.at }.parse()?;
        if let Body::Format(format) = parsed {
            self.format = *format;
        }
        if self.at == MAGIC.len() as u64 {
            self.is_in_use = header.flags & IN_USE != 0;
            self.is_relay = header.flags & RELAY != 0;
        }
        Ok(())
    }
}
