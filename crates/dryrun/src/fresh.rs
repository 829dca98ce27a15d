//! A snapshot of a series from a fresh server.

use std::collections::BTreeSet;

use failure::usage;
use instance::server_folders::server_folders;
use sandbox::{Sandbox, ServerChoice, Settings};
use status::variable::{Snapshot, are_equal, deprecations, is_administrative, read_server};

use crate::{program, server as private};

/// Variables whose values follow from the options of a sandbox.
const DEPENDENT: [&str; 2] = ["have_ssl", "have_openssl"];

/// The variable that a command-line option sets.
fn name(option: &str) -> Option<String> {
    let name = option.strip_prefix("--")?.split('=').next()?.replace('-', "_");
    Some(name)
}

/// Whether the word after `sandbox:` chooses a server to start, and does not name a sandbox that runs.
pub fn is_choice(word: &str) -> bool {
    match word.parse() {
        Ok(ServerChoice::Product(_)) => true,
        // A sandbox may be followed by a database, and its name has no slash.
        Ok(ServerChoice::Program(path)) => path.is_file(),
        Err(_) => false,
    }
}

/// A snapshot of a series from its program and a fresh server, without anything specific to this machine.
/// With `probe` it also tries options that the program does not list, which takes half a minute.
pub fn fresh(series: &str, probe: bool) -> anyhow::Result<Snapshot> {
    let server: ServerChoice = series.parse().map_err(|error| usage(format!("sandbox:{error}")))?;
    let places = server_folders()?;
    let installation = server.find(&places)?;
    let mut listed = program::help(installation.command(), &[])?;
    let server = Sandbox::start(&installation, &places, &Settings::default())?;
    let mut session = private::session(&server)?;
    let mut snapshot = read_server(&mut session)?;
    for (name, text) in deprecations(&mut session, &snapshot)? {
        if let Some(variable) = snapshot.variables.get_mut(&name) {
            variable.deprecated = Some(text);
        }
    }
    drop(session);
    let set: BTreeSet<String> = server.options().iter().filter_map(|option| name(option)).collect();
    drop(server);
    if probe {
        program::probe(&|| installation.command(), &installation.daemon, &mut listed)?;
    }
    for (name, variable) in &mut snapshot.variables {
        // A value that nobody set is the default, if the server does not give the default itself.
        if variable.default.is_none() && !set.contains(name) && !DEPENDENT.contains(&name.as_str()) {
            variable.default = variable.value.clone();
        }
        let printed = listed.variables.get(name).and_then(|listed| listed.default.clone());
        if let (Some(default), Some(printed)) = (&variable.default, printed)
            && !are_equal(variable, default, &printed)
        {
            variable.printed = Some(printed);
        }
    }
    snapshot.learn(&listed);
    for (name, variable) in &mut snapshot.variables {
        (variable.value, variable.origin, variable.file) = (None, None, None);
        if is_administrative(name) {
            (variable.default, variable.printed) = (None, None);
        }
    }
    Ok(snapshot)
}
