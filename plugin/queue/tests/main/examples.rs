//! The examples in Python, Go and PHP do what their pages say, also when they are killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::server::{Client, Server};

/// Debian's, for which setup installs what the examples import.
const PYTHON: &str = "/usr/bin/python3";

/// A server, and the folder of examples; `None`, and reported, if there is no Python for them.
fn start(test: &str) -> Option<Server> {
    let tried = Command::new(PYTHON).args(["-c", "import pymysql, sqlalchemy"]).output();
    if tried.is_ok_and(|tried| tried.status.success()) {
        return Some(Server::start_with(&["--log-bin"]));
    }
    assert!(std::env::var_os("REMORA_TEST_ALL_SERVERS").is_none(), "{PYTHON} lacks pymysql or sqlalchemy");
    sandbox::skipped(test, "there is no Python with pymysql and sqlalchemy", |name| std::env::var_os(name));
    None
}

/// An example that works in the database `shop`.
fn python(server: &Server, example: &str, arguments: &[&str]) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/queue");
    let mut command = Command::new(PYTHON);
    let socket = server.0.socket();
    command.arg("-B").arg(folder.join(example));
    command
        .arg(format!("mysql+pymysql://root@localhost/shop?unix_socket={}", socket.display()))
        .args(arguments);
    command
}

fn done(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs an example until a queue is empty: rows of one that was killed come back later, and so do rows of
/// work that failed.
fn drain(server: &Server, queue: &str, example: &str, argument: &str) {
    let mut client = server.connect("shop");
    for _ in 0..30 {
        done(python(server, example, &[argument]));
        if client.value(&format!("SELECT COUNT(*) FROM {queue}")) == Some(0) {
            return;
        }
    }
    panic!("{queue} does not become empty");
}

/// Kills an example when a statement has a number of at least `least`.
fn kill_at(mut child: Child, client: &mut Client, sql: &str, least: i64) {
    let started = Instant::now();
    while client.value(sql).is_none_or(|number| number < least) {
        assert!(started.elapsed() < Duration::from_secs(60), "{sql} does not reach {least}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn workers_with_a_pool_do_all_jobs_though_they_are_killed() {
    let Some(server) = start("workers_with_a_pool_do_all_jobs_though_they_are_killed") else { return };
    let mut client = server.connect("shop");
    client.run("CREATE TABLE to_resize (id BIGINT) ENGINE=QUEUE");
    client.run("CREATE TABLE picture (id BIGINT PRIMARY KEY, number BIGINT, times INT)");
    client.run("INSERT INTO to_resize SELECT seq FROM seq_1_to_300");
    for least in [60, 150] {
        let worker = python(&server, "worker.py", &[]).spawn().unwrap();
        kill_at(worker, &mut client, "SELECT COUNT(*) FROM picture", least);
    }
    drain(&server, "to_resize", "worker.py", "--once");
    assert_eq!(client.value("SELECT COUNT(*) FROM picture"), Some(300));
}

#[test]
fn a_worker_in_go_does_all_jobs_though_it_is_killed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/queue/worker-go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("worker-go");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).current_dir(folder).output();
    let Ok(built) = built else {
        let test = "a_worker_in_go_does_all_jobs_though_it_is_killed";
        sandbox::skipped(test, "there is no Go", |name| std::env::var_os(name));
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let server = Server::start_with(&[]);
    let mut client = server.connect("shop");
    client.run("CREATE TABLE to_resize (id BIGINT) ENGINE=QUEUE");
    client.run("CREATE TABLE picture (id BIGINT PRIMARY KEY, number BIGINT, times INT)");
    client.run("INSERT INTO to_resize SELECT seq FROM seq_1_to_300");
    let worker = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).arg(format!("root@unix({})/shop", server.0.socket().display()));
        command
    };
    for least in [60, 150] {
        let child = worker(&[]).spawn().unwrap();
        kill_at(child, &mut client, "SELECT COUNT(*) FROM picture", least);
    }
    for _ in 0..30 {
        done(worker(&["-once"]));
        if client.value("SELECT COUNT(*) FROM to_resize") == Some(0) {
            break;
        }
    }
    assert_eq!(client.value("SELECT COUNT(*) FROM picture"), Some(300));
    // What fails is given back with its reason.
    client.run(
        "CREATE OR REPLACE TABLE to_resize (id VARCHAR(9), failed INT NULL, why TEXT NULL) \
                ENGINE=QUEUE TRIES=2 FAILED=failed WHY=why",
    );
    client.run("INSERT INTO to_resize (id) VALUES ('seven')");
    done(worker(&["-once"]));
    client.run("SET queue_show_owned = 1");
    assert_eq!(
        client.value("SELECT COUNT(*) FROM to_resize WHERE why LIKE '%cannot unmarshal string%'"),
        Some(1)
    );
}

#[test]
fn an_outbox_tells_of_each_order_once() {
    let Some(server) = start("an_outbox_tells_of_each_order_once") else { return };
    let mut client = server.connect("shop");
    done(python(&server, "outbox.py", &["place", "90"]));
    // The rest comes in one go, so that there is something to be killed at.
    client.run("INSERT INTO orders SELECT 1000 + seq, 'tea' FROM seq_1_to_400");
    for least in [80, 200] {
        let relay = python(&server, "outbox.py", &["relay"]).spawn().unwrap();
        kill_at(relay, &mut client, "SELECT COUNT(*) FROM mail", least);
    }
    done(python(&server, "outbox.py", &["relay"]));
    let sums: Vec<(i64, i64)> = client.rows(
        "SELECT COUNT(*), BIT_XOR(id) FROM orders UNION ALL SELECT COUNT(*), BIT_XOR(id) FROM mail \
         UNION ALL SELECT COUNT(DISTINCT id), BIT_XOR(id) FROM mail",
    );
    assert!(sums[0].0 == 460 && sums[1] == sums[0] && sums[2] == sums[0], "{sums:?}");
    assert_eq!(client.value("SELECT COUNT(*) FROM outbox"), Some(0));
}

#[test]
fn a_schedule_continues_though_schedulers_are_killed() {
    let Some(server) = start("a_schedule_continues_though_schedulers_are_killed") else { return };
    let mut client = server.connect("shop");
    done(python(&server, "scheduler.py", &["add", "often", "50"]));
    done(python(&server, "scheduler.py", &["add", "seldom", "600000"]));
    let often = "SELECT COUNT(*) FROM ran WHERE name = 'often'";
    for least in [3, 6, 9] {
        let one = python(&server, "scheduler.py", &["run"]).spawn().unwrap();
        let two = python(&server, "scheduler.py", &["run"]).spawn().unwrap();
        kill_at(one, &mut client, often, least);
        kill_at(two, &mut client, often, least + 1);
    }
    assert_eq!(client.value("SELECT COUNT(*) FROM ran WHERE name = 'seldom'"), Some(1));
    // The COMMIT of a killed one may still be at work. What it had comes back when its connection has ended.
    let others =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'shop' AND id <> CONNECTION_ID()";
    let started = Instant::now();
    while client.value(others) != Some(0) {
        assert!(started.elapsed() < Duration::from_secs(60), "connections of the killed do not end");
    }
    // Rows that are due later are hidden otherwise.
    client.run("SET queue_show_owned = ON");
    let mut to_come: Vec<String> = client.rows("SELECT name FROM run");
    to_come.sort();
    assert_eq!(to_come, ["often", "seldom"]);
    assert_eq!(client.value("SELECT COUNT(*) - COUNT(DISTINCT name, at) FROM ran"), Some(0));
}

/// Answers to messages until one says `/end`; says how often each path came.
fn receive(listener: &TcpListener) -> BTreeMap<String, usize> {
    let mut came: BTreeMap<String, usize> = BTreeMap::new();
    for stream in listener.incoming() {
        let path = answer(stream.unwrap(), &came);
        if path == "/end" {
            break;
        }
        *came.entry(path).or_default() += 1;
    }
    came
}

/// One message goes nowhere, and one is taken at its third try.
fn answer(stream: TcpStream, came: &BTreeMap<String, usize>) -> String {
    let mut reader = BufReader::new(&stream);
    let (mut path, mut len) = (String::new(), 0);
    for line in reader.by_ref().lines() {
        let line = line.unwrap();
        if let Some(rest) = line.strip_prefix("POST ") {
            path = rest.split(' ').next().unwrap().to_owned();
        }
        let header = line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        len = header.map_or(len, |(_, value)| value.parse().unwrap());
        if line.is_empty() {
            break;
        }
    }
    reader.take(len).read_to_end(&mut Vec::new()).unwrap();
    let status = match path.as_str() {
        "/7" => "404 Not Found",
        "/3" if came.get("/3").is_none_or(|times| *times < 2) => "500 Oh",
        _ => "200 OK",
    };
    // The last one does not wait for an answer.
    (&stream).write_all(format!("HTTP/1.0 {status}\r\n\r\n").as_bytes()).ok();
    path
}

#[test]
fn webhooks_are_sent_again_and_set_aside() {
    let Some(server) = start("webhooks_are_sent_again_and_set_aside") else { return };
    let mut client = server.connect("shop");
    done(python(&server, "webhook.py", &["--once"]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let web = std::thread::spawn(move || receive(&listener));
    client.run(&format!(
        "INSERT INTO webhook SELECT seq, CONCAT('http://{place}/', seq), '{{}}' FROM seq_1_to_9"
    ));
    drain(&server, "webhook", "webhook.py", "--once");
    TcpStream::connect(place).unwrap().write_all(b"POST /end HTTP/1.0\r\n\r\n").unwrap();
    let came = web.join().unwrap();
    let wanted = (1..=9).map(|id| {
        (
            format!("/{id}"),
            if id == 3 {
                3
            } else if id == 7 {
                4
            } else {
                1
            },
        )
    });
    assert_eq!(came, wanted.collect());
    let aside: Vec<(i64, i64, String)> = client.rows("SELECT id, failed, why FROM undelivered");
    assert_eq!(aside, [(7, 4, "HTTPError: HTTP Error 404: Not Found".to_owned())]);
}

#[test]
fn jobs_of_an_orm_are_there_if_its_transaction_is() {
    let Some(server) = start("jobs_of_an_orm_are_there_if_its_transaction_is") else { return };
    let mut client = server.connect("shop");
    done(python(&server, "shop.py", &["order", "30"]));
    drain(&server, "jobs", "shop.py", "work");
    let orders = client.column("SELECT id FROM orders ORDER BY id");
    assert_eq!(orders, (0..30).filter(|number| number % 3 != 2).collect::<Vec<i64>>());
    assert_eq!(client.column("SELECT order_id FROM mail ORDER BY order_id"), orders);
    assert_eq!(client.value("SELECT COUNT(*) FROM failed_jobs"), Some(0));
}

#[test]
fn a_connection_in_php_does_each_job_once_or_sets_it_aside() {
    let tried = Command::new("php").args(["-r", "exit(extension_loaded('pdo_mysql') ? 0 : 1);"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        assert!(std::env::var_os("REMORA_TEST_ALL_SERVERS").is_none(), "there is no PHP with pdo_mysql");
        let test = "a_connection_in_php_does_each_job_once_or_sets_it_aside";
        return sandbox::skipped(test, "there is no PHP with pdo_mysql", |name| std::env::var_os(name));
    }
    let server = Server::start_with(&["--log-bin"]);
    let mut client = server.connect("shop");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/queue/connection.php");
    let php = |arguments: &[&str]| {
        let mut command = Command::new("php");
        let socket = server.0.socket().display();
        command.arg(&example).arg(format!("mysql:unix_socket={socket};dbname=shop")).args(arguments);
        command
    };
    done(php(&["make"]));
    done(php(&["push", "90"]));
    for least in [20, 40] {
        kill_at(php(&["work"]).spawn().unwrap(), &mut client, "SELECT COUNT(*) FROM letter", least);
    }
    let started = Instant::now();
    while client.value("SELECT COUNT(*) FROM letters") != Some(0) {
        done(php(&["work", "--once"]));
        assert!(started.elapsed() < Duration::from_secs(60), "the queue does not become empty");
    }
    let (good, bad): (Vec<i64>, Vec<i64>) = (1..=90).partition(|id| id % 10 != 7);
    assert_eq!(client.column("SELECT id FROM letter ORDER BY id"), good);
    let failed: Vec<(String, String)> =
        client.rows("SELECT payload, exception FROM failed_jobs ORDER BY payload");
    let aside = |id: i64| (format!("{{\"id\":{id}}}"), format!("no address for letter {id}"));
    let mut wanted: Vec<_> = bad.into_iter().map(aside).collect();
    wanted.sort();
    assert_eq!(failed, wanted);
}
