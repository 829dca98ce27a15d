//! Rows that go to Kafka and messages that come from it, while everything in between is killed. Kafka's own
//! programs are the other clients.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::kafka::Kafka;
use crate::queue::{count, start, url};
use crate::queue_broker::{
    MESSAGES, ORDERS, ROWS, does, ended, forward, forwarded_whatever_is_killed, received_whatever_is_killed,
};
use crate::support::{Running, connect, until};

/// Numbers in members `v` of lines of JSON.
fn numbers(lines: &[String]) -> Vec<u64> {
    lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["v"].as_u64().unwrap())
        .collect()
}

#[test]
fn kafka_gets_each_row_once_after_any_kill() {
    if !Kafka::is_here("kafka_gets_each_row_once_after_any_kill") {
        return;
    }
    let (mut from, mut kafka) = (start(), Kafka::start());
    kafka.make("orders", 1, &[]);
    let fill = format!("INSERT INTO shop.jobs SELECT seq, REPEAT('j', 500) FROM shop.seq_1_to_{ROWS}");
    does(&from, &[ORDERS, &fill]);
    let (source, to) = (url(&from), kafka.url());
    let places = [source.as_str(), "shop.jobs", &to, "orders"];
    forwarded_whatever_is_killed(&mut from, &mut kafka, &places);
    assert!(numbers(&kafka.messages("orders", &[])).into_iter().eq(1..=ROWS));
}

#[test]
fn a_queue_gets_each_message_of_kafka_once_after_any_kill() {
    if !Kafka::is_here("a_queue_gets_each_message_of_kafka_once_after_any_kill") {
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
    received_whatever_is_killed(&mut to, &mut kafka, &places);
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
fn a_key_chooses_the_same_partition_as_in_other_clients() {
    if !Kafka::is_here("a_key_chooses_the_same_partition_as_in_other_clients") {
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
fn messages_of_other_clients_are_read_in_every_format() {
    if !Kafka::is_here("messages_of_other_clients_are_read_in_every_format") {
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
fn refusals_of_kafka_are_reported() {
    if !Kafka::is_here("refusals_of_kafka_are_reported") {
        return;
    }
    let (server, kafka) = (start(), Kafka::shared());
    let (here, there) = (url(&server), kafka.url());
    does(&server, &[ORDERS, "INSERT INTO shop.jobs VALUES (1, 'a')"]);
    let ends = |code: i32, places: &[&str], more: &[&str], words: &[&str]| {
        let ended = ended(forward(places).args(["--once"]).args(more)).exits(code).says(words);
        assert!(!ended.err.contains("s3"), "{}", ended.err);
    };
    let says = |places: &[&str], more: &[&str], words: &[&str]| ends(1, places, more, words);
    says(&[&here, "shop.jobs", &there, "none"], &[], &["no topic none", "kafka-topics.sh"]);
    says(&[&there, "none", &here, "shop.jobs"], &[], &["no topic none"]);
    says(&[&here, "shop.jobs", &there, "a b"], &[], &["\"a b\" is no topic"]);
    says(&[&here, "shop.jobs", &there], &[], &["kafka://host TOPIC"]);
    ends(10, &[&here, "shop.jobs", "kafka://127.0.0.1:1", "a"], &[], &["kafka://127.0.0.1:1", "refused"]);
    ends(2, &[&here, "shop.jobs", &format!("{there}/a")], &[], &["topic is an argument of its own"]);
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
    let tells = |code: i32, places: [String; 4], words: &[&str]| {
        ends(code, &places.each_ref().map(String::as_str), &[], words);
    };
    says(&to(&there).each_ref().map(String::as_str), &["--key", "w"], &["--key: the queue has no column w"]);
    tells(10, at("kafka", "", 1), &["the broker closed the connection; check credentials"]);
    tells(10, at("kafka", "plain:s3@", 0), &["leave out user:password@"]);
    tells(10, at("kafka", "plain:s3@", 1), &["Authentication failed"]);
    tells(10, at("kafka", "scram:s3@", 1), &["Authentication failed"]);
    tells(1, at("kafka", "other:s3%3Acret@", 1), &["TOPIC_AUTHORIZATION_FAILED", "needs READ on the topic"]);
    tells(10, at("kafka", "plain:s3%3Acret@", 2), &["(kafka+tls://)"]);
    tells(10, at("kafka+tls", "plain:s3%3Acret@", 2), &["TLS", "UnknownIssuer"]);
    does(&server, &["DELETE FROM shop.jobs", "INSERT INTO shop.jobs VALUES (2, REPEAT('x', 2000000))"]);
    tells(1, to(&there), &["MESSAGE_TOO_LARGE", "max.message.bytes", ":2"]);
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
fn a_login_to_kafka_may_write() {
    if !Kafka::is_here("a_login_to_kafka_may_write") {
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
fn a_recreated_topic_is_read_from_its_beginning() {
    if !Kafka::is_here("a_recreated_topic_is_read_from_its_beginning") {
        return;
    }
    let (server, kafka) = (start(), Kafka::shared());
    does(&server, &["CREATE TABLE shop.in (v INT NOT NULL) ENGINE=QUEUE"]);
    let (here, there, brokers) = (url(&server), kafka.url(), kafka.server());
    let receive =
        || ended(forward(&[&there, "renewed", &here, "shop.in"]).args(["--once", "--consumer", "c"]));
    kafka.make("renewed", 1, &[]);
    kafka.produce("renewed", &[], "{\"v\":1}\n{\"v\":2}\n");
    receive().exits(0).says(&["2 rows received"]);
    kafka.tool("TopicCommand", &["--bootstrap-server", &brokers, "--delete", "--topic", "renewed"], "");
    until("it is gone", || kafka.sum("renewed") == 0);
    kafka.make("renewed", 1, &[]);
    kafka.produce("renewed", &[], "{\"v\":3}\n{\"v\":4}\n");
    // What the cluster knows of the one before is of no use.
    kafka.commit("c", "renewed", "00000000000000000000000000000000");
    receive().exits(0).says(&["2 rows received"]);
    assert_eq!(count(&server, "shop.in"), 4);
    // What was deleted before it came is told.
    kafka.produce("renewed", &[], "{\"v\":5}\n{\"v\":6}\n");
    let deleted = r#"{"version":1,"partitions":[{"topic":"renewed","partition":0,"offset":3}]}"#;
    std::fs::write(kafka.folder.path().join("deleted"), deleted).unwrap();
    kafka.tool(
        "DeleteRecordsCommand",
        &["--bootstrap-server", &brokers, "--offset-json-file", "deleted"],
        "",
    );
    receive()
        .exits(1)
        .says(&["partition 0 of the topic renewed: messages 2 to 2 were deleted before they were received"]);
    let group = ["--bootstrap-server", &brokers, "--group", "c", "--topic", "renewed"];
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
