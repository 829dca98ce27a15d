//! The destination of rows: a folder with a file for each table, a file, or standard output.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use disk::{Disk, RealDisk};
use failure::usage;
use physical::Format;
use server::TableName;

use crate::exit;
use crate::report::Report;

/// The destination of rows.
pub(super) struct Output {
    place: Place,
    extension: &'static str,
    /// Whether this run has created the folder.
    is_new: bool,
}

enum Place {
    Stdout,
    File(PathBuf),
    Folder(PathBuf),
}

impl Output {
    /// The destination that the user named. A file is for one table only.
    pub(super) fn new(
        (name, format): (&Path, Format),
        tables: usize,
        deleted: bool,
        report: &Report,
    ) -> anyhow::Result<Output> {
        let extension = match format {
            Format::Tsv => "tsv",
            Format::Csv => "csv",
        };
        let is_file = ["tsv", "csv"].iter().any(|end| name.extension().is_some_and(|is| is == *end));
        let place = match () {
            () if name == Path::new("-") && deleted => {
                return Err(usage("--deleted writes a file of its own: give a folder or a file with -o"));
            }
            () if name == Path::new("-") => {
                report.output()?;
                Place::Stdout
            }
            () if is_file => Place::File(name.to_owned()),
            () => Place::Folder(name.to_owned()),
        };
        if tables > 1 && !matches!(place, Place::Folder(_)) {
            return Err(usage(format!(
                "{tables} tables do not go into one file: name one of them as db.table, or a folder with -o"
            )));
        }
        // Checked before a backup is recovered, which may take hours.
        match &place {
            Place::Folder(folder) => {
                let is_used = RealDisk.list(folder).is_ok_and(|names| !names.is_empty());
                anyhow::ensure!(!is_used, "{}: the folder is not empty; name another one", folder.display());
            }
            Place::File(name) => refuse(name)?,
            Place::Stdout => {}
        }
        Ok(Output { place, extension, is_new: false })
    }

    /// Creates the folder.
    pub(super) fn prepare(mut self) -> anyhow::Result<Output> {
        if let Place::Folder(folder) = &self.place {
            self.is_new = RealDisk.stat(folder).is_err();
            RealDisk.make_folder(folder).with_context(|| folder.display().to_string())?;
        }
        Ok(self)
    }

    /// The file for a table. `kind` is what follows its name.
    fn file(&self, table: &TableName, kind: &str) -> Option<PathBuf> {
        match &self.place {
            Place::Stdout => None,
            Place::Folder(folder) => {
                Some(folder.join(format!("{}{kind}.{}", dump::folder_name(table), self.extension)))
            }
            Place::File(name) if kind.is_empty() => Some(name.clone()),
            Place::File(name) => {
                let end = name.extension().and_then(|end| end.to_str()).unwrap_or(self.extension);
                Some(name.with_extension(format!("{}.{end}", kind.trim_start_matches('.'))))
            }
        }
    }

    /// Calls `rows` with the output. A file gets its name when it is complete.
    pub(super) fn write(
        &self,
        table: &TableName,
        kind: &str,
        rows: impl FnOnce(&mut dyn Write) -> Result<(), physical::Error>,
    ) -> anyhow::Result<()> {
        let Some(name) = self.file(table, kind) else {
            let mut out = exit::stdout();
            rows(&mut out)?;
            return Ok(out.flush()?);
        };
        refuse(&name)?;
        let mut out = disk::Output::create(&RealDisk, &name).with_context(|| name.display().to_string())?;
        rows(&mut out).map_err(|error| match error {
            physical::Error::Output(source) => {
                anyhow::Error::from(source).context(name.display().to_string())
            }
            other => other.into(),
        })?;
        out.finish().with_context(|| name.display().to_string())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let (Place::Folder(folder), true) = (&self.place, self.is_new) {
            // It fails if there is anything in it.
            RealDisk.remove_folder(folder).ok();
        }
    }
}

/// Refuses to replace a file.
fn refuse(name: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(RealDisk.stat(name).is_err(), "{}: the file exists already", name.display());
    Ok(())
}
