//! Reads the rows of a table, in the order of its primary key, with several threads.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use innodb::index_page::IndexPage;
use innodb::instant;
use innodb::leaf::{self, Row};
use innodb::off_page::Reference;
use innodb::page::{NO_PAGE, PAGE_BYTES, Pages};
use innodb::record::{FieldValue, Layout};
use innodb::table::{Column, Generated, Table};
use innodb::tree::{PagePosition, Scratch, Tree};
use progress::Progress;

use crate::row_text::{self, Format, Values};
use crate::{Error, File};

/// Bytes of text that are gathered before they are passed on.
const PIECE_BYTES: usize = 2 << 20;
/// The most pieces of a part that wait to be written.
const PIECES_MAX: usize = 2;
/// The row ends that mean "still valid": those of TIMESTAMP(6) to 2038 and to 2106, and that of transaction
/// ids.
const STILL_VALID: [&[u8]; 3] =
    [&[0x7F, 0xFF, 0xFF, 0xFF, 0x0F, 0x42, 0x3F], &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x42, 0x3F], &[0xFF; 8]];

/// How the rows of tables are read.
pub struct RowReader<'a> {
    /// The table's definition.
    pub table: &'a Table,
    /// How rows are written.
    pub format: Format,
    /// Threads that read and decode.
    pub threads: usize,
    /// Leave damaged pages out, each with a warning, instead of stopping at the first.
    pub lenient: bool,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that were written.
    pub rows: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// Historical rows of a system-versioned table, which were left out.
    pub past: u64,
    /// Damaged pages that were left out.
    pub damaged: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.past += other.past;
        self.damaged += other.damaged;
    }
}

/// A column that is written, and its field.
#[derive(Clone, Copy)]
pub(crate) struct TargetColumn<'a> {
    column: &'a Column,
    field: usize,
}

/// A table with its open file.
pub(crate) struct OpenTable<'a> {
    pub(crate) file: File,
    pub(crate) layout: Layout,
    pub(crate) tree: Tree,
    pub(crate) targets: Vec<TargetColumn<'a>>,
    /// The field with the end of a row's validity.
    pub(crate) row_end: Option<usize>,
}

impl<'a> OpenTable<'a> {
    pub(crate) fn new(table: &'a Table, file: &File) -> Result<OpenTable<'a>, Error> {
        let mut file = file.clone();
        let id = file.space().id;
        let root = table.root(id)?;
        let layout = instant::layout(table, root, id, &mut file)?;
        let tree = Tree::read(root, &layout, &mut file)?;
        let field = |at: usize| {
            let is_it = |field: &innodb::table::Field| field.column == Some(at) && field.prefix.is_none();
            layout.fields().iter().position(is_it)
        };
        let columns = table.columns().iter().enumerate();
        let targets = columns.clone().filter(|(_, column)| row_text::is_written(column));
        let targets =
            targets.filter_map(|(at, column)| Some(TargetColumn { column, field: field(at)? })).collect();
        let mut ends = columns.filter(|(_, column)| column.generated == Generated::RowEnd);
        let row_end = ends.next().and_then(|(at, _)| field(at));
        Ok(OpenTable { file, layout, tree, targets, row_end })
    }
}

/// Writes rows as lines.
pub(crate) struct RowWriter<'a> {
    targets: &'a [TargetColumn<'a>],
    values: Values,
    /// For values outside of their row.
    chains: File,
    /// Such a value.
    long: Vec<u8>,
}

impl<'a> RowWriter<'a> {
    pub(crate) fn new(opened: &'a OpenTable<'a>, format: Format) -> RowWriter<'a> {
        let chains = opened.file.clone();
        RowWriter { targets: &opened.targets, values: Values::new(format), chains, long: Vec::new() }
    }

    /// Appends the row as a line.
    #[inline]
    pub(crate) fn row(&mut self, row: &Row<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let between = self.values.between();
        for target in self.targets {
            match row.stored(target.field) {
                FieldValue::Null => self.values.null(out),
                FieldValue::Whole(stored) => self.values.value(target.column, stored, out)?,
                FieldValue::External(local, reference) => {
                    self.long.clear();
                    self.long.extend_from_slice(local);
                    let id = self.chains.space().id;
                    Reference::parse(reference).read(id, &mut self.chains, &mut self.long)?;
                    self.values.value(target.column, &self.long, out)?;
                }
            }
            out.push(between);
        }
        // A table whose columns are all computed has rows, too.
        if self.targets.is_empty() {
            self.values.null(out);
            out.push(between);
        }
        // The last value is followed by a line end.
        if let Some(last) = out.last_mut() {
            *last = b'\n';
        }
        Ok(())
    }
}

/// A part of the text, and what it belongs to.
struct TextChunk {
    text: Vec<u8>,
    counts: Counts,
    pages: u64,
}

/// The leaves of one parent page, which one thread reads, and the channel for their text.
struct LeafRange {
    parent: usize,
    to: Sender<Result<TextChunk, Error>>,
}

impl RowReader<'_> {
    /// Writes all rows of one of the table's files.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is damaged or does not belong to the table; errors of reading and
    /// writing, and [`Error::Stopped`].
    pub fn write(&self, file: &File, out: &mut dyn Write) -> Result<Counts, Error> {
        let opened = OpenTable::new(self.table, file).map_err(|error| error.of(file.path()))?;
        // A tree that is a single leaf is one part too.
        let parts = opened.tree.parents.len().max(1);
        let threads = self.threads.clamp(1, parts);
        let (send, jobs) = unbounded::<LeafRange>();
        let (give_back, spare) = bounded::<Vec<u8>>(threads * (PIECES_MAX + 2));
        std::thread::scope(|scope| {
            // Dropped at the end of this scope, so that the threads end.
            let send = send;
            for _ in 0..threads {
                let (jobs, spare, opened) = (jobs.clone(), spare.clone(), &opened);
                scope.spawn(move || self.work(opened, &jobs, &spare));
            }
            let mut counts = Counts::default();
            let mut waiting: VecDeque<Receiver<Result<TextChunk, Error>>> = VecDeque::new();
            let mut next = 0;
            loop {
                while waiting.len() < 2 * threads && next < parts {
                    let (to, from) = bounded(PIECES_MAX);
                    send.send(LeafRange { parent: next, to }).map_err(|_| Error::Stopped)?;
                    waiting.push_back(from);
                    next += 1;
                }
                let Some(from) = waiting.pop_front() else { break };
                for chunk in from {
                    let chunk = chunk.map_err(|error| error.of(file.path()))?;
                    out.write_all(&chunk.text).map_err(Error::Output)?;
                    self.progress.read(chunk.pages * PAGE_BYTES as u64);
                    self.progress.done(chunk.counts.rows, chunk.counts.bytes);
                    counts += chunk.counts;
                    // A buffer that nobody needs is dropped.
                    give_back.try_send(chunk.text).ok();
                    if self.stop.load(Ordering::Relaxed) {
                        return Err(Error::Stopped);
                    }
                }
            }
            file.is_what_it_was()?;
            Ok(counts)
        })
    }

    fn work(&self, opened: &OpenTable<'_>, jobs: &Receiver<LeafRange>, spare: &Receiver<Vec<u8>>) {
        let mut reader = LeafReader {
            rows: self,
            opened,
            file: opened.file.clone(),
            writer: RowWriter::new(opened, self.format),
            scratch: Scratch::default(),
            spare,
        };
        for part in jobs {
            // If nobody wants more pieces, there is already another error.
            if let Err(error) = reader.part(&part) {
                part.to.send(Err(error)).ok();
            }
        }
    }
}

/// A thread that reads.
struct LeafReader<'a> {
    rows: &'a RowReader<'a>,
    opened: &'a OpenTable<'a>,
    file: File,
    writer: RowWriter<'a>,
    scratch: Scratch,
    spare: &'a Receiver<Vec<u8>>,
}

impl LeafReader<'_> {
    fn part(&mut self, part: &LeafRange) -> Result<(), Error> {
        let mut chunk = self.chunk();
        let leaves = match self.leaves(part.parent) {
            Ok(leaves) => leaves,
            Err(error) => {
                self.tolerate(error, &mut chunk)?;
                Vec::new()
            }
        };
        // The first and the last are neighbours that belong to other parts.
        let mut at = 1;
        while at + 1 < leaves.len() {
            let count = match self.file.fetch(&leaves[at..leaves.len() - 1]) {
                // Each page is then read alone, and those that can be read are not lost.
                Err(error) if self.rows.lenient && error.is_damage() => 1,
                count => count?,
            };
            for place in at..at + count {
                let len = chunk.text.len();
                let position = PagePosition {
                    index_id: self.opened.tree.index_id,
                    level: 0,
                    previous: leaves[place - 1],
                    next: leaves[place + 1],
                };
                if let Err(error) = self.leaf(leaves[place], position, &mut chunk) {
                    chunk.text.truncate(len);
                    self.tolerate(error, &mut chunk)?;
                }
                chunk.pages += 1;
                if chunk.text.len() >= PIECE_BYTES && !self.hand_on(&mut chunk, &part.to) {
                    return Ok(());
                }
            }
            at += count;
        }
        self.hand_on(&mut chunk, &part.to);
        Ok(())
    }

    fn chunk(&self) -> TextChunk {
        let mut text = self.spare.try_recv().unwrap_or_default();
        text.clear();
        text.reserve(PIECE_BYTES + PIECE_BYTES / 4);
        TextChunk { text, counts: Counts::default(), pages: 0 }
    }

    /// Passes a chunk on and begins another one. Returns whether more is wanted.
    fn hand_on(&self, chunk: &mut TextChunk, to: &Sender<Result<TextChunk, Error>>) -> bool {
        let mut full = std::mem::replace(chunk, self.chunk());
        full.counts.bytes = full.text.len() as u64;
        to.send(Ok(full)).is_ok()
    }

    /// The leaves of a part, with the leaf before and the leaf after them.
    fn leaves(&mut self, parent: usize) -> Result<Vec<u32>, Error> {
        let tree = &self.opened.tree;
        if tree.parents.is_empty() {
            return Ok(vec![NO_PAGE, tree.root, NO_PAGE]);
        }
        let mut leaves = |parent| tree.leaves(parent, &self.opened.layout, &mut self.file);
        let before = parent.checked_sub(1).map(&mut leaves).transpose()?;
        let after = leaves(parent + 1)?;
        let last = before.and_then(|leaves| leaves.last().copied()).unwrap_or(NO_PAGE);
        let mut found = vec![last];
        found.append(&mut leaves(parent)?);
        found.push(after.first().copied().unwrap_or(NO_PAGE));
        Ok(found)
    }

    fn leaf(&mut self, number: u32, mut position: PagePosition, chunk: &mut TextChunk) -> Result<(), Error> {
        let LeafReader { rows, opened, file, writer, scratch, .. } = self;
        let page = IndexPage::parse(file.page(number)?, number)?;
        if rows.lenient {
            // The rest of a damaged chain.
            (position.previous, position.next) = (page.previous(), page.next());
        }
        position.check(&page)?;
        let mut counts = Counts::default();
        leaf::rows(&page, &opened.layout, scratch, |row| {
            if row.deleted {
                return Ok(());
            }
            if let Some(field) = opened.row_end
                && !matches!(row.stored(field), FieldValue::Whole(end) if STILL_VALID.contains(&end))
            {
                counts.past += 1;
                return Ok(());
            }
            counts.rows += 1;
            writer.row(row, &mut chunk.text).map_err(|error| placed(error, number, row))
        })?;
        chunk.counts += counts;
        Ok(())
    }

    /// Returns an error, or warns and continues without the page.
    fn tolerate(&self, error: Error, chunk: &mut TextChunk) -> Result<(), Error> {
        let error = error.of(self.file.path());
        if !self.rows.lenient || !error.is_damage() {
            return Err(error);
        }
        self.rows.progress.warn(&format!("left out: {error}"));
        chunk.counts.damaged += 1;
        Ok(())
    }
}

/// Adds the place of the row that an error concerns.
pub(crate) fn placed(error: Error, page: u32, row: &Row<'_>) -> Error {
    match error {
        Error::Bytes(innodb::Error::Corrupt { what, place }) if !place.contains("page") => {
            let place = format!("{place}, page {page}, byte {}", row.extent.origin);
            Error::Bytes(innodb::Error::Corrupt { what, place })
        }
        other => other,
    }
}
