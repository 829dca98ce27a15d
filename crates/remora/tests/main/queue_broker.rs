//! Rows that go to a broker and messages that come from one, while everything in between is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sandbox::Sandbox;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::queue::{count, start, url};
use crate::support::{Ended, Running, connect, free_port, remora, skipped, until};

pub(crate) const ORDERS: &str = "CREATE TABLE shop.jobs (v INT NOT NULL, body LONGTEXT) ENGINE=QUEUE";

/// A server of NATS. It ends with its test, also if that is killed.
struct Broker {
    folder: TempDir,
    port: u16,
    options: Vec<String>,
    /// Its end of input ends the server.
    keeper: Child,
}

impl Broker {
    fn is_here(test: &str) -> bool {
        let found = Command::new("nats-server").arg("--version").output().is_ok();
        if !found {
            skipped(
                &format!("queue_broker::{test}"),
                "no nats-server: cargo xtask setup --all-servers installs it",
            );
        }
        found
    }

    fn start(options: &[&str]) -> Broker {
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        let options = options.iter().map(|&option| option.to_owned()).collect::<Vec<_>>();
        Broker::start_in(folder, &options)
    }

    fn start_in(folder: TempDir, options: &[String]) -> Broker {
        let port = free_port();
        let keeper = Broker::run(folder.path(), port, options);
        Broker { folder, port, options: options.to_owned(), keeper }
    }

    fn run(folder: &Path, port: u16, options: &[String]) -> Child {
        let script = "nats-server \"$@\" & daemon=$!; read line; kill -9 $daemon";
        let mut keeper = Command::new("sh");
        keeper.args([
            "-c",
            script,
            "nats",
            "-a",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-P",
            "pid",
            "-l",
            "log",
        ]);
        keeper.args(["-js", "-sd", "data"]).args(options).current_dir(folder);
        let keeper = keeper.stdin(Stdio::piped()).spawn().unwrap();
        until("the broker is there", || {
            let Ok(socket) = TcpStream::connect(("127.0.0.1", port)) else { return false };
            let mut line = String::new();
            BufReader::new(socket).read_line(&mut line).is_ok() && line.starts_with("INFO")
        });
        keeper
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Sends a message that has an answer, and returns that.
    fn ask(&self, subject: &str, headers: &str, body: &str) -> Value {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = if headers.is_empty() { String::new() } else { format!("NATS/1.0\r\n{headers}\r\n\r\n") };
        let (verb, lengths) = match head.len() {
            0 => ("PUB", body.len().to_string()),
            length => ("HPUB", format!("{length} {}", length + body.len())),
        };
        let login = "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB inbox 1\r\n";
        write!(socket, "{login}{verb} {subject} inbox {lengths}\r\n{head}{body}\r\n").unwrap();
        let mut answers = BufReader::new(socket);
        loop {
            let mut line = String::new();
            assert_ne!(answers.read_line(&mut line).unwrap(), 0, "no answer");
            assert!(!line.starts_with("-ERR"), "{line}");
            if let Some(rest) = line.strip_prefix("MSG inbox 1 ") {
                let mut body = vec![0; rest.trim().parse().unwrap()];
                answers.read_exact(&mut body).unwrap();
                let answer: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(answer["error"], Value::Null, "{answer}");
                return answer;
            }
        }
    }

    /// A stream that forgets the ids of messages after so many milliseconds.
    fn stream(&self, name: &str, window_ms: u64) {
        let stream = json!({
            "name": name, "subjects": [format!("{name}.>")], "storage": "file", "duplicate_window": window_ms * 1_000_000,
        });
        self.ask(&format!("$JS.API.STREAM.CREATE.{name}"), "", &stream.to_string());
    }

    /// The messages of a stream.
    fn messages(&self, stream: &str) -> Vec<String> {
        let state = &self.ask(&format!("$JS.API.STREAM.INFO.{stream}"), "", "{}")["state"];
        let last = state["last_seq"].as_u64().unwrap();
        let message = |number| {
            let asked = json!({ "seq": number }).to_string();
            let found = self.ask(&format!("$JS.API.STREAM.MSG.GET.{stream}"), "", &asked);
            let data = STANDARD.decode(found["message"]["data"].as_str().unwrap_or_default()).unwrap();
            String::from_utf8(data).unwrap()
        };
        (1..=last).map(message).collect()
    }

    fn count(&self, stream: &str) -> u64 {
        self.ask(&format!("$JS.API.STREAM.INFO.{stream}"), "", "{}")["state"]["messages"].as_u64().unwrap()
    }
}

impl Service for Broker {
    fn orders(&self) -> u64 {
        self.count("orders")
    }

    fn kill(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
        self.keeper = Broker::run(self.folder.path(), self.port, &self.options);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        drop(self.keeper.wait());
    }
}

pub(crate) fn forward(places: &[&str]) -> Command {
    let mut command = remora(Path::new("/"));
    command.args(["queue", "forward"]).args(places).args(["--no-defaults", "-uroot"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn does(server: &Sandbox, statements: &[&str]) {
    let mut session = connect(server.socket());
    statements.iter().for_each(|statement| drop(session.execute(statement).unwrap()));
}

pub(crate) fn ended(command: &mut Command) -> Ended {
    Ended::of(&command.output().unwrap())
}

/// A broker that can be killed.
pub(crate) trait Service {
    /// How many messages it has of what tests call `orders`.
    fn orders(&self) -> u64;

    /// Kills it and starts it again.
    fn kill(&mut self);
}

/// How many rows a test has that are forwarded.
pub(crate) const ROWS: u64 = 1000;

/// Forwards rows while the program, the broker and the server are killed.
pub(crate) fn forwarded_whatever_is_killed(from: &mut Sandbox, broker: &mut impl Service, places: &[&str]) {
    for part in 1..4 {
        let running = Running::new(forward(places).spawn().unwrap());
        until("some rows came", || broker.orders() >= part * 100);
        drop(running);
    }
    // It has connected once it brings rows: then it continues, whoever is killed.
    let before = broker.orders();
    let mut running = Running::new(forward(places).spawn().unwrap());
    until("some rows came", || broker.orders() >= ROWS.min(before + 60));
    broker.kill();
    let before = broker.orders();
    until("it continues", || broker.orders() >= (before + 100).min(ROWS));
    from.kill().unwrap();
    from.restart().unwrap();
    let before = broker.orders();
    until("it continues", || broker.orders() >= (before + 100).min(ROWS));
    running.must_run();
    drop(running);
    until("its row is back", || {
        let owned = "SELECT COUNT(*) FROM information_schema.queue_owned";
        connect(from.socket()).value(owned).unwrap().as_deref() == Some("0")
    });
    ended(forward(places).arg("--once")).exits(0).says(&["rows forwarded"]);
    assert_eq!(count(from, "shop.jobs"), 0);
}

#[test]
fn a_broker_gets_each_row_once_after_any_kill() {
    if !Broker::is_here("a_broker_gets_each_row_once_after_any_kill") {
        return;
    }
    let (mut from, mut broker) = (start(), Broker::start(&[]));
    broker.stream("orders", 120_000);
    let fill = format!("INSERT INTO shop.jobs SELECT seq, REPEAT('j', 500) FROM shop.seq_1_to_{ROWS}");
    does(&from, &[ORDERS, &fill]);
    let (source, to) = (url(&from), broker.url());
    let places = [source.as_str(), "shop.jobs", &to, "orders.new"];
    forwarded_whatever_is_killed(&mut from, &mut broker, &places);
    let numbers = broker.messages("orders");
    let numbers = numbers.iter().map(|text| serde_json::from_str::<Value>(text).unwrap()["v"].as_u64());
    assert!(numbers.eq((1..=ROWS).map(Some)));
}

/// The broker forgets the ids of messages after a time, and remora is killed between sending a row and its
/// end.
#[test]
fn a_row_that_was_sent_long_ago_is_not_sent_again() {
    if !Broker::is_here("a_row_that_was_sent_long_ago_is_not_sent_again") {
        return;
    }
    let (from, broker) = (start(), Broker::start(&[]));
    broker.stream("orders", 100);
    does(&from, &[ORDERS, "INSERT INTO shop.jobs VALUES (1, 'a'), (2, 'b'), (3, 'c')"]);
    let [mut first, mut second] = [(); 2].map(|()| connect(from.socket()));
    for owner in [&mut first, &mut second] {
        owner.execute("SELECT queue_wait('shop.jobs')").unwrap();
    }
    let origin = second.value("SELECT queue_origin() FROM shop.jobs").unwrap().unwrap();
    let (id, _) = origin.rsplit_once(':').unwrap();
    broker.ask("orders.new", &format!("Nats-Msg-Id: {id}"), r#"{"v":2,"body":"b"}"#);
    // A row that has come back is before it.
    for owner in [&mut second, &mut first] {
        owner.execute("SELECT queue_abort()").unwrap();
    }
    until("the id is forgotten", || {
        std::thread::sleep(Duration::from_millis(300));
        broker.ask("orders.other", "Nats-Msg-Id: probe", "")["duplicate"] != true
            && broker.count("orders") > 2
    });
    let others = broker.count("orders") - 1;
    ended(forward(&[&url(&from), "shop.jobs", &broker.url(), "orders.new"]).arg("--once")).exits(0);
    assert_eq!(broker.count("orders") - others, 3);
}

/// How many messages a test has that are received.
pub(crate) const MESSAGES: u64 = 600;

/// Receives messages while the program, the server and the broker are killed, and then once more as another
/// consumer: the queue knows them.
pub(crate) fn received_whatever_is_killed(to: &mut Sandbox, broker: &mut impl Service, places: &[&str]) {
    for part in 1..4 {
        let running = Running::new(forward(places).spawn().unwrap());
        until("some rows came", || count(to, "shop.jobs") >= part * 60);
        drop(running);
    }
    let before = count(to, "shop.jobs");
    let mut running = Running::new(forward(places).spawn().unwrap());
    until("some rows came", || count(to, "shop.jobs") >= MESSAGES.min(before + 60));
    to.kill().unwrap();
    to.restart().unwrap();
    let before = count(to, "shop.jobs");
    until("it continues", || {
        running.must_run();
        count(to, "shop.jobs") >= MESSAGES.min(before + 60)
    });
    broker.kill();
    until("all are here", || count(to, "shop.jobs") >= MESSAGES);
    running.must_run();
    running.signal("TERM");
    running.end().exits(143).says(&["rows received"]);
    // Another consumer gets all of them again, and the queue knows them.
    ended(forward(places).args(["--once", "--consumer", "other"])).exits(0).says(&["600 rows received"]);
}

#[test]
fn a_queue_gets_each_message_once_after_any_kill() {
    if !Broker::is_here("a_queue_gets_each_message_once_after_any_kill") {
        return;
    }
    let (mut to, mut broker) = (start(), Broker::start(&[]));
    broker.stream("orders", 120_000);
    does(&to, &[ORDERS]);
    for number in 1..=MESSAGES {
        broker.ask("orders.new", "", &json!({ "v": number, "body": "b" }).to_string());
    }
    let (source, destination) = (broker.url(), url(&to));
    let places = [source.as_str(), "orders.>", &destination, "shop.jobs"];
    received_whatever_is_killed(&mut to, &mut broker, &places);
    let found = connect(to.socket()).strings("SELECT v FROM shop.jobs").unwrap();
    let found: Vec<u64> = found.iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
    assert!(found.iter().copied().eq(1..=MESSAGES), "{found:?}");
}

#[test]
fn values_come_back_as_they_were() {
    if !Broker::is_here("values_come_back_as_they_were") {
        return;
    }
    let (server, broker) = (start(), Broker::start(&[]));
    broker.stream("values", 120_000);
    let columns = "(i BIGINT UNSIGNED, z INT(6) ZEROFILL, d DECIMAL(38,10), f FLOAT, g DOUBLE, b BIT(9), t TIMESTAMP(6) NULL, \
                   y YEAR, l VARCHAR(99) CHARACTER SET latin1, u TEXT CHARACTER SET utf8mb4, x VARBINARY(99), e ENUM('a','b'), \
                   n INET6, j JSON)";
    does(
        &server,
        &[
            &format!("CREATE TABLE shop.a {columns} ENGINE=QUEUE"),
            &format!("CREATE TABLE shop.b {columns} ENGINE=QUEUE"),
            "SET time_zone = '+03:00'",
            "INSERT INTO shop.a VALUES (18446744073709551615, 42, 1234567890123456789012345678.0123456789, 1.5, -2.5e-7, 257, \
         '2026-11-25 12:00:00.123456', 1999, 'Stra\u{df}e \"\\\\', 'a\\n\\t\u{1f600}', x'00ff0a5c27', 'b', 'fe80::1', \
         '{\"a\": [1, 2]}')",
            "INSERT INTO shop.a (x) VALUES (''), (REPEAT('x', 90)), (NULL)",
            "INSERT INTO shop.a (i, z, l) VALUES (0, 0, '')",
        ],
    );
    let (here, there) = (url(&server), broker.url());
    ended(forward(&[&here, "shop.a", &there, "values.all"]).arg("--once"))
        .exits(0)
        .says(&["5 rows forwarded"]);
    let first: Value = serde_json::from_str(&broker.messages("values")[0]).unwrap();
    assert_eq!([&first["i"], &first["z"], &first["x"]], [&json!(u64::MAX), &json!(42), &json!("AP8KXCc=")]);
    // Read before they go on.
    let rows = |table: &str| {
        let query = format!("SELECT *, HEX(x), HEX(b + 0), CAST(f AS DOUBLE) FROM {table}");
        connect(server.socket()).strings(&query).unwrap()
    };
    ended(forward(&[&there, "values.all", &here, "shop.b"]).arg("--once"))
        .exits(0)
        .says(&["5 rows received"]);
    let there_now = rows("shop.b");
    assert_eq!(there_now.len(), 5);
    assert_eq!(there_now[0][2].as_deref(), Some("1234567890123456789012345678.0123456789"));
    does(
        &server,
        &[
            "SET time_zone = '+03:00'",
            "INSERT INTO shop.a VALUES (18446744073709551615, 42, 1234567890123456789012345678.0123456789, 1.5, -2.5e-7, 257, \
         '2026-11-25 12:00:00.123456', 1999, 'Stra\u{df}e \"\\\\', 'a\\n\\t\u{1f600}', x'00ff0a5c27', 'b', 'fe80::1', \
         '{\"a\": [1, 2]}')",
            "INSERT INTO shop.a (x) VALUES (''), (REPEAT('x', 90)), (NULL)",
            "INSERT INTO shop.a (i, z, l) VALUES (0, 0, '')",
        ],
    );
    assert_eq!(rows("shop.a"), there_now);
    // One column is the message, whatever is in it.
    let once = |places: &[&str], body: &str| ended(forward(places).args(["--once", "--body", body])).exits(0);
    does(&server, &["CREATE TABLE shop.c (x BLOB, u TEXT) ENGINE=QUEUE"]);
    broker.stream("bytes", 120_000);
    once(&[&here, "shop.a", &there, "bytes.x"], "X");
    once(&[&there, "bytes.x", &here, "shop.c"], "x");
    let found = connect(server.socket()).strings("SELECT HEX(x) FROM shop.c").unwrap();
    let found: Vec<&str> = found.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(found, ["00FF0A5C27", "", &"78".repeat(90), "", ""]);
}

#[test]
fn rows_and_messages_that_cannot_be_relayed_are_named() {
    if !Broker::is_here("rows_and_messages_that_cannot_be_relayed_are_named") {
        return;
    }
    let (server, broker) = (start(), Broker::start(&["--user", "app", "--pass", "s3:cret"]));
    let login = |login: &str| broker.url().replace("//", &format!("//{login}@"));
    let (here, right) = (url(&server), login("app:s3%3Acret"));
    does(&server, &[ORDERS, "INSERT INTO shop.jobs VALUES (1, 'a')"]);
    let says = |places: &[&str], more: &[&str], code: i32, words: &[&str]| {
        let ended = ended(forward(places).args(["--once"]).args(more)).exits(code).says(words);
        assert!(!ended.err.contains("s3"), "{}", ended.err);
    };
    says(&[&here, "shop.jobs", &login("app:s3"), "orders.new"], &[], 10, &["Authorization Violation"]);
    says(
        &[&here, "shop.jobs", &right, "orders.new"],
        &[],
        1,
        &["no JetStream stream stores the subject orders.new"],
    );
    says(&[&here, "shop.jobs", &right, "orders.*"], &[], 1, &["\"orders.*\" is no subject"]);
    says(&[&here, "shop.jobs", &right], &[], 1, &["nats://host SUBJECT"]);
    says(&[&right, "a", &right, "b"], &[], 1, &["one of the two must be a server with a queue"]);
    says(
        &[&here, "shop.jobs", &here, "shop.other"],
        &["--body", "v"],
        1,
        &["--body is for messages of a broker"],
    );
    says(
        &[&here, "shop.jobs", &right, "a"],
        &["--consumer", "c"],
        1,
        &["--consumer is for messages that come"],
    );
    says(&[&here, "shop.jobs", "tls://127.0.0.1:1", "a"], &[], 10, &["nats://127.0.0.1:1", "refused"]);
    assert_eq!(count(&server, "shop.jobs"), 1);
    drop(broker);

    let broker = Broker::start(&[]);
    broker.stream("orders", 120_000);
    let there = broker.url();
    let secure = there.replace("nats:", "tls:");
    says(&[&here, "shop.jobs", &secure, "orders.new"], &[], 10, &["TLS: the server offers none"]);
    says(&[&here, "shop.jobs", &there, "orders.new"], &["--body", "w"], 1, &["no column w; it has v, body"]);
    does(&server, &["INSERT INTO shop.jobs VALUES (2, REPEAT('x', 2000000))"]);
    let long = ["1048576 (max_payload)", ":2"];
    says(&[&here, "shop.jobs", &there, "orders.new"], &[], 1, &long);
    assert_eq!((count(&server, "shop.jobs"), broker.count("orders")), (1, 1));
    does(
        &server,
        &["SELECT queue_wait('shop.jobs')", "CREATE TABLE shop.in (v INT NOT NULL, b BLOB) ENGINE=QUEUE"],
    );
    let into = [there.as_str(), "orders.>", &here, "shop.in"];
    // The message stays, and what is wrong with it is told, until somebody makes it fit.
    says(&into, &[], 1, &["message 1 of orders.>", "a member \"body\", and `shop`.`in` has no such column"]);
    says(&into, &["--consumer", "a.b"], 1, &["--consumer \"a.b\""]);
    does(&server, &["ALTER TABLE shop.in ADD body TEXT"]);
    says(&into, &[], 0, &["1 row received"]);
    for (message, why) in [
        ("nothing", "no object of JSON"),
        ("{\"v\": \"twelve\"}", "Incorrect integer value"),
        ("{\"v\": 3000000000}", "Out of range"),
        ("{\"body\": \"v is missing\"}", "doesn't have a default"),
        ("{\"v\": 1, \"b\": \"no base64\"}", "b is not base64"),
    ] {
        broker.ask("orders.new", "", message);
        for _ in 0..2 {
            says(&into, &[], 1, &[why, "message "]);
        }
        broker.ask("$JS.API.STREAM.PURGE.orders", "", "{}");
    }
    assert_eq!(count(&server, "shop.in"), 1);
}

/// A broker asks its clients now and then, and hangs up when one does not answer.
#[test]
fn an_idle_forwarder_stays_connected() {
    if !Broker::is_here("an_idle_forwarder_stays_connected") {
        return;
    }
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
    std::fs::write(folder.path().join("conf"), "ping_interval: 1s, ping_max: 1").unwrap();
    let (server, broker) = (start(), Broker::start_in(folder, &["-c", "conf"].map(str::to_owned)));
    broker.stream("orders", 120_000);
    does(&server, &[ORDERS]);
    let (here, there) = (url(&server), broker.url());
    let running = Running::new(forward(&[&here, "shop.jobs", &there, "orders.new"]).spawn().unwrap());
    std::thread::sleep(Duration::from_secs(5));
    does(&server, &["INSERT INTO shop.jobs VALUES (1, 'a')"]);
    until("it comes", || broker.count("orders") == 1);
    running.signal("TERM");
    let ended = running.end().exits(143).says(&["1 row forwarded"]);
    assert!(!ended.err.contains("trying again"), "{}", ended.err);
}

#[test]
fn a_connection_is_encrypted() {
    if !Broker::is_here("a_connection_is_encrypted") {
        return;
    }
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=b -keyout key -out pem".split(' '))
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let pem = folder.path().join("pem");
    let options = ["--tls", "--tlscert", "pem", "--tlskey", "key"].map(str::to_owned);
    let broker = Broker::start_in(folder, &options);
    let server = start();
    does(&server, &[ORDERS, "INSERT INTO shop.jobs VALUES (1, 'a')"]);
    // A server that asks for it gets it.
    for there in [broker.url(), broker.url().replace("nats:", "tls:")] {
        let mut command = forward(&[&url(&server), "shop.jobs", &there, "orders.new"]);
        ended(command.arg("--once").env_remove("SSL_CERT_FILE")).exits(10).says(&["TLS", "UnknownIssuer"]);
        let mut command = forward(&[&url(&server), "shop.jobs", &there, "orders.new"]);
        // Who is trusted comes as far as the streams, of which there are none.
        let ended = ended(command.arg("--once").env("SSL_CERT_FILE", &pem)).exits(1);
        assert!(ended.err.contains("no JetStream stream"), "{}", ended.err);
    }
}
