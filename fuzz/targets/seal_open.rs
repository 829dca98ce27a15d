//! Any bytes as a key, as a key file, as a sealed file and as sealed data are refused, or are what was
//! sealed; damage anywhere is told.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use seal::{BlockSealer, HEADER_BYTES, Key, Keyring, STORED_SEGMENT_BYTES, SealedReader, SealedWriter};

/// A key that is the same in every run.
const KEY: &str =
    "remora-key 1 full\nsecret 0101010101010101010101010101010101010101010101010101010101010101\n";

fn keys() -> &'static (Key, Keyring, Vec<u8>, BlockSealer) {
    static KEYS: OnceLock<(Key, Keyring, Vec<u8>, BlockSealer)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let key = Key::parse(KEY).expect("a key");
        let (keyring, file) = Keyring::begin(&key).expect("random bytes");
        let sealer = BlockSealer::new(keyring.clone()).expect("random bytes");
        (key, keyring, file, sealer)
    })
}

fn open(keyring: &Keyring, file: &[u8], is_finished: bool) -> Option<Vec<u8>> {
    let header = file.first_chunk::<HEADER_BYTES>()?;
    let opening = SealedReader::new(keyring, "name", header, file.len() as u64, is_finished).ok()?;
    let mut out = Vec::new();
    for (number, stored) in (0..).zip(file.get(HEADER_BYTES..)?.chunks(STORED_SEGMENT_BYTES)) {
        out.extend_from_slice(&opening.segment(number, stored.to_vec()).ok()?);
    }
    assert_eq!(out.len() as u64, opening.len());
    Some(out)
}

fuzz_target!(|input: (Vec<u8>, Vec<u8>, usize, u8)| {
    let (bytes, plain, at, mask) = input;
    let (key, keyring, keys_file, sealer) = keys();
    if let Ok(text) = std::str::from_utf8(&bytes)
        && let Ok(parsed) = Key::parse(text)
    {
        assert_eq!(Key::parse(&parsed.text()), Ok(parsed));
    }
    assert!(Keyring::open(&bytes, 1, key).is_err());
    assert!(sealer.open(&bytes).is_err());
    assert!(
        open(keyring, &bytes, true).is_none()
            && open(keyring, &bytes, false).is_none_or(|out| out.is_empty())
    );

    let (mut sealing, mut file) = SealedWriter::begin(keyring, "name").expect("random bytes");
    sealing.push(&plain, &mut file).expect("sealed");
    sealing.finish(&mut file).expect("sealed");
    assert_eq!(open(keyring, &file, true).as_ref(), Some(&plain));
    let mut sealed = plain.clone();
    sealer.seal(&mut sealed, 0).expect("sealed");
    assert_eq!(sealer.open(&sealed).as_ref(), Ok(&plain));
    if mask == 0 {
        return;
    }
    for (bytes, is_refused) in [
        (&mut file, &(|bytes: &[u8]| open(keyring, bytes, true).is_none()) as &dyn Fn(&[u8]) -> bool),
        (&mut sealed, &|bytes| sealer.open(bytes).is_err()),
        (&mut keys_file.clone(), &|bytes| Keyring::open(bytes, 1, key).is_err()),
    ] {
        let at = at % bytes.len();
        bytes[at] ^= mask;
        assert!(is_refused(bytes), "byte {at}");
    }
});
