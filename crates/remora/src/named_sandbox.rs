//! Sandboxes by their names.

use std::path::PathBuf;

use anyhow::Result;
use instance::server_folders::server_folders;
use sandbox::{Places, SandboxInfo};

/// The socket of the running sandbox with this name.
pub(crate) fn running(name: &str) -> Result<PathBuf> {
    let listed = find(name, &server_folders()?)?;
    match listed.pid {
        Some(_) => Ok(listed.socket),
        None => Err(failure::usage(format!("{name} is stopped; remora sandbox start {name}"))),
    }
}

/// The sandbox with this name.
pub(crate) fn find(name: &str, places: &Places) -> Result<SandboxInfo> {
    let all = sandbox::list(places);
    let names: Vec<_> = all.iter().map(|listed| listed.name.clone()).collect();
    all.into_iter().find(|listed| listed.name == name).ok_or_else(|| {
        let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        failure::usage(format!("no sandbox is called {name}; known: {known}"))
    })
}
