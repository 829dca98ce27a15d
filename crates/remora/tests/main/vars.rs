//! `remora vars` against every server: the data we ship are what servers report, and the checks match what
//! servers do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sandbox::{Family, Product};
use serde_json::json;

use super::support::{
    Ended, Place, newest, of_today, on_every_server, on_mariadb, on_products, on_products_at_once,
    part_of_today, products, remora, skipped, start, tell,
};

fn vars(folder: &Path, arguments: &[&str]) -> Ended {
    Ended::of(&remora(folder).arg("vars").args(arguments).output().unwrap())
}

/// The lines of JSON of this type from a run.
fn told(ended: &Ended, kind: &str) -> Vec<serde_json::Value> {
    let lines = ended.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["message_type"] == kind).collect()
}

fn url(place: &Place) -> String {
    format!("unix://root@{}", place.socket.display())
}

#[test]
fn shipped_snapshots_equal_those_of_started_servers() {
    let folder = tempfile::tempdir().unwrap();
    on_products_at_once(&of_today(products()), |product| {
        tell(product);
        let mut fresh = format!("sandbox:{}", product.id());
        // Options that a program does not list are tried one by one, which takes up to a minute of processor.
        if sandbox::is_everywhere() {
            let made = vars(folder.path(), &["snapshot", &fresh]).exits(0).out;
            fresh = format!("{}.txt", product.id());
            std::fs::write(folder.path().join(&fresh), made).unwrap();
        }
        for (a, b) in [(product.id(), fresh.as_str()), (fresh.as_str(), product.id())] {
            let ended = vars(folder.path(), &[a, b, "--exit-code"]);
            let of = |side: &str| ended.out.lines().find_map(|line| line.strip_prefix(side));
            // A package may be newer than what ships.
            if let (Some(a), Some(b)) = (of("A: "), of("B: "))
                && a != b
            {
                let why = format!("the snapshot and the server are of {a} and {b}");
                let name = format!("shipped_snapshots_equal_those_of_started_servers on {product}");
                return skipped(&name, &why);
            }
            let ended = ended.exits(0);
            assert!(ended.err.contains("0 differences"), "{}", ended.err);
        }
    });
}

#[test]
fn a_program_is_read_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    on_products(&of_today(products()), |product| {
        let installation = sandbox::find(&super::support::places(), product).unwrap();
        // These servers come with a loader or libraries of their own.
        if installation.loader.is_some() || installation.libraries.is_some() {
            return;
        }
        tell(product);
        let binary = format!("binary:{}", installation.daemon.display());
        vars(folder.path(), &[&binary, product.id(), "--exit-code"]).exits(0);
        let ended = vars(folder.path(), &[&binary, "mysql-5.6", "--json"]).exits(0);
        let found = told(&ended, "difference");
        assert!(found.iter().any(|line| line["name"] == "rbr_exec_mode") || found.len() > 100);
    });
    let ended = vars(folder.path(), &["binary:/bin/true", "10.11"]).exits(1);
    ended.says(&["/bin/true", "--verbose --help"]);
    vars(folder.path(), &["binary:/no/such", "10.11"]).exits(1).says(&["/no/such"]);
}

#[test]
fn an_upgrade_shows_the_known_changes() {
    let folder = tempfile::tempdir().unwrap();
    let ended = vars(folder.path(), &["10.11", "11.8", "--json"]).exits(0);
    let found = told(&ended, "difference");
    let is = |kind: &str, name: &str, a: Option<&str>, b: Option<&str>| {
        let line = found.iter().find(|line| line["kind"] == kind && line["name"] == name);
        let line = line.unwrap_or_else(|| panic!("no {kind} {name}"));
        assert_eq!((line["a"].as_str(), line["b"].as_str()), (a, b), "{name}");
    };
    is("default", "innodb_snapshot_isolation", Some("OFF"), Some("ON"));
    is("default", "character_set_server", Some("latin1"), Some("utf8mb4"));
    is("default", "innodb_undo_tablespaces", Some("0"), Some("3"));
    is("removed", "innodb_change_buffer_max_size", Some("25"), None);
    is("ignored", "innodb_defragment", Some("OFF"), None);
    is("deprecated", "tx_isolation", None, None);
    is("added", "innodb_data_file_buffering", None, Some("OFF"));
    is("dynamic", "innodb_doublewrite", Some("restart"), Some("SET GLOBAL"));
    vars(folder.path(), &["10.11", "mariadb-10.11", "--exit-code"]).exits(0);
    vars(folder.path(), &["10.11", "11.8", "--exit-code"]).exits(4);
    vars(folder.path(), &["10.11", "9.9"]).exits(2).says(&["9.9", "mariadb-11.8"]);
    vars(folder.path(), &["10.11"]).exits(2);
}

/// Variables that MySQL computes from `max_connections` without saying so.
const FOLLOWING: [&str; 3] = ["back_log", "host_cache_size", "thread_cache_size"];

#[test]
fn servers_are_compared_by_their_settings() {
    let folder = tempfile::tempdir().unwrap();
    on_every_server(|place| {
        let server = start(place.product, &["--max-connections=77", "--net-read-timeout=31"]);
        let other = format!("unix://root@{}", server.socket().display());
        let ended = vars(folder.path(), &["--no-defaults", &url(place), &other, "--json"]).exits(0);
        let found = told(&ended, "difference");
        let seen: Vec<_> = found
            .iter()
            .map(|line| {
                (line["name"].as_str().unwrap(), line["a"].as_str().unwrap(), line["b"].as_str().unwrap())
            })
            .collect();
        let seen: Vec<_> = seen.into_iter().filter(|seen| !FOLLOWING.contains(&seen.0)).collect();
        let expected = [("max_connections", "151", "77"), ("net_read_timeout", "30", "31")];
        assert_eq!(seen, expected, "{}", place.product);
        if place.is_mariadb() {
            assert!(found.iter().all(|line| line["b_from"] == "COMMAND-LINE"), "{found:?}");
        }
        // Variables left out by default are shown when asked for.
        let ended = vars(folder.path(), &["--no-defaults", &url(place), &other, "--all", "--json"]).exits(0);
        let all = told(&ended, "difference");
        assert!(all.iter().any(|line| line["name"] == "socket" && line["administrative"] == true));
    });
}

#[test]
fn a_snapshot_is_compared_later() {
    on_every_server(|place| {
        let server = start(place.product, &[]);
        let at = format!("unix://root@{}", server.socket().display());
        let ended = vars(&place.path(""), &["snapshot", "--no-defaults", &at]).exits(0);
        place.file("monday.vars", &ended.out);
        vars(&place.path(""), &["--no-defaults", "monday.vars", &at, "--exit-code"]).exits(0);
        super::support::connect(server.socket()).execute("SET GLOBAL net_write_timeout = 61").unwrap();
        let ended = vars(&place.path(""), &["--no-defaults", "monday.vars", &at, "--exit-code"]).exits(4);
        assert!(ended.out.contains("net_write_timeout"), "{}", ended.out);
        assert!(ended.err.contains("1 difference\n"), "{}", ended.err);
        let whole = std::fs::read_to_string(place.path("monday.vars")).unwrap();
        let half = whole.lines().take(whole.lines().count() / 2).collect::<Vec<_>>().join("\n");
        place.file("cut.vars", &(half.clone() + "\n"));
        vars(&place.path(""), &["cut.vars", "10.11"]).exits(1).says(&["cut.vars", "cut off"]);
        place.file("cut.vars", &half);
        vars(&place.path(""), &["cut.vars", "10.11"]).exits(1).says(&["cut.vars", "cut off"]);
        place.file("odd.vars", "remora variables 1\ntitle\tx\nversion\tx-1.2.3\n\na\tcolour=red\n");
        vars(&place.path(""), &["odd.vars", "10.11"]).exits(1).says(&["odd.vars", "line 5", "colour"]);
    });
}

#[test]
fn option_files_are_compared_by_meaning() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "a.cnf",
        "[mysqld]\ninnodb-buffer-pool-size = 64M\nskip-log-bin\nslow_query_log=1\nport=3306\n[client]\nport=1\n",
    );
    write(
        "b.cnf",
        "!include more.cnf\n[mariadb]\ninnodb_buffer_pool_size = 67108864\ndisable_log_bin\nslow-query-log = ON\nloose-max_connections=9\n",
    );
    write("more.cnf", "[server]\nport = 3307\nmax_connections = 5\n");
    let ended = vars(folder.path(), &["a.cnf", "b.cnf", "--json"]).exits(0);
    let found = told(&ended, "difference");
    let names: Vec<_> = found.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["max_connections"], "{}", ended.out);
    assert_eq!((found[0]["kind"].as_str(), found[0]["b"].as_str()), (Some("added"), Some("9")));
    assert!(found[0]["b_from"].as_str().unwrap().ends_with("b.cnf:6"), "{}", found[0]);
    let ended = vars(folder.path(), &["a.cnf", "b.cnf", "--all"]).exits(0);
    assert!(ended.out.contains("more.cnf:2"), "{}", ended.out);
    // With any name there is a binary log.
    write("log.cnf", "[mysqld]\nlog_bin = 0\n");
    write("bin.cnf", "[mysqld]\nlog-bin = mysql-bin\n");
    write("none.cnf", "[mysqld]\nskip-log-bin\n");
    vars(folder.path(), &["log.cnf", "bin.cnf", "--exit-code"]).exits(0);
    vars(folder.path(), &["log.cnf", "none.cnf", "--exit-code"]).exits(4);
    // All values of a list count, and neither they nor the words of a set have an order.
    write("x_y.cnf", "[mysqld]\nreplicate-do-db=x\nreplicate-do-db=y\nsql_mode=ANSI_QUOTES,NO_ZERO_DATE\n");
    write("y_x.cnf", "[mysqld]\nsql_mode=NO_ZERO_DATE,ANSI_QUOTES\nreplicate-do-db=y\nreplicate-do-db=x\n");
    write("y.cnf", "[mysqld]\nsql_mode=NO_ZERO_DATE,ANSI_QUOTES\nreplicate-do-db=y\n");
    vars(folder.path(), &["x_y.cnf", "y_x.cnf", "--exit-code"]).exits(0);
    let ended = vars(folder.path(), &["x_y.cnf", "y.cnf", "--exit-code"]).exits(4);
    assert!(ended.out.contains("replicate_do_db") && ended.out.contains("x,y"), "{}", ended.out);
    write("secret.cnf", "[mysqld]\nreport-password=hush\nwsrep_sst_auth=root:hush\n");
    let ended = vars(folder.path(), &["secret.cnf", "a.cnf", "--all"]).exits(0);
    assert!(ended.out.contains("***") && !ended.out.contains("hush"), "{}", ended.out);
    write("bad.cnf", "max_connections = 5\n");
    vars(folder.path(), &["bad.cnf", "10.11"]).exits(2).says(&["bad.cnf:1"]);
}

/// Lines, what a check says of each, and whether that needs the bounds that only MariaDB tells.
const LINES: [(&str, Option<&str>, bool); 37] = [
    ("log_bin = mysql-bin", None, false),
    ("log_bin = OFF", Some("differs"), false),
    ("skip-log-bin", None, false),
    ("max_connections = 100", None, false),
    ("max_connections = 5000000", Some("differs"), true),
    ("table_open_cache = 5x", Some("aborts"), true),
    ("skip-net-buffer-length", Some("differs"), true),
    ("net_write_timeot = 5", Some("aborts"), false),
    ("loose-net_write_timeot = 5", Some("ignored"), false),
    ("net_write_timeou = 5", Some("deprecated"), false),
    ("slow_query_log = yes", Some("differs"), false),
    ("slow_query_log = no", None, false),
    ("key_buffer_size = 16MB", Some("differs"), true),
    ("max_connections = 1e2", Some("differs"), true),
    ("net_write_timeout = -1", Some("aborts"), true),
    ("log_queries_not_using_indexes", None, false),
    ("disable-log_queries_not_using_indexes = 0", None, false),
    ("binlog_format = rows", Some("aborts"), true),
    ("tx_isolation = READ-COMMITTED", Some("aborts"), false),
    ("transaction-isolation = READ-COMMITTED", None, false),
    ("sql_mode = STRICT_TRANS_TABLES,FOO", Some("aborts"), true),
    ("sql_mode = ANSI", None, false),
    ("sql_mode = \"ANSI, NO_ZERO_DATE\"", Some("aborts"), true),
    ("sql_mode = ANSI,", Some("aborts"), true),
    ("optimizer_switch = foo=on", Some("aborts"), true),
    ("transaction-isolation = READ COMMITTED", Some("aborts"), true),
    ("maximum-sort-buffer-size = 1M", None, false),
    ("hot.key_buffer_size = 1M", None, false),
    ("long_query_time = 0.25", None, false),
    ("sort_buffer_size = 1", Some("differs"), true),
    ("innodb_flush_log_at_trx_commit = 2", None, false),
    ("key_buffer_size = 16M", None, false),
    ("character_set_server = utf8", None, false),
    ("wait_timeout", Some("aborts"), false),
    ("innodb_io_capacity = 10", Some("differs"), true),
    ("default_storage_engine = nosuch", Some("aborts"), true),
    ("collation_server = nosuch_ci", Some("aborts"), true),
];

#[test]
fn the_check_predicts_what_each_line_does() {
    on_products_at_once(&of_today(products()), |product| {
        tell(product);
        let folder = tempfile::tempdir().unwrap();
        // For each a server is started.
        for (line, expected, by_bounds) in part_of_today(LINES.iter().collect(), 3) {
            let is_mysql = product.family() != Family::MariaDb;
            if line.starts_with("tx_isolation") && product.id() == "mariadb-11.8"
                || is_mysql && (line.ends_with("1e2") || line.ends_with("-1"))
            {
                continue;
            }
            // MySQL 8 and later take no beginnings of names.
            let is_cut = product == Product::MySql97 && *line == "net_write_timeou = 5";
            // It takes no utf8 either, and only the server says so.
            let is_gone = product == Product::MySql97 && *line == "character_set_server = utf8";
            let expected = if is_cut || is_gone { Some("aborts") } else { *expected };
            let text = format!("[mysqld]\n{line}\n");
            std::fs::write(folder.path().join("my.cnf"), text).unwrap();
            let run = |more: &[&str]| {
                let arguments = [&["check", "my.cnf", "--for", product.id(), "--json"], more].concat();
                let ended = vars(folder.path(), &arguments);
                let found = told(&ended, "finding");
                assert!(found.len() <= 1, "{found:?}");
                let verdict = found.first().map(|finding| finding["verdict"].as_str().unwrap().to_owned());
                (verdict, told(&ended, "summary")[0].clone())
            };
            let (proven, summary) = run(&[]);
            assert_eq!(summary["proven"], true);
            assert_eq!(summary["starts"], proven.as_deref() != Some("aborts"), "{line}: {summary}");
            assert_eq!(proven.as_deref(), expected, "{product}: {line}: a server was started");
            let (alone, summary) = run(&["--no-start"]);
            assert_eq!(summary["proven"], false);
            if (!is_mysql || !*by_bounds) && !is_gone && !line.contains(" = nosuch") {
                assert_eq!(alone.as_deref(), expected, "{product}: {line}: no server was started");
            }
        }
    });
}

#[test]
fn a_file_is_checked_before_an_upgrade() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "good.cnf",
        "[mysqld]\nmax_connections = 50\nport = 3306\ndatadir = /var/lib/mysql\nreplicate-do-db = x\nreplicate-do-db = y\n",
    );
    write(
        "old.cnf",
        "[client]\nfoo=1\n[mysqld]\nmax_connections = 20\ninnodb_additional_mem_pool_size = 20M\n\
         innodb_file_format = Barracuda\nquery_cache_size = 1M\nno_such_thing = 1\n!include more.cnf\n[mysqld-5.1]\nbig-tables\n",
    );
    write("more.cnf", "[mysqld]\nmax_connections = 30\n");
    on_mariadb(|place| {
        let product: Product = place.product;
        let ended = vars(folder.path(), &["check", "good.cnf", "--for", product.id()]).exits(0);
        assert!(ended.out.contains("starts with this file"), "{}", ended.out);
        assert!(ended.err.contains("not tried") && ended.err.contains("datadir, port"), "{}", ended.err);
        let ended = vars(folder.path(), &["check", "old.cnf", "--for", product.id(), "--json"]).exits(4);
        let found = told(&ended, "finding");
        let seen: Vec<_> = found
            .iter()
            .map(|line| (line["line"].as_u64().unwrap(), line["verdict"].as_str().unwrap()))
            .collect();
        let expected = [(4, "overridden"), (5, "aborts"), (6, "ignored"), (8, "aborts"), (11, "ignored")];
        assert_eq!(seen, expected, "{product}: {}", ended.out);
        assert!(found[0]["why"].as_str().unwrap().contains("more.cnf:2"));
        assert!(found[1]["why"].as_str().unwrap().contains("mysql-5.6"));
        // The same, from what a running server of that series reports.
        let ended =
            vars(folder.path(), &["check", "old.cnf", "--no-defaults", "--for", &url(place), "--json"])
                .exits(4);
        assert_eq!(told(&ended, "finding").len(), expected.len());
    });
    write("more.cnf", "[mysqld]\nmax_connections = 30\n[mysqld_b]\nmax_connections = 5x\n");
    let check = ["check", "more.cnf", "--for", "10.11", "--no-start", "--no-defaults"];
    let ended = vars(folder.path(), &check).exits(3);
    assert!(ended.out.contains("No line is known to stop MariaDB 10.11"), "{}", ended.out);
    assert!(!ended.out.contains("starts with this file"), "{}", ended.out);
    ended.says(&["[mysqld_b]", "--defaults-group-suffix=_b"]);
    let ended = vars(folder.path(), &[&check[..], &["--defaults-group-suffix=_b"]].concat()).exits(4);
    assert!(ended.out.contains("more.cnf:4") && ended.out.contains("5x"), "{}", ended.out);
    write("tx.cnf", "[mysqld]\ntx_isolation = READ-COMMITTED\n");
    let ended = vars(folder.path(), &["check", "tx.cnf", "--for", "10.11", "--no-start"]).exits(4);
    assert!(ended.out.contains("in an option file it is transaction_isolation"), "{}", ended.out);
    vars(folder.path(), &["check", "none.cnf", "--for", "10.11"]).exits(2).says(&["none.cnf"]);
    vars(folder.path(), &["check", "good.cnf", "--for", "good.cnf"]).exits(2).says(&["is an option file"]);
}

/// A private server has pages of its own, so it says nothing of this line.
#[test]
fn a_line_that_was_not_tried_and_may_stop_the_server_leaves_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("page.cnf", "[mysqld]\ninnodb_page_size = 32768\nport = 3307\n");
    write("odd.cnf", "[mysqld]\ninnodb_page_size = 5000\n");
    write("same.cnf", "[mysqld]\ninnodb_page_size = 16K\nport = 3307\nsocket = /run/a.sock\n");
    on_mariadb(|place| {
        let check = |file| vars(folder.path(), &["check", file, "--for", place.product.id()]);
        let ended = check("page.cnf").exits(3);
        assert!(ended.out.contains("NOT tried: innodb_page_size"), "{}", ended.out);
        assert!(!ended.out.contains("starts with this file"), "{}", ended.out);
        check("odd.cnf").exits(4);
        let ended = check("same.cnf").exits(0);
        assert!(ended.out.contains("starts with this file"), "{}", ended.out);
    });
}

#[test]
fn options_of_plugins_are_those_that_the_program_has_or_depend_on_the_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let verdicts = |file: &str, server: &str, more: &[&str], code| {
        let arguments = [&["check", file, "--no-defaults", "--json", "--for", server], more].concat();
        let ended = vars(folder.path(), &arguments).exits(code);
        let starts = told(&ended, "summary")[0]["starts"].clone();
        let found = told(&ended, "finding");
        let of = |line: &serde_json::Value| format!("{} {}", line["line"], line["verdict"].as_str().unwrap());
        (found.iter().map(of).collect::<Vec<_>>().join(", "), starts)
    };
    let (no, maybe) = (json!(false), json!(null));
    write("plugin.cnf", "[mysqld]\nplugin_load_add=pretend\npretend_level=3\nmax_connections=50\n");
    write("typo.cnf", "[mysqld]\nplugin_load_add=pretend\npretend_levl=3\nloose-pretend_levl=3\n");
    write("named.cnf", "[mysqld]\nplugin_load=pretend=a.so\npretend_level=3\nmax_conections=50\n");
    on_products(&of_today(products()), |product| {
        tell(product);
        for more in [&[][..], &["--no-start"]] {
            let of = |file, code| verdicts(file, product.id(), more, code);
            assert_eq!(of("plugin.cnf", 3), ("3 depends".to_owned(), maybe.clone()));
            assert_eq!(of("typo.cnf", 3), ("3 depends, 4 depends".to_owned(), maybe.clone()));
            assert_eq!(of("named.cnf", 4), ("3 depends, 4 aborts".to_owned(), no.clone()));
        }
        let installation = sandbox::find(&super::support::places(), product).unwrap();
        if installation.loader.is_some() || installation.libraries.is_some() {
            return;
        }
        // The program with a plugin that is nowhere else.
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *--plugin-load=pretend*) level='  --pretend-level=# \\n';; esac\n\
             {} \"$@\" | sed \"s/^  -P, --port=/$level&/\"\n",
            installation.daemon.display()
        );
        write("program", &script);
        let program = folder.path().join("program");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = format!("binary:{}", program.display());
        // The program knows the name; only the plugin can judge the value.
        assert_eq!(verdicts("plugin.cnf", &program, &[], 3), (String::new(), maybe.clone()));
        assert_eq!(verdicts("typo.cnf", &program, &[], 4), ("3 aborts, 4 ignored".to_owned(), no.clone()));
        assert_eq!(verdicts("named.cnf", &program, &[], 4).0, "4 aborts");
    });
}

/// The server lets such an account in, and refuses what it asks.
#[test]
fn an_expired_password_is_a_refusal() {
    let folder = tempfile::tempdir().unwrap();
    on_mariadb(|place| {
        let mut session = place.session();
        session.execute("CREATE OR REPLACE USER expired@localhost PASSWORD EXPIRE").unwrap();
        let at = format!("unix://expired@{}", place.socket.display());
        let ended = vars(folder.path(), &["snapshot", "--no-defaults", &at]).exits(10);
        ended.says(&["the password has expired", "ALTER USER"]);
        session.execute("DROP USER expired@localhost").unwrap();
    });
}

/// A program of a series that does not ship: it knows more than we do.
#[test]
fn a_program_judges_the_values_itself() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let judged = |file: &str, more: &[&str], code| {
        let arguments = [&["check", file, "--no-defaults", "--json", "--for"], more].concat();
        let ended = vars(folder.path(), &arguments).exits(code);
        let summary = told(&ended, "summary").remove(0);
        let found = told(&ended, "finding");
        let of = |line: &serde_json::Value| format!("{} {}", line["line"], line["verdict"].as_str().unwrap());
        (
            found.iter().map(of).collect::<Vec<_>>().join(", "),
            summary["starts"].clone(),
            summary["judged_by"].clone(),
        )
    };
    write(
        "bad.cnf",
        "[mysqld]\ninnodb_buffer_pool_size=5x\nmax_connections=50\nsql_mode=FOO\nback_log=70000\n",
    );
    write("good.cnf", "[mysqld]\nmax_connections=50\nlog_bin=mysql-bin\n");
    let installation = sandbox::find(&super::support::places(), "mariadb-10.11".parse().unwrap()).unwrap();
    let daemon = installation.daemon.display();
    write("mariadbd", &format!("#!/bin/sh\n{daemon} \"$@\" | sed 's/ Ver 10.11/ Ver 10.99/'\n"));
    // What a MySQL of which there is no sandbox prints of itself, and how it judges with --validate-config.
    let help = "mysqld  Ver 9.9.4 for Linux on x86_64 (MySQL)\nThe following groups are read: mysqld server\n\
                \x20 --validate-config Validate\n  --max-connections=# Number\n  --log-bin[=name] Name\n\
                \x20 --sql-mode=name Mode\n  --innodb-buffer-pool-size=# Size\n  --back-log=# Queue\n\
                Variables (--variable-name=value)\n---- ----\nvalidate-config FALSE\n";
    write("help.txt", help);
    let said = "case \"$*\" in *--help*) cat help.txt; exit 0;; *secure-file-priv=*) ;; *) exit 1;; esac\n\
                case \"$*\" in *=5x*) echo \"0 [ERROR] [Server] Error while setting value '5x' to 'innodb-buffer-pool-size'.\" >&2; exit 1;; esac\n\
                case \"$*\" in *FOO*) echo \"0 [ERROR] [Server] Error while setting value 'FOO' to 'sql_mode'.\" >&2; exit 1;; esac\n\
                case \"$*\" in *70000*) echo \"0 [Warning] [Server] option 'back_log': unsigned value 70000 adjusted to 65535.\" >&2;; esac\n";
    write("mysqld", &format!("#!/bin/sh\n{said}"));
    for program in ["mariadbd", "mysqld"] {
        let path = folder.path().join(program);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = format!("binary:{}", path.display());
        let of = |file, code| judged(file, &[&program], code);
        let bad = "2 aborts, 4 aborts, 5 differs".to_owned();
        assert_eq!(of("bad.cnf", 4), (bad, json!(false), json!("program")), "{program}");
        assert_eq!(of("good.cnf", 0), (String::new(), json!(true), json!("program")), "{program}");
    }
    // A running MySQL shows names and values of its variables, and no more.
    write(
        "mysql.vars",
        "remora variables 1\ntitle\tMySQL 9.9.4\nversion\tmysql-9.9.4\nhas\tvariables\n\nmax_connections\tvalue=151\t\
         variable\nhost_cache_size\tvalue=279\tvariable\nlog_bin\tvalue=ON\tvariable\n",
    );
    assert_eq!(judged("good.cnf", &["mysql.vars"], 3), (String::new(), json!(null), json!(null)));
    write("odd.cnf", "[mysqld]\nskip-host-cache\nmax_connection=5x\nlog_bin=OFF\n");
    let odd = "2 depends, 3 depends, 4 differs".to_owned();
    assert_eq!(judged("odd.cnf", &["mysql.vars"], 4), (odd, json!(null), json!(null)));
    let ended = vars(folder.path(), &["check", "good.cnf", "--for", "mysql.vars"]).exits(3);
    assert!(ended.out.contains("NOT judged") && ended.err.contains("binary:"), "{}{}", ended.out, ended.err);
    // But one that is here judges for itself.
    for product in newest("a_program_judges_the_values_itself") {
        let server = format!("sandbox:{}", product.id());
        let (_, starts, judge) = judged("bad.cnf", &[&server], 4);
        assert_eq!((starts, judge), (json!(false), json!("server")));
        assert_eq!(judged("good.cnf", &[&server], 0), (String::new(), json!(true), json!("server")));
    }
}

#[test]
fn advice_needs_a_reason_on_this_server() {
    let folder = tempfile::tempdir().unwrap();
    on_products(&of_today(products()), |product| {
        tell(product);
        let rules = |options: &[&str], change: &dyn Fn(&mut server::Session)| {
            let server = start(product, options);
            change(&mut super::support::connect(server.socket()));
            let at = format!("unix://root@{}", server.socket().display());
            let ended = vars(folder.path(), &["advise", "--no-defaults", &at, "--json"]);
            let found = told(&ended, "advice");
            assert_eq!(ended.code, if found.is_empty() { 0 } else { 4 }, "{}", ended.err);
            assert!(found.iter().all(|line| line["source"].as_str().is_some_and(|source| source.len() > 10)));
            found.iter().map(|line| line["rule"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let strict = "--sql-mode=STRICT_TRANS_TABLES";
        assert_eq!(rules(&[strict], &|_| {}), Vec::<String>::new());
        let options = [
            "--sql-mode=",
            "--log-bin=b",
            "--server-id=1",
            "--sync-binlog=0",
            if product == Product::MySql97 {
                "--binlog-expire-logs-seconds=0"
            } else {
                "--expire-logs-days=0"
            },
            "--innodb-flush-log-at-trx-commit=2",
            "--skip-innodb-doublewrite",
            "--join-buffer-size=64M",
        ];
        let found = rules(&options, &|session| {
            // What the rule of strict mode says: 300 becomes 127, and the statement succeeds.
            session.execute("CREATE DATABASE x").unwrap();
            session.execute("CREATE TABLE x.t (a TINYINT)").unwrap();
            session.execute("INSERT INTO x.t VALUES (300)").unwrap();
            assert_eq!(session.value("SELECT a FROM x.t").unwrap().as_deref(), Some("127"));
            session.execute("SET SESSION sql_mode = 'STRICT_TRANS_TABLES'").unwrap();
            session.execute("INSERT INTO x.t VALUES (300)").unwrap_err();
            session.execute("SET GLOBAL net_write_timeout = 61").unwrap();
        });
        let mut expected = vec!["redo log", "binary log", "torn pages", "strict mode", "binary logs stay"];
        if product.family() == Family::MariaDb {
            expected.push("lost at a restart");
        }
        expected.push("session buffer");
        assert_eq!(found, expected, "{product}");
    });
}
