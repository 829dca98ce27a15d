//! Each rule of a record and of a header by itself. Its hash is right, so that nothing else refuses it.

use block::BLOCK;
use block::format::{
    self, BlockLocation, Corrupt, Group, Header, IndexEntry, Method, Record, Trailer, ZERO, record_len,
};
use seal::DATA_OVERHEAD;

/// Bytes of a record before its changes, and of a change.
const CHANGES: usize = 40;
const CHANGE: usize = 24;

fn group(method: Method, blocks: u8, stored: usize) -> Group {
    Group { file: 1, offset: 4096, stored: u32::try_from(stored).unwrap(), method, blocks, sum: [5; 16] }
}

fn place(group: Group, slot: u8) -> BlockLocation {
    BlockLocation { hash: [7; 16], group, slot, base: None }
}

fn record(changes: Vec<(u8, Option<BlockLocation>)>) -> Record {
    Record { chunk: 3, content: [1; 16], changes }
}

/// The record with some bytes changed and its hash made again.
fn forged(record: &Record, changes: &[(usize, u8)]) -> Result<Record, Corrupt> {
    let mut bytes = record.encode();
    bytes.truncate(bytes.len() - 16);
    changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
    let sum = format::hash(&bytes);
    Record::decode(&[&bytes[..], &sum].concat())
}

#[track_caller]
fn refused(record: &Record, changes: &[(usize, u8)], what: &str) {
    assert_eq!(forged(record, changes).map_err(|error| error.what), Err(what));
}

#[track_caller]
fn accepted(record: &Record) {
    assert_eq!(forged(record, &[]).as_ref(), Ok(record));
}

#[test]
fn a_group_is_as_large_as_its_blocks() {
    let of = |group: Group| {
        let base = group.method == Method::Delta;
        let base = base.then(|| (Group { offset: 0, ..self::group(Method::Zstd, 1, 9) }, 0));
        record(vec![(0, Some(BlockLocation { base, ..place(group, 0) }))])
    };
    let size = "invalid group size";
    for (method, most) in [(Method::Raw, 16), (Method::Zstd, 16), (Method::Delta, 1)] {
        let raw = |blocks: u8| usize::from(blocks) * BLOCK;
        accepted(&of(group(method, most, raw(most))));
        accepted(&of(group(method, 1, BLOCK + DATA_OVERHEAD)));
        refused(&of(group(method, 0, 0)), &[], size);
        refused(&of(group(method, most + 1, raw(most + 1))), &[], size);
        refused(&of(group(method, 1, BLOCK + DATA_OVERHEAD + 1)), &[], size);
        for stored in [0, 1, BLOCK - 1, BLOCK + 1, BLOCK + DATA_OVERHEAD - 1] {
            let of = of(group(method, 1, stored));
            if method == Method::Raw { refused(&of, &[], size) } else { accepted(&of) }
        }
        let last = u64::MAX - BLOCK as u64;
        accepted(&of(Group { offset: last, ..group(method, 1, BLOCK) }));
        refused(&of(Group { offset: last + 1, ..group(method, 1, BLOCK) }), &[], size);
    }
    let one = of(group(Method::Zstd, 1, 9));
    let group_at = CHANGES + CHANGE;
    refused(&one, &[(group_at + 20, 3)], "a group of unknown kind");
    for at in [group_at + 22, group_at + 23, 20, 23] {
        refused(&one, &[(at, 1)], "a reserved field is set");
    }
}

#[test]
fn a_block_is_zeros_or_in_a_group() {
    let zeros = record(vec![(4, None)]);
    accepted(&zeros);
    for (at, byte) in [(2, 1), (3, 1), (4, 0), (5, 0), (6, 0), (7, 0), (8, 1), (23, 1)] {
        refused(&zeros, &[(CHANGES + at, byte)], "a block of zeros with content");
    }
    let one = record(vec![(4, Some(place(group(Method::Zstd, 3, 9), 2)))]);
    accepted(&one);
    refused(&one, &[(CHANGES + 2, 3)], "a block without a group");
    refused(&one, &[(CHANGES + 4, 1)], "a block without a group");
    refused(&one, &[(CHANGES + 1, 2)], "a block of unknown kind");
    refused(&one, &[(CHANGES + 1, 3)], "a block of unknown kind");
    refused(&one, &[(CHANGES + 3, 1)], "a block of unknown kind");
    refused(&one, &[(CHANGES + 6, 0), (CHANGES + 7, 0)], "a block of unknown kind");
    let hashless =
        record(vec![(4, Some(BlockLocation { hash: ZERO, ..place(group(Method::Raw, 1, BLOCK), 0) }))]);
    refused(&hashless, &[], "a block without a hash");
}

#[test]
fn a_delta_has_a_base_that_is_none() {
    let base = Group { offset: 0, ..group(Method::Zstd, 4, 9) };
    let delta =
        |base, slot| BlockLocation { base: Some((base, slot)), ..place(group(Method::Delta, 1, 77), 0) };
    let one = record(vec![(9, Some(delta(base, 3)))]);
    accepted(&one);
    refused(&one, &[(CHANGES + 1, 1)], "a block of unknown kind");
    refused(&one, &[(CHANGES + 3, 4)], "a delta without a base");
    refused(&one, &[(CHANGES + 6, 9)], "a delta without a base");
    let of_delta = record(vec![(9, Some(delta(Group { method: Method::Delta, blocks: 1, ..base }, 0)))]);
    refused(&of_delta, &[], "a delta without a base");
}

#[test]
fn blocks_are_in_order_and_a_chunk_without_any_is_zeros() {
    let two = record(vec![(4, None), (5, None)]);
    accepted(&two);
    for second in [4, 3, 0] {
        refused(&two, &[(CHANGES + CHANGE, second)], "blocks out of order");
    }
    accepted(&Record { content: ZERO, ..record(Vec::new()) });
    refused(&record(Vec::new()), &[], "a chunk of zeros with a content hash");
}

#[test]
fn a_record_says_how_long_it_is() {
    let head = |len: u32| [&b"chnk"[..], &len.to_le_bytes()].concat();
    // 256 blocks with a delta and a base each.
    let most = 40 + 256 * (24 + 2 * 40) + 16;
    for (len, is_possible) in [(0, false), (55, false), (56, true), (most, true), (most + 1, false)] {
        assert_eq!(record_len(&head(len)).ok(), is_possible.then_some(len as usize), "{len}");
    }
    assert_eq!(record_len(&head(56)[..7]).unwrap_err().what, "truncated");
    assert_eq!(record_len(b"chnl\x38\0\0\0").unwrap_err().what, "no record begins here");
    let two = record(vec![(4, None), (5, None)]);
    refused(&two, &[(4, 200)], "a record whose length does not match");
    refused(&two, &[(16, 3)], "truncated");
    refused(&two, &[(16, 1)], "too long");
}

#[test]
fn a_header_has_a_number_above_its_parent_s() {
    let of = |generation, parent| {
        let note = "note".to_owned();
        Header { generation, parent, parent_content: [9; 32], len: 77, taken_s: -5, note }
    };
    for (generation, parent, is_right) in [
        (1, 0, true),
        (0, 0, false),
        (7, 6, true),
        (7, 7, false),
        (7, 8, false),
        (format::NUMBER_MAX, 6, true),
        (format::NUMBER_MAX + 1, 6, false),
    ] {
        let bytes = of(generation, parent).encode();
        let decoded = Header::decode(&bytes);
        assert_eq!(decoded.is_ok(), is_right, "{generation} {parent}");
        if !is_right {
            assert_eq!(decoded.unwrap_err().what, "generations out of order");
        }
        // What can be told of a header that is damaged elsewhere.
        let fixed = Header::decode_fixed(&bytes);
        assert_eq!(fixed.is_some(), is_right, "{generation} {parent}");
        if let Some(fixed) = fixed {
            assert_eq!(fixed.header, Header { note: String::new(), ..of(generation, parent) });
            assert_eq!(fixed.note_bytes, 4);
        }
    }
    let whole = of(7, 6).encode();
    let with = |changes: &[(usize, u8)]| {
        let mut bytes = whole.clone();
        changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
        bytes
    };
    for (changes, what) in [
        (&[(0, b'R')][..], "not a backup file"),
        (&[(8, 2)], "written by a newer remora"),
        (&[(12, 1)], "unsupported block size"),
        (&[(80, 1)], "a reserved field is set"),
        (&[(87, 1)], "a reserved field is set"),
        (&[(88, 5)], "truncated"),
        (&[(88, 3)], "too long"),
        (&[(92, 0xff)], "the note is not UTF-8"),
        (&[(88, 1), (90, 1)], "the note is too long"),
    ] {
        assert_eq!(Header::decode(&with(changes)).unwrap_err().what, what);
    }
    let longest = with(&[(88, 0), (90, 1)]);
    assert_eq!(Header::total_bytes(&longest), Ok(Header::BYTES_MAX));
    assert_eq!(Header::decode_fixed(&longest).unwrap().note_bytes, 65_536);
    assert_eq!(
        Header::decode_fixed(&with(&[(90, 2)])).unwrap().note_bytes,
        65_536,
        "no more than a note has"
    );
    assert!(Header::decode_fixed(&longest[..91]).is_none());
}

#[test]
fn entries_and_trailers_have_their_length() {
    let entry = IndexEntry { chunk: 1, offset: 2, len: 3, sum: [4; 16], content: [5; 16] };
    let mut bytes = entry.encode().to_vec();
    assert_eq!(IndexEntry::decode(&bytes), Ok(entry));
    assert_eq!(IndexEntry::decode(&bytes[..55]).unwrap_err().what, "truncated");
    bytes[20] = 1;
    assert_eq!(IndexEntry::decode(&bytes).unwrap_err().what, "a reserved field is set");
    bytes[20] = 0;
    bytes.push(0);
    let long = IndexEntry::decode(&bytes).unwrap_err();
    assert_eq!((long.what, long.place), ("too long", 56));
    let trailer =
        Trailer { index_offset: 1, index_count: 2, stored: 3, blocks: 4, content: [5; 32], root: [6; 32] };
    let mut bytes = [&trailer.encode_covered()[..], &trailer.root].concat();
    assert_eq!(Trailer::decode(&bytes), Ok(trailer));
    bytes.push(0);
    assert_eq!(Trailer::decode(&bytes).unwrap_err().what, "too long");
    bytes[0] ^= 1;
    assert!(Trailer::decode(&bytes).unwrap_err().what.contains("trailer is missing"));
}

#[test]
fn zeros_have_a_hash_of_their_own() {
    for len in [0, 1, 63, 64, 65, 200] {
        let mut bytes = vec![0; len];
        assert_eq!(format::block_hash(&bytes), ZERO, "{len}");
        for at in 0..len {
            bytes[at] = 1;
            assert!(
                !format::is_zero(&bytes) && format::block_hash(&bytes) == format::hash(&bytes),
                "{at} of {len}"
            );
            bytes[at] = 0;
        }
    }
    assert_eq!(format::hash(b"remora")[..], blake3::hash(b"remora").as_bytes()[..16]);
    assert_eq!(format::chunk_hash(&[ZERO; 3]), ZERO);
    let [one, other] = [[[1; 16], ZERO], [ZERO, [1; 16]]].map(|blocks| format::chunk_hash(&blocks));
    assert!(one != ZERO && other != ZERO && one != other, "the order counts");
    assert_eq!(one, format::hash(&[[1; 16], ZERO].concat()));
    let chunk = format::CHUNK as u64;
    assert_eq!([0, 1, chunk, chunk + 1].map(format::chunks_of), [0, 1, 1, 2]);
}
