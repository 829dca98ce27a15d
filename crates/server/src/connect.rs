//! Makes a connection to a target, and explains why when that fails.

use std::io;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use mysql::{ClientIdentity, Conn, DriverError, Opts, OptsBuilder, SslOpts};

use crate::access_denied::quote_account;
use crate::load::Refused;
use crate::{Error, Session, SslMode, Target, error_code, quote_name};

/// The protocol's own limit for a packet. The driver gets this limit, so that it accepts a row of several
/// large values, which may exceed the server's `max_allowed_packet`.
const PACKET_BYTES_MAX: usize = 1 << 30;

impl Target {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] when nothing answers within the connect timeout, [`Error::Refused`] when a
    /// server refuses the connection, [`Error::Tls`] when TLS is required and not available.
    pub fn connect(&self) -> Result<Session, Error> {
        let nowhere = || self.unreachable("the name has no address".into(), "check the name");
        let found = first_answer(self.addresses()?, |host| self.connect_to(host));
        let (conn, refused, encrypted) = found.unwrap_or_else(|| Err(nowhere()))?;
        Session::begin(conn, refused, self.to_string(), encrypted)
    }

    /// The addresses to try, as text. If a certificate is checked against the name, the name is kept.
    pub(crate) fn addresses(&self) -> Result<Vec<String>, Error> {
        if self.socket.is_some() {
            return Ok(vec![String::new()]);
        }
        let found = within(self.connect_timeout, {
            let place = (self.host.clone(), self.port);
            move || place.to_socket_addrs().map(|found| found.map(|a| a.ip().to_string()).collect())
        });
        let found: Vec<String> = match found {
            Ok(Ok(found)) => found,
            Ok(Err(e)) => {
                let why = format!("no address for the name {:?} ({e})", self.host);
                return Err(self.unreachable(why, "check the spelling, /etc/hosts and the name server"));
            }
            Err(missed) => return Err(self.missed(missed, "looking up the name")),
        };
        if self.tls.mode == SslMode::VerifyIdentity { Ok(vec![self.host.clone()]) } else { Ok(found) }
    }

    /// The connection, and whether it is encrypted.
    fn connect_to(&self, host: &str) -> Result<(Conn, Refused, bool), Error> {
        let refused = Refused::default();
        let wants_tls = self.socket.is_none() && self.tls.mode != SslMode::Disabled;
        let may_be_plain = self.tls.mode == SslMode::Preferred;
        let try_tls = wants_tls && !(may_be_plain && self.offers_no_tls.load(Ordering::Relaxed));
        match self.attempt(host, try_tls, &refused)? {
            Ok(conn) => Ok((conn, refused, try_tls)),
            Err(mysql::Error::DriverError(DriverError::TlsNotSupported)) if may_be_plain => {
                self.offers_no_tls.store(true, Ordering::Relaxed);
                self.attempt(host, false, &refused)?
                    .map_err(|error| self.no_session(error, false))
                    .map(|conn| (conn, refused, false))
            }
            Err(error) => Err(self.no_session(error, try_tls)),
        }
    }

    /// One attempt, with a limit on its whole time: the driver's own timeout covers only the TCP handshake,
    /// and a server that accepts and then says nothing would block us for ever.
    fn attempt(
        &self,
        host: &str,
        with_tls: bool,
        refused: &Refused,
    ) -> Result<Result<Conn, mysql::Error>, Error> {
        let opts = self.opts(host, with_tls, refused)?;
        within(self.connect_timeout, move || Conn::new(opts))
            .map_err(|missed| self.missed(missed, "waiting for the server's greeting"))
    }

    fn opts(&self, host: &str, with_tls: bool, refused: &Refused) -> Result<Opts, Error> {
        let socket = match &self.socket {
            None => None,
            Some(path) => Some(path.to_str().map(str::to_owned).ok_or_else(|| Error::BadOption {
                option: "socket".into(),
                why: format!("{} is not UTF-8", path.display()),
            })?),
        };
        let builder = OptsBuilder::new()
            .ip_or_hostname(Some(host))
            .tcp_port(self.port)
            .socket(socket)
            .user(Some(self.user.as_str()))
            .pass(self.password.as_ref().map(|password| password.expose()))
            .db_name(self.database.as_deref())
            // The target says whether to use a socket; the driver must not switch on its own.
            .prefer_socket(false)
            .tcp_connect_timeout(Some(self.connect_timeout))
            .max_allowed_packet(Some(PACKET_BYTES_MAX))
            .stmt_cache_size(Some(0))
            .local_infile_handler(Some(refused.handler()))
            .connect_attrs(Some([("program_name", "remora")].into_iter().collect()));
        let ssl = if with_tls { Some(self.ssl_opts()?) } else { None };
        Ok(builder.ssl_opts(ssl).into())
    }

    fn ssl_opts(&self) -> Result<SslOpts, Error> {
        let tls = &self.tls;
        for file in [&tls.ca, &tls.cert, &tls.key].into_iter().flatten() {
            self.check_readable(file)?;
        }
        let identity = match (&tls.cert, &tls.key) {
            (Some(cert), Some(key)) => Some(ClientIdentity::new(cert.clone(), key.clone())),
            _ => None,
        };
        let verifies = matches!(tls.mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
        Ok(SslOpts::default()
            .with_client_identity(identity)
            .with_root_cert_path(tls.ca.clone().filter(|_| verifies))
            .with_danger_accept_invalid_certs(!verifies)
            .with_danger_skip_domain_validation(tls.mode != SslMode::VerifyIdentity))
    }

    /// The driver reports an unreadable file without its name.
    fn check_readable(&self, file: &Path) -> Result<(), Error> {
        match std::fs::read(file) {
            Ok(content) if !content.is_empty() => Ok(()),
            Ok(_) => Err(self.tls_error(format!("{} is empty", file.display()))),
            Err(e) => Err(self.tls_error(format!("{}: {e}", file.display()))),
        }
    }

    /// Explains a failed attempt.
    fn no_session(&self, error: mysql::Error, with_tls: bool) -> Error {
        match error {
            mysql::Error::MySqlError(said) => self.refused(said),
            mysql::Error::TlsError(error) => self.tls_error(error.to_string()),
            mysql::Error::DriverError(DriverError::TlsNotSupported) => {
                self.tls_error("the server offers none".into())
            }
            mysql::Error::DriverError(DriverError::ConnectTimeout) => self.timed_out("connecting"),
            mysql::Error::DriverError(DriverError::CouldNotConnect(Some((_, why, kind)))) => {
                self.not_connected(kind, why)
            }
            mysql::Error::DriverError(DriverError::UnknownAuthPlugin(plugin)) => self.other_login(&plugin),
            mysql::Error::DriverError(error) => Error::Protocol { what: error.to_string() },
            mysql::Error::IoError(error) => self.broke_off(&error, with_tls),
            mysql::Error::CodecError(error) => {
                use std::error::Error as _;
                match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
                    Some(source) => self.broke_off(source, with_tls),
                    None => Error::Protocol { what: format!("{error}; is this a MySQL port?") },
                }
            }
            other => Error::Protocol { what: other.to_string() },
        }
    }

    /// An exchange that broke off. TLS errors come as invalid data.
    pub(crate) fn broke_off(&self, error: &io::Error, with_tls: bool) -> Error {
        if with_tls && matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) {
            return self.tls_error(error.to_string());
        }
        let why = format!("it hung up during the handshake ({error})");
        self.unreachable(why, "check that a MySQL or MariaDB server listens there, and its error log")
    }

    pub(crate) fn not_connected(&self, kind: io::ErrorKind, why: String) -> Error {
        use io::ErrorKind as Kind;
        match (&self.socket, kind) {
            (Some(_), Kind::NotFound) => self.unreachable(
                "there is no such socket".into(),
                "check that the server runs on this machine and what its option socket says, \
                 or give --host=127.0.0.1 for TCP",
            ),
            (Some(_), Kind::ConnectionRefused) => self.unreachable(
                "the socket is there but no server listens on it".into(),
                "the server has stopped; start it",
            ),
            (Some(_), Kind::PermissionDenied) => self.unreachable(
                "no permission to use the socket".into(),
                "check the rights of the socket's folder, or run as another user",
            ),
            (None, Kind::ConnectionRefused) => self.unreachable(
                "connection refused: the machine is there, nothing listens on that port".into(),
                "check the port, that the server runs, and its options bind-address and skip-networking",
            ),
            (None, Kind::HostUnreachable | Kind::NetworkUnreachable) => {
                self.unreachable(format!("no route ({why})"), "check the address, routing and firewall")
            }
            _ => self.unreachable(why, "check host and port"),
        }
    }

    /// Why there is no result in time. A thread that ended without one has panicked, because the driver
    /// assumes some things about the peer that need not be true.
    fn missed(&self, missed: RecvTimeoutError, doing: &str) -> Error {
        match missed {
            RecvTimeoutError::Timeout => self.timed_out(doing),
            RecvTimeoutError::Disconnected => {
                Error::Protocol { what: format!("{self} does not speak the protocol, {doing}") }
            }
        }
    }

    fn timed_out(&self, doing: &str) -> Error {
        let why = format!("timeout after {:?} {doing}", self.connect_timeout);
        self.unreachable(why, "check host, port and firewall, or give a longer --connect-timeout")
    }

    pub(crate) fn unreachable(&self, why: String, hint: &str) -> Error {
        Error::Unreachable { target: self.to_string(), why, hint: hint.to_owned() }
    }

    pub(crate) fn tls_error(&self, why: String) -> Error {
        let hint = match self.tls.mode {
            SslMode::VerifyCa | SslMode::VerifyIdentity => {
                "check ssl-ca and the server's certificate; --ssl-mode=REQUIRED encrypts without checking it"
            }
            _ => "check the server's TLS settings; --ssl-mode=DISABLED goes without",
        };
        Error::Tls { target: self.to_string(), why, hint: hint.to_owned() }
    }

    pub(crate) fn refused(&self, said: mysql::error::MySqlError) -> Error {
        let account = account_named(&said.message).unwrap_or_else(|| self.user.clone());
        let hint = self.refusal_hint(&said, &account);
        Error::Refused { target: self.to_string(), account, code: said.code, why: said.message, hint }
    }

    /// The server wants a way to log in that the driver does not have. Newer MySQL also asks unknown accounts
    /// for one, so that nobody learns which accounts there are.
    fn other_login(&self, plugin: &str) -> Error {
        let account = quote_name(&self.user);
        Error::Refused {
            target: self.to_string(),
            account: self.user.clone(),
            code: error_code::NOT_SUPPORTED_AUTH_MODE,
            why: format!("it asks for {plugin}, which remora does not have"),
            hint: format!(
                "check the account's name; if it exists, let an administrator run: \
                 ALTER USER {account}@'...' IDENTIFIED WITH caching_sha2_password BY '...'"
            ),
        }
    }

    fn refusal_hint(&self, said: &mysql::error::MySqlError, account: &str) -> String {
        match said.code {
            1045 if said.message.contains("using password: NO") => {
                "no password was given: put it under [client] in ~/.my.cnf or in MYSQL_PWD".into()
            }
            1045 if self.socket.is_some() => {
                "check user and password; an account is valid only from the hosts that it names. One that \
                 requires TLS needs TCP (--host=127.0.0.1), and none may have a second factor"
                    .into()
            }
            1045 => "check user and password; an account is valid only from the hosts that it names, and \
                     none may have a second factor"
                .into(),
            1698 if self.socket.is_some() => {
                format!("this account logs in as the system user of its name: run as {}", self.user)
            }
            1698 => "this account logs in through the socket: give --socket and no host".into(),
            1130 => format!(
                "the server knows no account for this host; let an administrator run: \
                 CREATE USER {}@'...'",
                quote_name(&self.user)
            ),
            1044 => {
                let database = self.database.as_deref().unwrap_or_default();
                format!(
                    "let an administrator run: GRANT SELECT ON {}.* TO {}",
                    quote_name(database),
                    quote_account(account)
                )
            }
            1049 => "check the name of the database, or create it".into(),
            1129 => "let an administrator run: FLUSH HOSTS, or on newer MySQL TRUNCATE performance_schema.host_cache".into(),
            1040 | 1203 | 1226 => "connections are used up: try again, use fewer, or raise the limit".into(),
            1820 | 1862 => "the password has expired: set a new one with ALTER USER".into(),
            3118 | 4151 => "the account is locked: ALTER USER ... ACCOUNT UNLOCK".into(),
            3159 => "the server takes no plain TCP connections: give --ssl-mode=REQUIRED".into(),
            _ => "see the server's error log".into(),
        }
    }
}

/// Tries the addresses of a name one after the other: a name may have several, and the server may listen on
/// only one of them. The first answer counts, even a refusal. `None`: there are no addresses.
pub(crate) fn first_answer<T>(
    hosts: Vec<String>,
    mut attempt: impl FnMut(&str) -> Result<T, Error>,
) -> Option<Result<T, Error>> {
    let mut answer = None;
    for host in hosts {
        let tried = attempt(&host);
        let silent = matches!(tried, Err(Error::Unreachable { .. }));
        answer = Some(tried);
        if !silent {
            break;
        }
    }
    answer
}

/// The account in "... for user 'app'@'10.0.0.7' ...", as `app@10.0.0.7`.
fn account_named(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("user '")?;
    let (user, rest) = rest.split_once("'@'")?;
    let (host, _) = rest.split_once('\'')?;
    Some(format!("{user}@{host}"))
}

/// Runs `job` for at most `limit`. A job that takes longer is left on its thread, because neither name
/// lookups nor the driver's reads can be cancelled.
fn within<T: Send + 'static>(
    limit: Duration,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RecvTimeoutError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // Perhaps nobody waits any more; then the result, a late connection, is closed by dropping it.
        drop(sender.send(job()));
    });
    receiver.recv_timeout(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_of(hosts: &[&str]) -> Option<String> {
        let silent = |host: &str| Error::Unreachable {
            target: host.to_owned(),
            why: String::new(),
            hint: String::new(),
        };
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        let answer = first_answer(hosts, |host| match host.split_once(' ') {
            Some(("up", name)) => Ok(name.to_owned()),
            Some(("no", name)) => Err(Error::Protocol { what: name.to_owned() }),
            _ => Err(silent(host)),
        });
        answer.map(|answer| answer.unwrap_or_else(|error| error.to_string()))
    }

    #[test]
    fn the_first_address_that_answers_counts() {
        assert_eq!(answer_of(&["down a", "up b", "up c"]).as_deref(), Some("b"));
        assert_eq!(answer_of(&["down a", "no b", "up c"]).as_deref(), Some("unexpected answer: b"));
        assert!(answer_of(&["down a", "down b"]).unwrap().contains("cannot reach down b"));
        assert_eq!(answer_of(&[]), None);
    }
}
