//! The command line: what all commands share, and the list of commands.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};
use server::{Environment, Overrides, SslMode, Target};

use crate::commands;
use crate::exit::Exit;

/// Move data into, out of and around MariaDB and MySQL, fast and without losing any.
#[derive(Debug, Parser)]
#[command(name = "remora", version, disable_help_flag = true, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print a summary of the options; --help explains them
    #[arg(short = '?', long, global = true, action = ArgAction::Help, help_heading = "General")]
    help: Option<bool>,

    /// Print lines of JSON to stdout, each with a message_type
    #[arg(long, global = true, help_heading = "General")]
    pub(crate) json: bool,

    /// Print errors only
    #[arg(long, short, global = true, help_heading = "General")]
    pub(crate) quiet: bool,

    /// Say more about what is decided; twice for more
    #[arg(long, short, global = true, action = ArgAction::Count, help_heading = "General")]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Backup(Box<commands::backup::Arguments>),
    Cron(commands::cron::Arguments),
    Diff(Box<commands::diff::Arguments>),
    Dump(Box<commands::dump::Arguments>),
    Import(Box<commands::import::Arguments>),
    List(commands::list::Arguments),
    Load(Box<commands::load::Arguments>),
    Lock(Box<commands::lock::Arguments>),
    Prune(commands::prune::Arguments),
    Queue(commands::queue::Arguments),
    Restore(commands::restore::Arguments),
    Routines(commands::routines::Arguments),
    #[command(subcommand)]
    Sandbox(commands::sandbox::Action),
    #[command(subcommand)]
    Url(commands::url::Action),
    Undo(Box<commands::undo::Arguments>),
    Vars(Box<commands::vars::Arguments>),
    Verify(commands::verify::Arguments),
}

/// How to reach the server: as the MariaDB and MySQL clients do it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// The whole address in one: mysql://user@host:port/db or unix:///path/to.sock
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Host; localhost means the socket [default: localhost]
    #[arg(short = 'h', long, value_name = "NAME")]
    host: Option<String>,

    /// TCP port [default: 3306]
    #[arg(short = 'P', long, value_name = "N")]
    port: Option<u16>,

    /// Socket of a server on this machine
    #[arg(short = 'S', long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Account [default: your login name]
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,

    /// Password, attached: -pSECRET or --password=SECRET. Better in ~/.my.cnf or MYSQL_PWD
    #[arg(short, long, value_name = "SECRET", require_equals = true)]
    password: Option<String>,

    /// Database for table names without one
    #[arg(short = 'D', long, value_name = "NAME")]
    database: Option<String>,

    /// Read this option file and no other
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,

    /// Read this option file after the global ones
    #[arg(long, value_name = "FILE")]
    defaults_extra_file: Option<PathBuf>,

    /// Also read groups with this suffix: _test adds group client_test
    #[arg(long, value_name = "SUFFIX")]
    defaults_group_suffix: Option<String>,

    /// Read no option file
    #[arg(long)]
    no_defaults: bool,

    /// TLS: disabled, preferred, required, verify-ca or verify-identity [default: preferred]
    #[arg(long, value_name = "MODE")]
    ssl_mode: Option<SslMode>,

    /// CA certificates the server's must lead to
    #[arg(long, value_name = "FILE")]
    ssl_ca: Option<PathBuf>,

    /// Our own certificate
    #[arg(long, value_name = "FILE")]
    ssl_cert: Option<PathBuf>,

    /// The key of our own certificate
    #[arg(long, value_name = "FILE")]
    ssl_key: Option<PathBuf>,

    /// Seconds to wait for a connection [default: 30]
    #[arg(long, value_name = "SECONDS")]
    connect_timeout: Option<u64>,
}

impl ServerArgs {
    /// The server at this address instead, with the other options as they are.
    pub(crate) fn at(&self, url: &str) -> ServerArgs {
        ServerArgs { url: Some(url.to_owned()), ..self.clone() }
    }

    /// The same server through a socket on this machine that leads to it.
    pub(crate) fn through(&self, socket: &Path) -> ServerArgs {
        let (host, socket) = (Some("localhost".to_owned()), Some(socket.to_owned()));
        ServerArgs { url: None, host, port: None, socket, ..self.clone() }
    }

    /// The server of a socket where its administrator needs no password, and nothing is read from option
    /// files.
    pub(crate) fn sandbox(&self, socket: &Path) -> ServerArgs {
        ServerArgs { user: Some("root".to_owned()), no_defaults: true, ..self.through(socket) }
    }

    /// Where the server may be reached on its machine, as ssh takes it: sockets, or host and port.
    pub(crate) fn places(&self) -> Vec<String> {
        let host = self.host.as_deref().filter(|host| *host != "localhost");
        match (&self.socket, host) {
            (Some(socket), _) => vec![socket.display().to_string()],
            (None, Some(host)) => vec![format!("{host}:{}", self.port.unwrap_or(3306))],
            (None, None) => server::SOCKETS.iter().map(|socket| (*socket).to_owned()).collect(),
        }
    }

    /// What to connect to, from the command line, option files and the environment.
    pub(crate) fn target(&self, password: Option<String>) -> Result<Target, server::Error> {
        let this = self.clone();
        let overrides = Overrides {
            url: this.url,
            host: this.host,
            port: this.port,
            socket: this.socket,
            user: this.user,
            password,
            database: this.database,
            defaults_file: this.defaults_file,
            defaults_extra_file: this.defaults_extra_file,
            defaults_group_suffix: this.defaults_group_suffix,
            no_defaults: this.no_defaults,
            ssl_mode: this.ssl_mode,
            ssl_ca: this.ssl_ca,
            ssl_cert: this.ssl_cert,
            ssl_key: this.ssl_key,
            connect_timeout: this.connect_timeout.map(Duration::from_secs),
        };
        Target::resolve(&overrides, &environment())
    }
}

fn environment() -> Environment {
    let text = |name| std::env::var(name).ok();
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    Environment {
        home: path("HOME"),
        user: text("USER").or_else(|| text("LOGNAME")).or_else(login_name),
        mysql_pwd: text("MYSQL_PWD"),
        mysql_host: text("MYSQL_HOST"),
        mysql_tcp_port: text("MYSQL_TCP_PORT"),
        mysql_unix_port: path("MYSQL_UNIX_PORT"),
        mysql_home: path("MYSQL_HOME"),
        mariadb_home: path("MARIADB_HOME"),
        mysql_group_suffix: text("MYSQL_GROUP_SUFFIX"),
        mariadb_group_suffix: text("MARIADB_GROUP_SUFFIX"),
    }
}

/// Cron sets no USER; root is the one account whose name its number tells.
fn login_name() -> Option<String> {
    rustix::process::getuid().is_root().then(|| "root".to_owned())
}

/// Every command's help ends with the exit codes.
pub(crate) fn with_exit_status(command: clap::Command) -> clap::Command {
    let lines: String =
        Exit::ALL.iter().map(|exit| format!("  {:>3}  {}\n", exit.code(), exit.meaning())).collect();
    let status = format!("EXIT STATUS\n{lines}");
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.after_help(status.clone()), |command, name| {
        command.mut_subcommand(name, |sub| {
            let examples = sub.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
            sub.after_help(format!("{examples}{status}"))
        })
    })
}

/// Diagnostics go to stderr, at the level of `-v` or of `REMORA_LOG`.
pub(crate) fn log(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = std::env::var("REMORA_LOG").unwrap_or_else(|_| level.to_owned());
    let filter = tracing_subscriber::EnvFilter::new(filter);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        with_exit_status(Cli::command()).debug_assert();
    }

    #[test]
    fn every_command_tells_its_exit_status() {
        let mut command = with_exit_status(Cli::command());
        command.build();
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("EXIT STATUS"), "{}", sub.get_name());
        }
    }
}
