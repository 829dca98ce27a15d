//! Where a server is.

use std::path::PathBuf;

use crate::Error;

/// The port of NATS.
const PORT: u16 = 4222;

/// A server of NATS, and who connects.
#[derive(Clone)]
pub struct Address {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether the connection must be encrypted. It is in any case if the server asks for it.
    pub tls: bool,
    /// The user, or none.
    pub user: Option<String>,
    /// The password of the user. Without a user it is a token.
    pub secret: Option<String>,
    /// A file with the certificates of those who may have signed the server's; none: the public authorities.
    pub trusted: Option<PathBuf>,
}

impl Address {
    /// Whether a text names a server of NATS, rightly or not.
    pub fn is_meant(text: &str) -> bool {
        ["nats://", "tls://"].iter().any(|scheme| text.starts_with(scheme))
    }

    /// Reads `nats://host`, with `user:password@` or `token@` before the host and `:port` after it. With
    /// `tls://` the connection is encrypted.
    ///
    /// # Errors
    ///
    /// It has another form; the text is not repeated.
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

/// What is behind the scheme of an address: the login, if there is one, and one or more places.
pub(crate) fn login_and_places(rest: &str) -> Result<(Option<&str>, &str), Error> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        return Err(Error::BadUrl(
            "nothing comes after host and port; the subject or topic is an argument of its own",
        ));
    }
    Ok(rest.rsplit_once('@').map_or((None, rest), |(login, places)| (Some(login), places)))
}

/// Reads `host`, `host:port` or `[address]:port`.
pub(crate) fn host_and_port(place: &str, port: u16) -> Result<(String, u16), Error> {
    let (host, written) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(Error::BadUrl("an IPv6 address ends with ]"))?;
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
        return Err(Error::BadUrl("it names no host"));
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
    String::from_utf8(bytes).map_err(|_| Error::BadUrl("its percent-codes are not UTF-8"))
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
