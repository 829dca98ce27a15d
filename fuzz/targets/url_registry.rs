//! A registry of models that is read is the one that was written, to the byte; anything else is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use urlpack::Registry;

fuzz_target!(|bytes: &[u8]| {
    // The sum at the end is put right, so that the lines above it are looked at.
    let mut file = bytes.to_vec();
    if let Ok(registry) = Registry::parse(&file) {
        assert_eq!(registry.to_bytes(), file);
    }
    let sum = file.iter().fold(u64::MAX, |mut sum, byte| {
        sum ^= u64::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0x9a6c_9329_ac4b_c9b5 & (sum & 1).wrapping_neg());
        }
        sum
    });
    file.extend_from_slice(format!("sum {:016x}\n", !sum).as_bytes());
    if let Ok(registry) = Registry::parse(&file) {
        assert_eq!(registry.to_bytes(), file);
        for pin in registry.pins() {
            assert!(Registry::is_name(&pin.name) && registry.pin(pin.key) == Some(pin));
        }
    }
});
