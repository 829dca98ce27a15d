//! The crate against the real programs: a MariaDB server, and `my_print_defaults` for option files.

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
#[path = "main/session.rs"]
mod session;
#[path = "main/tls.rs"]
mod tls;
