//! `remora poke` on real servers.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sandbox::{Family, Installation, Product, Sandbox, Settings};
use serde_json::Value;
use server::{Environment, Error, Overrides, Session, Target};

use crate::support::{
    Ended, connect, copy_program, mariadbs, of_today, pause_writer, places, products, remora, skipped, start,
    tell, until,
};

/// How often a value is stored on each server while clients work; `REMORA_POKES` overrides it.
const POKES: usize = 40;

fn mariadb() -> impl Iterator<Item = Product> {
    of_today(mariadbs()).into_iter()
}

fn networked(installation: &Installation, options: &[&str]) -> Sandbox {
    let options = ["--innodb-buffer-pool-size=64M"].iter().chain(options).map(ToString::to_string).collect();
    let settings = Settings { options, port: Some(0), ..Settings::default() };
    Sandbox::start(installation, &places(), &settings).unwrap()
}

pub(crate) fn on_port(product: Product, options: &[&str]) -> Sandbox {
    networked(&sandbox::find(&places(), product).unwrap(), options)
}

fn poke(server: &Sandbox, arguments: &[&str]) -> Ended {
    let mut command = remora(server.folder());
    command.arg("poke").args(arguments).args(["--no-defaults", "-u", "root", "-S"]).arg(server.socket());
    Ended::of(&command.stdin(Stdio::null()).output().unwrap())
}

/// Stores a value.
#[track_caller]
fn set(server: &Sandbox, name: &str, value: &str) -> Ended {
    poke(server, &["set", name, value, "--yes-i-know"]).exits(0)
}

fn value(server: &Sandbox, sql: &str) -> String {
    connect(server.socket()).value(sql).unwrap().unwrap_or_default()
}

fn sql(server: &Sandbox, statements: &[&str]) {
    let mut session = connect(server.socket());
    statements.iter().for_each(|statement| drop(session.execute(statement).unwrap()));
}

/// A new connection over TCP.
fn over_tcp(server: &Sandbox, user: &str) -> Result<Session, Error> {
    let overrides = Overrides {
        host: Some("127.0.0.1".to_owned()),
        port: server.port(),
        user: Some(user.to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    Target::resolve(&overrides, &Environment::default()).unwrap().connect()
}

/// All the while, new connections are made and rows are written.
#[test]
fn many_stores_into_memory_disturb_no_client() {
    std::thread::scope(|scope| {
        for product in mariadb() {
            scope.spawn(move || many(&on_port(product, &[])));
        }
    });
}

fn many(server: &Sandbox) {
    let pokes = std::env::var("REMORA_POKES").map_or(POKES, |text| text.parse().unwrap());
    tell(server.product());
    sql(
        server,
        &[
            "CREATE USER x@'%'",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (who INT, what INT, PRIMARY KEY (who, what)) ENGINE=InnoDB",
        ],
    );
    let came = |server: &Sandbox| over_tcp(server, "x").unwrap().value("SELECT USER()").unwrap().unwrap();
    set(server, "skip_name_resolve", "OFF");
    assert_eq!(came(server), "x@localhost");
    let (stop, rows, entries) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for who in 0..2 {
            let (stop, rows) = (&stop, &rows);
            scope.spawn(move || {
                let mut session = connect(server.socket());
                for what in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    pause_writer();
                    session.execute(&format!("INSERT INTO d.t VALUES ({who}, {what})")).unwrap();
                    let last =
                        session.value(&format!("SELECT MAX(what) FROM d.t WHERE who = {who}")).unwrap();
                    assert_eq!(last, Some(what.to_string()));
                    rows.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (stop_flag, entries) = (&stop, &entries);
        scope.spawn(move || {
            while !stop_flag.load(Ordering::Relaxed) {
                let user = over_tcp(server, "x").unwrap().value("SELECT USER()").unwrap().unwrap();
                assert!(["x@localhost", "x@127.0.0.1"].contains(&&*user), "{user}");
                entries.fetch_add(1, Ordering::Relaxed);
            }
        });
        until("clients work", || rows.load(Ordering::Relaxed) > 0 && entries.load(Ordering::Relaxed) > 0);
        for round in 0..pokes {
            let new = if round % 2 == 0 { "1" } else { "0" };
            let ended = poke(server, &["set", "skip_name_resolve", new, "--yes-i-know"]);
            if ended.code != 0 {
                stop.store(true, Ordering::Relaxed);
            }
            ended.exits(0);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(server.is_running());
    let count = value(server, "SELECT COUNT(*) FROM d.t");
    assert_eq!(count, rows.load(Ordering::Relaxed).to_string());
    tell(format!("{}: {count} rows, {} connections", server.product(), entries.load(Ordering::Relaxed)));
    let ended = set(server, "skip_name_resolve", "on");
    assert!(ended.out.starts_with("skip_name_resolve: 0 -> 1, in memory of process "), "{}", ended.out);
    assert_eq!(came(server), "x@127.0.0.1");
    let log = std::fs::read_to_string(server.error_log()).unwrap();
    assert!(!log.contains("[ERROR]"), "{log}");
}

#[test]
fn variables_of_a_replica_take_effect_after_a_store_into_memory() {
    for product in mariadb() {
        tell(product);
        let source = on_port(
            product,
            &["--log-bin=binlog", "--server-id=1", "--binlog-format=ROW", "--binlog-annotate-row-events=ON"],
        );
        let replica = start(product, &["--log-bin=binlog", "--server-id=2"]);
        sql(
            &source,
            &[
                "CREATE USER r@'%'",
                "GRANT REPLICATION SLAVE ON *.* TO r@'%'",
                "CREATE DATABASE d",
                "CREATE TABLE d.t (i INT)",
            ],
        );
        let port = source.port().unwrap();
        sql(
            &replica,
            &[
                &format!(
                    "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='r', MASTER_SSL=0, \
             MASTER_USE_GTID=slave_pos"
                ),
                "START SLAVE",
            ],
        );
        catch_up(&source, &replica);
        assert_eq!(value(&replica, "SELECT @@gtid_binlog_pos"), "");
        // While its threads run, they read the values that would change.
        let refusal = ["is used by the threads of a replica", "STOP ALL SLAVES"];
        for name in ["log_slave_updates", "report_port"] {
            poke(&replica, &["set", name, "1", "--yes-i-know"]).exits(1).says(&refusal);
        }
        assert_eq!(value(&replica, "SELECT @@log_slave_updates"), "0");
        stopped(&replica, &source, &[("log_slave_updates", "1"), ("report_port", "4711")]);
        let (position, notes) = (value(&replica, "SELECT @@gtid_binlog_pos"), annotations(&replica));
        assert!(position.starts_with("0-1-") && notes > 0, "{position} {notes}");
        until("the source knows the port", || {
            let rows = connect(source.socket()).strings("SHOW SLAVE HOSTS").unwrap();
            rows.iter().flatten().flatten().any(|cell| cell == "4711")
        });
        stopped(&replica, &source, &[("replicate_annotate_row_events", "0")]);
        assert_ne!(value(&replica, "SELECT @@gtid_binlog_pos"), position);
        assert_eq!(annotations(&replica), notes);
        stopped(&replica, &source, &[("replicate_annotate_row_events", "1")]);
        assert!(annotations(&replica) > notes);
        let position = value(&replica, "SELECT @@gtid_binlog_pos");
        stopped(&replica, &source, &[("log_slave_updates", "0")]);
        assert_eq!(value(&replica, "SELECT @@gtid_binlog_pos"), position);
    }
}

/// Stores values while the replica is stopped, and then lets it apply another row.
fn stopped(replica: &Sandbox, source: &Sandbox, values: &[(&str, &str)]) {
    sql(replica, &["STOP ALL SLAVES"]);
    let place = format!(" --yes-i-know -S {} -u root --no-defaults", replica.socket().display());
    for (name, new) in values {
        let undo = format!("to undo it: remora poke set {name} ");
        set(replica, name, new).says(&["it takes effect at the next START SLAVE", &undo, &place]);
        assert_eq!(value(replica, &format!("SELECT @@{name}")), *new);
    }
    sql(replica, &["START SLAVE"]);
    sql(source, &["INSERT INTO d.t VALUES (1)"]);
    catch_up(source, replica);
}

fn catch_up(source: &Sandbox, replica: &Sandbox) {
    let position = value(source, "SELECT @@gtid_binlog_pos");
    let waited = value(replica, &format!("SELECT MASTER_GTID_WAIT('{position}', 120)"));
    assert_eq!(waited, "0", "the replica does not come to {position}");
}

/// How many statements of the source the replica has in its binary log.
fn annotations(replica: &Sandbox) -> usize {
    let mut session = connect(replica.socket());
    let events = session.strings("SHOW BINLOG EVENTS").unwrap();
    events.iter().flatten().flatten().filter(|cell| *cell == "Annotate_rows").count()
}

/// Opens connections until the server accepts no more, including the administrator's.
fn fill(server: &Sandbox) -> Vec<Session> {
    let overrides = Overrides {
        socket: Some(server.socket().to_owned()),
        user: Some("root".to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    let mut sessions = Vec::new();
    loop {
        match Target::resolve(&overrides, &Environment::default()).unwrap().connect() {
            Ok(session) => sessions.push(session),
            Err(Error::Refused { code: 1040, .. }) => return sessions,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_full_server_accepts_connections_again() {
    for product in mariadb() {
        tell(product);
        let server = start(product, &["--max-connections=10"]);
        let mut sessions = fill(&server);
        assert_eq!(sessions.len(), 11);
        poke(&server, &["max-connections", "60"])
            .exits(2)
            .says(&["max_connections is 10 and would be set to 60", "--yes-i-know"]);
        assert_eq!(sessions[0].value("SELECT @@max_connections").unwrap().unwrap(), "10");
        let ended = poke(&server, &["max-connections", "60", "--yes-i-know"]).exits(0);
        assert!(ended.out.starts_with("max_connections: 10 -> 60, in memory of process "), "{}", ended.out);
        ended.says(&["SQL answers again and says the same"]);
        sessions.extend(fill(&server));
        assert_eq!(sessions.len(), 61);
        // There is room for none, so it goes down in memory, and SQL can't be asked.
        let ended = poke(&server, &["max-connections", "20", "--yes-i-know", "--json"]).exits(3);
        assert!(ended.out.contains(r#""new":20,"old":60"#), "{}", ended.out);
        drop(sessions);
        until("there is room", || {
            let ended = poke(&server, &["max-connections", "30"]);
            ended.code == 0 && ended.out == "max_connections: 20 -> 30, by SQL\n"
        });
        poke(&server, &["max-connections", "9"]).exits(2).says(&["10 to 100000"]);
    }
}

#[test]
fn a_statement_is_ended_on_a_full_server() {
    for product in mariadb() {
        tell(product);
        let server = start(product, &["--max-connections=10"]);
        let mut sessions = fill(&server);
        let mut long = sessions.pop().unwrap();
        let id = long.connection_id().to_string();
        std::thread::scope(|scope| {
            let running = scope.spawn(move || (long.value("SELECT SLEEP(600)"), long));
            let asked = format!(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info LIKE '%SLEEP%'"
            );
            until("the statement runs", || sessions[0].value(&asked).unwrap().unwrap() == "1");
            poke(&server, &["kill-query", &id])
                .exits(2)
                .says(&["max_connections is 10 and would be set to 20"]);
            poke(&server, &["kill-query", "999999", "--yes-i-know"]).exits(1).says(&["no connection 999999"]);
            assert_eq!(sessions[0].value("SELECT @@max_connections").unwrap().unwrap(), "10");
            let ended = poke(&server, &["kill-query", &id, "--yes-i-know"]).exits(0);
            assert!(ended.out.contains("SELECT SLEEP(600)"), "{}", ended.out);
            let (result, mut long) = running.join().unwrap();
            // SLEEP returns that it was interrupted, or its statement fails with that error.
            assert!(result.is_err_and(|error| error.code() == Some(1317)) || long.value("SELECT 1").is_ok());
            assert_eq!(sessions[0].value("SELECT @@max_connections").unwrap().unwrap(), "10");
            let idle = sessions[1].connection_id().to_string();
            poke(&server, &["kill-query", &idle, "--yes-i-know"]).exits(1).says(&["runs no statement"]);
        });
    }
}

#[test]
fn with_an_extra_port_sql_is_used() {
    for product in mariadb() {
        tell(product);
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = on_port(product, &["--max-connections=10", &format!("--extra-port={free}")]);
        let sessions = fill(&server);
        assert_eq!(sessions.len(), 11);
        let ended = poke(&server, &["max-connections", "40"]).exits(0);
        assert_eq!(ended.out, "max_connections: 10 -> 40, by SQL at the extra port\n");
    }
}

#[test]
fn sql_is_used_where_it_works() {
    for product in of_today(products()) {
        tell(product);
        let server = start(product, &[]);
        let ended = poke(&server, &["max-connections", "77"]).exits(0);
        assert_eq!(ended.out, "max_connections: 151 -> 77, by SQL\n");
        if product.family() == Family::MariaDb {
            let ended = poke(&server, &["set", "max_connections", "78", "--json"]).exits(0);
            let line: Value = serde_json::from_str(ended.out.lines().next().unwrap()).unwrap();
            assert_eq!((&line["by"], &line["new"]), (&Value::from("by SQL"), &Value::from(78)));
        } else {
            poke(&server, &["set", "skip_name_resolve", "0", "--yes-i-know"])
                .exits(1)
                .says(&["only on MariaDB"]);
        }
    }
}

#[test]
fn values_and_servers_that_do_not_fit_are_refused() {
    let product = mariadbs()[0];
    let server = start(product, &[]);
    let known = ["log_slave_updates", "is not one of the variables that can be stored safely"];
    poke(&server, &["set", "innodb_buffer_pool_chunk_size", "1", "--yes-i-know"]).exits(2).says(&known);
    poke(&server, &["set", "report_port", "65536", "--yes-i-know"]).exits(2).says(&["0 to 65535"]);
    poke(&server, &["set", "log_slave_updates", "1", "--yes-i-know"]).exits(1).says(&["no binary log"]);
    let before = value(&server, "SELECT @@skip_name_resolve");
    let other = if before == "1" { "0" } else { "1" };
    poke(&server, &["set", "skip_name_resolve", other]).exits(2).says(&["nothing was written"]);
    assert_eq!(value(&server, "SELECT @@skip_name_resolve"), before);
    let run = |arguments: &[&str]| {
        let mut command = remora(server.folder());
        command.args([
            "poke",
            "set",
            "skip_name_resolve",
            other,
            "--yes-i-know",
            "--no-defaults",
            "-u",
            "root",
        ]);
        Ended::of(&command.args(arguments).stdin(Stdio::null()).output().unwrap())
    };
    let own = std::process::id().to_string();
    run(&["--pid", &own]).exits(1).says(&["is no MariaDB server"]);
    run(&["-h", "127.0.0.1", "-P", "1"])
        .exits(2)
        .says(&["name the server's socket with -S, or its process with --pid"]);
    // The process id alone leads to the socket, too.
    run(&["--pid", &server.pid().to_string()]).exits(0);
    assert_eq!(value(&server, "SELECT @@skip_name_resolve"), other);
    let file = server.folder().join("number");
    std::fs::write(&file, format!("{}\n", server.pid())).unwrap();
    run(&["--pid-file", file.to_str().unwrap()]).exits(0).says(&["is", "already"]);
    let list = remora(server.folder()).args(["poke", "list", "--json"]).output().unwrap();
    let list = Ended::of(&list).exits(0).out;
    assert!(list.contains("opt_log_slave_updates") && list.lines().count() == 5, "{list}");
}

#[test]
fn another_user_learns_that_root_is_needed() {
    let product = mariadbs()[0];
    let server = start(product, &[]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("remora");
    copy_program(Path::new(env!("CARGO_BIN_EXE_remora")), &program);
    let mut command = Command::new(&program);
    command.args([
        "poke",
        "set",
        "skip_name_resolve",
        "0",
        "--yes-i-know",
        "--no-defaults",
        "-u",
        "root",
        "--pid",
    ]);
    command.arg(server.pid().to_string()).current_dir(folder.path()).uid(65534).gid(65534);
    let Ok(output) = command.output() else {
        skipped("poke: another user", "only root can run a program as somebody else");
        return;
    };
    Ended::of(&output).exits(1).says(&["no permission to look at", "run this as root"]);
}

/// An upgrade replaces the program while the old one runs.
#[test]
fn a_program_that_was_replaced_on_disk_is_refused() {
    for product in mariadb() {
        let installation = sandbox::find(&places(), product).unwrap();
        if installation.daemon.metadata().unwrap().len() > 100 << 20 {
            continue;
        }
        tell(product);
        let folder = tempfile::tempdir().unwrap();
        let daemon = folder.path().join("mariadbd");
        copy_program(&installation.daemon, &daemon);
        let own_loader = installation.loader.is_some();
        let server = networked(&Installation { daemon: daemon.clone(), ..installation }, &[]);
        set(&server, "skip_name_resolve", "0");
        replace(&daemon);
        let ended = poke(&server, &["set", "skip_name_resolve", "1", "--yes-i-know"]);
        if own_loader {
            ended.exits(1).says(&["was replaced or removed since it started"]);
        } else {
            ended.exits(0);
        }
    }
}

fn replace(program: &Path) {
    std::fs::remove_file(program).unwrap();
    copy_program(Path::new("/bin/true"), program);
}
