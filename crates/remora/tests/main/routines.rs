//! The SQL routines, on every server, in READ ONLY transactions, under every mode, with a binary log.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use sandbox::{Family, Product, Sandbox};
use server::Session;
use status::counter::kind::Kind;

use super::support::{
    Ended, connect, newest, of_today, on_every_server, on_one_mariadb, on_products, products, remora, start,
    tell, until,
};

fn routines(server: &Sandbox, arguments: &[&str]) -> Ended {
    routines_as("root", server, arguments)
}

/// Installs all that the server can have: `fragmentation` reads what only MariaDB has.
#[track_caller]
fn install_all(server: &Sandbox, product: Product) {
    match product.family() {
        Family::MariaDb => routines(server, &["install"]).exits(0),
        Family::MySql => {
            routines(server, &["install"]).exits(3).says(&["lacks what they read: fragmentation"])
        }
    };
}

fn routines_as(user: &str, server: &Sandbox, arguments: &[&str]) -> Ended {
    let mut command = remora(server.folder());
    let (action, rest) = arguments.split_first().unwrap();
    command.args(["routines", action, "--no-defaults", "-u", user, "-S"]).arg(server.socket()).args(rest);
    Ended::of(&command.output().unwrap())
}

/// The folders of tests: `sql/routines/NAME/tests/NUMBER`.
fn cases() -> Vec<PathBuf> {
    let folders = |path: &Path| {
        let mut all: Vec<PathBuf> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    };
    let all = folders(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/routines")));
    all.iter().flat_map(|routine| folders(&routine.join("tests"))).collect()
}

fn binlog(product: Product, format: &str) -> Sandbox {
    start(product, &["--log-bin=b", "--server-id=1", &format!("--binlog-format={format}")])
}

/// The position in the binary log. `m` does not belong in it, so nothing of an installation may be there
/// either.
fn position(session: &mut Session) -> Vec<Vec<Option<String>>> {
    session.binary_log_status().unwrap()
}

/// The rows of the first result, fields joined by a bar.
fn rows(session: &mut Session, sql: &str) -> Result<String, String> {
    let rows = session.strings(sql).map_err(|error| error.to_string())?;
    let text = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
    let line = |row: Vec<Option<String>>| row.into_iter().map(text).collect::<Vec<_>>().join("|") + "\n";
    Ok(rows.into_iter().map(line).collect())
}

/// Whether the fields are these, where a star is any.
fn is_like(seen: &str, expected: &str) -> bool {
    let same = |(seen, expected): (&str, &str)| expected == "*" || seen == expected;
    let line = |(seen, expected): (&str, &str)| {
        seen.split('|').count() == expected.split('|').count()
            && seen.split('|').zip(expected.split('|')).all(same)
    };
    seen.lines().count() == expected.lines().count() && seen.lines().zip(expected.lines()).all(line)
}

const MODES: [&str; 7] = [
    "sql_mode = ''",
    "sql_mode = 'ANSI'",
    "sql_mode = 'TRADITIONAL'",
    "sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,IGNORE_SPACE,ONLY_FULL_GROUP_BY'",
    "sql_mode = 'NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH,REAL_AS_FLOAT'",
    "sql_mode = 'ORACLE'",
    // Here utf8 has four bytes.
    "sql_mode = '', old_mode = ''",
];
/// How many of them MySQL has.
const MODES_OF_MYSQL: usize = 5;

#[test]
fn each_routine_answers_on_every_server_in_every_mode_and_writes_nothing() {
    on_products(&of_today(products()), |product| {
        for format in ["STATEMENT", "MIXED", "ROW"] {
            all_answer(product, format);
        }
    });
}

/// It keeps elsewhere what the routines read.
#[test]
fn each_routine_answers_on_mysql_9_7() {
    on_products(&newest("each_routine_answers_on_mysql_9_7"), |product| all_answer(product, "ROW"));
}

fn all_answer(product: Product, format: &str) {
    tell(format!("{product} {format}"));
    let server = binlog(product, format);
    let mut session = connect(server.socket());
    let before = position(&mut session);
    install_all(&server, product);
    assert_eq!(position(&mut session), before, "an installation stays out of the binary log");
    for case in cases() {
        answers(&case, &mut session, product);
    }
}

fn answers(case: &Path, session: &mut Session, product: Product) {
    let read = |name: &str| std::fs::read_to_string(case.join(name)).ok();
    let routine = case.parent().and_then(Path::parent).and_then(Path::file_name).unwrap().to_string_lossy();
    let is_mysql = product.family() == Family::MySql;
    if is_mysql && (routine == "fragmentation" || read("servers.txt").is_some()) {
        return;
    }
    // Here performance_schema counts, as usual with this server.
    if product == Product::MySql97 && case.ends_with("unused_indexes/tests/01") {
        return;
    }
    session.execute("SET SESSION sql_mode = ''").unwrap();
    session.execute("CREATE DATABASE rt").unwrap();
    for statement in read("pre.sql").unwrap_or_default().split(";\n").filter(|sql| !sql.trim().is_empty()) {
        session.execute(statement).unwrap_or_else(|error| panic!("{}: {error}", case.display()));
    }
    let test = read("test.sql").unwrap();
    let before = position(session);
    let room = session.value("SELECT @@group_concat_max_len").unwrap();
    for mode in &MODES[..if is_mysql { MODES_OF_MYSQL } else { MODES.len() }] {
        session.execute(&format!("SET SESSION {mode}")).unwrap();
        for around in [["DO 0", "DO 0"], ["START TRANSACTION READ ONLY", "COMMIT"]] {
            session.execute(around[0]).unwrap();
            let seen = rows(session, &test);
            session.execute(around[1]).unwrap();
            let place = format!("{} on {product} with {mode:?} in {:?}: {seen:?}", case.display(), around[0]);
            match (read("expected.txt"), read("error.txt")) {
                (Some(expected), _) => assert!(seen.is_ok_and(|seen| is_like(&seen, &expected)), "{place}"),
                // The change is never the same, but there is one: the query itself is counted.
                (None, None) if read("some.txt").is_some() => {
                    assert!(seen.is_ok_and(|seen| seen.lines().count() > 3), "{place}")
                }
                (None, Some(error)) => {
                    assert!(seen.is_err_and(|seen| seen.contains(error.trim())), "{place}")
                }
                (None, None) => panic!("{} does not say what to expect", case.display()),
            }
        }
    }
    assert_eq!(position(session), before, "{} writes to the binary log", case.display());
    assert_eq!(session.value("SELECT @@group_concat_max_len").unwrap(), room, "{}", case.display());
    session.execute("SET SESSION sql_mode = ''").unwrap();
    if !is_mysql {
        session.execute("SET SESSION old_mode = DEFAULT").unwrap();
    }
    session.execute("DROP DATABASE rt").unwrap();
}

#[test]
fn a_report_counts_a_known_load() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &[]);
        routines(&server, &["install", "--only", "report"]).exits(0);
        let mut load = connect(server.socket());
        for seconds in [1, 4, 16, 64] {
            if counts(&server, &mut load, seconds) {
                return;
            }
        }
        panic!("the load never ended within a report");
    });
}

/// False when the load took longer than the report.
fn counts(server: &Sandbox, load: &mut Session, seconds: u32) -> bool {
    let (send, receive) = mpsc::channel();
    let socket = server.socket().to_owned();
    let reporter = std::thread::spawn(move || {
        let mut session = connect(&socket);
        send.send(session.connection_id()).unwrap();
        session.strings(&format!("CALL m.report({seconds})")).unwrap()
    });
    let id = receive.recv().unwrap();
    let asleep = format!("SELECT state = 'User sleep' FROM information_schema.processlist WHERE id = {id}");
    until(&asleep, || load.value(&asleep).unwrap().as_deref() == Some("1"));
    for _ in 0..300 {
        load.execute("ROLLBACK").unwrap();
    }
    let ended_within = load.value(&asleep).unwrap().as_deref() == Some("1");
    let rows = reporter.join().unwrap();
    if !ended_within {
        return false;
    }
    let cell = |name: &str, column: usize| {
        let row =
            rows.iter().find(|row| row[0].as_deref().is_some_and(|found| found.eq_ignore_ascii_case(name)));
        row.unwrap_or_else(|| panic!("no {name}: {rows:?}"))[column].clone()
    };
    let number = |name: &str, column: usize| cell(name, column).unwrap().parse::<f64>().unwrap();
    assert_eq!(number("COM_ROLLBACK", 1), 300.0);
    let took = number("COM_ROLLBACK", 4);
    assert!(took >= f64::from(seconds), "{took}");
    // Per second of the time that really passed, to three digits.
    assert!((number("COM_ROLLBACK", 2) - 300.0 / took).abs() < 0.001, "{rows:?}");
    assert_eq!(cell("COM_ROLLBACK", 5).as_deref(), Some("counter"));
    assert_eq!(cell("UPTIME", 5).as_deref(), Some("gauge"));
    assert_eq!(cell("UPTIME", 2), None);
    assert!(rows.iter().all(|row| row[1].as_deref() != Some("0.000000")), "{rows:?}");
    true
}

#[test]
fn blockers_and_their_waiters_are_shown() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = start(product, &["--performance-schema=1"]);
        install_all(&server, product);
        let mut session = connect(server.socket());
        // InnoDB's times do not follow the session's time zone.
        session.execute("SET SESSION time_zone = '+05:00'").unwrap();
        session.execute("CREATE DATABASE x").unwrap();
        session.execute("CREATE TABLE x.t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB").unwrap();
        session.execute("INSERT INTO x.t VALUES (1, 1)").unwrap();
        let mut blocker = connect(server.socket());
        blocker.execute("START TRANSACTION").unwrap();
        blocker.execute("UPDATE x.t SET a = 2").unwrap();
        let (row, waiting, waiter) =
            blocked(&server, &mut session, "UPDATE x.t SET a = 3", "CALL m.blockers()");
        assert_eq!(row[0], waiting.to_string());
        assert_eq!(row[2], "UPDATE x.t SET a = 3");
        assert_eq!(row[3], blocker.connection_id().to_string());
        assert_eq!((&*row[4], &*row[9], &*row[11]), ("root", "1", "1"));
        assert_eq!(row[12], format!("KILL {}", blocker.connection_id()));
        let open = session.strings("CALL m.long_transactions(0)").unwrap();
        assert_eq!(open.len(), 2, "{open:?}");
        for seconds in [&row[1], &row[8], open[0][1].as_ref().unwrap()] {
            assert!((0..3600).contains(&seconds.parse::<i64>().unwrap()), "{row:?} {open:?}");
        }
        blocker.execute("ROLLBACK").unwrap();
        waiter.join().unwrap();
        let is_mariadb = product.family() == Family::MariaDb;
        if is_mariadb {
            let count = "UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name = 'wait/lock/metadata/sql/mdl'";
            session.execute(count).unwrap();
        }
        let tells = is_mariadb || product == Product::MySql97;
        blocker.execute("START TRANSACTION").unwrap();
        blocker.strings("SELECT * FROM x.t").unwrap();
        let (row, waiting, waiter) =
            blocked(&server, &mut session, "ALTER TABLE x.t ADD b INT", metadata_locks(tells));
        assert_eq!((&row[0], &*row[2]), (&waiting.to_string(), "ALTER TABLE x.t ADD b INT"));
        // MySQL 5.6 does not tell who holds a metadata lock.
        let holder = blocker.connection_id();
        let held = [holder.to_string(), "x.t".to_owned(), format!("KILL {holder}")];
        assert_eq!(tells.then(|| [3, 8, 11].map(|at| row[at].clone())), tells.then_some(held), "{row:?}");
        blocker.execute("ROLLBACK").unwrap();
        waiter.join().unwrap();
        // MySQL 5.6 rolls these back when their connection ends.
        if is_mariadb {
            for statement in ["XA START 'x'", "UPDATE x.t SET a = 4", "XA END 'x'", "XA PREPARE 'x'"] {
                blocker.execute(statement).unwrap();
            }
            drop(blocker);
            let (row, _, waiter) =
                blocked(&server, &mut session, "UPDATE x.t SET a = 3", "CALL m.blockers()");
            assert_eq!((&*row[3], &*row[12]), ("0", "XA RECOVER"), "{row:?}");
            session.execute("XA ROLLBACK 'x'").unwrap();
            waiter.join().unwrap();
        }
    });
}

/// The statement of the second result of `blockers`, where the server tells who holds metadata locks, and
/// elsewhere.
fn metadata_locks(tells: bool) -> &'static str {
    const BLOCKERS: &str = include_str!("../../../../sql/routines/blockers/routine.sql");
    let (_, branches) = BLOCKERS.split_once("THEN").unwrap();
    let (told, untold) = branches.split_once("ELSE").unwrap();
    if tells { told.trim().trim_end_matches(';') } else { untold.split_once(';').unwrap().0 }
}

/// A connection that waits with this statement: what the question says of it, and its number.
fn blocked(
    server: &Sandbox,
    session: &mut Session,
    statement: &'static str,
    question: &str,
) -> (Vec<String>, u32, JoinHandle<()>) {
    let (send, receive) = mpsc::channel();
    let socket = server.socket().to_owned();
    let waiter = std::thread::spawn(move || {
        let mut session = connect(&socket);
        session.execute("SET SESSION innodb_lock_wait_timeout = 200").unwrap();
        send.send(session.connection_id()).unwrap();
        session.execute(statement).unwrap();
    });
    let waiting = receive.recv().unwrap();
    let mut told = Vec::new();
    until("the one waits for the other", || {
        // InnoDB refreshes its data only when nobody has asked for a tenth of a second.
        receive.recv_timeout(Duration::from_millis(200)).ok();
        told = session.strings(question).unwrap();
        !told.is_empty()
    });
    (told.remove(0).into_iter().map(Option::unwrap_or_default).collect(), waiting, waiter)
}

/// The report holds the list of `remora stat` as a pattern.
#[test]
fn report_and_stat_agree_on_gauges() {
    const REPORT: &str = include_str!("../../../../sql/routines/report/routine.sql");
    let (_, pattern) = REPORT.split_once("variable_name REGEXP").unwrap();
    let (pattern, _) = pattern.split_once("AS is_gauge").unwrap();
    on_every_server(|place| {
        let newest = place.product == Product::MySql97;
        let schema = if newest { "performance_schema" } else { "information_schema" };
        let rows = place.session().strings(&format!(
            "SELECT variable_name, variable_name REGEXP {pattern} FROM {schema}.global_status"
        ));
        let mut wrong = rows.unwrap();
        assert!(wrong.len() > 250, "{}", wrong.len());
        wrong.retain(|row| {
            let kind = status::counter::kind::of(row[0].as_deref().unwrap()).kind;
            matches!(kind, Kind::Counter | Kind::Gauge)
                && (kind == Kind::Gauge) != (row[1].as_deref() == Some("1"))
        });
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

#[test]
fn an_index_that_was_read_is_not_idle() {
    on_products(&of_today(products()), |product| {
        tell(product);
        if product.family() == Family::MariaDb {
            idle_indexes(product, "--userstat=1", "userstat");
        }
        let (_server, mut session) = idle_indexes(product, "--performance-schema=1", "performance_schema");
        // The instrument is on, and counts nothing.
        let off = "UPDATE performance_schema.setup_instruments SET enabled = 'NO' WHERE name = 'wait/io/table/sql/handler'";
        session.execute(off).unwrap();
        let refusal = rows(&mut session, "CALL m.unused_indexes('x')").unwrap_err();
        assert!(refusal.contains("this server does not count"), "{refusal}");
    });
}

fn idle_indexes(product: Product, option: &str, by: &str) -> (Sandbox, Session) {
    let server = start(product, &[option]);
    routines(&server, &["install", "--only", "unused_indexes"]).exits(0);
    let mut session = connect(server.socket());
    session.execute("CREATE DATABASE x").unwrap();
    let table = "CREATE TABLE x.t (id INT PRIMARY KEY, a INT, b INT, KEY a (a), KEY b (b), UNIQUE c (a, b)) ENGINE=InnoDB";
    session.execute(table).unwrap();
    session.execute("INSERT INTO x.t VALUES (1, 1, 1), (2, 2, 2)").unwrap();
    session.strings("SELECT * FROM x.t FORCE INDEX (a) WHERE a = 1").unwrap();
    // Counts of a connection are added up when its statement ends, some only when it disconnects.
    let idle = rows(&mut session, "CALL m.unused_indexes('x')").unwrap();
    assert_eq!(idle, format!("x|t|b|{by}\n"));
    (server, session)
}

#[test]
fn an_installation_keeps_grants_and_leaves_others_alone() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let server = binlog(product, "MIXED");
        let mut session = connect(server.socket());
        // Names of counters are compared without regard to case in such a database, too.
        session.execute("CREATE DATABASE `od``d` CHARACTER SET utf8 COLLATE utf8_bin").unwrap();
        let ended = routines(&server, &["install", "--db", "od`d", "--only", "gstatus,report"]).exits(0);
        assert!(ended.err.contains("2 routines installed into `od``d`, 0 up to date"), "{}", ended.err);
        session.execute("CREATE USER ann@localhost").unwrap();
        session
            .execute("GRANT EXECUTE ON FUNCTION `od``d`.gstatus TO ann@localhost WITH GRANT OPTION")
            .unwrap();
        // A routine of an earlier version has such a comment.
        let alter = "ALTER FUNCTION `od``d`.gstatus COMMENT 'remora routine 0123abcd: old'";
        session.execute(alter).unwrap();
        let listed = routines(&server, &["list", "--installed", "--db", "od`d"]).exits(0).out;
        assert!(listed.contains("gstatus              of another version"), "{listed}");
        let grants = |session: &mut Session| session.strings("SHOW GRANTS FOR ann@localhost").unwrap();
        let before = grants(&mut session);
        assert_eq!(before.len(), 2, "{before:?}");
        let at = position(&mut session);
        let ended = routines(&server, &["install", "--db", "od`d", "--only", "gstatus,report"]).exits(0);
        assert!(
            ended.err.contains("1 routine installed") && ended.err.contains("1 up to date already"),
            "{}",
            ended.err
        );
        assert_eq!(grants(&mut session), before);
        assert_eq!(position(&mut session), at);
        let ann = {
            let mut target =
                server::Overrides { user: Some("ann".to_owned()), ..server::Overrides::default() };
            target.socket = Some(server.socket().to_owned());
            target.no_defaults = true;
            server::Target::resolve(&target, &server::Environment::default()).unwrap().connect()
        };
        if product == Product::MySql97 {
            session.execute("GRANT SELECT ON performance_schema.* TO ann@localhost").unwrap();
        }
        assert!(ann.unwrap().value("SELECT `od``d`.gstatus('uptime')").unwrap().is_some());
        // A user's own routine of such a name stops the installation.
        session.execute("CREATE DATABASE m").unwrap();
        session.execute("CREATE PROCEDURE m.sizes() SELECT 1").unwrap();
        let at = position(&mut session);
        routines(&server, &["install"]).exits(1).says(&["sizes", "not remora's", "Nothing was changed"]);
        assert_eq!(session.strings("SHOW PROCEDURE STATUS WHERE db = 'm'").unwrap().len(), 1);
        let ended = routines(&server, &["remove"]).exits(3);
        ended.says(&["m.sizes is not remora's", "0 routines removed"]);
        routines(&server, &["remove", "--db", "od`d"]).exits(0).says(&["2 routines removed"]);
        assert_eq!(position(&mut session), at);
        // With the binary log, if the user wants that.
        routines(&server, &["install", "--db", "n", "--binlog", "--only", "gstatus"]).exits(0);
        assert_ne!(position(&mut session), at);
        routines(&server, &["install", "--only", "nothing"]).exits(2).says(&["nothing", "gstatus"]);
        let printed = routines(&server, &["install", "--print", "--only", "report"]).exits(0).out;
        assert!(
            printed.starts_with("SET SESSION sql_mode = ")
                && printed.contains("DELIMITER //")
                && printed.contains("CREATE OR REPLACE PROCEDURE `m`.`report`("),
            "{printed}"
        );
    });
}

#[test]
fn a_routine_that_the_server_refuses_does_not_keep_the_others_away() {
    on_one_mariadb(|_, server| {
        let mut session = connect(server.socket());
        routines(server, &["install"]).exits(0);
        session.execute("ALTER FUNCTION m.gstatus COMMENT 'remora routine 0123abcd: old'").unwrap();
        session.execute("ALTER PROCEDURE m.sizes COMMENT 'remora routine 0123abcd: old'").unwrap();
        // Who did not create a routine may not replace it.
        session.execute("CREATE USER ann@localhost").unwrap();
        session.execute("GRANT CREATE, CREATE ROUTINE, EXECUTE ON m.* TO ann@localhost").unwrap();
        session.execute("GRANT ALTER ROUTINE ON PROCEDURE m.sizes TO ann@localhost").unwrap();
        let as_ann = |arguments: &[&str]| routines_as("ann", server, arguments);
        as_ann(&["install"]).exits(3).says(&[
            "gstatus is not installed",
            "1 routine installed",
            "9 up to date",
        ]);
        let summary = as_ann(&["install", "--json"]).exits(3).out;
        assert!(summary.contains(r#""failed":["gstatus"]"#), "{summary}");
        as_ann(&["install", "--only", "gstatus"]).exits(10).says(&["gstatus is not installed"]);
    });
}

#[test]
fn routines_that_an_account_does_not_see_are_not_absent() {
    on_one_mariadb(|_, server| {
        let mut session = connect(server.socket());
        session.execute("CREATE USER blind@localhost").unwrap();
        routines(server, &["install"]).exits(0);
        let list = |code| routines_as("blind", server, &["list", "--installed"]).exits(code);
        let ended = list(3);
        assert!(ended.out.contains("can't be seen") && !ended.out.contains("absent"), "{}", ended.out);
        assert!(ended.err.contains("EXECUTE on `m`.*"), "{}", ended.err);
        // One that it sees says nothing of the others.
        session.execute("GRANT EXECUTE ON PROCEDURE m.sizes TO blind@localhost").unwrap();
        let ended = list(3);
        assert!(ended.out.contains("up to date") && ended.out.contains("can't be seen"), "{}", ended.out);
        session.execute("GRANT EXECUTE ON m.* TO blind@localhost").unwrap();
        session.execute("DROP FUNCTION m.gstatus").unwrap();
        let ended = list(0);
        assert!(ended.out.contains("absent") && !ended.out.contains("can't be seen"), "{}", ended.out);
    });
}
