//! Who is told how a job ended: a URL is called, or a command is run.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::child::Signals;

/// How long one call of a URL may take, and the pauses between the tries.
const TIMEOUT: Duration = Duration::from_secs(10);
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Who is told.
#[derive(Clone, Debug)]
pub enum Hook {
    /// This URL is called.
    Url(String),
    /// This command is run by a shell.
    Command(String),
}

impl FromStr for Hook {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Hook> {
        ensure!(!text.trim().is_empty(), "neither a URL nor a command");
        let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        Ok(if is_url { Hook::Url(text.to_owned()) } else { Hook::Command(text.to_owned()) })
    }
}

/// How a job ended.
pub struct JobEnd<'a> {
    /// Its exit code.
    pub code: u8,
    /// How it ended, in words.
    pub reason: &'a str,
    /// The end of its output.
    pub tail: &'a [u8],
    /// The path of the log.
    pub log: &'a str,
}

impl JobEnd<'_> {
    /// The command line for a command of the user's.
    pub fn command(&self, command: &str) -> Vec<OsString> {
        let JobEnd { code, reason, log, .. } = self;
        let settings =
            [format!("REMORA_CODE={code}"), format!("REMORA_REASON={reason}"), format!("REMORA_LOG={log}")];
        let words = std::iter::once("env".to_owned()).chain(settings);
        words.chain(["sh", "-c", command].map(str::to_owned)).map(OsString::from).collect()
    }

    /// Calls a URL: GET for a success, POST with the end of the output for a failure. Tries three times,
    /// unless a signal comes.
    pub fn call(&self, url: &str, signals: &Signals) -> Result<()> {
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build();
        let agent = ureq::Agent::new_with_config(config);
        let once = || {
            if self.code == 0 {
                return agent.get(url).call();
            }
            let text = [self.reason.as_bytes(), b"\n", self.tail].concat();
            agent.post(url).content_type("text/plain; charset=utf-8").send(text)
        };
        let mut pauses = PAUSES.iter();
        loop {
            match (once(), pauses.next()) {
                (Ok(_), _) => return Ok(()),
                (Err(_), Some(pause)) => signals.pause(*pause)?,
                (Err(error), None) => return Err(error.into()),
            }
        }
    }
}
