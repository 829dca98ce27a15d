//! Dumps and loads of real servers, compared by means that are not ours: CHECKSUM TABLE, SHOW CREATE, mariadb-dump.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{Product, Sandbox};
use server::Session;
use tempfile::TempDir;

use crate::support::{Ended, Running, connect, on_products, products, remora, start, tell, until};

/// A server to dump, one to load into, and a folder for dumps.
struct Pair {
    from: Sandbox,
    to: Sandbox,
    folder: TempDir,
}

impl Pair {
    fn new(from: Product, to: Product, options: &[&str]) -> Pair {
        tell(from);
        tell(to);
        let own = ["--innodb-flush-log-at-trx-commit=0", "--event-scheduler=OFF"];
        let options = [&own[..], options].concat();
        Pair {
            from: start(from, &options),
            to: start(to, &options),
            folder: tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap(),
        }
    }

    fn is_mariadb(&self) -> bool {
        self.from.product() != Product::MySql56
    }

    fn command(&self, server: &Sandbox, word: &str, arguments: &[&str]) -> Command {
        let mut command = remora(self.folder.path());
        command.args([word, "--no-defaults", "-u", "root", "-S"]).arg(server.socket()).args(arguments);
        command
    }

    fn dump(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(&self.from, "dump", arguments).output().unwrap())
    }

    fn load(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(&self.to, "load", arguments).output().unwrap())
    }

    fn spawn(&self, server: &Sandbox, word: &str, arguments: &[&str]) -> Running {
        let mut command = self.command(server, word, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn source(&self) -> Session {
        connect(self.from.socket())
    }

    fn target(&self) -> Session {
        connect(self.to.socket())
    }
}

/// Runs a file of statements as the usual client does.
fn run_sql(server: &Sandbox, schema: &str, file: &Path) {
    connect(server.socket()).execute(&format!("CREATE DATABASE `{schema}` CHARACTER SET utf8")).unwrap();
    let client = sandbox::client().unwrap();
    let ended = Command::new(client)
        .args(["--no-defaults", "-u", "root", "--default-character-set=utf8", "-S"])
        .arg(server.socket())
        .arg(schema)
        .stdin(std::fs::File::open(file).unwrap())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&ended.stderr));
}

/// All of a database as the server itself tells it: checksums of tables, and every SHOW CREATE.
fn described(session: &mut Session, schema: &str, checksums: bool) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut ask = |session: &mut Session, key: String, sql: &str| {
        let rows = session.strings(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        found.insert(key, format!("{rows:?}"));
    };
    let name = |text: &str| format!("`{schema}`.`{}`", text.replace('`', "``"));
    let tables = session
        .strings(&format!(
            "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{schema}'"
        ))
        .unwrap();
    for row in tables {
        let [Some(table), Some(kind)] = <[_; 2]>::try_from(row).unwrap() else { panic!("NULL") };
        let full = name(&table);
        match kind.as_str() {
            "VIEW" => ask(session, format!("view {table}"), &format!("SHOW CREATE VIEW {full}")),
            "SEQUENCE" => ask(session, format!("sequence {table}"), &format!("SELECT * FROM {full}")),
            kind => {
                ask(session, format!("definition {table}"), &format!("SHOW CREATE TABLE {full}"));
                if checksums {
                    ask(session, format!("checksum {table}"), &format!("CHECKSUM TABLE {full} EXTENDED"));
                }
                let all = if kind == "SYSTEM VERSIONED" { " FOR SYSTEM_TIME ALL" } else { "" };
                ask(session, format!("rows {table}"), &format!("SELECT COUNT(*) FROM {full}{all}"));
                if kind == "SYSTEM VERSIONED" && table == "hidden_times" {
                    ask(
                        session,
                        "past".to_owned(),
                        &format!("SELECT *, row_start, row_end FROM {full}{all} ORDER BY id, row_start"),
                    );
                }
            }
        }
    }
    for (kind, sql) in [
        (
            "PROCEDURE",
            "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'PROCEDURE' AND ROUTINE_SCHEMA",
        ),
        (
            "FUNCTION",
            "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'FUNCTION' AND ROUTINE_SCHEMA",
        ),
        (
            "PACKAGE BODY",
            "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'PACKAGE BODY' AND ROUTINE_SCHEMA",
        ),
        ("EVENT", "SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA"),
    ] {
        for row in session.strings(&format!("{sql} = '{schema}'")).unwrap() {
            let program = row[0].clone().unwrap();
            ask(session, format!("{kind} {program}"), &format!("SHOW CREATE {kind} {}", name(&program)));
        }
    }
    let triggers = "SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER, ACTION_STATEMENT, SQL_MODE, DEFINER, \
         CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA";
    ask(session, "triggers".to_owned(), &format!("{triggers} = '{schema}' ORDER BY 1"));
    found
}

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump");
    let mut found: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Dumps every case, loads it into another server of the same version, and compares.
fn round_trips(pair: &Pair) {
    for case in cases() {
        let name = case.file_name().unwrap().to_str().unwrap().to_owned();
        let mariadb_only = case.join("servers").exists();
        if mariadb_only && !pair.is_mariadb() {
            continue;
        }
        let arguments = std::fs::read_to_string(case.join("args")).unwrap_or_default();
        let schema = format!("case_{name}");
        run_sql(&pair.from, &schema, &case.join("schema.sql"));
        let mut line = vec![schema.as_str(), "-o", name.as_str(), "-j", "2"];
        line.extend(arguments.split_whitespace());
        pair.dump(&line).exits(0);
        pair.load(&[&name, "-j", "2"]).exits(0);
        let (before, after) =
            (described(&mut pair.source(), &schema, true), described(&mut pair.target(), &schema, true));
        for (key, value) in &before {
            assert_eq!(after.get(key), Some(value), "{name}: {key}");
        }
        assert_eq!(before.len(), after.len(), "{name}");
    }
}

#[test]
fn every_case_comes_back_equal() {
    on_products(&products(), |product| {
        round_trips(&Pair::new(product, product, &["--log-bin=log", "--server-id=1"]))
    });
}

#[test]
fn plain_cases_cross_between_servers() {
    let all = products();
    for (from, to) in
        all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to))).filter(|(from, to)| from != to)
    {
        let pair = Pair::new(from, to, &[]);
        for name in ["values", "keys", "texts"] {
            let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump").join(name);
            run_sql(&pair.from, name, &case.join("schema.sql"));
            pair.dump(&[name, "-o", name, "--chunk", "64K"]).exits(0);
            pair.load(&[name]).exits(0);
            let (before, after) =
                (described(&mut pair.source(), name, false), described(&mut pair.target(), name, false));
            for (key, value) in before.iter().filter(|(key, _)| key.starts_with("rows ")) {
                assert_eq!(after.get(key), Some(value), "{name}: {key}");
            }
        }
    }
}

/// A dump of many small chunks of one table and of several tables.
fn many_chunks(pair: &Pair) -> &'static str {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump/keys/schema.sql");
    run_sql(&pair.from, "keys", &case);
    pair.dump(&["keys", "-o", "keys.dump", "--chunk", "32K"]).exits(0);
    "keys.dump"
}

/// Starts a load and waits until some chunks are in.
fn halfway(pair: &Pair, dump: &str, chunks: u32) -> Running {
    let mut running = pair.spawn(&pair.to, "load", &[dump, "-j", "2"]);
    let mut session = pair.target();
    until("chunks in the ledger", || {
        running.must_run();
        let ledger = session
            .value("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_remora'")
            .unwrap();
        let Some(ledger) = ledger else { return false };
        let count = session.value(&format!("SELECT COUNT(*) >= {chunks} FROM _remora.{ledger}"));
        count.ok().flatten().as_deref() == Some("1")
    });
    running
}

fn assert_equal(pair: &Pair, schema: &str) {
    let before = described(&mut pair.source(), schema, true);
    assert_eq!(described(&mut pair.target(), schema, true), before);
}

#[test]
fn a_killed_load_goes_on() {
    on_products(&products(), |product| {
        let pair = Pair::new(product, product, &[]);
        let dump = many_chunks(&pair);
        halfway(&pair, dump, 3).kill();
        pair.load(&[dump]).exits(1).says(&["--resume"]);
        pair.load(&[dump, "--resume"]).exits(0);
        assert_equal(&pair, "keys");
        let left = pair
            .target()
            .value("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '_remora'");
        assert_eq!(left.unwrap().as_deref(), Some("0"));
    });
}

#[test]
fn a_load_goes_on_after_its_server_was_killed() {
    on_products(&products(), |product| {
        let mut pair = Pair::new(product, product, &["--innodb-flush-log-at-trx-commit=1"]);
        let dump = many_chunks(&pair);
        let running = halfway(&pair, dump, 3);
        pair.to.kill().unwrap();
        running.end().exits(1).says(&["--resume"]);
        pair.to.restart().unwrap();
        pair.load(&[dump, "--resume"]).exits(0);
        assert_equal(&pair, "keys");
    });
}

#[test]
fn damage_is_found_before_it_is_kept() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    source.execute("CREATE DATABASE d").unwrap();
    source.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)").unwrap();
    source.execute("INSERT INTO d.t VALUES (1, 'one'), (2, 'two')").unwrap();
    pair.dump(&["d", "-o", "good"]).exits(0);
    let file = pair.path("good/d.t/00000.tsv.zst");
    let whole = std::fs::read(&file).unwrap();
    let manifest = std::fs::read_to_string(pair.path("good/manifest.json")).unwrap();
    let fresh = || {
        let mut target = pair.target();
        target.execute("DROP DATABASE IF EXISTS d").unwrap();
        target.execute("DROP DATABASE IF EXISTS _remora").unwrap();
    };
    for at in (0..whole.len()).step_by(6) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        std::fs::write(&file, bytes).unwrap();
        pair.load(&["good"]).exits(4).says(&["00000.tsv.zst"]);
        assert_eq!(
            pair.target().value("SELECT COUNT(*) FROM d.t").unwrap().as_deref(),
            Some("0"),
            "byte {at}"
        );
        fresh();
    }
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    pair.load(&["good"]).exits(4).says(&["00000.tsv.zst", "the manifest says"]);
    std::fs::remove_file(&file).unwrap();
    pair.load(&["good"]).exits(1).says(&["00000.tsv.zst"]);
    std::fs::write(&file, &whole).unwrap();
    for (from, to) in [
        ("\"folder\": \"d.t\"", "\"folder\": \"../../../../etc\""),
        ("\"data_extension\": \"tsv.zst\"", "\"data_extension\": \"/../../passwd\""),
        ("\"version\": 1", "\"version\": 2"),
        ("\"format\": \"remora dump\"", "\"format\": \"another\""),
        ("\"rows\": 2,\n        \"hash\": \"", "\"rows\": 2,\n        \"hash\": \"x"),
        ("\"chunks\": [", "\"chunks\": [ {\"number\": 7},"),
    ] {
        assert!(manifest.contains(from), "{from}");
        std::fs::write(pair.path("good/manifest.json"), manifest.replacen(from, to, 1)).unwrap();
        pair.load(&["good"]).exits(4).says(&["manifest.json"]);
    }
    std::fs::write(pair.path("good/manifest.json"), &manifest[..manifest.len() / 2]).unwrap();
    pair.load(&["good"]).exits(4).says(&["manifest.json"]);
    std::fs::remove_file(pair.path("good/manifest.json")).unwrap();
    pair.load(&["good"]).exits(1).says(&["no manifest.json"]);
    // Another row under the same count: only reading back can tell.
    std::fs::write(pair.path("good/manifest.json"), &manifest).unwrap();
    pair.load(&["good"]).exits(0);
    let url = format!("unix://{}", pair.to.socket().display());
    let diff = |code: i32| {
        let mut command = remora(pair.folder.path());
        Ended::of(
            &command
                .args(["diff", "--no-defaults", "-u", "root", "--no-users", "good", &url])
                .output()
                .unwrap(),
        )
        .exits(code)
    };
    diff(0);
    pair.target().execute("UPDATE d.t SET v = 'too' WHERE id = 2").unwrap();
    assert!(diff(4).out.contains("`d`.`t`"));
}

/// Every transaction puts the same into two tables: whatever the moment, a snapshot has as much in one as in the other.
#[test]
fn a_dump_amid_writers_is_one_state() {
    on_products(&products(), |product| {
        for options in [&["--log-bin=log", "--server-id=1"][..], &[]] {
            one_state(&Pair::new(product, product, options));
        }
    });
}

fn one_state(pair: &Pair) {
    let mut source = pair.source();
    source.execute("CREATE DATABASE w").unwrap();
    for table in ["a", "b"] {
        source
            .execute(&format!(
                "CREATE TABLE w.{table} (id INT AUTO_INCREMENT PRIMARY KEY, v INT, pad CHAR(200) DEFAULT 'x')"
            ))
            .unwrap();
        // Numbers without gaps: each transaction below must hit a row of both tables.
        source.execute(&format!("INSERT INTO w.{table} (id, v) VALUES (1, 0)")).unwrap();
        for doubling in 0..12 {
            let shift = 1 << doubling;
            source
                .execute(&format!("INSERT INTO w.{table} (id, v) SELECT id + {shift}, 0 FROM w.{table}"))
                .unwrap();
        }
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let written = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2_u32 {
            let (stop, written, mut session) = (&stop, &written, pair.source());
            scope.spawn(move || {
                let mut at = writer;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    at = (at.wrapping_mul(1_103_515_245).wrapping_add(12_345)) % 4000;
                    for sql in [
                        "START TRANSACTION".to_owned(),
                        format!("UPDATE w.a SET v = v + 1 WHERE id = {}", at + 1),
                        format!("UPDATE w.b SET v = v + 1 WHERE id = {}", 4000 - at),
                        "COMMIT".to_owned(),
                    ] {
                        // Two writers may well deadlock; then neither half is kept.
                        if session.execute(&sql).is_err() {
                            session.execute("ROLLBACK").unwrap();
                            break;
                        }
                    }
                    written.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
        let _stop = StopsWriters(&stop);
        for round in 0..3 {
            let before = written.load(std::sync::atomic::Ordering::Relaxed);
            until("somebody writes", || written.load(std::sync::atomic::Ordering::Relaxed) > before + 50);
            let name = format!("amid{round}");
            let ended = pair.dump(&["w", "-o", &name, "-j", "4", "--chunk", "32K"]).exits(0);
            let mut target = pair.target();
            target.execute("DROP DATABASE IF EXISTS w").unwrap();
            pair.load(&[&name]).exits(0);
            let sums = target.rows("SELECT (SELECT SUM(v) FROM w.a), (SELECT SUM(v) FROM w.b)").unwrap();
            assert_eq!(sums[0][0], sums[0][1], "{}", ended.err);
        }
    });
}

/// Ends the writers in any case: a failed assertion waits for them.
struct StopsWriters<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for StopsWriters<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn formats_and_codecs_make_the_same_rows() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let case =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump").join(name).join("schema.sql");
    for name in ["values", "texts"] {
        run_sql(&pair.from, name, &case(name));
        for (at, (format, codec)) in [
            ("tsv", "none"),
            ("tsv", "lz4"),
            ("tsv", "gzip"),
            ("csv", "none"),
            ("csv", "zstd:3"),
            ("sql", "none"),
            ("sql", "gzip:1"),
        ]
        .into_iter()
        .enumerate()
        {
            let dump = format!("{name}{at}");
            pair.dump(&[name, "-o", &dump, "--format", format, "--compress", codec]).exits(0);
            pair.target().execute(&format!("DROP DATABASE IF EXISTS `{name}`")).unwrap();
            if format == "sql" {
                pair.load(&[&dump]).exits(1).says(&["other clients"]);
                by_client(&pair, &dump);
            } else {
                pair.load(&[&dump]).exits(0);
            }
            assert_equal(&pair, name);
        }
        // The same without LOAD DATA LOCAL.
        pair.target().execute(&format!("DROP DATABASE `{name}`")).unwrap();
        pair.target().execute("SET GLOBAL local_infile = 0").unwrap();
        pair.load(&[&format!("{name}0")]).exits(0).says(&["local_infile"]);
        pair.target().execute("SET GLOBAL local_infile = 1").unwrap();
        assert_equal(&pair, name);
    }
}

/// Loads a dump in SQL as the manual says.
fn by_client(pair: &Pair, dump: &str) {
    // What the refused load had begun.
    let mut target = pair.target();
    target.execute("DROP DATABASE IF EXISTS _remora").unwrap();
    for schema in ["values", "texts"] {
        target.execute(&format!("DROP DATABASE IF EXISTS `{schema}`")).unwrap();
    }
    let line = format!(
        "set -e; cat {dump}/schema/1-tables.sql > all.sql; for f in {dump}/*/*.sql*; do case $f in */schema/*) ;; \
         *.gz) gzip -dc \"$f\" ;; *) cat \"$f\" ;; esac; done >> all.sql; cat {dump}/schema/2-programs.sql >> all.sql; \
         {} --no-defaults -u root -S '{}' < all.sql",
        sandbox::client().unwrap().display(),
        pair.to.socket().display()
    );
    let ended = Command::new("sh").args(["-c", &line]).current_dir(pair.folder.path()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_whole_server_comes_back() {
    on_products(&products(), |product| {
        let pair = Pair::new(product, product, &[]);
        let mut source = pair.source();
        let mariadb = product != Product::MySql56;
        let mut statements = vec![
            "CREATE DATABASE shop CHARACTER SET latin1",
            "CREATE TABLE shop.t (id INT PRIMARY KEY)",
            "INSERT INTO shop.t VALUES (1)",
            "CREATE USER app@localhost IDENTIFIED BY 'secret \\' word'",
            "GRANT SELECT, INSERT (id) ON shop.t TO app@localhost WITH GRANT OPTION",
            "CREATE USER 'odd name'@'10.%'",
            "GRANT PROCESS ON *.* TO 'odd name'@'10.%'",
        ];
        if mariadb {
            statements.extend([
                "CREATE ROLE reader",
                "CREATE ROLE writer",
                "GRANT SELECT ON shop.* TO reader",
                "GRANT reader TO writer",
                "GRANT INSERT ON shop.* TO writer",
                "GRANT writer TO app@localhost",
                "SET DEFAULT ROLE writer FOR app@localhost",
            ]);
        }
        statements
            .iter()
            .for_each(|sql| drop(source.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))));
        pair.dump(&["-o", "all"]).exits(0);
        let ended = pair.load(&["all"]);
        assert!(ended.code == 0, "{}", ended.err);
        let mut names = vec!["app@localhost", "'odd name'@'10.%'", "root@localhost"];
        names.extend(if mariadb { &["reader", "writer"][..] } else { &[] });
        for name in names {
            let sql = format!("SHOW GRANTS FOR {name}");
            let sorted = |mut session: Session| {
                let mut rows = session.strings(&sql).unwrap();
                rows.sort();
                rows
            };
            assert_eq!(sorted(pair.target()), sorted(pair.source()), "{name}");
        }
    });
}

#[test]
fn who_stands_in_the_way_is_named() {
    let pair = Pair::new(Product::MariaDb1011, Product::MariaDb1011, &[]);
    let mut source = pair.source();
    source.execute("CREATE DATABASE d").unwrap();
    source.execute("CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=MyISAM").unwrap();
    let mut holder = pair.source();
    holder.execute("LOCK TABLES d.t READ LOCAL").unwrap();
    let mut writer = pair.source();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(writer.execute("LOCK TABLES d.t WRITE")));
        until("a writer waits", || {
            let waits =
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%'";
            source.value(waits).unwrap().as_deref() == Some("1")
        });
        let ended = pair.dump(&["d", "-o", "blocked", "--lock-wait", "1"]);
        // First, so that the writer ends in any case.
        holder.execute("UNLOCK TABLES").unwrap();
        ended.exits(1).says(&["--lock-wait", "in the way"]);
    });
    assert!(!pair.path("blocked/manifest.json").exists());
}

#[test]
fn one_table_comes_with_what_is_its_own() {
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
    // What is there is refused before anything is changed.
    pair.load(&["all"]).exits(1).says(&["`d`.`one`", "exists"]);
    assert!(pair.target().value("SELECT 1 FROM d.two").is_err());
    pair.target().execute("DROP DATABASE d").unwrap();
    pair.load(&["all", "--definer", "root@localhost"]).exits(0).says(&["rewritten", "`some`@`body`"]);
    let definer = "SELECT DEFINER FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'd'";
    assert_eq!(pair.target().value(definer).unwrap().as_deref(), Some("root@localhost"));
    // A pattern that stands for nothing is a mistake, and so is a folder that exists.
    pair.dump(&["d.nothing", "-o", "other"]).exits(1).says(&["d.nothing"]);
    pair.dump(&["d", "-o", "all"]).exits(1).says(&["all", "there already"]);
}

#[test]
fn an_account_without_privileges_on_the_server_can_dump_what_it_reads() {
    on_products(&products(), |product| {
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
