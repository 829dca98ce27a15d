//! `LOAD DATA LOCAL`: gives the server the one stream that the caller opened, and nothing else.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use mysql::LocalInfileHandler;

use crate::Error;

/// Produces the bytes of a LOAD. It is called once and writes everything to the given writer; large writes
/// are cheapest, because each becomes packets without another copy on our side. It must return results
/// through an `Arc` or a channel: the driver keeps it for longer than a borrow could last.
pub type Source = Box<dyn FnMut(&mut dyn Write) -> io::Result<()> + Send>;

/// The file name by which a session serves its stream.
pub(crate) const STREAM: &str = "remora-stream";

/// The server's counts of a LOAD, exact and not cut to 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// Rows read from the stream.
    pub records: u64,
    /// Rows replaced (`REPLACE`).
    pub deleted: u64,
    /// Rows skipped as duplicates (`IGNORE`, and every `LOCAL` load).
    pub skipped: u64,
    /// Warnings raised; ask [`crate::Session::warnings`] for the first of them.
    pub warnings: u64,
}

impl LoadReport {
    /// Reads the info text of an OK packet: `Records: 3 Deleted: 0 Skipped: 1 Warnings: 2`. The words depend
    /// on the server's `lc_messages`, the order of the four numbers does not.
    pub(crate) fn parse(info: &str) -> Result<LoadReport, Error> {
        let mut numbers = info.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let mut next = || numbers.next().and_then(|digits| digits.parse::<u64>().ok());
        match (next(), next(), next(), next(), next()) {
            (Some(records), Some(deleted), Some(skipped), Some(warnings), None) => {
                Ok(LoadReport { records, deleted, skipped, warnings })
            }
            _ => Err(Error::Protocol { what: format!("a LOAD reports four counts, this one said {info:?}") }),
        }
    }
}

/// The failure of a source, carried through the driver inside an `io::Error`.
#[derive(Debug, thiserror::Error)]
#[error("the source failed")]
pub(crate) struct SourceFailed(pub(crate) io::Error);

/// The failure of a sink, carried in the same way.
#[derive(Debug, thiserror::Error)]
#[error("the sink failed")]
pub(crate) struct SinkFailed(pub(crate) io::Error);

/// Remembers the names of files that the server asked for without any right.
///
/// Such a request is answered with an empty file and remembered here, and then the session closes the
/// connection. An error would be a shorter answer, but if more results are announced the driver continues to
/// read after it, and waits for a server that waits for the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused(Arc<Mutex<Option<String>>>);

impl Refused {
    pub(crate) fn note(&self, name: &[u8]) {
        let name = String::from_utf8_lossy(name).into_owned();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(name);
    }

    /// The first name since the last call.
    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The answer to every request for a file outside a load.
    pub(crate) fn handler(&self) -> LocalInfileHandler {
        let refused = self.clone();
        LocalInfileHandler::new(move |name, _| {
            refused.note(name);
            Ok(())
        })
    }

    /// The answer during a load: the stream, once, and only by its name.
    pub(crate) fn handler_with(&self, source: Source) -> LocalInfileHandler {
        let refused = self.clone();
        let mut source = Some(source);
        LocalInfileHandler::new(move |name, wire| {
            let ours = (name == STREAM.as_bytes()).then(|| source.take()).flatten();
            let Some(mut source) = ours else {
                refused.note(name);
                return Ok(());
            };
            let mut wire = Wire { to: wire, broken: false };
            match source(&mut wire) {
                Ok(()) if wire.broken => Err(io::ErrorKind::BrokenPipe.into()),
                Ok(()) => Ok(()),
                Err(error) if wire.broken => Err(error),
                Err(error) => Err(io::Error::other(SourceFailed(error))),
            }
        })
    }
}

/// The way to the server; remembers whether the way failed and not the source.
struct Wire<'a, W: Write> {
    to: &'a mut W,
    broken: bool,
}

impl<W: Write> Write for Wire<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes).inspect_err(|_| self.broken = true)
    }

    /// One virtual call, and then one loop over the whole buffer.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes).inspect_err(|_| self.broken = true)
    }

    /// Does nothing: the driver sends full packets by itself and the rest at the end. A real flush would cost
    /// a packet and a system call for every flush of a cautious source.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_in_any_language() {
        let report = LoadReport { records: 70_000, deleted: 1, skipped: 2, warnings: 65_999 };
        let english = "Records: 70000  Deleted: 1  Skipped: 2  Warnings: 65999";
        let german = "Datens\u{e4}tze: 70000  Gel\u{f6}scht: 1  Ausgelassen: 2  Warnungen: 65999";
        assert_eq!(LoadReport::parse(english).unwrap(), report);
        assert_eq!(LoadReport::parse(german).unwrap(), report);
    }

    #[test]
    fn an_answer_without_counts_is_an_error() {
        for info in
            ["", "Rows matched: 1  Changed: 2  Warnings: 3", "1 2 3 4 5", "1 2 3 99999999999999999999"]
        {
            assert!(LoadReport::parse(info).is_err(), "{info}");
        }
    }
}
