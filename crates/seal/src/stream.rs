//! A file as a stream of sealed segments, which can be read at any offset.

use std::ops::Range;

use crate::crypto::{Bytes32, Cipher, TAG, derive, random};
use crate::keyring::Epoch;
use crate::{Error, Keyring};

/// Bytes of the header, which is not encrypted.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a segment before it is sealed; the last one may have fewer.
pub const SEGMENT_BYTES: usize = 16 << 10;
/// Bytes of a whole segment as it is stored.
pub const STORED_SEGMENT_BYTES: usize = SEGMENT_BYTES + TAG;
/// This many segments at the beginning can be rewritten.
const REWRITABLE_SEGMENTS: usize = 5;
const MAGIC: [u8; 8] = *b"remoseal";

/// Whether a file that begins with these bytes is sealed.
#[must_use]
pub fn is_sealed(begin: &[u8]) -> bool {
    begin.starts_with(&MAGIC)
}
const VERSION: u32 = 1;
const INFO: &[u8] = b"remora 1 file";
/// Marks the last segment.
const LAST: u8 = 1;

/// The byte range of a segment in the file.
#[must_use]
pub fn stored_range(number: u64) -> Range<u64> {
    let start = (HEADER_BYTES as u64).saturating_add(number.saturating_mul(STORED_SEGMENT_BYTES as u64));
    start..start.saturating_add(STORED_SEGMENT_BYTES as u64)
}

fn cipher(keyring: &Keyring, epoch: &Epoch, name: &str, salt: &Bytes32) -> Result<Cipher, Error> {
    Cipher::new(&derive(&epoch.meta, salt, &[INFO, &keyring.repository, name.as_bytes()]))
}

/// A nonce for each segment, for each time that it is written, and for whether it is the last one.
fn nonce(segment: u64, round: u8, last: bool) -> [u8; 12] {
    let mut nonce = [0; 12];
    let (number, rest) = nonce.split_at_mut(8);
    number.copy_from_slice(&segment.to_le_bytes());
    rest.copy_from_slice(&[round, if last { LAST } else { 0 }, 0, 0]);
    nonce
}

fn header(epoch: u32, round: u8, salt: &Bytes32) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&epoch.to_le_bytes());
    header.extend_from_slice(&u32::from(round).to_le_bytes());
    header.extend_from_slice(salt);
    header.resize(HEADER_BYTES, 0);
    header
}

/// A file that is being sealed, in order.
pub struct SealedWriter {
    cipher: Cipher,
    epoch: u32,
    salt: Bytes32,
    /// Bytes of the segment that is not complete yet.
    open: Vec<u8>,
    /// The number of the next segment.
    next: u64,
    /// The content of the first segments, as far as they are sealed.
    beginning: Vec<u8>,
    /// How often the first segments were rewritten.
    round: u8,
}

impl SealedWriter {
    /// Begins the file `name`; returns its first bytes.
    ///
    /// # Errors
    /// [`Error::NoRandom`].
    pub fn begin(keyring: &Keyring, name: &str) -> Result<(SealedWriter, Vec<u8>), Error> {
        let (epoch, salt) = (keyring.number(), random()?);
        let keys = keyring.epoch(epoch).ok_or(Error::Damaged("no keys"))?;
        let cipher = cipher(keyring, keys, name, &salt)?;
        let sealing =
            SealedWriter { cipher, epoch, salt, open: Vec::new(), next: 0, beginning: Vec::new(), round: 0 };
        Ok((sealing, header(epoch, 0, &salt)))
    }

    /// Adds bytes. Complete segments, except the last one, are appended to `out`.
    ///
    /// # Errors
    /// None are known.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        while !bytes.is_empty() {
            // Only now is it certain that it is not the last one.
            if self.open.len() == SEGMENT_BYTES {
                self.seal(false, out)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(SEGMENT_BYTES - self.open.len()));
            self.open.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    fn seal(&mut self, last: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        let number = self.next;
        let start = out.len();
        out.extend_from_slice(&self.open);
        if number < REWRITABLE_SEGMENTS as u64 {
            self.beginning.extend_from_slice(&self.open);
        }
        self.cipher.seal(nonce(number, self.round_of(number), last), &[], out, start)?;
        self.next += 1;
        self.open.clear();
        Ok(())
    }

    fn round_of(&self, segment: u64) -> u8 {
        if segment < REWRITABLE_SEGMENTS as u64 { self.round } else { 0 }
    }

    /// Replaces the first bytes, which were added before. Returns the new beginning of the file. Sealed
    /// segments are sealed again with other nonces.
    ///
    /// # Errors
    /// If it was done too often, or reaches too far.
    pub fn begin_anew(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let sealed = self.beginning.len();
        let room = REWRITABLE_SEGMENTS * SEGMENT_BYTES;
        if bytes.len() > room || bytes.len() > sealed + self.open.len() {
            return Err(Error::Damaged("only the beginning can be rewritten"));
        }
        self.round =
            self.round.checked_add(1).ok_or(Error::Damaged("the beginning was rewritten too often"))?;
        let (beginning, open) = bytes.split_at(bytes.len().min(sealed));
        self.beginning.iter_mut().zip(beginning).for_each(|(old, new)| *old = *new);
        self.open.iter_mut().zip(open).for_each(|(old, new)| *old = *new);
        let mut out = header(self.epoch, self.round, &self.salt);
        for (number, segment) in (0..).zip(self.beginning.chunks(SEGMENT_BYTES)) {
            let start = out.len();
            out.extend_from_slice(segment);
            self.cipher.seal(nonce(number, self.round, false), &[], &mut out, start)?;
        }
        Ok(out)
    }

    /// Appends the last segment.
    ///
    /// # Errors
    /// None are known.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.seal(true, out)
    }
}

/// A sealed file that is being read.
pub struct SealedReader {
    cipher: Cipher,
    round: u8,
    /// Bytes of the content.
    len: u64,
    /// The number of the last segment; `None` if the file was not finished.
    last: Option<u64>,
}

impl SealedReader {
    /// The file `name`, of which `stored` bytes exist. An unfinished file is read as far as there are
    /// segments: any of them may be the last one.
    ///
    /// # Errors
    /// [`Error::Damaged`], also for a file of another repository or name; [`Error::Newer`].
    pub fn new(
        keyring: &Keyring,
        name: &str,
        header_bytes: &[u8; HEADER_BYTES],
        stored: u64,
        is_finished: bool,
    ) -> Result<SealedReader, Error> {
        let number = |at: usize| {
            let bytes = header_bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        if !is_sealed(header_bytes) {
            return Err(Error::Foreign);
        }
        if number(8) != VERSION {
            return Err(Error::Newer);
        }
        let wrong = || Error::Damaged("the header of a sealed file is damaged");
        let epoch = number(12);
        let round = u8::try_from(number(16)).map_err(|_| wrong())?;
        let salt = header_bytes.get(20..52).and_then(|salt| salt.first_chunk::<32>()).ok_or_else(wrong)?;
        if *header_bytes != *header(epoch, round, salt) {
            return Err(wrong());
        }
        let keys =
            keyring.epoch(epoch).ok_or(Error::Damaged("sealed with a key that is not in the key file"))?;
        let cipher = cipher(keyring, keys, name, salt)?;
        let body = stored.saturating_sub(HEADER_BYTES as u64);
        let (whole, rest) = (body / STORED_SEGMENT_BYTES as u64, body % STORED_SEGMENT_BYTES as u64);
        let tag = TAG as u64;
        let (len, last) = match (is_finished, rest) {
            (false, rest) => (whole * SEGMENT_BYTES as u64 + rest.saturating_sub(tag), None),
            (true, 0) if whole > 0 => (whole * SEGMENT_BYTES as u64, Some(whole - 1)),
            (true, rest) if rest >= tag => (whole * SEGMENT_BYTES as u64 + rest - tag, Some(whole)),
            _ => return Err(Error::Damaged("the file is truncated")),
        };
        Ok(SealedReader { cipher, round, len, last })
    }

    /// Bytes of the content.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether a file is empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The content of a stored segment. A segment of another place or file counts as damaged, and so does one
    /// that was not the last one and is now.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn segment(&self, number: u64, stored: Vec<u8>) -> Result<Vec<u8>, Error> {
        let round = if number < REWRITABLE_SEGMENTS as u64 { self.round } else { 0 };
        let open = |stored, last| self.cipher.open(nonce(number, round, last), &[], stored);
        let opened = match self.last {
            Some(last) => open(stored, last == number),
            None => open(stored.clone(), false).or_else(|| open(stored, true)),
        };
        opened.ok_or(Error::Damaged("damaged, or a part of another file"))
    }
}
