//! Keys, and encryption of files and blocks: bytes in, bytes out.
//!
//! A [`Key`] is what a person keeps: the full key reads everything, the put key made from it adds backups but
//! can't read rows. A repository has random keys of its own, which a [`Keyring`] wraps for a key. There are
//! two layers. Every file is a stream of sealed segments ([`SealedWriter`], [`SealedReader`]) under the
//! repository's *meta* key, which both keys unwrap: indexes and hashes are readable when a backup is added.
//! In it the blocks themselves are sealed once more, for the full key's public half ([`BlockSealer::seal`]):
//! whoever has sealed them can't open them again.
//!
//! The crate reads no file and no clock. Random bytes come from one place, `crypto::random`.
//! docs/formats/seal.md describes the bytes, docs/decisions/0517-sealed-twice.md gives the reasons.

mod block_sealer;
mod crypto;
mod error;
mod key;
mod keyring;
mod stream;

pub use block_sealer::{BlockSealer, DATA_OVERHEAD};
pub use error::Error;
pub use key::{FullKey, Key, PutKey};
pub use keyring::Keyring;
pub use stream::{
    HEADER_BYTES, SEGMENT_BYTES, STORED_SEGMENT_BYTES, SealedReader, SealedWriter, is_sealed, stored_range,
};
