//! Nightly backups of a server of this machine, and the archive of its log, by units of systemd: all steps
//! that this takes, and which of them were done before.
//!
//! [`Plan::make`] looks; a [`Step`] is shown or performed. It prints nothing.

mod account;
mod files;
mod plan;
mod step;

use std::path::PathBuf;

pub use self::account::check;
pub use self::plan::Plan;
pub use self::step::{State, Step, What};

/// What is wanted.
pub struct Request {
    /// The name of the backups, and of the units.
    pub name: String,
    /// The repository of the backups.
    pub to: PathBuf,
    /// Whether to make keys.
    pub encrypt: bool,
    /// The repository that gets a copy after each backup.
    pub copy_to: Option<PathBuf>,
    /// Seconds between two backups; none for the times of the units.
    pub every: Option<u64>,
    /// Options of `remora prune` for old backups.
    pub keep: Vec<String>,
    /// The name of the account in the server.
    pub account: String,
    /// The folder of the machine's settings.
    pub etc: PathBuf,
}
