//! Text of servers as `String` without loss. A definition may hold bytes that are not UTF-8: a default of a
//! VARBINARY, a literal with an introducer, a routine in the character set of the client that made it.
//!
//! A byte that is not part of UTF-8 becomes the character U+10FF00 plus the byte. These characters are of the
//! last private plane; if a server sends one of them, each of its four bytes becomes such a character too. So
//! no two texts become one, and [`bytes`] restores every text.

use std::borrow::Cow;

/// The character for the byte 0.
const FIRST: u32 = 0x10_ff00;

/// The text for these bytes.
#[must_use]
pub fn text(bytes: Vec<u8>) -> String {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) if !may_have_marks(&text) => return text,
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match byte_of(letter) {
                None => out.push(letter),
                Some(_) => letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push(mark(byte))),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push(mark(*byte)));
    }
    out
}

/// The bytes that a text of [`text`] stands for.
#[must_use]
pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    if !has_marks(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match byte_of(letter) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(out)
}

/// Whether a text stands for bytes that are not UTF-8.
#[must_use]
pub fn has_marks(text: &str) -> bool {
    may_have_marks(text) && text.chars().any(|letter| byte_of(letter).is_some())
}

/// A quick look: whether any character has the first two bytes of the marks.
fn may_have_marks(text: &str) -> bool {
    text.as_bytes().contains(&0xf4) && text.as_bytes().windows(2).any(|pair| pair == [0xf4, 0x8f])
}

fn mark(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn byte_of(letter: char) -> Option<u8> {
    u8::try_from(u32::from(letter).checked_sub(FIRST)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn utf8_stays_unchanged() {
        for plain in ["", "CREATE TABLE `t`", "\u{e9}\u{1f600}\u{fffd}\u{10feff}"] {
            assert_eq!(text(plain.as_bytes().to_vec()), plain);
            assert!(!has_marks(plain) && matches!(bytes(plain), Cow::Borrowed(_)));
        }
        let marked = text(b"default '\xfe'".to_vec());
        assert_eq!(marked, "default '\u{10fffe}'");
        assert!(has_marks(&marked));
    }

    proptest! {
        #[test]
        fn every_byte_comes_back(given in prop::collection::vec(
            prop_oneof![any::<u8>(), Just(0xf4), Just(0x8f), Just(0xbc), Just(0x80)], 0..40,
        )) {
            prop_assert_eq!(bytes(&text(given.clone())).into_owned(), given);
        }
    }
}
