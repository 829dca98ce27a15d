//! Kafka cluster URLs.

use std::path::PathBuf;

use crate::Error;
use crate::address::{decode, host_and_port, login_and_places, shown};

/// The default Kafka port.
const PORT: u16 = 9092;

/// The bootstrap servers of a Kafka cluster and the credentials for it.
#[derive(Clone)]
pub struct Address {
    /// Bootstrap servers, host and port. One is enough to find the others.
    pub servers: Vec<(String, u16)>,
    /// Use TLS.
    pub tls: bool,
    /// User and password, if any.
    pub login: Option<(String, String)>,
    /// File with trusted CA certificates; none for the public CAs.
    pub trusted: Option<PathBuf>,
}

impl Address {
    /// Whether the text has the scheme of a Kafka URL; it may still be invalid.
    pub fn is_meant(text: &str) -> bool {
        ["kafka://", "kafka+tls://"].iter().any(|scheme| text.starts_with(scheme))
    }

    /// Parses `kafka://[user:password@]host[:port][,host[:port]...]`. `kafka+tls://` requires TLS.
    ///
    /// # Errors
    ///
    /// The URL is invalid. The text is not repeated, because it may contain a password.
    pub fn parse(text: &str) -> Result<Address, Error> {
        let (tls, rest) = match text.split_once("://") {
            Some(("kafka", rest)) => (false, rest),
            Some(("kafka+tls", rest)) => (true, rest),
            _ => return Err(Error::BadUrl("it must start with kafka:// or kafka+tls://")),
        };
        let (login, places) = login_and_places(rest)?;
        let servers = places.split(',').map(|place| host_and_port(place, PORT)).collect::<Result<_, _>>()?;
        let login = match login.map(|login| login.split_once(':')) {
            None => None,
            Some(Some((user, password))) => Some((decode(user)?, decode(password)?)),
            Some(None) => return Err(Error::BadUrl("credentials must be user:password@")),
        };
        Ok(Address { servers, tls, login, trusted: None })
    }

    /// A server as messages name it.
    pub(crate) fn shown(&self, host: &str, port: u16) -> String {
        format!("{}://{}", if self.tls { "kafka+tls" } else { "kafka" }, shown(host, port))
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.servers.iter().try_for_each(|(host, port)| write!(to, "{} ", self.shown(host, *port)))
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn urls_say_where_and_who() {
        let read = |text: &str| {
            let found = Address::parse(text).unwrap();
            (found.servers, found.tls, found.login)
        };
        let host = |host: &str, port: u16| (host.to_owned(), port);
        assert_eq!(read("kafka://a"), (vec![host("a", 9092)], false, None));
        let login = Some(("u@x".to_owned(), "p:%".to_owned()));
        let both = vec![host("a", 1), host("::1", 9092)];
        assert_eq!(read("kafka+tls://u%40x:p:%25@a:1,[::1]/"), (both, true, login));
        for wrong in [
            "b",
            "nats://b",
            "kafka://",
            "kafka://b/orders",
            "kafka://b,",
            "kafka://b:x",
            "kafka://s3cret@b",
            "kafka://u:%zz@b",
        ] {
            let why = Address::parse(wrong).unwrap_err().to_string();
            assert!(!why.contains("//b") && !why.contains("s3"), "{why}");
        }
        assert!(!format!("{:?}", Address::parse("kafka://u:s3cret@b").unwrap()).contains("s3cret"));
    }
}
