use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Failed, LEFT_OUT, POLL, Pass, Runner, Session};
use crate::Target;

type Rows = Vec<Vec<Option<String>>>;

/// A server that knows the runner's statements: its table, the messages that were put, and a transaction.
#[derive(Default)]
struct Server {
    rows: Rows,
    messages: Vec<String>,
    globals: BTreeMap<&'static str, &'static str>,
    /// What each table is: engine and options.
    tables: BTreeMap<&'static str, (&'static str, &'static str)>,
    /// The state at START TRANSACTION.
    before: Option<(Rows, Vec<String>)>,
    /// A statement that begins so fails with this.
    fails: Option<(&'static str, u32)>,
    statements: usize,
    /// The rows that are in the queue, by their names.
    there: Vec<String>,
    committed: Option<String>,
}

const MADE: &str = "2026-01-02 00:00:00.000000";

impl Server {
    fn new(spec: &str, missed: &str) -> Server {
        let row = ["one", spec, "UTC", "db.q", r#"{"at": "{tick}"}"#, missed, "60", MADE, MADE]
            .map(|text| Some(text.to_owned()));
        let more = ["allow", ""].map(|text| Some(text.to_owned()));
        let row = row.into_iter().chain(more).chain([None, None]).collect();
        let globals = [("read_only", "0"), ("wsrep_on", "0")].into();
        let tables =
            [("'q'", ("QUEUE", "`TRANSACTIONAL`=1")), ("'plain'", ("QUEUE", "")), ("'i'", ("InnoDB", ""))]
                .into();
        Server { rows: vec![row], globals, tables, ..Server::default() }
    }

    fn set(&mut self, column: usize, value: Option<&str>) {
        self.rows[0][column] = value.map(str::to_owned);
    }

    fn error(&self) -> Option<&str> {
        self.rows[0][12].as_deref()
    }

    fn pass(&mut self, runner: &mut Runner, now: &str) -> Pass {
        runner.pass(self, now.parse::<Timestamp>().unwrap())
    }
}

fn one(value: &str) -> Rows {
    vec![vec![Some(value.to_owned())]]
}

impl Session for Server {
    fn query(&mut self, sql: &str) -> Result<Rows, Failed> {
        self.statements += 1;
        if let Some((_, code)) = self.fails.filter(|(start, _)| sql.starts_with(start)) {
            return Err(Failed { code, text: format!("error {code}") });
        }
        if let Some(name) = sql.strip_prefix("SELECT @@GLOBAL.") {
            return Ok(one(self.globals[name]));
        }
        if sql.starts_with("SELECT engine") {
            let table = self.tables.iter().find(|(name, _)| sql.contains(*name)).map(|(_, it)| *it);
            return Ok(table
                .map(|(engine, options)| vec![Some(engine.to_owned()), Some(options.to_owned())])
                .into_iter()
                .collect());
        }
        if sql.starts_with("SELECT name") {
            return Ok(self.rows.clone());
        }
        if sql == "START TRANSACTION" {
            self.before = Some((self.rows.clone(), self.messages.clone()));
        } else if sql == "ROLLBACK" {
            if let Some((rows, messages)) = self.before.take() {
                (self.rows, self.messages) = (rows, messages);
            }
        } else if sql == "COMMIT" {
            let before = self.before.take().map_or(0, |(_, messages)| messages.len());
            self.committed = (self.messages.len() > before).then(|| format!("row {}", self.messages.len()));
            self.there.extend(self.committed.clone());
        } else if sql.starts_with("INSERT") {
            let values = sql.split_once("VALUES ").unwrap().1;
            self.messages.extend(values.split(", ").map(str::to_owned));
        } else if let Some((_, rest)) = sql.split_once("SET last_row = '") {
            self.set(10, rest.split('\'').next());
        } else if let Some((_, rest)) = sql.split_once("last_tick = '") {
            let tick = rest.split('\'').next().unwrap().to_owned();
            self.set(8, Some(&tick));
            let next = rest.split_once("next_tick = '").unwrap().1;
            self.set(11, next.split('\'').next());
            let error = rest.split_once("error = '").and_then(|(_, why)| why.split('\'').next());
            self.set(12, error);
        } else if let Some((_, rest)) = sql.split_once("error = '") {
            let why = rest.split("' WHERE").next().unwrap().replace("''", "'");
            self.set(12, Some(&why));
        } else if let Some((_, rest)) = sql.split_once("next_tick = ") {
            self.set(11, rest.strip_prefix('\'').and_then(|time| time.split('\'').next()));
        } else {
            assert!(sql.starts_with("SET "), "{sql}");
        }
        Ok(Vec::new())
    }

    fn committed_row(&mut self) -> Option<String> {
        self.committed.take()
    }

    fn has_row(&mut self, target: &Target, row: &str) -> Result<bool, Failed> {
        assert_eq!(target.table, "q");
        match self.fails.filter(|(start, _)| *start == "has_row") {
            Some((_, code)) => Err(Failed { code, text: format!("error {code}") }),
            None => Ok(self.there.iter().any(|there| there == row)),
        }
    }
}

/// A server that does something else at a statement.
struct With<'server, F>(&'server mut Server, F);

impl<F: FnMut(&mut Server, &str)> Session for With<'_, F> {
    fn query(&mut self, sql: &str) -> Result<Rows, Failed> {
        (self.1)(self.0, sql);
        self.0.query(sql)
    }

    fn committed_row(&mut self) -> Option<String> {
        self.0.committed_row()
    }

    fn has_row(&mut self, target: &Target, row: &str) -> Result<bool, Failed> {
        self.0.has_row(target, row)
    }
}

#[test]
fn a_tick_is_delivered_once_and_the_next_one_waited_for() {
    let (mut server, mut runner) = (Server::new("0 * * * *", "once"), Runner::default());
    let pass = server.pass(&mut runner, "2026-01-02T00:59:59.25Z");
    assert_eq!(pass, Pass { sleep: POLL * 3 / 4, told: Vec::new(), delivered: 0 });
    assert_eq!(server.pass(&mut runner, "2026-01-02T01:00:00Z").delivered, 1);
    assert_eq!(server.messages, ["('2026-01-02 01:00:00.000000')"]);
    assert_eq!(server.rows[0][11].as_deref(), Some("2026-01-02 02:00:00.000000"));
    assert_eq!(server.pass(&mut runner, "2026-01-02T01:00:00.1Z").delivered, 0);
    // Another runner: the server was restarted. Its clock was set back.
    let mut runner = Runner::default();
    assert_eq!(server.pass(&mut runner, "2026-01-02T01:30:00Z").delivered, 0);
    assert_eq!(server.pass(&mut runner, "2026-01-02T00:30:00Z").delivered, 0);
    assert_eq!(server.pass(&mut runner, "2026-01-02T01:00:30Z").delivered, 0);
    assert_eq!(server.messages.len(), 1);
}

#[test]
fn nothing_is_delivered_when_any_statement_fails_and_all_is_later() {
    for start in [
        "SET NAMES",
        "SELECT name",
        "SELECT @@GLOBAL.read_only",
        "SELECT engine",
        "START",
        "INSERT",
        "UPDATE",
        "COMMIT",
    ] {
        for code in [1205, 3] {
            let (mut server, mut runner) = (Server::new("0 * * * *", "all"), Runner::default());
            server.fails = Some((start, code));
            for second in 0..3 {
                let pass = server.pass(&mut runner, &format!("2026-01-02T02:00:0{second}Z"));
                assert_eq!((pass.delivered, server.messages.len()), (0, 0), "{start} {code}");
                // What passes is not told, and what does not, once.
                assert_eq!(
                    pass.told.is_empty(),
                    code == 1205 || second > 0,
                    "{start} {code} {second}: {:?}",
                    pass.told
                );
            }
            server.fails = None;
            assert_eq!(server.pass(&mut runner, "2026-01-02T02:00:03Z").delivered, 2, "{start} {code}");
            assert_eq!((server.messages.len(), server.error()), (2, None), "{start} {code}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_schedule_is_shown_at_it() {
    let cases = [
        (1, "0 25 * * *", "'0 25 * * *' is not a cron expression: Number out of bounds"),
        (1, "0 0 30 2 *", "'0 0 30 2 *' does not come within ten years"),
        (
            2,
            "Mars",
            "'Mars' is not a time zone; use a name such as 'Europe/Berlin', 'UTC', or an offset such as '+02:00'",
        ),
        (3, "q", "'q' is not the name of a queue; write it as 'database.table'"),
        (3, "db.none", "there is no table db.none"),
        (3, "db.i", "db.i is not a queue; its engine is INNODB"),
        (3, "db.plain", "db.plain takes no part in transactions; ALTER TABLE db.plain TRANSACTIONAL=1"),
        (
            4,
            "[]",
            "the message is not a JSON object with a value for each column, such as {\"body\": \"hello\"}: ",
        ),
    ];
    for (column, value, why) in cases {
        let (mut server, mut runner) = (Server::new("0 * * * *", "once"), Runner::default());
        server.set(column, Some(value));
        let pass = server.pass(&mut runner, "2026-01-02T01:00:00Z");
        let told = server.error().unwrap_or_default().to_owned();
        assert!(told.starts_with(why), "{value}: {told}");
        assert_eq!(pass.told, [format!("schedule 'one': {told}")]);
        assert_eq!(pass.sleep, POLL);
        assert_eq!(server.pass(&mut runner, "2026-01-02T01:00:01Z").told, [""; 0], "{value}");
        assert_eq!(server.messages.len(), 0);
    }
}

#[test]
fn a_wrong_expression_is_read_once() {
    let (mut server, mut runner) = (Server::new("0 0 30 2 *", "once"), Runner::default());
    server.pass(&mut runner, "2026-01-02T01:00:00Z");
    let before = std::time::Instant::now();
    server.statements = 0;
    for _ in 0..1000 {
        server.pass(&mut runner, "2026-01-02T01:00:01Z");
    }
    // Looking ten years ahead takes a tenth of a second: a thousand times would be minutes.
    assert!(before.elapsed() < POLL * 20);
    assert_eq!(server.statements, 2000);
}

#[test]
fn a_server_that_must_not_write_delivers_nothing() {
    let (mut server, mut runner) = (Server::new("0 * * * *", "once"), Runner::default());
    server.globals.insert("read_only", "1");
    let pass = server.pass(&mut runner, "2026-01-02T01:00:00Z");
    assert_eq!((pass.delivered, pass.told.len(), pass.sleep), (0, 0, POLL));
    server.globals.insert("read_only", "0");
    server.globals.insert("wsrep_on", "1");
    let pass = server.pass(&mut runner, "2026-01-02T01:00:01Z");
    assert_eq!(pass.told, ["schedules are not run on a node of a Galera cluster"]);
    server.globals.insert("wsrep_on", "0");
    assert_eq!(server.pass(&mut runner, "2026-01-02T01:00:02Z").delivered, 1);
}

#[test]
fn a_server_that_is_made_read_only_while_it_delivers_takes_it_back() {
    let (mut server, mut runner) = (Server::new("0 * * * *", "once"), Runner::default());
    let now = "2026-01-02T01:00:00Z".parse().unwrap();
    let hand_over = |server: &mut Server, sql: &str| {
        if sql.starts_with("INSERT") {
            server.globals.insert("read_only", "1");
        }
    };
    assert_eq!(runner.pass(&mut With(&mut server, hand_over), now).delivered, 0);
    assert_eq!((server.messages.len(), server.rows[0][8].as_deref()), (0, Some(MADE)));
}

#[test]
fn a_server_without_the_table_is_told_nothing() {
    let (mut server, mut runner) = (Server::new("0 * * * *", "once"), Runner::default());
    server.fails = Some(("SELECT name", 1146));
    let pass = server.pass(&mut runner, "2026-01-02T01:00:00Z");
    assert_eq!(pass, Pass { sleep: POLL, told: Vec::new(), delivered: 0 });
}

#[test]
fn a_schedule_that_was_changed_meanwhile_is_read_again() {
    let (mut server, mut runner) = (Server::new("0 * * * *", "once"), Runner::default());
    let now = "2026-01-02T01:00:00Z".parse().unwrap();
    let change = |server: &mut Server, sql: &str| {
        if sql.contains("FOR UPDATE") {
            server.set(4, Some(r#"{"at": "other"}"#));
        }
    };
    assert_eq!(runner.pass(&mut With(&mut server, change), now).delivered, 0);
    server.set(4, Some(r#"{"at": "other"}"#));
    assert_eq!(runner.pass(&mut server, now).delivered, 1);
    assert_eq!(server.messages, ["('other')"]);
}

#[test]
fn a_tick_is_left_out_while_the_message_before_is_there() {
    let (mut server, mut runner) = (Server::new("0 * * * *", "once"), Runner::default());
    server.set(9, Some("skip"));
    assert_eq!(server.pass(&mut runner, "2026-01-02T01:00:00Z").delivered, 1);
    assert_eq!(server.rows[0][10].as_deref(), Some("row 1"));
    for (hour, restarted) in [("02", false), ("03", false), ("04", true), ("05", true)] {
        if restarted {
            runner = Runner::default();
        }
        let pass = server.pass(&mut runner, &format!("2026-01-02T{hour}:00:00Z"));
        assert_eq!((pass.delivered, pass.told), (0, Vec::new()), "{hour}");
        assert_eq!(server.error(), Some(LEFT_OUT));
        // The tick is over: it does not come when the message is gone.
        assert_eq!(server.pass(&mut runner, &format!("2026-01-02T{hour}:00:01Z")).delivered, 0);
    }
    server.there.clear();
    assert_eq!(server.pass(&mut runner, "2026-01-02T05:59:59Z").delivered, 0);
    assert_eq!(server.pass(&mut runner, "2026-01-02T06:00:00Z").delivered, 1);
    assert_eq!((server.error(), server.rows[0][10].as_deref()), (None, Some("row 2")));
    assert_eq!(server.messages.len(), 2);
    // A schedule that is gone is forgotten.
    server.rows.clear();
    server.pass(&mut runner, "2026-01-02T07:00:00Z");
    assert!(runner.rows.is_empty());
}

#[test]
fn a_message_that_could_not_be_noted_is_known_until_a_restart() {
    let (mut server, mut runner) = (Server::new("0 * * * *", "once"), Runner::default());
    server.set(9, Some("skip"));
    // Somebody has locked the schedule right after the tick.
    let lock = |server: &mut Server, sql: &str| {
        server.fails = sql.contains("SET last_row = '").then_some(("UPDATE", 1205));
    };
    let now = "2026-01-02T01:00:00Z".parse().unwrap();
    assert_eq!(runner.pass(&mut With(&mut server, lock), now).delivered, 1);
    server.fails = None;
    assert_eq!(server.pass(&mut runner, "2026-01-02T02:00:00Z").delivered, 0);
    assert_eq!(server.pass(&mut runner, "2026-01-02T03:00:00Z").delivered, 0);
    assert_eq!(server.pass(&mut Runner::default(), "2026-01-02T04:00:00Z").delivered, 1);
}

#[test]
fn of_several_missed_ticks_one_is_delivered_if_they_must_not_overlap() {
    let (mut server, mut runner) = (Server::new("0 * * * *", "all"), Runner::default());
    server.set(9, Some("skip"));
    assert_eq!(server.pass(&mut runner, "2026-01-02T03:30:00Z").delivered, 1);
    assert_eq!(server.messages, ["('2026-01-02 01:00:00.000000')"]);
    assert_eq!(server.rows[0][8].as_deref(), Some("2026-01-02 03:00:00.000000"));
    assert_eq!(server.pass(&mut runner, "2026-01-02T04:00:00Z").delivered, 0);
    // A queue that can't be looked at delivers nothing, and the tick comes later.
    server.fails = Some(("has_row", 3));
    assert_eq!(server.pass(&mut runner, "2026-01-02T05:00:00Z").told, ["schedule 'one': error 3"]);
    (server.fails, server.there) = (None, Vec::new());
    assert_eq!(server.pass(&mut runner, "2026-01-02T05:00:01Z").delivered, 1);
}
