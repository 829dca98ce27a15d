//! Recordings: writes samples to a file, and reads them back.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use disk::{Disk, Guard, RealDisk, Share, Sink};
use failure::Failure;
use progress::Progress;
use status::counter::record::{Reader, Recorded, Writer};
use status::counter::sample::Sample;

use crate::incident::Incident;

/// Longest line of a recording: a first sample has some 30 kB, digests some 5 MB.
const LINE_MAX: u64 = 64 << 20;

/// A file to which samples are appended. What is written survives the end of this process, and after `finish`
/// also a crash of the machine.
pub struct Recorder {
    path: PathBuf,
    sink: Box<dyn Sink>,
    writer: Writer,
    /// Whether statements are kept as they are.
    statements: bool,
    /// Keeps others from writing to the file.
    _lock: Box<dyn Guard>,
}

impl Recorder {
    /// Begins a file, or continues one after its last complete line. `statements`: whether it keeps
    /// statements, and not only their kinds.
    pub fn open(path: &Path, statements: bool) -> Result<Recorder> {
        let name = || path.display().to_string();
        let is_new = match RealDisk.create(path) {
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error).with_context(name),
        };
        let lock = RealDisk.lock(path, Share::Exclusive).with_context(name)?;
        let lock = lock.ok_or_else(|| Failure::Busy(format!("{}: another run records into it", name())))?;
        let len = if is_new { 0 } else { whole(path).with_context(name)? };
        let mut sink = RealDisk.append(path, len).with_context(name)?;
        sink.write_all(Writer::head().as_bytes()).with_context(name)?;
        Ok(Recorder { path: path.to_owned(), sink, writer: Writer::default(), statements, _lock: lock })
    }

    /// Appends a sample of a server, and what was found besides.
    pub fn add(&mut self, server: &str, sample: &Sample, incident: &Incident) -> Result<()> {
        let text = self.writer.sample(server, sample, incident.kept(sample, self.statements));
        self.sink.write_all(text.as_bytes()).with_context(|| self.path.display().to_string())
    }

    /// Makes everything durable.
    pub fn finish(mut self) -> Result<()> {
        self.sink.sync().with_context(|| self.path.display().to_string())
    }
}

/// The length of a recording up to the end of its last complete line. A file of another kind is refused.
fn whole(path: &Path) -> Result<u64> {
    let mut file = RealDisk.open(path)?;
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut first = String::new();
    BufReader::new((&mut file).take(1000)).read_line(&mut first).ok();
    if len > 0 && Reader::default().line(first.trim_end()).is_err() {
        bail!("the file exists and is no recording of remora stat; name another one");
    }
    let mut end = len;
    let mut block = vec![0; 1 << 16];
    while end > 0 {
        let from = end.saturating_sub(block.len() as u64);
        let part = &mut block[..usize::try_from(end - from)?];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// The servers of a recording, in order of appearance, and the time that it covers.
pub fn survey(path: &Path) -> Result<(Vec<String>, Duration)> {
    let mut names: Vec<String> = Vec::new();
    let mut span: Option<(i64, i64)> = None;
    replay(path, None, &mut |Recorded { server, sample, .. }| {
        if !names.contains(&server) {
            names.push(server);
        }
        let (first, last) = span.unwrap_or((sample.unix_ms, sample.unix_ms));
        span = Some((first.min(sample.unix_ms), last.max(sample.unix_ms)));
        Ok(true)
    })?;
    let span = span.map_or(0, |(first, last)| last.abs_diff(first));
    Ok((names, Duration::from_millis(span)))
}

/// Calls `each` with every sample of a recording, compressed or not, as long as `each` wants more. An
/// incomplete last line is left out, and reported.
pub fn replay(
    path: &Path,
    report: Option<&dyn Progress>,
    each: &mut dyn FnMut(Recorded) -> Result<bool>,
) -> Result<()> {
    let name = path.display().to_string();
    let file = RealDisk.open(path).with_context(|| name.clone())?;
    let (_, plain) = codec::decoder(Box::new(file)).with_context(|| name.clone())?;
    let mut input = BufReader::new(plain);
    let mut reader = Reader::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(LINE_MAX).read_until(b'\n', &mut line).with_context(|| name.clone())?;
        if read == 0 {
            return Ok(());
        }
        if line.pop() != Some(b'\n') {
            if let Some(report) = report {
                report.warn(&format!(
                    "{name} ends within a line, as its writer was killed; that line is left out"
                ));
            }
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let found = reader.line(&text).map_err(|error| anyhow::Error::new(error).context(name.clone()))?;
        if let Some(found) = found
            && !each(found)?
        {
            return Ok(());
        }
    }
}
