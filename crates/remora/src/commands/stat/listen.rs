//! `remora stat --listen`: OpenMetrics over HTTP, small and safe. Servers are asked only when somebody
//! scrapes, so that a rate covers exactly the time between two scrapes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Sender, bounded};
use failure::usage;
use progress::{Progress, pause};
use status::counter::openmetrics::{self, Source};
use status::counter::sample::Sample;
use status::counter::sampler::Sampler;

use crate::exit::{Exit, stopped};
use crate::report::Report;

/// Longest header of a request.
const HEAD_MAX: usize = 8 << 10;
/// How long a client may take to send its request, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a client may take to hang up after the answer.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a server may take to answer: Prometheus itself waits for ten seconds.
const ANSWER: Duration = Duration::from_secs(8);
/// The most requests at a time.
const REQUESTS_MAX: usize = 16;

const HOME: &str = "remora stat: the metrics are at /metrics\n";

/// A server's thread: for each of these that it receives it takes a sample.
type Asker = Sender<Sender<(usize, Option<Sample>)>>;

struct Metrics {
    names: Vec<String>,
    askers: Vec<Asker>,
    requests: AtomicUsize,
}

/// Listens at an address with a port.
fn bind(address: &str) -> Result<TcpListener> {
    let is_whole =
        address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if !is_whole {
        return Err(usage(format!("--listen {address}: give an address and a port, such as 127.0.0.1:9104")));
    }
    TcpListener::bind(address).with_context(|| format!("--listen {address}"))
}

/// Answers requests until stopped.
pub(crate) fn run(
    watches: Vec<(String, Sampler)>,
    address: &str,
    stop: &AtomicBool,
    report: &Report,
) -> Result<Exit> {
    let listener = bind(address)?;
    report.note(&format!("listening: http://{}/metrics", listener.local_addr()?));
    let mut metrics = Metrics { names: Vec::new(), askers: Vec::new(), requests: AtomicUsize::new(0) };
    for (at, (name, watch)) in watches.into_iter().enumerate() {
        metrics.askers.push(asker(at, name.clone(), watch, report.clone()));
        metrics.names.push(name);
    }
    let metrics = Arc::new(metrics);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                // For example too many open files: that is temporary, and trying again at once would not
                // help.
                pause(Duration::from_millis(100), &AtomicBool::new(false));
                continue;
            };
            let metrics = Arc::clone(&metrics);
            if metrics.requests.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
                metrics.requests.fetch_sub(1, Ordering::Relaxed);
                // If the client can't be told, it is gone.
                answer(&mut stream, 503, "text/plain", "too many requests at a time\n").ok();
                continue;
            }
            std::thread::spawn(move || {
                // As above.
                serve(&mut stream, &metrics).and_then(|()| drain(&mut stream)).ok();
                metrics.requests.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    while pause(Duration::from_secs(3600), stop) {}
    Ok(stopped())
}

/// Starts the thread of a server; it reports once when the server is down and once when it is back.
fn asker(at: usize, name: String, mut watch: Sampler, report: Report) -> Asker {
    let (ask, asked) = bounded::<Sender<(usize, Option<Sample>)>>(1);
    std::thread::spawn(move || {
        let mut is_away = false;
        for reply in asked {
            let sample = watch.sample();
            watch.notes().iter().for_each(|note| report.warn(&format!("{name}: {note}")));
            match &sample {
                Err(error) if !is_away => {
                    report.warn(&format!("{name}: {error}; remora tries again at each scrape"))
                }
                Ok(_) if is_away => report.note(&format!("{name}: it is back")),
                _ => {}
            }
            is_away = sample.is_err();
            // The caller may have given up.
            reply.send((at, sample.ok())).ok();
        }
    });
    ask
}

impl Metrics {
    /// Asks all servers at once. A server that does not answer in time, or has not answered the last question
    /// yet, counts as down.
    fn page(&self) -> String {
        let (reply, answers) = bounded(self.askers.len());
        let mut samples: Vec<Option<Sample>> = self.askers.iter().map(|_| None).collect();
        let asked = self.askers.iter().filter(|asker| asker.try_send(reply.clone()).is_ok()).count();
        drop(reply);
        let end = Instant::now() + ANSWER;
        for _ in 0..asked {
            let Ok((at, sample)) = answers.recv_deadline(end) else { break };
            samples[at] = sample;
        }
        let sources: Vec<Source<'_>> = self
            .names
            .iter()
            .zip(&samples)
            .map(|(server, sample)| Source { server, sample: sample.as_ref() })
            .collect();
        openmetrics::page(&sources)
    }
}

fn serve(stream: &mut TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    let Some(head) = head(stream)? else {
        return answer(stream, 431, "text/plain", "the head of the request is too long\n");
    };
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET", "/metrics") => answer(stream, 200, openmetrics::MEDIA_TYPE, &metrics.page()),
        ("GET", "/") => answer(stream, 200, "text/plain; charset=utf-8", HOME),
        ("GET", _) => answer(stream, 404, "text/plain", HOME),
        _ => answer(stream, 405, "text/plain", "GET only\n"),
    }
}

/// The first line of a request, once its whole header has arrived; none if that is too long.
fn head(stream: &mut TcpStream) -> std::io::Result<Option<String>> {
    let end = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") && !bytes.windows(2).any(|two| two == b"\n\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..count]);
        if bytes.len() > HEAD_MAX {
            return Ok(None);
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
}

fn answer(stream: &mut TcpStream, code: u16, media: &str, body: &str) -> std::io::Result<()> {
    let reason = match code {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         X-Content-Type-Options: nosniff\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

/// Lets a client read the answer: closing a connection with unread input resets it, and the answer is lost.
fn drain(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DRAIN))?;
    let end = Instant::now() + DRAIN;
    let mut part = [0; 1024];
    while Instant::now() < end && stream.read(&mut part)? > 0 {}
    Ok(())
}
