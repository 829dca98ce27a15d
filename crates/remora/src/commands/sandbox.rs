//! `remora sandbox`

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command as Process;

use anyhow::Context;
use clap::{Args, Subcommand};
use instance::plugins;
use instance::server_folders::server_folders;
use progress::Progress;
use sandbox::{Installation, Places, Product, Sandbox, SandboxInfo, ServerChoice, Settings};
use serde_json::json;
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::named_sandbox::{find, running};
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora sandbox start                    the installed server, called 'default', reached by its socket
  remora sandbox shell -- -e 'SELECT 1'   the SQL client on it
  remora sandbox start old --server mysql-5.6 --port 0 --option --max-allowed-packet=64M
  remora sandbox start mine --server /opt/mysql/bin/mysqld
  remora sandbox start urls --plugins     with url_pack() and its companions
  remora sandbox start many --galera      a cluster: many-1, many-2 and many-3
  remora sandbox list                     which there are, and which run
  remora sandbox stop old                 its data stays, and 'start old' finds it again
  remora sandbox stop --all --remove      no trace";

/// From 11.4 on MariaDB's client demands a certificate, also over a socket, and a sandbox has none. Earlier
/// ones know the option too; those of MySQL neither know nor need it.
const UNVERIFIED: &str = "--skip-ssl-verify-server-cert";

/// Run a private, throw-away server in a folder
///
/// The server has its own data, socket and options, reads no option file, listens to no network unless
/// asked to, and knows one account: root without a password. It takes about a second to start: the data
/// folder is initialised once for each version and copied from then on.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// Start a new sandbox, or a stopped one with its data
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

    #[arg(long, value_name = "SERVER|PATH", help = server_help())]
    server: Option<ServerChoice>,

    /// Keep it in this folder instead of the cache
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Listen on this port of 127.0.0.1; 0 takes a free one [default: none, or as the sandbox was started
    /// before]
    #[arg(long, value_name = "N")]
    port: Option<u16>,

    /// An option for the server, such as --option --innodb-buffer-pool-size=1G, with or without its dashes.
    /// May be given several times; if none is given, a stopped sandbox keeps those it had. --option none
    /// starts it without any
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    option: Vec<String>,

    /// Load remora's plugins: the URL functions, and ENGINE=QUEUE if it was built for this server
    #[arg(long)]
    plugins: bool,

    /// Start a Galera cluster of N servers called NAME-1, NAME-2 and so on [N: 3 without a number]
    #[arg(
        long, value_name = "N", num_args = 0..=1, default_missing_value = "3", require_equals = true,
        conflicts_with_all = ["folder", "port"], value_parser = clap::value_parser!(u8).range(2..=9),
    )]
    galera: Option<u8>,

    /// Stay in the foreground, and stop the server when this command ends or whoever started it does
    #[arg(long)]
    tie: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Its name
    #[arg(required_unless_present = "all")]
    name: Option<String>,

    /// All sandboxes
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

pub(crate) fn run(action: Action, report: &Report) -> anyhow::Result<Exit> {
    let places = server_folders()?;
    match action {
        Action::Start(start) => self::start(start, &places, report)?,
        Action::Stop(stop) => self::stop(&stop, &places, report)?,
        Action::List => list(&places, report)?,
        Action::Shell(shell) => self::shell(&shell)?,
    }
    Ok(Exit::Done)
}

pub(crate) fn server_help() -> String {
    format!(
        "{}, or the path of your own mariadbd or mysqld [default: what the sandbox was before, else the server \
         that is installed]",
        Product::ids()
    )
}

fn start(start: Start, places: &Places, report: &Report) -> anyhow::Result<()> {
    // Before a server is fetched for it.
    sandbox::check_name(&start.name)?;
    let known = sandbox::list(places);
    let before = known.iter().find(|listed| listed.name == start.name);
    let members = known.iter().filter(|listed| listed.cluster.as_ref() == Some(&start.name));
    let size = members.clone().count().max(usize::from(start.galera.unwrap_or(0)));
    let before = before.or(members.clone().next());
    let chosen = start.server.or(before.map(|before| before.server.clone()));
    let installation = installation(chosen, places, report)?;
    let mut libraries = Vec::new();
    if start.plugins {
        let plugins = plugins::libraries(&installation, size > 0)?;
        plugins.notes.iter().for_each(|note| report.note(note));
        libraries = plugins.found;
    }
    let settings = Settings {
        folder: start.folder,
        options: match (&before, start.option.as_slice()) {
            (Some(before), []) => before.options.clone(),
            (_, [none]) if none == "none" => Vec::new(),
            (_, options) => options.iter().map(|option| with_dashes(option)).collect(),
        },
        plugins: libraries.clone(),
        port: start.port.or(before.as_ref().and_then(|before| before.port)),
        tie_to_parent: start.tie,
        name: Some(start.name.clone()),
        ..Settings::default()
    };
    let mut signals = Signals::new(crate::stop::signals())?;
    if start.tie {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    }
    let mut sandboxes = if size > 0 {
        sandbox::start_cluster(&installation, places, &settings, size)?
    } else {
        vec![Sandbox::start(&installation, places, &settings)?]
    };
    if start.plugins {
        // In a cluster the statements that create functions reach the other members by themselves.
        install(&mut sandboxes[0], &libraries)?;
    }
    for (number, sandbox) in sandboxes.iter().enumerate() {
        let name = if size > 0 { format!("{}-{}", start.name, number + 1) } else { start.name.clone() };
        tell(&name, sandbox, &settings.options, report)?;
    }
    if start.tie {
        signals.forever().next();
    }
    Ok(())
}

/// The programs of a server, or of the one that is installed; what is not here is fetched.
pub(crate) fn installation(
    chosen: Option<ServerChoice>,
    places: &Places,
    report: &Report,
) -> anyhow::Result<Installation> {
    let server = chosen.unwrap_or_else(ServerChoice::default_here);
    match (server.find(places), server) {
        (Err(sandbox::Error::Missing { .. }), ServerChoice::Product(product)) => {
            Ok(sandbox::fetch(places, product, &mut |line| report.note(line))?)
        }
        (found, _) => Ok(found?),
    }
}

/// Makes a server that was started with plugins use them.
pub(crate) fn install(sandbox: &mut Sandbox, libraries: &[PathBuf]) -> anyhow::Result<()> {
    plugins::install(sandbox.socket(), libraries)?;
    if plugins::has_engine(libraries) {
        // Only an engine that is there at the start has transactions.
        sandbox.restart()?;
    }
    Ok(())
}

/// An option as the server takes it: without dashes it would be an argument, and servers abort silently on
/// arguments.
fn with_dashes(option: &str) -> String {
    match option.starts_with('-') {
        true => option.to_owned(),
        false => format!("--{option}"),
    }
}

/// Reports how to reach a server that was started.
fn tell(name: &str, sandbox: &Sandbox, options: &[String], report: &Report) -> anyhow::Result<()> {
    let (server, version) = (sandbox.installation(), &sandbox.installation().version);
    if report.is_json() {
        report.message(&json!({
            "message_type": "sandbox", "name": name, "server": ServerChoice::from(server), "version": version,
            "folder": sandbox.folder(), "socket": sandbox.socket(), "port": sandbox.port(), "pid": sandbox.pid(),
        }))?;
        return Ok(());
    }
    report.data(&format!("{} ({version}) is running", server.title()))?;
    if !options.is_empty() {
        report.data(&format!("  with {}", options.join(" ")))?;
    }
    report.data(&format!("  remora sandbox shell {name}"))?;
    let client = format!("mariadb --no-defaults {UNVERIFIED} -u root");
    report.data(&format!("  {client} -S {}", sandbox.socket().display()))?;
    if let Some(port) = sandbox.port() {
        report.data(&format!("  {client} -h 127.0.0.1 -P {port}"))?;
    }
    Ok(())
}

fn stop(stop: &Stop, places: &Places, report: &Report) -> anyhow::Result<()> {
    let chosen: Vec<SandboxInfo> = match &stop.name {
        Some(name) => {
            let all = sandbox::list(places);
            let members: Vec<_> =
                all.into_iter().filter(|listed| listed.cluster.as_ref() == Some(name)).rev().collect();
            // The first member stops last, so that it has the latest state and can start first.
            if members.is_empty() { vec![find(name, places)?] } else { members }
        }
        None => sandbox::list(places),
    };
    for listed in chosen {
        if stop.remove {
            listed.remove(places)?;
            report.note(&format!("{} is removed", listed.name));
            continue;
        }
        let mut sandbox = Sandbox::open(&listed.folder)?;
        if sandbox.is_running() {
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
        let cluster = listed.cluster.map_or(String::new(), |cluster| format!(", of cluster {cluster}"));
        let (name, version) = (&listed.name, &listed.version);
        report
            .data(&format!("{name:<16} {version:<28} {state}{port}{cluster}, {}", listed.socket.display()))?;
    }
    Ok(())
}

fn shell(shell: &Shell) -> anyhow::Result<()> {
    let socket = running(&shell.name)?;
    let client = sandbox::client().context("there is no SQL client: apt-get install mariadb-client")?;
    let mut command = Process::new(&client);
    command.args(["--no-defaults", "--user=root"]).arg(format!("--socket={}", socket.display()));
    // They are for other servers, and the client would prefer such a host to the socket.
    for variable in ["MYSQL_HOST", "MYSQL_PWD"] {
        command.env_remove(variable);
    }
    if client.ends_with("mariadb") {
        command.arg(UNVERIFIED);
    }
    let error = command.args(&shell.client).exec();
    Err(error).context("the SQL client can't be started")
}
