//! Tables that were outside of the data folder, while a log is replayed. In the copy they are in the data
//! folder, where a server refuses to alter tables with DATA DIRECTORY. So it gets links to them instead.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use disk::{Disk, RealDisk};

/// Folders that were moved out of a data folder, and links to them in it.
pub(crate) struct LinkedTables<'a> {
    data: &'a Path,
    folder: &'a Path,
    names: Vec<OsString>,
}

impl<'a> LinkedTables<'a> {
    /// Moves the folders whose names begin with a dot into `folder`, on the same file system. No database has
    /// such a folder.
    pub(crate) fn new(data: &'a Path, folder: &'a Path) -> Result<LinkedTables<'a>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(data)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() && entry.file_name().as_encoded_bytes().starts_with(b".") {
                names.push(entry.file_name());
            }
        }
        for name in &names {
            RealDisk.rename(&data.join(name), &folder.join(name))?;
            symlink(folder.join(name).canonicalize()?, data.join(name))?;
        }
        Ok(LinkedTables { data, folder, names })
    }

    /// Moves them back.
    pub(crate) fn back(self) -> Result<()> {
        for name in &self.names {
            RealDisk.remove(&self.data.join(name))?;
            RealDisk.rename(&self.folder.join(name), &self.data.join(name))?;
        }
        Ok(())
    }
}
