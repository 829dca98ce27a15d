//! A loaded model: strings to packed values and back, and the ranges of prefixes.

use crate::check::Check;
use crate::coder::Encoder;
use crate::error::Error;
use crate::file::{self, CHECK_MAX, Header, NUMBER_MAX};
use crate::model_memory::ModelMemory;
use crate::node::SLOTS;
use crate::pack::encode;
use crate::random::Random;
use crate::unpack::{self, Entry};

/// Packed values of model 0 begin with a byte below this; those of model n begin with the byte
/// `OWN_BYTES + n - 1`.
///
/// So the number of the most used model costs a tenth of a bit, and any other number costs a byte. A leading
/// 0xff is reserved.
const OWN_BYTES: u8 = 0xf0;
/// Bytes of the random code from which a string is drawn: more than nearly every string packs to.
const DRAWN_CODE: usize = 128;
/// Longest string that [`Model::draw`] returns.
const DRAWN_LEN: usize = 4_096;

/// A model that was checked and is ready for use.
#[derive(Debug)]
pub struct Model {
    room: ModelMemory,
    header: Header,
}

/// What a model file says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info<'m> {
    /// Number in packed values, 0 to 15.
    pub number: u8,
    /// Bytes of the check at the end of every value, 0 to 4.
    pub check_bytes: u8,
    /// Checksum of the file: two models with the same one are the same.
    pub checksum: u64,
    /// Size of the file in bytes. The file is used as it is, so this is also its size in memory.
    pub size: usize,
    /// Contexts with a state of their own.
    pub states: u32,
    /// Strings it was trained on.
    pub strings: u64,
    /// Bytes of these strings.
    pub bytes: u64,
    /// What the trainer wrote about the data, UTF-8.
    pub note: &'m str,
}

impl Model {
    /// Checks a model file and makes it usable. The file is either bytes, which are copied, or a
    /// [`ModelMemory`] that it was read into.
    ///
    /// # Errors
    /// [`Error::Model`] if the file is not a model, has another version, is damaged or contradicts itself.
    pub fn from_bytes(file: impl Into<ModelMemory>) -> Result<Self, Error> {
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

    /// The number in this model's packed values.
    pub fn number(&self) -> u8 {
        self.header.number
    }

    /// The same model file with another number, 0 to 15, and with a check of 0 to 4 bytes in its values.
    ///
    /// The check is part of the value, so order and prefixes are kept. It depends on the string and on the
    /// file's checksum. A value that was cut, changed, or packed by another model passes with a chance of one
    /// in 256 for one byte, and of one in 4,294,967,296 for four. Without a check such a value mostly unpacks
    /// to another string.
    ///
    /// # Errors
    /// [`Error::Train`] if the number is above 15 or the check is longer than 4 bytes.
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

    /// Appends the least value of any string that begins with `prefix`.
    pub fn prefix_min(&self, prefix: &[u8], out: &mut Vec<u8>) {
        self.code(prefix, false, out).0.finish_low();
    }

    /// Appends a value above every string that begins with `prefix` and below all strings that sort after
    /// them.
    ///
    /// No string packs to this value. So a value `v` belongs to a string with the prefix exactly if
    /// `prefix_min <= v` and `v < prefix_max`, and also exactly if `v <= prefix_max`, which is what SQL's
    /// BETWEEN tests.
    pub fn prefix_max(&self, prefix: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        let (encoder, free) = self.code(prefix, false, out);
        if free {
            return encoder.finish_above(SLOTS);
        }
        // Inside a chain no slot is free. After the greatest byte that can follow there is a free one, at the
        // latest when the chain ends.
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

    /// Appends the string of a packed value to `out`, if it has at most `max_len` bytes.
    ///
    /// On failure `out` is as it was before.
    ///
    /// # Errors
    /// [`Error::OtherModel`] if the value names another model, [`Error::Corrupt`] if it is not a packed
    /// value, [`Error::TooLong`] if the string is longer than `max_len`.
    #[inline]
    pub fn unpack(&self, packed: &[u8], out: &mut Vec<u8>, max_len: usize) -> Result<(), Error> {
        unpack::unpack(self.entry(), self.body(packed)?, out, max_len)
    }

    /// Unpacks many values together, which is faster than one after the other.
    ///
    /// `each` is called in no fixed order, with the index of a value and its string or the reason why it has
    /// none.
    pub fn unpack_batch<P: AsRef<[u8]>>(
        &self,
        packed: &[P],
        max_len: usize,
        mut each: impl FnMut(usize, Result<&[u8], Error>),
    ) {
        // Values of other models are answered first: the lanes take only values of this model.
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

    /// Calls `each` with random strings as the model expects them, chosen by `seed`, until they have `bytes`
    /// bytes together: they resemble the training data as far as the model remembers it.
    pub fn draw(&self, bytes: u64, seed: u64, mut each: impl FnMut(&[u8])) {
        let (mut random, mut drawn, mut string) = (Random::new(seed), 0, Vec::new());
        while drawn < bytes {
            string.clear();
            let code: [u8; DRAWN_CODE] = std::array::from_fn(|_| random.byte());
            if unpack::draw(self.entry(), &code, &mut string, DRAWN_LEN) {
                each(&string);
            }
            // This ends even where nearly every string is empty, or none is short enough.
            drawn += string.len().max(1) as u64;
        }
    }

    /// The value without the byte that names the model, if that is this model.
    fn body<'p>(&self, packed: &'p [u8]) -> Result<&'p [u8], Error> {
        let found = number_of(packed)?;
        if found != self.header.number {
            return Err(Error::OtherModel { found, ours: self.header.number });
        }
        Ok(if found == 0 { packed } else { &packed[1..] })
    }

    /// The interval in which this model's values lie.
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

/// The number of the model in a packed value.
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
