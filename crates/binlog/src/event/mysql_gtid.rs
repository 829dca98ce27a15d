//! GTIDs of MySQL: a server's UUID, since MySQL 8.3 perhaps a tag, and a number.
//!
//! Facts: `control_events.h`, `rpl_gtid_set.cc` and `libs/mysql/serialization` of MySQL's source.

use std::fmt;

use crate::error::Flaw;
use crate::wire::Wire;

/// The longest tag.
const TAG_BYTES_MAX: usize = 32;

/// A MySQL server's UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// A tag, or none: its bytes, and zeros behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag([u8; TAG_BYTES_MAX]);

impl Tag {
    /// The tag with this name: letters, digits and underscores. `None` if no server gives such a name.
    #[must_use]
    pub fn new(name: &[u8]) -> Option<Tag> {
        let mut bytes = [0; TAG_BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        let is_letter = |byte: &u8| matches!(byte, b'a'..=b'z' | b'_');
        let is_valid = name.iter().all(|byte| is_letter(byte) || byte.is_ascii_digit());
        (is_valid && name.first().is_none_or(is_letter)).then_some(Tag(bytes))
    }

    fn name(&self) -> &str {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(TAG_BYTES_MAX);
        self.0.get(..len).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

/// The source of transactions, which numbers them: a server and a tag. MySQL calls it TSID. It is written as
/// the UUID, or as `UUID:tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tsid {
    /// The server.
    pub server: Uuid,
    /// The tag, which may be none.
    pub tag: Tag,
}

impl fmt::Display for Tsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)?;
        match self.tag.name() {
            "" => Ok(()),
            tag => write!(f, ":{tag}"),
        }
    }
}

/// Numbers of a source: ranges, the end excluded.
pub type Ranges = Vec<(u64, u64)>;

fn uuid(wire: &mut Wire<'_>) -> Result<Uuid, Flaw> {
    wire.take(16)?.try_into().map(Uuid).map_err(|_| Flaw("it ends too early"))
}

fn tag(wire: &mut Wire<'_>) -> Result<Tag, Flaw> {
    let len = usize::try_from(wire.varint()?).unwrap_or(usize::MAX);
    Tag::new(wire.take(len)?).ok_or(Flaw("a GTID has a tag that no server gives"))
}

/// The start of a transaction.
pub(crate) fn untagged(mut wire: Wire<'_>) -> Result<(Tsid, u64), Flaw> {
    wire.u8()?;
    Ok((Tsid { server: uuid(&mut wire)?, tag: Tag::default() }, wire.u64()?))
}

/// The same with a tag: a message whose fields have numbers in ascending order. Those behind the tag say when
/// it was committed and by which version.
pub(crate) fn tagged(mut wire: Wire<'_>) -> Result<(Tsid, u64), Flaw> {
    // The version of the form, the length, the last field that must be known.
    for _ in 0..3 {
        wire.varint()?;
    }
    let (mut server, mut number, mut found) = (None, None, Tag::default());
    while !wire.is_empty() {
        match wire.varint()? {
            0 => drop(wire.varint()?),
            1 => {
                let mut bytes = [0; 16];
                for byte in &mut bytes {
                    *byte = u8::try_from(wire.varint()?).map_err(|_| Flaw("a UUID has too large a byte"))?;
                }
                server = Some(Uuid(bytes));
            }
            // It is signed, and not negative.
            2 => number = Some(wire.varint()? >> 1),
            3 => found = tag(&mut wire)?,
            _ => break,
        }
    }
    let (Some(server), Some(number)) = (server, number) else {
        return Err(Flaw("it has no UUID or no number"));
    };
    Ok((Tsid { server, tag: found }, number))
}

/// The executed GTIDs before a file. The highest byte of the count says whether there are tags.
pub(crate) fn previous(mut wire: Wire<'_>) -> Result<Vec<(Tsid, Ranges)>, Flaw> {
    let head = wire.u64()?;
    let (count, has_tags) = match head >> 56 {
        0 => (head, false),
        1 => (head << 8 >> 16, true),
        _ => return Err(Flaw("the form of its GTIDs is unknown")),
    };
    let mut all = Vec::new();
    for _ in 0..count {
        let server = uuid(&mut wire)?;
        let tag = if has_tags { tag(&mut wire)? } else { Tag::default() };
        let mut ranges = Vec::new();
        for _ in 0..wire.u64()? {
            ranges.push((wire.u64()?, wire.u64()?));
        }
        all.push((Tsid { server, tag }, ranges));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_written_with_its_tag() {
        let server = Uuid(std::array::from_fn(|at| u8::try_from(at).unwrap()));
        let text = |tag: &str| Tsid { server, tag: Tag::new(tag.as_bytes()).unwrap() }.to_string();
        assert_eq!(text(""), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(text("_a1"), "00010203-0405-0607-0809-0a0b0c0d0e0f:_a1");
        assert_eq!(text(&"t".repeat(32)).len(), 36 + 1 + 32);
        for wrong in ["1a", "A", "a-b", "a\0", &"t".repeat(33)] {
            assert_eq!(Tag::new(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
