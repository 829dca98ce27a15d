use super::*;

fn snapshot() -> Snapshot {
    let text = "remora variables 1
title\tMariaDB 11.8.6
version\tmariadb-11.8.6
groups\tmysqld server mysqld-11.8 mariadb
has\toptions variables

autocommit\ttype=BOOLEAN\toption=optional\tvariable
innodb_file_format\toption=optional\tignored=was removed.
log_bin\toption=optional\tvariable
long_query_time\ttype=DOUBLE\tmin=0\tmax=31536000\toption=required\tvariable
max_connections\ttype=BIGINT UNSIGNED\tmin=10\tmax=100000\toption=required\tvariable
plugin_load_add\toption=required
old_mode\ttype=SET\twords=A_B,C_D\toption=required\tvariable
safe_mode\toption=none
sort_buffer_size\ttype=BIGINT UNSIGNED\tmin=1024\tmax=18446744073709551615\tblock=8\toption=required\tvariable
storage_engine\toption=required\tdeprecated=Use @@default_storage_engine instead
binlog_format\ttype=ENUM\twords=MIXED,STATEMENT,ROW\toption=required\tvariable
";
    Snapshot::read(text).unwrap()
}

fn line(at: u32, group: &str, name: &str, value: Option<&str>) -> OptionLine {
    OptionLine {
        file: "/my.cnf".into(),
        line: at,
        group: group.to_owned(),
        name: name.to_owned(),
        value: value.map(str::to_owned),
    }
}

fn verdict(name: &str, value: Option<&str>) -> Option<Verdict> {
    let lines = [line(1, "mysqld", name, value)];
    let checked = check(&snapshot(), &lines);
    checked.findings.first().map(|finding| finding.verdict)
}

#[test]
fn each_line_gets_its_verdict() {
    use Verdict::{Aborts, Deprecated, Differs, Ignored};
    for (name, value, expected) in [
        ("max-connections", Some("100"), None),
        ("max-connections", Some("5"), Some(Differs)),
        ("max-connections", Some("1M"), Some(Differs)),
        ("max-connections", Some("5x"), Some(Aborts)),
        ("max-connections", Some("1.5K"), Some(Aborts)),
        ("max-connections", None, Some(Aborts)),
        ("max-connections", Some(""), Some(Differs)),
        ("max-connections", Some("-5"), Some(Aborts)),
        ("max-connections", Some("1e2"), Some(Differs)),
        ("skip-max-connections", None, Some(Differs)),
        ("max-connection", Some("100"), Some(Deprecated)),
        ("sort-buffer-size", Some("1M"), None),
        ("sort-buffer-size", Some("1MB"), Some(Differs)),
        ("sort-buffer-size", Some("2049"), Some(Differs)),
        ("autocommit", None, None),
        ("autocommit", Some("off"), None),
        ("autocommit", Some("yes"), Some(Differs)),
        ("autocommit", Some("no"), None),
        ("skip-autocommit", None, None),
        ("binlog-format", Some("row"), None),
        ("binlog-format", Some("2"), None),
        ("binlog-format", Some("MIX"), None),
        ("binlog-format", Some("3"), Some(Aborts)),
        ("binlog-format", Some("rows"), Some(Aborts)),
        ("old-mode", Some("a_b,c_d"), None),
        ("old-mode", Some("A_B,NO_AUTO_CREATE_USER"), Some(Aborts)),
        ("long-query-time", Some("0.5"), None),
        ("long-query-time", Some("abc"), Some(Aborts)),
        ("long-query-time", Some("99999999"), Some(Differs)),
        ("innodb-file-format", Some("Barracuda"), Some(Ignored)),
        ("safe-mode", None, None),
        ("safe-mode", Some("1"), Some(Aborts)),
        ("storage-engine", Some("InnoDB"), Some(Deprecated)),
        ("query-cash-size", Some("0"), Some(Aborts)),
        ("loose-foo", Some("1"), Some(Ignored)),
        ("log-bin", None, None),
        ("log-bin", Some("/var/log/bin"), None),
    ] {
        assert_eq!(verdict(name, value), expected, "{name} = {value:?}");
    }
}

#[test]
fn groups_and_the_last_line_count() {
    let lines = [
        line(1, "client", "foo", None),
        line(2, "mysqld-5.6", "max-connections", Some("20")),
        line(3, "MYSQLD", "max-connections", Some("30")),
        line(4, "mariadb", "max_connections", Some("40")),
        line(5, "galera", "wsrep-on", Some("1")),
        line(6, "mysqld-11.8", "sql-pass", Some("secret")),
    ];
    let checked = check(&snapshot(), &lines);
    let found: Vec<_> = checked.findings.iter().map(|finding| (finding.line, finding.verdict)).collect();
    use Verdict::{Aborts, Ignored, Overridden};
    assert_eq!(found, [(2, Ignored), (3, Overridden), (5, Ignored), (6, Aborts)]);
    assert!(checked.findings[1].why.contains("line 4"));
    assert_eq!(checked.findings[3].text, "sql-pass = ***");
    let in_force: Vec<_> = checked.settings.iter().map(|setting| setting.line.line).collect();
    assert_eq!(in_force, [4]);
    let mut snapshot = snapshot();
    let lines = [line(1, "mysqld_b", "max-connections", Some("5")), line(2, "mysqld", "log-bin", None)];
    let read = |snapshot: &Snapshot| check(snapshot, &lines).settings.len();
    assert_eq!(read(&snapshot), 1);
    snapshot.add_groups("_b");
    assert_eq!(read(&snapshot), 2);
}

#[test]
fn an_unknown_name_has_a_hint() {
    let lines = [line(1, "mysqld", "max-conections", Some("20"))];
    let checked = check(&snapshot(), &lines);
    assert!(checked.findings[0].why.contains("is max_connections meant?"), "{:?}", checked.findings);
    let lines = [line(1, "mysqld", "innodb-additional-mem-pool-size", Some("20M"))];
    let checked = check(&snapshot(), &lines);
    assert!(checked.findings[0].why.contains("mysql-5.6"), "{:?}", checked.findings);
}

#[test]
fn an_unknown_name_may_be_that_of_a_plugin() {
    let lines = [
        line(1, "mysqld", "server-audit-logging", Some("ON")),
        line(2, "mysqld", "plugin-load-add", Some("server_audit")),
    ];
    let of_plugin = |lines: &[OptionLine]| check(&snapshot(), lines).findings[0].why.contains("a plugin");
    assert!(of_plugin(&lines) && !of_plugin(&lines[..1]));
}

#[test]
fn what_is_asked_for_may_be_written_in_other_ways() {
    let snapshot = snapshot();
    let is = |name: &str, asked, runs| is_as_asked(&snapshot.variables[name], asked, runs);
    assert!(is("autocommit", "1", "ON") && !is("autocommit", "1", "OFF"));
    assert!(is("max_connections", "1K", "1024") && !is("max_connections", "5", "10"));
    assert!(is("binlog_format", "2", "ROW") && is("binlog_format", "mix", "MIXED"));
    assert!(!is("binlog_format", "ROW", "MIXED"));
}
