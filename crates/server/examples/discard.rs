//! Reads a server's binary log as seldom as `remora binlog` does, and keeps nothing: what any reader costs
//! the server.
//!
//! `discard SOCKET FILE`, as root and without a password, until the server ends or this is killed.

use std::error::Error;
use std::time::Duration;

use server::binlog_dump::DumpRequest;
use server::{Environment, Overrides, Target};

/// How long more may come before it is read.
const GATHER: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(socket), Some(file), None) = (words.next(), words.next(), words.next()) else {
        return Err("usage: discard SOCKET FILE".into());
    };
    let root = Overrides {
        socket: Some(socket.into()),
        user: Some("root".to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    let heartbeat = Duration::from_secs(1);
    let from = DumpRequest { file, at: 4, server_id: 99, ends: false, acknowledges: false, heartbeat };
    let mut dump = Target::resolve(&root, &Environment::default())?.dump(&from)?;
    loop {
        if !dump.has_more() {
            dump.gather(GATHER);
        }
        dump.next(heartbeat)?;
    }
}
