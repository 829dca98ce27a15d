//! Listening, limits, and the headers of every answer.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

use crate::answer::{Answer, Request, Site};
use crate::body::Body;
use crate::gate::{Gate, Pass};
use crate::html::Html;

/// The most connections at a time: a browser that follows a page has one open and opens a second one for each
/// renewal.
const CONNECTIONS_MAX: usize = 256;
/// The most pages that are made at a time.
const THREADS_MAX: usize = 8;
/// The longest head of a request, in bytes.
const HEAD_MAX: usize = 16 << 10;
/// The longest form, in bytes.
const FORM_MAX: usize = 16 << 10;
/// How long a client may take to send a head, or a form.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a client that waits for events gets a sign of life.
const ALIVE: Duration = Duration::from_secs(15);
/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What a client gets when there are too many.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The headers of every answer: nothing from elsewhere, nothing inline, in no frame, in no cache.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    // With no-referrer a form of ours would have the origin null.
    ("referrer-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one.
    #[error("{0}: give an address of this machine and a port, such as 127.0.0.1:8306")]
    Address(String),
    /// Others could reach it.
    #[error(
        "{0} can be reached from other machines: listen on 127.0.0.1, and put a reverse proxy with TLS in front \
         (see the manual)"
    )]
    Beyond(SocketAddr),
    /// The system refuses.
    #[error("{0}: {1}")]
    Bind(String, std::io::Error),
}

/// A port of this machine that others can't reach.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at an address, `127.0.0.1:PORT`; port 0 takes a free one.
    ///
    /// # Errors
    /// If it is no address, or others could reach it, or it is taken.
    pub fn bind(address: &str) -> Result<Listener, Error> {
        let resolved = address.to_socket_addrs().map_err(|_| Error::Address(address.to_owned()))?;
        let addresses: Vec<SocketAddr> = resolved.collect();
        if let Some(beyond) = addresses.iter().find(|one| !one.ip().is_loopback()) {
            return Err(Error::Beyond(*beyond));
        }
        let bind = || {
            let listener = TcpListener::bind(&addresses[..])?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        bind().map(Listener).map_err(|error| Error::Bind(address.to_owned(), error))
    }

    /// The port.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn port(&self) -> std::io::Result<u16> {
        Ok(self.0.local_addr()?.port())
    }
}

/// Tells all browsers that there is something new.
#[derive(Clone, Debug)]
pub struct Changes(watch::Sender<u64>);

impl Default for Changes {
    fn default() -> Changes {
        Changes(watch::Sender::new(0))
    }
}

impl Changes {
    /// There is something new.
    pub fn tell(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// What all connections share.
struct Shared {
    gate: Gate,
    site: Box<dyn Site>,
    changes: Changes,
}

/// Serves until stopped.
///
/// # Errors
/// If the system refuses what that needs.
pub fn serve(
    listener: Listener,
    gate: Gate,
    site: Box<dyn Site>,
    changes: &Changes,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let shared = Arc::new(Shared { gate, site, changes: changes.clone() });
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().enable_time().max_blocking_threads(THREADS_MAX).build()?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener.0)?;
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while !stop.load(Ordering::Relaxed) {
            match timeout(LOOK, listener.accept()).await {
                Ok(Ok((stream, _))) => connection(stream, &room, &shared),
                // For example too many open files: that is temporary, and trying again at once would not
                // help.
                Ok(Err(_)) => tokio::time::sleep(LOOK).await,
                Err(_) => {}
            }
        }
        Ok(())
    });
    runtime.shutdown_background();
    served
}

/// Answers the requests of a connection, in a task.
fn connection(stream: TcpStream, room: &Arc<Semaphore>, shared: &Arc<Shared>) {
    let Ok(place) = Arc::clone(room).try_acquire_owned() else {
        // If the client can't be told, it is gone.
        stream.try_write(BUSY).ok();
        return;
    };
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let service = service_fn(|request: hyper::Request<Incoming>| respond(Arc::clone(&shared), request));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_MAX);
        // What a client does wrong is its own business.
        http.serve_connection(TokioIo::new(stream), service).await.ok();
        drop(place);
    });
}

async fn respond(
    shared: Arc<Shared>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let mut response = match shared.gate.check(&head) {
        Err(refusal) => whole(Answer::plain(403, refusal.text())),
        Ok(Pass::New(cookie)) => entry(&cookie),
        Ok(Pass::Known) => match head.method {
            Method::GET if head.uri.path() == "/events" => events(&shared.changes),
            Method::GET | Method::HEAD => page(shared, asked(&head)).await,
            Method::POST => act(shared, asked(&head), body).await,
            _ => refused_method("GET, HEAD, POST"),
        },
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn asked(head: &Parts) -> Request {
    let query = head.uri.query().unwrap_or_default();
    Request { path: head.uri.path().to_owned(), query: pairs(query.as_bytes()), form: Vec::new() }
}

fn pairs(text: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(text).into_owned().collect()
}

async fn page(shared: Arc<Shared>, request: Request) -> Response<Body> {
    let made = tokio::task::spawn_blocking(move || shared.site.get(&request)).await;
    match made {
        Ok(Some(answer)) => whole(answer),
        Ok(None) => whole(Answer::plain(404, "There is no such page.\n")),
        Err(_) => whole(Answer::plain(500, "This page failed; the others may work.\n")),
    }
}

/// Does what a form asks for.
async fn act(shared: Arc<Shared>, mut request: Request, body: Incoming) -> Response<Body> {
    let Ok(read) = timeout(PATIENCE, Limited::new(body, FORM_MAX).collect()).await else {
        return whole(Answer::plain(408, "The form did not arrive in time.\n"));
    };
    let Ok(read) = read else { return whole(Answer::plain(413, "The form is too long.\n")) };
    request.form = pairs(&read.to_bytes());
    if !shared.gate.is_own_form(request.field("token")) {
        return whole(Answer::plain(
            403,
            "The form is of an earlier run, or of another page: load it again.\n",
        ));
    }
    match tokio::task::spawn_blocking(move || shared.site.post(&request)).await {
        Ok(Some(answer)) => whole(answer),
        Ok(None) => refused_method("GET, HEAD"),
        Err(_) => whole(Answer::plain(500, "That failed.\n")),
    }
}

fn refused_method(allowed: &'static str) -> Response<Body> {
    let mut response = whole(Answer::plain(405, "Nothing can be done here.\n"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

fn whole(answer: Answer) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Full::new(Bytes::from(answer.body))));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or_default();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.media));
    response
}

/// The first page, which gives the cookie. It is a page of ours that leads on, because a browser that comes
/// from elsewhere sends no such cookie after a redirect.
fn entry(cookie: &str) -> Response<Body> {
    let mut page = Html::new();
    page.raw(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>remora</title>\
         <meta http-equiv=\"refresh\" content=\"0;url=/\"></head><body><p><a href=\"/\">Continue</a></p></body></html>\n",
    );
    let mut response = whole(Answer::page(200, page));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// An event for each change, as long as the browser listens.
fn events(changes: &Changes) -> Response<Body> {
    let mut changes = changes.0.subscribe();
    let (send, parts) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let count = *changes.borrow_and_update();
            if send.send(Bytes::from(format!("data: {count}\n\n"))).await.is_err() {
                return;
            }
            while timeout(ALIVE, changes.changed()).await.is_err() {
                if send.send(Bytes::from_static(b":\n\n")).await.is_err() {
                    return;
                }
            }
        }
    });
    let mut response = Response::new(Body::Events(parts));
    let media = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
