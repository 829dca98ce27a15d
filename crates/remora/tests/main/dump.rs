//! Dumps and loads of real servers, compared by means other than ours: CHECKSUM TABLE, SHOW CREATE,
//! mariadb-dump.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::{Family, Product, Sandbox};
use server::Session;
use tempfile::TempDir;

use crate::support::{Ended, Running, connect, remora, start, tell, until};

#[path = "dump/account.rs"]
mod account;
#[path = "dump/copy.rs"]
mod copy;
#[path = "dump/copy_cut_over.rs"]
mod copy_cut_over;
#[path = "dump/copy_follow.rs"]
mod copy_follow;
#[path = "dump/copy_follow_ddl.rs"]
mod copy_follow_ddl;
#[path = "dump/copy_follow_ends.rs"]
mod copy_follow_ends;
#[path = "dump/copy_follow_part.rs"]
mod copy_follow_part;
#[path = "dump/copy_galera.rs"]
mod copy_galera;
#[path = "dump/copy_kill.rs"]
mod copy_kill;
#[path = "dump/copy_moves.rs"]
mod copy_moves;
#[path = "dump/copy_verify.rs"]
mod copy_verify;
#[path = "dump/damage.rs"]
mod damage;
#[path = "dump/ddl.rs"]
mod ddl;
#[path = "dump/definition.rs"]
mod definition;
#[path = "dump/every_type.rs"]
mod every_type;
#[path = "dump/follow.rs"]
mod follow;
#[path = "dump/format.rs"]
mod format;
#[path = "dump/global_variables.rs"]
mod global_variables;
#[path = "dump/hostile.rs"]
mod hostile;
#[path = "dump/in_store.rs"]
mod in_store;
#[path = "dump/interrupt.rs"]
mod interrupt;
#[path = "dump/large_rows.rs"]
mod large_rows;
#[path = "dump/mask.rs"]
mod mask;
#[path = "dump/migrate.rs"]
mod migrate;
#[path = "dump/parquet.rs"]
mod parquet;
#[path = "dump/parquet_folders.rs"]
mod parquet_folders;
#[path = "dump/physical.rs"]
mod physical;
#[path = "dump/physical_kill.rs"]
mod physical_kill;
#[path = "dump/rename.rs"]
mod rename;
#[path = "dump/replica.rs"]
mod replica;
#[path = "dump/resume.rs"]
mod resume;
#[path = "dump/round_trip.rs"]
mod round_trip;
#[path = "dump/selection.rs"]
mod selection;
#[path = "dump/snapshot.rs"]
mod snapshot;
#[path = "dump/traps_page.rs"]
mod traps_page;
#[path = "dump/unreadable.rs"]
mod unreadable;

/// A server to dump, one to load into, and a folder for dumps.
struct Pair {
    from: Sandbox,
    to: Sandbox,
    folder: TempDir,
}

/// The options of every server.
const OWN: [&str; 2] = ["--innodb-flush-log-at-trx-commit=0", "--event-scheduler=OFF"];

impl Pair {
    fn new(from: Product, to: Product, options: &[&str]) -> Pair {
        tell(from);
        tell(to);
        let options = [&OWN[..], options].concat();
        Pair {
            from: start(from, &options),
            to: start(to, &options),
            folder: tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap(),
        }
    }

    /// Loads go into a new server from now on.
    fn turn_to(&mut self, to: Product) {
        self.to = start(to, &OWN);
    }

    fn is_mariadb(&self) -> bool {
        self.from.product().family() == Family::MariaDb
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

    /// Compares a dump with the target.
    fn diff(&self, dump: &str, arguments: &[&str]) -> Ended {
        self.diff_with(&self.to, dump, arguments)
    }

    fn diff_with(&self, server: &Sandbox, dump: &str, arguments: &[&str]) -> Ended {
        let url = format!("unix://{}", server.socket().display());
        let mut command = remora(self.folder.path());
        command.args(["diff", "--no-defaults", "-u", "root", "--no-users", dump, &url]).args(arguments);
        Ended::of(&command.output().unwrap())
    }

    fn spawn(&self, server: &Sandbox, word: &str, arguments: &[&str]) -> Running {
        let mut command = self.command(server, word, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    /// Runs the program with exactly these arguments.
    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&remora(self.folder.path()).args(arguments).output().unwrap())
    }

    /// Lines in the ledger of a load; `None` when there is no ledger.
    fn chunks(&self) -> Option<u64> {
        let mut session = self.target();
        let sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_remora'";
        let ledger = session.value(sql).unwrap()?;
        // It may be gone by now.
        // Other lines say which tables are to be loaded.
        let sql = format!("SELECT COUNT(*) FROM _remora.{ledger} WHERE `table` < 4000000000");
        session.value(&sql).ok()??.parse().ok()
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

/// One server, whose dumps are loaded into it again, and a folder for them.
struct Alone {
    server: Sandbox,
    folder: TempDir,
}

impl Alone {
    fn new(options: &[&str]) -> Alone {
        Alone {
            server: start(Product::MariaDb1011, &[&OWN[..], options].concat()),
            folder: tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap(),
        }
    }

    fn run(&self, word: &str, arguments: &[&str]) -> Ended {
        let mut command = remora(self.folder.path());
        command.args([word, "--no-defaults", "-u", "root", "-S"]).arg(self.server.socket()).args(arguments);
        Ended::of(&command.output().unwrap())
    }

    /// Compares a dump with the server.
    fn diff(&self, dump: &str, arguments: &[&str]) -> Ended {
        let url = format!("unix://{}", self.server.socket().display());
        let mut command = remora(self.folder.path());
        command.args(["diff", "--no-defaults", "-u", "root", dump, &url]).args(arguments);
        Ended::of(&command.output().unwrap())
    }

    fn session(&self) -> Session {
        connect(self.server.socket())
    }

    #[track_caller]
    fn sql(&self, statements: &[&str]) {
        let mut session = self.session();
        for sql in statements {
            session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    /// The first value of a query; nothing for NULL.
    #[track_caller]
    fn value(&self, sql: &str) -> String {
        self.session().value(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Runs a file of statements with the server's own client.
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

/// All of a database as the server itself describes it: checksums of tables, and every SHOW CREATE.
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
                // The transaction numbers of rows differ between servers.
                if checksums && table != "numbered" {
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

fn assert_equal(pair: &Pair, schema: &str) {
    let before = described(&mut pair.source(), schema, true);
    assert_eq!(described(&mut pair.target(), schema, true), before);
}

/// The statements of a case.
fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump").join(name).join("schema.sql")
}

/// A changed manifest with a new, matching hash.
fn seal(manifest: &str) -> String {
    let before = manifest.rsplit_once(",\n  \"blake3\": \"").unwrap().0;
    format!("{before},\n  \"blake3\": \"{}\"\n}}", blake3::hash(before.as_bytes()).to_hex())
}

/// Ends the writers in any case: a failed assertion would otherwise wait for them.
struct StopsWriters<'a>(&'a AtomicBool);

impl Drop for StopsWriters<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A dump that stops in the middle of a table until it is released: the condition on rows beyond a certain
/// one waits for a lock.
struct Gate {
    holder: Session,
}

/// Makes database d with table t of 2 to the power of `doublings` rows, which is read in several chunks.
fn fill(session: &mut Session, doublings: u32) {
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v CHAR(200) NOT NULL DEFAULT 'x', KEY (v)) DEFAULT CHARSET latin1",
        "INSERT INTO d.t (id) VALUES (1)",
    ] {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for doubling in 0..doublings {
        session.execute(&format!("INSERT INTO d.t (id) SELECT id + {} FROM d.t", 1 << doubling)).unwrap();
    }
    session.strings("ANALYZE TABLE d.t").unwrap();
}

impl Gate {
    /// The name of the lock.
    const NAME: &str = "remora_test_gate";

    /// Makes database d with table t, which is dumped in several chunks, and closes the gate behind the first
    /// ones. The table is the largest, so that it comes before all others.
    fn close(pair: &Pair) -> Gate {
        let mut gate = Gate { holder: pair.source() };
        fill(&mut gate.holder, 12);
        gate.shut();
        gate
    }

    /// Runs statements in the session that holds the lock.
    fn run(&mut self, statements: &[&str]) {
        for sql in statements {
            self.holder.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    fn shut(&mut self) {
        assert!(self.holder.lock(Gate::NAME, 100).unwrap());
    }

    /// The condition on rows that waits for the lock.
    fn condition() -> String {
        // Not a constant, which MySQL would lock before the first row.
        let lock = format!("CONCAT('{}', LEFT(id, 0))", Gate::NAME);
        format!("id <= 1500 OR (GET_LOCK({lock}, 300) = 1 AND RELEASE_LOCK({lock}) = 1)")
    }

    /// Starts a dump of all of d that comes to a stop in t.
    fn dump(&self, pair: &Pair, name: &str, arguments: &[&str]) -> Running {
        let condition = Gate::condition();
        let all = ["d", "-o", name, "-j", "1", "--chunk", "32K", "--where", &condition];
        pair.spawn(&pair.from, "dump", &[&all[..], arguments].concat())
    }

    /// Starts a dump of all of d, and waits until it stops at the gate.
    fn reached_by(&mut self, pair: &Pair, name: &str) -> Running {
        let mut dump = self.dump(pair, name, &[]);
        self.until_reached(&mut dump);
        dump
    }

    /// Waits until the dump stops at the gate.
    fn until_reached(&mut self, dump: &mut Running) {
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
        until("a dump before the gate", || {
            dump.must_run();
            self.holder.value(waits).unwrap().as_deref() == Some("1")
        });
    }

    fn open(&mut self) {
        self.holder.execute(&format!("DO RELEASE_LOCK('{}')", Gate::NAME)).unwrap();
    }
}
