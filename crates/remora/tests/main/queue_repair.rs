//! The commands that fix a queue: list, peek, retry, replay, drop.

use serde_json::Value;

use crate::queue::{count, on, start};
use crate::support::{Ended, Running, connect, until};

fn ended(server: &sandbox::Sandbox, arguments: &[&str]) -> Ended {
    Ended::of(&on(server, arguments).output().unwrap())
}

/// The lines of JSON of a command that ends well.
fn lines(server: &sandbox::Sandbox, arguments: &[&str]) -> Vec<Value> {
    let told = ended(server, &[arguments, &["--json"]].concat()).exits(0);
    told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A queue whose rows have two tries, and six rows of twelve that have none left: three for each reason.
fn failed(server: &sandbox::Sandbox) {
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.dead (id INT, body VARCHAR(20), failed INT NULL, why TEXT NULL) \
         ENGINE=QUEUE FAILED=failed WHY=why");
    run("CREATE TABLE shop.jobs (id INT, body VARCHAR(20)) ENGINE=QUEUE TRIES=2 DEAD='dead'");
    run("INSERT INTO shop.jobs SELECT seq, CONCAT('job\\t', seq) FROM shop.seq_1_to_12");
    for _ in 0..6 {
        run("SET @l = queue_lease_json(30, 2, 'shop.jobs', 0)");
        run("SELECT queue_nack(JSON_VALUE(@l, '$[0].token'), 0, 'no such host'), \
             queue_nack(JSON_VALUE(@l, '$[1].token'), 0, 'full')");
    }
}

#[test]
fn a_list_shows_the_contents_and_options_of_queues() {
    let mut server = start();
    failed(&server);
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.later (id INT, at INT) ENGINE=QUEUE DUE=at");
    run("INSERT INTO shop.later VALUES (1, UNIX_TIMESTAMP() + 900), (2, NULL)");
    run("SELECT queue_lease_json(30, 1, 'shop.jobs', 0)");
    run("SELECT queue_pause('shop.jobs')");
    run("CREATE TABLE shop.line (id INT, k INT) ENGINE=QUEUE FIFO=k DEDUPE=id");
    run("INSERT INTO shop.line VALUES (1, 7), (2, 7), (3, 7), (3, 8)");
    run("SELECT queue_pause('shop.line', 8)");
    let cells = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let shown = ended(&server, &["list"]).exits(0).out;
    assert_eq!(cells(&shown, "shop.jobs")[..7], ["5", "0", "1", "1", "0", "0", "6"]);
    assert_eq!(cells(&shown, "shop.jobs")[9..], ["paused", "TRIES='2'", "DEAD='dead'"]);
    assert_eq!(cells(&shown, "shop.later")[..7], ["1", "0", "1", "0", "1", "0", "0"]);
    assert_eq!(cells(&shown, "shop.line")[..2], ["3", "2"]);
    assert_eq!(cells(&shown, "shop.line")[9..13], ["1", "keys", "paused,", "FIFO='k'"]);
    assert_eq!(lines(&server, &["list", "shop.line"])[0]["left_out"], 1);
    assert!(cells(&shown, "shop.dead")[8].contains(':'), "{shown}");
    // A queue with readers has a line for each.
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.news (id INT) ENGINE=QUEUE KEEP=9 READERS='audit,mail'");
    run("INSERT INTO shop.news VALUES (1), (2), (3)");
    run("SELECT queue_wait('shop.news@mail')");
    run("SELECT queue_wait('shop.news@mail')");
    let shown = ended(&server, &["list", "shop.news"]).exits(0).out;
    assert_eq!(cells(&shown, "shop.news@audit")[..2], ["3", "0"]);
    assert_eq!(cells(&shown, "shop.news@mail")[..2], ["1", "1"]);
    let found = lines(&server, &["list", "shop.news"]);
    assert_eq!((&found[1]["message_type"], &found[1]["waiting"]), (&Value::from("reader"), &Value::from(3)));
    // Nobody has used them since.
    drop(session);
    server.stop().unwrap();
    server.restart().unwrap();
    let found = lines(&server, &["list", "shop.d*", "shop.later"]);
    let names: Vec<_> = found.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["shop.dead", "shop.later"]);
    assert_eq!((&found[0]["waiting"], &found[1]["due_later"]), (&Value::from(6), &Value::from(1)));
    ended(&server, &["list", "shop.nosuch"]).exits(2).says(&["there is no such queue"]);
}

#[test]
fn a_peek_shows_the_first_rows_and_takes_none() {
    let server = start();
    failed(&server);
    let shown = ended(&server, &["peek", "dead", "-D", "shop", "-n", "2"]).exits(0);
    assert_eq!(shown.out, "id\tbody\tfailed\twhy\n1\tjob\\t1\t2\tno such host\n2\tjob\\t2\t2\tfull\n");
    shown.says(&["2 of 6 rows shown"]);
    let found = lines(&server, &["peek", "shop.dead", "--where", "why = 'full' OR id = 1"]);
    let ids: Vec<_> = found.iter().filter_map(|line| line["row"]["id"].as_str()).collect();
    assert_eq!(ids, ["1", "2", "4", "6"]);
    assert_eq!((&found[4]["shown"], &found[4]["rows"]), (&Value::from(4), &Value::from(4)));
    // A row that somebody owns is hidden, and not counted.
    let mut owner = connect(server.socket());
    owner.execute("SELECT queue_wait('shop.dead')").unwrap();
    ended(&server, &["peek", "shop.dead"]).exits(0).says(&["5 rows"]);
    ended(&server, &["peek", "shop.dead", "--hidden"]).exits(0).says(&["6 rows"]);
    owner.execute("CREATE TABLE shop.plain (v INT)").unwrap();
    ended(&server, &["peek", "shop.plain"]).exits(1).says(&["is no queue (ENGINE=InnoDB)"]);
    ended(&server, &["peek", "shop.nosuch"]).exits(1).says(&["no such table"]);
}

#[test]
fn a_retry_moves_the_selected_rows() {
    let server = start();
    failed(&server);
    let mut session = connect(server.socket());
    let retry = |rest: &[&str]| ended(&server, &[&["retry", "shop.dead", "--to"], rest].concat());
    let odd = ["shop.jobs", "--where", "id % 2 = 1"];
    retry(&[&odd[..], &["--dry-run"]].concat()).exits(0).says(&["3 rows would move"]);
    assert_eq!((count(&server, "shop.dead"), count(&server, "shop.jobs")), (6, 6));
    retry(&[&odd[..], &["-n", "2"]].concat()).exits(0).says(&["2 rows moved"]);
    let ids = "SELECT GROUP_CONCAT(id) FROM shop.jobs WHERE id < 7";
    assert_eq!(session.value(ids).unwrap().as_deref(), Some("1,3"));
    for more in [&[][..], &["--dry-run"]] {
        let told = retry(&[&["shop.jobs", "--where", "nosuch = 1"], more].concat());
        told.exits(1).says(&["there is no column nosuch"]);
    }
    // Where a row would not fit as it is.
    session.execute("CREATE TABLE shop.short (id INT, body VARCHAR(19)) ENGINE=QUEUE").unwrap();
    session.execute("CREATE TABLE shop.wide (id INT, body VARCHAR(20), n INT) ENGINE=QUEUE").unwrap();
    session.execute("CREATE TABLE shop.plain (id INT, body VARCHAR(20))").unwrap();
    retry(&["shop.short"]).exits(1).says(&["`dead` has the column body varchar(20)", "`short` has none"]);
    retry(&["shop.wide"]).exits(1).says(&["`wide` has the column n int"]);
    retry(&["shop.plain"]).exits(1).says(&["is no queue"]);
    retry(&["shop.dead"]).exits(1).says(&["source and destination"]);
    assert_eq!(count(&server, "shop.dead"), 4);
    retry(&["shop.jobs"]).exits(0).says(&["4 rows moved"]);
    assert_eq!((count(&server, "shop.dead"), count(&server, "shop.jobs")), (0, 12));
}

#[test]
fn a_retry_knows_how_often_and_why_a_row_has_failed() {
    let server = start();
    failed(&server);
    let retry =
        |rest: &[&str]| ended(&server, &[&["retry", "shop.dead", "--to", "shop.jobs"], rest].concat());
    for (condition, rows) in
        [("failed > 2", 0), ("FAILED = 2 and `why` like 'no%'", 3), ("why = 'full' and body != 'why'", 3)]
    {
        let dry = retry(&["--where", condition, "--dry-run"]);
        dry.exits(0).says(&[&format!("{rows} row{} would move", if rows == 1 { "" } else { "s" })]);
    }
    retry(&["--where", "why = 'full' and failed > 1", "-n", "2"]).exits(0).says(&["2 rows moved"]);
    let mut session = connect(server.socket());
    let left = "SELECT GROUP_CONCAT(why ORDER BY why) FROM shop.dead";
    let expected = "full,no such host,no such host,no such host";
    assert_eq!(session.value(left).unwrap().as_deref(), Some(expected));
    retry(&["--where", "why like '%host'"]).exits(0).says(&["3 rows moved"]);
    assert_eq!(session.value(left).unwrap().as_deref(), Some("full"));
}

#[test]
fn a_replay_gives_ended_rows_again() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.t (id INT) ENGINE=QUEUE KEEP=3600");
    run("CREATE TABLE shop.plain (id INT) ENGINE=QUEUE");
    run("INSERT INTO shop.t SELECT seq FROM shop.seq_1_to_9");
    run("DELETE FROM shop.t WHERE id < 7");
    let peek = |rest: &[&str]| ended(&server, &[&["peek", "shop.t"], rest].concat()).exits(0).out;
    assert_eq!(peek(&["--kept", "-n", "2"]), "id\n1\n2\n");
    assert_eq!(lines(&server, &["list", "shop.t"])[0]["kept"], 6);
    let replay = |rest: &[&str]| ended(&server, &[&["replay", "shop.t"], rest].concat());
    replay(&[]).exits(2).says(&["which rows? --first and --last, --since and --until, or --all"]);
    replay(&["--all", "--first", "1"]).exits(2);
    replay(&["--first", "2", "--last", "3"]).exits(0).says(&["2 rows of `shop`.`t` given again"]);
    replay(&["--since", "2001-01-01", "--until", "2001-01-02"]).exits(0).says(&["0 rows"]);
    replay(&["--since", "yesterday"]).exits(2).says(&["'yesterday' is neither a row number nor a time"]);
    replay(&["--since", "2001-01-01"]).exits(0).says(&["4 rows of `shop`.`t` given again"]);
    assert_eq!(peek(&[]).lines().count(), 10);
    assert_eq!(lines(&server, &["replay", "shop.t", "--all"])[0]["rows"], 0);
    let told = ended(&server, &["replay", "shop.plain", "--all"]).exits(1).says(&["created without KEEP"]);
    assert!(!told.err.contains("queue.sql"), "{}", told.err);
    let told = ended(&server, &["peek", "shop.t", "--where", "nosuch = 1"]).exits(2);
    assert!(
        told.err.contains("--where: Unknown column 'nosuch'") && !told.err.contains("SELECT"),
        "{}",
        told.err
    );
}

/// Two queues on a server, one with many rows.
fn many(server: &sandbox::Sandbox, rows: u64) {
    let mut session = connect(server.socket());
    for name in ["jobs", "dead"] {
        session.execute(&format!("CREATE TABLE shop.{name} (v INT) ENGINE=QUEUE")).unwrap();
    }
    session.execute(&format!("INSERT INTO shop.dead SELECT seq FROM shop.seq_1_to_{rows}")).unwrap();
}

const RETRY: [&str; 4] = ["retry", "shop.dead", "--to", "shop.jobs"];

#[test]
fn a_retry_moves_each_row_once_after_any_kill() {
    const ROWS: u64 = 1500;
    let mut server = start();
    many(&server, ROWS);
    // One that has moved rows has connected: else it would not try again.
    let begin = || {
        let before = count(&server, "shop.jobs");
        let running = Running::new(on(&server, &RETRY).spawn().unwrap());
        until("some rows came", || count(&server, "shop.jobs") > before);
        running
    };
    (0..3).for_each(|_| drop(begin()));
    let running = begin();
    server.kill().unwrap();
    server.restart().unwrap();
    running.end().exits(0).says(&["trying again", "moved"]);
    // What was owned by a program that was killed may have come back late.
    until("nothing is left", || {
        ended(&server, &RETRY).exits(0);
        count(&server, "shop.dead") == 0
    });
    let once = "SELECT CONCAT_WS(' ', COUNT(*), COUNT(DISTINCT v), MIN(v), MAX(v)) FROM shop.jobs";
    let found = connect(server.socket()).value(once).unwrap().unwrap();
    assert_eq!(found, format!("{ROWS} {ROWS} 1 {ROWS}"));
}

/// Else rows that fail again at once would go round and round.
#[test]
fn a_retry_leaves_rows_that_arrive_while_it_runs() {
    let server = start();
    many(&server, 1500);
    let running = Running::new(on(&server, &RETRY).spawn().unwrap());
    until("it has begun", || count(&server, "shop.jobs") > 0);
    running.signal("STOP");
    connect(server.socket()).execute("INSERT INTO shop.dead VALUES (0), (0)").unwrap();
    running.signal("CONT");
    running.end().exits(0).says(&["1500 rows moved"]);
    assert_eq!((count(&server, "shop.dead"), count(&server, "shop.jobs")), (2, 1500));
}

#[test]
fn a_drop_ends_rows_that_nobody_owns() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.jobs (v INT, at INT) ENGINE=QUEUE DUE=at");
    run(
        "INSERT INTO shop.jobs VALUES (1, NULL), (2, NULL), (3, NULL), (4, NULL), (5, UNIX_TIMESTAMP() + 900)",
    );
    run("CREATE TABLE shop.plain (v INT)");
    run("INSERT INTO shop.plain VALUES (1)");
    run("SELECT queue_lease_json(30, 1, 'shop.jobs', 0)");
    run("SELECT queue_wait('shop.jobs')");
    let dropped = |rest: &[&str]| ended(&server, &[&["drop", "shop.jobs"], rest].concat());
    dropped(&[]).exits(2).says(&["--where", "--all"]);
    dropped(&["--all", "--where", "v = 1"]).exits(2);
    dropped(&["--all", "--dry-run"]).exits(0).says(&["2 rows", "would be dropped", "3 more do not wait"]);
    assert_eq!(count(&server, "shop.jobs"), 5);
    // How many others stay is not known after the limit.
    let told = dropped(&["--where", "v < 5", "-n", "1"]).exits(0).says(&["1 row of"]);
    assert!(!told.err.contains("not dropped"), "{}", told.err);
    let left = "SET STATEMENT queue_show_owned = ON FOR SELECT GROUP_CONCAT(v) FROM shop.jobs";
    let mut other = connect(server.socket());
    assert_eq!(other.value(left).unwrap().as_deref(), Some("1,2,4,5"));
    let told = lines(&server, &["drop", "shop.jobs", "--all"]);
    assert_eq!((&told[0]["rows"], &told[0]["kept"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(other.value(left).unwrap().as_deref(), Some("1,2"));
    dropped(&["--all", "-n", "1"]).exits(0).says(&["0 rows", "not dropped: 2 rows"]);
    ended(&server, &["drop", "shop.plain", "--all"]).exits(1).says(&["is no queue"]);
    assert_eq!(count(&server, "shop.plain"), 1);
}
