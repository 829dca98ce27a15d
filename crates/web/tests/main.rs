//! A real listener, asked as browsers and others ask.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use web::{Answer, Changes, Gate, Html, Listener, Request, Site, serve};

/// How long anything may take. It only keeps a broken test from running for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pages for tests.
struct Pages;

impl Site for Pages {
    fn get(&self, request: &Request) -> Option<Answer> {
        let mut html = Html::new();
        match request.path.as_str() {
            "/" => html.raw("<h1>Home</h1>"),
            "/echo" => html.text(request.value("text").unwrap_or("none")),
            "/fails" => panic!("this page fails"),
            _ => return None,
        };
        Some(Answer::page(200, html))
    }

    fn post(&self, request: &Request) -> Option<Answer> {
        let done = request.path == "/do";
        done.then(|| Answer::text(200, "text/plain", request.field("what").unwrap_or("nothing")))
    }
}

/// A listener that serves until it is dropped.
struct Served {
    port: u16,
    changes: Changes,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn new() -> Served {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let port = listener.port().unwrap();
        let gate = Gate::new("secret".to_owned(), "form".to_owned(), port, None);
        let (changes, stop) = (Changes::default(), Arc::new(AtomicBool::new(false)));
        let (told, stopped) = (changes.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            serve(listener, gate, Box::new(Pages), &told, &stopped).unwrap();
        });
        Served { port, changes, stop, thread: Some(thread) }
    }

    fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The head that a browser of ours sends, without its end.
    fn head(&self, line: &str) -> String {
        let port = self.port;
        format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: remora-{port}=secret\r\n")
    }

    /// Everything that is answered to this until the connection is closed.
    fn asked(&self, request: &str) -> String {
        let mut stream = self.stream();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A listener that refuses a request may close before it has read all of it.
        stream.read_to_end(&mut answer).ok();
        String::from_utf8(answer).unwrap()
    }

    fn get(&self, path: &str) -> String {
        self.asked(&format!("{}Connection: close\r\n\r\n", self.head(&format!("GET {path}"))))
    }

    fn post(&self, path: &str, form: &str) -> String {
        let (head, port) = (self.head(&format!("POST {path}")), self.port);
        let length = form.len();
        self.asked(&format!(
            "{head}Origin: http://127.0.0.1:{port}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{form}"
        ))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A listener that has failed has said so.
        self.thread.take().map(JoinHandle::join);
    }
}

#[track_caller]
fn is(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "not {status}: {answer}");
}

#[test]
fn a_browser_gets_in_by_the_token_and_stays_by_the_cookie() {
    let served = Served::new();
    let port = served.port;
    let by = |path: &str| {
        served.asked(&format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"))
    };
    is(&by("/"), 403);
    is(&by("/?token=secre"), 403);
    let entry = by("/?token=secret");
    is(&entry, 200);
    let cookie = format!("set-cookie: remora-{port}=secret; Path=/; HttpOnly; SameSite=Strict\r\n");
    assert!(entry.contains(&cookie), "{entry}");
    let home = served.get("/");
    is(&home, 200);
    assert!(home.ends_with("<h1>Home</h1>"), "{home}");
    assert!(served.get("/echo?text=%3Cscript%3E+%26").ends_with("&lt;script&gt; &amp;"));
}

#[test]
fn every_answer_has_the_headers_that_protect_it() {
    let served = Served::new();
    for answer in [
        served.get("/"),
        served.get("/none"),
        served.asked("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ] {
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
            "x-frame-options: DENY\r\n",
            "x-content-type-options: nosniff\r\n",
            "referrer-policy: same-origin\r\n",
            "cache-control: no-store\r\n",
        ] {
            assert!(answer.contains(header), "{header} in {answer}");
        }
        assert!(!answer.contains("unsafe"), "{answer}");
    }
}

#[test]
fn methods_and_paths_that_do_not_exist_are_refused() {
    let served = Served::new();
    is(&served.get("/none"), 404);
    is(&served.get("/fails"), 500);
    let head = served.asked(&format!("{}Connection: close\r\n\r\n", served.head("HEAD /")));
    is(&head, 200);
    assert!(head.contains("content-length: 13\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let put = served.asked(&format!("{}Connection: close\r\n\r\n", served.head("PUT /")));
    is(&put, 405);
    assert!(put.contains("allow: GET, HEAD, POST\r\n"), "{put}");
    let post = served.post("/", "token=form");
    is(&post, 405);
    assert!(post.contains("allow: GET, HEAD\r\n"), "{post}");
}

#[test]
fn only_a_form_of_ours_does_something() {
    let served = Served::new();
    let done = served.post("/do", "token=form&what=a%26b");
    is(&done, 200);
    assert!(done.ends_with("\r\n\r\na&b"), "{done}");
    for form in ["what=a", "token=", "token=forn", "token=secret"] {
        is(&served.post("/do", form), 403);
    }
    let (head, form) = (served.head("POST /do"), "token=form");
    let end = format!("Content-Length: {}\r\nConnection: close\r\n\r\n{form}", form.len());
    is(&served.asked(&format!("{head}{end}")), 403);
    is(&served.asked(&format!("{head}Origin: https://evil.example\r\n{end}")), 403);
    is(&served.asked(&format!("{head}Origin: null\r\n{end}")), 403);
    let rebound = head.replace("Host: 127.0.0.1", "Host: evil.example");
    is(&served.asked(&format!("{rebound}Origin: http://evil.example:{}\r\n{end}", served.port)), 403);
}

#[test]
fn too_much_is_refused() {
    let served = Served::new();
    let long = "x".repeat(40 << 10);
    is(&served.asked(&format!("{}X-Long: {long}\r\nConnection: close\r\n\r\n", served.head("GET /"))), 431);
    is(&served.post("/do", &format!("token=form&what={long}")), 413);
    is(&served.get("/"), 200);
}

#[test]
fn a_client_that_sends_nothing_is_left() {
    let served = Served::new();
    let began = std::time::Instant::now();
    let mut silent = served.stream();
    let mut slow = served.stream();
    slow.write_all(served.head("GET /").as_bytes()).unwrap();
    let mut form = served.stream();
    let (head, port) = (served.head("POST /do"), served.port);
    let head = format!("{head}Origin: http://127.0.0.1:{port}\r\nContent-Length: 10\r\n\r\ntok");
    form.write_all(head.as_bytes()).unwrap();
    for stream in [&mut silent, &mut slow, &mut form] {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        // The library itself would wait for 30 seconds.
        assert!(began.elapsed() < Duration::from_secs(25), "{answer:?}");
        assert!(!String::from_utf8_lossy(&answer).contains(" 200 "), "{answer:?}");
    }
}

#[test]
fn more_connections_than_there_is_room_for_are_told() {
    let served = Served::new();
    let held: Vec<TcpStream> = (0..256).map(|_| served.stream()).collect();
    let answer = served.get("/");
    is(&answer, 503);
    drop(held);
    // Their places become free.
    let free = (0..1000).any(|_| served.get("/").starts_with("HTTP/1.1 200 "));
    assert!(free);
}

#[test]
fn changes_are_events() {
    let served = Served::new();
    let mut stream = served.stream();
    stream.write_all(format!("{}\r\n", served.head("GET /events")).as_bytes()).unwrap();
    let mut seen = String::new();
    let mut until = |word: &str| {
        let mut part = [0; 512];
        while !seen.contains(word) {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "it ended: {seen}");
            seen.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        seen.clone()
    };
    let head = until("data: 0\n\n");
    assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
    served.changes.tell();
    until("data: 1\n\n");
    served.changes.tell();
    until("data: 2\n\n");
}

#[test]
fn nobody_else_can_reach_it() {
    for (address, said) in [
        ("0.0.0.0:0", "other machines"),
        ("[::]:0", "other machines"),
        ("192.0.2.1:80", "a reverse proxy with TLS"),
        ("8306", "give an address of this machine"),
        ("127.0.0.1", "give an address of this machine"),
    ] {
        let error = Listener::bind(address).unwrap_err().to_string();
        assert!(error.contains(said), "{address}: {error}");
    }
}
