//! The keys that people keep, and their files.

use std::fmt::Write as _;

use crate::Error;
use crate::crypto::{Bytes32, derive, public, random};

const FULL: &str = "remora-key 1 full";
const PUT: &str = "remora-key 1 put";

/// A key of either kind.
#[derive(Clone, PartialEq, Eq)]
pub enum Key {
    /// The full key, which reads everything.
    Full(FullKey),
    /// The put key, which adds backups.
    Put(PutKey),
}

/// The key that reads everything that was sealed for it.
#[derive(Clone, PartialEq, Eq)]
pub struct FullKey {
    secret: Bytes32,
}

/// The key of a host that adds backups: it unwraps the meta keys, and has the public half of the full key.
#[derive(Clone, PartialEq, Eq)]
pub struct PutKey {
    pub(crate) root: Bytes32,
    pub(crate) public: Bytes32,
}

impl FullKey {
    /// A new key.
    ///
    /// # Errors
    /// [`Error::NoRandom`].
    pub fn generate() -> Result<FullKey, Error> {
        Ok(FullKey { secret: random()? })
    }

    /// The key for hosts that only add backups.
    #[must_use]
    pub fn put(&self) -> PutKey {
        PutKey { root: derive(&self.secret, &[], &[b"remora 1 meta root"]), public: public(&self.secret) }
    }

    pub(crate) fn secret(&self) -> &Bytes32 {
        &self.secret
    }

    pub(crate) fn from_secret(secret: Bytes32) -> FullKey {
        FullKey { secret }
    }
}

impl PutKey {
    /// The ID of the full key that it was made from.
    #[must_use]
    pub fn id(&self) -> String {
        let hash = blake3::hash(&self.public);
        to_hex(hash.as_bytes().first_chunk::<8>().unwrap_or(&[0; 8]))
    }
}

impl Key {
    /// The put key that both kinds contain.
    #[must_use]
    pub fn put(&self) -> PutKey {
        match self {
            Key::Full(full) => full.put(),
            Key::Put(put) => put.clone(),
        }
    }

    /// The secret that opens blocks, if it is a full key.
    pub(crate) fn secret(&self) -> Option<&Bytes32> {
        match self {
            Key::Full(full) => Some(full.secret()),
            Key::Put(_) => None,
        }
    }

    /// The key's ID: 16 letters. A put key has that of its full key.
    #[must_use]
    pub fn id(&self) -> String {
        self.put().id()
    }

    /// The text of the key's file.
    #[must_use]
    pub fn text(&self) -> String {
        let id = self.id();
        match self {
            Key::Full(full) => format!(
                "# The full key {id} of remora. Who has it reads every backup that was made for it, and\n\
                 # without it nobody does. Keep copies in several places, none of them with the backups.\n\
                 {FULL}\nsecret {}\n",
                to_hex(&full.secret)
            ),
            Key::Put(put) => format!(
                "# A put key of remora, made from the full key {id}. Who has it can add backups to a repository\n\
                 # and see which blocks changed and when, but read no row and no file name.\n\
                 {PUT}\nmeta {}\npublic {}\n",
                to_hex(&put.root),
                to_hex(&put.public)
            ),
        }
    }

    /// Parses a key file. Empty lines, and lines that begin with #, are ignored.
    ///
    /// # Errors
    /// [`Error::NotAKey`], with the line.
    pub fn parse(text: &str) -> Result<Key, Error> {
        let mut lines = text
            .lines()
            .zip(1..)
            .map(|(text, line)| (text.trim(), line))
            .filter(|(text, _)| !text.is_empty() && !text.starts_with('#'));
        let (kind, line) = lines.next().unwrap_or(("", 1));
        let mut last = line;
        let mut field = |name: &'static str, what: &'static str| {
            let (text, line) = lines.next().unwrap_or(("", last + 1));
            last = line;
            let value = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
            let bytes =
                value.and_then(|value| from_hex(value.trim())).and_then(|bytes| bytes.try_into().ok());
            bytes.ok_or(Error::NotAKey { line, what })
        };
        let key = match kind {
            FULL => Key::Full(FullKey { secret: field("secret", "not 'secret' and 64 hexadecimal digits")? }),
            PUT => Key::Put(PutKey {
                root: field("meta", "not 'meta' and 64 hexadecimal digits")?,
                public: field("public", "not 'public' and 64 hexadecimal digits")?,
            }),
            kind if kind.starts_with("remora-key ") => {
                let what = "unknown kind of key";
                return Err(Error::NotAKey { line, what });
            }
            _ => return Err(Error::NotAKey { line, what: "not a remora key: 'remora key new' creates one" }),
        };
        match lines.next() {
            Some((_, line)) => Err(Error::NotAKey { line, what: "unexpected text after the key" }),
            None => Ok(key),
        }
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// The bytes that hexadecimal digits stand for.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes =
        pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect::<Option<_>>()?;
    rest.is_empty().then_some(bytes)
}

/// Secrets are not shown.
impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Key::Full(_) => "full",
            Key::Put(_) => "put",
        };
        write!(formatter, "{kind} key {}", self.id())
    }
}
