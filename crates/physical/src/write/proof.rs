//! The pages of a finished file as the proof reads them: nearly all of them in order.

use innodb::page::{PAGE_BYTES, Page, Pages};
use progress::Progress;

use crate::file::RUN_PAGES;
use crate::{Error, File};

/// Reads pages ahead, checks each once, and tells how far it is.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    file: File,
    /// The page that was checked last.
    checked: Option<u32>,
    progress: &'a dyn Progress,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: File, progress: &'a dyn Progress) -> Reader<'a> {
        Reader { file, checked: None, progress }
    }
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
