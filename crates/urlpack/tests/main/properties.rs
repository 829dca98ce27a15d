//! Properties that hold for any strings, any prefix, any bytes.

use proptest::prelude::*;
use urlpack::{Error, Model};

use crate::model::{models, urls};

fn pack(model: &Model, string: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    model.pack(string, &mut packed);
    packed
}

/// Strings close to those that the models know: pieces of URLs with bytes changed, doubled or cut off; or any
/// bytes.
fn string() -> impl Strategy<Value = Vec<u8>> {
    let urls = urls();
    let near = (0..urls.len(), any::<usize>(), proptest::collection::vec(any::<u8>(), 0..4), any::<bool>());
    let near = near.prop_map(move |(index, cut, tail, whole)| {
        let url = &urls[index];
        let mut string = url[..cut % (url.len() + 1)].to_vec();
        string.extend(tail);
        if whole {
            string.extend_from_slice(&url[cut % (url.len() + 1)..]);
        }
        string
    });
    prop_oneof![4 => near, 1 => proptest::collection::vec(any::<u8>(), 0..40), 1 => proptest::collection::vec(prop_oneof![Just(0u8), Just(255u8)], 0..20)]
}

fn in_range(model: &Model, prefix: &[u8], string: &[u8]) -> bool {
    let (mut min, mut max) = (Vec::new(), Vec::new());
    model.prefix_min(prefix, &mut min);
    model.prefix_max(prefix, &mut max);
    let packed = pack(model, string);
    assert_ne!(packed, max, "the upper bound is of no string");
    min <= packed && packed <= max
}

proptest! {
    #[test]
    fn strings_come_back(string in string()) {
        for model in models() {
            let mut back = b"kept".to_vec();
            let packed = pack(model, &string);
            model.unpack(&packed, &mut back, string.len()).unwrap();
            prop_assert_eq!(&back[4..], &string[..]);
            prop_assert!(packed.last() != Some(&0), "a trailing zero is lost where SQL pads or trims");
        }
    }

    #[test]
    fn order_is_kept(a in string(), b in string()) {
        for model in models() {
            prop_assert_eq!(pack(model, &a).cmp(&pack(model, &b)), a.cmp(&b));
        }
    }

    #[test]
    fn prefixes_are_ranges(prefix in string(), string in string(), cut in any::<usize>()) {
        for model in models() {
            prop_assert_eq!(in_range(model, &prefix, &string), string.starts_with(&prefix));
            prop_assert!(in_range(model, &string[..cut % (string.len() + 1)], &string));
        }
    }

    #[test]
    fn prefix_of_neighbours(string in string(), cut in any::<usize>(), change in 1u8..) {
        let mut prefix = string[..cut % (string.len() + 1)].to_vec();
        prop_assume!(!prefix.is_empty());
        *prefix.last_mut().unwrap() = prefix[prefix.len() - 1].wrapping_add(change);
        for model in models() {
            prop_assert!(!in_range(model, &prefix, &string));
        }
    }

    #[test]
    fn any_bytes_unpack_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60), max_len in 0usize..200) {
        for model in models() {
            let mut back = vec![7];
            match model.unpack(&bytes, &mut back, max_len) {
                Ok(()) => prop_assert!(back.len() <= max_len + 1),
                Err(_) => prop_assert_eq!(&back, &[7]),
            }
        }
    }

    #[test]
    fn batch_is_one_by_one(values in proptest::collection::vec(prop_oneof![string().prop_map(Ok), string().prop_map(Err)], 0..40)) {
        for model in models() {
            // Packed values stand among bytes that are no values.
            let packed: Vec<Vec<u8>> =
                values.iter().map(|value| match value { Ok(string) => pack(model, string), Err(bytes) => bytes.clone() }).collect();
            let mut seen = vec![0; packed.len()];
            model.unpack_batch(&packed, 30, |index, outcome| {
                let mut back = Vec::new();
                let one = model.unpack(&packed[index], &mut back, 30).map(|()| back.as_slice());
                assert_eq!(outcome, one);
                seen[index] += 1;
            });
            prop_assert!(seen.iter().all(|&times| times == 1));
        }
    }
}

#[test]
fn long_strings_come_back() {
    for model in models() {
        for pattern in [&b"\0"[..], b"\xff", b"http://www.example.com/", b"%E6%97%a5", b"\x80\x00q"] {
            let string: Vec<u8> = pattern.iter().copied().cycle().take(64 << 10).collect();
            let packed = pack(model, &string);
            let mut back = Vec::new();
            model.unpack(&packed, &mut back, 64 << 10).unwrap();
            assert!(back == string);
            back.clear();
            assert_eq!(
                model.unpack(&packed, &mut back, (64 << 10) - 1),
                Err(Error::TooLong { max_len: (64 << 10) - 1 })
            );
            assert!(back.is_empty());
            // More values than fit in a batch, so that others follow a long one in its place.
            let strings = [&string[..1_000], pattern, &string[..500]];
            let packed: Vec<Vec<u8>> =
                strings.iter().cycle().take(40).map(|string| pack(model, string)).collect();
            model.unpack_batch(&packed, 1_000, |at, outcome| assert!(outcome == Ok(strings[at % 3])));
        }
    }
}

#[test]
fn empty_prefix_holds_everything_and_has_an_end() {
    for model in models() {
        let (mut min, mut max) = (Vec::new(), Vec::new());
        model.prefix_min(b"", &mut min);
        model.prefix_max(b"", &mut max);
        assert!(min <= pack(model, b"") && pack(model, &[0xff; 300]) < max);
        model.prefix_max(&[0xff; 300], &mut max);
        assert!(!max.is_empty());
    }
}

#[test]
fn bytes_behind_a_value_are_refused() {
    let model = &models()[0];
    let mut packed = pack(model, b"http://www.example.com/");
    packed.extend_from_slice(&[0; 20]);
    assert!(matches!(model.unpack(&packed, &mut Vec::new(), 100), Err(Error::Corrupt { .. })));
    assert!(matches!(model.unpack(&[0xff], &mut Vec::new(), 100), Err(Error::Corrupt { .. })));
}
