//! Writes a new file of the repository, in order.

use std::io::{BufWriter, Write};

use crate::Error;
use crate::chain::ContentHasher;
use crate::file;
use crate::format::{Group, Hash, Header, IndexEntry, NUMBER_MAX, Record, Trailer};
use crate::mirror_note::MIRROR_NUMBERS;
use crate::store::{Store, Upload};

/// Bytes per write.
const BUFFER: usize = 1 << 20;

/// A file that is being written.
pub(crate) struct Writer<'a> {
    number: u64,
    shown: String,
    out: BufWriter<Box<dyn Upload + 'a>>,
    header: Vec<u8>,
    offset: u64,
    index: Vec<u8>,
    trailer: Trailer,
    /// The contents of the chunks.
    content: Vec<Hash>,
    len: u64,
}

/// The highest file number outside of the range for mirrors.
const HIGHEST: u64 = MIRROR_NUMBERS - 1;

impl<'a> Writer<'a> {
    pub(crate) fn create(store: &'a dyn Store, number: u64, header: &Header) -> Result<Writer<'a>, Error> {
        let shown = store.shown(&file::name(number));
        if number.max(header.generation) > NUMBER_MAX {
            let text = format!(
                "file numbers are exhausted: remora never assigns the highest number, {HIGHEST}; remove \
                 the file or note with it"
            );
            return Err(Error::corrupt(shown, text));
        }
        let upload = store.create(&file::name(number)).map_err(Error::store(&shown))?;
        let mut out = BufWriter::with_capacity(BUFFER, upload);
        let bytes = header.encode();
        out.write_all(&bytes).map_err(Error::store(&shown))?;
        let trailer = Trailer {
            index_offset: 0,
            index_count: 0,
            stored: 0,
            blocks: 0,
            content: [0; 32],
            root: [0; 32],
        };
        Ok(Writer {
            number,
            shown,
            out,
            offset: bytes.len() as u64,
            header: bytes,
            index: Vec::new(),
            trailer,
            content: Vec::new(),
            len: header.len,
        })
    }

    /// Adds the hash of the next chunk, changed or not. It must be called for every chunk, in order.
    pub(crate) fn content(&mut self, content: &Hash) {
        self.content.push(*content);
    }

    /// Adds the changes of a chunk. Groups whose file is 0 are in `bytes`, at their offset there; they are
    /// returned with their final location.
    pub(crate) fn add(&mut self, mut record: Record, bytes: &[u8]) -> Result<Record, Error> {
        let len = record.encode().len() as u64;
        let (number, start) = (self.number, self.offset + len);
        let settle = |group: &mut Group| {
            if group.file == 0 {
                (group.file, group.offset) = (number, start + group.offset);
            }
        };
        for place in record.changes.iter_mut().filter_map(|(_, place)| place.as_mut()) {
            settle(&mut place.group);
            if let Some((base, _)) = &mut place.base {
                settle(base);
            }
            self.trailer.blocks += 1;
        }
        let encoded = record.encode();
        self.index.extend_from_slice(
            &IndexEntry {
                chunk: record.chunk,
                offset: self.offset,
                len: u32::try_from(encoded.len()).unwrap_or(u32::MAX),
                sum: encoded.last_chunk::<16>().copied().unwrap_or_default(),
                content: record.content,
            }
            .encode(),
        );
        let written = self.out.write_all(&encoded).and_then(|()| self.out.write_all(bytes));
        written.map_err(Error::store(&self.shown))?;
        self.offset += (encoded.len() + bytes.len()) as u64;
        self.trailer.stored += bytes.len() as u64;
        Ok(record)
    }

    /// Replaces length and note of the header by their final values. The new note must not be longer; it is
    /// padded with blanks.
    pub(crate) fn begin_anew(
        &mut self,
        header: &mut Header,
        (len, note): (u64, Option<&str>),
    ) -> Result<(), Error> {
        if len == header.len && note.is_none() {
            return Ok(());
        }
        let note = note.unwrap_or(&header.note);
        let room = header.note.len();
        (header.len, header.note) = (len, format!("{note:room$}"));
        let bytes = header.encode();
        let failed = Error::store(&self.shown);
        if bytes.len() != self.header.len() {
            return Err(failed(std::io::Error::other("the note is too long")));
        }
        self.out.flush().and_then(|()| self.out.get_mut().begin_anew(&bytes)).map_err(failed)?;
        (self.header, self.len) = (bytes, len);
        Ok(())
    }

    /// Gives up, but keeps what was written for the next run.
    pub(crate) fn leave(self) {
        // What can't be written now will simply be missing.
        if let Ok(upload) = self.out.into_inner() {
            upload.leave();
        }
    }

    /// Makes the file complete and durable. Returns its length in bytes, and the hash of the volume.
    pub(crate) fn finish(mut self) -> Result<(u64, [u8; 32]), Error> {
        self.trailer.index_offset = self.offset;
        self.trailer.index_count = (self.index.len() / IndexEntry::BYTES) as u64;
        let mut content = ContentHasher::new(self.len);
        self.content.iter().for_each(|chunk| content.add(chunk));
        self.trailer.content = content.finish();
        let covered = self.trailer.encode_covered();
        let mut hasher = blake3::Hasher::new();
        [&self.header, &self.index, &covered].into_iter().for_each(|part| {
            hasher.update(part);
        });
        self.trailer.root = *hasher.finalize().as_bytes();
        let parts = [self.index.as_slice(), &covered, &self.trailer.root];
        let written = parts.into_iter().try_for_each(|part| self.out.write_all(part));
        let bytes = self.offset + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let failed = Error::store(&self.shown);
        let finished = written.and_then(|()| self.out.into_inner().map_err(|error| error.into_error()));
        finished.and_then(|upload| upload.finish()).map_err(failed)?;
        Ok((bytes, self.trailer.content))
    }
}
