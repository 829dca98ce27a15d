//! Who may ask: a browser that was given the token, by a name of this server, from a page of this server.
//!
//! * The token keeps out other users of the machine, and whoever reaches the port by a tunnel.
//! * The header Host keeps out DNS rebinding: a foreign page whose name is made to mean 127.0.0.1.
//! * The header Origin keeps out requests that foreign pages send.

use std::fmt;
use std::str::FromStr;

use hyper::header::{COOKIE, HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};

/// The address of a reverse proxy that stands in front, `https://NAME[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// Name and port, as in the header Host.
    authority: String,
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<PublicUrl, String> {
        let place = text.strip_prefix("https://").ok_or("a proxy needs TLS: write https://NAME")?;
        let place = place.strip_suffix('/').unwrap_or(place);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if place.is_empty() || !place.chars().all(is_name) {
            return Err("write https://NAME or https://NAME:PORT, without a path".to_owned());
        }
        Ok(PublicUrl { authority: place.to_ascii_lowercase() })
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority)
    }
}

/// Decides who may ask.
#[derive(Debug)]
pub struct Gate {
    /// What a browser must know.
    token: String,
    /// What a form of ours has, and a foreign page can't read.
    form_token: String,
    port: u16,
    public: Option<PublicUrl>,
}

/// What a request may do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// It has the cookie.
    Known,
    /// It has the token in its address, and gets this cookie.
    New(String),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It names another server.
    Host,
    /// It comes from a foreign page, or it changes something and does not say where it comes from.
    Origin,
    /// It does not know the token.
    Token,
}

impl Refusal {
    /// What it says to a person.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Refusal::Host => {
                "This server is not known by that name. Use the address that remora web printed; for a reverse \
                 proxy give its address with --public-url.\n"
            }
            Refusal::Origin => {
                "The request comes from a page of another server, or does not say from where.\n"
            }
            Refusal::Token => {
                "Open the address that remora web printed when it started: it has the token in it.\n"
            }
        }
    }
}

impl Gate {
    /// `token`: what a browser must know. `form_token`: what each form must have. Both must be random.
    #[must_use]
    pub fn new(token: String, form_token: String, port: u16, public: Option<PublicUrl>) -> Gate {
        Gate { token, form_token, port, public }
    }

    /// The address to open.
    #[must_use]
    pub fn url(&self) -> String {
        let base = match &self.public {
            Some(public) => public.to_string(),
            None => format!("http://127.0.0.1:{}", self.port),
        };
        format!("{base}/?token={}", self.token)
    }

    /// What each form must have in its field `token`.
    #[must_use]
    pub fn form_token(&self) -> &str {
        &self.form_token
    }

    /// Whether a form has it.
    pub(crate) fn is_own_form(&self, token: Option<&str>) -> bool {
        token.is_some_and(|token| is_same(token.as_bytes(), self.form_token.as_bytes()))
    }

    /// Whether a request may be answered.
    pub(crate) fn check(&self, head: &Parts) -> Result<Pass, Refusal> {
        // A whole address in place of a path is for proxies.
        let host = only(&head.headers, &HOST).filter(|_| head.uri.authority().is_none());
        let scheme = host.and_then(|host| self.scheme(host)).ok_or(Refusal::Host)?;
        match only(&head.headers, &ORIGIN) {
            Some(origin) if self.is_own_origin(origin) => {}
            None if head.method != Method::POST && !head.headers.contains_key(ORIGIN) => {}
            _ => return Err(Refusal::Origin),
        }
        let cookies = head.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let name = self.cookie_name();
        let mut values = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (key, value) = pair.trim().split_once('=')?;
            (key == name).then_some(value)
        });
        if values.any(|value| is_same(value.as_bytes(), self.token.as_bytes())) {
            return Ok(Pass::Known);
        }
        let query = head.uri.query().unwrap_or_default().as_bytes();
        let mut given = form_urlencoded::parse(query).filter(|(key, _)| key == "token");
        let is_entry = head.method == Method::GET && head.uri.path() == "/";
        if is_entry && given.any(|(_, value)| is_same(value.as_bytes(), self.token.as_bytes())) {
            let secure = if scheme == "https" { "; Secure" } else { "" };
            let token = &self.token;
            return Ok(Pass::New(format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}")));
        }
        Err(Refusal::Token)
    }

    /// Browsers send a cookie to all ports of a host.
    fn cookie_name(&self) -> String {
        format!("remora-{}", self.port)
    }

    /// The scheme under which this server is known by a name and port.
    fn scheme(&self, host: &str) -> Option<&'static str> {
        let host = host.to_ascii_lowercase();
        if self.public.as_ref().is_some_and(|public| public.authority == host) {
            return Some("https");
        }
        let port = self.port;
        let is_local =
            ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host == format!("{name}:{port}"));
        is_local.then_some("http")
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        self.scheme(host) == Some(scheme)
    }
}

/// The value of a header that may occur once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()
}

/// Compares in a time that does not depend on where they differ, so that nobody finds a token byte by byte.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn gate() -> Gate {
        let public = Some("https://DB.example.com/".parse().unwrap());
        Gate::new("secret".into(), "form".into(), 8306, public)
    }

    fn checked(method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Pass, Refusal> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gate().check(&request.body(()).unwrap().into_parts().0)
    }

    const HERE: (&str, &str) = ("host", "127.0.0.1:8306");
    const COOKIE: (&str, &str) = ("cookie", "a=b; remora-8306=secret");

    #[test]
    fn the_token_is_asked_for_once() {
        let entry = checked("GET", "/?token=secret", &[HERE]);
        let cookie = "remora-8306=secret; Path=/; HttpOnly; SameSite=Strict";
        assert_eq!(entry, Ok(Pass::New(cookie.to_owned())));
        let public = checked("GET", "/?token=secret", &[("host", "db.example.com")]);
        assert_eq!(public, Ok(Pass::New(format!("{cookie}; Secure"))));
        assert_eq!(checked("GET", "/queues", &[HERE, COOKIE]), Ok(Pass::Known));
        for (path, cookie) in [
            ("/", ""),
            ("/", "remora-8306=secre"),
            ("/", "remora-8306=secret2"),
            ("/", "remora-8307=secret"),
            ("/?token=Secret", ""),
            ("/?token=", "remora-8306="),
            ("/queues?token=secret", ""),
        ] {
            assert_eq!(
                checked("GET", path, &[HERE, ("cookie", cookie)]),
                Err(Refusal::Token),
                "{path} {cookie}"
            );
        }
        assert_eq!(gate().url(), "https://db.example.com/?token=secret");
    }

    #[test]
    fn a_name_that_is_not_ours_is_refused() {
        for host in ["localhost:8306", "LOCALHOST:8306", "[::1]:8306", "db.example.com"] {
            assert_eq!(checked("GET", "/", &[("host", host), COOKIE]), Ok(Pass::Known), "{host}");
        }
        for host in ["evil.example:8306", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8306", ""] {
            assert_eq!(checked("GET", "/", &[("host", host), COOKIE]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(checked("GET", "/", &[COOKIE]), Err(Refusal::Host));
        assert_eq!(checked("GET", "/", &[HERE, HERE, COOKIE]), Err(Refusal::Host));
        assert_eq!(checked("GET", "http://127.0.0.1:8306/", &[HERE, COOKIE]), Err(Refusal::Host));
    }

    #[test]
    fn a_foreign_page_is_refused() {
        let own = ["http://127.0.0.1:8306", "http://localhost:8306", "https://db.example.com"];
        let foreign = [
            "null",
            "https://evil.example",
            "https://127.0.0.1:8306",
            "http://db.example.com",
            "http://127.0.0.1:8307",
        ];
        for method in ["GET", "POST"] {
            for origin in own {
                let passed = checked(method, "/", &[HERE, COOKIE, ("origin", origin)]);
                assert_eq!(passed, Ok(Pass::Known), "{method} {origin}");
            }
            for origin in foreign {
                let passed = checked(method, "/", &[HERE, COOKIE, ("origin", origin)]);
                assert_eq!(passed, Err(Refusal::Origin), "{method} {origin}");
            }
            let two = [HERE, COOKIE, ("origin", own[0]), ("origin", own[0])];
            assert_eq!(checked(method, "/", &two), Err(Refusal::Origin));
        }
        assert_eq!(checked("POST", "/", &[HERE, COOKIE]), Err(Refusal::Origin));
    }

    #[test]
    fn only_a_proxy_with_tls_is_public() {
        for wrong in
            ["http://db", "db.example.com", "https://", "https://db/x", "https://u@db", "https://a b"]
        {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_form_of_another_page_is_told() {
        let all = [Some("form"), Some("forn"), Some("for"), Some(""), None];
        assert_eq!(all.map(|token| gate().is_own_form(token)), [true, false, false, false, false]);
    }
}
