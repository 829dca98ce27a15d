//! A block returns its text or an error, whatever was forged in it; any text comes back from its block.
#![no_main]

use column::{Effort, End, Head, Layout, column, decode, encode};
use libfuzzer_sys::fuzz_target;

/// Rows that are surely stored as columns, and their layout.
fn usual() -> (Vec<u8>, Layout) {
    let text: String = (0..300_u32).map(|n| format!("{}\t{}\n", n * n, n * n * 7 % 1000)).collect();
    let layout = Layout::guess(text.as_bytes()).expect("it is a table");
    (text.into_bytes(), layout)
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let (mut text, layout) = usual();
    match kind % 5 {
        // Text and what becomes of it: by itself, and in the columns of a table.
        0 | 4 => {
            if kind % 5 == 0 {
                text.clear();
            }
            text.extend(bytes);
            let block = encode(&text, Effort::of_level(3)).expect("any text can be encoded");
            assert_eq!(decode(&block).expect("what was encoded can be decoded"), text);
            column(&block, layout, 1).expect("its columns too");
        }
        // What is packed, in a block whose checksums match.
        1 => {
            let Some((len, packed)) = bytes.split_first_chunk::<3>() else { return };
            let text_bytes = u32::from_le_bytes([len[0], len[1], len[2] & 3, 0]);
            let mut block = vec![b'B'];
            block.extend(text_bytes.to_le_bytes());
            block.extend(u32::try_from(packed.len()).expect("short").to_le_bytes());
            block.extend([0; 12]);
            block.extend(packed);
            let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &block);
            block.extend(sum.to_le_bytes());
            decode(&block).ok();
            column(&block, layout, 1).ok();
        }
        2 => {
            Head::parse(bytes).ok();
            decode(bytes).ok();
        }
        _ => {
            if let Ok(end) = End::parse(bytes) {
                assert_eq!(end.encode(), bytes);
            }
        }
    }
});
