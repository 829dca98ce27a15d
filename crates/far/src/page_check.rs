//! Checks the pages of InnoDB's files, on the side that reads them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use block::tree::{BadPage, PageCheck};
use innodb::Error;
use innodb::page_check::PageFormat;

/// Checks pages of InnoDB's files. The first page of each file tells the page format.
#[derive(Debug, Default)]
pub struct InnodbPages {
    /// What the first pages of files have told.
    formats: Mutex<BTreeMap<PathBuf, PageFormat>>,
}

impl PageCheck for InnodbPages {
    fn first_bad(
        &self,
        path: &Path,
        first: &dyn Fn() -> io::Result<Vec<u8>>,
        page_bytes: u32,
        (offset, bytes): (u64, &[u8]),
    ) -> io::Result<Option<BadPage>> {
        let known = self.formats.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        if let Some(format) = known
            && format.first_bad(offset, bytes).is_ok_and(|bad| bad.is_none())
        {
            return Ok(None);
        }
        // The file may be another one of the same name by now.
        let first = first()?;
        let page_bytes = usize::try_from(page_bytes).map_err(io::Error::other)?;
        let found = PageFormat::of_first_page(&first, page_bytes).and_then(|format| {
            let whole = first.get(..format.page_bytes()).unwrap_or_default();
            Ok(match format.first_bad(0, whole)? {
                // What it tells is not to be trusted either.
                Some(_) => None,
                None => Some((format, format.first_bad(offset, bytes)?)),
            })
        });
        match found {
            Ok(Some((format, bad))) => {
                // As long as the first page is zeros, it may still become anything.
                if format.is_known() {
                    let mut formats = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
                    formats.insert(path.to_owned(), format);
                }
                let page = |offset| BadPage { number: offset / format.page_bytes() as u64, offset };
                Ok(bad.map(page))
            }
            // It may be torn.
            Ok(None) | Err(Error::Corrupt { .. }) => Ok(Some(BadPage { number: 0, offset: 0 })),
            Err(error) => {
                let text = format!("{}: {error}", path.display());
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
        }
    }
}
