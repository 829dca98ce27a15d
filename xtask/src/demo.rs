//! The demo: builds the program with its plugins, and runs `remora demo`. Also recordings of what a program
//! prints.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{plugin, plugins, run, setup, target};

/// Runs it with these arguments of its own.
pub(crate) fn show(arguments: &[String]) -> Result<()> {
    setup::run_quietly()?;
    plugin::build_beside(&[], &plugins()?)?;
    run(Command::new(target().join("release/remora")).arg("demo").args(arguments))
}

/// Runs a program and writes what it prints, and when, as a recording that asciinema plays (version 2 of its
/// format: a line of JSON for the terminal, then one for each line of output).
pub(crate) fn record(arguments: &[String]) -> Result<()> {
    let [file, program, arguments @ ..] = arguments else { bail!("cargo xtask record FILE PROGRAM [ARGS]") };
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let title = [&[name.into_owned()], arguments].concat().join(" ");
    let mut out = BufWriter::new(std::fs::File::create(file).with_context(|| file.clone())?);
    let header = json!({"version": 2, "width": 100, "height": 40, "title": title});
    writeln!(out, "{header}")?;
    let (said, say) = std::io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(say.try_clone()?).stderr(say);
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| program.clone())?;
    // Its own ends of the pipe would keep it open.
    drop(command);
    for line in BufReader::new(said).lines() {
        let millis = u32::try_from(began.elapsed().as_millis())?;
        writeln!(out, "{}", json!([f64::from(millis) / 1e3, "o", format!("{}\r\n", line?)]))?;
    }
    out.flush()?;
    let status = child.wait()?;
    if !status.success() {
        bail!("{title}: {status}");
    }
    Ok(())
}
