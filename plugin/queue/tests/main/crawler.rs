//! The example crawls a web server that fails now and then.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mysql::OptsBuilder;

use crate::crawl::Crawl;
use crate::server::Server;

const PAGES: usize = 60;

/// Serves pages with two links each until told to stop; counts how often each page was asked for.
fn serve(listener: &TcpListener, stop: &AtomicBool, asked: &Mutex<BTreeMap<String, usize>>) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        answer(stream.unwrap(), asked);
    }
}

fn answer(mut stream: TcpStream, asked: &Mutex<BTreeMap<String, usize>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        // The last connection asks for nothing.
        if stream.read(&mut byte).unwrap() == 0 {
            return;
        }
        request.extend(byte);
    }
    let text = String::from_utf8_lossy(&request).into_owned();
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    let times = {
        let mut asked = asked.lock().unwrap();
        let times = asked.entry(path.clone()).or_default();
        *times += 1;
        *times
    };
    let number: usize = path.trim_start_matches("/p").parse().unwrap_or(PAGES);
    let status = match number {
        PAGES.. => 404,
        // One page fails always, some pages fail twice, the rest never.
        7 => 503,
        _ if number % 10 == 3 && times <= 2 => 500,
        _ => 200,
    };
    let to = |next: usize| format!("<a href=\"/p{}\">x</a>", next % (PAGES + 3));
    let body = if status == 200 { to(number * 2 + 1) + &to(number * 2 + 2) } else { String::new() };
    // The client may be gone.
    stream.write_all(format!("HTTP/1.0 {status} x\r\n\r\n{body}").as_bytes()).ok();
}

#[test]
fn the_example_crawls() {
    let server = Server::start();
    server.connect("crawl");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(BTreeMap::new())));
    let web = {
        let (stop, asked) = (stop.clone(), asked.clone());
        std::thread::spawn(move || serve(&listener, &stop, &asked))
    };
    let options = OptsBuilder::new()
        .socket(Some(server.0.socket().to_string_lossy().into_owned()))
        .user(Some("root"))
        .db_name(Some("crawl"))
        .prefer_socket(true);
    let crawl = Crawl {
        server: options.into(),
        host: host.clone(),
        fetchers: 4,
        backoff: vec![Duration::from_millis(20), Duration::from_millis(40), Duration::from_millis(80)],
        stop: AtomicBool::new(false),
    };
    crawl.run("/p0").unwrap();
    stop.store(true, Ordering::Relaxed);
    TcpStream::connect(&host).unwrap();
    web.join().unwrap();
    let mut client = server.connect("crawl");
    let pages: Vec<(i64, i64, i64)> =
        client.rows("SELECT status, COUNT(*), MAX(tries) FROM page GROUP BY status ORDER BY status");
    assert_eq!(pages, [(200, 59, 3), (404, 3, 1), (503, 1, 4)]);
    let asked = asked.lock().unwrap();
    // Two fetchers may find the same link at the same moment.
    assert!(asked["/p7"] >= 4 && asked["/p13"] >= 3 && asked["/p0"] == 1, "{asked:?}");
}
