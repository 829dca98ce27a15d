//! Bytes of a repository are what they say, to the last one, or are refused.
#![no_main]

use block::format::{Header, IndexEntry, Record, Trailer, record_len};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 4 {
        0 => {
            Header::total_bytes(bytes).ok();
            if let Ok(header) = Header::decode(bytes) {
                assert_eq!(header.encode(), bytes);
            }
        }
        1 => {
            record_len(bytes).ok();
            // The hash at its end is hard to guess.
            let hash = block::format::hash(bytes);
            if let Ok(record) = Record::decode(&[bytes, &hash].concat()) {
                assert_eq!(record.encode(), [bytes, &hash].concat());
            }
        }
        2 => {
            if let Ok(entry) = IndexEntry::decode(bytes) {
                assert_eq!(entry.encode().as_slice(), bytes);
            }
        }
        _ => drop(Trailer::decode(bytes)),
    }
});
