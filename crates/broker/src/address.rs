//! NATS server URLs.

use std::path::PathBuf;

use crate::Error;

/// The default NATS port.
const PORT: u16 = 4222;

/// A NATS server and the credentials for it.
#[derive(Clone)]
pub struct Address {
    /// Host name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Require TLS. TLS is also used whenever the server asks for it.
    pub tls: bool,
    /// User name, if any.
    pub user: Option<String>,
    /// The user's password, or a token when there is no user.
    pub secret: Option<String>,
    /// File with trusted CA certificates; none for the public CAs.
    pub trusted: Option<PathBuf>,
}

impl Address {
    /// Whether the text has the scheme of a NATS URL; it may still be invalid.
    pub fn is_meant(text: &str) -> bool {
        ["nats://", "tls://"].iter().any(|scheme| text.starts_with(scheme))
    }

    /// Parses `nats://[user:password@|token@]host[:port]`. `tls://` requires TLS.
    ///
    /// # Errors
    ///
    /// The URL is invalid. The text is not repeated, because it may contain a password.
    pub fn parse(text: &str) -> Result<Address, Error> {
        let (tls, rest) = match text.split_once("://") {
            Some(("nats", rest)) => (false, rest),
            Some(("tls", rest)) => (true, rest),
            _ => return Err(Error::BadUrl("it must start with nats:// or tls://")),
        };
        let (login, place) = login_and_places(rest)?;
        let (host, port) = host_and_port(place, PORT)?;
        let (user, secret) = match login.map(|login| login.split_once(':').ok_or(login)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(decode(user)?), Some(decode(password)?)),
            Some(Err(token)) => (None, Some(decode(token)?)),
        };
        Ok(Address { host, port, tls, user, secret, trusted: None })
    }

    /// The server as messages name it: no password.
    pub(crate) fn shown(&self) -> String {
        format!("nats://{}", shown(&self.host, self.port))
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.shown())
    }
}

/// Splits what follows the scheme into the credentials, if any, and the host list.
pub(crate) fn login_and_places(rest: &str) -> Result<(Option<&str>, &str), Error> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        return Err(Error::BadUrl(
            "nothing may follow host and port; the subject or topic is an argument of its own",
        ));
    }
    Ok(rest.rsplit_once('@').map_or((None, rest), |(login, places)| (Some(login), places)))
}

/// Reads `host`, `host:port` or `[address]:port`.
pub(crate) fn host_and_port(place: &str, port: u16) -> Result<(String, u16), Error> {
    let (host, written) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) =
                rest.split_once(']').ok_or(Error::BadUrl("an IPv6 address must end with ]"))?;
            (host, rest.strip_prefix(':').or(rest.is_empty().then_some("")))
        }
        None => {
            let (host, written) = place.split_once(':').unwrap_or((place, ""));
            (host, Some(written).filter(|written| !written.contains(':')))
        }
    };
    let port = match written.ok_or(Error::BadUrl("write an IPv6 address as [::1]"))? {
        "" => port,
        port => port.parse().map_err(|_| Error::BadUrl("the port is not a number from 1 to 65535"))?,
    };
    if host.is_empty() {
        return Err(Error::BadUrl("the host is missing"));
    }
    Ok((host.to_owned(), port))
}

/// A host and its port, as messages name them.
pub(crate) fn shown(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Decodes `%40` and the like.
pub(crate) fn decode(text: &str) -> Result<String, Error> {
    const BAD: Error = Error::BadUrl("% must be followed by two hexadecimal digits; write % itself as %25");
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).ok_or(BAD)?;
        if !code.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(BAD);
        }
        bytes.push(u8::from_str_radix(code, 16).map_err(|_| BAD)?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| Error::BadUrl("its percent-encoding is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn urls_say_where_and_who() {
        let read = |text: &str| {
            let found = Address::parse(text).unwrap();
            (found.host, found.port, found.tls, found.user, found.secret)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("nats://broker"), ("broker".to_owned(), 4222, false, None, None));
        assert_eq!(read("tls://[::1]:99/"), ("::1".to_owned(), 99, true, None, None));
        let login = ("b".to_owned(), 4222, false, some("a@b"), some("p:%"));
        assert_eq!(read("nats://a%40b:p:%25@b:4222"), login);
        assert_eq!(read("nats://s3cret@b"), ("b".to_owned(), 4222, false, None, some("s3cret")));
        for wrong in [
            "b",
            "http://b",
            "nats://",
            "nats://b/orders",
            "nats://b:x",
            "nats://b:1:2",
            "nats://[::1",
            "nats://[::1]9",
            "nats://a%4@b",
            "nats://a%zz@b",
            "nats://a%ff@b",
        ] {
            let why = Address::parse(wrong).unwrap_err().to_string();
            assert!(!why.contains("//b"), "{why}");
        }
        assert!(!format!("{:?}", Address::parse("nats://s3cret@b").unwrap()).contains("s3cret"));
    }
}
