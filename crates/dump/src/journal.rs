//! The journal of a running dump: with it a stopped dump can be resumed, and a load can follow a running one.
//!
//! It has a line of JSON for each step, after the manifest as far as that is known at the beginning. Lines
//! are only appended, and the file is removed once the final manifest exists. The writer holds a lock, which
//! the system releases however the process ends.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use disk::{Disk, Guard, Output, Share, Sink};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::manifest::{self, Chunk, Manifest};

/// The file's name.
const NAME: &str = "journal.jsonl";
/// The journal of a stopped dump, while another run resumes it.
const LEFT: &str = "journal.left.jsonl";
/// The file that is locked while a dump is running.
const LOCK: &str = "dump.lock";
/// How often the file is synced, so that others, perhaps on another machine, see what was written.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// A line is no longer than a manifest may be.
const LINE_BYTES_MAX: usize = 1 << 30;

/// A step. Tables have the same numbers as in the manifest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// The manifest, with the chunks of tables that an earlier run completed.
    Begin(Box<Manifest>),
    /// A data file is complete.
    Chunk(usize, Chunk),
    /// A table is complete: it has no more chunks, and it did not change meanwhile.
    Table(usize),
    /// A table was altered: what was recorded about it is void, and it is read again under its new
    /// definition.
    Again(usize),
    /// The dump has failed.
    Failed(String),
}

/// Locks a folder. While the lock is held a dump into the folder is running.
pub(crate) fn lock(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn Guard>, Error> {
    let path = folder.join(LOCK);
    let locked = disk.lock(&path, Share::Exclusive).map_err(Error::file(&path))?;
    locked.ok_or_else(|| {
        let holder = disk.holder(&path).map_or_else(String::new, |holder| format!(" ({holder})"));
        Error::Busy(format!("another dump into {}{holder}", folder.display()))
    })
}

/// Whether somebody dumps into a folder right now.
pub(crate) fn is_locked(disk: &dyn Disk, folder: &Path) -> Result<bool, Error> {
    let path = folder.join(LOCK);
    let is_locked = disk.is_locked(&path).map_err(Error::file(&path))?;
    if !is_locked && disk.stat(&folder.join(manifest::NAME)).is_ok() {
        // The dump may have ended meanwhile, and removed a file that this call has created again.
        disk.remove(&path).ok();
    }
    Ok(is_locked)
}

/// A journal that several threads write.
pub(crate) struct Journal {
    path: PathBuf,
    sink: Mutex<(Box<dyn Sink>, Instant)>,
}

impl Journal {
    /// Begins a journal and replaces an existing one.
    pub(crate) fn begin(disk: &dyn Disk, folder: &Path, manifest: &Manifest) -> Result<Journal, Error> {
        let path = folder.join(NAME);
        let text = line(&Step::Begin(Box::new(manifest.clone())));
        let write = || -> io::Result<Box<dyn Sink>> {
            let text = text?;
            let mut output = Output::create(disk, &path)?;
            output.write_all(&text)?;
            output.finish()?;
            match disk.remove(&folder.join(LEFT)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            disk.append(&path, text.len() as u64)
        };
        let sink = write().map_err(Error::file(&path))?;
        Ok(Journal { path, sink: Mutex::new((sink, Instant::now())) })
    }

    /// Adds a step.
    pub(crate) fn add(&self, step: &Step) -> Result<(), Error> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let add = |(sink, synced): &mut (Box<dyn Sink>, Instant)| -> io::Result<()> {
            sink.write_all(&line(step)?)?;
            sink.flush()?;
            // Data files are durable on their own; a step that a crash loses only makes a table be dumped
            // again.
            if synced.elapsed() >= SYNC_EVERY {
                sink.sync()?;
                *synced = Instant::now();
            }
            Ok(())
        };
        add(&mut sink).map_err(Error::file(&self.path))
    }

    /// Removes the journal and the lock file, because the manifest now has everything.
    pub(crate) fn remove(self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        // What it has not written yet must not come after the removal.
        drop(self.sink);
        disk.remove(&self.path).map_err(Error::file(&self.path))?;
        let path = folder.join(LOCK);
        match disk.remove(&path) {
            // Not everywhere a lock is a file.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(&path)(error)),
            _ => Ok(()),
        }
    }
}

fn line(step: &Step) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(step)?;
    text.push(b'\n');
    Ok(text)
}

/// Reads a journal that may still grow.
pub(crate) struct Reader {
    path: PathBuf,
    at: u64,
    rest: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(folder: &Path) -> Reader {
        Reader::of(folder.join(NAME))
    }

    fn of(path: PathBuf) -> Reader {
        Reader { path, at: 0, rest: Vec::new() }
    }

    /// The steps that were added since the last call; none if there is no journal.
    pub(crate) fn steps(&mut self, disk: &dyn Disk) -> Result<Vec<Step>, Error> {
        // Opened again each time, because only that shows what another machine has written.
        let mut source = match disk.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.map_err(Error::file(&self.path))?,
        };
        let stat = source.stat().map_err(Error::file(&self.path))?;
        if stat.len < self.at {
            return Err(manifest::corrupt(&self.path, "it is shorter than before: the dump was restarted"));
        }
        let mut new = Vec::new();
        let read = source.seek(SeekFrom::Start(self.at)).and_then(|_| source.read_to_end(&mut new));
        self.at += read.map_err(Error::file(&self.path))? as u64;
        self.rest.append(&mut new);
        let mut steps = Vec::new();
        let mut from = 0;
        while let Some(length) = memchr::memchr(b'\n', &self.rest[from..]) {
            let step = serde_json::from_slice(&self.rest[from..from + length]);
            steps.push(step.map_err(|error| manifest::corrupt(&self.path, &error.to_string()))?);
            from += length + 1;
        }
        self.rest.drain(..from);
        if self.rest.len() > LINE_BYTES_MAX {
            return Err(manifest::corrupt(&self.path, "a line is larger than 1 GiB"));
        }
        for step in &mut steps {
            if let Step::Begin(manifest) = step {
                manifest.restore_derived();
                manifest.check().map_err(|what| manifest::corrupt(&self.path, &what))?;
            }
        }
        Ok(steps)
    }
}

/// Renames the journal of a stopped dump, so that a follower waits for the run that resumes it. The
/// caller must hold the lock.
pub(crate) fn rename_previous(disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
    match disk.rename(&folder.join(NAME), &folder.join(LEFT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(folder)(error)),
        _ => Ok(()),
    }
}

/// What a stopped dump left: its manifest, with the chunks of complete tables. `None` when it was stopped
/// before it wrote anything.
pub(crate) fn left(disk: &dyn Disk, folder: &Path) -> Result<Option<Manifest>, Error> {
    let path = [NAME, LEFT].map(|name| folder.join(name)).into_iter().find(|path| disk.stat(path).is_ok());
    let steps = path.map_or(Ok(Vec::new()), |path| Reader::of(path).steps(disk))?;
    let mut steps = steps.into_iter();
    let Some(Step::Begin(mut manifest)) = steps.next() else {
        let names = disk.list(folder).map_err(Error::file(folder))?;
        let ours = |name: &std::ffi::OsString| name == LOCK || name.to_string_lossy().starts_with("journal.");
        return if names.iter().all(ours) {
            Ok(None)
        } else {
            Err(Error::Mismatch(format!("{}: there is no stopped dump in it", folder.display())))
        };
    };
    let strange = || manifest::corrupt(&folder.join(NAME), "it refers to a table that it does not describe");
    let mut chunks: Vec<Vec<Chunk>> = manifest.tables.iter().map(|_| Vec::new()).collect();
    let mut whole = vec![false; manifest.tables.len()];
    let mut again = whole.clone();
    for step in steps {
        match step {
            Step::Chunk(table, chunk) => chunks.get_mut(table).ok_or_else(strange)?.push(chunk),
            Step::Table(table) => *whole.get_mut(table).ok_or_else(strange)? = true,
            // Its definition differs from the one above.
            Step::Again(table) => *again.get_mut(table).ok_or_else(strange)? = true,
            Step::Begin(_) | Step::Failed(_) => {}
        }
    }
    let at = manifest.earlier.len();
    let source = &manifest.source;
    manifest
        .earlier
        .push(manifest::EarlierState { snapshot: source.snapshot, position: source.position.clone() });
    let whole = whole.into_iter().zip(again).map(|(whole, again)| whole && !again);
    for ((entry, chunks), whole) in manifest.tables.iter_mut().zip(chunks).zip(whole) {
        if whole && entry.earlier.is_none() {
            entry.set_chunks(chunks);
            entry.earlier = Some(at);
        }
    }
    manifest.check().map_err(|what| manifest::corrupt(&folder.join(NAME), &what))?;
    Ok(Some(*manifest))
}

#[cfg(test)]
mod tests {
    use disk::RealDisk;
    use server::Flavour;

    use super::*;

    fn manifest() -> Manifest {
        let table = |name: &str| {
            format!(
                "{{\"name\":{{\"schema\":\"d\",\"table\":\"{name}\"}},\"engine\":\"InnoDB\",\"definition\":\"\",\"created\":\"\",\
                 \"rows\":0,\"bytes\":0,\"columns\":[],\"key\":[],\"key_name\":\"\",\"partitions\":[],\"versioned\":false,\
                 \"folder\":\"d.{name}\",\"history\":false,\"data\":true,\"chunks\":[],\
                 \"sum\":{{\"rows\":0,\"hash\":\"0000000000000000\"}}}}"
            )
        };
        let text = format!(
            "{{\"format\":\"remora dump\",\"version\":1,\"id\":\"ab\",\"source\":{{\"flavour\":\"mariadb\",\
             \"server_version\":\"10.11\",\"host\":\"h\",\"server_id\":1,\"lower_case_table_names\":0,\
             \"snapshot\":\"compared\",\"position\":null}},\"data_format\":\"tsv\",\"data_extension\":\"tsv.zst\",\
             \"objects\":[],\"tables\":[{},{}],\"omitted\":[]}}",
            table("a"),
            table("b")
        );
        serde_json::from_str(&text).unwrap()
    }

    fn chunk(number: u32) -> Chunk {
        Chunk {
            sum: crate::Sum { rows: 1, hash: crate::Hash(5) },
            text_bytes: 2,
            file_bytes: 9,
            blake3: "00".to_owned(),
            ..Chunk::planned(number, Vec::new(), None)
        }
    }

    #[test]
    fn whole_tables_are_left_and_a_torn_line_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(left(&RealDisk, folder).unwrap().is_none());
        let guard = lock(&RealDisk, folder).unwrap();
        assert!(is_locked(&RealDisk, folder).unwrap());
        assert!(lock(&RealDisk, folder).is_err());
        let journal = Journal::begin(&RealDisk, folder, &manifest()).unwrap();
        let mut reader = Reader::new(folder);
        assert!(matches!(reader.steps(&RealDisk).unwrap()[..], [Step::Begin(_)]));
        // Chunks are recorded as they are completed.
        for step in
            [Step::Chunk(1, chunk(1)), Step::Chunk(1, chunk(0)), Step::Table(1), Step::Chunk(0, chunk(0))]
        {
            journal.add(&step).unwrap();
        }
        assert_eq!(reader.steps(&RealDisk).unwrap().len(), 4);
        journal.sink.lock().unwrap().0.write_all(b"{\"table\":").unwrap();
        assert!(reader.steps(&RealDisk).unwrap().is_empty());
        drop(guard);
        assert!(!is_locked(&RealDisk, folder).unwrap());
        let left = left(&RealDisk, folder).unwrap().unwrap();
        assert_eq!(left.source.flavour(), Flavour::MariaDb);
        let states: Vec<_> = left.tables.iter().map(|entry| (entry.earlier, entry.chunks.len())).collect();
        assert_eq!(states, [(None, 0), (Some(0), 2)]);
        assert_eq!(left.tables[1].chunks[0].number, 0);
        rename_previous(&RealDisk, folder).unwrap();
        rename_previous(&RealDisk, folder).unwrap();
        let kept = super::left(&RealDisk, folder).unwrap().unwrap();
        assert_eq!(kept.tables[1].chunks.len(), 2);
        RealDisk.rename(&folder.join(LEFT), &folder.join(NAME)).unwrap();
        journal.sink.lock().unwrap().0.write_all(b"0}\n").unwrap();
        assert!(matches!(reader.steps(&RealDisk).unwrap()[..], [Step::Table(0)]));
    }

    #[test]
    fn a_file_that_is_no_journal_is_corrupt() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let journal = Journal::begin(&RealDisk, folder, &manifest()).unwrap();
        for bad in ["{\"table\":7}\n", "{\"chunk\":[9,{}]}\n", "rubbish\n", "{\"begin\":{}}\n"] {
            let len = RealDisk.stat(&journal.path).unwrap().len;
            RealDisk.append(&journal.path, len).unwrap().write_all(bad.as_bytes()).unwrap();
            assert!(matches!(left(&RealDisk, folder), Err(Error::Corrupt { .. })), "{bad}");
            RealDisk.append(&journal.path, len).unwrap();
        }
    }
}
