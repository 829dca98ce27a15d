//! Folders of a store as a [`Disk`], for dumps: files that are written once, and read by whoever finds them.
//!
//! A store has no names that change and no files that grow. So
//! * a file under a temporary name ([`Output`]) is an upload that its renaming completes;
//! * a file that grows, `*.jsonl`, is an object and a further one, `*.jsonl.000001`, for each sync;
//! * a manifest, `*.json`, is written on the condition that there is none, so a run that has lost its
//!   lock and does not know it can't replace that of its successor;
//! * a folder is there as long as something is in it;
//! * a lock on a file locks the file's folder, as runs that back up lock a repository.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use block::{Upload, WRITER_LOCK};
use disk::{Disk, Guard, Output, Share, Sink, Source, Stat, Volume};
use jiff::fmt::rfc2822::DateTimeParser;

use crate::client::Bucket;
use crate::growing::{self, GrowingSink, Joined};
use crate::mirror_side::PART;
use crate::read_cache::lock;
use crate::upload::MultipartUpload;

/// Folders and files of a bucket.
pub struct BucketDisk {
    root: Bucket,
    /// The path that stands for the root.
    path: PathBuf,
    /// Files under temporary names.
    unfinished: Mutex<BTreeMap<PathBuf, Arc<Mutex<Unfinished>>>>,
    /// Folders that this run has locked: each with what it knows of its lock.
    locked: Mutex<BTreeMap<String, Bucket>>,
    /// Who holds the folder that could not be locked last.
    holder: Mutex<Option<String>>,
}

/// A file that has no name yet.
enum Unfinished {
    /// One that fits a request so far.
    Short(Bucket, String, Vec<u8>),
    Long(Box<MultipartUpload>),
    Ended,
}

impl Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Unfinished::Short(_, _, so_far) if (so_far.len() + bytes.len()) as u64 <= PART => {
                so_far.extend_from_slice(bytes);
                Ok(())
            }
            Unfinished::Short(bucket, name, so_far) => {
                let mut upload = MultipartUpload::new(bucket, name, is_manifest(name))?;
                upload.write_all(so_far)?;
                upload.write_all(bytes)?;
                *self = Unfinished::Long(Box::new(upload));
                Ok(())
            }
            Unfinished::Long(upload) => upload.write_all(bytes),
            Unfinished::Ended => Err(io::Error::other("the file is finished")),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Unfinished::Ended) {
            Unfinished::Short(bucket, name, bytes) => bucket.put_short(&name, &bytes, is_manifest(&name)),
            Unfinished::Long(upload) => upload.finish(),
            Unfinished::Ended => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

struct UnfinishedSink(Arc<Mutex<Unfinished>>);

impl Write for UnfinishedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for UnfinishedSink {
    /// It survives with its name.
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BucketDisk {
    /// The files of a bucket; `path` stands for the bucket's prefix.
    #[must_use]
    pub fn new(root: Bucket, path: &Path) -> BucketDisk {
        BucketDisk {
            root,
            path: path.to_owned(),
            unfinished: Mutex::default(),
            locked: Mutex::default(),
            holder: Mutex::default(),
        }
    }

    /// All files whose paths begin like this, in order.
    ///
    /// # Errors
    /// Those of the store.
    pub fn all(&self, begin: &Path) -> io::Result<Vec<PathBuf>> {
        let files = self.root.files(&self.name(begin)?)?;
        Ok(files.into_keys().map(|name| self.path.join(name)).collect())
    }

    /// The name of a file or folder in the bucket.
    fn name(&self, path: &Path) -> io::Result<String> {
        let below = path.strip_prefix(&self.path).ok().and_then(Path::to_str);
        below.map(str::to_owned).ok_or_else(|| {
            let text = format!("{} is no name of a store: they are UTF-8", path.display());
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }

    /// The bucket for a file, and its name there: below a locked folder the one that holds the lock.
    fn place(&self, path: &Path) -> io::Result<(Bucket, String)> {
        let name = self.name(path)?;
        for (folder, bucket) in lock(&self.locked).iter().rev() {
            if let Some(below) = name.strip_prefix(folder.as_str()).and_then(|rest| rest.strip_prefix('/')) {
                return Ok((bucket.clone(), below.to_owned()));
            }
        }
        Ok((self.root.clone(), name))
    }

    /// The name of the folder that a file is in, and its files as a bucket of their own.
    fn folder_of(&self, path: &Path) -> io::Result<(String, Bucket)> {
        let folder = self.name(path.parent().unwrap_or(&self.path))?;
        let bucket = if folder.is_empty() { self.root.clone() } else { self.root.below(&folder) };
        Ok((folder, bucket))
    }

    /// What is directly in a folder.
    fn children(&self, folder: &Path) -> io::Result<Vec<String>> {
        let (bucket, name) = self.place(folder)?;
        let begin = if name.is_empty() { name } else { name + "/" };
        let mut names = bucket.directly_in(&begin)?;
        names.retain(|name| !growing::is_part(name));
        Ok(names)
    }
}

fn is_manifest(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "json")
}

/// An error of a request names the file, as whoever asks for one does: once is enough.
fn unnamed(bucket: &Bucket, name: &str, error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.strip_prefix(&format!("{}: ", bucket.shown(name))) {
        Some(rest) => io::Error::new(error.kind(), rest.to_owned()),
        None => error,
    }
}

fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("files of a store can't be {what}"))
}

impl Disk for BucketDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        let (bucket, name) = self.place(path)?;
        if growing::grows(&name) {
            let joined = Joined::open(bucket.clone(), &name)?;
            if !joined.is_single() {
                return Ok(Box::new(joined));
            }
            // One file is read ahead.
        }
        match bucket.reader(&name) {
            Ok(reader) => Ok(Box::new(reader)),
            Err(error) => Err(unnamed(&bucket, &name, error)),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let whole = path.to_str().and_then(|text| text.strip_suffix(".partial"));
        let (bucket, name) = self.place(Path::new(whole.ok_or_else(|| unsupported("written in place"))?))?;
        let file = Arc::new(Mutex::new(Unfinished::Short(bucket, name, Vec::new())));
        lock(&self.unfinished).insert(path.to_owned(), Arc::clone(&file));
        Ok(Box::new(UnfinishedSink(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (bucket, name) = self.place(to)?;
        if growing::grows(&name) {
            // What an earlier file of this name has grown by is not a part of this one.
            growing::remove_parts(&bucket, &name)?;
        }
        let unfinished = lock(&self.unfinished).remove(from);
        if let Some(file) = unfinished {
            if Output::partial(to) != from {
                return Err(unsupported("named otherwise than they were begun"));
            }
            return lock(&file).finish().map_err(|error| unnamed(&bucket, &name, error));
        }
        let mut copy = Output::create(self, to)?;
        io::copy(&mut self.open(from)?, &mut copy)?;
        copy.finish()?;
        self.remove(from)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if path.extension().is_some_and(|end| end == "partial") {
            // With its writer the upload is given up, too.
            let unfinished = lock(&self.unfinished).remove(path);
            return unfinished.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let (bucket, name) = self.place(path)?;
        bucket.head(&name)?.ok_or(io::ErrorKind::NotFound)?;
        // First the beginning: without it, nobody reads the rest.
        bucket.delete(&name)?;
        if growing::grows(&name) {
            growing::remove_parts(&bucket, &name)?;
        }
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let (bucket, name) = self.place(path)?;
        if growing::grows(&name) {
            return Joined::open(bucket, &name)?.stat();
        }
        let about = bucket.head(&name).map_err(|error| unnamed(&bucket, &name, error))?;
        let about = about.ok_or(io::ErrorKind::NotFound)?;
        let len = about.header("content-length").and_then(|len| len.parse().ok());
        let len = len.ok_or_else(|| io::Error::other("the store did not report the file's length"))?;
        let modified = about.header("last-modified").unwrap_or_default();
        let modified = DateTimeParser::new().parse_timestamp(modified);
        let modified_ns = modified.map_or(0, |time| time.as_nanosecond());
        Ok(Stat { modified_ns, ..Stat::of_volume(len) })
    }

    fn append(&self, path: &Path, len: u64) -> io::Result<Box<dyn Sink>> {
        let (bucket, name) = self.place(path)?;
        if !growing::grows(&name) || self.stat(path)?.len != len {
            return Err(unsupported("changed"));
        }
        Ok(Box::new(GrowingSink::new(bucket, name)?))
    }

    fn volume(&self, _: &Path) -> io::Result<Box<dyn Volume>> {
        Err(unsupported("changed in place"))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let names = self.children(folder)?;
        if names.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(names.into_iter().map(OsString::from).collect())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let name = self.name(folder)?;
        let is_ours = lock(&self.locked).keys().any(|ours| name.starts_with(&format!("{ours}/")));
        // Nothing is made for it, so below a folder of ours there is nothing to ask.
        if is_ours || self.children(folder)?.is_empty() {
            Ok(())
        } else {
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }

    /// A folder is there as soon as something is in it.
    fn make_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        let (folder, bucket) = self.folder_of(path)?;
        let guard = bucket.lease(WRITER_LOCK, share)?;
        if guard.is_none() {
            *lock(&self.holder) = bucket.other_holder();
        } else if share == Share::Exclusive {
            lock(&self.locked).insert(folder, bucket);
        }
        Ok(guard)
    }

    /// Asks without writing anything: whoever only reads may have no right to.
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        self.folder_of(path)?.1.is_leased(WRITER_LOCK)
    }

    fn holder(&self, _: &Path) -> Option<String> {
        lock(&self.holder).clone()
    }
}
