//! Any bytes are a `.frm` file with a table whose indexes are of its columns, or an error.
#![no_main]

use innodb::table::frm;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(table) = frm::parse(data) else { return };
    for field in table.indexes().iter().flat_map(|index| &index.fields) {
        assert!(field.column.is_none_or(|column| column < table.columns().len()));
    }
    assert!(table.indexes().iter().all(|index| index.key_fields <= index.fields.len()));
});
