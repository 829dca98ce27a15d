//! A MariaDB or MySQL server as a client sees it.
//!
//! Option files, URLs and environment values become a [`Target`]; a target becomes a [`Session`]; a session
//! runs statements, streams rows out and LOAD DATA in, and says in [`About`] what the server is and can do.
//! Errors name the next step, down to the missing `GRANT`.
//!
//! It deliberately reads neither the command line nor the environment: the caller passes both as values. It
//! prints nothing, never prompts, and opens no file on behalf of the server: `LOAD DATA LOCAL` is answered
//! with the one stream that the caller opened and nothing else.
//!
//! ```no_run
//! use server::{Environment, Overrides, Target};
//!
//! # fn main() -> Result<(), server::Error> {
//! let overrides = Overrides { url: Some("mysql://app@db1/shop".into()), ..Overrides::default() };
//! let target = Target::resolve(&overrides, &Environment::default())?;
//! let mut session = target.connect()?;
//! let orders = session.value("SELECT COUNT(*) FROM orders")?;
//! # let _ = orders;
//! # Ok(())
//! # }
//! ```

mod about;
mod access_denied;
pub mod binlog_dump;
mod blocker;
pub mod catalogue;
mod connect;
pub mod definition;
mod error;
pub mod error_code;
mod grant;
mod hold;
mod load;
mod login_path;
mod name;
mod options;
mod password;
mod position;
mod redact;
pub mod required_privileges;
mod schema_privileges;
mod secure;
mod session;
pub mod settings;
pub mod snapshot;
mod stream;
mod target;
pub mod text;
mod tls;
mod url;
mod xa;

pub use about::{About, Flavour, Release, Version};
pub use blocker::{Blocker, Obstacle};
pub use error::Error;
pub use grant::{Grants, Scope};
pub use hold::{Attempt, Hold, HoldMode};
pub use load::{LoadReport, Source};
pub use name::{TableName, hex_literal, quote_name, unquoted};
pub use options::{OptionFile, OptionFiles, OptionLine, read_all_options, read_option_files};
pub use password::Password;
pub use position::{Position, REPLICA_STATUS, ReplicaState};
pub use schema_privileges::SchemaPrivileges;
pub use session::{Cells, Done, Row, Session, Warning};
pub use stream::RowSink;
pub use target::{Environment, Overrides, SOCKETS, Target};
pub use tls::{SslMode, Tls};
pub use xa::{XaName, prepared_xa, xa_literal};
