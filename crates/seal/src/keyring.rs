//! The keys of a repository, and the file that wraps them for a key that somebody keeps.
//!
//! Each epoch has a meta key of its own, and seals blocks for one full key. The first epoch begins with the
//! repository, and another one with each rekeying: old data stay as they are, and the holder of the new key
//! gets the old secrets from this file.

use crate::Error;
use crate::crypto::{Bytes32, Cipher, derive, open_from, random, seal_to};
use crate::key::{FullKey, Key, from_hex, to_hex};

const MAGIC: &str = "remora-keys 1";
const META: &[u8] = b"remora 1 wrapped meta keys";
const DATA: &[u8] = b"remora 1 wrapped data keys";
const NAMES: &[u8] = b"remora 1 names";
/// Limit for the number of epochs.
const EPOCHS_MAX: u32 = 10_000;

/// The keys of a repository, as far as the key that opened them gives access.
#[derive(Clone, PartialEq, Eq)]
pub struct Keyring {
    /// A random ID of this repository.
    pub(crate) repository: [u8; 16],
    /// From the first one on.
    epochs: Vec<Epoch>,
    /// The ID of the key that it was opened with.
    id: String,
}

/// The keys of an epoch.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) meta: Bytes32,
    /// The public key that blocks are sealed for.
    pub(crate) public: Bytes32,
    /// The secret half, if the full key is there.
    pub(crate) secret: Option<Bytes32>,
}

impl Keyring {
    /// The keys of a new repository, and its first key file.
    ///
    /// # Errors
    /// [`Error::NoRandom`].
    pub fn begin(key: &Key) -> Result<(Keyring, Vec<u8>), Error> {
        let (put, secret) = (key.put(), key.secret().copied());
        let first = Epoch { meta: random()?, public: put.public, secret };
        let keyring = Keyring { repository: random()?, epochs: vec![first], id: put.id() };
        let file = keyring.wrap(key, &[])?;
        Ok((keyring, file))
    }

    /// The same keys with a new epoch for another key, and the next key file.
    ///
    /// # Errors
    /// [`Error::NeedsFull`] if this was opened with a put key; [`Error::NoRandom`].
    pub fn rekey(&self, key: &FullKey) -> Result<(Keyring, Vec<u8>), Error> {
        let old: Option<Vec<Bytes32>> = self.epochs.iter().map(|epoch| epoch.secret).collect();
        let old = old.ok_or_else(|| Error::NeedsFull(self.id.clone()))?;
        let key = Key::Full(key.clone());
        let put = key.put();
        let mut keyring = Keyring { id: put.id(), ..self.clone() };
        keyring.epochs.push(Epoch { meta: random()?, public: put.public, secret: key.secret().copied() });
        let file = keyring.wrap(&key, &old)?;
        Ok((keyring, file))
    }

    /// The number of the key file, from 1 on.
    #[must_use]
    pub fn number(&self) -> u32 {
        u32::try_from(self.epochs.len()).unwrap_or(u32::MAX)
    }

    /// The id of the key that opens it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether blocks can be opened, and not only sealed.
    #[must_use]
    pub fn reads_data(&self) -> bool {
        self.epochs.iter().all(|epoch| epoch.secret.is_some())
    }

    /// A keyed hash that stands for a name which must not be visible; the same in all epochs.
    #[must_use]
    pub fn keyed_hash(&self, name: &[u8]) -> [u8; 16] {
        let secret = self.epoch(1).map(|epoch| epoch.meta).unwrap_or_default();
        let hash = blake3::keyed_hash(&derive(&secret, &self.repository, &[NAMES]), name);
        *hash.as_bytes().first_chunk().unwrap_or(&[0; 16])
    }

    /// The epoch of this number, from 1 on.
    pub(crate) fn epoch(&self, number: u32) -> Option<&Epoch> {
        self.epochs.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// The file for a key: the plain fields, then the secrets of former epochs, then the meta keys. The last
    /// part also authenticates everything before it.
    fn wrap(&self, key: &Key, old: &[Bytes32]) -> Result<Vec<u8>, Error> {
        let put = key.put();
        let mut text = format!(
            "{MAGIC}\nrepository {}\nepoch {}\nfor {}\n",
            to_hex(&self.repository),
            self.number(),
            put.id()
        );
        let data = seal_to(&put.public, DATA, text.as_bytes(), &old.concat())?;
        text.push_str(&format!("data {}\n", to_hex(&data)));
        let salt: Bytes32 = random()?;
        let mut meta = salt.to_vec();
        self.epochs.iter().for_each(|epoch| meta.extend_from_slice(&[epoch.meta, epoch.public].concat()));
        let cipher = Cipher::new(&derive(&put.root, &salt, &[META]))?;
        cipher.seal([0; 12], text.as_bytes(), &mut meta, salt.len())?;
        text.push_str(&format!("meta {}\n", to_hex(&meta)));
        Ok(text.into_bytes())
    }

    /// Opens a key file.
    ///
    /// # Errors
    /// [`Error::OtherKey`] if it is for another key; [`Error::Damaged`]; [`Error::Newer`].
    pub fn open(file: &[u8], number: u32, key: &Key) -> Result<Keyring, Error> {
        const DAMAGED: Error = Error::Damaged("the key file is damaged");
        let text = std::str::from_utf8(file).map_err(|_| DAMAGED)?;
        let mut lines = text.lines();
        match lines.next() {
            Some(MAGIC) => {}
            Some(line) if line.starts_with("remora-keys ") => return Err(Error::Newer),
            _ => return Err(DAMAGED),
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let repository = field("repository").and_then(from_hex).and_then(|bytes| bytes.try_into().ok());
        let repository = repository.ok_or(DAMAGED)?;
        let epoch: u32 = field("epoch").and_then(|text| text.parse().ok()).ok_or(DAMAGED)?;
        let wanted = field("for").filter(|id| from_hex(id).is_some_and(|id| id.len() == 8)).ok_or(DAMAGED)?;
        let put = key.put();
        if wanted != put.id() {
            return Err(Error::OtherKey { wanted: wanted.to_owned(), given: put.id() });
        }
        let data = field("data").and_then(from_hex).ok_or(DAMAGED)?;
        let meta = field("meta").and_then(from_hex).ok_or(DAMAGED)?;
        let clear = |line: &str| text.find(line).and_then(|at| text.get(..at + 1)).unwrap_or_default();
        // A file can be written in one way only, so every other form is damaged.
        if text != format!("{}meta {}\n", clear("\nmeta "), to_hex(&meta)) {
            return Err(DAMAGED);
        }
        let (salt, sealed) = meta.split_first_chunk::<32>().ok_or(DAMAGED)?;
        let cipher = Cipher::new(&derive(&put.root, salt, &[META]))?;
        let opened = cipher.open([0; 12], clear("\nmeta ").as_bytes(), sealed.to_vec()).ok_or(DAMAGED)?;
        let (pairs, rest) = opened.as_chunks::<64>();
        if epoch != number || epoch > EPOCHS_MAX || pairs.len() != epoch as usize || !rest.is_empty() {
            return Err(DAMAGED);
        }
        let mut secrets = Vec::new();
        if let Some(own) = key.secret() {
            let about = clear("\ndata ");
            let old = open_from(own, DATA, about.as_bytes(), &data).ok_or(DAMAGED)?;
            let (old, rest) = old.as_chunks::<32>();
            if old.len() + 1 != pairs.len() || !rest.is_empty() {
                return Err(DAMAGED);
            }
            secrets.extend(old.iter().chain([own]).copied());
        }
        let epochs = pairs.iter().enumerate().map(|(at, pair)| {
            let (meta, public) = pair.split_at(32);
            Epoch {
                meta: meta.try_into().unwrap_or_default(),
                public: public.try_into().unwrap_or_default(),
                secret: secrets.get(at).copied(),
            }
        });
        let keyring = Keyring { repository, epochs: epochs.collect(), id: put.id() };
        let fits = |epoch: &Epoch| {
            epoch.secret.is_none_or(|secret| FullKey::from_secret(secret).put().public == epoch.public)
        };
        if !keyring.epochs.iter().all(fits)
            || keyring.epochs.last().is_none_or(|last| last.public != put.public)
        {
            return Err(DAMAGED);
        }
        Ok(keyring)
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "keys of {} in epoch {}", to_hex(&self.repository), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes32, EPOCHS_MAX, Epoch, Error, FullKey, Key, Keyring};

    /// A file for a key, of a repository with these epochs and old secrets.
    fn file(key: &FullKey, epochs: Vec<Epoch>, old: &[Bytes32]) -> (u32, Vec<u8>) {
        let keyring = Keyring { repository: [7; 16], epochs, id: String::new() };
        (keyring.number(), keyring.wrap(&Key::Full(key.clone()), old).unwrap())
    }

    fn of(key: &FullKey) -> Epoch {
        Epoch { meta: [1; 32], public: key.put().public, secret: None }
    }

    /// Who has a put key can wrap any meta keys.
    #[test]
    fn keys_that_do_not_belong_together_are_damaged() {
        let [first, second] = [(); 2].map(|()| FullKey::generate().unwrap());
        let damaged = Err(Error::Damaged("the key file is damaged"));
        let opened = |(number, file): (u32, Vec<u8>), key| Keyring::open(&file, number, &key).map(|_| ());
        let (put, full) = (Key::Put(second.put()), Key::Full(second.clone()));
        assert_eq!(opened(file(&second, vec![of(&first)], &[]), put.clone()), damaged, "of another key");
        let both = || vec![of(&first), of(&second)];
        assert_eq!(opened(file(&second, both(), &[*first.secret()]), full.clone()), Ok(()));
        assert_eq!(opened(file(&second, both(), &[*second.secret()]), full.clone()), damaged, "other secret");
        let twice = || vec![of(&second), of(&second)];
        assert_eq!(opened(file(&second, twice(), &[*second.secret()]), full.clone()), Ok(()));
        assert_eq!(opened(file(&second, twice(), &[]), full), damaged, "a secret too few");
    }

    #[test]
    fn a_repository_has_ten_thousand_keys_at_most() {
        let key = FullKey::generate().unwrap();
        let opened = |count: u32| {
            let epochs = vec![of(&key); usize::try_from(count).unwrap()];
            let (number, file) = file(&key, epochs, &[]);
            Keyring::open(&file, number, &Key::Put(key.put())).map(|keyring| keyring.number())
        };
        assert_eq!(opened(EPOCHS_MAX), Ok(EPOCHS_MAX));
        assert_eq!(opened(EPOCHS_MAX + 1), Err(Error::Damaged("the key file is damaged")));
    }
}
