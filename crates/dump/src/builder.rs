//! Writes a dump of rows that were not read from a server, but from tablespace files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use codec::Codec;
use disk::{Disk, Output};
use parquet_rows::Encodings;
use server::catalogue::{Object, Table};

use crate::chunk_file::{Writer, parquet};
use crate::data_file::Text;
use crate::hash::{Adder, Sum};
use crate::key_range::Range;
use crate::manifest::{self, Chunk, Manifest, Source, TableEntry};
use crate::plan::{Literal, literal_of};
use crate::selection::Selection;
use crate::{Error, Format, schema};

/// Bytes of text after which a chunk ends.
const CHUNK_BYTES: u64 = 32 << 20;
/// The same for Parquet, of which engines want larger files.
const PARQUET_CHUNK_BYTES: u64 = 512 << 20;

/// What a dump says of itself.
pub struct DumpOrigin {
    /// Up to 32 hexadecimal digits that no other dump has.
    pub id: String,
    /// Where its rows are from.
    pub source: Source,
    /// What it has of its source.
    pub selection: Selection,
}

/// A dump that is being written. Without [`DumpBuilder::finish`] it is incomplete.
pub struct DumpBuilder<'a> {
    disk: &'a dyn Disk,
    folder: PathBuf,
    codec: (Codec, u32),
    chunk_bytes: u64,
    manifest: Manifest,
}

impl<'a> DumpBuilder<'a> {
    /// Begins a dump in a new folder. `codec`: compression of the data files, and its level; of Parquet only
    /// the level counts.
    ///
    /// # Errors
    /// [`Error::File`] when the folder can't be made, or exists.
    pub fn begin(
        disk: &'a dyn Disk,
        folder: &Path,
        origin: DumpOrigin,
        (format, codec): (Format, (Codec, u32)),
    ) -> Result<DumpBuilder<'a>, Error> {
        disk.create_folder(folder).map_err(Error::file(folder))?;
        let mut manifest = Manifest::new(origin.id, origin.source, format, codec.0);
        manifest.selection = Some(origin.selection);
        let chunk_bytes = if format == Format::Parquet { PARQUET_CHUNK_BYTES } else { CHUNK_BYTES };
        Ok(DumpBuilder { disk, folder: folder.to_owned(), codec, chunk_bytes, manifest })
    }

    /// Adds a table. `rows` writes its rows as lines of LOAD DATA's default dialect, with the values of the
    /// columns that are stored as given, in their order, as text that docs/formats/dump.md describes.
    /// `is_ordered`: whether the rows come in the ascending order of the table's key, so that they can be cut
    /// into chunks, which several sessions load.
    ///
    /// # Errors
    /// Those of `rows`, and of writing. The table is then not in the dump, and others can still be added.
    pub fn table<E: From<Error>>(
        &mut self,
        table: Table,
        is_ordered: bool,
        rows: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Sum, E> {
        let mut entry = TableEntry { history: false, data: true, ..TableEntry::whole(table) };
        let folder = self.folder.join(&entry.folder);
        self.disk.create_folder(&folder).map_err(Error::file(&folder))?;
        let (written, done) = {
            let encodings = Encodings::default();
            let mut chunks = Chunks::begin(self, &entry, &encodings, is_ordered)?;
            let written = rows(&mut chunks).and_then(|()| Ok(chunks.close(None)?));
            (written, chunks.done)
        };
        if let Err(error) = written {
            // The caller gets the failure itself.
            for chunk in &done {
                drop(self.disk.remove(&self.manifest.path(&self.folder, &entry, chunk)));
                drop(self.disk.remove(&self.manifest.odd_path(&self.folder, &entry, chunk)));
            }
            self.disk.remove_folder(&folder).ok();
            return Err(error);
        }
        entry.set_chunks(done);
        entry.table.rows = entry.sum.rows;
        let sum = entry.sum;
        self.manifest.tables.push(entry);
        Ok(sum)
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

/// The data files of a table, one after the other.
struct Chunks<'a> {
    maker: &'a DumpBuilder<'a>,
    entry: &'a TableEntry,
    encodings: &'a Encodings,
    /// For each column of the key its place in a line, and how its values are written; empty if all rows go
    /// into one file.
    key: Vec<(usize, Literal)>,
    /// The file that is being written; none after the last one.
    lines: Option<Lines<'a, Output<'a>>>,
    done: Vec<Chunk>,
    /// The key of the last row before the current file.
    after: Option<Vec<String>>,
    /// The key of the last row in the current file, if another one begins with the next row.
    upto: Option<Vec<String>>,
}

impl<'a> Chunks<'a> {
    fn begin(
        maker: &'a DumpBuilder<'a>,
        entry: &'a TableEntry,
        encodings: &'a Encodings,
        is_ordered: bool,
    ) -> Result<Chunks<'a>, Error> {
        let columns = entry.columns();
        let place = |name: &String| {
            let at = columns.iter().position(|column| column.name == *name)?;
            Some((at, literal_of(columns[at])?))
        };
        // Of a part of the key there may be more rows.
        let key = entry.table.key.iter().map(place).collect::<Option<Vec<_>>>();
        let key = key.filter(|_| is_ordered).unwrap_or_default();
        let mut chunks =
            Chunks { maker, entry, encodings, key, lines: None, done: Vec::new(), after: None, upto: None };
        chunks.open()?;
        Ok(chunks)
    }

    /// The chunk that is being written, without its contents.
    fn chunk(&self) -> Chunk {
        Chunk::planned(u32::try_from(self.done.len()).unwrap_or(u32::MAX), Vec::new(), None)
    }

    fn open(&mut self) -> Result<(), Error> {
        let path = self.maker.manifest.path(&self.maker.folder, self.entry, &self.chunk());
        let output = Output::create(self.maker.disk, &path).map_err(Error::file(&path))?;
        let writer = self.writer(output).map_err(Error::file(&path))?;
        self.lines = Some(Lines::new(writer));
        Ok(())
    }

    fn writer(&self, to: Output<'a>) -> io::Result<Writer<'a, Output<'a>>> {
        let DumpBuilder { disk, folder, codec, manifest, .. } = self.maker;
        if manifest.data_format != Format::Parquet {
            return Ok(Writer::Text(Box::new(Text::new(to, *codec, None)?)));
        }
        let (entry, encodings) = (self.entry, self.encodings);
        let place = parquet::Place { disk: *disk, folder, manifest, entry, encodings };
        Ok(Writer::Parquet(Box::new(parquet::ParquetFile::whole(to, place, &self.chunk(), codec.1)?)))
    }

    /// Completes a file, whose rows are up to this key.
    fn close(&mut self, upto: Option<Vec<String>>) -> Result<(), Error> {
        let Some(lines) = self.lines.take() else { return Ok(()) };
        let mut chunk = self.chunk();
        let path = self.maker.manifest.path(&self.maker.folder, self.entry, &chunk);
        let end = |lines: Lines<'_, Output<'_>>| {
            let (written, output) = lines.writer.end()?;
            output.finish()?;
            Ok(written)
        };
        (chunk.sum, chunk.text_bytes) = (lines.adder.sum(), lines.bytes);
        let written = end(lines).map_err(Error::file(&path))?;
        (chunk.file_bytes, chunk.blake3, chunk.odd) =
            (written.bytes, written.blake3, written.odd.map(Box::new));
        let after = std::mem::replace(&mut self.after, upto.clone());
        chunk.range = (after.is_some() || upto.is_some()).then_some(Range { after, upto });
        self.done.push(chunk);
        Ok(())
    }

    /// The key in a line, if every value of it can be written as a literal.
    fn key_of(&self, line: &[u8]) -> Option<Vec<String>> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
        let value = |(at, literal): &(usize, Literal)| {
            // A value with escapes is not worth the trouble: the next row will do.
            let field = fields.get(*at).filter(|field| !field.contains(&b'\\'))?;
            literal.write(field)
        };
        self.key.iter().map(value).collect::<Option<Vec<_>>>().filter(|key| !key.is_empty())
    }
}

impl Write for Chunks<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if let Some(upto) = self.upto.take() {
            self.close(Some(upto)).and_then(|()| self.open()).map_err(io::Error::other)?;
        }
        let Some(lines) = &mut self.lines else { return Err(io::ErrorKind::WriteZero.into()) };
        let is_begun = lines.adder.is_inside();
        lines.write_all(text).map_err(|error| {
            let path = self.maker.manifest.path(&self.maker.folder, self.entry, &self.chunk());
            io::Error::new(error.kind(), Error::file(&path)(error))
        })?;
        let Some(lines) = &self.lines else { return Ok(text.len()) };
        if let (true, Some(rows)) = (lines.bytes >= self.maker.chunk_bytes, text.strip_suffix(b"\n")) {
            let start = rows.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            let last = start.or((!is_begun).then_some(0)).and_then(|start| rows.get(start..));
            self.upto = last.and_then(|line| self.key_of(line));
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines to a data file.
struct Lines<'a, W: Write + Send> {
    writer: Writer<'a, W>,
    adder: Adder,
    bytes: u64,
}

impl<'a, W: Write + Send> Lines<'a, W> {
    fn new(writer: Writer<'a, W>) -> Lines<'a, W> {
        Lines { writer, adder: Adder::default(), bytes: 0 }
    }
}

impl<W: Write + Send> Write for Lines<'_, W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.writer.lines(text)?;
        self.bytes += text.len() as u64;
        self.adder.write_all(text)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use disk::RealDisk;
    use server::TableName;
    use server::catalogue::{Column, Origin};

    use super::*;

    /// A table whose key is its second column, then its first.
    fn table() -> Table {
        let column = |name: &str, data_type: &str| Column {
            name: name.to_owned(),
            data_type: data_type.to_owned(),
            column_type: data_type.to_owned(),
            character_set: (data_type == "varchar").then(|| "latin1".to_owned()),
            origin: Origin::Stored,
        };
        Table {
            name: TableName { schema: "d".into(), table: "t".into() },
            engine: "InnoDB".into(),
            definition: String::new(),
            created: String::new(),
            rows: 0,
            bytes: 0,
            columns: vec![column("n", "int"), column("k", "varchar"), column("x", "text")],
            key: vec!["k".into(), "n".into()],
            key_name: "PRIMARY".into(),
            partitions: Vec::new(),
            versioned: false,
        }
    }

    fn origin() -> DumpOrigin {
        let source = Source::of_files("10.11.19-MariaDB".to_owned());
        DumpOrigin { id: "0a".to_owned(), source, selection: Selection::default() }
    }

    /// The ranges of a table's chunks, and the lines in them.
    fn made(is_ordered: bool, pieces: &[&str]) -> Vec<(Option<Range>, String)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        let mut maker =
            DumpBuilder::begin(&RealDisk, &path, origin(), (Format::Tsv, (Codec::Plain, 0))).unwrap();
        maker.chunk_bytes = 10;
        let failed = maker.table(table(), true, |out| {
            out.write_all(b"1\ta\tx\n1\tb\tx\n").unwrap();
            out.write_all(b"1\tc\tx\n").unwrap();
            Err(Error::Stopped("here"))
        });
        assert!(failed.is_err() && RealDisk.list(&path).unwrap().is_empty());
        let written = maker.table::<Error>(table(), is_ordered, |out| {
            pieces.iter().for_each(|piece| out.write_all(piece.as_bytes()).unwrap());
            Ok(())
        });
        let manifest = maker.finish(Vec::new(), Vec::new()).unwrap();
        let entry = &manifest.tables[0];
        assert_eq!(written.unwrap().rows, entry.sum.rows);
        assert_eq!(Manifest::read(&RealDisk, &path).unwrap().tables[0].sum, entry.sum);
        let text = |chunk: &Chunk| {
            let mut text = Vec::new();
            let file = manifest.data_file(&path, entry, chunk);
            file.read(&RealDisk, &mut |piece| text.write_all(piece)).unwrap();
            String::from_utf8(text).unwrap()
        };
        entry.chunks.iter().map(|chunk| (chunk.range.clone(), text(chunk))).collect()
    }

    #[test]
    fn rows_in_the_order_of_the_key_are_cut_into_chunks() {
        let bound = |k: &str, n: &str| Some(vec![format!("_latin1 0x{k}"), n.to_owned()]);
        let pieces = [
            "1\ta\tx\n2\tb\txx\n",
            "3\tc\tx\n",
            "4\td\\\\\tlong enough\n",
            "5\te\tx\n",
            "6",
            "6\tf\tlong enough\n",
            "67\tf\tx\n",
        ];
        let all = pieces.concat();
        assert_eq!(made(false, &pieces), [(None, all.clone())]);
        let range = |after, upto| Some(Range { after, upto });
        assert_eq!(
            made(true, &pieces),
            [
                (range(None, bound("62", "2")), pieces[0].to_owned()),
                // Not after the line with an escape in its key.
                (range(bound("62", "2"), bound("65", "5")), pieces[1..4].concat()),
                // Nor after a line that came in two parts.
                (range(bound("65", "5"), None), pieces[4..].concat()),
            ]
        );
        // Nothing follows, so there is no other chunk.
        assert_eq!(made(true, &pieces[..1]), [(None, pieces[0].to_owned())]);
        assert_eq!(made(true, &[]), [(None, String::new())]);
    }

    #[test]
    fn a_full_disk_is_reported_with_the_file() {
        let disk = disk::faults::FaultDisk::default();
        let mut maker =
            DumpBuilder::begin(&disk, Path::new("/dump"), origin(), (Format::Tsv, (Codec::Plain, 0)))
                .unwrap();
        disk.limit(1000);
        let mut said = None;
        maker
            .table::<Error>(table(), false, |out| {
                said = (0..1000).find_map(|_| out.write_all(&[b'x'; 1000]).err());
                Err(Error::Stopped("here"))
            })
            .unwrap_err();
        let error = said.unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("/dump/d.t/"), "{error}");
    }

    #[test]
    fn a_line_has_the_same_sum_however_it_is_cut() {
        let text = b"1\ta\n\n2\t\\N\nlonger than a piece\n";
        let mut expected = Sum::default();
        text.split_inclusive(|byte| *byte == b'\n')
            .for_each(|line| expected.add_line(&line[..line.len() - 1]));
        for step in 1..=text.len() {
            let writer = Writer::Text(Box::new(Text::new(Vec::new(), (Codec::Plain, 0), None).unwrap()));
            let mut lines = Lines { writer, adder: Adder::default(), bytes: 0 };
            text.chunks(step).for_each(|piece| lines.write_all(piece).unwrap());
            assert_eq!((lines.adder.sum(), lines.bytes), (expected, text.len() as u64), "{step}");
            let (written, file) = lines.writer.end().unwrap();
            assert_eq!((file.as_slice(), written.bytes), (&text[..], text.len() as u64));
        }
    }
}
