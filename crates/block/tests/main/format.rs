//! Bytes to values and back.

use block::format::{BlockLocation, Change, Group, Header, IndexEntry, Method, Record, Trailer, record_len};
use proptest::prelude::{Just, Strategy, any, prop, proptest};
use proptest::{prop_assert_eq, prop_oneof};

fn method() -> impl Strategy<Value = Method> {
    prop_oneof![Just(Method::Raw), Just(Method::Zstd)]
}

fn group() -> impl Strategy<Value = Group> {
    (1u64..9, 0u64..1 << 40, 1u32..16384, method(), 1u8..=16, any::<[u8; 16]>()).prop_map(
        |(file, offset, stored, method, blocks, sum)| {
            let stored = if method == Method::Raw { u32::from(blocks) * 16384 } else { stored };
            Group { file, offset, stored, method, blocks, sum }
        },
    )
}

fn place() -> impl Strategy<Value = BlockLocation> {
    let hash = prop::array::uniform16(1u8..);
    let delta = (group(), any::<u8>());
    (hash, group(), any::<u8>(), prop::option::of(delta)).prop_map(|(hash, group, slot, base)| match base {
        None => BlockLocation { hash, slot: slot % group.blocks, group, base: None },
        Some((base, slot)) => {
            let own = Group { method: Method::Delta, blocks: 1, stored: 77, ..group };
            // Another offset, so that it is another group.
            let base = Group { offset: base.offset + (1 << 41), ..base };
            BlockLocation { hash, group: own, slot: 0, base: Some((base, slot % base.blocks)) }
        }
    })
}

fn record() -> impl Strategy<Value = Record> {
    let changes = prop::collection::btree_map(any::<u8>(), prop::option::of(place()), 1..40);
    (any::<u64>(), any::<[u8; 16]>(), changes).prop_map(|(chunk, content, changes)| Record {
        chunk,
        content,
        changes: distinct(changes.into_iter().collect()),
    })
}

/// Two different groups never have the same place.
fn distinct(mut changes: Vec<Change>) -> Vec<Change> {
    for (number, (_, place)) in (0u64..).zip(changes.iter_mut()) {
        if let Some(place) = place {
            place.group.offset = place.group.offset << 8 | number;
            if let Some((base, _)) = &mut place.base {
                base.offset = base.offset << 8 | number;
            }
        }
    }
    changes
}

proptest! {
    #[test]
    fn a_record_comes_back(record in record()) {
        let bytes = record.encode();
        prop_assert_eq!(record_len(&bytes), Ok(bytes.len()));
        prop_assert_eq!(Record::decode(&bytes), Ok(record));
    }

    #[test]
    fn a_damaged_record_is_refused(record in record(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = record.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        assert!(Record::decode(&bytes).is_err());
        assert!(Record::decode(&bytes[..at]).is_err());
    }

    #[test]
    fn a_forged_record_is_a_value_or_an_error(record in record(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = record.encode();
        let end = bytes.len() - 16;
        bytes[at.index(end)] = byte;
        let sum = block::format::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum);
        if let Ok(value) = Record::decode(&bytes) {
            prop_assert_eq!(value.encode(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert_eq!(&header.encode(), &bytes);
        }
        if let Ok(trailer) = Trailer::decode(&bytes) {
            prop_assert_eq!(&trailer.encode_covered(), &bytes[..72]);
        }
        if let Ok(entry) = IndexEntry::decode(&bytes) {
            prop_assert_eq!(&entry.encode(), &bytes);
        }
        assert!(Record::decode(&bytes).is_err());
    }

    #[test]
    fn a_header_comes_back(
        numbers in (1u64..1000, 0u64..1000, any::<u64>(), any::<i64>()),
        parent_content in any::<[u8; 32]>(),
        note in ".{0,80}",
    ) {
        let (generation, parent, len, taken_s) = numbers;
        let parent = parent.min(generation - 1);
        let header = Header { generation, parent, parent_content, len, taken_s, note };
        let bytes = header.encode();
        prop_assert_eq!(Header::total_bytes(&bytes), Ok(bytes.len()));
        prop_assert_eq!(Header::decode(&bytes[..bytes.len()]), Ok(header));
        assert!(Header::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}

/// Bytes with other hashes than a writer gave them say something in one way only.
#[test]
fn a_group_is_listed_once_where_a_block_first_names_it() {
    let group = |offset| Group { file: 1, offset, stored: 9, method: Method::Zstd, blocks: 2, sum: [5; 16] };
    let place = |offset, slot| Some(BlockLocation { hash: [7; 16], group: group(offset), slot, base: None });
    let record = Record { chunk: 3, content: [1; 16], changes: vec![(0, place(10, 0)), (4, place(20, 1))] };
    let whole = record.encode();
    // 40 bytes, and 24 for each of two blocks.
    const GROUPS: usize = 88;
    let forged = |blocks: [u8; 2], groups: &[u8]| {
        let mut bytes = [&whole[..GROUPS], groups].concat();
        let (len, count) = (bytes.len() + 16, groups.len() / 40);
        bytes[4] = u8::try_from(len).unwrap();
        bytes[18] = u8::try_from(count).unwrap();
        (bytes[44], bytes[68]) = (blocks[0], blocks[1]);
        let sum = block::format::hash(&bytes);
        Record::decode(&[&bytes[..], &sum].concat())
    };
    let (one, two) = whole[GROUPS..GROUPS + 80].split_at(40);
    assert_eq!(forged([0, 1], &[one, two].concat()), Ok(record));
    assert!(forged([1, 0], &[two, one].concat()).is_err(), "the second is named first");
    assert!(forged([0, 1], &[one, one].concat()).is_err(), "the same twice");
    assert!(forged([0, 0], &[one, two].concat()).is_err(), "one that no block names");
}

#[test]
fn a_note_that_is_too_long_is_cut_between_characters() {
    let note = "\u{e4}".repeat(40_000);
    let header = Header { generation: 1, parent: 0, parent_content: [0; 32], len: 0, taken_s: 0, note };
    let read = Header::decode(&header.encode()).unwrap();
    assert_eq!(read.note.len(), 65_536);
}
