//! Converts one file: the new form is written beside the old one, read back, and only then put in its place.

mod column;
mod stdin;

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use codec::Codec;
use codec::parallel::{self, Job};
use disk::{Disk, Kind, Output, RealDisk, Stat, Tree, Volume};
use failure::Failure;
use progress::{Progress, Shared};

pub use self::column::column;
pub use self::stdin::InterruptibleStdin;

/// What to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Compress it.
    Pack(Job),
    /// Decompress it.
    Unpack,
    /// Read it, and write nothing.
    Test,
}

/// How to do it.
pub struct Switches {
    /// Threads that compress or decompress.
    pub threads: usize,
    /// Keep the file that is read.
    pub keep: bool,
    /// Replace files that exist.
    pub force: bool,
    /// Whether the new file's name was given.
    pub named: bool,
    /// Set when the run must stop.
    pub stop: Arc<AtomicBool>,
    /// Who hears of it.
    pub report: Shared,
}

/// What was done.
pub struct Converted {
    /// The codec of the file that was read.
    pub from: Codec,
    /// That of the new one.
    pub to: Codec,
    /// Bytes that were read.
    pub from_bytes: u64,
    /// Bytes that were written.
    pub to_bytes: u64,
    /// Bytes without compression.
    pub plain_bytes: u64,
    /// What became of the file that was read.
    pub old: Old,
}

/// What became of the file that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Old {
    /// It stays.
    Stays,
    /// It is removed.
    Removed,
    /// It had the name of the new one.
    Replaced,
}

/// The error for a file without a codec.
pub const NOT_COMPRESSED: &str = "this is not a compressed file, or its first bytes are damaged";

/// The codec of a regular file.
pub fn codec_of(disk: &RealDisk, file: &Path) -> Result<Codec> {
    let shown = || file.display().to_string();
    match disk.entry(file).with_context(shown)?.kind {
        Kind::File => {}
        Kind::Folder => bail!("{} is a folder", shown()),
        Kind::Link(_) | Kind::Other => bail!("{} is not a regular file; -c can read it", shown()),
    }
    let source = Disk::open(disk, file).with_context(shown)?;
    Ok(codec::recognised(Box::new(source)).with_context(shown)?.0)
}

/// Opens a file or standard input for reading to its end, with its name.
pub fn source(file: &Path, switches: &Switches) -> Result<(String, Box<dyn Read + Send>)> {
    if file == Path::new("-") {
        return Ok((
            "standard input".to_owned(),
            Box::new(InterruptibleStdin { stop: Arc::clone(&switches.stop) }),
        ));
    }
    Ok((file.display().to_string(), open(&RealDisk, file, switches)?.1))
}

/// Opens a file for reading to its end.
fn open(disk: &RealDisk, file: &Path, switches: &Switches) -> Result<(Stat, Box<dyn Read + Send>)> {
    let source = Disk::open(disk, file).with_context(|| file.display().to_string())?;
    let stat = source.stat().with_context(|| file.display().to_string())?;
    switches.report.phase(&file.display().to_string(), Some(stat.len));
    let watched = Watched { source, stop: Arc::clone(&switches.stop), report: Some(switches.report.clone()) };
    Ok((stat, Box::new(watched)))
}

/// A file being read: it reports progress, and fails when the command must stop.
struct Watched<R> {
    source: R,
    stop: Arc<AtomicBool>,
    report: Option<Shared>,
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

/// What passed through.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum {
    hash: blake3::Hash,
    bytes: u64,
}

/// Counts and hashes the bytes that pass through.
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

    fn sum(&self) -> Sum {
        Sum { hash: self.hash.finalize(), bytes: self.bytes }
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

/// Packs or unpacks a source into a sink. Returns its codec, and the hash and length of the plain bytes.
fn through(
    source: Box<dyn Read + Send>,
    sink: &mut dyn Write,
    way: Conversion,
    threads: usize,
) -> io::Result<(Codec, Sum)> {
    match way {
        Conversion::Pack(job) => parallel::reading(source, threads, |plain| {
            let mut plain = Seen::new(plain);
            parallel::compress(&mut plain, sink, job)?;
            Ok(plain.sum())
        }),
        Conversion::Unpack | Conversion::Test => {
            let (codec, source) = codec::recognised(source)?;
            if codec == Codec::Plain {
                return Err(io::Error::new(io::ErrorKind::InvalidData, NOT_COMPRESSED));
            }
            let mut sink = Seen::new(sink);
            let codec = parallel::decompress(source, &mut sink, threads)?;
            Ok((codec, sink.sum()))
        }
    }
}

/// Explains an error: a damaged file, a signal, or an error of the system.
pub fn explained(error: io::Error, switches: &Switches) -> anyhow::Error {
    if switches.stop.load(Ordering::Relaxed) {
        return Failure::Stopped.into();
    }
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => failure::damage(error.to_string()),
        _ => error.into(),
    }
}

/// Converts a source to standard output, or to nowhere.
pub fn stream(
    source: Box<dyn Read + Send>,
    stdout: impl Write + 'static,
    way: Conversion,
    switches: &Switches,
) -> Result<Converted> {
    let counted = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let source: Box<dyn Read + Send> = Box::new(Counted { source, count: Arc::clone(&counted) });
    let mut out: Box<dyn Write> = match way {
        Conversion::Test => Box::new(io::sink()),
        _ => Box::new(io::BufWriter::with_capacity(1 << 18, stdout)),
    };
    let outcome =
        through(source, &mut out, way, switches.threads).and_then(|done| out.flush().map(|()| done));
    let (from, Sum { bytes: plain_bytes, .. }) = outcome.map_err(|error| explained(error, switches))?;
    let from_bytes = counted.load(Ordering::Relaxed);
    let to = if let Conversion::Pack(job) = way { job.codec } else { Codec::Plain };
    Ok(Converted { from, to, from_bytes, to_bytes: 0, plain_bytes, old: Old::Stays })
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

/// Packs or unpacks a file into a file of another name.
pub fn file(
    disk: &RealDisk,
    from: &Path,
    to: &Path,
    way: Conversion,
    switches: &Switches,
) -> Result<Converted> {
    let shown = || from.display().to_string();
    let entry = disk.entry(from).with_context(shown)?;
    let in_place = check(disk, from, to, &entry, switches)?;
    let (before, source) = open(disk, from, switches)?;
    let mut output = Output::create(disk, to).with_context(|| to.display().to_string())?;
    let partial = Output::partial(to);
    let done = match way {
        Conversion::Pack(_) => through(source, &mut output, way, switches.threads),
        Conversion::Unpack | Conversion::Test => Sparse::over(disk, &partial).and_then(|mut sparse| {
            let done = through(source, &mut sparse, way, switches.threads)?;
            sparse.finish().map(|()| done)
        }),
    };
    let (codec, sum) = done.map_err(|error| explained(error, switches)).with_context(shown)?;
    if let (Conversion::Pack(job), true) = (way, codec == Codec::Plain && is_wrong_end(from)) {
        switches.report.warn(&format!(
            "{}: its name says that it is compressed, but its content is not; it was packed as it is, as {}",
            from.display(),
            job.codec
        ));
    }
    output.flush().with_context(|| to.display().to_string())?;
    // Read back from the file itself, before anything depends on it.
    let to_bytes = read_back(disk, &partial, way, sum, switches).with_context(|| to.display().to_string())?;
    attributes(disk, &entry, &partial, switches)?;
    let old = match (in_place, switches.keep) {
        (true, _) => Old::Replaced,
        (false, true) => Old::Stays,
        (false, false) => Old::Removed,
    };
    put(disk, output, &Place { from, to, before: &before, old })?;
    let to_codec = if let Conversion::Pack(job) = way { job.codec } else { Codec::Plain };
    let (from_bytes, plain_bytes) = (before.len, sum.bytes);
    Ok(Converted { from: codec, to: to_codec, from_bytes, to_bytes, plain_bytes, old })
}

/// Which file takes the place of which.
struct Place<'a> {
    from: &'a Path,
    to: &'a Path,
    /// The old one, as it was read.
    before: &'a Stat,
    /// What becomes of it.
    old: Old,
}

/// Gives the new file its name and removes the old one, if that is still as it was read.
fn put(disk: &RealDisk, output: Output<'_>, place: &Place<'_>) -> Result<()> {
    const WHY: &str = "it changed while it was being read, and is left as it is";
    let Place { from, to, before, old } = *place;
    let shown = || from.display().to_string();
    let is_changed = || Disk::stat(disk, from).map(|now| now != *before).with_context(shown);
    // A sync takes its time, in which others may write: nothing slow stands between looking and acting.
    let synced = Disk::volume(disk, &Output::partial(to)).and_then(|file| file.sync());
    synced.with_context(|| to.display().to_string())?;
    if is_changed()? {
        bail!("{}: {WHY}", shown());
    }
    output.finish().with_context(|| to.display().to_string())?;
    if old != Old::Removed {
        return Ok(());
    }
    if is_changed()? {
        Disk::remove(disk, to).with_context(|| to.display().to_string())?;
        bail!("{}: {WHY}", shown());
    }
    Disk::remove(disk, from).with_context(shown)?;
    disk.sync_folder(from.parent().unwrap_or(Path::new(""))).with_context(shown)
}

/// Writes a file with a hole wherever a block has only zeros.
struct Sparse {
    file: Box<dyn Volume>,
    /// Where the block begins.
    at: u64,
    block: Vec<u8>,
}

impl Sparse {
    const BLOCK_BYTES: usize = 64 << 10;

    /// Over a file that is empty.
    fn over(disk: &RealDisk, path: &Path) -> io::Result<Sparse> {
        let block = Vec::with_capacity(Sparse::BLOCK_BYTES);
        Ok(Sparse { file: Disk::volume(disk, path)?, at: 0, block })
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.iter().any(|byte| *byte != 0) {
            self.file.write_at(self.at, &self.block)?;
        }
        self.at += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.write_block()?;
        self.file.set_len(self.at)
    }
}

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = Sparse::BLOCK_BYTES - self.block.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.block.extend_from_slice(taken);
        if self.block.len() == Sparse::BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a name has the extension of a compressed file.
fn is_wrong_end(file: &Path) -> bool {
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    Codec::ALL.iter().any(|codec| *codec != Codec::Plain && codec.extension() == end)
}

/// Refuses what would be surprising. Returns whether the new file replaces the old one.
fn check(disk: &RealDisk, from: &Path, to: &Path, entry: &disk::Entry, switches: &Switches) -> Result<bool> {
    let shown = from.display();
    let is_link = |path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if !switches.keep && (is_link(from) || entry.links > 1) {
        bail!(
            "{shown} has other names or is a link, and these would be left behind; add --keep to keep them all"
        );
    }
    // Compared by inode, because the path may be written in another way, for example with ./
    let is_old = |found: disk::Entry| (found.device, found.inode) == (entry.device, entry.inode);
    if !is_link(to) && disk.entry(to).is_ok_and(is_old) {
        if switches.keep {
            bail!(
                "{shown} would be replaced by the new file; give another name with --output, or leave out --keep"
            );
        }
        if switches.named && !switches.force {
            bail!(
                "{shown} would be replaced by the new file: add --force for that, or give another name with --output"
            );
        }
        return Ok(true);
    }
    if disk.entry(&Output::partial(to)).is_ok_and(is_old) {
        bail!(
            "{shown} has the temporary name of {}, and would be overwritten: rename it first",
            to.display()
        );
    }
    if !switches.force && Disk::stat(disk, to).is_ok() {
        bail!("{} exists already; add --force to replace it", to.display());
    }
    Ok(false)
}

/// Reads back what was written, and compares; returns its length.
fn read_back(
    disk: &RealDisk,
    partial: &Path,
    way: Conversion,
    wanted: Sum,
    switches: &Switches,
) -> Result<u64> {
    let source = Disk::open(disk, partial)?;
    let len = source.stat()?.len;
    let source = Watched { source, stop: Arc::clone(&switches.stop), report: None };
    let mut found = Seen::new(io::sink());
    let outcome = match way {
        Conversion::Pack(_) => parallel::decompress(Box::new(source), &mut found, switches.threads).map(drop),
        Conversion::Unpack | Conversion::Test => io::copy(&mut { source }, &mut found).map(drop),
    };
    outcome.map_err(|error| explained(error, switches)).context("what was written can't be read back")?;
    if found.sum() != wanted {
        bail!("what was written differs from what was read: check the memory and the disk of this machine");
    }
    Ok(len)
}

/// Copies owner, permissions, time and extended attributes from the old file.
fn attributes(disk: &RealDisk, entry: &disk::Entry, partial: &Path, switches: &Switches) -> Result<()> {
    let wanted = entry.attributes;
    let has =
        disk.set_attributes(partial, &entry.kind, wanted).with_context(|| partial.display().to_string())?;
    if (has.uid, has.gid) != (wanted.uid, wanted.gid) {
        switches.report.warn(&format!(
            "the old file belonged to user {} and group {}, the new one belongs to {} and {}: only root can set that",
            wanted.uid, wanted.gid, has.uid, has.gid
        ));
    }
    for (name, value) in entry.extended.iter() {
        if let Err(error) = disk.set_extended(partial, name, value) {
            switches.report.warn(&format!(
                "the extended attribute {} of the old file could not be given to the new one: {error}",
                name.display()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test lays out its own files")]
    fn a_line_that_comes_late_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["a", "a.zst"].map(|name| folder.path().join(name));
        let tried = |old: Old, late: &[u8]| {
            std::fs::write(&from, "one\n").unwrap();
            let before = Disk::stat(&RealDisk, &from).unwrap();
            let mut output = Output::create(&RealDisk, &to).unwrap();
            output.write_all(b"packed").unwrap();
            output.flush().unwrap();
            std::fs::OpenOptions::new().append(true).open(&from).unwrap().write_all(late).unwrap();
            let done = put(&RealDisk, output, &Place { from: &from, to: &to, before: &before, old });
            let there = [&from, &to].map(|path| std::fs::read_to_string(path).unwrap_or_default());
            std::fs::remove_file(&to).ok();
            (done.is_ok(), there)
        };
        for old in [Old::Stays, Old::Removed] {
            assert_eq!(tried(old, b"two\n"), (false, ["one\ntwo\n".to_owned(), String::new()]));
        }
        assert_eq!(tried(Old::Stays, b""), (true, ["one\n", "packed"].map(str::to_owned)));
        assert_eq!(tried(Old::Removed, b""), (true, ["", "packed"].map(str::to_owned)));
    }
}
