//! Clients that are gone while they wait are given nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::client_package::until;
use crate::lease::{ack, lease, token};
use crate::server::Server;

/// A connection whose answers nobody reads, in the middle of a statement.
fn ask_and_leave(server: &Server, database: &str, sql: &str) -> UnixStream {
    let mut stream = UnixStream::connect(server.0.socket()).unwrap();
    let read = |stream: &mut UnixStream| {
        let mut head = [0; 4];
        stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; usize::from(head[0]) | usize::from(head[1]) << 8];
        stream.read_exact(&mut body).unwrap();
        body
    };
    let write = |number: u8, body: &[u8], stream: &mut UnixStream| {
        let length = u16::try_from(body.len()).unwrap().to_le_bytes();
        stream.write_all(&[&[length[0], length[1], 0, number], body].concat()).unwrap();
    };
    read(&mut stream);
    // CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION, CLIENT_CONNECT_WITH_DB; 16 MiB; utf8mb4; no password.
    let mut login = 0x8208_u32.to_le_bytes().to_vec();
    login.extend((1_u32 << 24).to_le_bytes());
    login.push(45);
    login.extend([0; 23]);
    login.extend(b"root\0\0");
    login.extend(database.as_bytes());
    login.push(0);
    write(1, &login, &mut stream);
    assert_eq!(read(&mut stream)[0], 0, "the login failed");
    write(0, &[&[3], sql.as_bytes()].concat(), &mut stream);
    stream
}

#[test]
fn a_client_that_closes_while_it_waits_is_given_no_lease() {
    let server = Server::start();
    let name = "closes";
    let (mut one, _) = server.queue(name);
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting in queue_%'";
    for last in [&[1, 0, 0, 0, 1][..], &[]] {
        let mut stream = ask_and_leave(&server, name, "SELECT queue_lease_json(3600, 1, 't', 3600)");
        until(&mut one, &format!("SELECT ({waiting}) = 1"));
        // COM_QUIT, or the machine has ended the program.
        stream.write_all(last).unwrap();
        drop(stream);
        until(&mut one, &format!("SELECT ({waiting}) = 0"));
        one.run("INSERT INTO t VALUES (1)");
        let lease = lease(&mut one, "60, 1, 't', 0");
        assert_eq!(ack(&mut one, &token(&lease, 0)), Some(1));
    }
}
