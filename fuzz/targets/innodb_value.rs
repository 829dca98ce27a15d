//! Any bytes are a value or an error, for each type; what is stored for a text is read back as a value.
#![no_main]

use innodb::table::{Column, Version, sql};
use innodb::value::{decode, encode};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    const TYPES: &str = "a int, b bigint unsigned zerofill, c float, d double(9,3), e double, f decimal(65,30), \
        g decimal(5,2), h bit(33), i year(4), j date, k time(3), l datetime(6), m timestamp(1), n char(7), \
        o char(7) CHARACTER SET utf16, p varchar(9) CHARACTER SET utf8mb4, q text COMPRESSED, r enum('x','y'), \
        s set('x','y','z'), t set('x','X'), u uuid, v inet6, w inet4, x vector(2), y geometry, z blob";
    let text = format!("CREATE TABLE t ({TYPES}) ENGINE=InnoDB DEFAULT CHARSET=latin1");
    sql::parse(&text, Version(110_806)).expect("it is a table").columns().to_vec()
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let column = &COLUMNS[usize::from(*kind) % COLUMNS.len()];
    decode(column, bytes, &mut Vec::new()).ok();
    let mut stored = Vec::new();
    if encode(column, bytes, &mut stored).is_ok() {
        decode(column, &stored, &mut Vec::new()).expect("what was stored can be read");
    }
});
