use super::*;
use crate::facts::{Archive, Encryption, Newest, Proof, Repository, Tables};
use crate::finding::State::{self, Bad, Warning};

const NOW_S: i64 = 1_800_000_000;

/// A server without faults, with backups and an archive.
fn fine() -> Facts {
    let settings = [
        ("log_bin", "ON"),
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("binlog_row_metadata", "FULL"),
        ("binlog_expire_logs_seconds", "0"),
        ("expire_logs_days", "0.000000"),
        ("max_binlog_total_size", "0"),
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("log_slave_updates", "ON"),
        ("local_infile", "ON"),
        ("max_allowed_packet", "16777216"),
    ];
    let repository = Repository {
        shown: "/backup/db1".to_owned(),
        command: "remora backup mysql: --to /backup".to_owned(),
        is_beside_data: Some(false),
        free: Some(1 << 40),
        newest: Some(Newest {
            number: 7,
            is_damaged: false,
            taken_s: NOW_S - 3600,
            bytes: 1 << 20,
            proof: Proof::Sound,
        }),
        archive: Archive::There(Some(NOW_S - 10)),
        ..Repository::default()
    };
    Facts {
        server: Server {
            shown: "MariaDB 10.11.19".to_owned(),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            is_replica: Some(false),
            receivers: Some(1),
            zones: Some(1800),
            ..Server::default()
        },
        tables: Tables { seen: 3, ..Tables::default() },
        copy: Some(Ok("it can be copied".to_owned())),
        repository: Some(repository),
        now_s: NOW_S,
        ..Facts::default()
    }
}

fn set(name: &'static str, value: &'static str) -> impl Fn(&mut Facts) {
    move |facts| drop(facts.server.settings.insert(name.to_owned(), value.to_owned()))
}

fn repository(change: impl Fn(&mut Repository)) -> impl Fn(&mut Facts) {
    move |facts| facts.repository.iter_mut().for_each(&change)
}

fn newest(change: impl Fn(&mut Newest)) -> impl Fn(&mut Facts) {
    repository(move |found| found.newest.iter_mut().for_each(&change))
}

/// What a fault makes of a server without any: the one line that is not good, in the words that are shown.
fn told(change: &dyn Fn(&mut Facts)) -> (State, String) {
    let mut facts = fine();
    change(&mut facts);
    let mut lines = all(&facts);
    lines.retain(|line| line.state != State::Good);
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    let fix = line.fix.as_ref().map(Fix::shown).unwrap_or_default().join(" ");
    (line.state, format!("{}: {} | {fix}", line.subject, line.what))
}

#[test]
fn a_server_without_faults_has_only_good_lines() {
    let lines = all(&fine());
    assert!(lines.len() > 15 && lines.iter().all(|line| line.state == State::Good), "{lines:?}");
    let alone = Facts { repository: None, copy: None, ..fine() };
    assert!(all(&alone).iter().all(|line| line.state == State::Good));
    // A key that reads nothing may be where the backups are.
    let mut put = fine();
    repository(|found| found.encryption = Encryption::PutKey("/backup/k".to_owned()))(&mut put);
    assert!(all(&put).iter().all(|line| line.state == State::Good));
}

/// An account without rights sees no table, or some of them.
#[test]
fn tables_that_an_account_does_not_see_are_not_good() {
    let tables = |facts: &Facts| {
        let mut lines = all(facts);
        lines.retain(|line| matches!(line.subject, "primary keys" | "engines"));
        lines.into_iter().map(|line| (line.state, line.what)).collect::<Vec<_>>()
    };
    let mut facts = fine();
    for seen in [0, 3] {
        facts.tables.seen = seen;
        facts.rights.lacks = vec!["SELECT", "RELOAD"];
        let what = "not looked at: without SELECT this account does not see every table".to_owned();
        assert_eq!(tables(&facts), vec![(Warning, what); 2]);
    }
    // What is seen to be wrong is told all the same.
    facts.tables.without_key = (vec!["app.t".to_owned()], 1);
    assert!(tables(&facts)[0].1.starts_with("no primary key: app.t"));
    let mut facts = fine();
    facts.tables.seen = 0;
    assert_eq!(tables(&facts), vec![(State::Good, "this account sees no table".to_owned()); 2]);
    facts.tables.seen = 1;
    assert!(tables(&facts).iter().all(|(_, what)| what.starts_with("every table has ")));
}

type Case<'a> = (&'a dyn Fn(&mut Facts), State, &'a str);

#[track_caller]
fn check(cases: &[Case<'_>]) {
    for (change, state, words) in cases {
        let (is, text) = told(change);
        assert!(is == *state && text.contains(words), "{words:?} is not in {text:?}, which is {is:?}");
    }
}

#[test]
fn every_fault_of_a_server_is_reported_with_its_fix() {
    check(&[
        (&set("log_bin", "OFF"), Bad, "restart the server: log_bin=binlog"),
        (
            &set("binlog_format", "MIXED"),
            Warning,
            "SET GLOBAL binlog_format = 'ROW'; and in [mysqld] of the option file: binlog_format=ROW",
        ),
        (&set("binlog_row_image", "MINIMAL"), Warning, "SET GLOBAL binlog_row_image = 'FULL'"),
        (&set("binlog_row_metadata", "NO_LOG"), Warning, "SET GLOBAL binlog_row_metadata = 'FULL'"),
        (
            &set("binlog_expire_logs_seconds", "3600"),
            Warning,
            "1 hour: an archive that is stopped for longer has a gap | SET GLOBAL binlog_expire_logs_seconds = 604800",
        ),
        (&set("max_binlog_total_size", "1048576"), Warning, "SET GLOBAL max_binlog_total_size = 0"),
        (&set("sync_binlog", "0"), Warning, "SET GLOBAL sync_binlog = 1"),
        (
            &set("innodb_flush_log_at_trx_commit", "2"),
            Warning,
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
        ),
        (&set("local_infile", "OFF"), Warning, "SET GLOBAL local_infile = ON"),
        (&set("max_allowed_packet", "1048576"), Warning, "SET GLOBAL max_allowed_packet = 16777216"),
        (&|facts| facts.server.zones = Some(0), Warning, "mariadb-tzinfo-to-sql"),
        (&|facts| facts.server.filters = vec!["binlog_do_db=app".to_owned()], Warning, "(binlog_do_db=app)"),
        (
            &|facts| {
                facts.server.is_replica = Some(true);
                set("log_slave_updates", "OFF")(facts);
            },
            Warning,
            "log_slave_updates=ON",
        ),
        (
            &|facts| facts.server.no_private = Some(("not here".to_owned(), Some("fetch it".to_owned()))),
            Warning,
            "| fetch it",
        ),
        (
            &|facts| {
                facts.rights.lacks = vec!["RELOAD", "PROCESS"];
                facts.rights.grant = "GRANT RELOAD, PROCESS ON *.* TO `a`@`b`".to_owned();
            },
            Bad,
            "lacks RELOAD, PROCESS for backup, binlog and dump | GRANT RELOAD, PROCESS ON *.* TO `a`@`b`;",
        ),
        (&|facts| facts.copy = Some(Err("no".to_owned())), Bad, "remora backup would not work: no"),
        (
            &|facts| facts.tables.without_key = (vec!["app.t".to_owned()], 5),
            Warning,
            "app.t and 4 more; replays and undo scripts look for each of their rows in the whole table | ALTER TABLE app.t ADD PRIMARY KEY",
        ),
        (
            &|facts| facts.tables.without_transactions = (vec!["app.m (MyISAM)".to_owned()], 1),
            Warning,
            "no transactions: app.m (MyISAM); a dump locks them, a crash may damage them, and remora reverse refuses them | ALTER TABLE \
             app.m ENGINE=InnoDB",
        ),
    ]);
}

#[test]
fn every_fault_of_a_repository_is_reported_with_its_fix() {
    check(&[
        (&repository(|found| found.error = Some("it is away".to_owned())), Bad, "repository: it is away"),
        (
            &repository(|found| {
                found.newest = None;
                found.free = None;
            }),
            Bad,
            "there is none in /backup/db1 | remora backup mysql: --to /backup",
        ),
        (
            &newest(|newest| newest.taken_s = NOW_S - 3 * 86_400),
            Warning,
            "older than a day | remora backup mysql:",
        ),
        (&newest(|newest| newest.proof = Proof::Never), Warning, "remora verify /backup/db1@7 --boot"),
        (&newest(|newest| newest.proof = Proof::Unsound), Bad, "NOT SOUND"),
        (&newest(|newest| newest.is_damaged = true), Bad, "@7 of"),
        (
            &repository(|found| {
                found.noted = Some("remora verify noted damage".to_owned());
                found.newest.iter_mut().for_each(|newest| newest.is_damaged = true);
            }),
            Bad,
            "can't be restored whole: remora verify noted damage",
        ),
        (
            &repository(|found| found.noted = Some("noted damage in x".to_owned())),
            Bad,
            "repository: noted damage in x",
        ),
        (&newest(|newest| newest.bytes = 1 << 40), Warning, "the next backup may take"),
        (
            &repository(|found| found.broken = vec!["x is damaged".to_owned()]),
            Bad,
            "x is damaged (1 of that kind) | remora verify /backup/db1",
        ),
        (&repository(|found| found.is_beside_data = Some(true)), Warning, "| remora mirror /backup "),
        (
            &repository(|found| {
                found.encryption = Encryption::Unopened;
                found.newest = None;
                found.archive = Archive::None;
            }),
            Warning,
            "--key FILE",
        ),
        (
            &repository(|found| found.encryption = Encryption::FullKey("/backup/k".to_owned(), true)),
            Warning,
            "the key /backup/k is on the disk of the repository",
        ),
    ]);
}

#[test]
fn every_fault_of_an_archive_is_reported_with_its_fix() {
    check(&[
        (
            &repository(|found| found.archive = Archive::None),
            Warning,
            "goes with the server | remora binlog /backup/db1",
        ),
        (&repository(|found| found.archive = Archive::There(None)), Bad, "it never had all of the log"),
        (
            &repository(|found| found.archive = Archive::There(Some(NOW_S - 600))),
            Bad,
            "it last had everything at",
        ),
        (
            &|facts| {
                repository(|found| found.archive = Archive::There(Some(NOW_S - 600_000)))(facts);
                set("binlog_expire_logs_seconds", "864000")(facts);
            },
            Bad,
            "removes the rest of its log soon",
        ),
        (
            &|facts| {
                repository(|found| found.archive = Archive::There(Some(NOW_S - 600)))(facts);
                facts.server.receivers = Some(0);
            },
            Bad,
            "nobody receives the server's log now",
        ),
        (
            &|facts| {
                facts.server.settings.remove("binlog_expire_logs_seconds");
                set("expire_logs_days", "0.5")(facts);
            },
            Warning,
            "keeps its log for 12 hours: an archive that is stopped for longer has a gap | SET GLOBAL expire_logs_days = 7",
        ),
    ]);
}
