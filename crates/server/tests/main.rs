//! The crate against the real programs: a MariaDB server, and `my_print_defaults` for option files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

#[path = "main/support.rs"]
mod support;

#[path = "main/connect.rs"]
mod connect;
#[path = "main/load.rs"]
mod load;
#[path = "main/options.rs"]
mod options;
#[path = "main/packet.rs"]
mod packet;
#[path = "main/privilege.rs"]
mod privilege;
#[path = "main/property.rs"]
mod property;
#[path = "main/session.rs"]
mod session;
#[path = "main/stream.rs"]
mod stream;
#[path = "main/tls.rs"]
mod tls;
