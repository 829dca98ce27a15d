//! The far side: answers requests until its input ends.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;

use block::tree::TreeSource;
use block::{CHUNK, ChunkRead, ChunkRequest, ChunkSource, Scan};
use crossbeam_channel::{Receiver, Sender, bounded};
use disk::{Batch, Disk, Kind, Sink, Source, Tree, Volume};

use crate::clone::{CloneReport, CloneRequest};
use crate::connection::Greeting;
use crate::feed;
use crate::page_check::InnodbPages;
use crate::request::{FilePart, NO_BATCH, Request};
use crate::wire::{self, CommandOutput, Encoder, corrupt};

/// The most waiting requests: more than are ever announced.
const WAITING: usize = 12;
/// The most answers that wait to be compressed and sent.
const ANSWERS: usize = 2;

/// The machine of the far side.
pub trait Machine: Sync {
    /// Its files.
    fn disk(&self) -> Arc<dyn Disk>;

    /// Its folders.
    fn tree(&self) -> &dyn Tree;

    /// Runs a command with empty input.
    ///
    /// # Errors
    /// When it can't be started.
    fn run(&self, command: &[OsString]) -> io::Result<CommandOutput>;

    /// Copies a folder so that the files share their blocks.
    ///
    /// # Errors
    /// Those of [`crate::clone()`].
    fn clone_folder(&self, cloning: &CloneRequest) -> io::Result<CloneReport>;
}

/// Something open.
enum Open {
    Source(Box<dyn Source>),
    /// A volume made of files.
    Joined(TreeSource),
    Sink(Box<dyn Sink>),
    Volume(Box<dyn Volume>),
    /// Writes to a file system that are made durable together.
    Batch(Box<dyn Batch>),
    /// A source that is read in order.
    Scan(Scan),
}

/// An answer to send.
enum Answer {
    Plain(io::Result<Vec<u8>>),
    /// Bytes of a chunk, and which part of it is wanted.
    Chunk(Vec<u8>, ChunkRequest),
}

/// Greets and answers requests until `input` ends.
///
/// # Errors
/// When the near side is gone, or sends something invalid.
pub fn serve(
    input: impl Read + Send,
    output: impl Write + Send,
    greeting: &Greeting,
    machine: &dyn Machine,
) -> io::Result<()> {
    let (ask, requests) = bounded::<Request>(WAITING);
    let (give, answers) = bounded::<Answer>(ANSWERS);
    let mut output = BufWriter::new(output);
    wire::send(&mut output, wire::OK, &greeting.encode())?;
    output.flush()?;
    std::thread::scope(|scope| {
        // Requests are read while an answer is sent, so that the two sides never wait for each other.
        let reader = scope.spawn(move || receive(input, &ask));
        let writer = scope.spawn(move || send(output, answers));
        Session {
            machine,
            open: BTreeMap::new(),
            next: 0,
            failed: None,
            scan: None,
            pending: VecDeque::new(),
        }
        .work(&requests, &give);
        drop((requests, give));
        let ended = |joined: std::thread::Result<io::Result<()>>| {
            joined.unwrap_or_else(|_| Err(corrupt("a thread ended early")))
        };
        ended(writer.join())?;
        ended(reader.join())
    })
}

fn receive(input: impl Read, ask: &Sender<Request>) -> io::Result<()> {
    let mut input = BufReader::new(input);
    while let Some((kind, payload)) = wire::receive(&mut input)? {
        if ask.send(Request::decode(kind, &payload)?).is_err() {
            break;
        }
    }
    Ok(())
}

fn send(mut output: impl Write, answers: Receiver<Answer>) -> io::Result<()> {
    for answer in answers {
        let answer = match answer {
            Answer::Plain(answer) => answer,
            Answer::Chunk(bytes, want) => feed::encode(&bytes, &want),
        };
        match answer {
            Ok(payload) => wire::send(&mut output, wire::OK, &payload)?,
            Err(error) => wire::send(&mut output, wire::ERROR, &wire::encode_error(&error))?,
        }
        output.flush()?;
    }
    Ok(())
}

struct Session<'a> {
    machine: &'a dyn Machine,
    open: BTreeMap<u32, Open>,
    next: u32,
    /// The first error of a request without an answer.
    failed: Option<io::Error>,
    /// What is read in order.
    scan: Option<u32>,
    /// Announced chunks: their lengths, and which part of each is wanted.
    pending: VecDeque<(usize, ChunkRequest)>,
}

impl Session<'_> {
    fn work(&mut self, requests: &Receiver<Request>, answers: &Sender<Answer>) {
        loop {
            // What can be announced before a chunk is read is announced: it is looked at before.
            let request = match self.pending.len() as u64 {
                0 => requests.recv().ok(),
                1..=Scan::AHEAD => requests.try_recv().ok(),
                _ => None,
            };
            let answer = match request {
                None if self.pending.is_empty() => return,
                None => Some(self.chunk()),
                Some(Request::Expect(number, bytes, want)) => {
                    self.expect(number, bytes as usize, want).err().map(|error| Answer::Plain(Err(error)))
                }
                Some(request) => {
                    // Chunks that were announced before this request are answered first.
                    while !self.pending.is_empty() {
                        let chunk = self.chunk();
                        if answers.send(chunk).is_err() {
                            return;
                        }
                    }
                    self.answer(request).map(Answer::Plain)
                }
            };
            if let Some(answer) = answer
                && answers.send(answer).is_err()
            {
                return;
            }
        }
    }

    fn scan(&mut self) -> io::Result<&mut Scan> {
        match self.scan.and_then(|handle| self.open.get_mut(&handle)) {
            Some(Open::Scan(scan)) => Ok(scan),
            _ => Err(corrupt("nothing is being read")),
        }
    }

    fn expect(&mut self, number: u64, bytes: usize, want: ChunkRequest) -> io::Result<()> {
        if bytes > CHUNK || number > u64::MAX / CHUNK as u64 - 1 {
            return Err(corrupt("a chunk is too long or too far"));
        }
        // This side compares with the known hashes; the reader does not need them.
        let read = match &want {
            ChunkRequest::All(_) => ChunkRequest::All(None),
            ChunkRequest::Blocks(blocks) => ChunkRequest::Blocks(blocks.clone()),
        };
        self.scan()?.expect(number, bytes, read)?;
        self.pending.push_back((bytes, want));
        Ok(())
    }

    /// Reads the first announced chunk.
    fn chunk(&mut self) -> Answer {
        let Some((bytes, want)) = self.pending.pop_front() else {
            return Answer::Plain(Err(corrupt("nothing was announced")));
        };
        let mut buffer = Vec::new();
        match self.scan().and_then(|scan| scan.read(&mut buffer)) {
            Ok(ChunkRead::Hole) => Answer::Plain(Ok(feed::hole())),
            Ok(_) => {
                buffer.truncate(bytes);
                Answer::Chunk(buffer, want)
            }
            Err(error) => Answer::Plain(Err(error)),
        }
    }

    /// The answer to a request, if it has one.
    fn answer(&mut self, request: Request) -> Option<io::Result<Vec<u8>>> {
        let told = match request {
            Request::Write(handle, bytes) => self.sink(handle).and_then(|sink| sink.write_all(&bytes)),
            Request::WriteAt(handle, at, bytes) => {
                wire::decompress(&bytes, CHUNK).and_then(|bytes| self.volume(handle)?.write_at(at, &bytes))
            }
            Request::Clear(handle, at, len) => self.volume(handle).and_then(|volume| volume.clear(at, len)),
            Request::SetLen(handle, len) => self.volume(handle).and_then(|volume| volume.set_len(len)),
            Request::AddBytes(handle, at, bytes) => match at.checked_add(bytes.len() as u64) {
                Some(_) => self.joined(handle).map(|joined| joined.add_bytes(at, bytes)),
                None => Err(corrupt("a place that can't be")),
            },
            Request::AddFile(handle, FilePart { at, len, offset }, care, path) => match at.checked_add(len) {
                Some(end) => self.joined(handle).map(|joined| joined.add_file(at..end, path, offset, care)),
                None => Err(corrupt("a place that can't be")),
            },
            Request::Close(handle) => {
                self.open.remove(&handle);
                Ok(())
            }
            asked => {
                // An earlier error comes first: after a failed write no sync may succeed.
                let failed = self.failed.take();
                return Some(failed.map_or_else(|| self.asked(asked), Err));
            }
        };
        if let Err(error) = told {
            self.failed.get_or_insert(error);
        }
        None
    }

    fn asked(&mut self, request: Request) -> io::Result<Vec<u8>> {
        let disk = self.machine.disk();
        let done = match request {
            Request::Stat(path) => return Ok(Encoder::default().stat(&disk.stat(&path)?).0),
            Request::Open(path) => return Ok(self.opened(Open::Source(disk.open(&path)?))),
            Request::Create(path) => return Ok(self.opened(Open::Sink(disk.create(&path)?))),
            Request::Append(path, len) => return Ok(self.opened(Open::Sink(disk.append(&path, len)?))),
            Request::Volume(path) => return Ok(self.opened(Open::Volume(disk.volume(&path)?))),
            Request::List(path) => {
                let names = disk.list(&path)?;
                return Ok(Encoder::default().list(names.iter().map(OsString::as_os_str)).0);
            }
            Request::Run(command) => return Ok(self.machine.run(&command)?.encode()),
            Request::Free(folder) => return Ok(Encoder::default().u64(self.machine.tree().free(&folder)?).0),
            Request::Clone(cloning) => return Ok(self.machine.clone_folder(&cloning)?.encode()),
            Request::StatOf(handle) => return self.stat_of(handle),
            Request::ReadAt(handle, at, len) => return self.read_at(handle, at, len as usize),
            Request::SkipHole(handle, at) => return self.skip_hole(handle, at),
            Request::Entries(path) => {
                let entries = self.machine.tree().entries(&path)?;
                return wire::compress(&entries.iter().fold(Encoder::default(), Encoder::entry).0);
            }
            Request::Entry(path) => {
                return Ok(Encoder::default().entry(&self.machine.tree().entry(&path)?).0);
            }
            Request::Extents(path) => {
                let extents = self.machine.tree().extents(&path)?;
                return wire::compress(&extents.iter().fold(Encoder::default(), Encoder::extent).0);
            }
            Request::Batch(folder) => {
                let batch = disk.batch(&folder)?.map(Open::Batch);
                return Ok(
                    batch.map_or_else(|| Encoder::default().u32(NO_BATCH).0, |batch| self.opened(batch))
                );
            }
            Request::Join(len) => {
                let joined = TreeSource::checked(self.machine.disk(), len, Arc::new(InnodbPages::default()));
                return Ok(self.opened(Open::Joined(joined)));
            }
            Request::MakeLink(path, target) => self.machine.tree().make_link(&path, &target),
            Request::SetAttributes(path, link, attributes) => {
                let kind = if link { Kind::Link(OsString::new()) } else { Kind::File };
                let attributes = self.machine.tree().set_attributes(&path, &kind, attributes)?;
                return Ok(Encoder::default().attributes(&attributes).0);
            }
            Request::SetExtended(path, name, value) => self.machine.tree().set_extended(&path, &name, &value),
            Request::MakeHardLink(path, file) => self.machine.tree().make_hard_link(&path, &file),
            Request::Rename(from, to) => disk.rename(&from, &to),
            Request::Remove(path) => disk.remove(&path),
            Request::SyncFolder(path) => disk.sync_folder(&path),
            Request::CreateFolder(path) => disk.create_folder(&path),
            Request::RemoveFolder(path) => disk.remove_folder(&path),
            Request::Sync(handle) => self.sync(handle),
            Request::Scan(handle) => self.begin_scan(handle),
            _ => Err(corrupt("a request that has no answer")),
        };
        done.map(|()| Vec::new())
    }

    fn opened(&mut self, open: Open) -> Vec<u8> {
        self.next += 1;
        self.open.insert(self.next, open);
        Encoder::default().u32(self.next).0
    }

    fn sink(&mut self, handle: u32) -> io::Result<&mut Box<dyn Sink>> {
        match self.open.get_mut(&handle) {
            Some(Open::Sink(sink)) => Ok(sink),
            _ => Err(corrupt("nothing that can be written to")),
        }
    }

    fn volume(&mut self, handle: u32) -> io::Result<&dyn Volume> {
        match self.open.get(&handle) {
            Some(Open::Volume(volume)) => Ok(&**volume),
            _ => Err(corrupt("nothing that can be written to in place")),
        }
    }

    fn joined(&mut self, handle: u32) -> io::Result<&mut TreeSource> {
        match self.open.get_mut(&handle) {
            Some(Open::Joined(joined)) => Ok(joined),
            _ => Err(corrupt("nothing that files can be added to")),
        }
    }

    fn stat_of(&mut self, handle: u32) -> io::Result<Vec<u8>> {
        let stat = match self.open.get_mut(&handle) {
            Some(Open::Source(source)) => source.stat()?,
            Some(Open::Volume(volume)) => volume.stat()?,
            Some(Open::Scan(scan)) => scan.stat()?,
            _ => return Err(corrupt("nothing that has a state")),
        };
        Ok(Encoder::default().stat(&stat).0)
    }

    fn read_at(&mut self, handle: u32, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; len.min(CHUNK)];
        let count = match self.open.get(&handle) {
            Some(Open::Source(source)) => source.read_at(at, &mut buffer)?,
            Some(Open::Volume(volume)) => volume.read_at(at, &mut buffer)?,
            _ => return Err(corrupt("nothing that can be read")),
        };
        wire::compress(buffer.get(..count).unwrap_or_default())
    }

    fn skip_hole(&mut self, handle: u32, at: u64) -> io::Result<Vec<u8>> {
        match self.open.get(&handle) {
            Some(Open::Source(source)) => {
                Ok(Encoder::default().u64(source.skip_hole(at)?.unwrap_or(u64::MAX)).0)
            }
            _ => Err(corrupt("nothing that can be read")),
        }
    }

    fn sync(&mut self, handle: u32) -> io::Result<()> {
        match self.open.get_mut(&handle) {
            Some(Open::Sink(sink)) => sink.sync(),
            Some(Open::Volume(volume)) => volume.sync(),
            Some(Open::Batch(batch)) => batch.sync(),
            _ => Err(corrupt("nothing that can be written to")),
        }
    }

    fn begin_scan(&mut self, handle: u32) -> io::Result<()> {
        match self.open.remove(&handle) {
            Some(Open::Source(source)) => self.open.insert(handle, Open::Scan(Scan::new(source))),
            Some(Open::Joined(joined)) => self.open.insert(handle, Open::Scan(Scan::new(Box::new(joined)))),
            _ => return Err(corrupt("nothing that can be read")),
        };
        self.scan = Some(handle);
        Ok(())
    }
}
