//! One file in another form: written beside the old one, read back, and only then in its place.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use codec::Codec;
use codec::parallel::{self, Job};
use disk::{Disk, Kind, Output, RealDisk, Stat, Tree};
use progress::Progress;

use crate::exit::{self, Stopped};
use crate::report::Report;
use crate::stop;

/// What is to be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Pack(Job),
    Unpack,
    Test,
}

pub(super) struct Switches {
    pub(super) threads: usize,
    pub(super) keep: bool,
    pub(super) force: bool,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) report: Report,
}

/// What was done.
pub(super) struct Converted {
    pub(super) from: Codec,
    pub(super) to: Codec,
    pub(super) from_bytes: u64,
    pub(super) to_bytes: u64,
    pub(super) plain_bytes: u64,
    pub(super) removed: bool,
}

/// The codec of a file.
pub(super) fn codec_of(disk: &RealDisk, file: &Path) -> Result<Codec> {
    let mut head = Vec::new();
    let source = Disk::open(disk, file).with_context(|| file.display().to_string())?;
    source
        .take(Codec::MAGIC_BYTES as u64)
        .read_to_end(&mut head)
        .with_context(|| file.display().to_string())?;
    Ok(Codec::recognise(&head))
}

/// Opens a file to be read to its end.
pub(super) fn open(
    disk: &RealDisk,
    file: &Path,
    switches: &Switches,
) -> Result<(Stat, Box<dyn Read + Send>)> {
    let source = Disk::open(disk, file).with_context(|| file.display().to_string())?;
    let stat = source.stat().with_context(|| file.display().to_string())?;
    switches.report.phase(&file.display().to_string(), Some(stat.len));
    let watched = Watched { source, stop: Arc::clone(&switches.stop), report: Some(switches.report.clone()) };
    Ok((stat, Box::new(watched)))
}

/// A file being read: it tells how far it is, and fails when the command is to stop.
struct Watched<R> {
    source: R,
    stop: Arc<AtomicBool>,
    report: Option<Report>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped by a signal"));
        }
        let count = self.source.read(buffer)?;
        if let Some(report) = &self.report {
            report.read(count as u64);
        }
        Ok(count)
    }
}

/// Counts and hashes what goes through.
struct Seen<T> {
    inner: T,
    hash: blake3::Hasher,
    bytes: u64,
}

impl<T> Seen<T> {
    fn new(inner: T) -> Seen<T> {
        Seen { inner, hash: blake3::Hasher::new(), bytes: 0 }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    fn sum(&self) -> (blake3::Hash, u64) {
        (self.hash.finalize(), self.bytes)
    }
}

impl<T: Read> Read for Seen<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.note(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<T: Write> Write for Seen<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.note(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Sends a source its way into a sink; returns its codec, and hash and length of the plain bytes.
fn through(
    source: Box<dyn Read + Send>,
    sink: &mut dyn Write,
    way: Way,
    threads: usize,
) -> io::Result<(Codec, (blake3::Hash, u64))> {
    match way {
        Way::Pack(job) => parallel::reading(source, threads, |plain| {
            let mut plain = Seen::new(plain);
            parallel::compress(&mut plain, sink, job)?;
            Ok(plain.sum())
        }),
        Way::Unpack | Way::Test => {
            let mut sink = Seen::new(sink);
            let codec = parallel::decompress(source, &mut sink, threads)?;
            Ok((codec, sink.sum()))
        }
    }
}

/// What an error means: a damaged file, a signal, or what the system says.
fn explained(error: io::Error, switches: &Switches) -> anyhow::Error {
    if switches.stop.load(Ordering::Relaxed) {
        return Stopped(stop::signal()).into();
    }
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => exit::damage(error.to_string()),
        _ => error.into(),
    }
}

/// From a source to standard output, or nowhere.
pub(super) fn stream(source: Box<dyn Read + Send>, way: Way, switches: &Switches) -> Result<Converted> {
    let counted = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let source: Box<dyn Read + Send> = Box::new(Counted { source, count: Arc::clone(&counted) });
    let mut out: Box<dyn Write> = match way {
        Way::Test => Box::new(io::sink()),
        _ => Box::new(io::BufWriter::with_capacity(1 << 18, exit::stdout())),
    };
    let outcome =
        through(source, &mut out, way, switches.threads).and_then(|done| out.flush().map(|()| done));
    let (from, (_, plain_bytes)) = outcome.map_err(|error| explained(error, switches))?;
    if way == Way::Test && from == Codec::Plain {
        return Err(exit::damage("this is no compressed file, or its first bytes are damaged".to_owned()));
    }
    let from_bytes = counted.load(Ordering::Relaxed);
    let to = if let Way::Pack(job) = way { job.codec } else { Codec::Plain };
    Ok(Converted { from, to, from_bytes, to_bytes: 0, plain_bytes, removed: false })
}

struct Counted {
    source: Box<dyn Read + Send>,
    count: Arc<std::sync::atomic::AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A file under its new name in its new form.
pub(super) fn file(
    disk: &RealDisk,
    from: &Path,
    to: &Path,
    way: Way,
    switches: &Switches,
) -> Result<Converted> {
    let shown = || from.display().to_string();
    let entry = disk.entry(from).with_context(shown)?;
    check(disk, from, to, &entry, switches)?;
    let (before, source) = open(disk, from, switches)?;
    let mut output = Output::create(disk, to).with_context(|| to.display().to_string())?;
    let (codec, sum) = through(source, &mut output, way, switches.threads)
        .map_err(|error| explained(error, switches))
        .with_context(shown)?;
    if let (Way::Pack(job), true) = (way, codec == Codec::Plain && is_wrong_end(from)) {
        switches.report.warn(&format!(
            "{}: its name says that it is compressed, its content does not; it was taken as it is and is {} now",
            from.display(),
            job.codec
        ));
    }
    output.flush().with_context(|| to.display().to_string())?;
    // Read from the file itself, before anything depends on it.
    let partial = Output::partial(to);
    let to_bytes = read_back(disk, &partial, way, sum, switches).with_context(|| to.display().to_string())?;
    let after = Disk::stat(disk, from).with_context(shown)?;
    if after != before {
        bail!("{}: it changed while it was read; it is left as it is", from.display());
    }
    attributes(disk, &entry, &partial, switches)?;
    output.finish().with_context(|| to.display().to_string())?;
    let removed = !switches.keep && from != to;
    if removed {
        Disk::remove(disk, from).with_context(shown)?;
        disk.sync_folder(from.parent().unwrap_or(Path::new(""))).with_context(shown)?;
    }
    let to_codec = if let Way::Pack(job) = way { job.codec } else { Codec::Plain };
    let (from_bytes, plain_bytes) = (before.len, sum.1);
    Ok(Converted { from: codec, to: to_codec, from_bytes, to_bytes, plain_bytes, removed })
}

/// Whether a name ends as that of a compressed file.
fn is_wrong_end(file: &Path) -> bool {
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    Codec::ALL.iter().any(|codec| *codec != Codec::Plain && codec.extension() == end)
}

/// Refuses what would surprise.
fn check(disk: &RealDisk, from: &Path, to: &Path, entry: &disk::Entry, switches: &Switches) -> Result<()> {
    let shown = from.display();
    if entry.kind != Kind::File {
        bail!("{shown} is no regular file: with -c it can be read");
    }
    let is_link = std::fs::symlink_metadata(from).is_ok_and(|found| found.is_symlink());
    if !switches.keep && (is_link || entry.links > 1) {
        bail!("{shown} has other names, which would be left behind; add --keep to leave all of them");
    }
    if from == to {
        if switches.keep {
            bail!(
                "{shown} would be replaced by its new form; name another file with --output, or leave --keep out"
            );
        }
        return Ok(());
    }
    if !switches.force && Disk::stat(disk, to).is_ok() {
        bail!("{} exists already; add --force to replace it", to.display());
    }
    Ok(())
}

/// Reads what was written, and compares; returns its length.
fn read_back(
    disk: &RealDisk,
    partial: &Path,
    way: Way,
    wanted: (blake3::Hash, u64),
    switches: &Switches,
) -> Result<u64> {
    let source = Disk::open(disk, partial)?;
    let len = source.stat()?.len;
    let source = Watched { source, stop: Arc::clone(&switches.stop), report: None };
    let mut found = Seen::new(io::sink());
    let outcome = match way {
        Way::Pack(_) => parallel::decompress(Box::new(source), &mut found, switches.threads).map(drop),
        Way::Unpack | Way::Test => io::copy(&mut { source }, &mut found).map(drop),
    };
    outcome.map_err(|error| explained(error, switches)).context("what was written can't be read back")?;
    if found.sum() != wanted {
        bail!("what was written is not what was read; is the disk or the memory of this machine sound?");
    }
    Ok(len)
}

/// Owner, rights, time and extended attributes of the old file for the new one.
fn attributes(disk: &RealDisk, entry: &disk::Entry, partial: &Path, switches: &Switches) -> Result<()> {
    disk.set_attributes(partial, &entry.kind, entry.attributes)
        .with_context(|| partial.display().to_string())?;
    for (name, value) in entry.extended.iter() {
        if let Err(error) = disk.set_extended(partial, name, value) {
            switches.report.warn(&format!(
                "the new file does not have the extended attribute {} of the old one: {error}",
                name.display()
            ));
        }
    }
    Ok(())
}
