//! `remora blockers` and `remora kill`: an incident with all kinds of locks, as the server has it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sandbox::{Product, Sandbox};
use serde_json::Value;
use server::Session;

use crate::support::{
    Ended, connect, mariadbs, newest, of_today, on_products, places, products, remora, skipped, start, tell,
    until,
};

/// On MariaDB who holds metadata locks is only there, and only with this instrument.
const OPTIONS: [&str; 3] = [
    "--performance-schema=ON",
    "--loose-performance-schema-instrument=wait/lock/metadata/sql/mdl=ON",
    "--server-id=7",
];

/// Sessions by name on a server of their own.
struct Incident {
    server: Sandbox,
    ids: BTreeMap<&'static str, u64>,
    /// Those who hold locks and run nothing.
    idle: Vec<Session>,
    watch: Session,
}

impl Incident {
    fn new(product: Product) -> Incident {
        Incident::with(product, &OPTIONS)
    }

    fn with(product: Product, options: &[&str]) -> Incident {
        let server = start(product, options);
        let watch = connect(server.socket());
        Incident { server, ids: BTreeMap::new(), idle: Vec::new(), watch }
    }

    fn session(&self) -> Session {
        let mut session = connect(self.server.socket());
        session.execute("SET innodb_lock_wait_timeout = 600, lock_wait_timeout = 600").unwrap();
        session
    }

    /// A session that runs these statements and then nothing more.
    #[track_caller]
    fn holds(&mut self, name: &'static str, statements: &[&str]) {
        let mut session = self.session();
        for statement in statements {
            session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        self.ids.insert(name, session.connection_id().into());
        self.idle.push(session);
    }

    /// A session whose last statement does not end; returns when the server runs it and it waits.
    #[track_caller]
    fn waits(&mut self, name: &'static str, statements: &[&str]) {
        let mut session = self.session();
        let (last, first) = statements.split_last().unwrap();
        for statement in first {
            session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let id = session.connection_id();
        self.ids.insert(name, id.into());
        let last = (*last).to_owned();
        // It ends with an error when its connection or the server is ended. The session stays until then.
        std::thread::spawn(move || {
            session.execute(&last).ok();
            loop {
                std::thread::park();
            }
        });
        let question = format!(
            "SELECT EXISTS (SELECT 1 FROM information_schema.processlist WHERE id = {id} AND \
             (state LIKE 'Waiting for %' OR state LIKE 'User %'))"
        );
        // innodb_trx shows an old copy to whoever asks again within 0.1 s; this does not.
        let thread = format!("thread id {id},");
        let is_waiting =
            |transaction: &str| transaction.contains("LOCK WAIT") && transaction.contains(&thread);
        until(&question, || {
            let status =
                self.watch.strings("SHOW ENGINE INNODB STATUS").unwrap().remove(0).remove(2).unwrap();
            status.split("---TRANSACTION").skip(1).any(is_waiting)
                || self.watch.value(&question).unwrap().as_deref() == Some("1")
        });
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        run_as("root", self.server.socket(), arguments)
    }

    fn id(&self, name: &str) -> String {
        self.ids[name].to_string()
    }

    /// The lines of `blockers --json`.
    #[track_caller]
    fn seen(&self) -> Vec<Value> {
        let ended = self.run(&["blockers", "--json"]).exits(3);
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn name(&self, id: &Value) -> String {
        let found = self.ids.iter().find(|(_, known)| *id == **known);
        found.map_or_else(|| "XA".to_owned(), |(name, _)| (*name).to_owned())
    }

    /// The edges, in order: `B>A row`; a question mark for those that are only probable.
    fn edges(&self) -> Vec<String> {
        let lines = self.seen();
        let mut edges: Vec<String> = Vec::new();
        for line in lines.iter().filter(|line| line["message_type"] == "connection") {
            for wait in line["waits_for"].as_array().unwrap() {
                let [waiter, holder] = [&line["connection"], &wait["connection"]].map(|id| self.name(id));
                let mark = if wait["certain"] == true { "" } else { "?" };
                edges.push(format!("{waiter}>{holder} {}{mark}", wait["kind"].as_str().unwrap()));
            }
        }
        edges.sort();
        edges
    }

    /// Waits until these are the edges.
    #[track_caller]
    fn until_edges(&self, expected: &[&str]) {
        let mut seen = Vec::new();
        for _ in 0..400 {
            seen = self.edges();
            if seen == expected {
                return;
            }
            // InnoDB renews its copy of locks if nobody has read it for 0.1 s.
            std::thread::park_timeout(Duration::from_millis(150));
        }
        assert_eq!(seen, expected);
    }
}

fn run_as(user: &str, socket: &Path, arguments: &[&str]) -> Ended {
    let mut command = remora(&std::env::temp_dir());
    command.args(arguments).args(["--no-defaults", "-u", user, "-S"]).arg(socket);
    Ended::of(&command.output().unwrap())
}

/// MySQL 5.6 knows no owners of metadata locks, and forgets a prepared transaction with its client.
fn is_old(product: Product) -> bool {
    product.id() == "mysql-5.6"
}

fn tables(incident: &mut Incident) {
    incident.watch.execute("CREATE DATABASE d").unwrap();
    for (table, engine) in
        [("t1", "InnoDB"), ("t2", "InnoDB"), ("t3", "InnoDB"), ("t7", "InnoDB"), ("t9", "MyISAM")]
    {
        let create = format!("CREATE TABLE d.{table} (id INT PRIMARY KEY, a INT) ENGINE={engine}");
        incident.watch.execute(&create).unwrap();
        incident.watch.execute(&format!("INSERT INTO d.{table} VALUES (1, 1), (5, 5)")).unwrap();
    }
}

#[test]
fn all_kinds_of_locks_are_one_tree() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut incident = Incident::new(product);
        tables(&mut incident);
        incident.holds("A", &["BEGIN", "UPDATE d.t1 SET a = 2 WHERE id = 1", "SELECT 'the last of A'"]);
        let update = "UPDATE d.t1 SET a = 3 WHERE id = 1";
        incident.waits("B", &["BEGIN", "UPDATE d.t1 SET a = 3 WHERE id = 5", update]);
        incident.waits("C", &["UPDATE d.t1 SET a = 4 WHERE id = 5"]);
        incident.waits("D", &["DELETE FROM d.t1 WHERE id = 1"]);
        incident.holds("E", &["BEGIN", "SELECT * FROM d.t2"]);
        incident.waits("F", &["ALTER TABLE d.t2 ADD c INT"]);
        incident.waits("G", &["SELECT * FROM d.t2"]);
        incident.holds("H", &["LOCK TABLES d.t3 WRITE"]);
        incident.waits("I", &["SELECT * FROM d.t3"]);
        incident.holds("J", &["SELECT GET_LOCK('nightly', 0)"]);
        incident.waits("K", &["SELECT GET_LOCK('nightly', 600)"]);
        incident.waits("O", &["SELECT SLEEP(600) FROM d.t9 LIMIT 1"]);
        incident.waits("P", &["UPDATE d.t9 SET a = 2"]);
        let rows = ["B>A row", "C>B row", "D>A row"];
        if is_old(product) {
            incident.until_edges(&rows);
            let summary = incident.seen().pop().unwrap();
            assert_eq!((&summary["waiting"], &summary["blocking"]), (&8.into(), &1.into()));
            incident.run(&["blockers"]).exits(3).says(&["from MySQL 5.7 on"]);
            return;
        }
        // The client of X is gone.
        let mut gone = incident.session();
        for sql in ["XA START 'x'", "UPDATE d.t7 SET a = 9 WHERE id = 1", "XA END 'x'", "XA PREPARE 'x'"] {
            gone.execute(sql).unwrap();
        }
        drop(gone);
        incident.waits("N", &["UPDATE d.t7 SET a = 8 WHERE id = 1"]);
        let others = ["F>E metadata", "G>F metadata", "I>H metadata", "K>J user", "N>XA row", "P>O table"];
        incident.until_edges(&[&rows[..], &others].concat());

        let shown = incident.run(&["blockers"]).exits(3);
        let first = shown.out.lines().next().unwrap();
        assert!(first.starts_with(&incident.id("A")) && first.ends_with("3 wait for it"), "{}", shown.out);
        assert!(shown.out.contains("XA ROLLBACK 'x' ends it"), "{}", shown.out);
        // Those who can be ended are shown; N waits for somebody without a connection.
        let kill = incident.run(&["kill", "--blocking"]).exits(2);
        kill.says(&["1 waits for XA transaction ", "XA ROLLBACK 'x' ends it", "nothing was ended: --yes"]);
        assert!(shown.out.lines().all(|line| line.len() <= 80), "{}", shown.out);
        let mysql = product == Product::MySql97;
        assert_eq!(shown.out.contains("last statement: SELECT 'the last of A'"), mysql, "{}", shown.out);
    });
}

#[test]
fn an_account_without_process_is_not_told_that_nobody_waits() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut incident = Incident::new(product);
        let mut root = incident.session();
        root.execute("CREATE USER blind@localhost").unwrap();
        incident.run(&["blockers"]).exits(0).says(&["nobody waits for a lock"]);
        let blind = run_as("blind", incident.server.socket(), &["blockers"]).exits(3);
        blind.says(&["without PROCESS", "nobody waits among those that this account may see"]);
        // Nor is it told that all is done.
        let kill = run_as("blind", incident.server.socket(), &["kill", "--blocking", "--yes"]).exits(3);
        kill.says(&["without PROCESS", "nobody waits among those", "ended 0 connections; left out 0"]);
        let data = run_as("blind", incident.server.socket(), &["blockers", "--json"]).exits(3);
        assert!(data.out.contains("\"complete\":false"), "{}", data.out);
        if !mariadbs().contains(&product) {
            return;
        }
        // To this one the server refuses a table of MySQL, which it does not have.
        root.execute("CREATE USER seer@localhost").unwrap();
        root.execute("GRANT PROCESS ON *.* TO seer@localhost").unwrap();
        tables(&mut incident);
        incident.holds("A", &["BEGIN", "UPDATE d.t1 SET a = 2 WHERE id = 1"]);
        incident.waits("B", &["UPDATE d.t1 SET a = 3 WHERE id = 1"]);
        incident.until_edges(&["B>A row"]);
        let shown = run_as("seer", incident.server.socket(), &["blockers"]);
        assert!(shown.out.starts_with(&incident.id("A")), "{}{}", shown.out, shown.err);
    });
}

/// FLUSH TABLES of MySQL waits for statements that use a table, and all that come after wait for it. No table
/// of the server says for whom.
#[test]
fn a_flush_that_waits_for_a_statement_is_named() {
    on_products(&newest("a_flush_that_waits_for_a_statement_is_named"), |product| {
        let mut incident = Incident::new(product);
        tables(&mut incident);
        incident.waits("A", &["SELECT SLEEP(600) FROM d.t1 LIMIT 1"]);
        incident.waits("B", &["FLUSH TABLES d.t1"]);
        incident.waits("C", &["SELECT * FROM d.t1"]);
        incident.until_edges(&["B>A flush?", "C>A flush?"]);
    });
}

/// MariaDB without performance_schema, as it is by default.
#[test]
fn the_plugin_tells_who_probably_waits_for_whom() {
    on_products(&of_today(mariadbs()), |product| {
        tell(product);
        let plugins = places().cache.join("plugins").join(product.id());
        if !plugins.join("metadata_lock_info.so").is_file() {
            skipped("the_plugin_tells_who_probably_waits_for_whom", &format!("{product} is here without it"));
            return;
        }
        let mut incident = Incident::with(product, &[&format!("--plugin-dir={}", plugins.display())]);
        tables(&mut incident);
        incident.holds("A", &["BEGIN", "SELECT * FROM d.t2"]);
        incident.waits("B", &["ALTER TABLE d.t2 ADD c INT"]);
        incident.run(&["blockers"]).exits(3).says(&["INSTALL SONAME 'metadata_lock_info'"]);
        incident.watch.execute("INSTALL SONAME 'metadata_lock_info'").unwrap();
        incident.until_edges(&["B>A metadata?"]);
    });
}

/// MySQL protects accounts with SYSTEM_USER from those without.
#[test]
fn an_account_that_may_not_be_ended_is_named() {
    on_products(&newest("an_account_that_may_not_be_ended_is_named"), |product| {
        let mut incident = Incident::new(product);
        for sql in [
            "CREATE USER weak@localhost",
            "GRANT PROCESS, CONNECTION_ADMIN ON *.* TO weak@localhost",
            "GRANT SELECT ON performance_schema.* TO weak@localhost",
        ] {
            incident.watch.execute(sql).unwrap();
        }
        incident.holds("A", &["SELECT 1"]);
        let a = incident.id("A");
        let ended = run_as("weak", incident.server.socket(), &["kill", &a, "--yes"]).exits(1);
        ended.says(&["SYSTEM_USER"]);
        assert_eq!(incident.idle[0].value("SELECT 2").unwrap().as_deref(), Some("2"));
    });
}

/// FLUSH TABLES WITH READ LOCK; BACKUP STAGE of MariaDB, and MySQL's LOCK INSTANCE FOR BACKUP.
#[test]
fn locks_of_the_whole_server_are_named() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut incident = Incident::new(product);
        tables(&mut incident);
        incident.holds("A", &["FLUSH TABLES WITH READ LOCK"]);
        incident.waits("B", &["UPDATE d.t1 SET a = 2 WHERE id = 1"]);
        if is_old(product) {
            assert_eq!(incident.seen().pop().unwrap()["waiting"], 1);
            return;
        }
        incident.until_edges(&["B>A server"]);
        incident.idle.clear();
        let locks = match product {
            Product::MySql97 => vec!["LOCK INSTANCE FOR BACKUP"],
            _ => vec!["BACKUP STAGE START", "BACKUP STAGE BLOCK_DDL", "BACKUP STAGE BLOCK_COMMIT"],
        };
        incident.holds("C", &locks);
        incident.waits("D", &["CREATE TABLE d.new (id INT)"]);
        incident.until_edges(&["D>C server"]);
    });
}

#[test]
fn kill_shows_first_and_waits_until_the_rollback_is_over() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut incident = Incident::new(product);
        tables(&mut incident);
        let watch = &mut incident.watch;
        watch.execute("INSERT INTO d.t1 SELECT 10, 1").unwrap();
        for _ in 0..12 {
            watch.execute("INSERT INTO d.t1 SELECT id + (SELECT MAX(id) FROM d.t1), 1 FROM d.t1").unwrap();
        }
        incident.holds("A", &["BEGIN", "UPDATE d.t1 SET a = a + 1"]);
        incident.waits("B", &["UPDATE d.t1 SET a = 7 WHERE id = 1"]);
        incident.until_edges(&["B>A row"]);
        let a = incident.id("A");
        let hint = format!("remora kill {a} -S {}", incident.server.socket().display());
        incident.run(&["blockers"]).exits(3).says(&[&hint]);
        // The statement of somebody who runs none.
        let sleeper = incident.run(&["kill", &a, "--query", "--yes"]).exits(1);
        sleeper.says(&["KILL QUERY would free nothing"]);
        // Nothing is ended without --yes.
        let shown = incident.run(&["kill", "--blocking"]).exits(2);
        assert!(shown.out.starts_with(&a) && shown.out.contains("12288 rows changed"), "{}", shown.out);
        shown.says(&["nothing was ended: --yes ends 1 connection"]);
        // The two of the incident and the one that watches, not the one that asks. Others may be ending.
        until("three connections", || {
            let all = incident.run(&["kill", "--of-user", "root"]).exits(2);
            all.err.contains("nothing was ended: --yes ends 3 connections")
        });
        incident.run(&["kill", &a, "--of-user", "app"]).exits(0).says(&["ended 0 connections"]);
        incident.run(&["kill", "--idle-transactions", "1h", "--yes"]).exits(0).says(&["ended 0"]);
        incident.run(&["kill", "4000000000", "--yes"]).exits(1).says(&["there is no connection 4000000000"]);
        let failed = incident.run(&["kill", "4000000000", "--yes", "--json"]).exits(1);
        let last = failed.out.lines().last().unwrap();
        assert!(last.contains("\"message_type\":\"error\"") && last.contains("\"exit_code\":1"), "{last}");
        incident.until_edges(&["B>A row"]);
        // When it returns, all is rolled back.
        incident.run(&["kill", "--blocking", "--yes"]).exits(0).says(&["ended 1 connection; left out 0"]);
        let left =
            format!("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {a}");
        assert_eq!(incident.watch.value(&left).unwrap().unwrap(), "0");
        let question = "SELECT a = 7 FROM d.t1 WHERE id = 1";
        until(question, || incident.watch.value(question).unwrap().as_deref() == Some("1"));
        let changed = "SELECT COUNT(*) FROM d.t1 WHERE a = 2";
        assert_eq!(incident.watch.value(changed).unwrap().unwrap(), "0");
    });
}

#[test]
fn kill_query_ends_a_waiter_and_leaves_its_transaction() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut incident = Incident::new(product);
        tables(&mut incident);
        incident.holds("A", &["BEGIN", "UPDATE d.t1 SET a = 2 WHERE id = 1"]);
        let update = "UPDATE d.t1 SET a = 3 WHERE id = 1";
        incident.waits("B", &["BEGIN", "UPDATE d.t1 SET a = 3 WHERE id = 5", update]);
        incident.until_edges(&["B>A row"]);
        let b = incident.id("B");
        let ended = incident.run(&["kill", &b, "--query", "--yes"]).exits(0);
        assert!(ended.out.contains("its transaction and its locks stay"), "{}", ended.out);
        ended.says(&["ended 1 statement; left out 0"]);
        incident.run(&["blockers"]).exits(0);
        let stays = format!(
            "SELECT trx_rows_modified FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {b}"
        );
        assert_eq!(incident.watch.value(&stays).unwrap().as_deref(), Some("1"));
    });
}

/// A circle of a row and a name: no engine sees the whole of it.
#[test]
fn who_waits_in_a_circle_or_for_an_xa_transaction_is_named_and_nobody_is_ended() {
    on_products(&newest("who_waits_in_a_circle"), |product| {
        let mut incident = Incident::new(product);
        tables(&mut incident);
        let mut gone = incident.session();
        for sql in ["XA START 'x'", "UPDATE d.t7 SET a = 9 WHERE id = 1", "XA END 'x'", "XA PREPARE 'x'"] {
            gone.execute(sql).unwrap();
        }
        drop(gone);
        incident.waits("N", &["UPDATE d.t7 SET a = 8 WHERE id = 1"]);
        incident.holds("B", &["SELECT GET_LOCK('nightly', 0)"]);
        let nightly = "SELECT GET_LOCK('nightly', 600)";
        incident.waits("A", &["BEGIN", "UPDATE d.t1 SET a = 2 WHERE id = 1", nightly]);
        let mut last = incident.idle.pop().unwrap();
        std::thread::spawn(move || {
            last.execute("UPDATE d.t1 SET a = 3 WHERE id = 1").ok();
            loop {
                std::thread::park();
            }
        });
        incident.until_edges(&["A>B user", "B>A row", "N>XA row"]);
        let ended = incident.run(&["kill", "--blocking", "--yes"]).exits(1);
        let xa = ["1 waits for XA transaction", "XA ROLLBACK 'x' ends it"];
        ended.says(&xa).says(&["3 wait for locks", "wait for each other in a circle", "left out 2"]);
    });
}

#[test]
fn kill_leaves_replication_alone() {
    on_products(&of_today(products()), |product| {
        tell(product);
        let mut incident = Incident::new(product);
        let words = if product == Product::MySql97 {
            [
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_USER='x'",
                "START REPLICA",
            ]
        } else {
            ["CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x'", "START SLAVE"]
        };
        for sql in words {
            incident.watch.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let thread = "SELECT MAX(id) FROM information_schema.processlist WHERE user = 'system user'";
        until(thread, || incident.watch.value(thread).unwrap().is_some());
        let id = incident.watch.value(thread).unwrap().unwrap();
        incident.run(&["kill", &id, "--yes"]).exits(1).says(&["belongs to replication"]);
        let shown = incident.run(&["kill", &id, "--replication"]).exits(2);
        shown.says(&["--yes ends 1 connection"]);
    });
}
