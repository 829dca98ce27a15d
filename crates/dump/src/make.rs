//! A dump of rows that are lines already: of tables whose files were read without a server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use codec::Codec;
use crc_fast::Digest;
use disk::{Disk, Output};
use server::catalogue::{Object, Table};

use crate::file::Writer;
use crate::hash::{self, Sum};
use crate::manifest::{self, Chunk, Manifest, Source, TableEntry};
use crate::selection::Selection;
use crate::{Error, Format, name, schema};

/// A dump that is being made. Without [`Maker::finish`] the folder is no dump.
pub struct Maker<'a> {
    disk: &'a dyn Disk,
    folder: PathBuf,
    codec: (Codec, u32),
    manifest: Manifest,
}

impl<'a> Maker<'a> {
    /// Begins a dump in a new folder. `id`: up to 32 hexadecimal digits that no other dump has; `selection`:
    /// what it has of its source; `codec`: compression of the data files, and its level.
    ///
    /// # Errors
    /// [`Error::File`] when the folder can't be made, or exists.
    pub fn begin(
        disk: &'a dyn Disk,
        folder: &Path,
        (id, source, selection): (String, Source, Selection),
        codec: (Codec, u32),
    ) -> Result<Maker<'a>, Error> {
        disk.create_folder(folder).map_err(Error::file(folder))?;
        let mut manifest = Manifest::new(id, source, Format::Tsv, codec.0);
        manifest.selection = Some(selection);
        Ok(Maker { disk, folder: folder.to_owned(), codec, manifest })
    }

    /// Adds a table. `rows` writes its rows as lines of LOAD DATA's default dialect, with the values of the
    /// columns that are stored as given, in their order, as text that docs/formats/dump.md describes.
    ///
    /// # Errors
    /// Those of `rows`, and of writing. The table is then not in the dump, and others can still be added.
    pub fn table<E: From<Error>>(
        &mut self,
        table: Table,
        rows: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Sum, E> {
        let mut entry = TableEntry {
            place: 0,
            version: manifest::VERSION,
            folder: name::folder(&table.name),
            condition: None,
            history: false,
            data: true,
            earlier: None,
            chunks: Vec::new(),
            sum: Sum::default(),
            table,
        };
        let folder = self.folder.join(&entry.folder);
        self.disk.create_folder(&folder).map_err(Error::file(&folder))?;
        let chunk = self.chunk(&entry, rows).inspect_err(|_| {
            // The caller gets the failure itself.
            self.disk.remove_folder(&folder).ok();
        })?;
        entry.set_chunks(vec![chunk]);
        entry.table.rows = entry.sum.rows;
        let sum = entry.sum;
        self.manifest.tables.push(entry);
        Ok(sum)
    }

    fn chunk<E: From<Error>>(
        &self,
        entry: &TableEntry,
        rows: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Chunk, E> {
        let mut chunk = Chunk::planned(0, Vec::new(), None);
        let path = self.manifest.path(&self.folder, entry, &chunk);
        let output = Output::create(self.disk, &path).map_err(Error::file(&path))?;
        let writer = Writer::new(output, self.codec, None).map_err(Error::file(&path))?;
        let mut lines = Lines { writer, line: hash::pieces(), open: false, sum: Sum::default(), bytes: 0 };
        rows(&mut lines)?;
        (chunk.sum, chunk.text_bytes) = (lines.sum, lines.bytes);
        let (written, output) = lines.writer.end().map_err(Error::file(&path))?;
        output.finish().map_err(Error::file(&path))?;
        (chunk.file_bytes, chunk.blake3) = (written.bytes, written.blake3);
        Ok(chunk)
    }

    /// Completes the dump, with everything but tables in an order in which it can be created, and a line for
    /// each thing that is missing.
    ///
    /// # Errors
    /// Errors of writing; [`Error::Corrupt`] for what no load would accept.
    pub fn finish(mut self, objects: Vec<Object>, omitted: Vec<String>) -> Result<Manifest, Error> {
        (self.manifest.objects, self.manifest.omitted) = (objects, omitted);
        self.manifest.check().map_err(|what| manifest::corrupt(&self.folder, &what))?;
        schema::write(self.disk, &self.folder, &self.manifest)?;
        self.manifest.write(self.disk, &self.folder)?;
        Ok(self.manifest)
    }
}

/// Lines on their way into a data file.
struct Lines<W: Write> {
    writer: Writer<W>,
    /// The digest of the current line so far.
    line: Digest,
    /// Whether the current line has begun.
    open: bool,
    sum: Sum,
    bytes: u64,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.writer.lines(text)?;
        self.bytes += text.len() as u64;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match (line.strip_suffix(b"\n"), self.open) {
                (Some(line), false) => self.sum.add_line(line),
                (Some(rest), true) => {
                    self.line.update(rest);
                    self.sum.add_pieces(&self.line);
                    (self.line, self.open) = (hash::pieces(), false);
                }
                (None, _) => {
                    self.line.update(line);
                    self.open = true;
                }
            }
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_same_sum_however_it_is_cut() {
        let text = b"1\ta\n\n2\t\\N\nlonger than a piece\n";
        let mut expected = Sum::default();
        text.split_inclusive(|byte| *byte == b'\n')
            .for_each(|line| expected.add_line(&line[..line.len() - 1]));
        for step in 1..=text.len() {
            let writer = Writer::new(Vec::new(), (Codec::Plain, 0), None).unwrap();
            let mut lines =
                Lines { writer, line: hash::pieces(), open: false, sum: Sum::default(), bytes: 0 };
            text.chunks(step).for_each(|piece| lines.write_all(piece).unwrap());
            assert_eq!((lines.sum, lines.bytes), (expected, text.len() as u64), "{step}");
            let (written, file) = lines.writer.end().unwrap();
            assert_eq!((file.as_slice(), written.bytes), (&text[..], text.len() as u64));
        }
    }
}
