//! The named sandboxes.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde::Serialize;

use crate::state::State;
use crate::{Error, Places, Sandbox, ServerChoice, sandbox_folder};

/// A named sandbox, as returned by [`list`].
#[derive(Clone, Debug, Serialize)]
pub struct SandboxInfo {
    /// The name it was started under.
    pub name: String,
    /// Its server, as it can be chosen again.
    #[serde(rename = "product")]
    pub server: ServerChoice,
    /// The exact version of its server.
    pub version: String,
    /// Its folder; [`crate::Sandbox::open`] takes it.
    pub folder: PathBuf,
    /// The unix socket to connect to.
    pub socket: PathBuf,
    /// The port on 127.0.0.1, if it has one.
    pub port: Option<u16>,
    /// The options of its last start, besides those of every sandbox.
    pub options: Vec<String>,
    /// The Galera cluster that it is a member of.
    pub cluster: Option<String>,
    /// The process id of the server; none when it is stopped.
    pub pid: Option<u32>,
    /// When it was last started, in seconds since 1970 (UTC).
    pub started_unix_s: Option<u64>,
}

impl SandboxInfo {
    /// Kills the server, removes its data and takes it off the list.
    ///
    /// # Errors
    ///
    /// Those of [`Sandbox::open`] and [`Sandbox::remove`].
    pub fn remove(&self, places: &Places) -> Result<(), Error> {
        Sandbox::open(&self.folder)?.remove()?;
        sandbox_folder::forget(places, &self.name)
    }
}

/// The sandboxes that were started with a name, sorted by name. A folder that is gone or can't be read is not
/// listed.
#[must_use]
pub fn list(places: &Places) -> Vec<SandboxInfo> {
    let entries = std::fs::read_dir(places.sandboxes()).into_iter().flatten().flatten();
    let mut listed: Vec<SandboxInfo> = entries
        .filter_map(|entry| {
            let folder = entry.path().canonicalize().ok()?;
            let state = State::read(&folder).ok()?;
            let pid = state.process(&folder).map(|process| process.pid());
            let started = State::started(&folder).and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            Some(SandboxInfo {
                name: entry.file_name().into_string().ok()?,
                server: ServerChoice::from(&state.installation),
                version: state.installation.version,
                folder,
                socket: state.socket,
                port: state.port,
                options: state.options,
                cluster: state.member.map(|member| member.cluster),
                pid,
                started_unix_s: started.map(|since| since.as_secs()),
            })
        })
        .collect();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    listed
}
