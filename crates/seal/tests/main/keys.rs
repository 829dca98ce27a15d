//! Files of keys.

use seal::{BlockSealer, Error, FullKey, Key, Keyring};

fn full() -> FullKey {
    FullKey::generate().unwrap()
}

#[test]
fn a_key_is_read_as_it_was_written() {
    let full = full();
    for key in [Key::Full(full.clone()), Key::Put(full.put())] {
        assert_eq!(Key::parse(&key.text()).unwrap(), key);
        assert_eq!(key.id(), full.put().id());
        assert!(!format!("{key:?}").contains(&key.text()[key.text().len() - 20..]), "a secret is shown");
    }
    let put = Key::Put(full.put()).text();
    let secret = Key::Full(full).text();
    let secret = secret.lines().find_map(|line| line.strip_prefix("secret ")).unwrap();
    assert!(!put.contains(secret), "the put key has the full key's secret");
}

#[test]
fn an_invalid_key_file_is_reported_with_its_line() {
    let text = Key::Full(full()).text();
    let cases = [
        ("", 1, "not a remora key"),
        ("# only this\n", 1, "not a remora key"),
        ("remora-key 2 full\n", 1, "unknown kind of key"),
        ("remora-key 1 full\n", 2, "secret"),
        ("remora-key 1 full\n\n# x\nsecret 00\n", 4, "secret"),
        (&format!("{text}secret 00\n"), 5, "unexpected text after the key"),
        (&text.replace("secret ", "secret g"), 4, "secret"),
    ];
    for (text, line, what) in cases {
        match Key::parse(text) {
            Err(Error::NotAKey { line: at, what: found }) => {
                assert!(at == line && found.contains(what), "{text:?}: {at} {found}");
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn a_file_of_keys_opens_for_its_keys_only() {
    let full = full();
    let (_, file) = Keyring::begin(&Key::Put(full.put())).unwrap();
    assert!(Keyring::open(&file, 1, &Key::Full(full.clone())).unwrap().reads_data());
    assert!(!Keyring::open(&file, 1, &Key::Put(full.put())).unwrap().reads_data());
    let other = Key::Full(FullKey::generate().unwrap());
    match Keyring::open(&file, 1, &other) {
        Err(Error::OtherKey { wanted, given }) => assert_eq!((wanted, given), (full.put().id(), other.id())),
        found => panic!("{found:?}"),
    }
    assert!(Keyring::open(&file, 2, &Key::Full(full)).is_err(), "under the name of a later one");
}

#[test]
fn every_changed_byte_of_a_key_file_is_detected() {
    let (first, second) = (full(), full());
    let (keyring, _) = Keyring::begin(&Key::Full(first)).unwrap();
    let (_, later) = keyring.rekey(&second).unwrap();
    let kinds = [Key::Full(second.clone()), Key::Put(second.put())];
    for key in &kinds {
        Keyring::open(&later, 2, key).unwrap();
        for at in 0..later.len() {
            // The second one makes a large letter of a small one.
            for mask in [0x01, 0x20] {
                let mut bad = later.clone();
                bad[at] ^= mask;
                assert!(Keyring::open(&bad, 2, key).is_err(), "byte {at} with {key:?}");
            }
            assert!(Keyring::open(&later[..at], 2, key).is_err(), "cut at {at}");
        }
    }
}

#[test]
fn a_new_key_opens_old_data_and_an_old_key_no_new_data() {
    let (first, second) = (full(), full());
    let (old, file) = Keyring::begin(&Key::Full(first.clone())).unwrap();
    let mut sealed = b"rows".to_vec();
    BlockSealer::new(old.clone()).unwrap().seal(&mut sealed, 0).unwrap();
    let put = Keyring::open(&file, 1, &Key::Put(first.put())).unwrap();
    assert_eq!(put.rekey(&second).unwrap_err(), Error::NeedsFull(first.put().id()));
    let (_, later) = old.rekey(&second).unwrap();
    let anew = BlockSealer::new(Keyring::open(&later, 2, &Key::Full(second)).unwrap()).unwrap();
    assert_eq!(anew.open(&sealed).unwrap(), b"rows");
    let mut new = b"new rows".to_vec();
    anew.seal(&mut new, 0).unwrap();
    assert!(BlockSealer::new(old).unwrap().open(&new).is_err());
}
