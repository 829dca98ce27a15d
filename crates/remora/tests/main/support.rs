//! Servers to import into, and ways to run the program.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use sandbox::{Family, Installation, Places, Product, Sandbox, Settings};
use server::{Environment, Overrides, Session, Target};
use tempfile::TempDir;

pub(crate) use crate::running::Running;

/// How long anything may take. It only keeps a broken test from running for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// How long to wait between two queries, at least and at most.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_MOST: Duration = Duration::from_millis(200);

pub(crate) fn places() -> Places {
    Places::customary(|name| std::env::var_os(name)).unwrap()
}

/// The products that tests run on.
pub(crate) fn products() -> Vec<Product> {
    let here = sandbox::test_servers(&places(), |name| std::env::var_os(name))
        .unwrap_or_else(|error| panic!("{error}"));
    here.into_iter().map(|installation| installation.product).collect()
}

/// Those of some servers on which a test runs today, as [`sandbox::of_today`] says.
pub(crate) fn of_today(products: Vec<Product>) -> Vec<Product> {
    sandbox::of_today(products, |name| std::env::var_os(name))
}

/// Every `parts`-th of a test's cases, as [`sandbox::part_of_today`] says.
pub(crate) fn part_of_today<C>(cases: Vec<C>, parts: usize) -> Vec<C> {
    sandbox::part_of_today(cases, parts, |name| std::env::var_os(name))
}

/// Between two transactions of a writer that never ends by itself. At full speed it takes the processor from
/// all other tests; what it writes has to be copied and checked; and where much runs, a copy that follows it
/// never catches up, while its log fills the disk.
pub(crate) fn pause_writer() {
    std::thread::sleep(Duration::from_millis(2));
}

/// The MariaDB servers that tests run on.
pub(crate) fn mariadbs() -> Vec<Product> {
    products().into_iter().filter(|product| product.family() == Family::MariaDb).collect()
}

/// MySQL 9.7, for a test of this name; `None`, which the run names, if it is not here.
pub(crate) fn mysql97(test: &str) -> Option<Installation> {
    sandbox::named_test_server(test, Product::MySql97, &places(), |name| std::env::var_os(name)).unwrap()
}

/// The same, for a test that takes a list.
pub(crate) fn newest(test: &str) -> Vec<Product> {
    mysql97(test).into_iter().map(|found| found.product).collect()
}

/// A private server, for tests that kill it or need options.
pub(crate) fn start(product: Product, options: &[&str]) -> Sandbox {
    let installation = sandbox::find(&places(), product).unwrap();
    let options = ["--innodb-buffer-pool-size=64M"].iter().chain(options).map(ToString::to_string).collect();
    Sandbox::start(&installation, &places(), &Settings { options, ..Settings::default() }).unwrap()
}

/// The servers that tests share, each with a database of its own. They end with this process.
fn shared(product: Product) -> &'static Sandbox {
    static SERVERS: [OnceLock<Sandbox>; Product::ALL.len()] = [const { OnceLock::new() }; Product::ALL.len()];
    let at = Product::ALL.iter().position(|known| *known == product).unwrap();
    SERVERS[at].get_or_init(|| start(product, &[]))
}

/// Runs a test on every server on this machine, or on the one of today, in a database of its own.
pub(crate) fn on_every_server(test: impl Fn(&Place)) {
    on(&of_today(products()), test);
}

/// The same on the MariaDB servers, for features that MySQL 5.6 lacks.
pub(crate) fn on_mariadb(test: impl Fn(&Place)) {
    on(&of_today(mariadbs()), test);
}

/// The same on MariaDB servers that no other test has.
pub(crate) fn on_own_mariadb(test: impl Fn(&Place)) {
    on_own(&of_today(mariadbs()), test);
}

/// A test for which one server is enough: a MariaDB that no other test has.
pub(crate) fn on_one_mariadb(test: impl Fn(&Place, &Sandbox)) {
    let product = products().into_iter().find(|product| product.family() == Family::MariaDb);
    on_products(product.as_slice(), |product| {
        let server = start(product, &[]);
        test(&Place::new(&server), &server);
    });
}

/// The same on servers that no other test has, for what others would notice: settings, or files elsewhere.
pub(crate) fn on_own_servers(test: impl Fn(&Place)) {
    on_own(&of_today(products()), test);
}

fn on_own(products: &[Product], test: impl Fn(&Place)) {
    on_products(products, |product| {
        tell(product);
        let server = start(product, &[]);
        test(&Place::new(&server));
    });
}

/// Runs a test for every one of these products.
pub(crate) fn on_products(products: &[Product], test: impl Fn(Product)) {
    products.iter().for_each(|product| test(*product));
}

/// The same, on all of them at once: for tests that wait more than they work.
pub(crate) fn on_products_at_once(products: &[Product], test: impl Fn(Product) + Sync) {
    std::thread::scope(|scope| {
        products.iter().for_each(|product| drop(scope.spawn(|| test(*product))));
    });
}

fn on(products: &[Product], test: impl Fn(&Place)) {
    for product in products {
        tell(*product);
        test(&Place::new(shared(*product)));
    }
}

/// Reports that a test, or a part of it, can't run here.
pub(crate) fn skipped(name: &str, why: &str) {
    sandbox::skipped(name, why, |variable| std::env::var_os(variable));
}

/// Names the case under test; shown when the test fails.
#[expect(clippy::print_stderr, reason = "what it was belongs to a failure")]
pub(crate) fn tell(what: impl std::fmt::Display) {
    eprintln!("== {what}");
}

/// A database on a server, and a folder for files.
pub(crate) struct Place {
    pub(crate) product: Product,
    pub(crate) socket: PathBuf,
    pub(crate) schema: String,
    folder: TempDir,
}

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn of(output: &Output) -> Ended {
        crate::schema::known(&String::from_utf8_lossy(&output.stdout));
        Ended {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails unless the exit code is this one.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Ended {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        self
    }

    /// Fails unless stderr holds every one of these.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in: {}", self.err);
        }
        self
    }
}

impl Place {
    pub(crate) fn new(server: &Sandbox) -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let place = Place {
            product: server.product(),
            socket: server.socket().to_owned(),
            schema: format!("db{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            folder: tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap(),
        };
        let schema = &place.schema;
        connect(&place.socket)
            .execute(&format!("CREATE DATABASE {schema} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"))
            .unwrap();
        place
    }

    pub(crate) fn is_mariadb(&self) -> bool {
        self.product.family() == Family::MariaDb
    }

    /// A session whose default database is this one.
    pub(crate) fn session(&self) -> Session {
        let mut session = connect(&self.socket);
        session.execute(&format!("USE {}", self.schema)).unwrap();
        session
    }

    /// Runs statements.
    #[track_caller]
    pub(crate) fn sql(&self, statements: &[&str]) {
        let mut session = self.session();
        for statement in statements {
            session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    /// The rows of a query: fields joined by a bar, NULL for NULL.
    #[track_caller]
    pub(crate) fn rows(&self, query: &str) -> Vec<String> {
        let rows = self.session().strings(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let text = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
        rows.into_iter().map(|row| row.into_iter().map(text).collect::<Vec<_>>().join("|")).collect()
    }

    /// The one value of a query.
    #[track_caller]
    pub(crate) fn value(&self, query: &str) -> String {
        self.rows(query).join("\n")
    }

    #[track_caller]
    pub(crate) fn count(&self, table: &str) -> u64 {
        self.value(&format!("SELECT COUNT(*) FROM {table}")).parse().unwrap()
    }

    /// Tables that an import leaves while it is unfinished.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        self.rows(&format!(
            "SELECT table_name FROM information_schema.tables \
             WHERE table_schema = '{}' AND table_name LIKE '\\_remora%' ORDER BY 1",
            self.schema
        ))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its name.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        name.to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// `remora import ARGUMENTS`, in the folder of the files and with this database as the default one.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_at(&self.socket, arguments)
    }

    /// The same through another socket.
    fn command_at(&self, socket: &Path, arguments: &[&str]) -> Command {
        let mut command = remora(self.folder.path());
        command.arg("import").args(["--no-defaults", "-u", "root", "-S"]).arg(socket);
        command.args(["-D", &self.schema]);
        for argument in arguments {
            command.arg(argument);
        }
        command
    }

    /// Runs `remora import` to its end.
    pub(crate) fn import(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Makes an account without any rights.
    pub(crate) fn account(&self, name: &str) -> String {
        let account = format!("{name}_{}", self.schema);
        self.sql(&[&format!("CREATE USER {account}@localhost")]);
        format!("{account}@localhost")
    }

    /// Runs `remora import` as another account than root.
    pub(crate) fn import_as(&self, account: &str, arguments: &[&str]) -> Ended {
        let user = account.split('@').next().unwrap_or_default();
        let mut command = remora(self.folder.path());
        command.arg("import").args(["--no-defaults", "-u", user, "-S"]).arg(&self.socket);
        command.args(["-D", &self.schema]).args(arguments);
        Ended::of(&command.stdin(Stdio::null()).output().unwrap())
    }

    /// Starts `remora import` with a pipe to each of its streams.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Running {
        self.spawn_at(&self.socket, arguments)
    }

    /// The same through another socket.
    pub(crate) fn spawn_at(&self, socket: &Path, arguments: &[&str]) -> Running {
        let mut command = self.command_at(socket, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap())
    }

    /// Fails if the table has another number of rows, or if an import has left tables.
    #[track_caller]
    pub(crate) fn untouched(&self, table: &str, rows: u64) {
        assert_eq!(self.count(table), rows);
        assert_eq!(self.leftovers(), Vec::<String>::new());
    }

    /// Asks until the answer is yes.
    #[track_caller]
    pub(crate) fn until(&self, question: &str) {
        let mut session = self.session();
        until(question, || session.value(question).unwrap().as_deref() == Some("1"));
    }

    /// Waits until a table has more than this number of rows, uncommitted ones included.
    #[track_caller]
    pub(crate) fn until_rows(&self, table: &str, rows: u32) {
        let mut session = self.session();
        session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").unwrap();
        let query = format!("SELECT COUNT(*) > {rows} FROM {table}");
        until(&query, || session.value(&query).unwrap().as_deref() == Some("1"));
    }

    /// Waits until a session of this database waits to change the name of a table.
    #[track_caller]
    pub(crate) fn until_renaming(&self) -> String {
        // Other statements wait here too, for a moment: other tests look at all tables of the server.
        let renaming = format!(
            "FROM information_schema.processlist \
             WHERE db = '{}' AND state = 'Waiting for table metadata lock' AND info LIKE 'RENAME %'",
            self.schema
        );
        self.until(&format!("SELECT COUNT(*) > 0 {renaming}"));
        self.value(&format!("SELECT id {renaming}"))
    }

    /// Waits until the ledger shows this number of chunks.
    #[track_caller]
    pub(crate) fn until_chunks(&self, running: &mut Running, count: u64) {
        let mut session = self.session();
        until("chunks in the ledger", || {
            let ledger = session.value("SHOW TABLES LIKE '\\_remora\\_ledger\\_%'").unwrap();
            let Some(ledger) = ledger else {
                running.must_run();
                return false;
            };
            let query = format!("SELECT COUNT(*) >= {count} FROM {ledger} WHERE chunk > 0");
            running.must_run();
            // It may be gone by now.
            session.value(&query).ok().flatten().as_deref() == Some("1")
        });
    }
}

/// Asks until the answer is yes, or patience ends.
#[track_caller]
pub(crate) fn until(what: &str, mut question: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    // Nobody sends; this only leaves the processor to the processes that the test waits for.
    let (_send, never) = mpsc::channel::<()>();
    loop {
        let asked = Instant::now();
        if question() {
            return;
        }
        assert!(Instant::now() < end, "never came true: {what}");
        // Asking takes the processor from what the test waits for, too.
        never.recv_timeout((asked.elapsed() * 4).clamp(LOOK_AGAIN, LOOK_AGAIN_MOST)).ok();
    }
}

pub(crate) fn connect(socket: &Path) -> Session {
    let overrides = Overrides {
        socket: Some(socket.to_owned()),
        user: Some("root".to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    Target::resolve(&overrides, &Environment::default()).unwrap().connect().unwrap()
}

/// Runs a command with this as its standard input.
pub(crate) fn fed(command: &mut Command, input: &[u8]) -> Output {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A command that refuses its input ends before it has read it.
        scope.spawn(move || stdin.write_all(input).ok());
        child.wait_with_output().unwrap()
    })
}

/// Whether the tests run under nohup. Programs that they start inherit that, and ignore HUP.
pub(crate) fn ignores_hup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    u64::from_str_radix(ignored, 16).unwrap() & 1 != 0
}

/// Copies a program in order to run it. A separate process copies: a child started here at that moment would
/// inherit the open file, and a program that is open for writing can't be run.
pub(crate) fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// The program, without any of this machine's settings.
pub(crate) fn remora(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remora"));
    command.current_dir(folder).env_remove("MYSQL_PWD").env_remove("MYSQL_HOST");
    command
}

/// The program with these words and a store's address, and without what this machine has of both.
pub(crate) fn at_store(folder: &Path, endpoint: &str, line: &str) -> Command {
    let mut command = remora(folder);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command.args(line.split(' ')).env_remove("REMORA_KEY");
    command.env("AWS_ENDPOINT_URL", endpoint);
    command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
    command
}

/// A port that the system gives to no connection. With one that it gives, who waits for the server may be
/// connected with himself.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Parts of the tests run in processes with neighbouring numbers.
    let first = u16::try_from(std::process::id() * 97 % 20_000).unwrap();
    loop {
        let port = 10_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
