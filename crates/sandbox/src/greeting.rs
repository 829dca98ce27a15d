//! The first packet of a server, which shows that it is ready.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The protocol version of every server since MySQL 3.21.
const PROTOCOL: u8 = 10;

/// How long one connection waits for its greeting; the caller tries again, so this only sets the interval.
const GREETING_WAIT: Duration = Duration::from_secs(1);

/// Whether the server behind `socket` sends its greeting; it may not be there yet, or refuse with an error
/// packet.
pub(crate) fn is_greeted(socket: &Path) -> bool {
    UnixStream::connect(socket)
        .and_then(|stream| {
            stream.set_read_timeout(Some(GREETING_WAIT))?;
            read_greeting(stream)
        })
        .unwrap_or(false)
}

/// Packet: 3 bytes length, 1 byte sequence number, then the payload, which begins with the protocol version,
/// or with 0xff for an error (MySQL client/server protocol, "Protocol::HandshakeV10").
fn read_greeting(mut stream: impl Read) -> io::Result<bool> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    Ok(head[4] == PROTOCOL)
}

#[cfg(test)]
mod tests {
    use super::read_greeting;

    #[test]
    fn a_greeting_is_told_from_an_error_and_from_silence() {
        assert!(read_greeting(&b"\x4a\0\0\0\x0a10.11.6-MariaDB\0"[..]).unwrap());
        assert!(!read_greeting(&b"\x17\0\0\0\xff\x10\x04Too many connections"[..]).unwrap());
        assert!(read_greeting(&b"\x4a\0\0\0"[..]).is_err());
    }
}
