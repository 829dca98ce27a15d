//! Blocks, sealed for a full key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::crypto::{Bytes32, Cipher, TAG, receive_key, send_key};
use crate::{Error, Keyring};

/// Bytes that sealing adds to data.
pub const DATA_OVERHEAD: usize = PREFIX_BYTES + TAG;
/// The epoch (4), the ephemeral public key (32), the number (8).
const PREFIX_BYTES: usize = 44;
const PURPOSE: &[u8] = b"remora 1 data";

/// Seals and opens a repository's blocks. Several threads use it.
pub struct BlockSealer {
    keyring: Keyring,
    /// The epoch that blocks are sealed in.
    epoch: u32,
    /// A key of this sealer alone: it was created with it, and is dropped with it.
    cipher: Cipher,
    sent: Bytes32,
    /// How often that key was used.
    used: AtomicU64,
    /// Keys of other sealers, by epoch and ephemeral public key.
    known: Mutex<BTreeMap<(u32, Bytes32), Arc<Cipher>>>,
}

impl BlockSealer {
    /// Creates a key of its own to seal with.
    ///
    /// # Errors
    /// [`Error::NoRandom`].
    pub fn new(keyring: Keyring) -> Result<BlockSealer, Error> {
        let epoch = keyring.number();
        let public = keyring.epoch(epoch).map(|epoch| epoch.public).ok_or(Error::Damaged("no keys"))?;
        let (key, sent) = send_key(&public, PURPOSE)?;
        let cipher = Cipher::new(&key)?;
        Ok(BlockSealer { keyring, epoch, cipher, sent, used: AtomicU64::new(0), known: Mutex::default() })
    }

    /// The repository's keys.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Seals what is in `bytes` from `start` on; it becomes longer by [`DATA_OVERHEAD`].
    ///
    /// # Errors
    /// If it is much too long.
    pub fn seal(&self, bytes: &mut Vec<u8>, start: usize) -> Result<(), Error> {
        // Each number is used once, whichever thread asks, and the key ends with this sealer.
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        let mut prefix = [0; PREFIX_BYTES];
        let (epoch, rest) = prefix.split_at_mut(4);
        let (sent, count) = rest.split_at_mut(32);
        epoch.copy_from_slice(&self.epoch.to_le_bytes());
        sent.copy_from_slice(&self.sent);
        count.copy_from_slice(&number.to_le_bytes());
        let at = start.min(bytes.len());
        bytes.splice(at..at, prefix);
        self.cipher.seal(nonce(number), &self.context(self.epoch), bytes, at + PREFIX_BYTES)
    }

    /// Opens what a sealer of this repository has sealed.
    ///
    /// # Errors
    /// [`Error::NeedsFull`] with a put key; [`Error::Damaged`].
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        const DAMAGED: Error = Error::Damaged("sealed data that can't be decrypted");
        let (epoch, rest) = sealed.split_first_chunk::<4>().ok_or(DAMAGED)?;
        let (sent, rest) = rest.split_first_chunk::<32>().ok_or(DAMAGED)?;
        let (number, rest) = rest.split_first_chunk::<8>().ok_or(DAMAGED)?;
        let epoch = u32::from_le_bytes(*epoch);
        let cipher = self.cipher_of(epoch, sent)?;
        let opened = cipher.open(nonce(u64::from_le_bytes(*number)), &self.context(epoch), rest.to_vec());
        opened.ok_or(DAMAGED)
    }

    /// The key of the sealer with this epoch and ephemeral public key.
    fn cipher_of(&self, number: u32, sent: &Bytes32) -> Result<Arc<Cipher>, Error> {
        const DAMAGED: Error = Error::Damaged("data sealed for a key that is not this repository's");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cipher) = known.get(&(number, *sent)) {
            return Ok(Arc::clone(cipher));
        }
        let epoch = self.keyring.epoch(number).ok_or(DAMAGED)?;
        let secret = epoch.secret.ok_or_else(|| Error::NeedsFull(self.keyring.id().to_owned()))?;
        let key = receive_key(&secret, sent, PURPOSE).ok_or(DAMAGED)?;
        let cipher = Arc::new(Cipher::new(&key)?);
        known.insert((number, *sent), Arc::clone(&cipher));
        Ok(cipher)
    }

    /// Authenticated with the blocks, without being stored. Their location is not part of it: a prune moves
    /// blocks.
    fn context(&self, epoch: u32) -> [u8; 20] {
        let mut context = [0; 20];
        context[..16].copy_from_slice(&self.keyring.repository);
        context[16..].copy_from_slice(&epoch.to_le_bytes());
        context
    }
}

fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce
}
