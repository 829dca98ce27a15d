//! Packed values of any two strings compare as the strings do, and lie in the ranges of the prefixes they
//! have.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use urlpack::{Family, Model};

static MODEL: LazyLock<Model> = LazyLock::new(|| Model::from_bytes(Family::Url.built_in()).unwrap());

fn packed(string: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    MODEL.pack(string, &mut value);
    value
}

fuzz_target!(|strings: (&[u8], &[u8])| {
    let (one, other) = strings;
    assert_eq!(packed(one).cmp(&packed(other)), one.cmp(other));
    let (mut min, mut max) = (Vec::new(), Vec::new());
    MODEL.prefix_min(other, &mut min);
    MODEL.prefix_max(other, &mut max);
    let value = packed(one);
    assert_eq!(min <= value && value < max, one.starts_with(other));
    assert_ne!(value, max);
});
