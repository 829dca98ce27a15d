//! Data, sealed towards a full key.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seal::{BlockSealer, DATA_OVERHEAD, Error, FullKey, Key, Keyring};

fn vaults() -> (BlockSealer, BlockSealer) {
    let full = FullKey::generate().unwrap();
    let (_, file) = Keyring::begin(&Key::Full(full.clone())).unwrap();
    let open = |key| BlockSealer::new(Keyring::open(&file, 1, &key).unwrap()).unwrap();
    (open(Key::Full(full.clone())), open(Key::Put(full.put())))
}

proptest! {
    #[test]
    fn a_full_key_opens_data_that_a_put_key_sealed(before in 0_usize..3, plain: Vec<u8>) {
        let (full, put) = vaults();
        let mut bytes = vec![9; before];
        bytes.extend_from_slice(&plain);
        put.seal(&mut bytes, before).unwrap();
        prop_assert_eq!(bytes.len(), before + plain.len() + DATA_OVERHEAD);
        prop_assert_eq!(full.open(&bytes[before..]).unwrap(), plain);
        prop_assert!(matches!(put.open(&bytes[before..]), Err(Error::NeedsFull(_))));
    }

    #[test]
    fn any_bytes_are_opened_or_refused(bytes: Vec<u8>) {
        prop_assert!(vaults().0.open(&bytes).is_err());
    }
}

#[test]
fn every_changed_byte_is_detected() {
    let (full, put) = vaults();
    let mut sealed = b"some rows".to_vec();
    put.seal(&mut sealed, 0).unwrap();
    for at in 0..sealed.len() {
        let mut bad = sealed.clone();
        bad[at] ^= 0x80;
        assert!(full.open(&bad).is_err(), "byte {at}");
    }
    assert!(vaults().0.open(&sealed).is_err(), "of another repository");
}

#[test]
fn data_of_one_repository_are_not_those_of_another_with_the_same_key() {
    let key = Key::Full(FullKey::generate().unwrap());
    let [one, other] = [0, 1].map(|_| BlockSealer::new(Keyring::begin(&key).unwrap().0).unwrap());
    let mut sealed = b"some rows".to_vec();
    one.seal(&mut sealed, 0).unwrap();
    assert_eq!(one.open(&sealed).unwrap(), b"some rows");
    assert!(other.open(&sealed).is_err());
}

/// What makes a nonce: who sealed (its 32 bytes) and the number of the call.
fn place(sealed: &[u8]) -> Vec<u8> {
    sealed[4..44].to_vec()
}

#[test]
fn nonce_never_twice() {
    let full = FullKey::generate().unwrap();
    let (keyring, _) = Keyring::begin(&Key::Full(full)).unwrap();
    let mut places = BTreeSet::new();
    // As if a program were started again and again, each with threads.
    for _ in 0..20 {
        let sealer = BlockSealer::new(keyring.clone()).unwrap();
        let all: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let work = || {
                let sealed = || {
                    let mut bytes = b"the same".to_vec();
                    sealer.seal(&mut bytes, 0).unwrap();
                    bytes
                };
                (0..200).map(|_| sealed()).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        places.extend(all.iter().map(|sealed| place(sealed)));
    }
    assert_eq!(places.len(), 20 * 4 * 200);
}
