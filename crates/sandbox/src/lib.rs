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
mod client;
mod cluster;
mod covered;
mod error;
mod fetch;
mod folder;
mod greeting;
mod installation;
mod list;
mod matrix;
mod member;
mod place;
mod plugin;
mod pristine;
mod process;
mod product;
mod server;
mod settings;
mod state;
mod table;

pub use archive::Archive;
pub use cluster::start_cluster;
pub use covered::{covered, covered_cluster, skipped};
pub use error::Error;
pub use fetch::fetch;
pub use installation::{Installation, Places, client, find};
pub use list::{Listed, list};
pub use matrix::{matrix, sources};
pub use product::{Product, UnknownProduct};
pub use server::Sandbox;
pub use settings::Settings;
pub use table::{Ability, Family};
