//! A value with a check is read as its string or refused: one that is cut short never gives its own string,
//! and what is accepted packs to a value that gives the same string again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use urlpack::{Family, Model};

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let file = Model::from_bytes(Family::Url.built_in()).unwrap().relabelled(3, 2).unwrap();
    Model::from_bytes(file).unwrap()
});
const LEN_MAX: usize = 3_000;

fuzz_target!(|bytes: &[u8]| {
    let mut back = Vec::new();
    if MODEL.unpack(bytes, &mut back, LEN_MAX).is_ok() {
        let (mut packed, mut again) = (Vec::new(), Vec::new());
        MODEL.pack(&back, &mut packed);
        MODEL.unpack(&packed, &mut again, LEN_MAX).unwrap();
        assert_eq!(again, back);
    } else {
        assert!(back.is_empty());
    }
    let string = bytes.get(..bytes.len().min(LEN_MAX)).unwrap_or_default();
    let (mut packed, mut same) = (Vec::new(), Vec::new());
    MODEL.pack(string, &mut packed);
    MODEL.unpack(&packed, &mut same, LEN_MAX).unwrap();
    assert_eq!(same, string);
    for end in 0..packed.len() {
        let mut cut = Vec::new();
        let read = MODEL.unpack(&packed[..end], &mut cut, LEN_MAX).is_ok();
        assert!(!read || cut != string, "{end} of {} bytes", packed.len());
    }
});
