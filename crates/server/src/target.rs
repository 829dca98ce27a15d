//! What to connect to, merged from the command line, a URL, option files and the environment.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::options::{OptionFile, OptionFiles, OptionLine, read_login_file, read_option_files};
use crate::tls::{SslMode, Tls, TlsOptions};
use crate::url::{self, Url};
use crate::{Error, Password};

/// The groups read from option files; a later file overrides an earlier one, a later group does not.
const GROUPS: [&str; 6] = ["client", "client-server", "client-mariadb", "mysql", "mariadb-client", OWN_GROUP];

/// In this group an unknown option is an error, because it can only be meant for this program.
const OWN_GROUP: &str = "remora";

const PORT_DEFAULT: u16 = 3306;

/// Where servers have their socket: on Debian and most others, in older layouts, and in MySQL's own builds.
pub const SOCKETS: [&str; 3] = ["/run/mysqld/mysqld.sock", "/var/run/mysqld/mysqld.sock", "/tmp/mysql.sock"];

/// The client library would wait as long as the operating system does, which is minutes.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The options of the command line, all optional. They override everything else, and single options override
/// the URL.
#[derive(Default, Clone)]
pub struct Overrides {
    /// `mysql://user:password@host:port/db?ssl-mode=...`, `mariadb://...` or `unix:///path`.
    pub url: Option<String>,
    /// Host name or address; `localhost` means the socket unless a port is given too.
    pub host: Option<String>,
    /// TCP port.
    pub port: Option<u16>,
    /// Path of the server's socket.
    pub socket: Option<PathBuf>,
    /// Account name.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Schema to use.
    pub database: Option<String>,
    /// The only option file to read.
    pub defaults_file: Option<PathBuf>,
    /// An option file to read after the global ones and before `~/.my.cnf`.
    pub defaults_extra_file: Option<PathBuf>,
    /// Suffix of further groups to read: `_backup` adds `[client_backup]`.
    pub defaults_group_suffix: Option<String>,
    /// Read no option file at all, and the login file only for [`Overrides::login_path`].
    pub no_defaults: bool,
    /// A further group of the login file that `mysql_config_editor` writes.
    pub login_path: Option<String>,
    /// How TLS is used.
    pub ssl_mode: Option<SslMode>,
    /// CA certificates to trust.
    pub ssl_ca: Option<PathBuf>,
    /// Our certificate.
    pub ssl_cert: Option<PathBuf>,
    /// The key of our certificate.
    pub ssl_key: Option<PathBuf>,
    /// How long to wait for a server to answer.
    pub connect_timeout: Option<Duration>,
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overrides")
            .field("url", &self.url.as_ref().map(|_| "***"))
            .field("host", &self.host)
            .field("port", &self.port)
            .field("socket", &self.socket)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("database", &self.database)
            .field("defaults_file", &self.defaults_file)
            .field("defaults_extra_file", &self.defaults_extra_file)
            .field("defaults_group_suffix", &self.defaults_group_suffix)
            .field("no_defaults", &self.no_defaults)
            .field("login_path", &self.login_path)
            .field("ssl_mode", &self.ssl_mode)
            .field("ssl_ca", &self.ssl_ca)
            .field("ssl_cert", &self.ssl_cert)
            .field("ssl_key", &self.ssl_key)
            .field("connect_timeout", &self.connect_timeout)
            .finish()
    }
}

/// Values of the environment, read by the caller. Each field is the variable of that name.
#[derive(Default, Clone)]
pub struct Environment {
    /// `HOME`, for `~/.my.cnf` and `~/` in option files.
    pub home: Option<PathBuf>,
    /// The login name, which is the account when nothing else names one.
    pub user: Option<String>,
    /// `MYSQL_PWD`.
    pub mysql_pwd: Option<String>,
    /// `MYSQL_HOST`.
    pub mysql_host: Option<String>,
    /// `MYSQL_TCP_PORT`.
    pub mysql_tcp_port: Option<String>,
    /// `MYSQL_UNIX_PORT`.
    pub mysql_unix_port: Option<PathBuf>,
    /// `MYSQL_HOME`, a folder with a `my.cnf`.
    pub mysql_home: Option<PathBuf>,
    /// `MYSQL_TEST_LOGIN_FILE`, read instead of `~/.mylogin.cnf`.
    pub mysql_test_login_file: Option<PathBuf>,
    /// `MARIADB_HOME`; overrides `MYSQL_HOME`.
    pub mariadb_home: Option<PathBuf>,
    /// `MYSQL_GROUP_SUFFIX`.
    pub mysql_group_suffix: Option<String>,
    /// `MARIADB_GROUP_SUFFIX`; overrides `MYSQL_GROUP_SUFFIX`.
    pub mariadb_group_suffix: Option<String>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("home", &self.home)
            .field("user", &self.user)
            .field("mysql_pwd", &self.mysql_pwd.as_ref().map(|_| "***"))
            .field("mysql_host", &self.mysql_host)
            .field("mysql_tcp_port", &self.mysql_tcp_port)
            .field("mysql_unix_port", &self.mysql_unix_port)
            .field("mysql_home", &self.mysql_home)
            .field("mysql_test_login_file", &self.mysql_test_login_file)
            .field("mariadb_home", &self.mariadb_home)
            .field("mysql_group_suffix", &self.mysql_group_suffix)
            .field("mariadb_group_suffix", &self.mariadb_group_suffix)
            .finish()
    }
}

/// A server and how to log in to it. `Debug` and `Display` leave out the password.
#[derive(Debug, Clone)]
pub struct Target {
    /// Host name or address; `localhost` when a socket is used.
    pub host: String,
    /// TCP port, unless a socket is used.
    pub port: u16,
    /// Path of the socket; without one TCP is used.
    pub socket: Option<PathBuf>,
    /// Account name; empty is the anonymous account.
    pub user: String,
    /// Password; some authentication plugins distinguish a missing password from an empty one.
    pub password: Option<Password>,
    /// Schema to use.
    pub database: Option<String>,
    /// TLS, for TCP only.
    pub tls: Tls,
    /// How long to wait for a server to answer.
    pub connect_timeout: Duration,
    /// Learned at the first connection and shared by clones, because a futile request for TLS costs a
    /// connection and a line in the server's error log.
    pub(crate) offers_no_tls: Arc<AtomicBool>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "{}@localhost via {}", self.user, path.display()),
            None if self.host.contains(':') => write!(f, "{}@[{}]:{}", self.user, self.host, self.port),
            None => write!(f, "{}@{}:{}", self.user, self.host, self.port),
        }
    }
}

impl Target {
    /// Whether its address is one of this machine: a socket, or the loopback interface. Through a tunnel such
    /// an address may lead elsewhere.
    #[must_use]
    pub fn is_on_this_machine(&self) -> bool {
        self.socket.is_some() || is_loopback(&self.host)
    }

    /// Merges all sources: the command line overrides option files, later option files override earlier ones,
    /// these override the environment, and that overrides the built-in defaults.
    ///
    /// # Errors
    ///
    /// [`Error::OptionFile`], [`Error::BadUrl`] or [`Error::BadOption`] when a source is invalid in itself.
    pub fn resolve(overrides: &Overrides, env: &Environment) -> Result<Target, Error> {
        let mut options = ConnectionOptions::from_environment(env)?;
        let suffix = overrides.defaults_group_suffix.as_deref();
        let suffix = suffix.or(env.mariadb_group_suffix.as_deref()).or(env.mysql_group_suffix.as_deref());
        let mut lines = Vec::new();
        if !overrides.no_defaults {
            lines = read_option_files(&option_files(overrides, env), &GROUPS.map(str::to_owned), suffix)?;
        }
        lines.extend(login_lines(overrides, env, suffix)?);
        for line in &lines {
            options.option(line, suffix)?;
        }
        if let Some(text) = &overrides.url {
            options.url(url::parse(text)?)?;
        }
        options.overrides(overrides)?;
        options.resolve()
    }
}

/// The options of the login file, which MySQL's clients read behind all option files.
fn login_lines(
    overrides: &Overrides,
    env: &Environment,
    suffix: Option<&str>,
) -> Result<Vec<OptionLine>, Error> {
    let usual = || env.home.as_ref().map(|home| home.join(".mylogin.cnf"));
    let Some(file) = env.mysql_test_login_file.clone().or_else(usual) else { return Ok(Vec::new()) };
    let groups = if overrides.no_defaults { &[][..] } else { &GROUPS };
    let mut groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
    groups.extend(overrides.login_path.clone());
    let with_suffix: Vec<String> =
        suffix.iter().flat_map(|suffix| groups.iter().map(move |group| format!("{group}{suffix}"))).collect();
    groups.extend(with_suffix);
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let lines = read_login_file(&file, &groups)?;
    let has = |name: &String| lines.iter().any(|line| line.group.eq_ignore_ascii_case(name));
    if let Some(name) = overrides.login_path.as_ref().filter(|name| !has(name)) {
        let why = format!(
            "{} has no login path {name}: 'mysql_config_editor print --all' shows those that it has",
            file.display()
        );
        return Err(Error::BadOption { option: "login-path".into(), why });
    }
    Ok(lines)
}

/// The files that the MariaDB client would read. A file that is named twice counts at its last place.
fn option_files(overrides: &Overrides, env: &Environment) -> OptionFiles {
    let mut files: Vec<OptionFile> = Vec::new();
    let mut push = |path: PathBuf, required: bool| {
        files.retain(|file| file.path != path);
        files.push(OptionFile { path, required });
    };
    if let Some(only) = &overrides.defaults_file {
        push(only.clone(), true);
    } else {
        push("/etc/my.cnf".into(), false);
        push("/etc/mysql/my.cnf".into(), false);
        if let Some(home) = env.mariadb_home.as_ref().or(env.mysql_home.as_ref()) {
            push(home.join("my.cnf"), false);
        }
        if let Some(extra) = &overrides.defaults_extra_file {
            push(extra.clone(), true);
        }
        if let Some(home) = &env.home {
            push(home.join(".my.cnf"), false);
        }
    }
    OptionFiles { files, home: env.home.clone() }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Socket,
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "tcp" => Ok(Protocol::Tcp),
            "socket" => Ok(Protocol::Socket),
            _ => Err(format!("{text:?} is neither tcp nor socket")),
        }
    }
}

/// The result of the sources read so far; each overrides those before it.
#[derive(Default)]
struct ConnectionOptions {
    host: Option<String>,
    port: Option<u16>,
    socket: Option<PathBuf>,
    protocol: Option<Protocol>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    connect_timeout: Option<Duration>,
    tls: TlsOptions,
}

impl ConnectionOptions {
    fn from_environment(env: &Environment) -> Result<ConnectionOptions, Error> {
        let port = env.mysql_tcp_port.as_deref().map(|text| {
            text.parse().map_err(|_| Error::BadOption {
                option: "MYSQL_TCP_PORT".into(),
                why: format!("{text:?} is not a port"),
            })
        });
        Ok(ConnectionOptions {
            host: env.mysql_host.clone(),
            port: port.transpose()?,
            socket: env.mysql_unix_port.clone(),
            user: env.user.clone(),
            password: env.mysql_pwd.clone(),
            ..ConnectionOptions::default()
        })
    }

    /// Applies one line of an option file. Options of other clients are ignored, except in our own group.
    fn option(&mut self, line: &OptionLine, suffix: Option<&str>) -> Result<(), Error> {
        let wrong = |why: String| Error::OptionFile { file: line.file.clone(), line: line.line, why };
        let (name, loose) = match line.name.strip_prefix("loose-") {
            Some(name) => (name, true),
            None => (line.name.as_str(), false),
        };
        let ours = line.group.eq_ignore_ascii_case(OWN_GROUP)
            || suffix.is_some_and(|suffix| line.group.eq_ignore_ascii_case(&format!("{OWN_GROUP}{suffix}")));
        match self.set(name, line.value.as_deref()) {
            Ok(true) => Ok(()),
            Ok(false) if ours && !loose => Err(wrong(format!(
                "unknown option {name} in [{}]; write loose-{name} to have it passed over",
                line.group
            ))),
            Ok(false) => Ok(()),
            Err(why) => Err(wrong(format!("{name}: {why}"))),
        }
    }

    fn url(&mut self, url: Url) -> Result<(), Error> {
        // A URL names a complete place, so parts of another place from option files are not mixed in.
        (self.host, self.port, self.protocol) = (url.host, url.port, None);
        if url.port.is_some() {
            self.protocol = Some(Protocol::Tcp);
        }
        if url.socket.is_some() {
            (self.socket, self.protocol) = (url.socket, Some(Protocol::Socket));
        }
        replace(&mut self.user, url.user);
        replace(&mut self.password, url.password);
        replace(&mut self.database, url.database);
        for (name, value) in &url.parameters {
            let secret_or_place = ["host", "port", "user", "password"].contains(&name.as_str());
            let set = !secret_or_place
                && self
                    .set(name, Some(value))
                    .map_err(|why| Error::BadUrl { why: format!("{name}: {why}") })?;
            if !set {
                return Err(Error::BadUrl { why: format!("unknown parameter {name}") });
            }
        }
        Ok(())
    }

    fn overrides(&mut self, given: &Overrides) -> Result<(), Error> {
        if let (Some(host), Some(_)) = (&given.host, &given.socket)
            && !is_local(host)
        {
            let why = format!("a socket is on this machine, the host {host:?} is not: give one of the two");
            return Err(Error::BadOption { option: "socket".into(), why });
        }
        if given.host.is_some() {
            // A host other than that of the option files is another place, to which their protocol does not
            // apply.
            (self.host, self.protocol) = (given.host.clone(), None);
        }
        if given.port.is_some() {
            (self.port, self.protocol) = (given.port, Some(Protocol::Tcp));
        }
        if given.socket.is_some() {
            (self.socket, self.protocol) = (given.socket.clone(), Some(Protocol::Socket));
            self.host = given.host.clone();
        }
        replace(&mut self.user, given.user.clone());
        replace(&mut self.password, given.password.clone());
        replace(&mut self.database, given.database.clone());
        replace(&mut self.connect_timeout, given.connect_timeout);
        replace(&mut self.tls.mode, given.ssl_mode);
        replace(&mut self.tls.ca, given.ssl_ca.clone());
        replace(&mut self.tls.cert, given.ssl_cert.clone());
        replace(&mut self.tls.key, given.ssl_key.clone());
        Ok(())
    }

    /// Sets one option by its name in option files and URLs. `false`: the option is unknown. The error never
    /// repeats a password.
    fn set(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let (name, value) = match name.split_once('-') {
            Some(("skip" | "disable", rest)) if SWITCHES.contains(&rest) => (rest, Some("0")),
            Some(("enable", rest)) if SWITCHES.contains(&rest) => (rest, Some("1")),
            _ => (name, value),
        };
        let text = || value.filter(|text| !text.is_empty()).ok_or_else(|| "needs a value".to_owned());
        match name {
            "host" => self.host = Some(text()?.to_owned()),
            "port" => self.port = Some(number(text()?)?).filter(|&port| port != 0),
            "socket" => self.socket = Some(text()?.into()),
            "protocol" => self.protocol = Some(text()?.parse()?),
            "user" => self.user = Some(text()?.to_owned()),
            "password" => {
                let needed = "has no value; this program never asks, so write password=... here";
                self.password = Some(value.ok_or(needed)?.to_owned());
            }
            "database" => self.database = Some(text()?.to_owned()),
            "connect-timeout" => {
                self.connect_timeout = Some(Duration::from_secs(number(text()?)?)).filter(|t| !t.is_zero());
            }
            "ssl-mode" => self.tls.mode = Some(text()?.parse().map_err(|e: Error| e.to_string())?),
            "ssl" => self.tls.ssl = Some(switch(value)?),
            "ssl-verify-server-cert" => self.tls.verify = Some(switch(value)?),
            "ssl-ca" => self.tls.ca = Some(text()?.into()),
            "ssl-cert" => self.tls.cert = Some(text()?.into()),
            "ssl-key" => self.tls.key = Some(text()?.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn resolve(self) -> Result<Target, Error> {
        let local = self.host.as_deref().is_none_or(is_local);
        let by_socket = match self.protocol {
            Some(Protocol::Tcp) => false,
            Some(Protocol::Socket) if !local => {
                let why = "a socket is on this machine, the host is not: give protocol=tcp".into();
                return Err(Error::BadOption { option: "protocol".into(), why });
            }
            Some(Protocol::Socket) => true,
            None => local,
        };
        let socket = by_socket.then(|| self.socket.unwrap_or_else(usual_socket));
        Ok(Target {
            host: self.host.unwrap_or_else(|| "localhost".into()),
            port: self.port.unwrap_or(PORT_DEFAULT),
            socket,
            user: self.user.unwrap_or_default(),
            password: self.password.map(Password::from),
            database: self.database,
            tls: self.tls.resolve()?,
            connect_timeout: self.connect_timeout.unwrap_or(CONNECT_TIMEOUT_DEFAULT),
            offers_no_tls: Arc::default(),
        })
    }
}

/// Options that may be written `skip-`, `disable-` or `enable-`.
const SWITCHES: [&str; 2] = ["ssl", "ssl-verify-server-cert"];

fn replace<T>(old: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *old = new;
    }
}

/// Whether a host is this machine by its name or number.
fn is_loopback(host: &str) -> bool {
    is_local(host)
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_local(host: &str) -> bool {
    host.is_empty() || host.eq_ignore_ascii_case("localhost")
}

/// The first of the usual places that exists.
fn usual_socket() -> PathBuf {
    let found = SOCKETS.iter().find(|path| std::fs::metadata(path).is_ok());
    PathBuf::from(found.unwrap_or(&SOCKETS[0]))
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number that fits"))
}

fn switch(value: Option<&str>) -> Result<bool, String> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "1" | "on" | "true") => Ok(true),
        Some("0" | "off" | "false") => Ok(false),
        Some(other) => Err(format!("{other:?} is neither 1 nor 0")),
    }
}

#[cfg(test)]
mod tests;
