//! Files that grow, in a store whose files don't: `NAME`, and what was appended as `NAME.000001` and so on.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use block::mirror::MirrorSide;
use disk::{Sink, Source, Stat};

use crate::client::Bucket;

/// Digits of the number of a part, or more.
const DIGITS: usize = 6;

/// Whether files of this name grow.
pub(crate) fn grows(name: &str) -> bool {
    name.ends_with(".jsonl")
}

/// Whether this is something that was appended to a file.
pub(crate) fn is_part(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(of, number)| grows(of) && is_number(number))
}

fn is_number(text: &str) -> bool {
    text.len() >= DIGITS && text.bytes().all(|digit| digit.is_ascii_digit())
}

fn part(name: &str, number: usize) -> String {
    format!("{name}.{number:0DIGITS$}")
}

/// The objects of a file, in order, with their lengths; none if there is no file.
fn objects(bucket: &Bucket, name: &str) -> io::Result<Vec<(String, u64)>> {
    let mut found = bucket.files(name)?;
    let mut objects = Vec::new();
    let mut next = name.to_owned();
    // What comes behind a gap belongs to an earlier file, whose removal was interrupted.
    while let Some(len) = found.remove(&next) {
        objects.push((std::mem::take(&mut next), len));
        next = part(name, objects.len());
    }
    Ok(objects)
}

/// Removes what was appended to a file.
pub(crate) fn remove_parts(bucket: &Bucket, name: &str) -> io::Result<()> {
    let begin = format!("{name}.");
    for found in bucket.files(&begin)?.into_keys().filter(|name| is_part(name)) {
        bucket.delete(&found)?;
    }
    Ok(())
}

/// Appends to a file: each sync adds an object.
pub(crate) struct GrowingSink {
    bucket: Bucket,
    name: String,
    next: usize,
    /// What was not written yet.
    bytes: Vec<u8>,
}

impl GrowingSink {
    /// At the end of an existing file.
    pub(crate) fn new(bucket: Bucket, name: String) -> io::Result<GrowingSink> {
        let next = objects(&bucket, &name)?.len();
        Ok(GrowingSink { bucket, name, next, bytes: Vec::new() })
    }
}

impl Write for GrowingSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for GrowingSink {
    fn sync(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.bucket.put_short(&part(&self.name, self.next), &self.bytes, true)?;
        self.next += 1;
        self.bytes.clear();
        Ok(())
    }
}

impl Drop for GrowingSink {
    fn drop(&mut self) {
        // As with a file of a disk, what was written before an error is there mostly, and needs not be.
        self.sync().ok();
    }
}

/// How much is fetched at once.
const FETCH: usize = 1 << 20;

/// A file that grows, as it was when it was opened.
pub(crate) struct Joined {
    bucket: Bucket,
    objects: Vec<(String, Range<u64>)>,
    position: u64,
    /// What was fetched last, and where it begins.
    fetched: (u64, Vec<u8>),
}

impl Joined {
    pub(crate) fn open(bucket: Bucket, name: &str) -> io::Result<Joined> {
        let mut end = 0;
        let place = |(name, len): (String, u64)| {
            end += len;
            (name, end - len..end)
        };
        let objects: Vec<_> = objects(&bucket, name)?.into_iter().map(place).collect();
        if objects.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Joined { bucket, objects, position: 0, fetched: (0, Vec::new()) })
    }

    /// Whether nothing was appended to it.
    pub(crate) fn is_single(&self) -> bool {
        self.objects.len() == 1
    }

    fn len(&self) -> u64 {
        self.objects.last().map_or(0, |(_, range)| range.end)
    }
}

impl Source for Joined {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat::of_volume(self.len()))
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((name, range)) = self.objects.iter().find(|(_, range)| range.contains(&at)) else {
            return Ok(0);
        };
        let len = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = self.bucket.read(name, at - range.start, len)?;
        buffer.get_mut(..len).unwrap_or_default().copy_from_slice(&bytes);
        Ok(len)
    }

    fn absent(&self, _: u64, _: usize) -> io::Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> io::Result<Option<u64>> {
        Ok((at < self.len()).then_some(at))
    }

    fn prefetch(&self, _: u64, _: u64) {}

    fn forget(&self, _: u64, _: u64) {}
}

impl Read for Joined {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (from, bytes) = &self.fetched;
        if !(*from..from + bytes.len() as u64).contains(&self.position) {
            let mut bytes = vec![0; FETCH];
            let count = self.read_at(self.position, &mut bytes)?;
            bytes.truncate(count);
            self.fetched = (self.position, bytes);
        }
        let (from, bytes) = &self.fetched;
        let at = usize::try_from(self.position - from).unwrap_or(usize::MAX);
        let count = bytes.get(at..).unwrap_or_default().read(buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Joined {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = disk::seek(self.position, to, || Ok(self.len()))?;
        Ok(self.position)
    }
}
