//! Parts of a server, and who may dump them.

use sandbox::Product;

use super::{Pair, assert_equal};
use crate::support::{Ended, of_today, on_products, products, remora};

#[test]
fn one_table_is_dumped_with_its_triggers() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.one (id INT PRIMARY KEY)",
        "CREATE TABLE d.two (id INT PRIMARY KEY)",
        "CREATE TRIGGER d.t_one BEFORE INSERT ON d.one FOR EACH ROW SET NEW.id = NEW.id + 1",
        "CREATE TRIGGER d.t_two BEFORE INSERT ON d.two FOR EACH ROW SET NEW.id = NEW.id + 1",
        "CREATE DEFINER = 'some'@'body' PROCEDURE d.p() SELECT 1",
        "INSERT INTO d.one VALUES (0)",
    ] {
        source.execute(sql).unwrap();
    }
    pair.dump(&["d", "-o", "all"]).exits(0);
    pair.load(&["all", "--only", "d.one"]).exits(0);
    let triggers =
        "SELECT GROUP_CONCAT(TRIGGER_NAME) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'd'";
    assert_eq!(pair.target().value(triggers).unwrap().as_deref(), Some("t_one"));
    assert_eq!(pair.target().value("SELECT id FROM d.one").unwrap().as_deref(), Some("1"));
    // An object that exists is refused before anything is changed.
    pair.load(&["all"]).exits(1).says(&["`d`.`one`", "exists"]);
    assert!(pair.target().value("SELECT 1 FROM d.two").is_err());
    pair.target().execute("DROP DATABASE d").unwrap();
    pair.load(&["all", "--definer", "root@localhost"]).exits(0).says(&["rewritten", "`some`@`body`"]);
    let definer = "SELECT DEFINER FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'd'";
    assert_eq!(pair.target().value(definer).unwrap().as_deref(), Some("root@localhost"));
    // A pattern that matches nothing is an error, and so is a folder that exists.
    pair.dump(&["d.nothing", "-o", "other"]).exits(1).says(&["d.nothing"]);
    for (folder, file) in [("all", None), ("empty", None), ("other", Some("letter"))] {
        std::fs::create_dir_all(pair.path(folder)).unwrap();
        file.into_iter().for_each(|name| std::fs::write(pair.path(folder).join(name), "x").unwrap());
        let ended =
            pair.dump(&["d", "-o", folder]).exits(1).says(&[folder, "already exists; give a new folder"]);
        assert!(!ended.err.contains("--resume"), "{}", ended.err);
    }
}

#[test]
fn an_account_without_privileges_on_the_server_can_dump_what_it_reads() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        for sql in [
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY)",
            "CREATE VIEW d.v AS SELECT id FROM d.t",
            "INSERT INTO d.t VALUES (1), (2)",
            "CREATE USER reader@localhost",
            "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES ON d.* TO reader@localhost",
        ] {
            source.execute(sql).unwrap();
        }
        let mut command = remora(pair.folder.path());
        command
            .args(["dump", "--no-defaults", "-u", "reader", "d", "-o", "mine", "-S"])
            .arg(pair.from.socket());
        Ended::of(&command.output().unwrap()).exits(0).says(&["LOCK TABLES"]);
        pair.load(&["mine"]).exits(0);
        assert_equal(&pair, "d");
    });
}

/// Names of the databases, tables, views and routines on the target.
fn there(pair: &Pair) -> String {
    let sql = "SELECT GROUP_CONCAT(n ORDER BY n SEPARATOR ' ') FROM (\
               SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) n FROM information_schema.TABLES UNION ALL \
               SELECT CONCAT(ROUTINE_SCHEMA, '.', ROUTINE_NAME, '()') FROM information_schema.ROUTINES UNION ALL \
               SELECT SCHEMA_NAME FROM information_schema.SCHEMATA) all_of_it \
               WHERE n RLIKE '^(shop|web|old)'";
    pair.target().value(sql).unwrap().unwrap_or_default()
}

#[test]
fn names_are_chosen_by_wildcard_and_expression() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for schema in ["shop1", "shop2", "web", "old"] {
        source.execute(&format!("CREATE DATABASE {schema}")).unwrap();
        for table in ["orders", "orders_tmp", "hits"] {
            source.execute(&format!("CREATE TABLE {schema}.{table} (id INT PRIMARY KEY)")).unwrap();
        }
        source.execute(&format!("CREATE VIEW {schema}.v AS SELECT id FROM {schema}.hits")).unwrap();
        source.execute(&format!("CREATE PROCEDURE {schema}.p() SELECT 1")).unwrap();
    }
    let shop1 = "shop1 shop1.hits shop1.orders shop1.orders_tmp shop1.p() shop1.v";
    // The patterns, the exit code of the load, and the objects that exist afterwards.
    let cases: [(&[&str], i32, &str); 8] = [
        (&["/^shop1\\./"], 0, shop1),
        (
            &["/^shop[12]\\.(hits|v$)/", "--exclude", "/_tmp$/", "--exclude", "shop2.v"],
            0,
            "shop1 shop1.hits shop1.v shop2 shop2.hits",
        ),
        // A database none of whose tables is wanted is left out, and so are its routines.
        (&["*.hits", "--exclude", "/^(web|old)\\./"], 0, "shop1 shop1.hits shop2 shop2.hits"),
        (&["shop1", "web.h*"], 0, &format!("{shop1} web web.hits")),
        (&["--exclude", "/^shop/", "--exclude", "old", "--exclude", "web.*"], 0, "web web.p()"),
        // A view without its table can't be made.
        (&["/^web\\.(orders|v)$/"], 3, "web web.orders"),
        (&["/HITS/", "--exclude", "shop?"], 1, ""),
        (&["/(?i)^WEB\\.HITS$/"], 0, "web web.hits"),
    ];
    for (at, (arguments, code, expected)) in cases.iter().enumerate() {
        let name = format!("part{at}");
        let ended = pair.dump(&[&["-o", &name, "--no-users"][..], *arguments].concat());
        if *code == 1 {
            ended.exits(1).says(&["/HITS/", "no such"]);
            continue;
        }
        ended.exits(0);
        let ended = pair.load(&[&name, "--no-users"]).exits(*code);
        assert_eq!(*code == 3, ended.err.contains("not loaded: view `web`.`v`"), "{}", ended.err);
        assert_eq!(there(&pair), *expected, "{arguments:?}");
        for schema in ["shop1", "shop2", "web", "old"] {
            pair.target().execute(&format!("DROP DATABASE IF EXISTS {schema}")).unwrap();
        }
    }
    // The same patterns select when a dump of everything is loaded, and when it is compared.
    pair.dump(&["-o", "all", "--no-users"]).exits(0);
    pair.load(&["all", "--only", "/^shop.\\.orders/", "--exclude", "*.*_tmp"]).exits(0);
    assert_eq!(there(&pair), "shop1 shop1.orders shop2 shop2.orders");
    pair.diff("all", &["--only", "/^shop.\\.orders$/"]).exits(0);
    let ended = pair.diff("all", &["--only", "/^shop/"]).exits(4);
    assert!(ended.out.contains("`shop1`.`hits`: only in all") && !ended.out.contains("web"), "{}", ended.out);
    pair.dump(&["/backup/x", "-o", "never"]).exits(2).says(&["two slashes"]);
}

#[test]
fn some_rows_no_rows_and_another_definer() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        for sql in [
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), KEY (v))",
            "CREATE TABLE d.u (id INT)",
            "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'b')",
            "INSERT INTO d.u VALUES (2), (2), (5)",
            "CREATE DEFINER = 'some'@'body' VIEW d.v AS SELECT id FROM d.t",
            "CREATE DEFINER = 'some'@'body' TRIGGER d.tr BEFORE INSERT ON d.t FOR EACH ROW SET NEW.v = 'no'",
        ] {
            source.execute(sql).unwrap();
        }
        let clear = |pair: &Pair| pair.target().execute("DROP DATABASE d").unwrap();
        pair.dump(&["d", "-o", "some", "--where", "id = 2 OR id > 4", "--definer", "root@localhost"])
            .exits(0)
            .says(&["rewritten", "`some`@`body` becomes `root`@`localhost`"]);
        pair.load(&["some"]).exits(0);
        let rows = "SELECT GROUP_CONCAT(id, v ORDER BY id), (SELECT GROUP_CONCAT(id) FROM d.u) FROM d.t";
        assert_eq!(pair.target().strings(rows).unwrap()[0], [Some("2b".into()), Some("2,2,5".into())]);
        let definers = "SELECT CONCAT(DEFINER, (SELECT DEFINER FROM information_schema.TRIGGERS \
                        WHERE TRIGGER_SCHEMA = 'd')) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'd'";
        assert_eq!(pair.target().value(definers).unwrap().as_deref(), Some("root@localhostroot@localhost"));
        // Only rows that meet the condition are compared, also on a server that has all rows.
        let ended = pair.diff_with(&pair.from, "some", &[]).exits(4);
        assert!(ended.out.contains("defined otherwise") && !ended.out.contains("rows"), "{}", ended.out);
        ended.says(&["table `d`.`u`: only rows that meet \"id = 2 OR id > 4\""]);
        pair.dump(&["d", "-o", "bad", "--where", "nothing = 1"]).exits(1).says(&["nothing"]);
        assert!(!pair.path("bad/manifest.json").exists());
        clear(&pair);
        pair.dump(&["d", "-o", "none", "--no-data"]).exits(0);
        assert!(!pair.path("none/d.t").exists());
        pair.load(&["none"]).exits(0);
        assert_eq!(pair.target().strings(rows).unwrap()[0], [None, None]);
        assert_eq!(pair.target().value(definers).unwrap().as_deref(), Some("some@bodysome@body"));
        clear(&pair);
        // Definitions only, from a dump that has rows.
        pair.load(&["some", "--no-data"]).exits(0);
        assert_eq!(pair.target().strings(rows).unwrap()[0], [None, None]);
    });
}

/// An account that may not make somebody else the definer learns that before rows are loaded.
#[test]
fn a_definer_that_may_not_be_named_is_refused_up_front() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        for sql in [
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO d.t VALUES (1, 1)",
            "CREATE TRIGGER d.tr BEFORE INSERT ON d.t FOR EACH ROW SET NEW.v = 2",
        ] {
            source.execute(sql).unwrap();
        }
        pair.dump(&["d", "-o", "d.dump"]).exits(0);
        let mut target = pair.target();
        for sql in [
            "CREATE USER small@localhost",
            "GRANT ALL ON d.* TO small@localhost",
            "GRANT ALL ON _remora.* TO small@localhost",
        ] {
            target.execute(sql).unwrap();
        }
        let load = |more: &[&str]| {
            let socket = pair.to.socket().to_str().unwrap();
            let all = ["load", "--no-defaults", "-u", "small", "-S", socket, "d.dump", "--no-users"];
            pair.run(&[&all[..], more].concat())
        };
        load(&[]).exits(10).says(&["`d`.`tr`", "administrator", "GRANT S"]);
        let made = "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('d', '_remora')";
        assert_eq!(target.value(made).unwrap().as_deref(), Some("0"));
        load(&["--definer", "me"]).exits(0);
        assert_eq!(target.value("SELECT v FROM d.t").unwrap().as_deref(), Some("1"));
    });
}

#[test]
fn tables_that_a_dump_left_out_are_no_difference() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.one (id INT PRIMARY KEY)",
        "CREATE TABLE d.two (id INT PRIMARY KEY)",
        "CREATE TABLE d.`a.b` (id INT PRIMARY KEY)",
        "CREATE DATABASE other",
        "CREATE USER somebody",
        "CREATE PROCEDURE d.p() SELECT 1",
    ] {
        source.execute(sql).unwrap();
    }
    let url = format!("unix://{}", pair.from.socket().display());
    let diff = |dump: &str| pair.run(&["diff", "--no-defaults", "-u", "root", dump, &url]);
    pair.dump(&["d", "--exclude", "d.two", "-o", "most"]).exits(0);
    pair.dump(&["d.`a.b`", "-o", "dotted"]).exits(0);
    diff("most").exits(0);
    diff("dotted").exits(0);
    // A table that the dump did not leave out is compared.
    source.execute("CREATE TABLE d.three (id INT PRIMARY KEY)").unwrap();
    let said = diff("most").exits(4).out;
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("`d`.`three`: only in"), "{said}");
    diff("dotted").exits(0);
}

/// The server's estimate of a small table is a page of 16 KiB.
#[test]
fn a_finished_table_is_reported_with_the_bytes_of_its_text() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    for sql in
        ["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (23)"]
    {
        pair.source().execute(sql).unwrap();
    }
    let parts = |ended: Ended| {
        let lines = ended.exits(0).out;
        let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines
            .filter(|line| line["message_type"] == "part")
            .map(|line| line["bytes"].as_u64())
            .collect::<Vec<_>>()
    };
    assert_eq!(parts(pair.dump(&["d", "-o", "dump", "--json"])), [Some(5)]);
    assert_eq!(parts(pair.load(&["dump", "--json"])), [Some(5)]);
    assert_eq!(parts(pair.diff("dump", &["--json"])), [Some(5)]);
}
