//! What `remora queue status` and `remora stat` show of queues.

use std::path::Path;
use std::process::Stdio;

use sandbox::Sandbox;
use server::Session;

use crate::queue::{on, start, url};
use crate::support::{Ended, Running, connect, remora};

#[test]
fn a_status_has_queues_that_nobody_used_since_the_start() {
    let mut server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CREATE TABLE shop.jobs (v INT) ENGINE=QUEUE");
    run("CREATE TABLE shop.`no rows` LIKE shop.jobs");
    run("INSERT INTO shop.jobs VALUES (1), (2)");
    run("CREATE TABLE shop.failing (v INT) ENGINE=QUEUE TRIES=2 BACKOFF='600,1,0'");
    run("INSERT INTO shop.failing VALUES (1), (2)");
    for delay in ["0", "0", "NULL"] {
        let lease = "SELECT REGEXP_SUBSTR(queue_lease_json(30, 1, 'shop.failing', 0), 'shop[^\"]*')";
        let token = session.value(lease).unwrap().unwrap();
        session.execute(&format!("SELECT queue_nack('{token}', {delay})")).unwrap();
    }
    server.stop().unwrap();
    server.restart().unwrap();
    let shown = Ended::of(&on(&server, &["status"]).output().unwrap()).exits(0);
    let cells = |name: &str| {
        let line = shown.out.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("shop.jobs")[..5], ["2", "0", "0", "0", "0"]);
    assert!(cells("shop.jobs")[5].contains(':'), "{}", shown.out);
    assert_eq!(
        cells("shop.failing")[..4],
        ["0", "2", "1", "1"],
        "one waits until later, one has no tries left"
    );
    assert_eq!(cells("shop.no rows")[..6], ["0", "0", "0", "0", "0", "-"]);
    let shown = Ended::of(&on(&server, &["status", "--json"]).output().unwrap()).exits(0);
    let lines = shown.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let oldest: Vec<_> = lines.map(|line| (line["name"].clone(), line["oldest_s"].clone())).collect();
    assert!(oldest.iter().any(|(name, oldest)| name == "shop.jobs" && oldest.is_u64()), "{}", shown.out);
    assert!(oldest.iter().any(|(name, oldest)| name == "shop.no rows" && oldest.is_null()), "{}", shown.out);
    session = connect(server.socket());
    session.value("SELECT queue_lease_json(30, 1, 'shop.jobs', 0)").unwrap();
    session.execute("INSERT INTO shop.`no rows` VALUES (1)").unwrap();
    session.value("SELECT queue_lease_json(30, 1, 'shop.no rows', 0)").unwrap();
    let shown = Ended::of(&on(&server, &["status", "--times"]).output().unwrap()).exits(0);
    let ends = ["<1 ms", "<10 min", "<1 d", "longer", "worked"];
    assert!(ends.iter().all(|word| shown.out.contains(word)), "{}", shown.out);
    let shown_text = shown.out;
    let shown = Ended::of(&on(&server, &["status", "--json"]).output().unwrap()).exits(0);
    let lines = shown.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let line = lines.into_iter().find(|line| line["name"] == "shop.no rows").unwrap();
    let counts = |kind: &str| -> Vec<u64> {
        line[kind].as_array().unwrap().iter().map(|class| class["count"].as_u64().unwrap()).collect()
    };
    assert_eq!((counts("waited").len(), counts("waited").iter().sum::<u64>()), (10, 1), "{line}");
    assert_eq!((counts("worked"), &line["worked"][3]["below_ms"]), (vec![0; 10], &1000.into()), "{line}");
    session.value("SELECT queue_pause('shop.jobs')").unwrap();
    let shown = Ended::of(&on(&server, &["status"]).output().unwrap()).exits(0);
    assert!(shown.out.lines().next().unwrap().ends_with(" paused"), "{}", shown.out);
    // Keys, and transactions, are shown where there are any.
    assert!(!shown_text.contains("keys") && !shown_text.contains("open"), "{shown_text}");
    session.execute("CREATE TABLE shop.lines (v INT, k INT) ENGINE=QUEUE FIFO=k").unwrap();
    session.execute("INSERT INTO shop.lines VALUES (1, 1), (2, 2)").unwrap();
    session.value("SELECT queue_lease_json(30, 2, 'shop.lines', 0)").unwrap();
    let shown = Ended::of(&on(&server, &["status"]).output().unwrap()).exits(0);
    let ends =
        |begin: &str, end: &str| shown.out.lines().any(|line| line.starts_with(begin) && line.ends_with(end));
    assert!(ends("queue ", "   keys"), "{}", shown.out);
    assert!(ends("shop.lines ", " 2") && ends("shop.jobs ", " -"), "{}", shown.out);
    keys_are_counted(&server, &mut session);
    rows_that_are_written_together_share_a_sync(&server, &mut session);
    // Without the privilege the server shows an empty list.
    session.execute("GRANT SELECT ON shop.* TO app@localhost IDENTIFIED BY ''").unwrap();
    let mut status = on(&server, &["status"]);
    Ended::of(&status.args(["--user", "app"]).output().unwrap()).exits(10).says(&["PROCESS"]);
}

fn keys_are_counted(server: &Sandbox, session: &mut Session) {
    let status =
        |more: &[&str]| Ended::of(&on(server, &[&["status"], more].concat()).output().unwrap()).exits(0).out;
    let numbers = || {
        let shown = status(&["--json"]);
        let mut lines = shown.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let line = lines.find(|line| line["name"] == "shop.lines").unwrap();
        ["keys_busy", "keys_paused", "transactions", "prepared", "in_doubt"].map(|name| line[name].as_u64())
    };
    assert_eq!(numbers(), [2, 0, 0, 0, 0].map(Some));
    assert!(!status(&[]).contains("keys paused"));
    session.value("SELECT queue_pause('shop.lines', 7)").unwrap();
    let shown = status(&[]);
    assert!(shown.lines().next().unwrap().contains(" keys paused "), "{shown}");
    assert_eq!(numbers(), [2, 1, 0, 0, 0].map(Some));
}

fn rows_that_are_written_together_share_a_sync(server: &Sandbox, session: &mut Session) {
    let mut every = on(server, &["status", "--every", "1", "--json"]);
    let mut watching = Running::new(every.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    watching.line();
    session.execute("INSERT INTO shop.lines SELECT seq, seq FROM shop.seq_1_to_30").unwrap();
    let shared = std::iter::repeat_with(|| serde_json::from_str(&watching.line()).unwrap());
    let shared = shared.take(60).find_map(|line: serde_json::Value| line["rows_per_sync"].as_f64());
    assert!(shared.is_some_and(|rows| (10.0..=30.0).contains(&rows)), "{shared:?}");
}

#[test]
fn stat_shows_what_queues_hold_and_how_fast_rows_come_and_go() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    let stat = |rest: &[&str]| {
        let mut command = remora(Path::new("/"));
        command.args(["stat", "0.1", "--view", "queue", "--json", "--no-defaults"]).args(rest);
        command.arg(url(&server)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let number = |line: &serde_json::Value, column: &str| line["queue"][column].as_f64();
    let hold = |line: &serde_json::Value| ["queues", "waiting", "owned"].map(|column| number(line, column));
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let shown = || read(&Ended::of(&stat(&["1", "-uroot"]).output().unwrap()).exits(0).out);
    assert_eq!(hold(&shown()), [None; 3]);
    run("CREATE TABLE shop.jobs (v INT) ENGINE=QUEUE");
    run("CREATE TABLE shop.mails LIKE shop.jobs");
    run("INSERT INTO shop.jobs VALUES (1), (2), (3), (4), (5)");
    run("INSERT INTO shop.mails VALUES (1), (2)");
    run("SELECT queue_wait('shop.jobs')");
    let line = shown();
    assert_eq!(hold(&line), [Some(2.0), Some(6.0), Some(1.0)], "{line}");
    assert_eq!((number(&line, "in_per_s"), number(&line, "out_per_s")), (Some(0.0), Some(0.0)));
    let mut running = Running::new(stat(&["-uroot"]).spawn().unwrap());
    running.line();
    run("INSERT INTO shop.mails SELECT seq FROM shop.seq_1_to_30");
    run("SELECT queue_end()");
    let (mut came, mut went) = (0.0, 0.0);
    for _ in 0..20 {
        let line = read(&running.line());
        let rows = |column: &str| number(&line, column).unwrap() * line["seconds"].as_f64().unwrap();
        came += rows("in_per_s");
        went += rows("out_per_s");
    }
    assert_eq!((came.round(), went.round()), (30.0, 1.0));
    assert_eq!(hold(&shown()), [Some(2.0), Some(36.0), Some(0.0)]);
    // The server shows an empty list to accounts without the privilege.
    run("CREATE USER app@localhost");
    let ended = Ended::of(&stat(&["1", "-uapp"]).output().unwrap()).exits(0);
    assert!(ended.out.contains("queues: not shown") && ended.out.contains("PROCESS"), "{}", ended.out);
}

#[test]
fn schedules_are_listed_with_what_is_wrong_with_them() {
    let server = start();
    let mut session = connect(server.socket());
    let mut run = |sql: &str| drop(session.execute(sql).unwrap());
    run("CALL mysql.queue_schedule('report', '0 3 * * mon-fri', 'Europe/Berlin', 'shop.jobs', '{\"v\": 1}')");
    run("CALL mysql.queue_schedule('tidy', '@hourly', 'UTC', 'shop.jobs', '{\"v\": 1}')");
    run("UPDATE mysql.queue_schedule SET enabled = 0, error = 'no jobs' WHERE name = 'tidy'");
    let ended = Ended::of(&on(&server, &["schedules"]).output().unwrap()).exits(0);
    let mut shown = ended.out.lines().map(str::to_owned);
    assert_eq!(
        shown.next().unwrap(),
        "name    queue      spec             zone           last (UTC)  next (UTC)"
    );
    let report = shown.next().unwrap();
    assert!(
        report.starts_with("report  shop.jobs  0 3 * * mon-fri  Europe/Berlin  -           20"),
        "{report}"
    );
    assert_eq!(
        shown.next().unwrap(),
        "tidy    shop.jobs  @hourly          UTC            -           disabled             no jobs"
    );
    assert_eq!(shown.next(), None);
    let ended = Ended::of(&on(&server, &["schedules", "--json"]).output().unwrap()).exits(0);
    let line: serde_json::Value = serde_json::from_str(ended.out.lines().next().unwrap()).unwrap();
    assert!(line["until_s"].as_i64().unwrap() > 0, "{line}");
    crate::schema::check("queue schedules", &ended.out).unwrap();
    drop(session.execute("DROP TABLE mysql.queue_schedule").unwrap());
    Ended::of(&on(&server, &["schedules"]).output().unwrap())
        .exits(1)
        .says(&["run sql/queue.sql of this version"]);
}
