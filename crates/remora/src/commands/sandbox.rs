//! `remora sandbox`

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command as Process;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use progress::Progress;
use sandbox::{Listed, Places, Product, Sandbox, Settings};
use serde_json::json;
use signal_hook::iterator::Signals;

use crate::exit::{self, Exit};
use crate::plugin;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora sandbox start                    a MariaDB 10.11 called 'default', reached by its socket only
  remora sandbox shell -- -e 'SELECT 1'   the SQL client on it
  remora sandbox start old --server mysql-5.6 --port 0 --option --max-allowed-packet=64M
  remora sandbox start urls --plugins     with url_pack() and its companions
  remora sandbox stop old                 its data stays, and 'start old' finds it again
  remora sandbox stop --all --remove      no trace";

/// Run a private, throw-away server in a folder
///
/// The server has its own data, socket and options, reads no option file, listens to no network unless
/// asked to, and knows one account: root without a password. It takes about a second to start: the data
/// folder is initialised once for each version and copied from then on.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// Start a sandbox, or start a stopped one again with its data
    Start(Start),
    /// Stop a sandbox; its data stays
    Stop(Stop),
    /// List the sandboxes
    List,
    /// Open the SQL client on a sandbox
    Shell(Shell),
}

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Its name
    #[arg(default_value = "default")]
    name: String,

    /// mariadb-10.11, mariadb-11.4 or mysql-5.6
    #[arg(long, value_name = "SERVER", default_value = "mariadb-10.11")]
    server: Product,

    /// Keep it in this folder instead of the cache
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Listen on this port of 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N")]
    port: Option<u16>,

    /// An option for the server, such as --option --innodb-buffer-pool-size=1G. May be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    option: Vec<String>,

    /// Load remora's plugins: the URL functions, and ENGINE=QUEUE where it was built for this server
    #[arg(long)]
    plugins: bool,

    /// Stay in the foreground, and stop the server when this command ends or whoever started it does
    #[arg(long)]
    tie: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Its name
    #[arg(required_unless_present = "all")]
    name: Option<String>,

    /// All that are running
    #[arg(long, conflicts_with = "name")]
    all: bool,

    /// Remove the data too
    #[arg(long)]
    remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Its name
    #[arg(default_value = "default")]
    name: String,

    /// Options for the client
    #[arg(last = true, value_name = "OPTION")]
    client: Vec<String>,
}

/// Where sandboxes and fetched servers are.
pub(crate) fn places() -> anyhow::Result<Places> {
    Places::customary(|name| std::env::var_os(name))
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no place for sandboxes")
}

pub(crate) fn run(action: Action, report: &Report) -> anyhow::Result<Exit> {
    let places = places()?;
    match action {
        Action::Start(start) => self::start(start, &places, report)?,
        Action::Stop(stop) => self::stop(&stop, &places, report)?,
        Action::List => list(&places, report)?,
        Action::Shell(shell) => self::shell(&shell, &places)?,
    }
    Ok(Exit::Done)
}

fn start(start: Start, places: &Places, report: &Report) -> anyhow::Result<()> {
    let installation = match sandbox::find(places, start.server) {
        Err(sandbox::Error::Missing { .. }) if start.server != Product::MariaDb1011 => {
            sandbox::fetch(places, start.server, &mut |line| report.note(line))?
        }
        found => found?,
    };
    let libraries = if start.plugins { plugin::libraries(start.server)? } else { Vec::new() };
    let settings = Settings {
        folder: start.folder,
        options: start.option,
        plugins: libraries.clone(),
        port: start.port,
        tie_to_parent: start.tie,
        name: Some(start.name.clone()),
        ..Settings::default()
    };
    let mut signals = Signals::new(super::stop_signals())?;
    if start.tie {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    }
    let sandbox = Sandbox::start(&installation, places, &settings)?;
    if start.plugins {
        plugin::install(sandbox.socket(), &libraries)?;
    }
    let socket = sandbox.socket().display();
    if report.is_json() {
        report.message(&json!({
            "message_type": "sandbox", "name": start.name, "server": start.server.id(), "version": installation.version,
            "folder": sandbox.folder(), "socket": sandbox.socket(), "port": sandbox.port(), "pid": sandbox.pid(),
        }))?;
    } else {
        report.data(&format!("{} ({}) is running", start.server, installation.version))?;
        report.data(&format!("  remora sandbox shell {}", start.name))?;
        report.data(&format!("  mariadb --no-defaults -u root -S {socket}"))?;
        if let Some(port) = sandbox.port() {
            report.data(&format!("  mariadb --no-defaults -u root -h 127.0.0.1 -P {port}"))?;
        }
    }
    if start.tie {
        signals.forever().next();
    }
    Ok(())
}

fn stop(stop: &Stop, places: &Places, report: &Report) -> anyhow::Result<()> {
    let chosen: Vec<Listed> = match &stop.name {
        Some(name) => vec![find(name, places)?],
        None => sandbox::list(places),
    };
    for listed in chosen {
        let mut sandbox = Sandbox::open(&listed.folder)?;
        let was_running = sandbox.is_running();
        if stop.remove {
            sandbox.remove()?;
            report.note(&format!("{} is removed", listed.name));
        } else if was_running {
            sandbox.stop()?;
            report.note(&format!("{} is stopped", listed.name));
        }
    }
    Ok(())
}

fn list(places: &Places, report: &Report) -> anyhow::Result<()> {
    let all = sandbox::list(places);
    if report.is_json() {
        for listed in all {
            let mut line = json!(listed);
            line["message_type"] = json!("sandbox");
            report.message(&line)?;
        }
        return Ok(());
    }
    for listed in all {
        let state = listed.pid.map_or("stopped".to_owned(), |pid| format!("running, pid {pid}"));
        let port = listed.port.map_or(String::new(), |port| format!(", port {port}"));
        let (name, version) = (&listed.name, &listed.version);
        report.data(&format!("{name:<16} {version:<28} {state}{port}, {}", listed.socket.display()))?;
    }
    Ok(())
}

fn shell(shell: &Shell, places: &Places) -> anyhow::Result<()> {
    let listed = find(&shell.name, places)?;
    if listed.pid.is_none() {
        bail!("{0} is stopped; remora sandbox start {0}", shell.name);
    }
    let client = sandbox::client().context("there is no SQL client: apt-get install mariadb-client")?;
    let mut command = Process::new(client);
    command.args(["--no-defaults", "--user=root"]).arg(format!("--socket={}", listed.socket.display()));
    let error = command.args(&shell.client).exec();
    Err(error).context("the SQL client can't be started")
}

/// The sandbox of a name.
pub(crate) fn find(name: &str, places: &Places) -> anyhow::Result<Listed> {
    let all = sandbox::list(places);
    let names: Vec<_> = all.iter().map(|listed| listed.name.clone()).collect();
    all.into_iter().find(|listed| listed.name == name).ok_or_else(|| {
        let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        exit::usage(format!("no sandbox is called {name}; known: {known}"))
    })
}
