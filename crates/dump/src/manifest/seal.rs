//! The manifest's hash of itself: its last member, over everything before it.

/// The text between the rest and the digits. No string in the rest contains a line break.
const BEFORE: &str = ",\n  \"blake3\": \"";
/// The text after the digits.
const BEHIND: &str = "\"\n}";

/// Appends the hash to an object that `serde_json` has printed with indentation.
pub(super) fn add(mut text: Vec<u8>) -> Vec<u8> {
    if text.ends_with(b"\n}") {
        text.truncate(text.len() - 2);
    }
    let hash = blake3::hash(&text).to_hex();
    text.extend_from_slice(format!("{BEFORE}{hash}{BEHIND}").as_bytes());
    text
}

/// Whether there is a hash.
///
/// # Errors
/// When the hash does not match the text.
pub(super) fn check(text: &[u8]) -> Result<bool, String> {
    let Some(at) = memchr::memmem::rfind(text, BEFORE.as_bytes()) else { return Ok(false) };
    let found = text[at + BEFORE.len()..].trim_ascii_end().strip_suffix(BEHIND.as_bytes());
    if found == Some(blake3::hash(&text[..at]).to_hex().as_bytes()) {
        Ok(true)
    } else {
        Err("the BLAKE3 hash at its end does not match: it was changed or damaged".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_seen() {
        let sealed = add(b"{\n  \"a\": \"bigint(20)\",\n  \"b\": [\n    1\n  ]\n}".to_vec());
        assert_eq!(check(&sealed), Ok(true));
        assert_eq!(check(&[&sealed[..], b"\n"].concat()), Ok(true));
        assert!(serde_json::from_slice::<serde_json::Value>(&sealed).unwrap()["blake3"].is_string());
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone();
            bytes[at] ^= 1;
            assert_ne!(check(&bytes), Ok(true), "byte {at}");
        }
        assert_eq!(check(b"{\n  \"a\": 1\n}"), Ok(false));
    }
}
