//! `remora backup mysql: --way copy`: servers that are copied file by file while they work.

#[path = "hot/aria.rs"]
mod aria;
#[path = "hot/ddl.rs"]
mod ddl;
#[path = "hot/exact.rs"]
mod exact;
#[path = "hot/keys.rs"]
pub(crate) mod keys;
#[path = "hot/outside.rs"]
mod outside;
#[path = "hot/page.rs"]
mod page;
#[path = "hot/queue.rs"]
mod queue;
#[path = "hot/refuse.rs"]
mod refuse;
#[path = "hot/since.rs"]
mod since;
#[path = "hot/step.rs"]
mod step;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::server::Session;
use sandbox::{Product, Sandbox, Settings};
use tempfile::TempDir;

use crate::ssh;
use crate::support::{
    Ended, Running, connect, mariadbs, of_today, pause_writer, places, remora, tell, until,
};

/// Copies of each server of a long run.
const GENERATIONS: u32 = 5;

/// A server and a folder for its backups.
struct Scene {
    product: Product,
    server: Sandbox,
    folder: TempDir,
    plugins: Vec<PathBuf>,
    /// What servers on copies of it need.
    options: Vec<String>,
    /// The server's files, if they are in a folder of their own.
    data: Option<TempDir>,
}

/// A server, with new data if there are none.
fn server(product: Product, options: &[&str], plugins: &[PathBuf], data: Option<PathBuf>) -> Sandbox {
    let plugins = plugins.to_vec();
    started(product, options, Settings { data, plugins, ..Settings::default() })
}

fn started(product: Product, options: &[&str], settings: Settings) -> Sandbox {
    let installation = sandbox::find(&places(), product).unwrap();
    let options = [&["--innodb-buffer-pool-size=64M"], options].concat();
    let options = options.into_iter().map(str::to_owned).collect();
    Sandbox::start(&installation, &places(), &Settings { options, ..settings }).unwrap()
}

/// Options of all servers.
const OPTIONS: [&str; 3] = ["--log-bin=binlog", "--server-id=1", "--innodb-log-file-size=16M"];
/// Engines of the tables that grow by a row with each transaction.
const ENGINES: [&str; 4] = ["InnoDB", "InnoDB", "MyISAM", "Aria"];

impl Scene {
    fn new(product: Product, more: &[&str]) -> Scene {
        Scene::with(product, more, Vec::new())
    }

    /// With plugins, which are files.
    fn with(product: Product, more: &[&str], plugins: Vec<PathBuf>) -> Scene {
        tell(product);
        // On a disk: how a server's files are read there is what is tested. Other files may be in memory.
        let place = env!("CARGO_TARGET_TMPDIR");
        let disk = tempfile::Builder::new().prefix("remora-test-").tempdir_in(place).unwrap();
        let folder = Some(disk.path().join("server"));
        let settings = Settings { folder, plugins: plugins.clone(), ..Settings::default() };
        let server = started(product, &[&OPTIONS, more].concat(), settings);
        Scene { data: Some(disk), ..Scene::of(product, server, plugins) }
    }

    /// With a server that has started.
    fn of(product: Product, server: Sandbox, plugins: Vec<PathBuf>) -> Scene {
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        let mut session = connect(server.socket());
        session.execute("CREATE DATABASE app").unwrap();
        for (number, engine) in ENGINES.iter().enumerate() {
            let columns = "(id INT PRIMARY KEY, pad VARCHAR(2000) NOT NULL)";
            session.execute(&format!("CREATE TABLE app.w{number} {columns} ENGINE={engine}")).unwrap();
        }
        Scene { product, server, folder, plugins, options: Vec::new(), data: None }
    }

    /// Rows that make the copy take a while.
    fn fill(&self, rows: u32) {
        let mut session = connect(self.server.socket());
        session.execute("CREATE TABLE app.big (id INT PRIMARY KEY, pad VARCHAR(255) NOT NULL)").unwrap();
        let rows = format!("SELECT seq, REPEAT(MD5(seq), 7) FROM seq_1_to_{rows}");
        session.execute("USE app").unwrap();
        session.execute(&format!("INSERT INTO big {rows}")).unwrap();
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let socket = self.server.socket().to_str().unwrap();
        let line = ["backup", "mysql:", "--socket", socket, "--no-defaults", "--to", "repo"];
        let user: &[&str] = if more.iter().any(|word| word.starts_with("-u")) { &[] } else { &["-uroot"] };
        let name: &[&str] = if more.contains(&"--name") { &[] } else { &["--name", "mysql"] };
        [&line, user, name, more].concat()
    }

    fn backup(&self, more: &[&str]) -> Ended {
        self.run(&self.arguments(more))
    }

    fn begin(&self, more: &[&str]) -> Running {
        let mut command = remora(self.folder.path());
        command.args(self.arguments(more)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&remora(self.folder.path()).args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Restores the newest generation, and starts a server on it.
    fn back(&self) -> Sandbox {
        let to = self.folder.path().join("back");
        if to.exists() {
            std::fs::remove_dir_all(&to).unwrap();
        }
        self.run(&["restore", "repo", "--to", "back"]).exits(0);
        let options = self.options.iter().map(String::as_str).chain(["--innodb-log-file-size=96M"]);
        server(self.product, &options.collect::<Vec<_>>(), &self.plugins, Some(to))
    }

    /// The numbers of the last transactions in the newest generation, by domain.
    fn position(&self) -> BTreeMap<u32, u64> {
        let listed = self.run(&["list", "repo", "--json"]).exits(0).out;
        let line = listed.lines().rfind(|line| line.contains("\"gtid\"")).unwrap();
        let (_, rest) = line.split_once("\"gtid\":\"").unwrap();
        let gtid = rest.split('"').next().unwrap();
        let parts = gtid.split(',').map(|gtid| {
            let mut numbers = gtid.split('-');
            let domain = numbers.next().unwrap().parse().unwrap();
            (domain, numbers.nth(1).unwrap().parse().unwrap())
        });
        parts.collect()
    }

    /// The copy has exactly the rows that were committed at its position, and its tables are sound.
    #[track_caller]
    fn is_exact(&self) {
        self.is_exact_with(&[]);
    }

    /// The same, with options for the server that verify starts.
    #[track_caller]
    fn is_exact_with(&self, more: &[&str]) {
        let position = self.position();
        let back = self.back();
        let mut session = connect(back.socket());
        for number in 0..ENGINES.len() {
            let wanted = position.get(&domain(number)).copied().unwrap_or(0);
            let query = format!("SELECT CONCAT_WS(' ', COUNT(*), IFNULL(MAX(id), 0)) FROM app.w{number}");
            let found = session.value(&query).unwrap_or_else(|error| {
                let log = std::fs::read_to_string(back.error_log()).unwrap();
                let tail: Vec<&str> = log.lines().rev().take(60).collect();
                panic!("{error}\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"))
            });
            let found = found.unwrap();
            assert_eq!(found, format!("{wanted} {wanted}"), "table {number} at {position:?}");
        }
        sound(&mut session);
        let line = ["verify", "repo", "--boot", "--work", ".", "--server", self.product.id()];
        self.run(&[&line, more].concat()).exits(0).says(&["all sound"]);
    }
}

fn domain(number: usize) -> u32 {
    u32::try_from(number).unwrap() + 11
}

/// All tables pass CHECK TABLE.
#[track_caller]
fn sound(session: &mut Session) {
    let query = "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables \
                 WHERE table_schema = 'app' AND table_type = 'BASE TABLE'";
    for table in session.strings(query).unwrap() {
        let table = table[0].clone().unwrap();
        for row in session.strings(&format!("CHECK TABLE {table} EXTENDED")).unwrap() {
            let cells: Vec<String> = row.into_iter().map(Option::unwrap_or_default).collect();
            let (kind, text) = (&cells[2], &cells[3]);
            assert!(kind == "status" && text == "OK", "{table}: {kind}: {text}");
        }
    }
}

/// Adds rows to a table, each in a transaction whose number is the row's, until it is over.
fn write(server: &Sandbox, number: usize, over: &AtomicBool) {
    let mut session = connect(server.socket());
    session.execute(&format!("SET SESSION gtid_domain_id = {}", domain(number))).unwrap();
    let from = session.value(&format!("SELECT IFNULL(MAX(id), 0) FROM app.w{number}")).unwrap().unwrap();
    let mut id: u64 = from.parse().unwrap();
    while !over.load(Ordering::Relaxed) {
        id += 1;
        pause_writer();
        let sql = format!("INSERT INTO app.w{number} VALUES ({id}, REPEAT('{id} ', 100))");
        session.execute(&sql).unwrap();
    }
}

/// Changes definitions, until it is over. Each table has no rows or a hundred.
fn define(server: &Sandbox, over: &AtomicBool, done: &AtomicU64) {
    let mut session = connect(server.socket());
    session.execute("USE app").unwrap();
    let rows = "SELECT seq, REPEAT('x', 200) FROM seq_1_to_100";
    let columns = "(id INT PRIMARY KEY, pad VARCHAR(255)) ENGINE";
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        turn += 1;
        let engine = ["InnoDB", "MyISAM", "Aria"][turn % 3];
        for sql in [
            format!("CREATE OR REPLACE TABLE x1 {columns}={engine}"),
            format!("INSERT INTO x1 {rows}"),
            format!("CREATE OR REPLACE TABLE x2 {columns}=InnoDB PARTITION BY HASH(id) PARTITIONS 3"),
            format!("INSERT INTO x2 {rows}"),
            "RENAME TABLE x1 TO x3, x2 TO x1, x3 TO x2".to_owned(),
            "ALTER TABLE x1 ADD COLUMN more INT, ALGORITHM=COPY".to_owned(),
            "ALTER TABLE x2 ENGINE=InnoDB".to_owned(),
            "ALTER TABLE x2 ADD KEY (pad)".to_owned(),
            "CREATE OR REPLACE TABLE `odd #name-\u{e9}` LIKE x2".to_owned(),
            format!("INSERT INTO `odd #name-\u{e9}` {rows}"),
            "TRUNCATE TABLE x1".to_owned(),
            "OPTIMIZE TABLE x2".to_owned(),
            "DROP TABLE x2".to_owned(),
        ] {
            // OPTIMIZE gives rows.
            session.strings(&sql).unwrap();
            done.fetch_add(1, Ordering::Relaxed);
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Runs something while four writers and DDL are at work.
fn under_load(scene: &Scene, act: impl FnOnce(&AtomicU64)) {
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..ENGINES.len() {
            let (server, over) = (&scene.server, &over);
            scope.spawn(move || write(server, number, over));
        }
        scope.spawn(|| define(&scene.server, &over, &done));
        let stops = Stops(&over);
        until("definitions change", || done.load(Ordering::Relaxed) > 3);
        act(&done);
        drop(stops);
    });
}

/// Ends the load however a test ends.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn servers() -> Vec<Product> {
    of_today(mariadbs())
}

/// How many copies of each server are made.
fn copies() -> u32 {
    std::env::var("REMORA_HOT_COPIES").map_or(1, |text| text.parse().unwrap())
}

/// Facts: `ids_equal_position`, `aria_exact`, `myisam_exact`; `soak_20` with REMORA_HOT_COPIES=20.
#[test]
fn ids_equal_position() {
    let copies = copies();
    for product in servers() {
        // When the server flushes its log must not matter.
        let flush = match product {
            Product::MariaDb1011 => "--innodb-flush-log-at-trx-commit=2",
            Product::MariaDb114 => "--innodb-flush-log-at-trx-commit=0",
            _ => "--innodb-flush-log-at-trx-commit=1",
        };
        let mut scene = None;
        for number in (0..copies).map(|number| number % GENERATIONS + 1) {
            // The tables grow while they are copied, so that copies of them take longer and longer.
            let anew = || {
                // It keeps what is written from one copy to the next.
                let scene = Scene::new(product, &[flush, "--innodb-log-file-size=160M"]);
                scene.fill(20_000);
                scene
            };
            if number == 1 {
                scene = None;
            }
            let scene = scene.get_or_insert_with(anew);
            // What is read while the server works takes longer than anything that is done to definitions.
            under_load(scene, |_| {
                let name = format!("@{number} (");
                // Every other one reads only what the log has changed. They become so slow that the log may
                // not go back to the third one.
                let track = if number % 2 == 0 { "--track" } else { "--no-prove" };
                let known = if number == 2 { since::KNOWN } else { "" };
                let words = [&name, known, "commits waited for", "binary log position"];
                let said = scene.backup(&["--rate", "30M", track]).exits(0).says(&words).err;
                // What changes meanwhile does not look like a change that the log does not have.
                assert!(number != 2 || !said.contains("everything is read"), "{said}");
            });
            scene.is_exact();
        }
    }
}

#[test]
fn what_did_not_change_is_not_stored_again() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    scene.fill(20_000);
    // On a slow machine the log of these rows would be in both copies.
    connect(scene.server.socket()).execute("SET GLOBAL innodb_log_checkpoint_now = 1").unwrap();
    let first = scene.backup(&[]).exits(0);
    assert!(first.err.contains("mysql@1 (full)"), "{}", first.err);
    connect(scene.server.socket()).execute("INSERT INTO app.w0 VALUES (1, 'x')").unwrap();
    scene.backup(&[]).exits(0).says(&["mysql@2 (changes to 1)"]);
    let bytes = |number: u32| {
        std::fs::metadata(scene.folder.path().join(format!("repo/mysql/{number:06}.blk"))).unwrap().len()
    };
    assert!(bytes(2) * 5 < bytes(1), "{} and {}", bytes(1), bytes(2));
    let back = scene.back();
    let mut session = connect(back.socket());
    assert_eq!(session.value("SELECT COUNT(*) FROM app.w0").unwrap().unwrap(), "1");
    assert_eq!(session.value("SELECT COUNT(*) FROM app.big").unwrap().unwrap(), "20000");
}

#[test]
fn kill_frees_locks_and_leaves_nothing() {
    for product in servers() {
        let scene = Scene::new(product, &[]);
        scene.fill(20_000);
        scene.backup(&[]).exits(0);
        let mut session = connect(scene.server.socket());
        session.execute("SET SESSION lock_wait_timeout = 20").unwrap();
        let mut running = scene.begin(&["--rate", "2M"]);
        until("the server knows of a backup", || {
            running.must_run();
            scene.server.data().join("ddl.log").exists()
        });
        running.kill();
        // Another backup may begin, and definitions may change.
        until("the server knows that it is over", || session.execute("BACKUP STAGE START").is_ok());
        session.execute("BACKUP STAGE END").unwrap();
        session.execute("ALTER TABLE app.w0 ADD COLUMN more INT").unwrap();
        assert_eq!(scene.run(&["list", "repo"]).exits(0).out.matches("mysql@").count(), 1);
        scene.backup(&[]).exits(0).says(&["mysql@2 (changes to 1)"]);
        scene.is_exact();
    }
}

#[test]
fn a_server_that_ends_while_it_is_copied_is_told() {
    let mut scene = Scene::new(Product::MariaDb1011, &[]);
    scene.fill(20_000);
    let mut running = scene.begin(&["--rate", "2M"]);
    until("the server knows of a backup", || {
        running.must_run();
        scene.server.data().join("ddl.log").exists()
    });
    scene.server.kill().unwrap();
    let ended = running.end();
    assert_ne!(ended.code, 0);
    ended.says(&["no backup was made"]);
    assert!(!scene.folder.path().join("repo/mysql/000001.blk").exists());
}

#[test]
fn timeout_leaves_none_and_who_blocks_is_named() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    let mut holder = connect(scene.server.socket());
    holder.execute("BACKUP STAGE START").unwrap();
    scene.backup(&["--wait", "1"]).exits(11).says(&[
        "another backup of the server",
        "--wait",
        "no backup was made",
    ]);
    holder.execute("BACKUP STAGE END").unwrap();
    // What DDL waits for: a transaction that has read the table.
    let mut reader = connect(scene.server.socket());
    reader.execute("LOCK TABLES app.w2 WRITE").unwrap();
    scene.backup(&["--wait", "1"]).exits(11).says(&["blocked by"]);
    reader.execute("UNLOCK TABLES").unwrap();
    // No generation is left, and nothing that would keep anybody from anything.
    assert!(!scene.folder.path().join("repo/mysql/000001.blk").exists());
    holder.execute("CREATE TABLE app.fresh (id INT)").unwrap();
    scene.backup(&["--wait", "5"]).exits(0).says(&["mysql@1 (full)"]);
}

#[test]
fn a_copy_is_proven_when_a_server_has_recovered_it() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    scene.backup(&[]).exits(0).says(&["mysql@1 is not proven", "verify --boot repo/mysql"]);
    let listed = |state: &str| {
        let out = scene.run(&["list", "repo"]).exits(0).out;
        assert!(out.trim_end().contains(&format!("  {state}  mysql: on ")), "{out}");
    };
    listed("never recovered");
    scene
        .run(&["restore", "repo", "--to", "first"])
        .exits(0)
        .says(&["--innodb-log-file-size=", "no server has recovered this generation yet"]);
    // It is read where it is, if that is possible; else it is restored.
    let is_root = rustix::process::geteuid().is_root();
    let lazy = is_root && std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    let how = if lazy { "has been booted: recovered in" } else { "restored and recovered in" };
    // A damaged block says nothing about the copy.
    let stored = scene.folder.path().join("repo/mysql/000001.blk");
    let whole = std::fs::read(&stored).unwrap();
    let mut damaged = whole.clone();
    let at = whole.len() / 2;
    damaged[at..at + whole.len() / 4].fill(7);
    std::fs::write(&stored, &damaged).unwrap();
    let ended = scene.run(&["verify", "repo", "--boot"]);
    assert!(ended.code == 4 && ended.err.contains("damage"), "{} {}", ended.code, ended.err);
    std::fs::write(&stored, &whole).unwrap();
    scene.run(&["verify", "repo"]).exits(0);
    listed("never recovered");
    scene.run(&["verify", "repo", "--boot"]).exits(0).says(&["all sound", how]);
    listed("proven");
    let again = scene.run(&["restore", "repo", "--to", "second"]).exits(0);
    assert!(!again.err.contains("no server has recovered"), "{}", again.err);
    scene.backup(&["--prove"]).exits(0).says(&["mysql@2 has been booted", "all sound"]);
    listed("proven");
}

#[test]
fn a_server_on_another_machine_is_copied_over_ssh() {
    let there = ssh::Server::start();
    let source = format!("mysql:{}", there.machine());
    for product in servers() {
        let scene = Scene::new(product, &["--innodb-log-file-size=96M"]);
        scene.fill(5000);
        let socket = scene.server.socket().display().to_string();
        let repository = scene.folder.path().join("repo").display().to_string();
        let line = ["backup", &source, "--socket", &socket, "--no-defaults", "-uroot", "--to", &repository];
        let line = [line.as_slice(), &["--way", "copy", "--track", "--name", "mysql"]].concat();
        for generation in 1..=copies().max(2) {
            under_load(&scene, |_| {
                let name = format!("mysql@{generation} (");
                // The second one goes back to the first; later the log may be too short.
                let known = if generation == 2 { since::KNOWN } else { "" };
                there.run(&line).exits(0).says(&[&name, "commits waited for", known]);
            });
            scene.is_exact();
        }
    }
}
