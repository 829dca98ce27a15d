//! Rows that go to Kafka and messages that come from it, while everything in between is killed. Kafka's own
//! programs are the other clients.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;

use crate::queue::{count, start, url};
use crate::queue_broker::{MESSAGES, ORDERS, does, ended, forward, received_whatever_is_killed};
use crate::support::{Running, connect, places, skipped, until};

/// What the Java machine gets: little memory, and quick to start.
const JAVA: [&str; 5] =
    ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp"];

/// One server of Kafka, which is a cluster. It ends with this process.
struct Kafka {
    folder: TempDir,
    ports: [u16; 6],
    /// Its end of input ends the server.
    keeper: Child,
}

impl Kafka {
    fn jars() -> PathBuf {
        places().cache.join("kafka")
    }

    fn is_here(test: &str) -> bool {
        let found = Kafka::jars().is_dir() && Command::new("java").arg("-version").output().is_ok();
        if !found {
            skipped(&format!("queue_kafka::{test}"), "no Kafka: cargo xtask setup --all-servers installs it");
        }
        found
    }

    /// The one that tests share, each with topics of its own.
    fn shared() -> &'static Kafka {
        static SHARED: OnceLock<Kafka> = OnceLock::new();
        SHARED.get_or_init(Kafka::start)
    }

    fn start() -> Kafka {
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        let ports = [(); 6].map(|()| free_port());
        std::fs::write(folder.path().join("conf"), configuration(folder.path(), ports)).unwrap();
        let made = Command::new("sh")
            .args(["-c", "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=b \
                   -keyout key -out pem -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE && \
                   cat key pem > both"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let format = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", "conf"];
        let login = "SCRAM-SHA-256=[name=scram,password=s3:cret]";
        let formatted = java(folder.path(), &format).args(["--add-scram", login]).output().unwrap();
        assert!(formatted.status.success(), "{formatted:?}");
        let keeper = Kafka::run(folder.path(), ports);
        Kafka { folder, ports, keeper }
    }

    fn run(folder: &Path, ports: [u16; 6]) -> Child {
        let script =
            "\"$@\" > log 2>&1 & exec 2> /dev/null; daemon=$!; read line; kill -9 $daemon; wait $daemon";
        let daemon = java(folder, &["kafka.Kafka", "conf"]);
        let mut keeper = Command::new("sh");
        keeper.args(["-c", script, "kafka"]).arg(daemon.get_program()).args(daemon.get_args());
        let keeper = keeper.current_dir(folder).stdin(Stdio::piped()).spawn().unwrap();
        until("Kafka is there", || TcpStream::connect(("127.0.0.1", ports[0])).is_ok());
        keeper
    }

    /// Kills it and starts it again.
    fn kill(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
        self.keeper = Kafka::run(self.folder.path(), self.ports);
    }

    fn url(&self) -> String {
        format!("kafka://127.0.0.1:{}", self.ports[0])
    }

    /// Runs one of Kafka's programs to its end, with this input.
    fn tool(&self, class: &str, arguments: &[&str], input: &str) -> String {
        let mut tool = java(self.folder.path(), &[&format!("org.apache.kafka.tools.{class}")]);
        tool.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut tool = tool.spawn().unwrap();
        tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = tool.wait_with_output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
        out
    }

    fn server(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    fn make(&self, topic: &str, partitions: u32, more: &[&str]) {
        let (server, partitions) = (self.server(), partitions.to_string());
        let make = ["--bootstrap-server", &server, "--create", "--topic", topic, "--partitions", &partitions];
        self.tool("TopicCommand", &[&make, more].concat(), "");
    }

    /// Sends lines as messages.
    fn produce(&self, topic: &str, options: &[&str], lines: &str) {
        let server = self.server();
        let to = ["--bootstrap-server", &server, "--topic", topic];
        self.tool("ConsoleProducer", &[&to, options].concat(), lines);
    }

    /// The messages of a topic as lines.
    fn messages(&self, topic: &str, options: &[&str]) -> Vec<String> {
        let (server, sum) = (self.server(), self.sum(topic).to_string());
        let from =
            ["--bootstrap-server", &server, "--topic", topic, "--from-beginning", "--max-messages", &sum];
        let lines = self.tool("consumer.ConsoleConsumer", &[&from, options].concat(), "");
        lines.lines().map(str::to_owned).collect()
    }

    /// Sends a request, with its header, and returns the answer.
    fn ask(&self, asked: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports[0]))?;
        socket.write_all(&u32::try_from(asked.len()).unwrap().to_be_bytes())?;
        socket.write_all(asked)?;
        let mut length = [0; 4];
        socket.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        socket.read_exact(&mut answer)?;
        Ok(answer)
    }

    /// Says that a group has come to offset 1 of a topic's first partition, with a note.
    fn commit(&self, group: &str, topic: &str, note: &str) {
        let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
        let head = [&[0, 8, 0, 5, 0, 0, 0, 0, 0, 0][..], &text(group), &[0xff; 4], &text(""), &[0, 0, 0, 1]]
            .concat();
        let parts =
            [&text(topic)[..], &[0, 0, 0, 1, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0, 1], &text(note)].concat();
        assert!(self.ask(&[head, parts].concat()).unwrap().ends_with(&[0, 0]));
    }

    /// How many offsets the partitions of a topic have given: three at most. None while it is not there.
    fn sum(&self, topic: &str) -> i64 {
        let mut asked = vec![0, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0];
        asked.push(u8::try_from(topic.len()).unwrap());
        asked.extend(topic.as_bytes());
        asked.extend([0, 0, 0, 3]);
        for partition in 0..3 {
            asked.extend([0, 0, 0, partition]);
            asked.extend([0xff; 8]);
        }
        let Ok(answer) = self.ask(&asked) else { return 0 };
        // Three partitions, each with index, error, time and offset.
        let partitions = answer[answer.len() - 3 * 22..].chunks(22);
        let offset = |part: &[u8]| i64::from_be_bytes(*part.last_chunk().unwrap());
        partitions.map(|part| offset(part).max(0)).sum()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        drop(self.keeper.wait());
    }
}

/// A port that the system gives to no connection. With one that it gives, who waits for the server may be
/// connected with himself.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 20_000).unwrap();
    loop {
        let port = 10_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn java(folder: &Path, arguments: &[&str]) -> Command {
    let mut java = Command::new("java");
    java.args(JAVA).arg(Kafka::jars().join("*")).args(arguments).current_dir(folder);
    java
}

/// Ports for all, for those who log in, for those who do it through TLS, for itself, and for those who come
/// through another port.
fn configuration(folder: &Path, [open, login, secure, own, behind, before]: [u16; 6]) -> String {
    let (at, host) = (folder.display(), "127.0.0.1");
    let modules = ["sasl_plaintext", "sasl_ssl"].map(|listener| {
        let module = |mechanism: &str, module: &str, users: &str| {
            let class = format!("org.apache.kafka.common.security.{module}LoginModule");
            format!("listener.name.{listener}.{mechanism}.sasl.jaas.config={class} required{users};\n")
        };
        [
            module("plain", "plain.Plain", " user_plain=\"s3:cret\" user_other=\"s3:cret\""),
            module("scram-sha-256", "scram.Scram", ""),
            module("scram-sha-512", "scram.Scram", ""),
        ]
        .concat()
    });
    format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@{host}:{own}\n\
         listeners=PLAINTEXT://{host}:{open},SASL_PLAINTEXT://{host}:{login},SASL_SSL://{host}:{secure},CONTROLLER://{host}:{own},BEHIND://{host}:{behind}\n\
         advertised.listeners=PLAINTEXT://{host}:{open},SASL_PLAINTEXT://{host}:{login},SASL_SSL://{host}:{secure},BEHIND://{host}:{before}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT,BEHIND:PLAINTEXT\nlog.dirs={at}/data\noffsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=1\nnum.network.threads=2\nnum.io.threads=2\n\
         broker.session.timeout.ms=1000\nbroker.heartbeat.interval.ms=200\ngroup.initial.rebalance.delay.ms=0\n\
         sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
         ssl.keystore.type=PEM\nssl.keystore.location={at}/both\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         super.users=User:ANONYMOUS;User:plain;User:scram\n{}",
        modules.concat()
    )
}

/// Numbers in members `v` of lines of JSON.
fn numbers(lines: &[String]) -> Vec<u64> {
    lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["v"].as_u64().unwrap())
        .collect()
}

#[test]
fn kafka_gets_each_row_once_whatever_is_killed() {
    const ROWS: u64 = 1000;
    if !Kafka::is_here("kafka_gets_each_row_once_whatever_is_killed") {
        return;
    }
    let (mut from, mut kafka) = (start(), Kafka::start());
    kafka.make("orders", 1, &[]);
    let fill = format!("INSERT INTO shop.jobs SELECT seq, REPEAT('j', 500) FROM shop.seq_1_to_{ROWS}");
    does(&from, &[ORDERS, &fill]);
    let (source, to) = (url(&from), kafka.url());
    let places = [source.as_str(), "shop.jobs", &to, "orders"];
    for part in 1..4 {
        let running = Running::new(forward(&places).spawn().unwrap());
        until("some rows came", || kafka.sum("orders") >= part * 100);
        drop(running);
    }
    let mut running = Running::new(forward(&places).spawn().unwrap());
    until("some rows came", || kafka.sum("orders") >= 400);
    kafka.kill();
    let before = kafka.sum("orders");
    until("it goes on", || kafka.sum("orders") >= before + 100);
    from.kill().unwrap();
    from.restart().unwrap();
    let before = kafka.sum("orders");
    until("it goes on", || kafka.sum("orders") >= (before + 100).min(ROWS.cast_signed()));
    running.must_run();
    drop(running);
    until("its row is back", || {
        let owned = "SELECT COUNT(*) FROM information_schema.queue_owned";
        connect(from.socket()).value(owned).unwrap().as_deref() == Some("0")
    });
    ended(forward(&places).arg("--once")).exits(0).says(&["rows forwarded"]);
    assert_eq!(count(&from, "shop.jobs"), 0);
    assert!(numbers(&kafka.messages("orders", &[])).into_iter().eq(1..=ROWS));
}

#[test]
fn a_queue_gets_each_message_of_kafka_once_whatever_is_killed() {
    if !Kafka::is_here("a_queue_gets_each_message_of_kafka_once_whatever_is_killed") {
        return;
    }
    let (mut to, mut kafka) = (start(), Kafka::start());
    kafka.make("orders", 3, &[]);
    does(&to, &[ORDERS]);
    let message = |number| format!("{number}\t{{\"v\":{number},\"body\":\"b\"}}\n");
    let lines: String = (1..=MESSAGES).map(message).collect();
    kafka.produce("orders", &["--reader-property", "parse.key=true"], &lines);
    let (source, destination) = (kafka.url(), url(&to));
    let places = [source.as_str(), "orders", &destination, "shop.jobs"];
    received_whatever_is_killed(&mut to, &places, || kafka.kill());
    let again = ended(forward(&places).args(["--once", "--consumer", "other"])).exits(0);
    assert!(again.err.starts_with("0 rows received"), "{}", again.err);
    let found = connect(to.socket()).strings("SELECT v FROM shop.jobs").unwrap();
    let mut found: Vec<u64> = found.iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
    found.sort_unstable();
    assert!(found.iter().copied().eq(1..=MESSAGES), "{found:?}");
}

/// remora was killed between sending a row and its end, and others have sent since.
#[test]
fn a_row_that_is_in_the_topic_is_not_sent_again() {
    if !Kafka::is_here("a_row_that_is_in_the_topic_is_not_sent_again") {
        return;
    }
    let (from, kafka) = (start(), Kafka::shared());
    does(&from, &[ORDERS, "INSERT INTO shop.jobs VALUES (1, 'a'), (2, 'b'), (3, 'c')"]);
    let mut owner = connect(from.socket());
    owner.execute("SELECT queue_wait('shop.jobs')").unwrap();
    let origin = owner.value("SELECT queue_origin() FROM shop.jobs").unwrap().unwrap();
    let (id, _) = origin.rsplit_once(':').unwrap();
    let (incarnation, _) = id.rsplit_once(':').unwrap();
    kafka.make("again", 3, &[]);
    let headers = ["--reader-property", "parse.headers=true", "--reader-property", "headers.key.separator=="];
    let sent = |id: &str| format!("remora-origin={id}\t{{\"v\":0}}\n");
    // By key to another partition than that of rows without, and twice, which is old news.
    let keyed = [&headers[..], &["--reader-property", "parse.key=true"]].concat();
    let line = format!("remora-origin={id}\tabc\t{{\"v\":1}}\n");
    kafka.produce("again", &keyed, &format!("{line}{line}x=y\tabc\tother\n"));
    owner.execute("SELECT queue_abort()").unwrap();
    let places = [url(&from), "shop.jobs".to_owned(), kafka.url(), "again".to_owned()];
    let places = places.each_ref().map(String::as_str);
    let once = ended(forward(&places).arg("--once")).exits(0).says(&["3 rows forwarded"]);
    assert!(!once.err.contains("twice"), "{}", once.err);
    assert_eq!(kafka.sum("again"), 5);
    // A copy that comes late can't be prevented, and is counted. One that came meanwhile is seen.
    kafka.make("late", 1, &[]);
    let places = [places[0], places[1], places[2], "late"];
    let running = Running::new(forward(&places).spawn().unwrap());
    let mut insert = connect(from.socket());
    insert.execute("INSERT INTO shop.jobs VALUES (4, 'd')").unwrap();
    until("it came", || kafka.sum("late") == 1);
    let copies = [format!("{incarnation}:4"), "0:9".to_owned(), format!("{incarnation}:5")];
    kafka.produce("late", &headers, &copies.map(|id| sent(&id)).concat());
    insert.execute("INSERT INTO shop.jobs VALUES (5, 'e')").unwrap();
    until("it is gone", || count(&from, "shop.jobs") == 0);
    assert_eq!(kafka.sum("late"), 4);
    insert.execute("INSERT INTO shop.jobs VALUES (6, 'f')").unwrap();
    until("it came", || kafka.sum("late") == 5);
    kafka.produce("late", &headers, &sent(&format!("{incarnation}:6")));
    running.signal("TERM");
    running.end().exits(143).says(&["3 rows forwarded", "2 rows came twice"]);
}

#[test]
fn a_key_chooses_the_partition_that_others_choose() {
    if !Kafka::is_here("a_key_chooses_the_partition_that_others_choose") {
        return;
    }
    let (server, kafka) = (start(), Kafka::shared());
    kafka.make("keyed", 3, &[]);
    kafka.make("theirs", 3, &[]);
    does(&server, &["CREATE TABLE shop.k (k VARBINARY(20), body TEXT) ENGINE=QUEUE"]);
    let keys: Vec<String> = (0..40).map(|number| "key".repeat(number % 5) + &number.to_string()).collect();
    let rows: Vec<String> = keys.iter().map(|key| format!("('{key}', '{key}')")).collect();
    does(&server, &[&format!("INSERT INTO shop.k VALUES (NULL, 'none'), {}", rows.join(", "))]);
    let lines: String = keys.iter().map(|key| format!("{key}\t{key}\n")).collect();
    kafka.produce("theirs", &["--reader-property", "parse.key=true"], &lines);
    let mut command = forward(&[&url(&server), "shop.k", &kafka.url(), "keyed"]);
    ended(command.args(["--once", "--key", "K", "--body", "body"])).exits(0).says(&["41 rows forwarded"]);
    let shown = ["print.partition=true", "print.key=true"].map(|property| ["--formatter-property", property]);
    let [mut ours, mut theirs] = ["keyed", "theirs"].map(|topic| kafka.messages(topic, &shown.concat()));
    theirs.push("Partition:0\tnull\tnone".to_owned());
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
}

#[test]
fn what_others_sent_is_read_in_every_form() {
    if !Kafka::is_here("what_others_sent_is_read_in_every_form") {
        return;
    }
    let (server, kafka) = (start(), Kafka::shared());
    does(&server, &["CREATE TABLE shop.in (v INT NOT NULL) ENGINE=QUEUE"]);
    let lines = |from: u32| (from..from + 300).map(|v| format!("{{\"v\":{v}}}\n")).collect::<String>();
    kafka.make("packed", 1, &[]);
    for (from, codec) in [(1, "gzip"), (301, "lz4"), (601, "zstd"), (901, "snappy")] {
        kafka.produce("packed", &["--compression-codec", codec], &lines(from));
    }
    // In transactions, a third of which are aborted.
    let copy =
        ["--input-topic", "packed", "--input-partition", "0", "--output-topic", "copied", "--broker-list"];
    let how = ["--transactional-id", "t", "--consumer-group", "g", "--transaction-size", "40"];
    let brokers = kafka.server();
    let copy = [&copy[..], &[&brokers, "--enable-random-aborts"], &how].concat();
    kafka.make("copied", 1, &[]);
    kafka.tool("TransactionalMessageCopier", &copy, "");
    let (here, there) = (url(&server), kafka.url());
    let receive = |topic: &str| ended(forward(&[&there, topic, &here, "shop.in"]).arg("--once"));
    for topic in ["packed", "copied"] {
        receive(topic).exits(0).says(&["1200 rows received"]);
        let found = connect(server.socket()).strings("SELECT v FROM shop.in").unwrap();
        let found: Vec<u32> = found.iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
        assert!(found.into_iter().eq(1..=1200), "{topic}");
        does(&server, &["TRUNCATE shop.in"]);
    }
    assert!(kafka.sum("copied") > 1200);
}

#[test]
fn what_kafka_refuses_is_named() {
    if !Kafka::is_here("what_kafka_refuses_is_named") {
        return;
    }
    let (server, kafka) = (start(), Kafka::shared());
    let (here, there) = (url(&server), kafka.url());
    does(&server, &[ORDERS, "INSERT INTO shop.jobs VALUES (1, 'a')"]);
    let says = |places: &[&str], more: &[&str], words: &[&str]| {
        let ended = ended(forward(places).args(["--once"]).args(more)).exits(1).says(words);
        assert!(!ended.err.contains("s3"), "{}", ended.err);
    };
    says(&[&here, "shop.jobs", &there, "none"], &[], &["no topic none", "kafka-topics.sh"]);
    says(&[&there, "none", &here, "shop.jobs"], &[], &["no topic none"]);
    says(&[&here, "shop.jobs", &there, "a b"], &[], &["\"a b\" is no topic"]);
    says(&[&here, "shop.jobs", &there], &[], &["kafka://host TOPIC"]);
    says(&[&here, "shop.jobs", "kafka://127.0.0.1:1", "a"], &[], &["kafka://127.0.0.1:1", "refused"]);
    says(&[&here, "shop.jobs", &format!("{there}/a")], &[], &["topic is an argument of its own"]);
    says(
        &[&here, "shop.jobs", "nats://b", "a"],
        &["--key", "v"],
        &["--key is for messages that go to Kafka"],
    );
    kafka.make("refused", 1, &[]);
    let to = |url: &str| [here.clone(), "shop.jobs".to_owned(), url.to_owned(), "refused".to_owned()];
    let at = |scheme: &str, login: &str, port: usize| {
        to(&format!("{scheme}://{login}127.0.0.1:{}", kafka.ports[port]))
    };
    let tells =
        |places: [String; 4], words: &[&str]| says(&places.each_ref().map(String::as_str), &[], words);
    says(&to(&there).each_ref().map(String::as_str), &["--key", "w"], &["--key: the queue has no column w"]);
    tells(at("kafka", "", 1), &["it hung up"]);
    tells(at("kafka", "plain:s3@", 0), &["leave out user:password@"]);
    tells(at("kafka", "plain:s3@", 1), &["Authentication failed"]);
    tells(at("kafka", "scram:s3@", 1), &["Authentication failed"]);
    tells(at("kafka", "other:s3%3Acret@", 1), &["TOPIC_AUTHORIZATION_FAILED", "needs READ on the topic"]);
    tells(at("kafka", "plain:s3%3Acret@", 2), &["(kafka+tls://)"]);
    tells(at("kafka+tls", "plain:s3%3Acret@", 2), &["TLS", "UnknownIssuer"]);
    does(&server, &["DELETE FROM shop.jobs", "INSERT INTO shop.jobs VALUES (2, REPEAT('x', 2000000))"]);
    tells(to(&there), &["MESSAGE_TOO_LARGE", "max.message.bytes", ":2"]);
    assert_eq!((count(&server, "shop.jobs"), kafka.sum("refused")), (1, 0));
    // A message stays, and what is wrong with it is told, until somebody makes it fit.
    does(&server, &["CREATE TABLE shop.in (v INT NOT NULL) ENGINE=QUEUE"]);
    kafka.produce("refused", &[], "{\"v\":1}\n{\"v\":2,\"b\":0}\n");
    let into = [there.as_str(), "refused", &here, "shop.in"];
    for _ in 0..2 {
        says(&into, &[], &["message 1 of partition 0 of refused", "a member \"b\""]);
    }
    does(&server, &["ALTER TABLE shop.in ADD b INT"]);
    ended(forward(&into).arg("--once")).exits(0).says(&["1 row received"]);
    assert_eq!(count(&server, "shop.in"), 2);
}

#[test]
fn who_logs_in_to_kafka_may_write() {
    if !Kafka::is_here("who_logs_in_to_kafka_may_write") {
        return;
    }
    let (server, kafka) = (start(), Kafka::shared());
    kafka.make("logins", 1, &[]);
    does(&server, &[ORDERS]);
    let pem = kafka.folder.path().join("pem");
    for (sent, (scheme, user, port)) in
        (1..).zip([("kafka", "plain", 1), ("kafka", "scram", 1), ("kafka+tls", "scram", 2)])
    {
        does(&server, &["INSERT INTO shop.jobs VALUES (1, 'a')"]);
        let there = format!("{scheme}://{user}:s3%3Acret@127.0.0.1:{}", kafka.ports[port]);
        let mut command = forward(&[&url(&server), "shop.jobs", &there, "logins"]);
        ended(command.arg("--once").env("SSL_CERT_FILE", &pem)).exits(0).says(&["1 row forwarded"]);
        assert_eq!(kafka.sum("logins"), sent);
    }
}

/// Its messages have the numbers of others that came before.
#[test]
fn a_topic_that_is_made_anew_counts_anew() {
    if !Kafka::is_here("a_topic_that_is_made_anew_counts_anew") {
        return;
    }
    let (server, kafka) = (start(), Kafka::shared());
    does(&server, &["CREATE TABLE shop.in (v INT NOT NULL) ENGINE=QUEUE"]);
    let (here, there, brokers) = (url(&server), kafka.url(), kafka.server());
    let receive = || ended(forward(&[&there, "anew", &here, "shop.in"]).args(["--once", "--consumer", "c"]));
    kafka.make("anew", 1, &[]);
    kafka.produce("anew", &[], "{\"v\":1}\n{\"v\":2}\n");
    receive().exits(0).says(&["2 rows received"]);
    kafka.tool("TopicCommand", &["--bootstrap-server", &brokers, "--delete", "--topic", "anew"], "");
    until("it is gone", || kafka.sum("anew") == 0);
    kafka.make("anew", 1, &[]);
    kafka.produce("anew", &[], "{\"v\":3}\n{\"v\":4}\n");
    // What the cluster knows of the one before is of no use.
    kafka.commit("c", "anew", "00000000000000000000000000000000");
    receive().exits(0).says(&["2 rows received"]);
    assert_eq!(count(&server, "shop.in"), 4);
    // What was deleted before it came is told.
    kafka.produce("anew", &[], "{\"v\":5}\n{\"v\":6}\n");
    let deleted = r#"{"version":1,"partitions":[{"topic":"anew","partition":0,"offset":3}]}"#;
    std::fs::write(kafka.folder.path().join("deleted"), deleted).unwrap();
    kafka.tool(
        "DeleteRecordsCommand",
        &["--bootstrap-server", &brokers, "--offset-json-file", "deleted"],
        "",
    );
    receive()
        .exits(1)
        .says(&["partition 0 of the topic anew: messages 2 to 2 were deleted before they came"]);
    let group = ["--bootstrap-server", &brokers, "--group", "c", "--topic", "anew"];
    let reset = [&group[..], &["--reset-offsets", "--to-earliest", "--execute"]].concat();
    kafka.tool("consumer.group.ConsumerGroupCommand", &reset, "");
    receive().exits(0).says(&["1 row received"]);
    assert_eq!(count(&server, "shop.in"), 5);
}

/// Stands before the port that Kafka tells to those who come through it, and spoils the answers to the first
/// messages: the first says that replicas are missing after all, and the second never comes.
fn spoil(kafka: &Kafka) {
    let listener = TcpListener::bind(("127.0.0.1", kafka.ports[5])).unwrap();
    let (to, sent) = (kafka.ports[4], Arc::new(AtomicU16::new(0)));
    let serve = move |mut client: TcpStream, sent: &AtomicU16| -> std::io::Result<()> {
        let mut server = TcpStream::connect(("127.0.0.1", to))?;
        loop {
            let asked = frame(&mut client)?;
            server.write_all(&asked)?;
            let mut answer = frame(&mut server)?;
            // A request begins with its length and its kind.
            let number = if asked[4..6] == [0, 0] { sent.fetch_add(1, Ordering::Relaxed) } else { u16::MAX };
            match number {
                0 => {
                    // Behind length, number, one topic with its name, and one partition with its index.
                    let at = 4 + 4 + 4 + 2 + usize::from(answer[13]) + 4 + 4;
                    answer[at..at + 2].copy_from_slice(&[0, 20]);
                }
                1 => return Ok(()),
                _ => {}
            }
            client.write_all(&answer)?;
        }
    };
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (sent, client) = (Arc::clone(&sent), client.unwrap());
            std::thread::spawn(move || drop(serve(client, &sent)));
        }
    });
}

/// A request or an answer, with its length before it.
fn frame(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let length = u32::from_be_bytes(*frame.first_chunk().unwrap());
    frame.resize(4 + length as usize, 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// The producer tries again with the number that a message had before, and Kafka drops it.
#[test]
fn a_message_whose_answer_is_lost_does_not_come_twice() {
    if !Kafka::is_here("a_message_whose_answer_is_lost_does_not_come_twice") {
        return;
    }
    let (server, kafka) = (start(), Kafka::shared());
    kafka.make("spoilt", 1, &[]);
    spoil(kafka);
    does(&server, &[ORDERS, "INSERT INTO shop.jobs VALUES (1, 'a'), (2, 'b'), (3, 'c')"]);
    let there = format!("kafka://127.0.0.1:{}", kafka.ports[5]);
    let forwarded = ended(forward(&[&url(&server), "shop.jobs", &there, "spoilt"]).arg("--once"));
    let forwarded = forwarded.exits(0).says(&["3 rows forwarded"]);
    assert!(!forwarded.err.contains("again") && !forwarded.err.contains("twice"), "{}", forwarded.err);
    assert_eq!(kafka.sum("spoilt"), 3);
}
