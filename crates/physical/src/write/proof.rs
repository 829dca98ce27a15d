//! The proof of a finished file: before the server sees it, and when the server has it.

use disk::Disk;
use innodb::index::IndexPage;
use innodb::page::{PAGE_BYTES, Page, Pages};
use innodb::prove::{self, Claim};
use innodb::write::{Plan, Root, Shape, Written};
use progress::Progress;

use super::Request;
use super::twin::Twin;

use crate::file::RUN_PAGES;
use crate::{Error, File};

/// Proves that a file is what was written.
pub(super) fn written(claim: Claim<'_>, file: File, request: &Request<'_>) -> Result<(), Error> {
    let path = file.path().to_owned();
    let mut pages = Reader { file, checked: None, progress: request.progress };
    prove::file(claim, &mut pages, request.threads).map_err(|error| error.of(&path))
}

/// Proves that the file that the server has imported has what was written. The server gives the tablespace
/// and its indexes new numbers. It must have written all pages, and must not write meanwhile.
pub(super) fn imported(
    disk: &dyn Disk,
    twin: &Twin,
    (shapes, filled): (&[Shape], &Written),
    request: &Request<'_>,
) -> Result<(), Error> {
    let mut file = File::open(disk, &twin.ibd)?;
    let mut roots = Vec::new();
    for root in &twin.plan.roots {
        let page = *file.page(root.page).map_err(|error| error.of(&twin.ibd))?;
        let page = IndexPage::parse(&page, root.page).map_err(|error| Error::from(error).of(&twin.ibd))?;
        roots.push(Root { index_id: page.index_id, ..*root });
    }
    let plan = Plan { space_id: file.space().id, flags: file.space().flags, roots };
    written(Claim { table: &twin.table, shapes, plan: &plan, written: filled }, file, request)
}

/// Reads pages ahead, checks each once, and tells how far it is.
#[derive(Clone)]
struct Reader<'a> {
    file: File,
    /// The page that was checked last.
    checked: Option<u32>,
    progress: &'a dyn Progress,
}

impl Pages for Reader<'_> {
    type Error = Error;

    fn count(&self) -> u32 {
        self.file.count()
    }

    fn page(&mut self, number: u32) -> Result<&Page, Error> {
        if self.checked != Some(number) {
            if self.file.held(number).is_none() {
                let left = self.file.count().saturating_sub(number) as usize;
                self.file.read(number, left.clamp(1, RUN_PAGES))?;
            }
            self.file.page(number)?;
            self.checked = Some(number);
            self.progress.read(PAGE_BYTES as u64);
        }
        match self.file.held(number) {
            Some(page) => Ok(page),
            // It is held: it was checked.
            None => Err(Error::Changed(self.file.path().to_owned())),
        }
    }
}
