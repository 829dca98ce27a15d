//! Copies of files that a running server may be changing: it purges deleted rows within seconds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use instance::Wanted;
use physical::TableFiles;
use progress::{Progress, size};
use tempfile::TempDir;

use crate::report::Report;

/// Bytes that stay free where the copies are: the server may write there.
const SPARE: u64 = 256 << 20;

/// Where the copy of each file is. They are removed when this is dropped.
pub(super) struct FileCopies {
    copies: BTreeMap<PathBuf, PathBuf>,
    _work: TempDir,
}

impl FileCopies {
    /// Copies the files of tables.
    pub(super) fn of(tables: &[&TableFiles], wanted: Wanted<'_>, report: &Report) -> Result<FileCopies> {
        let work = wanted.work_folder()?;
        let mut copies = BTreeMap::new();
        let mut bytes = 0;
        report.phase("copying", None);
        for (number, file) in tables.iter().flat_map(|table| &table.files).enumerate() {
            let folder = work.path().join(number.to_string());
            std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            let copy = folder.join(file.file_name().unwrap_or_default());
            disk::copy(file, &copy, SPARE).with_context(|| {
                format!(
                    "{} can't be copied to {}; --work names a folder with room, best on the same file system",
                    file.display(),
                    work.path().display()
                )
            })?;
            bytes += std::fs::metadata(&copy).map_or(0, |found| found.len());
            copies.insert(file.clone(), copy);
        }
        report.end();
        report.note(&format!(
            "{} copied first, so that the server can't purge deleted rows while they are read",
            size(bytes)
        ));
        Ok(FileCopies { copies, _work: work })
    }

    /// The copy of a file, or the file itself if there is none.
    pub(super) fn path<'a>(&'a self, file: &'a Path) -> &'a Path {
        self.copies.get(file).map_or(file, PathBuf::as_path)
    }
}
