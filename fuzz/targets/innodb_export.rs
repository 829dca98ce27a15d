//! Any bytes as a `.cfg` file are indexes or an error, and another counter changes nothing else.
#![no_main]

use innodb::export::Export;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(export) = Export::parse(bytes.to_vec()) else { return };
    let again = Export::parse(export.with_auto_increment(7)).expect("the same file with another counter");
    assert_eq!(again.indexes, export.indexes);
    assert_eq!(again.with_auto_increment(9), export.with_auto_increment(9));
});
