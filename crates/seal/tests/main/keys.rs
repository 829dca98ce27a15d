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
    assert_eq!(format!("{:?}", Key::Full(full.clone())), format!("full key {}", full.put().id()));
    assert_eq!(format!("{:?}", Key::Put(full.put())), format!("put key {}", full.put().id()));
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
fn a_file_of_keys_of_another_version_is_no_damage() {
    let key = Key::Full(full());
    assert_eq!(Keyring::open(b"remora-keys 2\n", 1, &key).unwrap_err(), Error::Newer);
    for file in ["remora-key 1 full\n", "something else\n", ""] {
        assert!(matches!(Keyring::open(file.as_bytes(), 1, &key), Err(Error::Damaged(_))), "{file}");
    }
}

#[test]
fn keys_of_a_repository_are_called_after_the_key_that_opens_them() {
    let (first, second) = (full(), full());
    let (old, _) = Keyring::begin(&Key::Full(first.clone())).unwrap();
    let (new, file) = old.rekey(&second).unwrap();
    assert_eq!([old.id(), new.id()], [first.put().id(), second.put().id()]);
    assert_eq!(Keyring::open(&file, 2, &Key::Put(second.put())).unwrap().id(), second.put().id());
    let shown = format!("{new:?}");
    assert!(shown.starts_with("keys of ") && shown.ends_with(" in epoch 2"), "{shown}");
    assert_eq!(shown.len(), "keys of  in epoch 2".len() + 32, "{shown}");
}

#[test]
fn a_hash_stands_for_a_name_in_one_repository() {
    let (first, second) = (full(), full());
    let (old, _) = Keyring::begin(&Key::Full(first.clone())).unwrap();
    let (new, _) = old.rekey(&second).unwrap();
    let (other, _) = Keyring::begin(&Key::Full(first)).unwrap();
    let hash = old.keyed_hash(b"a");
    assert_eq!(hash, new.keyed_hash(b"a"));
    assert!(hash != old.keyed_hash(b"b") && hash != other.keyed_hash(b"a"));
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
