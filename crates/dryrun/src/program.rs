//! Asks a server's program for its options; no server is started.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use status::variable::plugin::Load;
use status::variable::{Help, Snapshot, candidates, judge_probe, shipped};

/// How long a program may take to print its help. It normally takes a fifth of a second.
const PATIENCE: Duration = Duration::from_secs(60);
/// Makes a program print its options.
const HELP: [&str; 2] = ["--verbose", "--help"];
const LOOK: Duration = Duration::from_millis(5);

/// What a program says about its options.
pub fn read(path: &Path) -> anyhow::Result<Snapshot> {
    if !path.is_file() {
        bail!("there is no program {}", path.display());
    }
    help(Command::new(path), &[]).with_context(|| path.display().to_string())
}

/// Adds the options of plugins to what is known about a server. Returns those whose libraries the program
/// can't load.
pub fn learn_plugins(
    command: &dyn Fn() -> Command,
    options: &[String],
    snapshot: &mut Snapshot,
    loads: Vec<Load>,
) -> anyhow::Result<Vec<Load>> {
    if loads.is_empty() {
        return Ok(loads);
    }
    let alone = help(command(), options)?;
    let mut unknown = Vec::new();
    for load in loads {
        let option = format!("--plugin-load={}", load.text);
        let mut listed = help(command(), &[options, &[option]].concat())?;
        listed.variables.retain(|name, _| !alone.variables.contains_key(name));
        if listed.variables.is_empty() {
            // Every plugin has at least the option that switches it off.
            unknown.push(load);
        }
        snapshot.learn(&listed);
    }
    Ok(unknown)
}

/// What the program of a command says about its options, when it is started with these.
pub fn help(command: Command, options: &[String]) -> anyhow::Result<Snapshot> {
    let output = ask(command, options, &HELP)?;
    let text = String::from_utf8_lossy(&output.stdout);
    Help::read(&text).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        anyhow::Error::new(error).context(format!("it said: {last}"))
    })
}

/// What a program says of options, and whether it refuses one of them. No server is started.
pub fn judge(path: &Path, options: &[String], can_validate: bool) -> anyhow::Result<(bool, String)> {
    let how: &[&str] = match can_validate {
        // Without the first one it ends where the folder that was compiled in is missing.
        true => &["--secure-file-priv=", "--log-error-verbosity=2", "--validate-config"],
        false => &HELP,
    };
    let output = ask(Command::new(path), options, how).with_context(|| path.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_refused = if can_validate { !output.status.success() } else { said.contains("[ERROR]") };
    Ok((is_refused, said))
}

/// Adds the options that the program accepts but does not list. Each is tried in a run of its own.
pub fn probe(command: &dyn Fn() -> Command, program: &Path, snapshot: &mut Snapshot) -> anyhow::Result<()> {
    let content = std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let others = shipped::all();
    for name in candidates(&content, snapshot, &others.iter().collect::<Vec<_>>()) {
        let output = ask(command(), &[format!("--loose-{}=1", name.replace('_', "-"))], &HELP)?;
        if let Some(variable) = judge_probe(&name, &String::from_utf8_lossy(&output.stderr)) {
            snapshot.variables.insert(name, variable);
        }
    }
    Ok(())
}

fn ask(mut command: Command, options: &[String], how: &[&str]) -> anyhow::Result<Output> {
    command.arg("--no-defaults");
    if rustix::process::geteuid().is_root() {
        // It refuses to run as root unless told so.
        command.arg("--user=root");
    }
    command.args(options).args(how);
    command.env_remove("TMPDIR").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("it can't be started")?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        err.as_mut().map(|err| err.read_to_end(&mut said)).transpose().map(|_| said)
    });
    let printed = std::thread::spawn(move || {
        let mut said = Vec::new();
        out.as_mut().map(|out| out.read_to_end(&mut said)).transpose().map(|_| said)
    });
    let end = Instant::now() + PATIENCE;
    let never = crossbeam_channel::never::<()>();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            bail!("it printed no help for a minute; is it a server's program?");
        }
        never.recv_timeout(LOOK).ok();
    };
    let said = |thread: std::thread::JoinHandle<std::io::Result<Vec<u8>>>| {
        thread.join().unwrap_or_else(|_| Ok(Vec::new()))
    };
    Ok(Output { status, stdout: said(printed)?, stderr: said(reader)? })
}
