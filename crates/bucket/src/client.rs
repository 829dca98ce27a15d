//! Requests, which are retried where that may help, and errors that quote the store's answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ureq::http;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::read_cache::Cache;
use crate::sign::{self, encoded};
use crate::store_state::StoreState;
use crate::{Settings, xml};

/// Maximum number of attempts per request.
const TRIES: u32 = 6;
/// A connection without an answer, or a further byte of one, for this long is dead.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum number of idle connections that are kept.
const IDLE_MAX: usize = 16;

/// Files in an object store whose keys have a common prefix. Clones are the same place.
#[derive(Clone)]
pub struct Bucket {
    pub(crate) settings: Arc<Settings>,
    agent: Agent,
    pub(crate) cache: Arc<Cache>,
    /// What this run knows about the store, including its lock.
    pub(crate) state: Arc<StoreState>,
}

/// A request to the store.
pub(crate) struct StoreRequest<'a> {
    pub(crate) method: &'a str,
    /// The name below the prefix. `None`: the request is about the bucket.
    pub(crate) name: Option<&'a str>,
    /// Sorted by name, not encoded.
    pub(crate) query: &'a [(&'a str, &'a str)],
    pub(crate) headers: &'a [(&'a str, String)],
    pub(crate) body: &'a [u8],
}

impl StoreRequest<'_> {
    pub(crate) fn about<'a>(method: &'a str, name: &'a str) -> StoreRequest<'a> {
        StoreRequest { method, name: Some(name), query: &[], headers: &[], body: b"" }
    }
}

/// A response, and whether the request was sent more than once: then an earlier attempt may have succeeded.
pub(crate) struct StoreResponse {
    pub(crate) response: http::Response<Body>,
    pub(crate) was_retried: bool,
}

impl StoreResponse {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    pub(crate) fn text(&mut self) -> io::Result<String> {
        self.response.body_mut().read_to_string().map_err(io::Error::other)
    }
}

impl Bucket {
    /// The files of a bucket below a prefix. No request is sent yet.
    #[must_use]
    pub fn new(settings: Settings) -> Bucket {
        let roots = match &settings.authorities {
            Some(authorities) => RootCerts::new_with_certs(&authorities.0),
            None => RootCerts::WebPki,
        };
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(SILENCE))
            .max_redirects(0)
            .max_idle_connections(IDLE_MAX)
            .max_idle_connections_per_host(IDLE_MAX)
            .build();
        Bucket::with(settings, Agent::new_with_config(config))
    }

    fn with(settings: Settings, agent: Agent) -> Bucket {
        Bucket { settings: Arc::new(settings), agent, cache: Arc::default(), state: Arc::default() }
    }

    /// The same bucket, only the files below `folder`.
    #[must_use]
    pub fn below(&self, folder: &str) -> Bucket {
        self.with_settings(|settings| settings.prefix.push_str(&format!("{folder}/")))
    }

    /// The same store with other settings.
    pub(crate) fn with_settings(&self, change: impl FnOnce(&mut Settings)) -> Bucket {
        let mut settings = Settings::clone(&self.settings);
        change(&mut settings);
        Bucket::with(settings, self.agent.clone())
    }

    /// A file's name in messages.
    #[must_use]
    pub fn shown(&self, name: &str) -> String {
        format!("s3://{}/{}{name}", self.settings.bucket, self.settings.prefix)
    }

    /// Sends a request, and retries it until there is a response that another attempt would not change.
    #[expect(clippy::disallowed_methods, reason = "nothing tells when a store is ready again")]
    pub(crate) fn send(&self, ask: &StoreRequest<'_>) -> io::Result<StoreResponse> {
        let mut wait = self.settings.wait;
        let mut number = 1;
        loop {
            let answer = self.send_once(ask);
            let retry = match &answer {
                Err(_) => true,
                Ok(response) => matches!(response.status().as_u16(), 408 | 409 | 429 | 500..),
            };
            if !retry || number == TRIES {
                let response = answer.map_err(|error| {
                    let shown = self.shown(ask.name.unwrap_or(""));
                    let endpoint = &self.settings.endpoint;
                    let text = format!(
                        "{shown}: no answer from {endpoint} in {TRIES} tries: {error}; check AWS_ENDPOINT_URL and the network"
                    );
                    io::Error::new(io::ErrorKind::TimedOut, text)
                })?;
                return Ok(StoreResponse { response, was_retried: number > 1 });
            }
            let said = answer.map_or_else(|error| error.to_string(), |said| said.status().to_string());
            tracing::info!("{} {}: {said}; trying again", ask.method, self.shown(ask.name.unwrap_or("")));
            std::thread::sleep(wait);
            wait *= 2;
            number += 1;
        }
    }

    /// The same for responses that are text: one that breaks off is requested again.
    pub(crate) fn send_text(&self, ask: &StoreRequest<'_>) -> io::Result<(StoreResponse, String)> {
        let mut number = 1;
        loop {
            let mut answer = self.send(ask)?;
            if answer.status() != 200 {
                return Ok((answer, String::new()));
            }
            match answer.text() {
                Ok(text) => return Ok((answer, text)),
                Err(error) if number == TRIES => return Err(error),
                Err(_) => number += 1,
            }
        }
    }

    fn send_once(&self, ask: &StoreRequest<'_>) -> Result<http::Response<Body>, ureq::Error> {
        let settings = &self.settings;
        let (scheme, host) = settings.endpoint.split_once("://").unwrap_or(("https", &settings.endpoint));
        let key = ask.name.map_or(String::new(), |name| format!("{}{name}", settings.prefix));
        let (host, path) = if settings.path_style {
            (host.to_owned(), format!("/{}/{key}", settings.bucket))
        } else {
            (format!("{}.{host}", settings.bucket), format!("/{key}"))
        };
        let path = encoded(&path, true);
        let pairs = ask.query.iter().map(|(name, value)| (encoded(name, false), encoded(value, false)));
        let query: Vec<String> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
        let query = query.join("&");
        let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut headers = ask.headers.to_vec();
        if settings.retain_s.is_some() && ask.method == "PUT" {
            headers.push(("content-md5", sign::md5(ask.body)));
        }
        let signed = sign::Request {
            method: ask.method,
            host: &host,
            path: &path,
            query: &query,
            headers: &headers,
            body: ask.body,
            now: &now,
        };
        let mut request = http::Request::builder()
            .method(ask.method)
            .uri(format!("{scheme}://{host}{path}{}{query}", if query.is_empty() { "" } else { "?" }));
        for (name, value) in sign::headers(settings, &signed) {
            request = request.header(name, value);
        }
        match ask.method {
            "GET" | "HEAD" | "DELETE" => self.agent.run(request.body(())?),
            _ => self.agent.run(request.body(ask.body)?),
        }
    }

    /// The error for an unexpected response.
    pub(crate) fn failure(&self, what: &str, name: &str, mut answer: StoreResponse) -> io::Error {
        let status = answer.status();
        let text = answer.text().unwrap_or_default();
        let code = xml::first(&text, "Code").unwrap_or_default();
        let message = xml::first(&text, "Message").unwrap_or_default();
        let hint = match (status, &*code) {
            (404, "NoSuchBucket") => "; create the bucket first",
            (403, "SignatureDoesNotMatch") => "; check AWS_SECRET_ACCESS_KEY and AWS_REGION",
            (403, "InvalidAccessKeyId") => {
                "; check AWS_ACCESS_KEY_ID, and AWS_ENDPOINT_URL for another store than AWS"
            }
            (403, "RequestTimeTooSkewed") => "; set this machine's clock",
            (403, "InvalidObjectState") => {
                "; the store has archived it: restore the object there, and change the lifecycle rule that \
                 moved it"
            }
            (403, _) => "; the key in AWS_ACCESS_KEY_ID is not permitted to do this",
            (301 | 307, _) => "; the bucket is in another region: set AWS_REGION",
            _ => "",
        };
        let kind = match status {
            404 => io::ErrorKind::NotFound,
            403 => io::ErrorKind::PermissionDenied,
            500.. => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        let shown = self.shown(name);
        io::Error::new(
            kind,
            format!("{shown}: cannot {what}: the store says {status} {code} {message}{hint}"),
        )
    }
}
