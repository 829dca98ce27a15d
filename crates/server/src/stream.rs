//! Rows as they arrive, without an allocated value for each cell.
//!
//! The driver allocates a vector for every row and every value, which costs more than everything else that a
//! dump does with them. Here the text protocol is read from the connection's own socket into one buffer, and
//! values are passed on as slices of it. A value larger than the buffer comes in parts, so no row is too
//! large for the memory. The protocol is described under "Text Protocol" in the servers' documentation.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};

use mysql::Conn;
use mysql::error::MySqlError;

use crate::load::Refused;

/// Bytes per read. Fewer cost system calls; more do not fit into the second-level cache.
const BUFFER_BYTES: usize = 256 << 10;
/// A payload of this length continues in the next packet.
pub(crate) const PAYLOAD_MAX: usize = (1 << 24) - 1;
/// `COM_QUERY`.
const QUERY: u8 = 0x03;
/// The status flag that announces another result.
const MORE_RESULTS: u8 = 0x08;

/// Takes the rows of [`crate::Session::stream`]. An error ends the connection: the rest of the result is not
/// read.
pub trait RowSink {
    /// A piece of the current value, which continues until `end_value`.
    ///
    /// # Errors
    /// Errors of writing the piece.
    fn part(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// The current value is complete.
    fn end_value(&mut self);
    /// The next value is NULL.
    fn null(&mut self);
    /// The row is complete.
    ///
    /// # Errors
    /// Errors of writing the row.
    fn end_row(&mut self) -> io::Result<()>;
    /// All values of a row as they arrive: each after a byte with its length. A sink may be unable to take
    /// the row in this form, for example because one of these bytes is not a length (from 251 on). Then it
    /// leaves everything as it was and returns `false`, and the values are passed on one by one. `end_row`
    /// follows in both cases.
    fn packed_row(&mut self, _row: &[u8], _columns: usize) -> bool {
        false
    }
}

/// Why a result was not read to its end.
pub(crate) enum Broken {
    /// The server sent an error; the connection is in step.
    Server(MySqlError),
    /// The connection broke, or the bytes violated the protocol.
    Wire(io::Error),
    /// The sink failed.
    Sink(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Wire(error)
    }
}

/// The socket of a connection, of which the driver gives out only the number. pidfd_getfd(2) would turn it
/// into a file without unsafe code, but containers and units of systemd refuse that call.
#[expect(unsafe_code, reason = "there is no other interface that works everywhere")]
pub(crate) fn socket(connection: &Conn) -> io::Result<File> {
    // SAFETY: the connection has it open as long as it is borrowed.
    let socket = unsafe { BorrowedFd::borrow_raw(connection.as_raw_fd()) };
    socket.try_clone_to_owned().map(File::from)
}

/// Runs a query on an idle connection and passes its rows to the sink; returns their number.
pub(crate) fn query<S: RowSink>(
    wire: &mut (impl Read + Write),
    sql: &str,
    refused: &Refused,
    sink: &mut S,
) -> Result<u64, Broken> {
    let mut packets = ask(wire, sql.as_bytes())?;
    let columns = packets.begin(refused)?;
    let mut rows = 0;
    loop {
        let length = packets.peek_length()?;
        if length + 4 > BUFFER_BYTES {
            packets.long_row(columns, sink)?;
        } else {
            let payload = packets.packet()?;
            match payload {
                [0xff, ..] => return Err(Broken::Server(server_error(payload))),
                [0xfe, _, _, status, ..] if payload.len() < 9 => {
                    return if status & MORE_RESULTS == 0 {
                        Ok(rows)
                    } else {
                        Err(garbled("a second result"))
                    };
                }
                _ => row(payload, columns, sink)?,
            }
        }
        sink.end_row().map_err(Broken::Sink)?;
        rows += 1;
    }
}

/// Runs a statement without rows on an idle connection.
pub(crate) fn statement(wire: &mut (impl Read + Write), sql: &[u8]) -> Result<(), Broken> {
    match ask(wire, sql)?.packet()? {
        [0, ..] => Ok(()),
        payload @ [0xff, ..] => Err(Broken::Server(server_error(payload))),
        _ => Err(garbled("rows, or a request for a file")),
    }
}

/// Sends a statement; its answer is next.
fn ask<'a, W: Read + Write>(wire: &'a mut W, sql: &[u8]) -> Result<Packets<'a, W>, Broken> {
    let length = sql.len() + 1;
    if length >= PAYLOAD_MAX {
        return Err(Broken::Wire(io::Error::other("a query of 16 MiB is too long")));
    }
    let mut command = Vec::with_capacity(length + 4);
    command.extend_from_slice(&length.to_le_bytes()[..3]);
    command.extend_from_slice(&[0, QUERY]);
    command.extend_from_slice(sql);
    wire.write_all(&command)?;
    Ok(Packets { wire, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 })
}

/// Passes on a row that is completely in the buffer.
fn row<S: RowSink>(mut rest: &[u8], columns: usize, sink: &mut S) -> Result<(), Broken> {
    if sink.packed_row(rest, columns) {
        return Ok(());
    }
    for _ in 0..columns {
        let (&first, after) = rest.split_first().ok_or_else(|| garbled("a row that is too short"))?;
        let (length, after) = match first {
            0..=0xfa => (usize::from(first), after),
            0xfb => {
                sink.null();
                rest = after;
                continue;
            }
            _ => {
                let size = length_bytes(first)?;
                let (digits, after) =
                    after.split_at_checked(size).ok_or_else(|| garbled("a length that is cut off"))?;
                (little_endian(digits), after)
            }
        };
        let (value, after) =
            after.split_at_checked(length).ok_or_else(|| garbled("a value that is cut off"))?;
        sink.part(value).map_err(Broken::Sink)?;
        sink.end_value();
        rest = after;
    }
    if rest.is_empty() { Ok(()) } else { Err(garbled("a row that is too long")) }
}

/// The packets of one answer.
struct Packets<'a, W> {
    wire: &'a mut W,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<W: Read> Packets<'_, W> {
    /// Reads up to the first row. Returns the number of columns.
    fn begin(&mut self, refused: &Refused) -> Result<usize, Broken> {
        let head = self.packet()?;
        let (columns, described) = match head {
            [0xff, ..] => return Err(Broken::Server(server_error(head))),
            [0xfb, name @ ..] => {
                refused.note(name);
                return Err(garbled("a request for a file"));
            }
            [] | [0, ..] => return Err(garbled("a statement without rows")),
            [count @ 1..=0xfa, rest @ ..] => (usize::from(*count), rest),
            [0xfc, low, high, rest @ ..] => (usize::from(u16::from_le_bytes([*low, *high])), rest),
            _ => return Err(garbled("a number of columns")),
        };
        // With MARIADB_CLIENT_CACHE_METADATA a byte says whether column descriptions follow.
        let descriptions = if described == [0] { 0 } else { columns };
        for _ in 0..descriptions {
            self.packet()?;
        }
        match self.packet()? {
            [0xfe, ..] => Ok(columns),
            head @ [0xff, ..] => Err(Broken::Server(server_error(head))),
            _ => Err(garbled("no end of the columns")),
        }
    }

    /// Makes at least this many bytes available.
    fn need(&mut self, bytes: usize) -> Result<(), Broken> {
        if self.end - self.start >= bytes {
            return Ok(());
        }
        if self.start + bytes > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < bytes {
            self.fill()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Broken> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let got = loop {
            match self.wire.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if got == 0 {
            return Err(Broken::Wire(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )));
        }
        self.end += got;
        Ok(())
    }

    /// The length of the next packet's payload.
    fn peek_length(&mut self) -> Result<usize, Broken> {
        self.need(4)?;
        Ok(little_endian(&self.buffer[self.start..self.start + 3]))
    }

    /// The next packet's payload, which must fit into the buffer.
    fn packet(&mut self) -> Result<&[u8], Broken> {
        let length = self.peek_length()?;
        if length + 4 > self.buffer.len() {
            return Err(garbled("a packet that is too long"));
        }
        self.need(length + 4)?;
        let from = self.start + 4;
        self.start = from + length;
        Ok(&self.buffer[from..from + length])
    }

    /// Passes on a row that does not fit into the buffer, in parts.
    fn long_row<S: RowSink>(&mut self, columns: usize, sink: &mut S) -> Result<(), Broken> {
        let mut left = RowRemainder { bytes: 0, more: true };
        for _ in 0..columns {
            let mut value = match self.byte(&mut left)? {
                0xfb => {
                    sink.null();
                    continue;
                }
                first @ 0..=0xfa => usize::from(first),
                first => {
                    let mut digits = [0; 8];
                    for digit in digits.iter_mut().take(length_bytes(first)?) {
                        *digit = self.byte(&mut left)?;
                    }
                    little_endian(&digits)
                }
            };
            while value > 0 {
                self.enter(&mut left)?;
                self.need(1)?;
                let piece = value.min(left.bytes).min(self.end - self.start);
                sink.part(&self.buffer[self.start..self.start + piece]).map_err(Broken::Sink)?;
                self.start += piece;
                left.bytes -= piece;
                value -= piece;
            }
            sink.end_value();
        }
        // A payload whose length is a multiple of the maximum ends with an empty packet.
        if left.bytes == 0 && left.more && self.peek_length()? == 0 {
            self.start += 4;
            left.more = false;
        }
        if left.bytes == 0 && !left.more { Ok(()) } else { Err(garbled("a row that is too long")) }
    }

    /// Continues in the row's next packet when this one is used up.
    fn enter(&mut self, left: &mut RowRemainder) -> Result<(), Broken> {
        if left.bytes > 0 {
            return Ok(());
        }
        if !left.more {
            return Err(garbled("a row that is too short"));
        }
        left.bytes = self.peek_length()?;
        left.more = left.bytes == PAYLOAD_MAX;
        self.start += 4;
        if left.bytes == 0 { Err(garbled("a row that is too short")) } else { Ok(()) }
    }

    fn byte(&mut self, left: &mut RowRemainder) -> Result<u8, Broken> {
        self.enter(left)?;
        self.need(1)?;
        let byte = self.buffer[self.start];
        self.start += 1;
        left.bytes -= 1;
        Ok(byte)
    }
}

/// The rest of a row that comes in several packets.
struct RowRemainder {
    bytes: usize,
    more: bool,
}

/// How many more bytes a length has, judged by its first byte.
fn length_bytes(first: u8) -> Result<usize, Broken> {
    match first {
        0xfc => Ok(2),
        0xfd => Ok(3),
        0xfe => Ok(8),
        _ => Err(garbled("a length")),
    }
}

fn little_endian(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

fn garbled(what: &str) -> Broken {
    Broken::Wire(io::Error::new(io::ErrorKind::InvalidData, format!("unexpected in a result: {what}")))
}

/// `ERR_Packet`: 0xff, the code, `#` and five characters of SQLSTATE, the message.
pub(crate) fn server_error(payload: &[u8]) -> MySqlError {
    let code = payload.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let rest = payload.get(3..).unwrap_or_default();
    let (state, message) = match rest.strip_prefix(b"#").and_then(|rest| rest.split_at_checked(5)) {
        Some((state, message)) => (state, message),
        None => (&b"HY000"[..], rest),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    MySqlError { state: text(state), message: text(message), code }
}

#[cfg(test)]
mod tests;
