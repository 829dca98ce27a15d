//! A store whose files only the holders of a key can read. Everything that is written and read goes through
//! it.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use disk::{Guard, Share, Source, Stat};
use seal::{
    BlockSealer, FullKey, HEADER_BYTES, Key, Keyring, SEGMENT_BYTES, STORED_SEGMENT_BYTES, SealedReader,
    SealedWriter, stored_range,
};

use crate::Error;
use crate::file_kind::never_changes;
use crate::store::{Removal, Store, Upload, lock_writer};

/// Limit for the bytes of a key file.
const KEYS_MAX: u64 = 1 << 22;
/// The most segments that are read at once.
const SEGMENTS_MAX: u64 = 16;

/// A store that encrypts what is put into it. File names are not encrypted; they are only numbers.
pub struct EncryptedStore {
    inner: Box<dyn Store>,
    sealer: BlockSealer,
}

/// `000001.keys`
fn name(number: u32) -> String {
    format!("{number:06}.keys")
}

/// The number in a name from [`name`].
fn number(of: &str) -> Option<u32> {
    let number = of.strip_suffix(".keys")?.parse().ok()?;
    (number > 0 && name(number) == of).then_some(number)
}

/// The number of the newest key file. `None`: the store is not encrypted. An encrypted store without key
/// files is damaged: nothing may be added to it as if it were not encrypted.
fn newest(store: &dyn Store) -> Result<Option<u32>, Error> {
    let names = store.list().map_err(Error::store(store.shown("")))?;
    let found = names.iter().filter_map(|name| number(name)).max();
    if found.is_some() || !is_sealed_file(store, &names) {
        return Ok(found);
    }
    let text = format!(
        "the backups beside it are encrypted, but this key file is missing; without it no key opens them. \
         Restore it from another copy of the repository: 'remora mirror COPY REPO' does that, or \
         copy {} by itself; until then remove nothing, and start nothing new here",
        name(1)
    );
    Err(Error::corrupt(store.shown(&name(1)), text))
}

/// Whether the newest numbered file is sealed. If it can't be read, that is unknown.
fn is_sealed_file(store: &dyn Store, names: &[String]) -> bool {
    let Some(newest) = names.iter().filter(|name| never_changes(name)).max() else { return false };
    let mut begin = [0; HEADER_BYTES];
    let read = store.open(newest).and_then(|file| file.read_full_at(0, &mut begin));
    read.is_ok() && seal::is_sealed(&begin)
}

fn failed(store: &dyn Store, name: &str) -> impl Fn(seal::Error) -> Error + use<> {
    let name = store.shown(name);
    move |error| match error {
        seal::Error::Damaged(what) => Error::corrupt(&name, what),
        error => Error::Key(format!("{name}: {error}")),
    }
}

fn open(store: &dyn Store, number: u32, key: &Key) -> Result<Keyring, Error> {
    let (name, shown) = (name(number), store.shown(&name(number)));
    let mut bytes = Vec::new();
    let read = store.open(&name).and_then(|source| source.take(KEYS_MAX).read_to_end(&mut bytes));
    read.map_err(Error::store(shown))?;
    Keyring::open(&bytes, number, key).map_err(failed(store, &name))
}

/// Writes a key file. It exists after the last step; before that nothing has changed.
fn write(store: &dyn Store, number: u32, file: &[u8]) -> Result<(), Error> {
    let written = store.create(&name(number)).and_then(|mut upload| {
        upload.write_all(file)?;
        upload.finish()
    });
    written.map_err(Error::store(store.shown(&name(number))))
}

/// Whether a store is encrypted.
///
/// # Errors
/// Errors of the store.
pub fn is_encrypted(store: &dyn Store) -> Result<bool, Error> {
    Ok(newest(store)?.is_some())
}

/// Whether an error of an encrypted store says that a file is not sealed, so that it does not belong to the
/// store.
#[must_use]
pub fn is_not_encrypted(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<seal::Error>());
    matches!(inner, Some(seal::Error::Foreign))
}

/// Replaces the key. Existing data stay as they are; what is added from now on is sealed for the new key
/// only. At every moment one of the two keys opens everything. Returns the number of the new key file.
///
/// # Errors
/// [`Error::Key`] if the old key does not open it, or is a put key; [`Error::Busy`]; errors of the store.
pub fn rekey(store: &dyn Store, old: &Key, new: &FullKey) -> Result<u32, Error> {
    let _alone = lock_writer(store)?;
    let found = newest(store)?;
    let number = found.ok_or_else(|| Error::Key(format!("{} is not encrypted", store.shown(""))))?;
    let told = failed(store, &name(number));
    let (keyring, file) = open(store, number, old)?.rekey(new).map_err(told)?;
    write(store, keyring.number(), &file)?;
    Ok(keyring.number())
}

impl EncryptedStore {
    /// Opens an encrypted store. An empty store becomes encrypted.
    ///
    /// # Errors
    /// [`Error::Key`] if the key does not open it, or if it has files that are not encrypted; [`Error::Busy`]
    /// while another run initializes it; errors of the store.
    pub fn open(inner: Box<dyn Store>, key: &Key) -> Result<EncryptedStore, Error> {
        if let Some(number) = newest(&*inner)? {
            return EncryptedStore::with(open(&*inner, number, key)?, inner);
        }
        let _alone = lock_writer(&*inner)?;
        if let Some(number) = newest(&*inner)? {
            return EncryptedStore::with(open(&*inner, number, key)?, inner);
        }
        let names = inner.list().map_err(Error::store(inner.shown("")))?;
        if !names.is_empty() {
            let text =
                "is not encrypted, but a key was given: leave out the key, or back up under another name";
            return Err(Error::Key(format!("{} {text}", inner.shown(""))));
        }
        let (keyring, file) = Keyring::begin(key).map_err(failed(&*inner, ""))?;
        write(&*inner, keyring.number(), &file)?;
        EncryptedStore::with(keyring, inner)
    }

    /// Whether a key opens an encrypted store.
    ///
    /// # Errors
    /// Errors of the store, and [`Error::Corrupt`] if its key file is damaged.
    pub fn opens(store: &dyn Store, key: &Key) -> Result<bool, Error> {
        let Some(number) = newest(store)? else { return Ok(false) };
        match open(store, number, key) {
            Err(Error::Key(_)) => Ok(false),
            opened => opened.map(|_| true),
        }
    }

    /// Another place with the same keys, which belongs to this store and has no key files of its own. No file
    /// may have the same name in both.
    ///
    /// # Errors
    /// [`Error::Key`] if the system gives no random bytes.
    pub fn beside(&self, inner: Box<dyn Store>) -> Result<EncryptedStore, Error> {
        EncryptedStore::with(self.sealer.keyring().clone(), inner)
    }

    /// Whether another key file has replaced the one that this store was opened with: then new data should be
    /// sealed for the new key.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn is_replaced(&self) -> Result<bool, Error> {
        Ok(newest(&*self.inner)? != Some(self.sealer.keyring().number()))
    }

    fn with(keyring: Keyring, inner: Box<dyn Store>) -> Result<EncryptedStore, Error> {
        let sealer = BlockSealer::new(keyring).map_err(failed(&*inner, ""))?;
        Ok(EncryptedStore { inner, sealer })
    }

    fn source(&self, name: &str, source: Box<dyn Source>, is_finished: bool) -> io::Result<Box<dyn Source>> {
        let mut header = [0; HEADER_BYTES];
        if source.read_full_at(0, &mut header)? < HEADER_BYTES {
            return Err(damaged(seal::Error::Damaged("the file is truncated")));
        }
        let stored = source.stat()?.len;
        let keyring = self.sealer.keyring();
        let opening = SealedReader::new(keyring, name, &header, stored, is_finished).map_err(damaged)?;
        Ok(Box::new(OpenSealedFile {
            source,
            stored,
            opening,
            position: 0,
            recent: Mutex::new((u64::MAX, Arc::default())),
        }))
    }
}

fn damaged(error: seal::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Store for EncryptedStore {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.inner.list()?.into_iter().filter(|name| number(name).is_none()).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Source>> {
        self.source(name, self.inner.open(name)?, true)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Upload + '_>> {
        let (sealing, header) = SealedWriter::begin(self.sealer.keyring(), name).map_err(io::Error::other)?;
        let mut inner = self.inner.create(name)?;
        inner.write_all(&header)?;
        Ok(Box::new(Sealer { inner, sealing, out: Vec::new() }))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (mut sealing, mut out) =
            SealedWriter::begin(self.sealer.keyring(), name).map_err(io::Error::other)?;
        sealing.push(bytes, &mut out).map_err(io::Error::other)?;
        sealing.finish(&mut out).map_err(io::Error::other)?;
        self.inner.put(name, &out)
    }

    fn open_plain(&self, name: &str) -> io::Result<Box<dyn Source>> {
        self.inner.open_plain(name)
    }

    fn put_plain(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.inner.put_plain(name, bytes)
    }

    fn leftover(&self, name: &str) -> io::Result<Option<Box<dyn Source>>> {
        self.inner.leftover(name)?.map(|source| self.source(name, source, false)).transpose()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn try_remove(&self, name: &str) -> io::Result<Removal> {
        self.inner.try_remove(name)
    }

    fn retain(&self, name: &str) -> io::Result<()> {
        self.inner.retain(name)
    }

    fn retained_until(&self, name: &str) -> io::Result<Option<i64>> {
        self.inner.retained_until(name)
    }

    fn key_files(&self) -> io::Result<Vec<String>> {
        Ok(self.inner.list()?.into_iter().filter(|name| number(name).is_some()).collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.inner.sync_names()
    }

    fn lock(&self, name: &str, share: Share) -> io::Result<Option<Box<dyn Guard>>> {
        self.inner.lock(name, share)
    }

    fn shown(&self, name: &str) -> String {
        self.inner.shown(name)
    }

    fn in_use(&self) -> String {
        self.inner.in_use()
    }

    fn sealer(&self) -> Option<&BlockSealer> {
        Some(&self.sealer)
    }
}

/// A file that is being written to the store.
struct Sealer<'a> {
    inner: Box<dyn Upload + 'a>,
    sealing: SealedWriter,
    /// Sealed, and not written yet.
    out: Vec<u8>,
}

impl Sealer<'_> {
    fn write_out(&mut self) -> io::Result<()> {
        let written = self.inner.write_all(&self.out);
        self.out.clear();
        written
    }
}

impl Write for Sealer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sealing.push(bytes, &mut self.out).map_err(io::Error::other)?;
        self.write_out()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Upload for Sealer<'_> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        let Sealer { mut inner, sealing, mut out } = *self;
        sealing.finish(&mut out).map_err(io::Error::other)?;
        inner.write_all(&out)?;
        inner.finish()
    }

    fn begin_anew(&mut self, bytes: &[u8]) -> io::Result<()> {
        let front = self.sealing.begin_anew(bytes).map_err(io::Error::other)?;
        self.inner.begin_anew(&front)
    }

    fn leave(self: Box<Self>) {
        let Sealer { mut inner, sealing, mut out } = *self;
        // What can't be written now will simply be missing.
        if sealing.finish(&mut out).is_ok() && inner.write_all(&out).is_ok() {
            inner.leave();
        }
    }
}

/// A file that is being read.
struct OpenSealedFile {
    source: Box<dyn Source>,
    /// Bytes that are stored.
    stored: u64,
    opening: SealedReader,
    position: u64,
    /// The segment that was opened last: most reads are small, and follow one another.
    recent: Mutex<(u64, Arc<Vec<u8>>)>,
}

impl OpenSealedFile {
    /// The bytes of a segment.
    fn segment(&self, number: u64, stored: Vec<u8>) -> io::Result<Arc<Vec<u8>>> {
        let opened = Arc::new(self.opening.segment(number, stored).map_err(damaged)?);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        *recent = (number, Arc::clone(&opened));
        Ok(opened)
    }

    fn recent(&self, number: u64) -> Option<Arc<Vec<u8>>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        (recent.0 == number).then(|| Arc::clone(&recent.1))
    }

    /// Where these segments are stored.
    fn range(&self, first: u64, last: u64) -> Range<u64> {
        stored_range(first).start..stored_range(last).end.min(self.stored)
    }
}

/// Copies what there is of a segment from `at` on.
fn copy(segment: &[u8], at: usize, to: &mut [u8]) -> usize {
    let from = segment.get(at..).unwrap_or_default();
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    from.len().min(to.len())
}

impl Source for OpenSealedFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat { len: self.opening.len(), ..self.source.stat()? })
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let size = SEGMENT_BYTES as u64;
        let len =
            usize::try_from(self.opening.len().saturating_sub(at)).unwrap_or(usize::MAX).min(buffer.len());
        let wanted = buffer.get_mut(..len).unwrap_or_default();
        if wanted.is_empty() {
            return Ok(0);
        }
        let (first, skip) = (at / size, usize::try_from(at % size).unwrap_or(0));
        if let Some(segment) = self.recent(first) {
            return Ok(copy(&segment, skip, wanted));
        }
        let last = ((at + wanted.len() as u64 - 1) / size).min(first + SEGMENTS_MAX - 1);
        let range = self.range(first, last);
        let mut stored = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
        let count = self.source.read_full_at(range.start, &mut stored)?;
        stored.truncate(count);
        let mut done = 0;
        for (number, stored) in (first..=last).zip(stored.chunks(STORED_SEGMENT_BYTES)) {
            let segment = match self.segment(number, stored.to_vec()) {
                // The segments before it can be read.
                Err(_) if done > 0 => break,
                segment => segment?,
            };
            let skip = if number == first { skip } else { 0 };
            done += copy(&segment, skip, wanted.get_mut(done..).unwrap_or_default());
        }
        Ok(done)
    }

    fn absent(&self, _: u64, _: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        Ok((at < self.opening.len()).then_some(at))
    }

    fn prefetch(&self, at: u64, len: u64) {
        let range = self.range(at / SEGMENT_BYTES as u64, at.saturating_add(len) / SEGMENT_BYTES as u64);
        self.source.prefetch(range.start, range.end.saturating_sub(range.start));
    }

    fn forget(&self, at: u64, len: u64) {
        let range = self.range(at / SEGMENT_BYTES as u64, at.saturating_add(len) / SEGMENT_BYTES as u64);
        // A length of 0 means everything from there on.
        self.source.forget(range.start, if len == 0 { 0 } else { range.end.saturating_sub(range.start) });
    }
}

impl Read for OpenSealedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for OpenSealedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = disk::seek(self.position, to, || Ok(self.opening.len()))?;
        Ok(self.position)
    }
}
