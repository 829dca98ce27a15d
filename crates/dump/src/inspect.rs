//! Checks a dump without a server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crc_fast::Digest;
use disk::Disk;

use crate::data_file::DataFile;
use crate::hash::{self, Sum};
use crate::manifest::{Manifest, ODD_FOLDER, SMALL_TABLES_FOLDER, is_of_value};
use crate::parallel::Failure;
use crate::{Context, Error, Format};
use progress::count;

/// The result of checking a dump's folder.
#[derive(Clone, Debug)]
pub struct CheckSummary {
    /// The manifest.
    pub manifest: Manifest,
    /// Data files, or parts of files that tables share.
    pub chunks: usize,
    /// Bytes of them.
    pub file_bytes: u64,
    /// A line for each file that contradicts the manifest.
    pub damaged: Vec<String>,
    /// Data files that the manifest does not list.
    pub strays: Vec<PathBuf>,
}

/// Reads the whole dump and compares it with its manifest: the length and BLAKE3 of every file, whether its
/// text can be decompressed, and for lines (`tsv`) also rows and hashes.
///
/// # Errors
/// [`Error::Corrupt`] when the manifest is damaged, [`Error::Stopped`]; a damaged data file is not an error.
pub fn check(context: &Context, folder: &Path, threads: usize) -> Result<CheckSummary, Error> {
    let manifest = Manifest::read(&*context.disk, folder)?;
    let chunks: Vec<_> = manifest
        .tables
        .iter()
        .flat_map(|entry| entry.chunks.iter().map(move |chunk| (entry, chunk)))
        .collect();
    let total = chunks.iter().map(|(_, chunk)| chunk.text_bytes).sum();
    context.progress.phase("checking", Some(total));
    let (next, failure, damaged) = (AtomicUsize::new(0), Failure::default(), Mutex::new(Vec::new()));
    let work = || -> Result<(), Error> {
        while let Some((entry, chunk)) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let file = manifest.data_file(folder, entry, chunk);
            let lines = matches!(manifest.data_format, Format::Tsv | Format::Parquet);
            if let Err(error) = read(context, &file, lines.then_some(chunk.sum), chunk.sum.rows) {
                if context.is_stopped() {
                    return Err(Error::Stopped("the check is incomplete"));
                }
                let mut damaged = damaged.lock().unwrap_or_else(PoisonError::into_inner);
                damaged.push(format!(
                    "{}: {error} (table {}, chunk {}, {})",
                    file.path.display(),
                    entry.table.name,
                    chunk.number,
                    count(chunk.sum.rows, "row")
                ));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1).min(chunks.len()) {
            scope.spawn(|| failure.guard(work));
        }
    });
    failure.into_result()?;
    let mut damaged = damaged.into_inner().unwrap_or_else(PoisonError::into_inner);
    damaged.sort();
    Ok(CheckSummary {
        chunks: chunks.len(),
        file_bytes: chunks.iter().map(|(_, chunk)| chunk.file_bytes).sum(),
        damaged,
        strays: strays(&*context.disk, folder, &manifest)?,
        manifest,
    })
}

/// Reads a chunk. If a sum is given, its lines must match it.
fn read(context: &Context, file: &DataFile, wanted: Option<Sum>, rows: u64) -> io::Result<()> {
    let mut lines = Lines::default();
    let mut text = 0;
    file.read(&*context.disk, &mut |piece| {
        if context.is_stopped() {
            return Err(io::Error::other("stopped"));
        }
        context.progress.read(piece.len() as u64);
        text += piece.len() as u64;
        if wanted.is_some() {
            lines.take(piece);
        }
        Ok(())
    })?;
    context.progress.done(rows, text);
    match wanted {
        Some(wanted) if lines.sum != wanted || lines.open.is_some() => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "its content ({}) does not match the hash in the manifest (of {})",
                count(lines.sum.rows, "row"),
                count(wanted.rows, "row")
            ),
        )),
        _ => Ok(()),
    }
}

/// Sums lines that arrive in pieces.
#[derive(Default)]
struct Lines {
    sum: Sum,
    /// The digest of a line that has not ended.
    open: Option<Digest>,
}

impl Lines {
    fn take(&mut self, piece: &[u8]) {
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', piece) {
            let line = &piece[from..end];
            match self.open.take() {
                None => self.sum.add_line(line),
                Some(mut digest) => {
                    digest.update(line);
                    self.sum.add_pieces(&digest);
                }
            }
            from = end + 1;
        }
        if from < piece.len() {
            self.open.get_or_insert_with(hash::pieces).update(&piece[from..]);
        }
    }
}

/// Data files that belong to no table.
fn strays(disk: &dyn Disk, folder: &Path, manifest: &Manifest) -> Result<Vec<PathBuf>, Error> {
    let mut known = std::collections::BTreeSet::new();
    for entry in &manifest.tables {
        let files = entry.chunks.iter().map(|chunk| manifest.data_file(folder, entry, chunk));
        files.for_each(|file| known.extend(file.files().map(|file| file.path.clone())));
    }
    let mut found = Vec::new();
    let odd = folder.join(ODD_FOLDER);
    for folder in [folder, &odd].into_iter().filter(|path| *path == folder || disk.list(path).is_ok()) {
        for name in disk.list(folder).map_err(Error::file(folder))? {
            let path = folder.join(&name);
            let is_ours = name == SMALL_TABLES_FOLDER || name.to_string_lossy().contains('.');
            // Only a folder can contain data files.
            let Some(names) = disk.list(&path).ok().filter(|_| is_ours) else { continue };
            for name in names {
                let inner = path.join(&name);
                let files = disk.list(&inner).ok().filter(|_| is_of_value(&name));
                let files = files.map(|names| names.iter().map(|name| inner.join(name)).collect());
                found.extend(files.unwrap_or_else(|| vec![inner]));
            }
        }
    }
    found.retain(|path| !known.contains(path));
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_up_wherever_they_are_cut() {
        let text = b"1\ta\n\n22\tbb\\n\n";
        let mut wanted = Sum::default();
        for line in [&b"1\ta"[..], b"", b"22\tbb\\n"] {
            wanted.add_line(line);
        }
        for step in 1..=text.len() {
            let mut lines = Lines::default();
            text.chunks(step).for_each(|piece| lines.take(piece));
            assert_eq!(lines.sum, wanted, "{step}");
            assert!(lines.open.is_none());
        }
        let mut lines = Lines::default();
        lines.take(b"1\ta");
        assert!(lines.open.is_some());
    }
}
