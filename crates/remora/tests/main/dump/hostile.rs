//! Malicious servers.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use sandbox::Product;

use super::Pair;

/// The file that a load offers. The proxy asks for another file whose name has the same length.
const OFFERED: &str = "remora-stream";

/// A proxy between a client and a server. It asks the client for a file other than the offered one, and keeps
/// what the client sent.
fn proxy(listener: UnixListener, server: &Path, wanted: String, seen: &Arc<Mutex<Vec<u8>>>) {
    while let Ok((client, _)) = listener.accept() {
        let server = UnixStream::connect(server).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let seen = Arc::clone(seen);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from_client.read(&mut buffer) {
                seen.lock().unwrap().extend_from_slice(&buffer[..count]);
                if to_server.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            to_server.shutdown(Shutdown::Both).ok();
        });
        let (mut from_server, mut to_client, wanted) = (server, client, wanted.clone());
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from_server.read(&mut buffer) {
                // The request is a packet of its own: 0xfb and the name.
                let mut head = vec![0xfb];
                head.extend_from_slice(OFFERED.as_bytes());
                if let Some(at) = buffer[..count].windows(head.len()).position(|bytes| bytes == head) {
                    buffer[at + 1..at + head.len()].copy_from_slice(wanted.as_bytes());
                }
                if to_client.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            to_client.shutdown(Shutdown::Both).ok();
        });
    }
}

#[test]
fn a_server_gets_no_other_file_than_the_one_of_the_dump() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    source.execute("CREATE DATABASE d").unwrap();
    source.execute("CREATE TABLE d.t (id INT PRIMARY KEY)").unwrap();
    source.execute("INSERT INTO d.t VALUES (1), (2)").unwrap();
    pair.dump(&["d", "-o", "d.dump"]).exits(0);
    // The program runs in the folder of the dumps: a bare name is a file there.
    let secret = "secret-file-1";
    assert_eq!(secret.len(), OFFERED.len());
    std::fs::write(pair.path(secret), "the words nobody may see").unwrap();
    let socket = pair.path("proxy.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (server, kept) = (pair.to.socket().to_owned(), Arc::clone(&seen));
    // Ends with the process.
    std::thread::spawn(move || proxy(listener, &server, secret.to_owned(), &kept));
    let ended = pair.run(&["load", "--no-defaults", "-u", "root", "-S", socket.to_str().unwrap(), "d.dump"]);
    ended.exits(1).says(&[secret, "asked"]);
    let seen = seen.lock().unwrap();
    let has = |words: &[u8]| seen.windows(words.len()).any(|bytes| bytes == words);
    assert!(has(b"LOAD DATA LOCAL") && !has(b"nobody may see"));
    assert_eq!(pair.target().value("SELECT COUNT(*) FROM d.t").unwrap().as_deref(), Some("0"));
}
