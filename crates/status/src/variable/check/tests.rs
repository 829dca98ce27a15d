use super::*;

fn snapshot() -> Snapshot {
    let text = "remora variables 1
title\tMariaDB 11.8.6
version\tmariadb-11.8.6
groups\tmysqld server mysqld-11.8 mariadb
has\toptions variables

autocommit\ttype=BOOLEAN\toption=optional\tvariable
innodb_file_format\toption=optional\tignored=was removed.
general_log_file\ttype=VARCHAR\toption=required\tvariable
core_file\ttype=BOOLEAN\toption=optional\tvariable
log_bin\ttype=BOOLEAN\toption=optional\tvariable
log_error\ttype=VARCHAR\toption=optional\tvariable
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
        ("log-bin", Some("mysql-bin"), None),
        ("log-bin", Some(""), None),
        ("log-bin", Some("OFF"), Some(Differs)),
        ("log-bin", Some("0"), Some(Differs)),
        ("log-bin", Some("ON"), Some(Differs)),
        ("skip-log-bin", None, None),
        ("skip-log-bin", Some("0"), None),
        ("log-error", None, None),
        ("log-error", Some("off"), Some(Differs)),
        ("skip-log-error", None, None),
        ("general-log-file", Some("/var/log/general"), None),
        ("general-log-file", Some("1"), Some(Differs)),
        ("skip-general-log-file", None, Some(Differs)),
        ("core-file", Some("1"), None),
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
        line(3, "mysqld", "loose-server-audit-mode", Some("1")),
        line(4, "mysqld", "max_conections", Some("50")),
    ];
    let found = |lines: &[OptionLine], unknown: Option<&[Load]>| {
        let checked = match unknown {
            Some(unknown) => check_with(&snapshot(), lines, unknown),
            None => check(&snapshot(), lines),
        };
        checked.findings.into_iter().map(|finding| (finding.line, finding.verdict)).collect::<Vec<_>>()
    };
    let all = [(1, Verdict::Depends), (3, Verdict::Depends), (4, Verdict::Depends)];
    assert_eq!(found(&lines, None), all);
    // Without a plugin, or when all that it has is known, the server decides.
    let decided = [(1, Verdict::Aborts), (3, Verdict::Ignored), (4, Verdict::Aborts)];
    assert_eq!(found(&lines, Some(&[])), decided);
    assert_eq!(found(&lines[..1], None), decided[..1]);
    // A plugin that is loaded by its name has only options that begin with it.
    let by_name = [Load { text: "server_audit=x.so".to_owned() }];
    assert_eq!(found(&lines, Some(&by_name)), [all[0], all[1], decided[2]]);
    let why = check(&snapshot(), &lines).findings.pop().unwrap().why;
    assert!(why.contains("max_connections meant") && why.contains("server_audit is there"), "{why}");
}

#[test]
fn equal_values_may_be_written_differently() {
    let snapshot = snapshot();
    let is = |name: &str, asked, runs| is_as_asked(&snapshot.variables[name], asked, runs);
    assert!(is("autocommit", "1", "ON") && !is("autocommit", "1", "OFF"));
    assert!(is("max_connections", "1K", "1024") && !is("max_connections", "5", "10"));
    assert!(is("binlog_format", "2", "ROW") && is("binlog_format", "mix", "MIXED"));
    assert!(!is("binlog_format", "ROW", "MIXED"));
}

/// What is said of a value of a variable of these fields, by a server of this version.
fn said(version: &str, fields: &str, value: &str) -> Option<String> {
    let text = format!(
        "remora variables 1\ntitle\tx\nversion\t{version}\ngroups\tmysqld\nhas\toptions\n\na\t{fields}\n"
    );
    let lines = [line(1, "mysqld", "a", Some(value))];
    check(&Snapshot::read(&text).unwrap(), &lines).findings.pop().map(|finding| finding.why)
}

#[test]
fn whole_numbers_are_cut_to_what_is_possible() {
    const FIELDS: &str = "type=BIGINT UNSIGNED\tmin=16\tmax=4096\tblock=8\toption=required";
    const STEPS: &str = "instead (16 to 4096 in steps of 8)";
    let mariadb = |value: &str| said("mariadb-11.8.6", FIELDS, value);
    for value in ["16", "4096", "+24", "1K", "4k", " 32 "] {
        assert_eq!(mariadb(value), None, "{value}");
    }
    for (value, taken) in [
        ("15", 16),
        ("0", 16),
        ("4097", 4096),
        ("5K", 4096),
        ("25", 24),
        ("1T", 4096),
        ("3P", 4096),
        ("", 16),
    ] {
        assert_eq!(mariadb(value), Some(format!("the server takes {taken} {STEPS}")), "{value}");
    }
    assert_eq!(
        mariadb("24Kilo").unwrap(),
        format!("the server takes 4096 {STEPS}; it reads 24K and no more")
    );
    assert_eq!(mariadb("1KB").unwrap(), "the server takes 1024 instead; it reads 1K and no more");
    let mysql = |value: &str| said("mysql-5.6.51", FIELDS, value);
    // MySQL knows three letters, and takes a negative number for nothing.
    assert_eq!((mysql("1K"), mysql("-8")), (None, Some(format!("the server takes 16 {STEPS}"))));
    assert!(mysql("1T").unwrap().contains("letters KMG behind"), "{:?}", mysql("1T"));
    assert!(mariadb("-8").unwrap().contains("below 0") && mariadb("1.5").unwrap().contains("KMGTPE"));
    assert!(mariadb("99999999999999999999999999999999999E").unwrap().contains("no whole number"));
    let signed = |value: &str| {
        said("mariadb-11.8.6", "type=BIGINT\tmin=-10\tblock=4\twords=AUTO\toption=required", value)
    };
    assert_eq!((signed("-8"), signed("auto")), (None, None));
    assert_eq!(signed("-9").unwrap(), "the server takes -10 instead (it is rounded in steps of 4)");
    assert_eq!(signed("7").unwrap(), "the server takes 4 instead (it is rounded in steps of 4)");
    let one = |value: &str| said("mariadb-11.8.6", "type=INT\tblock=1\tmax=9\toption=required", value);
    assert_eq!((one("7"), one("-7")), (None, None));
    assert_eq!(said("mariadb-11.8.6", "type=INT\tblock=0\toption=required", "7"), None);
}

#[test]
fn other_values_are_cut_or_refused() {
    let real = |value: &str| said("mariadb-11.8.6", "type=DOUBLE\tmin=1\tmax=5\toption=required", value);
    assert_eq!([real("1"), real("5"), real("2.5")], [None, None, None]);
    assert_eq!(real("0.5").unwrap(), "the server takes 1 instead (1 to 5)");
    assert_eq!(real("5.5").unwrap(), "the server takes 5 instead (1 to 5)");
    let set = |value: &str| said("mariadb-11.8.6", "type=SET\twords=ABC,DEF\toption=required", value);
    for value in ["3", "all", "abc,DE", "abc ,DEF ", "abc", "a", ""] {
        assert_eq!(set(value), None, "{value:?}");
    }
    assert_eq!(set("abc,xyz,ghi").unwrap(), r#""xyz", "ghi" is none of ABC, DEF"#);
    // What servers of 10.11 and 11.8 refused.
    for (value, wrong) in [
        ("ABC, DEF", r#"" DEF""#),
        ("ABC,", r#""""#),
        ("ABC,,DEF", r#""""#),
        (" ABC", r#"" ABC""#),
        ("ab,DEF", r#""ab""#),
        ("all,ABC", r#""all""#),
        ("4", r#""4""#),
        ("-1", r#""-1""#),
    ] {
        assert_eq!(set(value), Some(format!("{wrong} is none of ABC, DEF")), "{value:?}");
    }
    let flags = |value: &str| {
        said("mariadb-11.8.6", "type=FLAGSET\twords=mrr,mrr_sort,default\toption=required", value)
    };
    for value in ["", "mrr=on", "MRR=Off,mrr_sort=default", "default,mrr=on ", "mrr =on"] {
        assert_eq!(flags(value), None, "{value:?}");
    }
    for value in [
        "foo=on",
        "mrr",
        "mrr=1",
        "mrr=on, mrr_sort=on",
        "mrr=on,",
        "mrr_s=on",
        "mrr=on,mrr=off",
        "default=on",
        "3",
    ] {
        assert!(
            flags(value).is_some_and(|said| said.ends_with(" is none of mrr, mrr_sort, default")),
            "{value:?}"
        );
    }
    let word = |value: &str| said("mariadb-11.8.6", "type=ENUM\twords=AB,ABC,DEF\toption=required", value);
    assert_eq!([word("ab"), word("abc"), word("d"), word("2")], [None, None, None, None]);
    // Two words begin so.
    assert!(word("a").is_some() && word("3").is_some() && word("abcd").is_some());
    for kind in ["ENUM", "SET", "FLAGSET"] {
        let fields = &format!("type={kind}\toption=required");
        assert_eq!(said("mariadb-11.8.6", fields, "x"), None, "{fields}");
    }
    let switch = |value: &str| said("mariadb-11.8.6", "type=BOOLEAN\toption=none", value);
    for value in ["ON", "true", "1", "off", "FALSE", "0", "no"] {
        assert_eq!(switch(value), None, "{value}");
    }
    assert!(switch("maybe").is_some() && switch("yes").is_some());
}

/// Lines of real files, judged as servers of these series did when they were started with them.
#[test]
fn series_that_ship_are_judged_as_their_servers_judge() {
    use Verdict::{Aborts, Deprecated};
    for snapshot in super::super::shipped::all().iter().filter(|it| it.version.starts_with("mariadb")) {
        for (name, value, expected) in [
            ("sql_mode", "STRICT_TRANS_TABLES, NO_ZERO_DATE", Some(Aborts)),
            ("sql_mode", "STRICT_TRANS_TABLES,NO_ZERO_DATE", None),
            ("sql_mode", "ANSI,", Some(Aborts)),
            ("sql_mode", "NO_ZERO", Some(Aborts)),
            ("tls_version", "TLSv1.2, TLSv1.3", Some(Aborts)),
            ("tls_version", "TLSv1.2,TLSv1.3", None),
            ("optimizer_switch", "foo=on", Some(Aborts)),
            ("optimizer_switch", "mrr=on,index_merge=off", None),
            ("transaction-isolation", "READ COMMITTED", Some(Aborts)),
            ("transaction-isolation", "READ-COMMITTED", None),
            ("maximum-sort-buffer-size", "1M", None),
            ("maximum-sort-buffer-size", "x", Some(Aborts)),
            ("key.key_buffer_size", "1M", None),
            ("key.key_buff", "1M", Some(Deprecated)),
            ("key.key_buffer_size", "1x", Some(Aborts)),
            ("key.nosuch", "1", Some(Aborts)),
            ("innodb_page_size", "5000", Some(Aborts)),
            ("innodb_page_size", "16K", None),
        ] {
            let lines = [line(1, "mysqld", name, Some(value))];
            let found = check(snapshot, &lines).findings.first().map(|finding| finding.verdict);
            assert_eq!(found, expected, "{}: {name} = {value}", snapshot.title);
        }
    }
}

#[test]
fn what_belongs_to_a_machine_does_not_stop_a_server_by_its_value() {
    let snapshot = super::super::shipped::find("mariadb-10.11").unwrap();
    for (name, value, expected) in [
        ("innodb_page_size", "32768", true),
        // It is tried with this.
        ("innodb_page_size", "16K", false),
        ("innodb_data_file_path", "ibdata1:5x", true),
        ("default_time_zone", "Europe/Nowhere", true),
        ("wsrep_on", "ON", true),
        ("wsrep_on", "0", false),
        ("wsrep_node_name", "a", false),
        ("tls_version", "TLSv1.3", false),
        ("port", "3307", false),
        ("socket", "/run/a.sock", false),
        ("datadir", "/data", false),
        ("log_error", "/var/log/error.log", false),
        ("innodb_buffer_pool_size", "8G", false),
    ] {
        assert_eq!(may_stop(name, &snapshot.variables[name], value), expected, "{name} = {value}");
    }
    assert!(may_stop("tls_version", &Variable::default(), "TLSv1"));
}

/// The variables show the usual cache only.
#[test]
fn each_key_cache_has_settings_of_its_own() {
    let lines = [
        "a.key_buffer_size",
        "b.key-buffer-size",
        "key_buffer_size",
        "x.sort_buffer_size",
        "a.key_buffer_size",
    ];
    let lines = lines.map(|name| line(1, "mysqld", name, Some("1M")));
    let snapshot = super::super::shipped::find("mariadb-10.11").unwrap();
    let checked = check(&snapshot, &lines);
    let names: Vec<_> = checked.settings.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(names, ["b.key_buffer_size", "key_buffer_size", "sort_buffer_size", "a.key_buffer_size"]);
    let lines = [line(1, "mysqld", "Default.key_buffer_size", Some("1M"))];
    assert_eq!(check(&snapshot, &lines).settings[0].name, "key_buffer_size");
}

#[test]
fn prefixes_turn_values_round() {
    let value = |name: &str, value: Option<&str>| {
        let lines = [line(1, "mysqld", name, value)];
        let snapshot = snapshot();
        check(&snapshot, &lines).settings.pop().unwrap().value
    };
    for (name, written, expected) in [
        ("autocommit", None, Some("1")),
        ("skip-autocommit", None, Some("0")),
        ("skip-autocommit", Some("0"), Some("1")),
        ("disable-autocommit", Some("1"), Some("0")),
        ("enable-autocommit", None, Some("1")),
        ("enable-autocommit", Some("0"), Some("0")),
        ("loose-autocommit", Some("0"), Some("0")),
        ("maximum-max-connections", Some("5"), None),
        ("autoset-autocommit", None, None),
        ("log-bin", None, Some("1")),
        ("log-bin", Some("OFF"), Some("1")),
        ("skip-log-bin", None, Some("0")),
        ("skip-log-bin", Some("0"), Some("1")),
    ] {
        assert_eq!(value(name, written).as_deref(), expected, "{name} = {written:?}");
    }
}

#[test]
fn some_options_add_up() {
    let lines = [
        line(1, "mysqld", "plugin-load-add", Some("a")),
        line(2, "mysqld", "plugin-load-add", Some("b")),
        line(3, "mysqld", "log-bin", Some("x")),
        line(4, "mysqld", "max-connections", Some("20")),
        line(5, "mysqld", "log-bin", Some("x")),
        OptionLine { file: "/other.cnf".into(), ..line(1, "mysqld", "max-connections", Some("30")) },
    ];
    let snapshot = snapshot();
    let checked = check(&snapshot, &lines);
    let in_force: Vec<_> = checked.settings.iter().map(|setting| setting.line.line).collect();
    assert_eq!(in_force, [1, 2, 5, 1]);
    let [found] = &checked.findings[..] else { panic!("{:?}", checked.findings) };
    assert_eq!(
        (found.verdict, &*found.why),
        (Verdict::Overridden, "/other.cnf:1 sets it again, and the last line counts")
    );
    assert!(found.is_about(&lines[3]) && !found.is_about(&lines[2]));
    assert!(!found.is_about(&OptionLine { file: "/other.cnf".into(), ..lines[3].clone() }));
    let lists = [
        "replicate_do_db",
        "binlog_do_db",
        "binlog_ignore_db",
        "plugin_load_add",
        "ignore_db_dir",
        "ignore_db_dirs",
    ];
    assert!(lists.into_iter().all(is_list) && !is_list("log_bin"));
}

#[test]
fn groups_of_other_series_are_reported_and_those_of_other_programs_are_not() {
    for group in [
        "mysqld",
        "Server",
        "mariadbd",
        "client-server",
        "galera",
        "mysqld-5.6",
        "mariadb-10.4",
        "mariadbd-11",
        "server-8.0",
    ] {
        assert!(is_for_servers(group), "{group}");
    }
    for group in [
        "client",
        "mysqldump",
        "mysqld_safe",
        "mysqld-",
        "mysqld-x",
        "mariadb-client",
        "backup-5",
        "mysqld_multi",
        "mariadb_x",
    ] {
        assert!(!is_for_servers(group), "{group}");
    }
}

#[test]
fn groups_with_a_suffix_are_named() {
    let groups =
        ["mysqld2", "MySQLd.a", "mysqld_b", "mariadbd12", "mariadb.a", "mysqld", "mysqld_safe", "mysqld-5.6"];
    let lines: Vec<OptionLine> = groups.iter().map(|group| line(1, group, "port", Some("5"))).collect();
    let mut snapshot = snapshot();
    let named = |snapshot: &Snapshot| {
        let found = suffixed(snapshot, &lines).into_iter();
        found.map(|(group, suffix)| format!("{group} {suffix}")).collect::<Vec<_>>()
    };
    let all = ["MySQLd.a .a", "mariadb.a .a", "mariadbd12 12", "mysqld2 2", "mysqld_b _b"];
    assert_eq!(named(&snapshot), all);
    snapshot.add_groups("2");
    assert_eq!(named(&snapshot).len(), 4);
}

#[test]
fn values_without_known_bounds_are_not_judged() {
    let mut snapshot = snapshot();
    snapshot.has_options = false;
    let lines = [line(1, "mysqld", "upgrade", Some("FORCE")), line(2, "mysqld", "loose-upgrade", None)];
    let checked = check(&snapshot, &lines);
    assert!(checked.findings.iter().all(|finding| finding.verdict == Verdict::Depends));
    assert_eq!(checked.findings.len(), 2);
}

/// Walks over every option of every series that ships: those whose variable is a switch and that take a name
/// are known, and a word for a switch is no silent name of a file.
#[test]
fn an_option_that_takes_a_name_is_no_switch() {
    for snapshot in super::super::shipped::all() {
        let series = snapshot.series();
        let verdict = |name: &str, value: &str| {
            let lines = [line(1, "mysqld", name, Some(value))];
            check(&snapshot, &lines).findings.first().map(|finding| finding.verdict)
        };
        let mut paths = 0;
        for (name, variable) in snapshot.variables.iter().filter(|(_, it)| it.ignored.is_none()) {
            let is_switch = variable.is_switch()
                || variable.kind.is_none() && variable.default.as_deref().and_then(switch).is_some();
            // The program prints TRUE or FALSE for an option that is a switch.
            let takes_text = variable.option == Some(Argument::Optional)
                && variable
                    .printed
                    .as_deref()
                    .is_some_and(|printed| switch(printed).is_none() && printed.parse::<f64>().is_err());
            assert_eq!(is_switch && takes_text, is_named_switch(name), "{series}: {name}");
            if is_named_switch(name) {
                assert!(!matches!(verdict(name, "mysql-bin"), Some(Verdict::Differs)), "{series}: {name}");
                assert_eq!(verdict(name, "OFF"), Some(Verdict::Differs), "{series}: {name}");
            }
            let is_text = matches!(variable.kind.as_deref(), None | Some("VARCHAR"));
            let takes_value = matches!(variable.option, Some(Argument::Optional | Argument::Required));
            if is_path(name) && is_text && takes_value {
                paths += 1;
                assert!(variable.default.as_deref().and_then(switch).is_none(), "{series}: {name}");
                assert_eq!(verdict(name, "OFF"), Some(Verdict::Differs), "{series}: {name}");
            }
        }
        assert!(paths >= 25, "{series}: {paths}");
    }
}

#[test]
fn a_distance_is_the_fewest_changes() {
    for (a, b, expected) in [
        ("", "", 0),
        ("abc", "abc", 0),
        ("abc", "", 3),
        ("", "ab", 2),
        ("abc", "axc", 1),
        ("abc", "ac", 1),
        ("ac", "abc", 1),
        ("kitten", "sitting", 3),
    ] {
        assert_eq!(distance(a, b), expected, "{a} {b}");
    }
    let why = |name: &str| {
        let lines = [line(1, "mysqld", name, None)];
        check(&snapshot(), &lines).findings.pop().unwrap().why
    };
    assert!(why("autocomxxt").ends_with("; is autocommit meant?"), "{}", why("autocomxxt"));
    assert!(why("autocoxxxt").ends_with("no such option"), "{}", why("autocoxxxt"));
    // What a series said of it says more than that others have it.
    let said = "; mariadb-11.8 said: is deprecated and will be removed in a future release";
    assert!(why("big-tables").ends_with(said), "{}", why("big-tables"));
    let had = "; mariadb-10.11, mysql-5.6, mysql-9.7 know it";
    assert!(why("innodb-change-buffer-max-size").ends_with(had), "{}", why("innodb-change-buffer-max-size"));
    assert!(why("skip-sort-buffer-sizf").contains("is sort_buffer_size meant?"));
}
