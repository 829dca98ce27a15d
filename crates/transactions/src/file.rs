//! A file of a log, wherever it is.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::archive::Arrivals;
use binlog::archive::pieces::{self, Pieces};
use disk::{Disk, RealDisk, Source};

/// A file of a log. It is its path, which is only a name if the file is in pieces.
#[derive(Clone)]
pub struct LogFile {
    path: PathBuf,
    pieces: Option<(Arc<Pieces>, pieces::LogFile)>,
    /// When its bytes came, if it is of an archive.
    arrivals: Arc<Arrivals>,
}

impl LogFile {
    /// A file of this machine.
    pub fn new(path: PathBuf) -> LogFile {
        LogFile { path, pieces: None, arrivals: Arc::default() }
    }

    /// A file of an archive, whose bytes came then.
    pub fn archived(path: PathBuf, arrivals: Arrivals) -> LogFile {
        LogFile { arrivals: Arc::new(arrivals), ..LogFile::new(path) }
    }

    /// A file that an archive has in pieces, in the line of this number.
    pub fn in_pieces(
        pieces: &Arc<Pieces>,
        (line, file): (u32, &pieces::LogFile),
        arrivals: Arrivals,
    ) -> LogFile {
        let path = PathBuf::from(format!("{}/{line:06}/{}", pieces.shown(), file.name));
        LogFile { pieces: Some((Arc::clone(pieces), file.clone())), ..LogFile::archived(path, arrivals) }
    }

    /// When its bytes came, if it is of an archive.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Opens it.
    pub fn open(&self) -> io::Result<Box<dyn Source>> {
        match &self.pieces {
            Some((pieces, file)) => Ok(Box::new(pieces.open_file(file))),
            None => RealDisk.open(&self.path),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> io::Result<u64> {
        match &self.pieces {
            Some((_, file)) => Ok(file.end),
            None => Ok(RealDisk.stat(&self.path)?.len),
        }
    }

    /// Where it is, if another program can read it there.
    pub fn on_disk(&self) -> Option<&Path> {
        self.pieces.is_none().then_some(&self.path)
    }
}

impl Deref for LogFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}
