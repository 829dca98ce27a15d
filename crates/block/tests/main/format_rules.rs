//! What bytes of a repository must not say, rule by rule. Who has the key can forge every hash.

use block::CHUNK;
use block::format::{
    BlockLocation, Corrupt, Group, Header, IndexEntry, Method, NUMBER_MAX, Record, Trailer, ZERO, block_hash,
    chunk_hash, chunks_of, hash, is_zero, record_len,
};

/// Where the fields of the record below begin: its blocks, and its groups.
const FIRST: usize = 40;
const ZEROS: usize = 64;
const DELTA: usize = 88;
const GROUP: usize = 112;
const DELTA_GROUP: usize = 152;

/// Block 3 in a group of two, block 5 of zeros, and block 7 as a delta to block 3.
fn record() -> Record {
    let group = Group { file: 1, offset: 10, stored: 9, method: Method::Zstd, blocks: 2, sum: [5; 16] };
    let delta = Group { offset: 20, method: Method::Delta, blocks: 1, ..group };
    let own = BlockLocation { hash: [7; 16], group, slot: 0, base: None };
    let other = BlockLocation { hash: [8; 16], group: delta, slot: 0, base: Some((group, 0)) };
    Record { chunk: 3, content: [1; 16], changes: vec![(3, Some(own)), (5, None), (7, Some(other))] }
}

/// The record after a change of its bytes, with the length and the hash that belong to them.
fn forged(change: impl FnOnce(&mut Vec<u8>)) -> Result<Record, &'static str> {
    let mut bytes = record().encode();
    bytes.truncate(bytes.len() - 16);
    change(&mut bytes);
    let len = u32::try_from(bytes.len() + 16).unwrap();
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    let sum = hash(&bytes);
    Record::decode(&[&bytes[..], &sum].concat()).map_err(|corrupt| corrupt.what)
}

/// The same with other bytes in a place.
fn with(at: usize, bytes: &[u8]) -> Result<Record, &'static str> {
    forged(|all| all[at..at + bytes.len()].copy_from_slice(bytes))
}

#[test]
fn blocks_of_a_record_are_in_order_and_of_one_kind() {
    assert_eq!(forged(|_| ()), Ok(record()));
    let order = Err("blocks out of order");
    assert_eq!(
        [with(ZEROS, &[3]), with(ZEROS, &[2]), with(ZEROS, &[7])],
        [order.clone(), order.clone(), order]
    );
    assert!(with(ZEROS, &[4]).is_ok() && with(ZEROS, &[6]).is_ok());
    for at in [2, 3, 8, 23] {
        assert_eq!(with(ZEROS + at, &[1]), Err("a block of zeros with content"), "{at}");
    }
    for at in [4, 6] {
        assert_eq!(with(ZEROS + at, &[0, 0]), Err("a block of zeros with content"), "{at}");
    }
    assert_eq!(with(FIRST + 8, &ZERO), Err("a block without a hash"));
    let unknown = "a block of unknown kind";
    for (at, bytes) in [
        (FIRST + 1, &[2][..]),
        (FIRST + 1, &[3]),
        (FIRST + 3, &[1]),
        (FIRST + 6, &[0, 0]),
        (DELTA + 1, &[1]),
        (DELTA + 1, &[3]),
    ] {
        assert_eq!(with(at, bytes), Err(unknown), "{at} {bytes:?}");
    }
}

#[test]
fn a_block_is_in_a_group_and_a_delta_has_a_base() {
    assert!(with(FIRST + 2, &[1]).is_ok());
    for (at, bytes) in [(FIRST + 2, &[2][..]), (FIRST + 4, &[2, 0]), (DELTA + 2, &[1])] {
        assert_eq!(with(at, bytes), Err("a block without a group"), "{at} {bytes:?}");
    }
    assert!(with(DELTA + 3, &[1]).is_ok());
    for (at, bytes) in [(DELTA + 3, &[2][..]), (DELTA + 6, &[1, 0]), (DELTA + 6, &[2, 0])] {
        assert_eq!(with(at, bytes), Err("a delta without a base"), "{at} {bytes:?}");
    }
}

/// Sealing adds 60 bytes.
#[test]
fn a_group_has_the_size_of_its_blocks() {
    let stored = |method: u8, blocks: u8, stored: u32| {
        with(GROUP + 16, &[&stored.to_le_bytes()[..], &[method, blocks]].concat()).map(|_| ())
    };
    let two = 2 * 16_384;
    let wrong = Err("invalid group size");
    let raw = [two, two + 60, two - 1, two + 1, two + 59, two + 61, 0].map(|bytes| stored(0, 2, bytes));
    assert_eq!(raw, [Ok(()), Ok(()), wrong, wrong, wrong, wrong, wrong]);
    assert_eq!([0, two + 60, two + 61].map(|bytes| stored(1, 2, bytes)), [Ok(()), Ok(()), wrong]);
    assert_eq!([1, 16, 17, 0].map(|blocks| stored(1, blocks, 9)), [Ok(()), Ok(()), wrong, wrong]);
    assert_eq!(with(DELTA_GROUP + 21, &[2]).map(|_| ()), wrong);
    assert_eq!(stored(3, 2, 9), Err("a group of unknown kind"));
    // It ends where no file can end.
    let offset = |offset: u64| with(GROUP + 8, &offset.to_le_bytes()).map(|_| ());
    assert_eq!([offset(u64::MAX - 9), offset(u64::MAX - 8)], [Ok(()), wrong]);
}

#[test]
fn a_record_has_nothing_but_its_fields() {
    for at in [20, 23, GROUP + 22, GROUP + 23] {
        assert_eq!(with(at, &[1]), Err("a reserved field is set"), "{at}");
    }
    assert_eq!(forged(|bytes| bytes.push(0)), Err("too long"));
    let zeros = |content: [u8; 16]| {
        forged(|bytes| {
            bytes.truncate(40);
            bytes[16..20].fill(0);
            bytes[24..40].copy_from_slice(&content);
        })
    };
    assert_eq!(zeros(ZERO), Ok(Record { content: ZERO, changes: Vec::new(), ..record() }));
    assert_eq!(zeros([1; 16]), Err("a chunk of zeros with a content hash"));
    let longer = [record().encode(), vec![0]].concat();
    assert_eq!(Record::decode(&longer).unwrap_err().what, "a record whose length does not match");
    let mut damaged = record().encode();
    damaged[8] ^= 1;
    assert_eq!(Record::decode(&damaged).unwrap_err().what, "a damaged record");
}

#[test]
fn a_record_says_its_length_in_eight_bytes() {
    let len = |len: u32| record_len(&[&b"chnk"[..], &len.to_le_bytes()].concat());
    // A record has 56 bytes, and for each block one change and two groups at most.
    let most = 56 + 256 * (24 + 2 * 40);
    assert_eq!([len(56), len(most)], [Ok(56), Ok(most as usize)]);
    let wrong = Err(Corrupt { what: "invalid record length", place: 8 });
    assert_eq!([len(55), len(most + 1)], [wrong.clone(), wrong]);
    assert_eq!(record_len(b"chnj8\0\0\0"), Err(Corrupt { what: "no record begins here", place: 4 }));
    assert_eq!(record_len(b"chnk8\0\0"), Err(Corrupt { what: "truncated", place: 4 }));
}

fn header() -> Header {
    let parent_content = [4; 32];
    Header { generation: 7, parent: 6, parent_content, len: 9, taken_s: -5, note: "{}".to_owned() }
}

/// A header with these bytes in a place: what it is or what is wrong, and whether its fields are read.
fn other_header(at: usize, bytes: &[u8]) -> (Result<Header, &'static str>, bool) {
    let mut all = header().encode();
    all[at..at + bytes.len()].copy_from_slice(bytes);
    (Header::decode(&all).map_err(|corrupt| corrupt.what), Header::decode_fixed(&all).is_some())
}

#[test]
fn a_header_has_a_version_and_numbers_in_order() {
    let order = (Err("generations out of order"), false);
    for (generation, parent) in [(0, 0), (7, 7), (7, 8), (NUMBER_MAX + 1, 6)] {
        let numbers = [u64::to_le_bytes(generation), u64::to_le_bytes(parent)].concat();
        assert_eq!(other_header(16, &numbers), order, "{generation} {parent}");
    }
    let highest = other_header(16, &NUMBER_MAX.to_le_bytes());
    assert_eq!(highest, (Ok(Header { generation: NUMBER_MAX, ..header() }), true));
    for (at, byte, what) in [
        (0, b'R', "not a backup file"),
        (8, 2, "written by a newer remora"),
        (12, 1, "unsupported block size"),
        (80, 1, "a reserved field is set"),
        (87, 1, "a reserved field is set"),
        (90, 2, "the note is too long"),
        (92, 0xff, "the note is not UTF-8"),
        (88, 3, "truncated"),
        (88, 1, "too long"),
    ] {
        assert_eq!(other_header(at, &[byte]), (Err(what), true), "{at}");
    }
}

#[test]
fn a_damaged_header_is_read_as_far_as_it_goes() {
    let bytes = header().encode();
    let fixed = Header::decode_fixed(&bytes[..92]).unwrap();
    assert_eq!((fixed.header, fixed.note_bytes), (Header { note: String::new(), ..header() }, 2));
    assert!(Header::decode_fixed(&bytes[..91]).is_none());
    let note_bytes = |len: u32| {
        let bytes = [&bytes[..88], &len.to_le_bytes()].concat();
        (Header::decode_fixed(&bytes).unwrap().note_bytes, Header::total_bytes(&bytes).ok())
    };
    assert_eq!(note_bytes(65_536), (65_536, Some(92 + 65_536)));
    assert_eq!(note_bytes(65_537), (65_536, None));
    let note = "\u{20ac}".repeat(30_000);
    let read = Header::decode(&Header { note, ..header() }.encode()).unwrap();
    assert_eq!(read.note, "\u{20ac}".repeat(21_845), "cut between two characters of three bytes");
}

#[test]
fn an_index_entry_and_a_trailer_come_back() {
    let entry = IndexEntry { chunk: 1, offset: 2, len: 3, sum: [4; 16], content: [5; 16] };
    let bytes = entry.encode();
    assert_eq!((bytes.len(), IndexEntry::decode(&bytes)), (IndexEntry::BYTES, Ok(entry)));
    let mut reserved = bytes.clone();
    reserved[23] = 1;
    assert_eq!(IndexEntry::decode(&reserved).unwrap_err().what, "a reserved field is set");
    assert_eq!(IndexEntry::decode(&[&bytes[..], &[0]].concat()).unwrap_err().what, "too long");
    let trailer =
        Trailer { index_offset: 1, index_count: 2, stored: 3, blocks: 4, content: [5; 32], root: [6; 32] };
    let mut bytes = [trailer.encode_covered(), vec![6; 32]].concat();
    assert_eq!(Trailer::decode(&bytes), Ok(trailer));
    assert_eq!(Trailer::decode(&[&bytes[..], &[0]].concat()).unwrap_err().what, "too long");
    bytes[0] = b'R';
    assert!(Trailer::decode(&bytes).unwrap_err().what.starts_with("the trailer is missing"));
}

#[test]
fn the_hash_of_zeros_is_zero() {
    for at in [0, 63, 64, 127, 128, 129] {
        let mut bytes = [0; 130];
        assert!(is_zero(&bytes) && block_hash(&bytes) == ZERO);
        bytes[at] = 1;
        assert!(!is_zero(&bytes) && block_hash(&bytes) == hash(&bytes), "{at}");
    }
    assert_eq!(hash(b"a")[..], blake3::hash(b"a").as_bytes()[..16]);
    assert_eq!([chunk_hash(&[]), chunk_hash(&[ZERO; 3])], [ZERO; 2]);
    assert_eq!(chunk_hash(&[[1; 16], ZERO]), hash(&[[1; 16], ZERO].concat()));
    let chunk = CHUNK as u64;
    assert_eq!([0, 1, chunk, chunk + 1].map(chunks_of), [0, 1, 1, 2]);
}
