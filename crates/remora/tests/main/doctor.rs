//! `remora doctor`: each fault of a real server is reported with statements that fix it.

use std::path::Path;

use serde_json::Value;
use server::Session;

use crate::extract::{execute, folder, run, session};
use crate::support::{Ended, mariadbs, start};

/// The checks of a run that are not good: state, subject and the statement that fixes it.
fn faults(ended: &Ended) -> Vec<(String, String, Option<String>)> {
    let lines = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |line: &Value, key: &str| line[key].as_str().map(ToOwned::to_owned);
    lines
        .filter(|line| line["message_type"] == "check" && line["state"] != "good")
        .map(|line| (text(&line, "state").unwrap(), text(&line, "subject").unwrap(), text(&line, "sql")))
        .collect()
}

fn subjects(ended: &Ended) -> Vec<String> {
    faults(ended).into_iter().map(|(_, subject, _)| subject).collect()
}

/// Runs what is printed.
fn mend(ended: &Ended, session: &mut Session) {
    for sql in faults(ended).into_iter().filter_map(|(_, _, sql)| sql) {
        execute(session, &[&sql]);
    }
}

#[test]
fn the_statements_that_doctor_prints_fix_a_server() {
    let product = mariadbs()[0];
    let folder = folder();
    let server = start(
        product,
        &[
            "--log-bin=binlog",
            "--server-id=7",
            "--local-infile=0",
            "--binlog-row-image=MINIMAL",
            "--max-allowed-packet=1M",
        ],
    );
    let (mut session, socket) = (session(&server), server.socket().display().to_string());
    execute(
        &mut session,
        &[
            "CREATE USER keeper@localhost IDENTIFIED BY 'x'",
            "CREATE TABLE bare (a INT) ENGINE=InnoDB",
            "CREATE TABLE mine (a INT PRIMARY KEY) ENGINE=MyISAM",
            "INSERT IGNORE INTO mysql.time_zone_name VALUES ('Europe/Berlin', 1)",
        ],
    );
    let source = format!("mysql:{socket}");
    let doctor = |more: &[&str]| {
        let own = ["doctor", &source, "--no-defaults", "-u", "keeper", "--password=x", "--json"];
        run(folder.path(), &[&own[..], more].concat())
    };
    let first = doctor(&[]).exits(4);
    let rights = faults(&first).into_iter().find(|(_, subject, _)| subject == "rights").unwrap();
    assert_eq!(rights.0, "bad");
    let told = subjects(&first);
    for subject in [
        "binlog_format",
        "binlog_row_image",
        "binlog_row_metadata",
        "durability",
        "local_infile",
        "max_allowed_packet",
    ] {
        assert!(told.iter().any(|own| own == subject), "{subject}: {told:?}");
    }
    // Some are told only once the account may see them.
    for _ in 0..3 {
        mend(&doctor(&[]), &mut session);
    }
    let ended = doctor(&[]);
    assert_eq!(subjects(&ended), ["primary keys", "engines"], "{}", ended.out);
    execute(&mut session, &["ALTER TABLE bare ADD PRIMARY KEY (a)", "ALTER TABLE mine ENGINE=InnoDB"]);
    doctor(&[]).exits(0);

    works_with_these_rights(folder.path(), &source, &socket);
    let ended = doctor(&["--to", "repo", "--name", "db"]);
    let left = subjects(&ended);
    assert!(
        !left.contains(&"newest backup".to_owned()) && !left.contains(&"archive".to_owned()),
        "{}",
        ended.out
    );
    let ended = doctor(&["--to", "elsewhere"]).exits(4);
    assert!(subjects(&ended).contains(&"newest backup".to_owned()), "{}", ended.out);

    let plain = ["doctor", "--no-defaults", "-u", "root", "-S", &socket];
    let ended = run(folder.path(), &plain).exits(0);
    assert!(
        ended.out.starts_with("good     server") && !ended.out.contains("newest backup"),
        "{}",
        ended.out
    );
    run(folder.path(), &["doctor", "file:/x"]).exits(2).says(&["is no server"]);
    run(folder.path(), &["doctor", "--no-defaults", "-S", "/nowhere.sock"]).exits(10);
}

/// The rights of the one GRANT are enough for a backup, an archive and a dump.
fn works_with_these_rights(folder: &Path, source: &str, socket: &str) {
    let account = ["--no-defaults", "-u", "keeper", "--password=x"];
    let go = |words: &[&str]| run(folder, &[words, &account].concat()).exits(0);
    go(&["backup", source, "--to", "repo", "--name", "db", "--way", "copy", "--no-prove"]);
    go(&["binlog", "repo/db", "--once", "-S", socket]);
    go(&["dump", "-o", "all.dump", "-S", socket]);
}

/// All rights that an account lacks are reported at once, and not one after the other.
#[test]
fn missing_rights_are_reported_in_one_line() {
    let product = mariadbs()[0];
    let folder = folder();
    let server = start(product, &["--log-bin=binlog", "--server-id=7"]);
    let socket = server.socket().display().to_string();
    execute(&mut session(&server), &["CREATE USER poor@localhost IDENTIFIED BY 'x'"]);
    let account = ["--no-defaults", "-u", "poor", "--password=x"];
    let go = |words: &[&str]| run(folder.path(), &[words, &account].concat()).exits(10);
    let source = format!("mysql:{socket}");
    go(&["backup", &source, "--to", "repo", "--name", "db", "--way", "copy"])
        .says(&["GRANT RELOAD, PROCESS, BINLOG MONITOR ON *.* TO `poor`@`localhost`"]);
    go(&["binlog", "repo/db", "--once", "-S", &socket])
        .says(&["GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `poor`@`localhost`"]);
    // Of tables that it does not see nothing is good.
    execute(&mut session(&server), &["CREATE TABLE app.bare (id INT)"]);
    let ended = run(folder.path(), &[&["doctor", &source, "--json"], &account[..]].concat()).exits(4);
    let told = subjects(&ended);
    assert!(["primary keys", "engines"].iter().all(|line| told.contains(&(*line).to_owned())), "{ended:?}");
    assert!(ended.out.contains("not looked at: without SELECT"), "{ended:?}");
    execute(&mut session(&server), &["DROP TABLE app.bare"]);
    // What it may not change it may see: the table has a key.
    execute(
        &mut session(&server),
        &["CREATE TABLE app.keyed (id INT PRIMARY KEY)", "GRANT SELECT ON *.* TO poor@localhost"],
    );
    let ended = run(folder.path(), &[&["doctor", &source, "--json"], &account[..]].concat());
    assert!(!subjects(&ended).iter().any(|subject| subject == "primary keys"), "{ended:?}");
}
