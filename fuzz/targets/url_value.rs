//! Any bytes unpack to a string of at most the stated length, or are refused; alone and in a batch alike.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use urlpack::{Family, Model};

static MODEL: LazyLock<Model> = LazyLock::new(|| Model::from_bytes(Family::Url.built_in()).unwrap());
const LEN_MAX: usize = 3_000;

fuzz_target!(|bytes: &[u8]| {
    let mut alone = b"kept".to_vec();
    let outcome = MODEL.unpack(bytes, &mut alone, LEN_MAX);
    assert!(alone.starts_with(b"kept") && alone.len() <= LEN_MAX + 4);
    if outcome.is_err() {
        assert_eq!(alone, b"kept");
    } else {
        let mut packed = Vec::new();
        MODEL.pack(&alone[4..], &mut packed);
        let mut again = Vec::new();
        MODEL.unpack(&packed, &mut again, LEN_MAX).unwrap();
        assert_eq!(again, alone[4..]);
    }
    let parts: Vec<&[u8]> = bytes.chunks(7).collect();
    let mut seen = vec![false; parts.len()];
    MODEL.unpack_batch(&parts, LEN_MAX, |index, string| {
        assert!(!std::mem::replace(&mut seen[index], true));
        let mut single = Vec::new();
        let expected = MODEL.unpack(parts[index], &mut single, LEN_MAX);
        match string {
            Ok(string) => assert!(expected.is_ok() && string == single),
            Err(error) => assert_eq!(expected.unwrap_err(), error),
        }
    });
    assert!(seen.iter().all(|seen| *seen));
});
