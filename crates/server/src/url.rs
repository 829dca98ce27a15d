//! Connection URLs: `mysql://user:password@host:port/database?ssl-mode=REQUIRED`, `mariadb://` likewise,
//! and `unix://user@/path/to.sock?db=shop`.

use std::path::PathBuf;

use crate::Error;

/// The contents of a URL. Option names in `parameters` have `_` replaced by `-`.
#[derive(Default, Clone)]
pub(crate) struct Url {
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
    pub(crate) parameters: Vec<(String, String)>,
}

/// Parses a URL. Errors never repeat its text, which may contain a password.
pub(crate) fn parse(text: &str) -> Result<Url, Error> {
    let (scheme, rest) =
        text.split_once("://").ok_or_else(|| bad("it has no ://, write mysql://host/database"))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, ""),
    };
    let (login, place) = match authority.rsplit_once('@') {
        Some((login, place)) => (login, place),
        None => ("", authority),
    };
    let mut url = Url::default();
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (login, None),
    };
    url.user = Some(decode(user)?).filter(|user| !user.is_empty());
    url.password = password.map(decode).transpose()?;
    match scheme.to_ascii_lowercase().as_str() {
        "mysql" | "mariadb" => {
            (url.host, url.port) = host_and_port(place)?;
            url.database = Some(decode(path.trim_start_matches('/'))?).filter(|name| !name.is_empty());
        }
        "unix" => {
            if !place.is_empty() {
                return Err(bad(
                    "a socket's path is absolute: unix:///run/mysqld/mysqld.sock has three slashes",
                ));
            }
            if path.is_empty() {
                return Err(bad("no path behind unix://"));
            }
            url.socket = Some(PathBuf::from(decode(path)?));
        }
        _ => return Err(bad("it must start with mysql://, mariadb:// or unix://")),
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name)?.replace('_', "-");
        let value = decode(value)?;
        if name == "db" {
            url.database = Some(value);
        } else {
            url.parameters.push((name, value));
        }
    }
    Ok(url)
}

fn bad(why: &str) -> Error {
    Error::BadUrl { why: why.to_owned() }
}

fn host_and_port(place: &str) -> Result<(Option<String>, Option<u16>), Error> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| bad("an IPv6 address ends with ]"))?;
            let port = match rest.strip_prefix(':') {
                Some(port) => Some(port),
                None if rest.is_empty() => None,
                None => return Err(bad("only :port may follow the ] of an IPv6 address")),
            };
            (host, port)
        }
        None => match place.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(bad("more than one colon behind the @; write an IPv6 address as [::1]"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port
        .filter(|port| !port.is_empty())
        .map(|port| port.parse::<u16>().ok().filter(|&port| port != 0))
        .map(|port| port.ok_or_else(|| bad("the port is not a number from 1 to 65535")))
        .transpose()?;
    Ok((Some(decode(host)?).filter(|host| !host.is_empty()), port))
}

/// Decodes `%41` and the like.
fn decode(text: &str) -> Result<String, Error> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let code = code.filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(
            code.ok_or_else(|| bad("% must be followed by two hexadecimal digits; write % itself as %25"))?,
        );
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad("its percent-codes are not UTF-8"))
}
