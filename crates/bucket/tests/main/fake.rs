//! A store in this process: what repositories and mirrors need of the protocol, and ways to misbehave.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucket::{Bucket, Settings};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// What the store does wrong, and what it holds.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// When the files were written, and what stands beside them.
    about: BTreeMap<String, (i64, String)>,
    pub(crate) uploads: BTreeMap<String, Upload>,
    begun: u64,
    /// The clock, in seconds.
    pub(crate) now: i64,
    /// Does so many requests, and refuses all others for good: for the client that is its death. The last one
    /// is done, and refused all the same.
    pub(crate) left: Option<u32>,
    /// Removes nothing, and takes no new files.
    pub(crate) retains: bool,
    /// What is removed stays, as an earlier version.
    pub(crate) has_versions: bool,
    pub(crate) is_read_only: bool,
    /// What happens just before the next upload is completed, or each one.
    pub(crate) before_completion: Option<fn(&mut State)>,
    pub(crate) keeps_acting: bool,
    /// Files can be retained.
    pub(crate) has_lock: bool,
    /// Asked until when a file is retained, answers with the file.
    pub(crate) ignores_retention: bool,
    /// The client has no right to retain files, or to ask until when they are.
    pub(crate) may_not_retain: bool,
    /// Until when nobody can remove a file: in seconds since the epoch, of the clock that clients have.
    pub(crate) retained: BTreeMap<String, i64>,
    /// Ignores the condition of a PUT, or of a completion.
    pub(crate) ignores: (bool, bool),
    /// Does so many requests that write, and loses the answers; after so many others.
    pub(crate) answers_lost: u32,
    pub(crate) answers_lost_after: u32,
    /// Answers so many reads of files like this one with 503, after so many that succeed.
    pub(crate) unreadable: Option<(String, u32, u32)>,
    /// Breaks so many connections before it has read the body.
    pub(crate) torn: u32,
    /// Breaks so many answers to reads in the middle.
    pub(crate) reads_cut: u32,
    /// Answers so many requests with 503.
    pub(crate) busy: u32,
    /// Does not list these yet.
    pub(crate) unlisted: Vec<String>,
    /// The parts that it takes; a further one is refused for good.
    pub(crate) parts_max: Option<u32>,
    /// Changes a byte of what it stores.
    pub(crate) flips: bool,
    /// All requests that write, but those of locks: method and key.
    pub(crate) written: Vec<String>,
    /// The ranges of all reads: key, first byte, bytes.
    pub(crate) read: Vec<(String, u64, u64)>,
}

/// An upload in parts that was not completed.
#[derive(Clone, Default)]
pub(crate) struct Upload {
    pub(crate) key: String,
    mark: String,
    until: Option<i64>,
    parts: BTreeMap<u64, Vec<u8>>,
}

impl State {
    /// The parts of an upload whose run was killed.
    pub(crate) fn leave(&mut self, key: &str) {
        self.uploads.insert("old".to_owned(), Upload { key: key.to_owned(), ..Upload::default() });
    }

    /// What somebody can do who has all rights, after so many seconds: removes every file for good but those
    /// that are retained.
    pub(crate) fn steal(&mut self, after_s: i64) {
        let now = Timestamp::now().as_second() + after_s;
        let retained = &self.retained;
        self.files.retain(|key, _| retained.get(key).is_some_and(|until| *until > now));
    }

    /// Until when the headers of a request retain what it writes; the answer to one that can't.
    fn lock(&self, request: &Request) -> Result<Option<i64>, Answer> {
        let Some(until) = request.headers.get("x-amz-object-lock-retain-until-date") else { return Ok(None) };
        assert_eq!(request.headers["x-amz-object-lock-mode"], "COMPLIANCE");
        if !self.has_lock {
            return Err(plain(400, "<Error><Code>InvalidRequest</Code></Error>"));
        }
        if self.may_not_retain {
            return Err(plain(403, "<Error><Code>AccessDenied</Code></Error>"));
        }
        if request.method == "PUT" {
            assert!(request.headers.contains_key("content-md5"), "stores want it");
        }
        Ok(Some(until.parse::<Timestamp>().unwrap().as_second()))
    }

    fn put_retention(&mut self, request: &Request) -> Answer {
        if self.may_not_retain {
            return plain(403, "<Error><Code>AccessDenied</Code></Error>");
        }
        if !self.files.contains_key(&request.key) {
            return plain(404, "<Error><Code>NoSuchKey</Code></Error>");
        }
        assert!(request.headers.contains_key("content-md5"), "stores want it");
        let body = String::from_utf8(request.body.clone()).unwrap();
        let (_, rest) = body.split_once("<Mode>COMPLIANCE</Mode><RetainUntilDate>").unwrap();
        let until = rest.split_once('<').unwrap().0.parse::<Timestamp>().unwrap().as_second();
        if self.retained.get(&request.key).is_some_and(|former| *former > until) {
            return plain(403, "<Error><Code>AccessDenied</Code></Error>");
        }
        self.retained.insert(request.key.clone(), until);
        plain(200, "")
    }

    fn retention(&self, request: &Request) -> Answer {
        match self.retained.get(&request.key) {
            _ if self.may_not_retain => plain(403, "<Error><Code>AccessDenied</Code></Error>"),
            None => plain(404, "<Error><Code>NoSuchObjectLockConfiguration</Code></Error>"),
            Some(until) => {
                let until = Timestamp::from_second(*until).unwrap();
                let date = format!("<RetainUntilDate>{until}</RetainUntilDate>");
                plain(200, format!("<Retention><Mode>COMPLIANCE</Mode>{date}</Retention>"))
            }
        }
    }

    pub(crate) fn unfinished(&self) -> usize {
        self.uploads.len()
    }

    /// The names of the files below a folder, without locks.
    pub(crate) fn names(&self, folder: &str) -> Vec<&str> {
        let names = self.files.keys().filter_map(|key| key.strip_prefix(folder));
        names.filter(|name| !name.starts_with("lease.")).collect()
    }
}

pub(crate) struct Fake {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) endpoint: String,
}

impl Fake {
    pub(crate) fn start() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &shared));
            }
        });
        Fake { state, endpoint }
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    pub(crate) fn bucket(&self) -> Bucket {
        Bucket::new(Settings {
            endpoint: self.endpoint.clone(),
            path_style: true,
            region: "us-east-1".into(),
            bucket: "b".into(),
            prefix: "p q/".into(),
            access_key: "id".into(),
            secret_key: "secret".into(),
            session_token: None,
            authorities: None,
            holder: "this test".into(),
            retain_s: None,
            wait: Duration::from_millis(1),
        })
    }
}

struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Answers requests until the connection ends, or the state says that it breaks.
fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = read(&mut reader, state)?;
        let mut state = state.lock().unwrap();
        if state.busy > 0 {
            state.busy -= 1;
            answer(stream, 503, "", b"<Error><Code>SlowDown</Code></Error>", false)?;
            continue;
        }
        let dies = state.left.is_some_and(|left| left <= 1);
        if dies && state.left == Some(0) {
            answer(stream, 403, "", b"<Error><Code>AccessDenied</Code></Error>", request.method == "HEAD")?;
            continue;
        }
        state.left = state.left.map(|left| left - 1);
        let writes = request.method == "PUT" || request.method == "POST";
        if writes && !request.key.contains("/lease.") {
            state.written.push(format!("{} {}", request.method, request.key));
        }
        let (status, headers, body) = state.act(&request);
        if dies {
            answer(stream, 403, "", b"<Error><Code>AccessDenied</Code></Error>", request.method == "HEAD")?;
            continue;
        }
        if writes && state.answers_lost > 0 {
            if state.answers_lost_after == 0 {
                state.answers_lost -= 1;
                return None;
            }
            state.answers_lost_after -= 1;
        }
        if request.method == "GET" && !request.key.is_empty() && state.reads_cut > 0 {
            state.reads_cut -= 1;
            let head = format!("HTTP/1.1 {status} OK\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
            let mut stream = stream;
            stream.write_all(head.as_bytes()).ok()?;
            stream.write_all(&body[..body.len() / 2]).ok()?;
            return None;
        }
        let date = format!("date: {}\r\n", date(state.now));
        answer(stream, status, &(headers + &date), &body, request.method == "HEAD")?;
    }
}

fn date(now: i64) -> String {
    let time = Timestamp::from_second(1_700_000_000 + now).unwrap();
    DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap()
}

fn read(reader: &mut impl BufRead, state: &Mutex<State>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    assert!(headers["authorization"].starts_with("AWS4-HMAC-SHA256 Credential=id/"), "{headers:?}");
    {
        let mut state = state.lock().unwrap();
        if method == "PUT" && state.torn > 0 {
            state.torn -= 1;
            return None;
        }
    }
    let len = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| (decoded(name), decoded(value))).collect();
    let key = decoded(path.strip_prefix("/b/").unwrap());
    Some(Request { method, key, query, headers, body })
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}

fn answer(mut stream: &TcpStream, status: u16, headers: &str, body: &[u8], is_head: bool) -> Option<()> {
    let len = if is_head { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {status} X\r\n{len}{headers}\r\n").into_bytes();
    stream.write_all(&[&*head, if is_head { b"" } else { body }].concat()).ok()
}

type Answer = (u16, String, Vec<u8>);

fn plain(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    (status, String::new(), body.into())
}

impl State {
    fn act(&mut self, request: &Request) -> Answer {
        let has = |name: &str| request.query.contains_key(name);
        match &*request.method {
            "GET" if request.key.is_empty() && has("object-lock") => {
                let state = if self.has_lock { "Enabled" } else { "Disabled" };
                plain(200, format!("<R><ObjectLockEnabled>{state}</ObjectLockEnabled></R>"))
            }
            "GET" if has("retention") && !self.ignores_retention => self.retention(request),
            "PUT" if has("retention") => self.put_retention(request),
            "GET" if request.key.is_empty() && has("uploads") => self.list_uploads(request),
            "GET" if request.key.is_empty() => self.list(request),
            "GET" if self.is_unreadable(&request.key) => plain(503, ""),
            "GET" | "HEAD" => self.get(request),
            _ if self.is_read_only => plain(403, "<Error><Code>AccessDenied</Code></Error>"),
            "PUT" if has("partNumber") => {
                if let Some(left) = &mut self.parts_max {
                    if *left == 0 {
                        return plain(403, "<Error><Code>AccessDenied</Code></Error>");
                    }
                    *left -= 1;
                }
                let number = request.query["partNumber"].parse().unwrap();
                let Some(upload) = self.uploads.get_mut(&request.query["uploadId"]) else { return gone() };
                upload.parts.insert(number, request.body.clone());
                (200, "etag: \"&tag\"\r\n".to_owned(), Vec::new())
            }
            "PUT" => match self.lock(request) {
                Ok(until) => self.store(request, request.body.clone(), until, self.ignores.0),
                Err(refused) => refused,
            },
            "POST" if has("uploads") => self.begin(request),
            "POST" => {
                if let Some(act) = self.before_completion.take() {
                    act(self);
                    self.before_completion = self.keeps_acting.then_some(act);
                }
                let id = &request.query["uploadId"];
                let Some(Upload { mark, parts, until, .. }) = self.uploads.get(id).cloned() else {
                    return gone();
                };
                let all_but_last = parts.values().rev().skip(1);
                if all_but_last.clone().any(|part| part.len() < 5 << 20) {
                    return plain(400, "<Error><Code>EntityTooSmall</Code></Error>");
                }
                let body = parts.into_values().collect::<Vec<_>>().concat();
                let stored = self.store(request, body, until, self.ignores.1);
                if stored.0 == 200 {
                    self.about.insert(request.key.clone(), (self.now, mark));
                    self.uploads.remove(id);
                }
                stored
            }
            "DELETE" if has("uploadId") => match self.uploads.remove(&request.query["uploadId"]) {
                Some(_) => plain(204, ""),
                None => gone(),
            },
            "DELETE" if self.retains => plain(403, "<Error><Code>AccessDenied</Code></Error>"),
            "DELETE" => {
                self.files.remove(&request.key);
                let mark = if self.has_versions { "x-amz-delete-marker: true\r\n" } else { "" };
                (204, mark.to_owned(), Vec::new())
            }
            other => plain(405, other),
        }
    }

    fn begin(&mut self, request: &Request) -> Answer {
        let until = match self.lock(request) {
            Ok(until) => until,
            Err(refused) => return refused,
        };
        self.begun += 1;
        let id = format!("u{}", self.begun);
        let mark = request.headers.get("x-amz-meta-remora").cloned().unwrap_or_default();
        let upload = Upload { key: request.key.clone(), mark, until, parts: BTreeMap::new() };
        self.uploads.insert(id.clone(), upload);
        plain(200, format!("<R><UploadId>{id}</UploadId></R>"))
    }

    fn is_unreadable(&mut self, key: &str) -> bool {
        match &mut self.unreadable {
            Some((end, 0, fail)) if key.ends_with(&**end) && *fail > 0 => {
                *fail -= 1;
                true
            }
            Some((end, left, _)) if key.ends_with(&**end) && *left > 0 => {
                *left -= 1;
                false
            }
            _ => false,
        }
    }

    fn store(&mut self, request: &Request, mut body: Vec<u8>, until: Option<i64>, ignores: bool) -> Answer {
        if request.headers.contains_key("if-none-match") && !ignores && self.files.contains_key(&request.key)
        {
            return plain(412, "<Error><Code>PreconditionFailed</Code></Error>");
        }
        if let Some(first) = body.first_mut().filter(|_| self.flips) {
            *first ^= 1;
        }
        let mark = request.headers.get("x-amz-meta-remora").cloned().unwrap_or_default();
        self.about.insert(request.key.clone(), (self.now, mark));
        self.files.insert(request.key.clone(), body);
        // It is another version, with a time of its own.
        self.retained.remove(&request.key);
        self.retained.extend(until.map(|until| (request.key.clone(), until)));
        plain(200, "")
    }

    fn get(&mut self, request: &Request) -> Answer {
        let Some(file) = self.files.get(&request.key) else {
            return plain(404, "<Error><Code>NoSuchKey</Code></Error>");
        };
        let (time, mark) = self.about.get(&request.key).cloned().unwrap_or_default();
        let until = self.retained.get(&request.key).and_then(|until| Timestamp::from_second(*until).ok());
        let until = until.map(|until| format!("x-amz-object-lock-retain-until-date: {until}\r\n"));
        let until = until.unwrap_or_default();
        let about = format!("last-modified: {}\r\nx-amz-meta-remora: {mark}\r\n{until}", date(time));
        if request.method == "HEAD" {
            return (200, format!("{about}content-length: {}\r\n", file.len()), Vec::new());
        }
        let Some(range) = request.headers.get("range") else { return (200, about, file.clone()) };
        let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let (from, to) = (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap() + 1);
        if from >= file.len() {
            return plain(416, "<Error><Code>InvalidRange</Code></Error>");
        }
        let to = to.min(file.len());
        self.read.push((request.key.clone(), from as u64, (to - from) as u64));
        (
            206,
            format!("{about}content-range: bytes {from}-{}/{}\r\n", to - 1, file.len()),
            file[from..to].to_vec(),
        )
    }

    /// Two files at a time, so that there are several pages.
    fn list(&self, request: &Request) -> Answer {
        let after = request.query.get("continuation-token").cloned().unwrap_or_default();
        let listed = |key: &&String| key.starts_with(&request.query["prefix"]) && **key > after;
        let listed = self.files.keys().filter(listed).filter(|key| !self.unlisted.contains(key));
        let page: Vec<&String> = listed.take(3).collect();
        let mut out = String::from("<L>");
        let prefix = &request.query["prefix"];
        for key in page.iter().take(2) {
            let below = request.query.get("delimiter").and_then(|end| key[prefix.len()..].split_once(&**end));
            if let Some((folder, _)) = below {
                // Another store would say it once, and skip what is in it.
                out.push_str(&format!("<CommonPrefixes><Prefix>{prefix}{folder}/</Prefix></CommonPrefixes>"));
                continue;
            }
            let len = self.files[*key].len();
            out.push_str(&format!("<Contents><Key>{key}</Key><Size>{len}</Size></Contents>"));
        }
        if page.len() > 2 {
            out.push_str(&format!("<NextContinuationToken>{}</NextContinuationToken>", page[1]));
        }
        plain(200, out + "</L>")
    }

    fn list_uploads(&self, request: &Request) -> Answer {
        let listed =
            self.uploads.iter().filter(|(_, upload)| upload.key.starts_with(&request.query["prefix"]));
        let entries = listed.map(|(id, upload)| {
            format!("<Upload><Key>{}</Key><UploadId>{id}</UploadId></Upload>", upload.key)
        });
        plain(200, entries.collect::<String>())
    }
}

fn gone() -> Answer {
    plain(404, "<Error><Code>NoSuchUpload</Code></Error>")
}
