//! Any text is the definition of a table, or an error; one that is found among statements is a part of them.
#![no_main]

use innodb::table::{Version, sql};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    sql::parse(text, Version(110_806)).ok();
    if let Ok(found) = sql::find(text, None, "t") {
        assert!(text.contains(found));
    }
});
