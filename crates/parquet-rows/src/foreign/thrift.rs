//! Looks at footers and page headers of Parquet before the library does: it takes the memory that they claim,
//! and goes as deep as their schemas.
//!
//! Their encoding is Thrift's compact protocol. Nothing is decoded here but the few numbers that matter.

use std::fmt;

/// How deep structures and schemas may be nested.
const DEPTH_MAX: usize = 64;
/// The most bytes of an uncompressed page that any file may claim.
const PAGE_BYTES_MAX: i64 = 1 << 30;
/// Up to this size no page is suspicious.
const PAGE_BYTES_USUAL: i64 = 64 << 20;
/// How many times its compressed length a larger page may have.
const PAGE_RATIO_MAX: i64 = 1000;

/// What is wrong with some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// They end too early.
    Short,
    /// They can't be what they should be.
    Bad(String),
    /// They belong to an encrypted file.
    Encrypted,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Short => f.write_str("its metadata end too early"),
            Trouble::Bad(what) => f.write_str(what),
            Trouble::Encrypted => f.write_str("it is encrypted"),
        }
    }
}

fn bad<T>(what: &str) -> Result<T, Trouble> {
    Err(Trouble::Bad(what.to_owned()))
}

/// What occurs in a structure.
enum Event {
    /// A number.
    Number(i64),
    /// The end of a structure.
    End,
}

/// A walk through a structure.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The numbers of the fields that lead to the current one.
    path: Vec<i16>,
}

type Take<'t> = &'t mut dyn FnMut(&[i16], Event) -> Result<(), Trouble>;

impl Walk<'_> {
    fn byte(&mut self) -> Result<u8, Trouble> {
        let byte = self.bytes.get(self.at).copied().ok_or(Trouble::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, Trouble> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        bad("a number in its metadata is too long")
    }

    fn number(&mut self) -> Result<i64, Trouble> {
        let number = self.varint()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn skip(&mut self, length: u64) -> Result<(), Trouble> {
        let rest = (self.bytes.len() - self.at) as u64;
        if length > rest {
            return Err(Trouble::Short);
        }
        self.at += usize::try_from(length).unwrap_or(usize::MAX);
        Ok(())
    }

    fn structure(&mut self, depth: usize, take: Take<'_>) -> Result<(), Trouble> {
        if depth > DEPTH_MAX {
            return bad("its metadata are nested too deeply");
        }
        let mut field = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return take(&self.path, Event::End);
            }
            field = match head >> 4 {
                0 => {
                    i16::try_from(self.number()?).or_else(|_| bad("a field in its metadata has no number"))?
                }
                step => field.wrapping_add(i16::from(step)),
            };
            self.path.push(field);
            let within = head & 0xf;
            // The value of a truth is in the head of its field.
            if !matches!(within, 1 | 2) {
                self.value(within, depth, take)?;
            }
            self.path.pop();
        }
    }

    fn value(&mut self, kind: u8, depth: usize, take: Take<'_>) -> Result<(), Trouble> {
        match kind {
            1..=3 => self.byte().map(drop),
            4..=6 => {
                let number = self.number()?;
                take(&self.path, Event::Number(number))
            }
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    count => u64::from(count),
                };
                self.elements(count, &[head & 0xf], depth, take)
            }
            11 => {
                let count = self.varint()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                self.elements(count, &[kinds >> 4, kinds & 0xf], depth, take)
            }
            12 => self.structure(depth + 1, take),
            13 => self.skip(16),
            _ => bad("its metadata have a value of an unknown kind"),
        }
    }

    fn elements(&mut self, count: u64, kinds: &[u8], depth: usize, take: Take<'_>) -> Result<(), Trouble> {
        if depth > DEPTH_MAX {
            return bad("its metadata are nested too deeply");
        }
        // Each takes a byte at least.
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(Trouble::Short);
        }
        for _ in 0..count {
            for kind in kinds {
                self.value(*kind, depth + 1, take)?;
            }
        }
        Ok(())
    }
}

/// Checks the header of a page at the start of `bytes`, and returns its length. `value_bytes` are the fewest
/// bytes that a value takes in a dictionary.
///
/// # Errors
/// When the page or its dictionary claims more than it can have.
pub(crate) fn page(bytes: &[u8], value_bytes: usize) -> Result<usize, Trouble> {
    let (mut plain, mut packed, mut values) = (0, 0, 0);
    let mut walk = Walk { bytes, at: 0, path: Vec::new() };
    walk.structure(0, &mut |path, event| {
        let Event::Number(number) = event else { return Ok(()) };
        match path {
            // If a field is repeated, the largest value counts.
            [2] => plain = number.max(plain),
            [3] => packed = number.max(packed),
            [7, 1] => values = number.max(values),
            _ => {}
        }
        Ok(())
    })?;
    let most = PAGE_BYTES_USUAL.max(packed.saturating_mul(PAGE_RATIO_MAX)).min(PAGE_BYTES_MAX);
    if plain > most {
        return Err(Trouble::Bad(format!(
            "a page of {packed} bytes claims to have {plain} when it is decompressed"
        )));
    }
    let each = i64::try_from(value_bytes.max(1)).unwrap_or(i64::MAX);
    if values.saturating_mul(each) > plain {
        return Err(Trouble::Bad(format!("a dictionary of {plain} bytes claims to have {values} values")));
    }
    Ok(walk.at)
}

/// Checks a footer.
///
/// # Errors
/// When its schema is nested too deeply, claims columns that it does not have, or columns are encrypted.
pub(crate) fn footer(bytes: &[u8]) -> Result<(), Trouble> {
    // What is left of each group that is open, and how many elements there were.
    let (mut open, mut elements, mut children): (Vec<i64>, i64, i64) = (Vec::new(), 0, 0);
    let mut encrypted = false;
    let most = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let mut walk = Walk { bytes, at: 0, path: Vec::new() };
    walk.structure(0, &mut |path, event| {
        match (path, event) {
            ([2, 5], Event::Number(number)) => children = number,
            ([2], Event::End) => {
                elements += 1;
                if let Some(left) = open.last_mut() {
                    *left -= 1;
                }
                let own = std::mem::take(&mut children);
                if !(0..=most).contains(&own) {
                    return bad("its schema claims columns that it does not have");
                }
                if own > 0 {
                    open.push(own);
                }
                while open.last() == Some(&0) {
                    open.pop();
                }
                if open.len() > DEPTH_MAX {
                    return bad("its schema is nested too deeply");
                }
            }
            // The algorithm, and the keys of a column.
            ([8, ..] | [4, 1, 8, ..], _) => encrypted = true,
            _ => {}
        }
        Ok(())
    })?;
    if encrypted {
        return Err(Trouble::Encrypted);
    }
    if !open.is_empty() || elements == 0 {
        return bad("its schema claims columns that it does not have");
    }
    Ok(())
}
