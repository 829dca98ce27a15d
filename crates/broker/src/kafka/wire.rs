//! Numbers, texts and lists, as the protocol of Kafka writes them.
//!
//! The format: <https://kafka.apache.org/protocol#protocol_types>.

/// What is written.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn i8(&mut self, value: i8) {
        self.0.extend(value.to_be_bytes());
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.0.extend(value.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.0.extend(value.to_be_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.extend(value.to_be_bytes());
    }

    /// How many elements, or bytes, follow. Nobody has two thousand million.
    pub(crate) fn length(&mut self, length: usize) {
        self.i32(i32::try_from(length).unwrap_or(i32::MAX));
    }

    /// A text of at most 32 KiB: names, and users.
    pub(crate) fn text(&mut self, text: &str) {
        self.i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
        self.0.extend(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend(bytes);
    }

    pub(crate) fn uvarint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    /// A number with its sign in the lowest bit.
    pub(crate) fn varint(&mut self, value: i64) {
        self.uvarint(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    /// Bytes of a record behind their length.
    pub(crate) fn part(&mut self, part: Option<&[u8]>) {
        self.varint(part.map_or(-1, |part| i64::try_from(part.len()).unwrap_or(i64::MAX)));
        self.0.extend(part.unwrap_or_default());
    }
}

/// What is read. Each function gives none at the end, and for what cannot be.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn i8(&mut self) -> Option<i8> {
        self.array().map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// The id of a topic.
    pub(crate) fn uuid(&mut self) -> Option<[u8; 16]> {
        self.array()
    }

    /// How many elements follow; a list that is not there has none.
    pub(crate) fn length(&mut self) -> Option<usize> {
        self.i32().map(|length| usize::try_from(length).unwrap_or(0))
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.i16()?).unwrap_or(0);
        std::str::from_utf8(self.take(length)?).ok().map(str::to_owned)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(crate) fn uvarint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn varint(&mut self) -> Option<i64> {
        let value = self.uvarint()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Bytes of a record behind their length; the inner none is no value.
    pub(crate) fn part(&mut self) -> Option<Option<&'a [u8]>> {
        match self.varint()? {
            ..0 => Some(None),
            length => self.take(usize::try_from(length).ok()?).map(Some),
        }
    }

    /// How many elements follow in the newer form of a list, which counts from 1.
    pub(crate) fn compact(&mut self) -> Option<usize> {
        usize::try_from(self.uvarint()?.saturating_sub(1)).ok()
    }

    pub(crate) fn compact_text(&mut self) -> Option<String> {
        let length = self.compact()?;
        std::str::from_utf8(self.take(length)?).ok().map(str::to_owned)
    }

    /// Passes over fields that only newer servers know.
    pub(crate) fn tags(&mut self) -> Option<()> {
        for _ in 0..self.uvarint()? {
            self.uvarint()?;
            let length = usize::try_from(self.uvarint()?).ok()?;
            self.take(length)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Reader, Writer};

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, -1, 63, -64, 64, 300, i64::MAX, i64::MIN];
        let mut writer = Writer::default();
        numbers.iter().for_each(|&number| writer.varint(number));
        let mut reader = Reader(&writer.0);
        assert!(numbers.iter().all(|&number| reader.varint() == Some(number)));
        assert_eq!(reader.varint(), None);
        assert_eq!(Reader(&[0xff; 10]).uvarint(), None);
        assert_eq!(
            Reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).uvarint(),
            Some(u64::MAX)
        );
        let mut writer = Writer::default();
        writer.part(None);
        writer.part(Some(b""));
        writer.part(Some(b"ab"));
        writer.text("topic");
        let mut reader = Reader(&writer.0);
        assert_eq!(reader.part(), Some(None));
        assert_eq!(reader.part(), Some(Some(&b""[..])));
        assert_eq!(reader.part(), Some(Some(&b"ab"[..])));
        assert_eq!(reader.text().as_deref(), Some("topic"));
        assert_eq!(Reader(&[2, 5, 1, 9, 6, 0]).tags(), Some(()));
        assert_eq!(Reader(&[1, 5, 3, 9]).tags(), None);
    }
}
