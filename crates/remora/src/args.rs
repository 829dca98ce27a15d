//! Arguments that several commands share: how to reach a server, and what is masked.

mod mask;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use host::{Address, Call, Machine};
use humanize::shell::with_option;
use repository::address::is_in_store;
use server::{Environment, Overrides, SslMode, Target};
use snapshot::server::Connect;

use crate::named_sandbox::running;
use crate::password::without_password;

pub(crate) use mask::MaskArgs;

/// How to reach the server: as the MariaDB and MySQL clients do it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// The whole address in one: mysql://user@host:port/db, unix:///path/to.sock or sandbox:NAME/db
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

    /// Also read this login path of ~/.mylogin.cnf, which mysql_config_editor writes
    #[arg(long, value_name = "NAME")]
    login_path: Option<String>,

    /// TLS: disabled, preferred, required, verify-ca or verify-identity [default: preferred]
    #[arg(long, value_name = "MODE")]
    ssl_mode: Option<SslMode>,

    /// File with the certificates of the authorities that may have signed the server's certificate
    #[arg(long, value_name = "FILE")]
    ssl_ca: Option<PathBuf>,

    /// The client's certificate
    #[arg(long, value_name = "FILE")]
    ssl_cert: Option<PathBuf>,

    /// The private key of the client's certificate
    #[arg(long, value_name = "FILE")]
    ssl_key: Option<PathBuf>,

    /// Seconds to wait for a connection [default: 30]
    #[arg(long, value_name = "SECONDS")]
    connect_timeout: Option<u64>,

    /// Whether it is a sandbox, which nothing but the command line says how to reach.
    #[arg(skip)]
    is_sandbox: bool,
}

/// What precedes the name of a sandbox in an address.
pub(crate) const SANDBOX: &str = "sandbox:";

/// Whether a word is the address of a server, and not a file or another word.
pub(crate) fn is_address(word: &str) -> bool {
    let is_url = word.contains("://") && !is_in_store(Path::new(word));
    is_url || word.starts_with(SANDBOX)
}

impl ServerArgs {
    /// The server at this address instead, with the other options unchanged.
    pub(crate) fn at(&self, url: &str) -> ServerArgs {
        ServerArgs { url: Some(url.to_owned()), ..self.clone() }
    }

    /// The server at this address, with the account that it names, whatever -u says.
    pub(crate) fn logged_in_at(&self, url: &str) -> ServerArgs {
        ServerArgs { user: None, ..self.at(url) }
    }

    /// A command for the same server, as a message tells somebody to type it: with the options that lead to
    /// the server, and never with a password. What option files and the environment say is left to them.
    pub(crate) fn on_server(&self, line: &str) -> String {
        let shown = |path: &PathBuf| path.display().to_string();
        let url = self.url.as_ref();
        let options = [
            ("--url", url.map(|url| without_password(url).map_or_else(|| url.clone(), |(url, _)| url))),
            ("-h", self.host.clone()),
            ("-P", self.port.map(|port| port.to_string())),
            ("-S", self.socket.as_ref().map(shown)),
            ("-u", self.user.clone()),
            ("--defaults-file", self.defaults_file.as_ref().map(shown)),
            ("--defaults-extra-file", self.defaults_extra_file.as_ref().map(shown)),
            ("--defaults-group-suffix", self.defaults_group_suffix.clone()),
            ("--login-path", self.login_path.clone()),
            ("--ssl-mode", self.ssl_mode.map(|mode| mode.to_string())),
            ("--ssl-ca", self.ssl_ca.as_ref().map(shown)),
            ("--ssl-cert", self.ssl_cert.as_ref().map(shown)),
            ("--ssl-key", self.ssl_key.as_ref().map(shown)),
        ];
        let given = options.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let line = given.fold(line.to_owned(), |line, (option, value)| with_option(&line, option, &value));
        if self.no_defaults { format!("{line} --no-defaults") } else { line }
    }

    /// Whether an option names a server.
    pub(crate) fn is_named(&self) -> bool {
        self.url.is_some() || self.host.is_some() || self.port.is_some() || self.socket.is_some()
    }

    /// The suffix for further groups in option files.
    pub(crate) fn group_suffix(&self) -> Option<&str> {
        self.defaults_group_suffix.as_deref()
    }

    /// The same server, through a local socket that leads to it.
    pub(crate) fn through(&self, socket: &Path) -> ServerArgs {
        let (host, socket) = (Some("localhost".to_owned()), Some(socket.to_owned()));
        ServerArgs { url: None, host, port: None, socket, ..self.clone() }
    }

    /// The sandbox of a name, as its administrator: it needs no password, and no option file or variable of
    /// the environment is meant for it.
    pub(crate) fn sandbox(&self, name: &str) -> anyhow::Result<ServerArgs> {
        let user = self.user.clone().or_else(|| Some("root".to_owned()));
        let through = self.through(&running(name)?);
        Ok(ServerArgs { user, no_defaults: true, is_sandbox: true, ..through })
    }

    /// Where the server may be reached on its own machine, for ssh: sockets, or host and port.
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
        let this = self.in_sandbox()?;
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
            login_path: this.login_path,
            ssl_mode: this.ssl_mode,
            ssl_ca: this.ssl_ca,
            ssl_cert: this.ssl_cert,
            ssl_key: this.ssl_key,
            connect_timeout: this.connect_timeout.map(Duration::from_secs),
        };
        let environment = if this.is_sandbox { Environment::default() } else { environment() };
        Target::resolve(&overrides, &environment)
    }

    /// The same, with the address of a sandbox replaced by its socket.
    fn in_sandbox(&self) -> Result<ServerArgs, server::Error> {
        let Some(place) = self.url.as_ref().and_then(|url| url.strip_prefix(SANDBOX)) else {
            return Ok(self.clone());
        };
        let place = place.strip_prefix("//").unwrap_or(place);
        let (name, database) = place.split_once('/').unwrap_or((place, ""));
        let found = self.sandbox(name).map_err(|error| server::Error::BadUrl { why: error.to_string() })?;
        let database = self.database.clone().or_else(|| Some(database.to_owned()));
        Ok(ServerArgs { database: database.filter(|name| !name.is_empty()), ..found })
    }
}

/// A server and the password for it, which was hidden from the list of processes.
pub(crate) struct Account<'a> {
    pub(crate) server: &'a ServerArgs,
    pub(crate) password: Option<String>,
}

impl Connect for Account<'_> {
    fn target(&self, through: Option<&Path>) -> Result<Target, server::Error> {
        let password = self.password.clone();
        through.map_or_else(|| self.server.clone(), |socket| self.server.through(socket)).target(password)
    }

    fn places(&self) -> Vec<String> {
        self.server.places()
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
        mysql_test_login_file: path("MYSQL_TEST_LOGIN_FILE"),
        mariadb_home: path("MARIADB_HOME"),
        mysql_group_suffix: text("MYSQL_GROUP_SUFFIX"),
        mariadb_group_suffix: text("MARIADB_GROUP_SUFFIX"),
    }
}

/// Cron does not set USER; root is the only account whose name follows from its number.
fn login_name() -> Option<String> {
    rustix::process::getuid().is_root().then(|| "root".to_owned())
}

/// The machine of the server, to write files there.
#[derive(Clone, Debug, Args)]
pub(crate) struct MachineArgs {
    /// The machine that the server runs on: --physical writes its files there through ssh, as the server's
    /// user or as root. Say how to connect to the server itself as usual, such as -h [default: this machine]
    #[arg(long, value_name = "ssh://USER@HOST[:PORT]", value_parser = machine, requires = "physical")]
    server_at: Option<Address>,

    /// An option for ssh, as after its -o, such as ProxyJump=bastion
    #[arg(long, value_name = "OPTION", requires = "server_at")]
    ssh_option: Vec<String>,
}

impl MachineArgs {
    /// Connects to it.
    pub(crate) fn reach(&self) -> std::io::Result<Machine> {
        let call = Call { options: &self.ssh_option, ..Call::default() };
        Machine::reach(self.server_at.as_ref(), &call)
    }
}

/// A machine that ssh reaches.
pub(crate) fn machine(text: &str) -> Result<Address, String> {
    let place = text.strip_prefix("ssh://").ok_or_else(|| "write ssh://user@host".to_owned())?;
    place.trim_end_matches('/').parse()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(disable_help_flag = true)]
    struct Line {
        #[command(flatten)]
        server: ServerArgs,
    }

    #[test]
    fn a_hint_names_the_server_and_no_password() {
        let hint = |words: &[&str]| {
            let line = Line::parse_from([&["x"], words].concat());
            line.server.on_server("remora kill 7")
        };
        assert_eq!(hint(&[]), "remora kill 7");
        assert_eq!(hint(&["--url", "sandbox:a/web"]), "remora kill 7 --url sandbox:a/web");
        assert_eq!(
            hint(&["-h", "db1", "-P", "3307", "-u", "it's", "--password=SeCrEt", "-S", "/a b"]),
            "remora kill 7 -h db1 -P 3307 -S '/a b' -u 'it'\\''s'"
        );
        assert_eq!(
            hint(&["--login-path", "far", "--ssl-mode", "verify-ca", "--no-defaults"]),
            "remora kill 7 --login-path far --ssl-mode verify-ca --no-defaults"
        );
        let server = Line::parse_from(["x", "-u", "mon"]).server.at("mysql://u:SeCrEt@db1:3307/d");
        assert_eq!(server.on_server("remora kill 7"), "remora kill 7 --url mysql://u@db1:3307/d -u mon");
    }
}
