//! Options that `stat` and `top` have in common.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use failure::usage;
use host::{Address, Call, Machine};
use monitor::machine::{Elsewhere, script};
use monitor::recording::Recorder;

use crate::args::machine;

/// The file that keeps samples.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RecordingArgs {
    /// Also keep every sample in this file, with what runs, who waits for whom, the last deadlock and what
    /// the host does; an existing recording is continued. -q shows nothing meanwhile
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,

    /// Keep whole statements, too, and not only their kinds. They may hold data of the application
    #[arg(long, requires = "record")]
    pub(super) record_statements: bool,

    /// Show a recording, with the same options; a longer INTERVAL adds several samples up
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub(super) replay: Option<PathBuf>,
}

impl RecordingArgs {
    /// Opens the file that was asked for.
    pub(super) fn open(&self) -> Result<Option<Recorder>> {
        self.record.as_deref().map(|path| Recorder::open(path, self.record_statements)).transpose()
    }
}

/// The machine of the server, for the screen.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct HostArgs {
    /// The machine that the server runs on: the host page of the screen shows what ssh reads there in /proc
    /// [default: this machine, if the server is on it]
    #[arg(long, value_name = "ssh://USER@HOST[:PORT]", value_parser = machine, conflicts_with = "replay")]
    pub(super) server_at: Option<Address>,

    /// An option for ssh, as after its -o, such as ProxyJump=bastion
    #[arg(long, value_name = "OPTION", requires = "server_at")]
    pub(super) ssh_option: Vec<String>,
}

impl HostArgs {
    /// Refuses a machine without a screen, or with several servers.
    pub(super) fn check(&self, is_live: bool, servers: usize) -> Result<()> {
        match &self.server_at {
            Some(_) if !is_live => Err(usage("--server-at is for a page of the screen: add --live")),
            Some(_) if servers > 1 => {
                Err(usage("--server-at is the machine of one server: name only that one"))
            }
            _ => Ok(()),
        }
    }

    /// Readings of that machine. A connection that is lost is made again.
    pub(super) fn elsewhere(&self, interval: Duration) -> Option<Elsewhere> {
        let (address, options) = (self.server_at.clone()?, self.ssh_option.clone());
        let (script, mut open) = (script(), None);
        let read = move || {
            let machine = match open.take() {
                Some(machine) => machine,
                None => Machine::reach(Some(&address), &Call { options: &options, ..Call::default() })?,
            };
            let text = machine.run(&["sh", "-c", &script].map(OsStr::new))?;
            open = Some(machine);
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        Some(Elsewhere::start(read, interval))
    }
}
