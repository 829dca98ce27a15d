//! Checks whether the pages of a file are intact, in every page format that a tablespace may have.
//!
//! Tables are read from fewer formats, see [`crate::space`]; this is for copies of whole files. A running
//! server may be writing a page while it is read: then its checksum is wrong.
//!
//! Facts: `fsp0types.h`, `fil0fil.h`, `buf0buf.cc` (`buf_page_is_corrupted()`), `page0zip.cc`
//! (`page_zip_verify_checksum()`) and `fil0pagecompress.cc` of MariaDB's source, and which pages its backup
//! program checks (`fil_cur.cc`).

use std::ops::Range;

use flate2::{Decompress, FlushDecompress, Status};

use crate::Error;
use crate::page::{
    self, DATA, FLAGS, Kind, NO_CHECKSUM, PAGE_BYTES, Sums, corrupt, crc, u16_at, u32_at, u64_at,
};

/// Marks the type of a compressed page where checksums are full; the other bits are its length in 256 bytes.
const COMPRESSED: u16 = 0x8000;
/// The type of a compressed page in the older form.
const OLD_COMPRESSED: Kind = Kind(34_354);
/// The same, encrypted, which has no checksum.
const OLD_COMPRESSED_ENCRYPTED: Kind = Kind(37_401);
/// Where a page of the older forms has the version of its key; a checksum follows.
const KEY_VERSION: usize = 26;
/// Where a page has the LSN of its last change.
const LSN: usize = 16;
/// Where the payload of such a page begins, behind its length.
const OLD_PAYLOAD: usize = DATA + 2;
/// The number of zlib among the ways to compress pages; the others are 2 to 6.
const ZLIB: u64 = 1;
const OTHER_METHODS: Range<u64> = 2..7;
/// Behind the extents of page 0 is what a tablespace says about its encryption: this, and how, as a byte.
const ENCRYPTION: &[u8] = b"s\x0e\x0cREt";
/// The smallest page of `ROW_FORMAT=COMPRESSED`.
const ZIP_BYTES_MIN: usize = 1024;

/// How much of the beginning of a file is needed to recognise its page format: the size of the largest page.
pub const FIRST_BYTES: usize = 64 << 10;

/// The form of a tablespace's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Each has a checksum over all its bytes; it may be compressed.
    Full,
    /// Checksums in header and trailer; pages are compressed one by one if this says so.
    Old(bool),
    /// `ROW_FORMAT=COMPRESSED`.
    Zip,
    /// The first page does not say: any of these.
    Unknown,
}

/// The page format of a file, as its first page describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFormat {
    form: Form,
    page_bytes: usize,
    /// The number of the file's first page in its tablespace, which may have several files; none if it is
    /// not known.
    first: Option<u32>,
    /// Whether its pages may be encrypted.
    encrypted: bool,
    /// The second extent of the system tablespace, which has as many pages; 0 for other files. It and the
    /// third are copies of pages that the server was about to write. The server looks at them only when it
    /// recovers, and passes over those that are torn.
    doublewrite: u32,
}

impl PageFormat {
    /// Recognises the format from the first [`FIRST_BYTES`] of a file, or from all of it if it is shorter.
    ///
    /// Two kinds of files do not tell their format: a new one, whose first page is zeros until the server
    /// writes it, and the second and later files of the system tablespace. Their pages may have any format,
    /// and have `page_bytes` bytes (`innodb_page_size`).
    ///
    /// # Errors
    /// [`Error::Corrupt`] if this is not the first page of a tablespace, which it may be when it is read
    /// again.
    pub fn of_first_page(page: &[u8], page_bytes: usize) -> Result<PageFormat, Error> {
        let unknown =
            PageFormat { form: Form::Unknown, page_bytes, first: None, encrypted: true, doublewrite: 0 };
        // The smallest pages have that much, and none that was written begins with so many zeros.
        if is_zeros(page.get(..ZIP_BYTES_MIN).unwrap_or(page)) {
            return Ok(unknown);
        }
        let (first, spaces) = (u32_at(page, 4), (u32_at(page, 34), u32_at(page, DATA)));
        match (first, spaces.0) {
            (0, _) => {}
            (first, 0) => return Ok(PageFormat { first: Some(first), ..unknown }),
            (first, _) => return Err(corrupt(0, 4, format!("page {first} is where page 0 should be"))),
        }
        let flags = u32_at(page, FLAGS);
        let full = flags & 0x10 != 0;
        let logical = match if full { flags & 15 } else { flags >> 6 & 15 } {
            0 if !full => PAGE_BYTES,
            size @ 3..=7 if full || size != 5 => 512 << size,
            _ => return Err(corrupt(0, FLAGS, format!("no tablespace has the flags {flags:#x}"))),
        };
        let (form, page_bytes) = match flags >> 1 & 15 {
            _ if full => (Form::Full, logical),
            0 => (Form::Old(flags >> 16 & 1 != 0), logical),
            zip @ 1..=5 if (ZIP_BYTES_MIN >> 1) << zip <= logical => (Form::Zip, (ZIP_BYTES_MIN >> 1) << zip),
            _ => return Err(corrupt(0, FLAGS, format!("no tablespace has the flags {flags:#x}"))),
        };
        let extent = extent_pages(logical);
        // Two bits for each page of an extent, and 24 bytes.
        let extents = crate::space::DESCRIPTORS + (24 + extent / 4) * (page_bytes / extent);
        // The server adds the length of the header once more.
        let encryption = page.get(extents + DATA..).and_then(|rest| rest.strip_prefix(ENCRYPTION));
        let encrypted = encryption.and_then(<[u8]>::first).is_some_and(|&scheme| scheme != 0);
        let doublewrite = if spaces == (0, 0) { u32::try_from(extent).unwrap_or(0) } else { 0 };
        Ok(PageFormat { form, page_bytes, first: Some(0), encrypted, doublewrite })
    }

    /// Bytes of a page in the file.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Whether the first page identifies the format.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.form != Form::Unknown
    }

    /// Whether a page is as the server wrote it, or zeros because it never did. `number` counts the pages of
    /// the file from 0, and `page` has [`PageFormat::page_bytes`] bytes.
    ///
    /// Encrypted pages have their checksum over the encrypted bytes.
    ///
    /// Not all bytes have a checksum: those behind the end of a compressed page have none, nor have bytes 26
    /// to 37 in the older form. There, compressed data that was changed but unpacks to the same page is
    /// intact.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a page that only the server can check.
    pub fn is_intact(&self, number: u32, page: &[u8]) -> Result<bool, Error> {
        if is_zeros(page) || (self.doublewrite..3 * self.doublewrite).contains(&number) {
            return Ok(true);
        }
        let number = self.first.unwrap_or(0).wrapping_add(number);
        let plain = match self.form {
            Form::Full => Ok(is_page(number, page) && is_full(page)),
            Form::Old(compressed) => Ok(is_page(number, page) && is_old(compressed, page)?),
            Form::Zip => Ok(is_page(number, page) && is_zip(page)),
            Form::Unknown => {
                // A later file of the system tablespace that begins with zeros does not tell its number.
                let is_here = is_page(number, page) || self.first.is_none() && u32_at(page, 34) == 0;
                let is_whole = is_here && (is_full(page) || is_old(true, page)?);
                Ok(is_whole || is_zip_of_any_size(number, page))
            }
        };
        // A page of the older forms is not encrypted if it has no key; what else may be there can't be told.
        let may_be = self.encrypted && self.form != Form::Full && u32_at(page, KEY_VERSION) != 0;
        match plain {
            Ok(false) if may_be && is_page(number, page) => is_old_encrypted(self.form, page),
            plain => plain,
        }
    }

    /// The offset of the first page that is not intact, among the whole pages of a part of a file that begins
    /// at `offset`.
    ///
    /// # Errors
    /// Those of [`PageFormat::is_intact`].
    pub fn first_bad(&self, offset: u64, bytes: &[u8]) -> Result<Option<u64>, Error> {
        let size = self.page_bytes as u64;
        let start = offset.next_multiple_of(size);
        let whole = usize::try_from(start - offset).ok().and_then(|skip| bytes.get(skip..));
        for (page, place) in whole.unwrap_or_default().chunks_exact(self.page_bytes).zip(start / size..) {
            // No file has more pages than there are numbers.
            if !self.is_intact(u32::try_from(place).unwrap_or(u32::MAX), page)? {
                return Ok(Some(place * size));
            }
        }
        Ok(None)
    }
}

/// Whether a page differs between two reads although its LSN says that it was not written since the LSN
/// `since`, at which everything older was in the file that was read first. Either a read returned a stale
/// page, or a write was lost. Both are parts of files of the same length; pages that are larger than that,
/// and those without a full checksum, tell nothing.
#[must_use]
pub fn has_stale_page(was: &[u8], now: &[u8], page_bytes: usize, since: u64) -> bool {
    let same = |was: &[u8], now: &[u8], range: Range<usize>| was.get(range.clone()) == now.get(range);
    let extent = u32::try_from(extent_pages(page_bytes)).unwrap_or(0);
    was.chunks_exact(page_bytes).zip(now.chunks_exact(page_bytes)).any(|(was, now)| {
        let is_copy = u32_at(now, 34) == 0 && (extent..3 * extent).contains(&u32_at(now, 4));
        // Zeros: it was freed. The same number of the page and of the tablespace: it is the same page.
        was != now
            && (1..since).contains(&u64_at(now, LSN))
            && same(was, now, 4..8)
            && same(was, now, 34..38)
            && !is_copy
            && is_full(was)
            && is_full(now)
    })
}

/// Whether a page in a part of a file may have changed after the LSN `since`: by its own LSN, or because it
/// is zeros, as a page is that was freed.
#[must_use]
pub fn may_be_newer(bytes: &[u8], page_bytes: usize, since: u64) -> bool {
    bytes.chunks_exact(page_bytes).any(|page| is_zeros(page) || u64_at(page, LSN) > since)
}

/// The pages of an extent: 1 MiB, but at least 64 pages.
fn extent_pages(page_bytes: usize) -> usize {
    ((1 << 20) / page_bytes).max(64)
}

fn is_zeros(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [0; 16]) && rest.iter().all(|&byte| byte == 0)
}

fn is_page(number: u32, page: &[u8]) -> bool {
    u32_at(page, 4) == number
}

/// `buf_page_full_crc32_size()`: what lies behind the end of a compressed page does not count.
fn is_full(page: &[u8]) -> bool {
    let kind = u16_at(page, 24);
    let len = match kind & COMPRESSED {
        0 => page.len(),
        _ => usize::from(kind & !COMPRESSED) << 8,
    };
    page.get(..len).is_some_and(|page| Sums::Full.is_whole(page))
}

/// The older form. A compressed page has no checksum of its own: the one in it is right when it is unpacked.
fn is_old(compressed: bool, page: &[u8]) -> Result<bool, Error> {
    if !compressed || page::kind(page) != OLD_COMPRESSED {
        return Ok(Sums::Old.is_whole(page));
    }
    let len = usize::from(u16_at(page, DATA));
    let payload = page.get(OLD_PAYLOAD..).and_then(|rest| rest.get(..len));
    let Some(payload) = payload.filter(|_| u32_at(page, 0) == NO_CHECKSUM) else { return Ok(false) };
    match u64_at(page, 26) {
        ZLIB => {}
        method if OTHER_METHODS.contains(&method) => {
            let what = "it has PAGE_COMPRESSED=1 and innodb_checksum_algorithm=crc32, and is compressed with \
                        another method than zlib: only the server can tell whether it is damaged. ALTER TABLE \
                        ... FORCE gives it checksums, if innodb_checksum_algorithm is full_crc32";
            return Err(Error::unsupported(what));
        }
        _ => return Ok(false),
    }
    let mut unpacked = vec![0; page.len()];
    let mut stream = Decompress::new(true);
    let ended = stream.decompress(payload, &mut unpacked, FlushDecompress::Finish);
    let lens = (stream.total_in(), stream.total_out());
    let whole =
        matches!(ended, Ok(Status::StreamEnd)) && lens == (payload.len() as u64, unpacked.len() as u64);
    Ok(whole && u32_at(&unpacked, 4) == u32_at(page, 4) && Sums::Old.is_whole(&unpacked))
}

/// Whether an encrypted page of the older forms is as it was written. It has a checksum of its own
/// (`fil_space_verify_crypt_checksum()`).
fn is_old_encrypted(form: Form, page: &[u8]) -> Result<bool, Error> {
    if page::kind(page) == OLD_COMPRESSED_ENCRYPTED {
        return Err(Error::unsupported(
            "it is encrypted and has PAGE_COMPRESSED=1 and innodb_checksum_algorithm=crc32: only the server can tell whether \
             it is damaged. ALTER TABLE ... FORCE gives it checksums, if innodb_checksum_algorithm is full_crc32",
        ));
    }
    let sum = |ranges: [Range<usize>; 3]| {
        ranges.into_iter().fold(0, |sum, range| sum ^ crc(page.get(range).unwrap_or_default()))
    };
    let stored = u32_at(page, KEY_VERSION + 4);
    let is_old = || stored == sum([4..26, DATA..page.len() - 8, 0..0]);
    let is_zip = || stored == sum([4..16, 24..26, 34..page.len()]);
    Ok(match form {
        Form::Old(_) => is_old(),
        Form::Zip => is_zip(),
        Form::Full | Form::Unknown => is_old() || is_zip(),
    })
}

/// A page of `ROW_FORMAT=COMPRESSED`: three ranges have checksums, CRC-32C or Adler-32 that begins with 0.
fn is_zip(page: &[u8]) -> bool {
    let stored = u32_at(page, 0);
    let ranges = [page.get(4..16), page.get(24..26), page.get(34..)].map(Option::unwrap_or_default);
    stored == NO_CHECKSUM
        || stored == ranges.into_iter().fold(0, |sum, range| sum ^ crc(range))
        || stored == ranges.into_iter().fold(0, adler)
}

/// Whether the bytes of one page are pages of `ROW_FORMAT=COMPRESSED` instead.
fn is_zip_of_any_size(number: u32, bytes: &[u8]) -> bool {
    let sizes = (0..5).map(|power| (power, bytes.len() >> power));
    sizes.filter(|(_, size)| (ZIP_BYTES_MIN..=PAGE_BYTES).contains(size)).any(|(power, size)| {
        let first = number << power;
        // Without any checksum it can't be told what they are.
        bytes.chunks(size).zip(first..).all(|(page, number)| {
            is_zeros(page) || is_page(number, page) && u32_at(page, 0) != NO_CHECKSUM && is_zip(page)
        })
    })
}

/// Adler-32 of more bytes (RFC 1950).
fn adler(sum: u32, bytes: &[u8]) -> u32 {
    const BASE: u32 = 65_521;
    let (mut low, mut high) = (sum & 0xffff, sum >> 16);
    // So many bytes do not overflow.
    for piece in bytes.chunks(5552) {
        for &byte in piece {
            low += u32::from(byte);
            high += low;
        }
        (low, high) = (low % BASE, high % BASE);
    }
    high << 16 | low
}
