//! Resumes a dump that was stopped: its complete tables are kept, all others are dumped in a new snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use disk::Disk;
use server::definition::without_counter;
use server::{Session, TableName};

use super::DumpRequest;
use crate::manifest::{self, Manifest, Source, TableEntry, is_of_value};
use crate::{Context, Error, journal};
use progress::count;

/// What a stopped dump has left.
pub(super) struct StoppedDump {
    manifest: Manifest,
}

/// Checks that the folder contains a dump that can be resumed.
pub(super) fn check_folder(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    let what = if disk.list(folder).is_err() {
        "no such folder; omit --resume"
    } else if disk.stat(&folder.join(manifest::NAME)).is_ok() {
        "the dump in it is complete"
    } else {
        return Ok(());
    };
    Err(Error::Mismatch(format!("{}: {what}", folder.display())))
}

/// Finds what a stopped dump left in the folder, which is locked for us; `None` when it had not written
/// anything yet.
pub(super) fn find(disk: &dyn Disk, folder: &Path) -> Result<Option<StoppedDump>, Error> {
    check_folder(disk, folder)?;
    journal::rename_previous(disk, folder)?;
    Ok(journal::left(disk, folder)?.map(|manifest| StoppedDump { manifest }))
}

impl StoppedDump {
    /// Checks that the dump was started on this server, with the requested format.
    pub(super) fn check(&self, request: &DumpRequest, session: &Session) -> Result<(), Error> {
        let (begun, about) = (&self.manifest, &session.about);
        let Source { host, server_id, server_version, .. } = &begun.source;
        if (host, *server_id, server_version) != (&about.hostname, about.server_id, &about.version_text) {
            return Err(Error::Mismatch(format!(
                "the stopped dump is from another server: {host}, {server_version}, server_id {server_id}"
            )));
        }
        if begun.version != manifest::VERSION {
            return Err(Error::Mismatch(format!(
                "the stopped dump is of format {}, which an earlier remora wrote; remove it and begin again",
                begun.version
            )));
        }
        let form = Manifest::new(String::new(), begun.source.clone(), request.format, request.codec.0);
        if begun.data_extension != form.data_extension || begun.condition != request.read.conditions.all {
            return Err(Error::Mismatch(format!(
                "the stopped dump has files of {}{}; resume it with the same --format, --compress and --where",
                begun.data_extension,
                begun.condition.as_ref().map(|sql| format!(" and --where {sql:?}")).unwrap_or_default()
            )));
        }
        if begun.mask_key != request.read.masks.fingerprint() {
            return Err(Error::Mismatch(
                "the stopped dump masks by another key; resume it with the same --mask and --mask-key"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Moves the chunks of complete tables into the entries of those that have not changed; removes the files
    /// of all others.
    pub(super) fn keep(
        self,
        context: &Context,
        request: &DumpRequest,
        tables: &mut [TableEntry],
    ) -> Result<Manifest, Error> {
        let mut by_name: BTreeMap<TableName, &mut TableEntry> =
            tables.iter_mut().map(|entry| (entry.table.name.clone(), entry)).collect();
        let mut kept = 0;
        for old in &self.manifest.tables {
            let new = by_name.remove(&old.table.name);
            match new.filter(|new| {
                old.earlier.is_some() && is_same(old, new) && self.has_files(context, request, old)
            }) {
                Some(new) => {
                    (new.earlier, new.sum, new.chunks) = (old.earlier, old.sum, old.chunks.clone());
                    kept += 1;
                }
                None => clear_table(&*context.disk, &request.folder, old)?,
            }
        }
        self.clear_small_tables(context, request, tables)?;
        context.progress.note(&format!(
            "resuming a stopped dump: {kept} of {} kept, the rest is dumped in a new snapshot",
            count(tables.len(), "table")
        ));
        Ok(self.manifest)
    }

    /// Removes shared files of small tables if none of their tables is kept.
    fn clear_small_tables(
        &self,
        context: &Context,
        request: &DumpRequest,
        tables: &[TableEntry],
    ) -> Result<(), Error> {
        let folder = request.folder.join(manifest::SMALL_TABLES_FOLDER);
        let chunks = || tables.iter().flat_map(|entry| entry.chunks.iter().map(move |chunk| (entry, chunk)));
        let kept: BTreeSet<PathBuf> =
            chunks().map(|(entry, chunk)| self.manifest.path(&request.folder, entry, chunk)).collect();
        for name in context.disk.list(&folder).unwrap_or_default() {
            let path = folder.join(name);
            if !kept.contains(&path) {
                context.disk.remove(&path).map_err(Error::file(&path))?;
            }
        }
        Ok(())
    }

    /// Whether all files of a table exist with their former lengths.
    fn has_files(&self, context: &Context, request: &DumpRequest, entry: &TableEntry) -> bool {
        entry.chunks.iter().all(|chunk| {
            let file = self.manifest.data_file(&request.folder, entry, chunk);
            file.files().all(|file| context.disk.stat(&file.path).is_ok_and(|stat| file.fits(stat.len)))
        })
    }
}

/// Whether a table would be dumped in the same way now.
fn is_same(old: &TableEntry, new: &TableEntry) -> bool {
    let masks = |entry: &TableEntry| -> Vec<String> { entry.masked().collect() };
    without_counter(&old.table.definition) == without_counter(&new.table.definition)
        // If the time of creation is unknown, a re-creation would go unnoticed.
        && (old.table.created == new.table.created && !new.table.created.is_empty())
        && (old.data, old.history, &old.condition) == (new.data, new.history, &new.condition)
        && masks(old) == masks(new)
        && (&old.partition_column, &old.bloom) == (&new.partition_column, &new.bloom)
}

/// Removes the data files of a table.
pub(super) fn clear_table(disk: &dyn Disk, folder: &Path, entry: &TableEntry) -> Result<(), Error> {
    clear(disk, &folder.join(&entry.folder))?;
    clear(disk, &folder.join(manifest::ODD_FOLDER).join(&entry.folder))
}

/// Removes a folder of data files, and those for values of a column in it.
fn clear(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    let names = match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(Error::file(folder))?,
    };
    for name in names {
        let path = folder.join(&name);
        if is_of_value(&name) {
            clear(disk, &path)?;
        } else {
            disk.remove(&path).map_err(Error::file(&path))?;
        }
    }
    disk.remove_folder(folder).map_err(Error::file(folder))
}
