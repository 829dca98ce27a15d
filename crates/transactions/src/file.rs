//! A file of a log, wherever it is.

use std::ffi::OsStr;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::archive::Arrivals;
use binlog::archive::segments::{self, SegmentArchive};
use disk::{Disk, RealDisk, Source};

/// A file of a log. It is its path, which is only a name if the file is in segments.
#[derive(Clone)]
pub struct LogFile {
    path: PathBuf,
    segments: Option<(Arc<SegmentArchive>, segments::LogFile)>,
    /// When its bytes came, if it is of an archive.
    arrivals: Arc<Arrivals>,
    /// The number of its timeline, if it is of an archive; else 0.
    timeline: u32,
}

impl LogFile {
    /// A file of this machine.
    pub fn new(path: PathBuf) -> LogFile {
        LogFile { path, segments: None, arrivals: Arc::default(), timeline: 0 }
    }

    /// A file of an archive, in the folder of its timeline, whose bytes came then.
    pub fn archived(path: PathBuf, arrivals: Arrivals) -> LogFile {
        let folder = path.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        let timeline = folder.and_then(|number| number.parse().ok()).unwrap_or(0);
        LogFile { arrivals: Arc::new(arrivals), timeline, ..LogFile::new(path) }
    }

    /// The number of its timeline, if it is of an archive; else 0.
    pub fn timeline(&self) -> u32 {
        self.timeline
    }

    /// A file that an archive has in segments, in the timeline of this number.
    pub fn in_segments(
        segments: &Arc<SegmentArchive>,
        (timeline, file): (u32, &segments::LogFile),
        arrivals: Arrivals,
    ) -> LogFile {
        let path = PathBuf::from(format!("{}/{timeline:06}/{}", segments.shown(), file.name));
        LogFile { segments: Some((Arc::clone(segments), file.clone())), ..LogFile::archived(path, arrivals) }
    }

    /// When its bytes came, if it is of an archive.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Opens it.
    pub fn open(&self) -> io::Result<Box<dyn Source>> {
        match &self.segments {
            Some((segments, file)) => Ok(Box::new(segments.open_file(file))),
            None => RealDisk.open(&self.path),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> io::Result<u64> {
        match &self.segments {
            Some((_, file)) => Ok(file.end),
            None => Ok(RealDisk.stat(&self.path)?.len),
        }
    }

    /// Where it is, if another program can read it there.
    pub fn on_disk(&self) -> Option<&Path> {
        self.segments.is_none().then_some(&self.path)
    }
}

impl Deref for LogFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}
