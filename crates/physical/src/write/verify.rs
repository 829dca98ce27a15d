//! Verifies a finished file: before the server sees it, and after the server has imported it.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use disk::Disk;
use innodb::index_page::IndexPage;
use innodb::page::{PAGE_BYTES, Page, Pages};
use innodb::verify::{self, Expected};
use innodb::write::{Plan, RecordBuilder, Root, Written};
use progress::Progress;

use super::Request;
use super::template_table::TemplateTable;

use crate::file::RUN_PAGES;
use crate::pipeline::joined;
use crate::{Error, File, Format, RowReader};

/// Verifies that a file is what was written. Returns the digest of each page ([`verify::digest`]); 0 for a
/// free page.
pub(super) fn written(expected: Expected<'_>, file: File, request: &Request<'_>) -> Result<Vec<u64>, Error> {
    let path = file.path().to_owned();
    let digests: Vec<AtomicU64> = (0..file.count()).map(|_| AtomicU64::new(0)).collect();
    let mut pages =
        Reader { file, checked: None, plan: expected.plan, digests: &digests, progress: request.progress };
    verify::file(expected, &mut pages, request.threads).map_err(|error| error.of(&path))?;
    Ok(digests.into_iter().map(AtomicU64::into_inner).collect())
}

/// What was written into a file.
#[derive(Clone, Copy)]
pub(super) struct WrittenFile<'a> {
    pub(super) builders: &'a [RecordBuilder],
    pub(super) written: &'a Written,
    /// A checksum of each page, as far as they are known.
    pub(super) digests: &'a [u64],
}

/// Verifies that the file that the server has imported still has what was written. The server gives the
/// tablespace and its indexes new ids. It must have written all pages, and must not write meanwhile.
pub(super) fn imported(
    disk: &dyn Disk,
    template: &TemplateTable,
    file_written: &WrittenFile<'_>,
    request: &Request<'_>,
) -> Result<(), Error> {
    let WrittenFile { builders, written: filled, digests } = *file_written;
    let mut file = File::open(disk, &template.ibd)?;
    let mut roots = Vec::new();
    for root in &template.plan.roots {
        let page = *file.page(root.page).map_err(|error| error.of(&template.ibd))?;
        let page =
            IndexPage::parse(&page, root.page).map_err(|error| Error::from(error).of(&template.ibd))?;
        roots.push(Root { index_id: page.index_id, ..*root });
    }
    let plan = Plan { space_id: file.space().id, flags: file.space().flags, roots };
    if has_digests(&file, &plan, digests, request) {
        return Ok(());
    }
    // The server may change more, such as references to values in other pages, which name the tablespace.
    written(Expected { table: &template.table, builders, plan: &plan, written: filled }, file, request)
        .map(drop)
}

/// Reads the rows of the file that the server has imported, as its readers find them.
pub(super) fn read_back(
    disk: &dyn Disk,
    template: &TemplateTable,
    back: &mut dyn Write,
    request: &Request<'_>,
) -> Result<(), Error> {
    let rows = RowReader {
        table: &template.table,
        format: Format::Tsv,
        threads: request.threads,
        lenient: false,
        stop: request.stop,
        progress: request.progress,
    };
    rows.write(&File::open(disk, &template.ibd)?, back).map(drop)
}

/// Whether each page of a file has the digest that it had before. A page that can't be read does not.
fn has_digests(file: &File, plan: &Plan, digests: &[u64], request: &Request<'_>) -> bool {
    if file.count() as usize != digests.len() {
        return false;
    }
    let share = digests.len().div_ceil(request.threads.max(1)).max(1).next_multiple_of(RUN_PAGES);
    std::thread::scope(|scope| {
        let parts: Vec<_> = digests
            .chunks(share)
            .zip((0..file.count()).step_by(share))
            .map(|(digests, first)| {
                let mut pages = Reader {
                    file: file.clone(),
                    checked: None,
                    plan,
                    digests: &[],
                    progress: request.progress,
                };
                let mut has_digest = move |(&digest, number): (&u64, u32)| {
                    let page = if digest == 0 { None } else { pages.page(number).ok() };
                    digest == 0 || page.and_then(|page| verify::digest(page, plan)) == Some(digest)
                };
                scope.spawn(move || digests.iter().zip(first..).all(&mut has_digest))
            })
            .collect();
        parts.into_iter().all(joined)
    })
}

/// Reads pages ahead, checks each once, notes its digest, and reports progress.
#[derive(Clone)]
struct Reader<'a> {
    file: File,
    /// The page that was checked last.
    checked: Option<u32>,
    plan: &'a Plan,
    /// The digest of each page; empty if nobody asks.
    digests: &'a [AtomicU64],
    progress: &'a dyn Progress,
}

impl Pages for Reader<'_> {
    type Error = Error;

    fn count(&self) -> u32 {
        self.file.count()
    }

    fn page(&mut self, number: u32) -> Result<&Page, Error> {
        if self.checked != Some(number) {
            if self.file.buffered(number).is_none() {
                let left = self.file.count().saturating_sub(number) as usize;
                self.file.read(number, left.clamp(1, RUN_PAGES))?;
            }
            let page = self.file.page(number)?;
            if let Some(digest) = self.digests.get(number as usize) {
                // A page that is not part of the plan has a digest that no page of the imported file has.
                digest.store(verify::digest(page, self.plan).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
            self.checked = Some(number);
            self.progress.read(PAGE_BYTES as u64);
        }
        match self.file.buffered(number) {
            Some(page) => Ok(page),
            // It is buffered: it was checked.
            None => Err(Error::Changed(self.file.path().to_owned())),
        }
    }
}
