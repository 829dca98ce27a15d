//! A loaded model: strings to packed values and back, and the ranges of prefixes.

use crate::check::Check;
use crate::coder::Encoder;
use crate::error::Error;
use crate::file::{self, CHECK_MAX, Header, NUMBER_MAX};
use crate::node::SLOTS;
use crate::pack::encode;
use crate::random::Random;
use crate::room::Room;
use crate::unpack::{self, Entry};

/// Packed values of model 0 begin with a byte below this; of model n with the byte `OWN_BYTES + n - 1`.
///
/// So the model that matters costs a tenth of a bit for its name, and another one a byte. A leading 0xff is
/// kept for what may come.
const OWN_BYTES: u8 = 0xf0;
/// Bytes of a code that a string is drawn by: more than nearly every string packs to.
const DRAWN_CODE: usize = 128;
/// Longest string that is drawn.
const DRAWN_LEN: usize = 4_096;

/// A model, checked and ready.
#[derive(Debug)]
pub struct Model {
    room: Room,
    header: Header,
}

/// What a model says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info<'m> {
    /// Number that packed values name, 0 to 15.
    pub number: u8,
    /// Bytes of the check that every value ends with, 0 to 4.
    pub check_bytes: u8,
    /// Checksum of the file: two models with the same one are the same.
    pub checksum: u64,
    /// Size of the file in bytes; it is used as it is, so this is also its size in memory.
    pub size: usize,
    /// Contexts that have a state of their own.
    pub states: u32,
    /// Strings it was trained on.
    pub strings: u64,
    /// Bytes of these strings.
    pub bytes: u64,
    /// What the trainer wrote about the data, UTF-8.
    pub note: &'m str,
}

impl Model {
    /// Checks a model file and makes it usable: bytes, which are copied, or a [`Room`] that the file was read
    /// into.
    ///
    /// # Errors
    /// [`Error::Model`] if the file is not a model, of another version, damaged, or not sound in itself.
    pub fn from_bytes(file: impl Into<Room>) -> Result<Self, Error> {
        let room = file.into();
        let header = file::check(&room)?;
        Ok(Self { room, header })
    }

    /// The model file.
    pub fn as_bytes(&self) -> &[u8] {
        self.room.as_ref()
    }

    /// What the model says about itself.
    pub fn info(&self) -> Info<'_> {
        let file = self.room.as_ref();
        Info {
            number: self.header.number,
            check_bytes: self.header.check_bytes,
            checksum: self.header.checksum,
            size: file.len(),
            states: self.header.states,
            strings: self.header.strings,
            bytes: self.header.bytes,
            note: std::str::from_utf8(file::note(file, &self.header)).unwrap_or(""),
        }
    }

    /// Number that this model's packed values name.
    pub fn number(&self) -> u8 {
        self.header.number
    }

    /// The same model file under another number, 0 to 15, its values with a check of 0 to 4 bytes.
    ///
    /// A check is a part of the value, so order and prefixes stay. It depends on the string and on the file's
    /// checksum: what was cut or changed, or packed by any other model, is read as a string with a chance of
    /// one in 256 for one byte, one in 4,294,967,296 for four. Without it such a value mostly gives another
    /// string.
    ///
    /// # Errors
    /// [`Error::Train`] if the number is above 15, or the check longer than 4 bytes.
    pub fn relabelled(&self, number: u8, check_bytes: u8) -> Result<Vec<u8>, Error> {
        check_label(number, check_bytes)?;
        Ok(file::relabel(self.room.as_ref(), number, check_bytes))
    }

    /// Appends the packed value of `bytes` to `out`.
    ///
    /// memcmp of two values of one model is memcmp of their strings, and equal values are equal strings.
    #[inline]
    pub fn pack(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let (mut encoder, _) = self.code(bytes, true, out);
        let check = self.check();
        if !check.is_none() {
            check.encode(bytes, &mut encoder);
        }
        encoder.finish();
    }

    /// Appends the least value that a string beginning with `prefix` can have.
    pub fn prefix_min(&self, prefix: &[u8], out: &mut Vec<u8>) {
        self.code(prefix, false, out).0.finish_low();
    }

    /// Appends a value above every string beginning with `prefix` and below all that sort after them.
    ///
    /// No string has it. So a value `v` is of a string with the prefix exactly if `prefix_min <= v` and
    /// `v < prefix_max`, and just as well with `v <= prefix_max`, which is what SQL's BETWEEN asks.
    pub fn prefix_max(&self, prefix: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        let (encoder, free) = self.code(prefix, false, out);
        if free {
            return encoder.finish_above(SLOTS);
        }
        // Inside a chain no slot is left over; behind the greatest byte that can follow there is one, at last
        // when the chain ends.
        let mut longer = prefix.to_vec();
        loop {
            longer.push(u8::MAX);
            out.truncate(before);
            let (encoder, free) = self.code(&longer, false, out);
            if free {
                return encoder.finish_above(SLOTS);
            }
        }
    }

    #[inline]
    fn code<'o>(&self, bytes: &[u8], whole: bool, out: &'o mut Vec<u8>) -> (Encoder<'o>, bool) {
        if let Some(lead) = lead(self.header.number) {
            out.push(lead);
        }
        let mut encoder = Encoder::new(out, self.range());
        let free = encode(self.room.space(), self.header.start, bytes, whole, &mut encoder);
        (encoder, free)
    }

    /// Appends the string of a packed value to `out`, at most `max_len` bytes of it.
    ///
    /// When it fails `out` is as it was.
    ///
    /// # Errors
    /// [`Error::OtherModel`] if the value names another model, [`Error::Corrupt`] if it is no packed value,
    /// [`Error::TooLong`] if the string is longer than `max_len`.
    #[inline]
    pub fn unpack(&self, packed: &[u8], out: &mut Vec<u8>, max_len: usize) -> Result<(), Error> {
        unpack::unpack(self.entry(), self.body(packed)?, out, max_len)
    }

    /// Unpacks many values at once, which is faster than one after the other.
    ///
    /// `each` gets the index of a value and its string, or why there is none, in no fixed order.
    pub fn unpack_batch<P: AsRef<[u8]>>(
        &self,
        packed: &[P],
        max_len: usize,
        mut each: impl FnMut(usize, Result<&[u8], Error>),
    ) {
        // What names another model is answered first: the lanes take only what is ours.
        for (index, value) in packed.iter().enumerate() {
            if let Err(error) = self.body(value.as_ref()) {
                each(index, Err(error));
            }
        }
        let mut ours = packed
            .iter()
            .enumerate()
            .filter_map(|(index, value)| Some((index, self.body(value.as_ref()).ok()?)));
        unpack::unpack_batch(self.entry(), || ours.next(), max_len, &mut each);
    }

    fn entry(&self) -> Entry<'_> {
        Entry { space: self.room.space(), start: self.header.start, range: self.range(), check: self.check() }
    }

    fn check(&self) -> Check {
        Check { bytes: self.header.check_bytes, model: self.header.checksum }
    }

    /// Calls `each` with strings as the model expects them, drawn by `seed`, until they have `bytes` bytes:
    /// what it was trained on, but for what was forgotten.
    pub fn draw(&self, bytes: u64, seed: u64, mut each: impl FnMut(&[u8])) {
        let (mut random, mut drawn, mut string) = (Random::new(seed), 0, Vec::new());
        while drawn < bytes {
            string.clear();
            let code: [u8; DRAWN_CODE] = std::array::from_fn(|_| random.byte());
            if unpack::draw(self.entry(), &code, &mut string, DRAWN_LEN) {
                each(&string);
            }
            // Where nearly every string is empty, or none is short enough, it ends all the same.
            drawn += string.len().max(1) as u64;
        }
    }

    /// The value without the byte that names the model, if it is ours.
    fn body<'p>(&self, packed: &'p [u8]) -> Result<&'p [u8], Error> {
        let found = number_of(packed)?;
        if found != self.header.number {
            return Err(Error::OtherModel { found, ours: self.header.number });
        }
        Ok(if found == 0 { packed } else { &packed[1..] })
    }

    /// The interval that a value starts with.
    fn range(&self) -> u64 {
        if self.header.number == 0 { u64::from(OWN_BYTES) << 56 } else { u64::MAX }
    }
}

fn lead(number: u8) -> Option<u8> {
    number.checked_sub(1).map(|above| OWN_BYTES + above)
}

pub(crate) fn check_label(number: u8, check_bytes: u8) -> Result<(), Error> {
    match (number, check_bytes) {
        (0..=NUMBER_MAX, 0..=CHECK_MAX) => Ok(()),
        (0..=NUMBER_MAX, _) => Err(Error::Train { what: "a check has 0 to 4 bytes" }),
        _ => Err(Error::Train { what: "a model number is 0 to 15" }),
    }
}

/// The number of the model that a packed value names.
///
/// # Errors
/// [`Error::Corrupt`] if no model has such values.
pub fn number_of(packed: &[u8]) -> Result<u8, Error> {
    match packed.first() {
        Some(0xff) => Err(Error::Corrupt { what: "no model has values that begin with 0xff", place: 0 }),
        Some(&byte) if byte >= OWN_BYTES => Ok(byte - OWN_BYTES + 1),
        _ => Ok(0),
    }
}
