//! The demo: builds the program with its plugins, and runs `remora demo`.

use std::process::Command;

use anyhow::Result;

use crate::{plugin, plugins, run, setup, target};

/// Runs it with these arguments of its own.
pub(crate) fn show(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    plugin::build_beside(&[], &plugins()?)?;
    run(Command::new(target().join("release/remora")).arg("demo").args(arguments))
}
