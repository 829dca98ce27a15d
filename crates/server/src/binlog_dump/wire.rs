//! The connection over which a server sends its log.

use std::any::Any;
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

use crate::secure::{self, Secure};
use crate::{Error, Target, stream};

/// Where the packets come from.
pub(super) enum Wire {
    /// A connection without TLS: the driver made it, and we have its socket.
    Plain {
        /// Ends the connection.
        _conn: Box<dyn Any + Send>,
        socket: File,
    },
    Secure(Box<Secure>),
}

impl Wire {
    /// Connects, with TLS if that is asked for or the server can.
    pub(super) fn open(target: &Target) -> Result<Wire, Error> {
        if let Some(secure) = target.connect_securely()? {
            return Ok(Wire::Secure(Box::new(secure)));
        }
        let conn = target.connect()?.into_plain().ok_or_else(|| Error::Protocol {
            what: "the server offers TLS now, and did not a moment ago".to_owned(),
        })?;
        let socket = stream::socket(&conn)
            .map_err(|error| Error::Protocol { what: format!("the connection's socket: {error}") })?;
        Ok(Wire::Plain { _conn: Box::new(conn), socket })
    }

    /// Whether something can be read within this time.
    pub(super) fn arrives(&mut self, wait: Duration) -> io::Result<bool> {
        match self {
            Wire::Plain { socket, .. } => secure::arrives(socket, wait),
            Wire::Secure(secure) => secure.arrives(wait),
        }
    }

    /// Reads what is here, at least a byte; 0 at the end of the connection.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain { socket, .. } => socket.read(room),
            Wire::Secure(secure) => secure.read(room),
        }
    }

    /// Sends all of these.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Wire::Plain { socket, .. } => socket.write_all(bytes),
            Wire::Secure(secure) => secure.write_all(bytes).and_then(|()| secure.flush()),
        }
    }
}
