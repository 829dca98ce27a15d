//! A file as a stream of UTF-8 text: opened, decompressed, decoded.

mod buffer;
mod typed;

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use disk::{Disk, Source, Stat};
use rows::{BadLine, Decoder, Encoding, Translator};

use crate::archive::{self, Member};
use crate::{Error, Input, foreign};
pub use buffer::Buffer;
use parquet_rows::foreign::{Options, Table};
use progress::Progress;

/// Bytes that are examined to recognise dialect and encoding.
pub const SAMPLE_BYTES: usize = 1 << 20;

/// Bytes per read.
const BLOCK_BYTES: usize = 256 * 1024;

/// The inputs of an import, ready to be read, more than once if necessary.
pub struct Files<'a> {
    disk: &'a dyn Disk,
    files: Vec<File>,
}

struct File {
    name: String,
    body: Body,
}

enum Body {
    /// A named file and its state when the import began.
    Path(PathBuf, Stat),
    /// A member of a zip archive, which is a named file.
    Member(PathBuf, Stat, Member),
    /// A named file with typed columns, which is read as text.
    Typed(PathBuf, Stat, Arc<Table>),
    /// A stream, which can be read once.
    Once(Box<Mutex<Option<Raw>>>),
    /// Standard input, spooled because it must be read twice.
    Spooled(std::fs::File, u64),
}

/// Standard input, and where to spool it.
pub struct Stdin {
    /// The stream.
    pub reader: Box<dyn Read + Send>,
    /// Folder for a spool file.
    pub spool: PathBuf,
}

/// How files are read.
#[derive(Default)]
pub struct Reading<'a> {
    /// Whether they are read more than once: then standard input is spooled to an unnamed file. The types of
    /// a column are known only after its last value.
    pub twice: bool,
    /// The member of an archive with several files.
    pub member: Option<&'a str>,
    /// What is said about files with typed columns.
    pub typed: Options,
    /// Whether the names of their folders have columns, too.
    pub hive: bool,
}

impl<'a> Files<'a> {
    /// Records the state of each file.
    ///
    /// # Errors
    /// When a file is missing; when standard input is given twice or can't be spooled; when an archive has
    /// several files and none of them is chosen; when files have different columns.
    pub fn new(
        disk: &'a dyn Disk,
        inputs: &[Input],
        mut stdin: Option<Stdin>,
        reading: &Reading<'_>,
    ) -> Result<Files<'a>, Error> {
        let spool = stdin.as_ref().map_or(PathBuf::from("."), |stdin| stdin.spool.clone());
        let twice = reading.twice;
        let mut files: Vec<File> = Vec::new();
        for input in inputs {
            files.push(match input {
                Input::Path(path) => {
                    let name = path.display().to_string();
                    let stat =
                        disk.stat(path).map_err(|source| Error::Read { name: name.clone(), source })?;
                    let body = match stat.regular {
                        true => named(disk, path, stat, reading)?,
                        // A pipe or a device can be read only once, like standard input.
                        false => {
                            let file = disk.open(path);
                            let reader = file.map_err(|source| Error::Read { name: name.clone(), source })?;
                            once(&name, Box::new(Plain(reader)), twice.then_some(spool.as_path()))?
                        }
                    };
                    let name = match &body {
                        Body::Member(_, _, member) => format!("{name}({})", member.name),
                        _ => name,
                    };
                    File { name, body }
                }
                Input::Stdin => {
                    let stdin = stdin.take().ok_or_else(|| {
                        Error::Mismatch("standard input (-) can be read only once".to_owned())
                    })?;
                    let name = "stdin".to_owned();
                    let body = once(&name, stdin.reader, twice.then_some(spool.as_path()))?;
                    File { name, body }
                }
            });
        }
        let mut files = Files { disk, files };
        files.make_alike()?;
        Ok(files)
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether a file can be read more than once.
    #[must_use]
    pub fn is_readable_again(&self, file: usize) -> bool {
        !matches!(self.files.get(file).map(|file| &file.body), Some(Body::Once(_)))
    }

    /// The name of a file, as the user gave it.
    #[must_use]
    pub fn name(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |file| &file.name)
    }

    /// Bytes on disk of all files, if all are known.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().map(|file| file.bytes()).sum()
    }

    /// Whether no file is compressed, as far as they can be opened.
    #[must_use]
    pub fn are_plain(&self) -> bool {
        (0..self.len())
            .all(|file| self.is_readable_again(file) && self.open(file).is_ok_and(|raw| raw.is_plain))
    }

    /// The state of each file when the import began: length and modification time; `None` for a stream.
    #[must_use]
    pub fn stat(&self, file: usize) -> Option<Stat> {
        match &self.files.get(file)?.body {
            Body::Path(_, stat) | Body::Member(_, stat, _) | Body::Typed(_, stat, _) => Some(*stat),
            _ => None,
        }
    }

    /// The first decompressed bytes of a file (see [`SAMPLE_BYTES`]), and whether the file has no more.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn head(&self, file: usize) -> Result<(Vec<u8>, bool), Error> {
        let mut raw = self.open(file)?;
        let head = raw.sample()?;
        if let Some(Body::Once(again)) = self.files.get(file).map(|file| &file.body) {
            *again.lock().unwrap_or_else(PoisonError::into_inner) = Some(raw);
        }
        Ok(head)
    }

    /// Opens a file from its beginning, decompressed but not yet decoded.
    ///
    /// # Errors
    /// When it can't be opened, or is a stream that was already read.
    pub fn open(&self, file: usize) -> Result<Raw, Error> {
        let named = self.files.get(file).ok_or_else(|| Error::Mismatch("no such file".to_owned()))?;
        let failed = |source| Error::Read { name: named.name.clone(), source };
        match &named.body {
            Body::Path(path, _) => {
                Raw::new(&named.name, Box::new(Plain(self.disk.open(path).map_err(failed)?)))
            }
            Body::Member(path, _, member) => {
                let mut archive = self.disk.open(path).map_err(failed)?;
                archive.seek(SeekFrom::Start(member.start)).map_err(failed)?;
                Raw::new(&named.name, member.reader(Box::new(Plain(archive))))
            }
            Body::Typed(path, stat, table) => {
                let text = foreign::lines(self.disk, (path, stat), table).map_err(failed)?;
                let (reader, count) = (text.reader, text.used);
                Ok(Raw { name: named.name.clone(), reader, count, is_plain: false, sample: None })
            }
            Body::Once(raw) => raw
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .ok_or_else(|| failed(io::Error::other("was already read and can't be read again"))),
            Body::Spooled(spool, _) => {
                let mut spool = spool.try_clone().map_err(failed)?;
                spool.seek(SeekFrom::Start(0)).map_err(failed)?;
                Raw::new(&named.name, Box::new(spool))
            }
        }
    }

    /// Opens a file with its first bytes read ahead, so that a byte order mark is complete.
    ///
    /// # Errors
    /// Those of [`Files::open`].
    pub fn open_sampled(&self, file: usize) -> Result<Raw, Error> {
        let mut raw = self.open(file)?;
        raw.sample()?;
        Ok(raw)
    }

    /// Checks that no file changed since the import began.
    ///
    /// # Errors
    /// [`Error::Changed`], which names the file.
    pub fn unchanged(&self) -> Result<(), Error> {
        for file in &self.files {
            if let Body::Path(path, before) | Body::Member(path, before, _) | Body::Typed(path, before, _) =
                &file.body
                && self.disk.stat(path).ok().as_ref() != Some(before)
            {
                return Err(Error::Changed { name: file.name.clone() });
            }
        }
        Ok(())
    }
}

impl File {
    fn bytes(&self) -> Option<u64> {
        match &self.body {
            Body::Path(_, stat) | Body::Typed(_, stat, _) => Some(stat.len),
            Body::Member(_, _, member) => Some(member.packed_bytes),
            Body::Spooled(_, bytes) => Some(*bytes),
            Body::Once(_) => None,
        }
    }
}

/// A named file, or its member that has the rows.
fn named(disk: &dyn Disk, path: &Path, stat: Stat, reading: &Reading<'_>) -> Result<Body, Error> {
    let member = reading.member;
    let mut typed = reading.typed.clone();
    if reading.hive {
        typed.in_path = foreign::columns_in_path(path)?;
    }
    if member.is_none()
        && let Some(table) = foreign::open(disk, (path, &stat), &typed)?
    {
        return Ok(Body::Typed(path.to_path_buf(), stat, table));
    }
    let name = || path.display().to_string();
    if reading.hive {
        return Err(Error::Mismatch(format!("{}: --hive is for files of Parquet and Arrow", name())));
    }
    let failed = |source| Error::Read { name: name(), source };
    let mut file = disk.open(path).map_err(failed)?;
    let mut magic = [0; 4];
    let length = file.read_at(0, &mut magic).map_err(failed)?;
    if !archive::MAGICS.contains(&magic.get(..length).unwrap_or_default()) {
        return match member {
            Some(_) => {
                Err(Error::Mismatch(format!("{}: --member is for zip archives, and this is not one", name())))
            }
            None => Ok(Body::Path(path.to_path_buf(), stat)),
        };
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    match archive::find(io::BufReader::new(file), member) {
        Ok(member) => Ok(Body::Member(path.to_path_buf(), stat, member)),
        Err(what) => Err(Error::Mismatch(format!("{}: {what}", name()))),
    }
}

fn once(name: &str, mut reader: Box<dyn Read + Send>, spool: Option<&Path>) -> Result<Body, Error> {
    let Some(folder) = spool else {
        return Ok(Body::Once(Box::new(Mutex::new(Some(Raw::new(name, reader)?)))));
    };
    let name = folder.display().to_string();
    let failed =
        |source| Error::Write { name: format!("spool file in {name} (TMPDIR names another folder)"), source };
    let mut spool = tempfile::tempfile_in(folder).map_err(failed)?;
    let bytes = io::copy(&mut reader, &mut spool).map_err(failed)?;
    spool.flush().map_err(failed)?;
    Ok(Body::Spooled(spool, bytes))
}

/// A [`Source`] for reading only.
struct Plain(Box<dyn Source>);

impl Read for Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Counts the bytes read from disk; decompression between here and the caller changes the number.
struct Counted {
    reader: Box<dyn Read + Send>,
    count: Arc<Mutex<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += count as u64;
        Ok(count)
    }
}

/// A decompressed file, still in its own encoding.
pub struct Raw {
    name: String,
    reader: Box<dyn Read + Send>,
    count: Arc<Mutex<u64>>,
    is_plain: bool,
    sample: Option<(Vec<u8>, bool)>,
}

impl Raw {
    fn new(name: &str, reader: Box<dyn Read + Send>) -> Result<Raw, Error> {
        let count = Arc::new(Mutex::new(0));
        let counted = Counted { reader, count: Arc::clone(&count) };
        let opened = codec::decoder(Box::new(counted));
        let (codec, reader) = opened.map_err(|source| Error::Read { name: name.to_owned(), source })?;
        let is_plain = codec == codec::Codec::Plain;
        Ok(Raw { name: name.to_owned(), reader: Box::new(reader), count, is_plain, sample: None })
    }

    /// The first bytes, and whether the file has no more; they are read once and kept for [`Raw::text`].
    fn sample(&mut self) -> Result<(Vec<u8>, bool), Error> {
        if let Some(sample) = &self.sample {
            return Ok(sample.clone());
        }
        let mut sample = Vec::new();
        let read = self.reader.by_ref().take(SAMPLE_BYTES as u64).read_to_end(&mut sample);
        read.map_err(|source| Error::Read { name: self.name.clone(), source })?;
        let whole = sample.len() < SAMPLE_BYTES;
        self.sample = Some((sample.clone(), whole));
        Ok((sample, whole))
    }

    /// The file as UTF-8, converted to strict text, from its beginning.
    #[must_use]
    pub fn text(
        mut self,
        encoding: Encoding,
        translator: Option<Translator>,
        progress: &dyn Progress,
    ) -> Text<'_> {
        let as_is = matches!(encoding, Encoding::Utf8 | Encoding::Binary) && translator.is_none();
        let input = self.sample.take().map(|(sample, _)| sample).unwrap_or_default();
        Text {
            raw: self,
            decoder: Decoder::new(encoding),
            translator,
            as_is,
            progress,
            input,
            block: Vec::new(),
            ended: false,
        }
    }
}

/// A file as UTF-8 text.
pub struct Text<'p> {
    raw: Raw,
    decoder: Decoder,
    translator: Option<Translator>,
    /// Bytes pass unchanged, except for a byte order mark at the start: the common case, which avoids copies.
    as_is: bool,
    progress: &'p dyn Progress,
    /// The sample, until it is used.
    input: Vec<u8>,
    block: Vec<u8>,
    ended: bool,
}

impl Text<'_> {
    /// Appends text to `out` until it has `want` bytes (a few more if decoding lengthens it) or the file
    /// ends. Returns false at the end of the file.
    ///
    /// # Errors
    /// Errors of reading, and bytes that are invalid in the encoding.
    pub fn fill(&mut self, out: &mut Buffer, want: usize) -> Result<bool, Error> {
        while out.len() < want && !self.ended {
            if !self.input.is_empty() {
                let sample = std::mem::take(&mut self.input);
                self.decode(&sample, out)?;
                self.report();
                continue;
            }
            if self.as_is {
                let count = self.read_into(out, want)?;
                self.ended = count == 0;
            } else {
                let mut block = std::mem::take(&mut self.block);
                block.resize(BLOCK_BYTES, 0);
                let count = self.read_some(&mut block)?;
                if count == 0 {
                    self.ended = true;
                    self.finish(out)?;
                } else {
                    self.decode(block.get(..count).unwrap_or_default(), out)?;
                }
                self.block = block;
            }
            self.report();
        }
        Ok(!self.ended)
    }

    fn read_into(&mut self, out: &mut Buffer, want: usize) -> Result<usize, Error> {
        let mut total = 0;
        while out.len() < want {
            let room = out.room(want);
            let count = self.read_some(room)?;
            if count == 0 {
                break;
            }
            out.grow(count);
            total += count;
        }
        Ok(total)
    }

    fn read_some(&mut self, block: &mut [u8]) -> Result<usize, Error> {
        loop {
            match self.raw.reader.read(block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    return result.map_err(|source| Error::Read { name: self.raw.name.clone(), source });
                }
            }
        }
    }

    fn decode(&mut self, input: &[u8], out: &mut Buffer) -> Result<(), Error> {
        let mut text = Vec::with_capacity(input.len() + input.len() / 2);
        let result = self.decoder.decode(input, false, &mut text);
        self.translate(text, false, out)?;
        result.map_err(|bad| self.bad(&bad, out))
    }

    fn finish(&mut self, out: &mut Buffer) -> Result<(), Error> {
        let mut text = Vec::new();
        let result = self.decoder.decode(&[], true, &mut text);
        self.translate(text, true, out)?;
        result.map_err(|bad| self.bad(&bad, out))
    }

    /// Appends text, converted to strict text if necessary.
    fn translate(&mut self, text: Vec<u8>, last: bool, out: &mut Buffer) -> Result<(), Error> {
        let Some(translator) = &mut self.translator else {
            out.append(&text);
            return Ok(());
        };
        let mut strict = Vec::with_capacity(text.len());
        let result = translator.translate(&text, last, &mut strict);
        out.append(&strict);
        result.map_err(|BadLine { line, what }| Error::Record { name: self.raw.name.clone(), line, what })
    }

    fn bad(&self, bad: &dyn std::fmt::Display, out: &Buffer) -> Error {
        let line = out.lines_before + memchr::memchr_iter(b'\n', out.bytes()).count() as u64 + 1;
        Error::Encoding { name: self.raw.name.clone(), line, what: bad.to_string() }
    }

    fn report(&mut self) {
        let mut count = self.raw.count.lock().unwrap_or_else(PoisonError::into_inner);
        self.progress.read(std::mem::take(&mut *count));
    }
}
