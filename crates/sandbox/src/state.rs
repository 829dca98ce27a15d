//! The file that describes a sandbox.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::error::At;
use crate::folder;
use crate::galera_node::GaleraNode;
use crate::process::Process;
use crate::{Error, Installation};

/// The file that makes a folder a sandbox: a JSON object with the fields of [`State`].
const FILE: &str = "remora-sandbox.json";

/// The last start of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) installation: Installation,
    /// The options besides those of every sandbox.
    pub(crate) options: Vec<String>,
    pub(crate) socket: PathBuf,
    pub(crate) port: Option<u16>,
    /// Its place in a cluster, if it is a member.
    #[serde(default)]
    pub(crate) member: Option<GaleraNode>,
    /// The server's process id, 0 before the first start. [`State::process`] tells whether it still runs.
    pub(crate) pid: u32,
}

impl State {
    /// Reads the state from a sandbox's folder.
    pub(crate) fn read(folder: &Path) -> Result<State, Error> {
        let text =
            std::fs::read(folder.join(FILE)).map_err(|_| Error::NoSandbox { folder: folder.to_owned() })?;
        serde_json::from_slice(&text).at("cannot understand", &folder.join(FILE))
    }

    /// When the server was last started: the time when the file was written.
    pub(crate) fn started(folder: &Path) -> Option<SystemTime> {
        std::fs::metadata(folder.join(FILE)).and_then(|metadata| metadata.modified()).ok()
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(self).at("cannot write", &folder.join(FILE))?;
        folder::write(&folder.join(FILE), &text)
    }

    /// The server, if it still runs. The command line shows whether another process has got its id.
    pub(crate) fn process(&self, folder: &Path) -> Option<Process> {
        Process::find(self.pid, &data_option(folder)).filter(Process::is_running)
    }
}

/// The option that names the data folder, by which a server is recognised.
pub(crate) fn data_option(folder: &Path) -> String {
    format!("--datadir={}", data(folder).display())
}

/// The data folder of the sandbox in `folder`.
pub(crate) fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}
