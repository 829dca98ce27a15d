//! Multipart uploads of files whose length is not known in advance.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::thread::JoinHandle;

use block::Upload;

use crate::client::{Bucket, StoreRequest, StoreResponse};
use crate::mirror_side::{PART, PARTS_MAX, condition};
use crate::{random, xml};

/// After this many parts, further ones are longer by the length of the first: there can't be more than 10,000
/// parts, and they are held in memory.
const STEP: u64 = 500;
/// Parts that are sent while the next one is filled.
const SENDING: usize = 2;
/// The metadata header that identifies the upload a file came from.
const MARK: &str = "x-amz-meta-remora";

/// A file that is being written. It appears with the last request.
///
/// Even a short file is uploaded in one part: a run that takes over the lock aborts this run's uploads, so
/// that it can't add anything any more.
pub(crate) struct MultipartUpload {
    bucket: Bucket,
    name: String,
    only_new: bool,
    mark: String,
    upload: Option<String>,
    /// The first part is sent last: its beginning may be rewritten.
    first: Vec<u8>,
    /// The part that is being filled, and its number.
    part: Vec<u8>,
    number: u64,
    sending: VecDeque<JoinHandle<io::Result<(u64, String)>>>,
    tags: Vec<(u64, String)>,
}

impl Bucket {
    /// Whether an earlier attempt with this mark, whose response was lost, has written a file.
    fn has(&self, name: &str, mark: &str) -> io::Result<bool> {
        Ok(self.head(name)?.is_some_and(|answer| answer.header(MARK) == Some(mark)))
    }

    /// Writes a file with one request.
    ///
    /// A request in progress can't be aborted by a run that takes over the lock. So its file counts only once
    /// this run is seen to still hold the lock: then a run that takes over later finds the file.
    pub(crate) fn put_short(&self, name: &str, bytes: &[u8], only_new: bool) -> io::Result<()> {
        if self.is_lost() {
            self.check_held()?;
        }
        let mark = random()?;
        let mut headers = [condition(only_new), self.retention(name)?].concat();
        headers.push((MARK, mark.clone()));
        let answer =
            self.send(&StoreRequest { headers: &headers, body: bytes, ..StoreRequest::about("PUT", name) })?;
        match answer.status() {
            200 => {}
            412 if self.has(name, &mark)? => {}
            412 => return Err(appeared()),
            _ => return Err(self.failure("write", name, answer)),
        }
        self.check_held()
    }
}

/// The error for a file that another run has written.
fn appeared() -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        "another file of this name has appeared meanwhile; another run is writing to this place",
    )
}

/// The length of a part.
fn len(number: u64) -> usize {
    usize::try_from(PART * (1 + number / STEP)).unwrap_or(usize::MAX)
}

impl MultipartUpload {
    pub(crate) fn new(bucket: &Bucket, name: &str, only_new: bool) -> io::Result<MultipartUpload> {
        Ok(MultipartUpload {
            bucket: bucket.clone(),
            name: name.to_owned(),
            only_new,
            mark: random()?,
            upload: None,
            first: Vec::new(),
            part: Vec::new(),
            number: 2,
            sending: VecDeque::new(),
            tags: Vec::new(),
        })
    }

    /// Sends a part while others are filled.
    fn send(&mut self, number: u64, bytes: Vec<u8>) -> io::Result<()> {
        if self.bucket.is_lost() {
            self.bucket.check_held()?;
        }
        if number > PARTS_MAX {
            return Err(io::Error::other("the file is too long for a store: split the source"));
        }
        let upload = match &self.upload {
            Some(upload) => upload.clone(),
            None => {
                let begun = self.bucket.begin(&self.name, &[(MARK, self.mark.clone())])?;
                self.upload.insert(begun).clone()
            }
        };
        if self.sending.len() == SENDING {
            self.sent()?;
        }
        let (bucket, name) = (self.bucket.clone(), self.name.clone());
        self.sending.push_back(std::thread::spawn(move || {
            Ok((number, bucket.part(&name, &upload, number, &bytes)?))
        }));
        Ok(())
    }

    /// Waits for a part to be sent.
    fn sent(&mut self) -> io::Result<()> {
        let Some(thread) = self.sending.pop_front() else { return Ok(()) };
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker ended early")));
        self.tags.push(ended?);
        Ok(())
    }

    /// Sends the remaining parts, and the last request.
    fn complete(&mut self) -> io::Result<()> {
        if !self.part.is_empty() {
            let part = std::mem::take(&mut self.part);
            self.send(self.number, part)?;
        }
        let first = std::mem::take(&mut self.first);
        self.send(1, first)?;
        while !self.sending.is_empty() {
            self.sent()?;
        }
        self.tags.sort();
        let tags: Vec<String> = self.tags.iter().map(|(_, tag)| tag.clone()).collect();
        self.bucket.check_held()?;
        let upload = self.upload.clone().unwrap_or_default();
        let answer = self.bucket.complete(&self.name, &upload, &tags, self.only_new)?;
        self.judge(answer)?;
        self.upload = None;
        Ok(())
    }

    fn judge(&self, mut answer: StoreResponse) -> io::Result<()> {
        let failed = match answer.status() {
            200 => {
                let text = answer.text()?;
                // A completion can fail after its response has begun.
                if !text.contains("<Error>") {
                    return Ok(());
                }
                let code = xml::first(&text, "Code").unwrap_or_default();
                io::Error::other(format!("cannot write: the store says {code}; run it again"))
            }
            404 | 412 if self.is_there()? => return Ok(()),
            412 => appeared(),
            _ => self.bucket.failure("write", &self.name, answer),
        };
        Err(failed)
    }

    /// The reason why it could not be written.
    fn because(&self, error: io::Error) -> io::Error {
        // A run that takes over aborts our uploads.
        let is_ended = error.kind() == io::ErrorKind::NotFound;
        is_ended.then(|| self.bucket.check_held().err()).flatten().unwrap_or(error)
    }

    fn is_there(&self) -> io::Result<bool> {
        self.bucket.has(&self.name, &self.mark)
    }
}

impl Write for MultipartUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_first = self.first.len() < len(1);
        let (to, room) =
            if is_first { (&mut self.first, len(1)) } else { (&mut self.part, len(self.number)) };
        let taken = bytes.get(..bytes.len().min(room - to.len())).unwrap_or_default();
        to.extend_from_slice(taken);
        if !is_first && self.part.len() == len(self.number) {
            let part = std::mem::take(&mut self.part);
            self.send(self.number, part).map_err(|error| self.because(error))?;
            self.number += 1;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for MultipartUpload {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.complete().map_err(|error| self.because(error))
    }

    fn begin_anew(&mut self, bytes: &[u8]) -> io::Result<()> {
        let front = self.first.get_mut(..bytes.len());
        front.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
        Ok(())
    }

    fn leave(self: Box<Self>) {
        // The parts of an upload can't be read: nothing is kept.
    }
}

impl Drop for MultipartUpload {
    fn drop(&mut self) {
        // A part that arrives after the abort would stay.
        for thread in self.sending.drain(..) {
            thread.join().ok();
        }
        let Some(upload) = self.upload.take() else { return };
        // The first error is the one that is reported.
        if let Err(error) = self.bucket.abort(&self.name, &upload) {
            tracing::warn!("{error}");
        }
    }
}
