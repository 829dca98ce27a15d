//! A private, disposable MariaDB or MySQL server in a folder: found or fetched, initialised once, copied,
//! started, stopped.
//!
//! ```no_run
//! use sandbox::{Places, Product, Sandbox, Settings};
//!
//! let places = Places { cache: "/var/cache/remora".into() };
//! let installation = sandbox::find(&places, Product::MariaDb1011)?;
//! let server = Sandbox::start(&installation, &places, &Settings::default())?;
//! let url = format!("unix://{}", server.socket().display()); // user root, no password
//! drop(server); // the process and its folder are gone
//! # Ok::<(), sandbox::Error>(())
//! ```
//!
//! The first start of a product initialises a data folder and keeps it in the cache; every later start copies
//! that folder, which takes hundredths of a second. The crate knows no client library: a server counts as
//! ready when it sends its greeting packet over the socket.

mod archive;
mod choice;
mod client;
mod cluster;
mod data_template;
mod doc_tables;
mod error;
mod fetch;
mod folder;
mod galera_node;
mod greeting;
mod installation;
mod list;
mod own_program;
mod plugin;
mod process;
mod product;
mod sandbox_folder;
mod server;
mod settings;
mod state;
mod table;
mod test_servers;

pub use archive::Archive;
pub use choice::ServerChoice;
pub use cluster::start_cluster;
pub use doc_tables::{matrix, sources};
pub use error::Error;
pub use fetch::fetch;
pub use installation::{Installation, Places, client, find};
pub use list::{SandboxInfo, list};
pub use product::{Product, UnknownProduct};
pub use sandbox_folder::check_name;
pub use server::Sandbox;
pub use settings::Settings;
pub use table::{Ability, Family};
pub use test_servers::{
    galera_test_server, is_everywhere, is_turn, named_test_server, of_today, part_of_today, skipped,
    test_servers,
};
