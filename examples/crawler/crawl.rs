//! A crawler whose work is in queues: pages to fetch, and pages to try again later.
//!
//! Everything happens at least once. A fetcher owns a row until it has written down the result; when it dies,
//! the row is there again for another one. So each step may be repeated without harm: a page that was fetched
//! already is skipped, and a link is queued before it is noted as known.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

/// How long a wait for a row lasts before it is looked whether to stop, in seconds.
const WAIT_S: u32 = 1;
/// How often it is looked whether all is done.
const LOOK: Duration = Duration::from_millis(20);
/// How long a web server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to crawl, and how.
pub(crate) struct Crawl {
    /// Where the tables are; with a database.
    pub(crate) server: Opts,
    /// Pages of this host only, `name:port`.
    pub(crate) host: String,
    pub(crate) fetchers: usize,
    /// How long to wait before the first, the second, ... try again. Each has a queue of its own, so that
    /// its rows come due in the order in which they were put in.
    pub(crate) backoff: Vec<Duration>,
    pub(crate) stop: AtomicBool,
}

type Outcome<T> = Result<T, mysql::Error>;

struct Page {
    status: u16,
    body: String,
}

impl Crawl {
    /// Crawls from a path on until nothing is left to do.
    pub(crate) fn run(&self, start: &str) -> Outcome<()> {
        let mut link = Conn::new(self.server.clone())?;
        link.query_drop(
            "CREATE TABLE IF NOT EXISTS page (path VARCHAR(700) CHARACTER SET ascii PRIMARY KEY, status SMALLINT UNSIGNED, \
             bytes INT UNSIGNED, tries TINYINT UNSIGNED) ENGINE=InnoDB",
        )?;
        link.query_drop(
            "CREATE TABLE IF NOT EXISTS to_fetch (path TEXT NOT NULL, tries TINYINT NOT NULL) ENGINE=QUEUE",
        )?;
        for level in 0..self.backoff.len() {
            link.query_drop(format!(
                "CREATE TABLE IF NOT EXISTS later_{level} (path TEXT NOT NULL, tries TINYINT NOT NULL) ENGINE=QUEUE"
            ))?;
        }
        link.exec_drop("INSERT INTO to_fetch VALUES (?, 0)", (start,))?;
        link.exec_drop("INSERT IGNORE INTO page (path) VALUES (?)", (start,))?;
        std::thread::scope(|scope| {
            let fetchers: Vec<_> = (0..self.fetchers).map(|_| scope.spawn(|| self.fetch_all())).collect();
            let clocks: Vec<_> =
                (0..self.backoff.len()).map(|level| scope.spawn(move || self.put_back_all(level))).collect();
            let waited = self.until_empty(&mut link);
            self.stop.store(true, Ordering::Relaxed);
            let ended = fetchers.into_iter().chain(clocks).map(|thread| match thread.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.chain([waited]).collect()
        })
    }

    /// COUNT(*) counts rows that somebody owns too: 0 means that nobody is at work.
    fn until_empty(&self, link: &mut Conn) -> Outcome<()> {
        let later = (0..self.backoff.len()).map(|level| format!(" + (SELECT COUNT(*) FROM later_{level})"));
        let sql = format!("SELECT (SELECT COUNT(*) FROM to_fetch){}", later.collect::<String>());
        let mut empty = 0;
        // A row is in the one queue before it is gone from the other, but the counts are not of one moment.
        while empty < 2 {
            let left: Option<u64> = link.query_first(&sql)?;
            empty = if left == Some(0) { empty + 1 } else { 0 };
            std::thread::park_timeout(LOOK);
        }
        Ok(())
    }

    fn fetch_all(&self) -> Outcome<()> {
        let mut link = Conn::new(self.server.clone())?;
        while !self.stop.load(Ordering::Relaxed) {
            let wait = format!("SELECT path, tries FROM to_fetch WHERE queue_wait('to_fetch', {WAIT_S})");
            let Some((path, tries)) = link.query_first::<(String, usize), _>(wait)? else { continue };
            self.fetch(&mut link, &path, tries)?;
            link.query_drop("SELECT queue_end()")?;
        }
        Ok(())
    }

    fn fetch(&self, link: &mut Conn, path: &str, tries: usize) -> Outcome<()> {
        let done: Option<Option<u16>> = link.exec_first("SELECT status FROM page WHERE path = ?", (path,))?;
        if done.flatten().is_some() {
            return Ok(());
        }
        let page = self.get(path).unwrap_or(Page { status: 0, body: String::new() });
        if (page.status == 0 || page.status >= 500) && tries < self.backoff.len() {
            return link.exec_drop(format!("INSERT INTO later_{tries} VALUES (?, ?)"), (path, tries + 1));
        }
        for to in links(&page.body) {
            let known: Option<u8> = link.exec_first("SELECT 1 FROM page WHERE path = ?", (to,))?;
            if known.is_none() {
                link.exec_drop("INSERT INTO to_fetch VALUES (?, 0)", (to,))?;
                link.exec_drop("INSERT IGNORE INTO page (path) VALUES (?)", (to,))?;
            }
        }
        // Who found the link may not have noted it yet.
        link.exec_drop(
            "INSERT INTO page (status, bytes, tries, path) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE \
             status = VALUES(status), bytes = VALUES(bytes), tries = VALUES(tries)",
            (page.status, page.body.len(), tries + 1, path),
        )
    }

    /// Puts rows back to be fetched when they have waited for their time.
    fn put_back_all(&self, level: usize) -> Outcome<()> {
        let mut link = Conn::new(self.server.clone())?;
        let pause = self.backoff.get(level).copied().unwrap_or_default();
        while !self.stop.load(Ordering::Relaxed) {
            let wait =
                format!("SELECT path, tries FROM later_{level} WHERE queue_wait('later_{level}', {WAIT_S})");
            let Some((path, tries)) = link.query_first::<(String, usize), _>(wait)? else { continue };
            let due = Instant::now() + pause;
            while Instant::now() < due && !self.stop.load(Ordering::Relaxed) {
                std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
            }
            link.exec_drop("INSERT INTO to_fetch VALUES (?, ?)", (path, tries))?;
            link.query_drop("SELECT queue_end()")?;
        }
        Ok(())
    }

    fn get(&self, path: &str) -> std::io::Result<Page> {
        let mut stream = TcpStream::connect(&self.host)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.host).as_bytes())?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Ok(Page { status, body: body.to_owned() })
    }
}

/// Links to the same host: `href="/..."`.
fn links(body: &str) -> impl Iterator<Item = &str> {
    body.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).filter(|to| to.starts_with('/'))
}
