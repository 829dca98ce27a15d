//! The statements of docs/manual/queue-patterns.md, in their order.

use crate::server::{Client, Server};

/// The blocks of SQL below a heading, with the word behind `sql`.
fn blocks(heading: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let page = include_str!("../../../../docs/manual/queue-patterns.md");
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).expect(heading);
    let section = section.split("\n## ").next().unwrap();
    let block = |block: &'static str| {
        let (who, block) = block.split_once('\n').unwrap();
        let statements = block.split("\n```").next().unwrap().split(';').map(str::trim);
        (who.trim(), statements.filter(|statement| !statement.is_empty()).collect())
    };
    section.split("```sql").skip(1).map(block).collect()
}

fn run(client: &mut Client, statements: &[&str]) {
    statements.iter().for_each(|statement| client.run(statement));
}

#[test]
fn the_patterns_of_the_manual_do_what_they_say() {
    let server = Server::start_with(&["--log-bin=log", "--binlog-format=ROW"]);
    let (mut one, mut two) = (server.connect("shop"), server.connect("shop"));

    run(&mut one, &blocks("Outbox")[0].1);
    one.run("START TRANSACTION");
    one.run("INSERT INTO orders (customer) VALUES (5)");
    one.run("ROLLBACK");
    one.run("INSERT INTO orders (customer) VALUES (6)");
    assert_eq!(two.column("SELECT customer FROM mails WHERE queue_wait('mails', 0)"), [6]);

    let batches = blocks("Batches");
    run(&mut one, &batches[0].1);
    run(&mut one, &batches[1].1);
    assert_eq!(batches[2].0, "worker");
    // One of two workers that are at it at the same time is the last.
    let (worker, last) = (&batches[2].1, batches[2].1.len() - 1);
    run(&mut one, &worker[..2]);
    run(&mut two, &worker[..2]);
    run(&mut one, &worker[2..last]);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| run(&mut two, &worker[2..]));
        one.run(worker[last]);
        waits.join().unwrap();
    });
    assert_eq!(one.column("SELECT batch FROM done"), [1]);
    assert_eq!(one.value("SELECT COUNT(*) FROM parts"), Some(0));

    let answers = blocks("Answers");
    assert_eq!([answers[1].0, answers[2].0], ["caller", "answerer"]);
    run(&mut one, &answers[0].1);
    run(&mut one, &answers[1].1[..2]);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| one.column(answers[1].1[2]));
        two.until_waiting(1);
        two.run("INSERT INTO answers VALUES (1, '41', UTC_TIMESTAMP() - INTERVAL 2 HOUR)");
        run(&mut two, &answers[2].1);
        assert_eq!(waits.join().unwrap(), [42]);
    });
    run(&mut one, &answers[1].1[3..]);
    assert_eq!(two.column("SELECT id FROM answers"), [1]);
    run(&mut two, &answers[3].1);
    assert_eq!(two.value("SELECT COUNT(*) FROM answers"), Some(0));

    let steps = blocks("Steps");
    run(&mut one, &steps[0].1);
    run(&mut two, &steps[1].1);
    one.run("INSERT INTO ship VALUES (8)");
    assert_eq!(one.column("SELECT orders FROM ship"), [7, 8]);
    run(&mut one, &blocks("Cancel and change")[0].1);
    assert_eq!(one.column("SELECT orders FROM ship"), [7]);
}
