//! A broker that says anything: NATS and Kafka get errors, and no more memory than is needed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| broker::read_any(data));
