//! Reads rows into files.

use std::io::{self, Write};
use std::path::Path;

use disk::Output;
use server::{Session, quote_name};

use super::shared::{STOPPED, Shared};
use crate::canonical::CanonicalLines;
use crate::chunk_file::folders::Folders;
use crate::chunk_file::{Writer, parquet};
use crate::data_file::Text;
use crate::manifest::{Chunk, SharedFilePart, TableEntry};
use crate::reading::table_check::explain;
use crate::{Error, Format, OddPolicy, plan, select};
use progress::count;

impl Shared<'_> {
    /// Reads a chunk into a file of its own.
    pub(super) fn read_alone(&self, session: &mut Session, table: usize, chunk: Chunk) -> Result<(), Error> {
        let read = self.own_files(session, table, chunk);
        let entry = &self.manifest.tables[table];
        let chunk = read.map_err(|error| self.explain_error(error, entry))?;
        self.chunk_done(session, table, Some(chunk))
    }

    /// Reads a chunk into a file, or into files in folders by a column's value.
    pub(super) fn own_files(&self, session: &mut Session, at: usize, chunk: Chunk) -> Result<Chunk, Error> {
        let entry = &self.manifest.tables[at];
        let path = self.manifest.path(&self.job.request.folder, entry, &chunk);
        if entry.partition_column.is_some() {
            return Ok(self.rows(session, at, chunk, (io::sink(), &path))?.0);
        }
        let output = Output::create(&*self.job.context.disk, &path).map_err(Error::file(&path))?;
        let (chunk, output) = self.rows(session, at, chunk, (output, &path))?;
        output.finish().map_err(Error::file(&path))?;
        Ok(chunk)
    }

    /// Reads small tables into one file, one after the other. If one was altered the file is started again
    /// without it.
    pub(super) fn read_small_tables(
        &self,
        session: &mut Session,
        mut tables: Vec<usize>,
        file: u32,
    ) -> Result<(), Error> {
        let path = self.manifest.small_tables_path(&self.job.request.folder, file);
        let chunks = loop {
            if tables.is_empty() {
                return Ok(());
            }
            let mut chunks = Vec::new();
            let read = self.read_each(session, &tables, (file, &path), &mut chunks);
            match tables.get(chunks.len()).copied() {
                Some(at) => {
                    self.survive(at, read)?;
                    session.execute(plan::RELEASE_LOCKS)?;
                    tables.retain(|other| *other != at);
                }
                None => {
                    read?;
                    break chunks;
                }
            }
        };
        for (at, chunk) in tables.iter().zip(chunks) {
            self.add_chunk(*at, Some(chunk))?;
        }
        self.check_tables(session, &tables)
    }

    /// The parts of such a file, as far as they could be read.
    fn read_each(
        &self,
        session: &mut Session,
        tables: &[usize],
        (file, path): (u32, &Path),
        chunks: &mut Vec<Chunk>,
    ) -> Result<(), Error> {
        let mut output = Output::create(&*self.job.context.disk, path).map_err(Error::file(path))?;
        let mut offset = 0;
        for at in tables {
            let mut chunk = Chunk::planned(0, Vec::new(), None);
            chunk.within = Some(SharedFilePart { file, offset });
            let (chunk, rest) = self.read(session, *at, chunk, (output, path))?;
            output = rest;
            offset += chunk.file_bytes;
            chunks.push(chunk);
        }
        output.finish().map_err(Error::file(path))
    }

    /// Reads a chunk into a file, and explains errors in the user's words.
    fn read<W: Write + Send>(
        &self,
        session: &mut Session,
        at: usize,
        chunk: Chunk,
        to: (W, &Path),
    ) -> Result<(Chunk, W), Error> {
        let entry = &self.manifest.tables[at];
        self.rows(session, at, chunk, to).map_err(|error| self.explain_error(error, entry))
    }

    pub(super) fn explain_error(&self, error: Error, entry: &TableEntry) -> Error {
        match error {
            Error::Server(server::Error::Sink(_)) | Error::File { .. } if self.must_end() => {
                Error::Stopped(STOPPED)
            }
            error => explain(error, &entry.table),
        }
    }

    fn rows<W: Write + Send>(
        &self,
        session: &mut Session,
        at: usize,
        mut chunk: Chunk,
        (output, path): (W, &Path),
    ) -> Result<(Chunk, W), Error> {
        let entry = &self.manifest.tables[at];
        let mut writer = self.writer(output, at, &chunk).map_err(Error::file(path))?;
        let estimate = entry.table.bytes / entry.table.rows.max(1);
        let mut failed = None;
        let mut to = |lines: &[u8], rows: u64| {
            if self.must_end() {
                return Err(io::Error::other("stopped"));
            }
            self.throttle.pass(lines.len() as u64, &|| self.must_end());
            self.job.context.progress.read(rows * estimate);
            self.job.context.progress.done(rows, lines.len() as u64);
            self.tallies[at].add(&*self.job.context.progress, rows, rows * estimate, lines.len() as u64);
            writer.lines(lines).map_err(|error| {
                failed = Some(error);
                io::Error::other("the file can't be written")
            })
        };
        let mut lines = CanonicalLines::new(&mut to);
        let sql = select::source(entry, &chunk);
        let streamed = session.stream(&sql, &mut lines).map_err(Error::from);
        let ended = streamed.and_then(|_| lines.finish().map_err(Error::file(path)));
        if let Some(error) = failed {
            return Err(Error::file(path)(error));
        }
        (chunk.sum, chunk.text_bytes) = ended?;
        let (written, output) = writer.end().map_err(Error::file(path))?;
        (chunk.file_bytes, chunk.blake3, chunk.odd) =
            (written.bytes, written.blake3, written.odd.map(Box::new));
        chunk.parts = written.parts;
        session.execute(plan::RELEASE_LOCKS)?;
        self.refuse_odd(entry, &chunk)?;
        Ok((chunk, output))
    }

    /// Writes the lines of a chunk in the format of the dump.
    fn writer<W: Write + Send>(&self, to: W, at: usize, chunk: &Chunk) -> io::Result<Writer<'_, W>> {
        let (request, entry) = (self.job.request, &self.manifest.tables[at]);
        if request.format == Format::Parquet {
            let place = parquet::Place {
                disk: &*self.job.context.disk,
                folder: &request.folder,
                manifest: self.manifest,
                entry,
                encodings: &self.encodings[at],
            };
            let level = request.codec.1;
            return Ok(match entry.partition_column {
                None => Writer::Parquet(Box::new(parquet::ParquetFile::whole(to, place, chunk, level)?)),
                Some(_) => {
                    Writer::Folders(Box::new(Folders::new(to, (place, &self.folders[at]), chunk, level)?))
                }
            });
        }
        let columns = select::literals(entry);
        let encoder = request.format.encoder(&entry.table.name, &columns, entry.history);
        Ok(Writer::Text(Box::new(Text::new(to, request.codec, encoder)?)))
    }

    /// An error if values that Parquet can't hold end the dump.
    fn refuse_odd(&self, entry: &TableEntry, chunk: &Chunk) -> Result<(), Error> {
        match chunk.odd_files().find_map(|odd| odd.columns.first_key_value()) {
            Some((column, values)) if self.job.request.parquet.odd == OddPolicy::Fail => {
                Err(Error::Mismatch(format!(
                    "column {} of table {} has {} that its type of Parquet can't hold; without --odd fail they go \
                 into the folder odd, and load puts them back",
                    quote_name(column),
                    entry.table.name,
                    count(*values, "value")
                )))
            }
            _ => Ok(()),
        }
    }
}
