//! A file with typed columns is lines of text or an error, whatever was forged in it.
#![no_main]

use std::io::{self, Read as _};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use parquet_rows::foreign::{Format, Input, Int96, Options, Table};

/// Text that is read of a file: the fuzzer has no time for more.
const TEXT_BYTES_MAX: u64 = 4 << 20;

struct Memory(Vec<u8>);

impl Input for Memory {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

fuzz_target!(|data: &[u8]| {
    // The first byte chooses a format, so that the magic bytes need not be guessed.
    let Some((kind, bytes)) = data.split_first() else { return };
    let file = match kind % 3 {
        0 => [b"PAR1", bytes, b"PAR1"].concat(),
        1 => [b"ARROW1\0\0", bytes, b"ARROW1"].concat(),
        _ => [&[0xff; 4], bytes].concat(),
    };
    let format = Format::of(&file).expect("it begins like one");
    let options = Options { nested_json: true, int96: Some(Int96::Utc), ..Options::default() };
    let Ok(table) = Table::open(&Memory(file.clone()), format, &options) else { return };
    let lines = Arc::new(table).lines(Arc::new(Memory(file)));
    lines.take(TEXT_BYTES_MAX).read_to_end(&mut Vec::new()).ok();
});
