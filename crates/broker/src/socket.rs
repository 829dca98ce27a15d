//! TCP connections, with or without TLS.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::secure::Secure;

/// Timeout for an answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

pub(crate) enum Socket {
    Plain(TcpStream),
    Secure(Box<Secure>),
}

impl Socket {
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Socket::Plain(socket) => socket,
            Socket::Secure(secure) => &secure.sock,
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Plain(socket) => socket.write_all(bytes),
            Socket::Secure(secure) => secure.write_all(bytes).and_then(|()| secure.flush()),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(socket) => socket.read(into),
            Socket::Secure(secure) => secure.read(into),
        }
    }
}

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Connects to the first address of the host that answers.
pub(crate) fn connected(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for place in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, ANSWER) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(ANSWER))?;
                socket.set_write_timeout(Some(ANSWER))?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
