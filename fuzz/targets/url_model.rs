//! A model file that was changed anywhere, its checksum made right again, is refused or still works.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use urlpack::{Model, Options, train};

/// A small model: little enough for changes to hit what matters.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let urls: Vec<String> = (0..300).map(|n| format!("http://{}.example/{n}", n % 7)).collect();
    train(&urls, &Options::new(64_000), &mut |_| {}).unwrap()
});

/// CRC-64/NVME, bit by bit: polynomial 0x9a6c9329ac4bc9b5, reflected, all ones before and after.
fn checksum(bytes: &[u8]) -> u64 {
    !bytes.iter().fold(u64::MAX, |mut sum, byte| {
        sum ^= u64::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0x9a6c_9329_ac4b_c9b5 & (sum & 1).wrapping_neg());
        }
        sum
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut file = FILE.clone();
    // Each change: where (3 bytes) and what (1 byte).
    for change in bytes.chunks_exact(4).take(16) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % (file.len() - 8);
        file[at] ^= change[3];
    }
    let body = file.len() - 8;
    let sum = checksum(&file[..body]);
    file[body..].copy_from_slice(&sum.to_le_bytes());
    let Ok(model) = Model::from_bytes(file) else { return };
    for string in [&b"http://3.example/17"[..], b"", b"\0\xff\xff", bytes] {
        let (mut packed, mut back) = (Vec::new(), Vec::new());
        model.pack(string, &mut packed);
        model.unpack(&packed, &mut back, string.len()).unwrap();
        assert_eq!(back, string);
    }
    let mut back = Vec::new();
    let outcome = model.unpack(bytes, &mut back, 10_000);
    assert!(outcome.is_ok() || back.is_empty());
});
