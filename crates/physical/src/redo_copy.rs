//! The redo log of a running server, copied while the server writes it.
//!
//! Data files that are copied while a server changes them have each page as of another point in time. Crash
//! recovery with the redo log makes them consistent. The log must begin at the last checkpoint before the
//! first page was read, and must have no gap up to its end, which is at or after the last change of every
//! page. [`RedoCopier::begin`] takes that checkpoint, [`RedoCopier::step`] reads what the server has written
//! since, and [`RedoCopier::finish`] ends the copy. Every mini-transaction is verified on the way.
//!
//! Facts: `log0log.cc`, `log0log.h` and `srv0srv.cc` of MariaDB's source, 10.8 and later.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};
use disk::{Disk, Source, Stat};
use innodb::Error::Corrupt;
use innodb::redo::{ChangedPages, Log, LogCopier, START_OFFSET, Tablespaces};

use crate::Error;
use crate::error::io;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;
/// How close the server may come to bytes that are being read. It writes whole blocks of up to 4096 bytes,
/// so it may write that much beyond the LSN that it reports; the rest is for what later versions do.
const MARGIN: u64 = 1 << 16;

/// How many bytes of a log are hashed to distinguish it from other logs.
const MARK_BYTES: u64 = 1 << 16;

/// The length of [`CopiedLog::head`], in bytes.
pub const HEAD_BYTES: u64 = START_OFFSET as u64;

/// A redo log that is being copied.
pub struct RedoCopier {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn Source>,
    /// The file's state when it was opened.
    opened: Stat,
    log: Log,
    copier: LogCopier,
    spool: Box<dyn Write + Send>,
    /// Bytes in the spool.
    bytes: u64,
    read: Vec<u8>,
    proven: Vec<u8>,
    /// After an error nobody knows what is in the spool.
    has_failed: bool,
}

/// A log that was copied. The file `ib_logfile0` of the copy is `head` and then all bytes of the spool. It
/// needs nothing behind them.
#[derive(Clone, Debug)]
pub struct CopiedLog {
    /// The first bytes of the file: the header and one checkpoint.
    pub head: Vec<u8>,
    /// The number of bytes in the spool.
    pub bytes: u64,
    /// The LSN at which recovery begins.
    pub checkpoint: u64,
    /// The LSN of the end: a server that recovers says `End of log at LSN=` and this number.
    pub end: u64,
    /// What it says of tablespaces.
    pub spaces: Tablespaces,
    /// Identifies the original log: [`RedoCopier::mark`] at the end.
    pub mark: String,
}

impl CopiedLog {
    /// The length of the file, in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.head.len() as u64 + self.bytes
    }

    /// The least `innodb_log_file_size` for a server on the copy, see [`log_size`].
    #[must_use]
    pub fn log_size(&self) -> u64 {
        log_size(self.file_bytes())
    }
}

/// The least `innodb_log_file_size`, in bytes, with which a server recovers without trouble by a copied log
/// of `file_bytes` bytes. With less, it may say that `Crash recovery is broken due to insufficient
/// innodb_log_file_size`.
///
/// The server wants its log to reach back to the checkpoint while it recovers: no further than 0.9 * (0.9 *
/// (size - 12288) - 48 pages), which is `max_checkpoint_age` in `log_t::set_capacity`. A third more than the
/// log and 4 MiB is more than that, also with pages of 64 KiB, and leaves room for what recovery itself
/// writes.
#[must_use]
pub fn log_size(file_bytes: u64) -> u64 {
    let needed = file_bytes + file_bytes / 3 + (4 << 20);
    // The server's least is 4 MiB.
    needed.next_multiple_of(1 << 20).max(4 << 20)
}

/// Whether a redo log that begins with these bytes is a copy that this crate made.
#[must_use]
pub fn is_copy(head: &[u8]) -> bool {
    innodb::redo::creator(head) == innodb::redo::CREATOR
}

impl RedoCopier {
    /// Opens the log of a running server, `ib_logfile0`, and takes its last checkpoint. Call it before the
    /// first page of a data file is read. What is copied goes to `spool`.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::File`] for a log that is not of MariaDB 10.8 or later, or is encrypted
    /// or damaged.
    pub fn begin(
        disk: Arc<dyn Disk>,
        log: PathBuf,
        spool: Box<dyn Write + Send>,
    ) -> Result<RedoCopier, Error> {
        RedoCopier::open(disk, log, spool, |log| Some(LogCopier::new(log)))
    }

    /// Opens the log of a running server to read it from an earlier LSN on, at which a mini-transaction must
    /// begin: see [`RedoCopier::changed_pages`]. Nothing is copied.
    ///
    /// # Errors
    /// As for [`RedoCopier::begin`]; [`Error::Log`] if the log does not go back so far.
    pub fn since(disk: Arc<dyn Disk>, log: PathBuf, lsn: u64) -> Result<RedoCopier, Error> {
        RedoCopier::open(disk, log, Box::new(std::io::sink()), |log| LogCopier::since(log, lsn))
    }

    fn open(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        spool: Box<dyn Write + Send>,
        copier: impl FnOnce(Log) -> Option<LogCopier>,
    ) -> Result<RedoCopier, Error> {
        let file = open(disk.as_ref(), &path)?;
        let opened = file.stat().map_err(io(&path))?;
        let mut head = vec![0; START_OFFSET];
        let filled = file.read_full_at(0, &mut head).map_err(io(&path))?;
        head.truncate(filled);
        // If the server writes a checkpoint just now, it is read in part and does not count. Then it is the
        // one before, which the server has not yet begun to write over, or `step` refuses.
        let log = Log::parse(&head, opened.len).map_err(|error| Error::from(error).of(&path))?;
        let Some(copier) = copier(log) else {
            return Err(Error::Log { path, what: "it begins after the requested LSN".to_owned() });
        };
        Ok(RedoCopier {
            disk,
            path,
            file,
            opened,
            log,
            copier,
            spool,
            bytes: 0,
            read: Vec::new(),
            proven: Vec::new(),
            has_failed: false,
        })
    }

    /// The LSN of the checkpoint at which the copy begins.
    #[must_use]
    pub fn checkpoint(&self) -> u64 {
        self.log.checkpoint()
    }

    /// The LSN up to which the log was read.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.copier.next()
    }

    /// The LSN up to which the log is verified and in the spool. The same as [`RedoCopier::lsn`], unless that
    /// is within a mini-transaction.
    #[must_use]
    pub fn proven(&self) -> u64 {
        self.copier.lsn()
    }

    /// The number of bytes that the server writes before it writes over the first of them.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.log.capacity()
    }

    /// How much of the log is not read yet when the server is at the LSN `current`, as a fraction of the
    /// log's capacity. From 1 on the log has been overwritten.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    pub fn behind(&self, current: u64) -> f64 {
        current.saturating_sub(self.lsn()) as f64 / self.capacity() as f64
    }

    /// The pages that the log changes, as far as it was read, if that was begun by [`RedoCopier::since`].
    #[must_use]
    pub fn changed_pages(&self) -> Option<&ChangedPages> {
        self.copier.changed_pages()
    }

    /// Distinguishes this log from others with the same LSNs but another history: a checksum over what is in
    /// the file before the LSN `end`. The server must have flushed that part, and not yet overwritten it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Log`] if that is not all there.
    pub fn mark(&self, end: u64) -> Result<String, Error> {
        let mut sum = Digest::new(CrcAlgorithm::Crc64Nvme);
        let mut bytes = Vec::new();
        for (at, len) in self.log.places(end.saturating_sub(MARK_BYTES)..end) {
            bytes.resize(usize::try_from(len).unwrap_or(0), 0);
            if self.file.read_full_at(at, &mut bytes).map_err(io(&self.path))? < bytes.len() {
                return Err(self.lost("it is shorter than it was".to_owned()));
            }
            sum.update(&bytes);
        }
        Ok(format!("{:016x}", sum.finalize()))
    }

    /// Reads the log up to the LSN `flushed` (`Innodb_lsn_flushed`), and nothing beyond it: the server
    /// writes its last block again and again until the block is full. `current` asks for
    /// `Innodb_lsn_current`; it is called after each read.
    ///
    /// # Errors
    /// [`Error::Log`] if the server was faster, or has another file now; [`Error::File`] for a log that is
    /// damaged; [`Error::Output`] from the spool; errors of `current` and of the disk. After an error there
    /// is no copy.
    pub fn step(
        &mut self,
        flushed: u64,
        current: &mut dyn FnMut() -> Result<u64, Error>,
    ) -> Result<(), Error> {
        let read = self.read_until(flushed, current);
        self.has_failed |= read.is_err();
        read
    }

    fn read_until(
        &mut self,
        flushed: u64,
        current: &mut dyn FnMut() -> Result<u64, Error>,
    ) -> Result<(), Error> {
        while self.lsn() < flushed {
            self.piece(flushed, current)?;
        }
        self.is_same_file()
    }

    /// Reads up to [`PIECE`] bytes; after the last byte of the file the log continues at its beginning.
    fn piece(&mut self, flushed: u64, current: &mut dyn FnMut() -> Result<u64, Error>) -> Result<(), Error> {
        let from = self.lsn();
        let (at, until_end) = self.copier.place();
        let len = (flushed - from).min(until_end).min(PIECE);
        self.read.resize(usize::try_from(len).unwrap_or(0), 0);
        let filled = self.file.read_full_at(at, &mut self.read).map_err(io(&self.path))?;
        // The server has written nothing over what was read if it has not come round by now. The order
        // matters: before the read nothing would be proven.
        let now = current()?;
        // A file that lost its name is not written any more, so what is in it may be of an earlier round.
        self.is_same_file()?;
        if filled < self.read.len() {
            return Err(self.lost("the file became shorter; make the copy again".to_owned()));
        }
        if now.saturating_sub(from) >= self.capacity().saturating_sub(MARGIN) {
            return Err(self.lost(format!(
                "the server writes its redo log faster than it can be read: it was at LSN {now} when the log was read \
                 from LSN {from} on, and writes over what is older than {} bytes. Make innodb_log_file_size larger, or \
                 make the copy at a quieter time",
                self.capacity()
            )));
        }
        self.proven.clear();
        if self.copier.take(&self.read, &mut self.proven).is_err() {
            let place = format!("LSN {}", self.proven());
            let what = "the redo log is damaged there, or was read wrongly; make the copy again".to_owned();
            return Err(Error::File { path: self.path.clone(), source: Corrupt { what, place } });
        }
        self.spool.write_all(&self.proven).map_err(Error::Output)?;
        self.bytes += self.proven.len() as u64;
        Ok(())
    }

    /// Ends the copy at the LSN `end`, up to which it was read: `Innodb_lsn_flushed`, asked for under
    /// `BACKUP STAGE BLOCK_COMMIT` after `FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS`, and after the last page
    /// was read.
    ///
    /// That LSN is always the end of a mini-transaction, also while threads of the server go on writing.
    /// The server writes its log up to `get_lsn()`, which it reads while it holds the log's latch alone,
    /// and a mini-transaction is appended whole while its thread shares that latch (`log_t::write_buf`,
    /// `mtr_t::commit`). `flushed_to_disk_lsn` becomes such an LSN after the write. And no page on the disk
    /// has a later change than that LSN: the log is flushed before the page is written.
    ///
    /// # Errors
    /// [`Error::Log`] if the copy does not end there or a step failed, [`Error::Output`] from the spool.
    pub fn finish(mut self, end: u64) -> Result<CopiedLog, Error> {
        if self.has_failed {
            return Err(self.lost("it was not copied to the end; make the copy again".to_owned()));
        }
        let (head, read, whole) = (self.copier.head(), self.lsn(), self.proven());
        if self.copier.end(end).is_err() {
            return Err(self.lost(format!(
                "the copy must end at LSN {end}, but it was read up to LSN {read} and is whole up to LSN {whole}; make \
                 the copy again"
            )));
        }
        self.spool.flush().map_err(Error::Output)?;
        let (spaces, mark) = (self.copier.spaces().clone(), self.mark(end)?);
        Ok(CopiedLog { head, bytes: self.bytes, checkpoint: self.checkpoint(), end, spaces, mark })
    }

    /// Whether the file that was opened still is the server's log. `SET GLOBAL innodb_log_file_size` gives
    /// the name to a new file, and nothing is written to this one any more.
    fn is_same_file(&self) -> Result<(), Error> {
        let named = self.disk.stat(&self.path).map_err(io(&self.path))?;
        let open = self.file.stat().map_err(io(&self.path))?;
        if named.inode != self.opened.inode || open.len != self.opened.len {
            return Err(self.lost(
                "the server has replaced its redo log, as SET GLOBAL innodb_log_file_size does; make the copy again"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn lost(&self, what: String) -> Error {
        Error::Log { path: self.path.clone(), what }
    }
}

/// Opens the log for reading.
fn open(disk: &dyn Disk, path: &std::path::Path) -> Result<Box<dyn Source>, Error> {
    // The server may write it around the page cache.
    disk.open_direct(path).map_err(io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recommended_log_size_is_enough() {
        for bytes in [0, 1 << 10, 3 << 20, 33 << 20, 5 << 30, 1 << 40] {
            let spooled = CopiedLog {
                head: vec![0; START_OFFSET],
                bytes,
                checkpoint: 0,
                end: bytes,
                spaces: Tablespaces::default(),
                mark: String::new(),
            };
            let capacity = spooled.log_size() - START_OFFSET as u64;
            // With pages of any size, the server accepts that its checkpoint is so far behind.
            for page in [4 << 10, 16 << 10, 64 << 10] {
                let behind = (capacity - capacity / 10 - 48 * page) * 9 / 10;
                assert!(behind > bytes, "{bytes}: {behind}");
            }
            // It is a length that innodb_log_file_size can have, and not much more.
            assert_eq!(spooled.log_size() % 4096, 0);
            assert!((4 << 20..bytes / 2 * 3 + (8 << 20)).contains(&spooled.log_size()));
        }
    }
}
