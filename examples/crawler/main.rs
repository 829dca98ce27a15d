//! Crawls a web site with queues of ENGINE=QUEUE.
//!
//! `cargo run -p queue-plugin --example crawler -- mysql://root@localhost/crawl?socket=/path/server.sock
//! localhost:8000 /`
#![expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]

mod crawl;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mysql::prelude::Queryable;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, host, start] = arguments.as_slice() else {
        return Err("crawler mysql://USER@HOST/DATABASE HOST:PORT /START".into());
    };
    let server = mysql::Opts::from_url(server)?;
    let crawl = crawl::Crawl {
        server: server.clone(),
        host: host.clone(),
        fetchers: 8,
        backoff: [1, 4, 16].map(Duration::from_secs).to_vec(),
        stop: AtomicBool::new(false),
    };
    crawl.run(start)?;
    let mut link = mysql::Conn::new(server)?;
    let pages: Vec<(u16, u64)> = link.query("SELECT status, COUNT(*) FROM page GROUP BY status")?;
    for (status, count) in pages {
        println!("{count} pages with status {status}");
    }
    Ok(())
}
