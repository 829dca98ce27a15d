//! A far side that says anything: the near side gets answers or errors, and asks for no more memory than is
//! needed.
#![no_main]

use std::io::{self, Cursor, Read};
use std::path::Path;

use block::{CHUNK, ChunkRead, ChunkRequest, ChunkSource};
use disk::Disk;
use far::{Connection, Request};
use libfuzzer_sys::fuzz_target;

/// A greeting as the far side makes it.
fn greeting() -> Vec<u8> {
    let mut payload = b"\0remofar\n".to_vec();
    payload.extend(far::VERSION.to_le_bytes());
    payload.extend(32u64.to_le_bytes());
    payload.extend([7; 32]);
    payload.extend(0u32.to_le_bytes());
    payload.extend(0u64.to_le_bytes());
    [&(payload.len() as u32).to_le_bytes()[..], &payload].concat()
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    if let Ok(request) = Request::decode(*kind, bytes) {
        assert_eq!(request.encode(), (*kind, bytes.to_vec()));
    }
    if Connection::new(Box::new(Cursor::new(bytes.to_vec())), Box::new(io::sink())).is_ok() {
        return;
    }
    let input = Cursor::new(greeting()).chain(Cursor::new(bytes.to_vec()));
    let connection = Connection::new(Box::new(input), Box::new(io::sink())).unwrap();
    if kind % 2 == 0 {
        let disk = connection.disk();
        disk.list(Path::new("/")).ok();
        disk.stat(Path::new("/")).ok();
        if let Ok(mut file) = disk.open(Path::new("/")) {
            file.read(&mut [0; 100]).ok();
        }
        connection.run(&[]).ok();
        return;
    }
    let Ok(mut feed) = connection.scan(Path::new("/")) else { return };
    let mut buffer = Vec::new();
    let wants = [
        ChunkRequest::All(None),
        ChunkRequest::All(Some(vec![[1; 16]; 256])),
        ChunkRequest::Blocks(Box::new([true; 256])),
    ];
    for (number, want) in (0..).zip(wants) {
        if feed.expect(number, CHUNK, want.clone()).is_err() {
            return;
        }
        match feed.read(&mut buffer) {
            Ok(ChunkRead::Whole) => assert_eq!(buffer.len(), CHUNK),
            Ok(ChunkRead::Blocks(_)) => assert!(want != ChunkRequest::All(None) && buffer.len() == CHUNK),
            Ok(ChunkRead::Hole) | Err(_) => {}
        }
    }
});
