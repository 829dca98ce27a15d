//! A private server with the engine, and connections to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, OptsBuilder};
use rustix::process::{Resource, Rlimit, setrlimit};
use sandbox::{Ability, Places, Product, Sandbox, Settings};

/// Bytes that the test and each server may map.
const ADDRESS_SPACE: u64 = 6 << 30;

/// A server that ends with the test.
pub(crate) struct Server(pub(crate) Sandbox);

/// Set by `cargo xtask sanitize`: the library that it built. Its runtime maps more than any limit.
const SANITIZED: &str = "REMORA_QUEUE_SANITIZED";

/// The server to test in, as `remora sandbox start` calls it; by default, the first that takes the engine.
const SERVER: &str = "REMORA_QUEUE_SERVER";

/// The server to test in.
pub(crate) fn product() -> Product {
    match std::env::var(SERVER) {
        Ok(name) => name.parse().unwrap(),
        Err(_) => Product::that_can(Ability::Queue).next().unwrap(),
    }
}

/// What `cargo xtask plugin` built for it.
pub(crate) fn library() -> PathBuf {
    if let Some(library) = std::env::var_os(SANITIZED) {
        return library.into();
    }
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let library = target.join("plugin").join(product().id()).join("ha_queue.so");
    assert!(library.is_file(), "{} is not there: cargo xtask plugin builds it", library.display());
    library
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::start_with(&[])
    }

    pub(crate) fn start_with(options: &[&str]) -> Server {
        Server::start_at(None, options)
    }

    /// A server that others may replicate, at a port of its own.
    pub(crate) fn start_source(options: &[&str]) -> Server {
        Server::start_at(Some(0), options)
    }

    fn start_at(port: Option<u16>, options: &[&str]) -> Server {
        // A limit that the server inherits, so that a runaway server does not take the machine down. Other
        // programs may raise it.
        let limit = Rlimit { current: Some(ADDRESS_SPACE), maximum: None };
        if std::env::var_os(SANITIZED).is_none() {
            setrlimit(Resource::As, limit).unwrap();
        }
        let places = Places::customary(|name| std::env::var_os(name)).unwrap();
        let installation = sandbox::find(&places, product()).unwrap();
        let mut all = vec!["--max-connections=200".to_owned()];
        all.extend(options.iter().map(|option| (*option).to_owned()));
        let settings = Settings { plugins: vec![library()], options: all, port, ..Settings::default() };
        Server::with_engine(Sandbox::start(&installation, &places, &settings).unwrap())
    }

    /// A server that has the library, with the engine installed.
    pub(crate) fn with_engine(sandbox: Sandbox) -> Server {
        let server = Server(sandbox);
        let mut client = server.connect("");
        let lines = include_str!("../../../../sql/queue.sql").lines().filter(|line| !line.starts_with("--"));
        lines.for_each(|statement| client.run(statement));
        server
    }

    /// A connection without a database.
    pub(crate) fn connect_as(&self, user: &str) -> Client {
        Client(Conn::new(self.options(user)).unwrap())
    }

    /// A connection that ends when a packet has more bytes than this.
    pub(crate) fn connect_for_small(&self, database: &str, bytes_max: usize) -> Client {
        let options = self.options("root").db_name(Some(database)).max_allowed_packet(Some(bytes_max));
        Client(Conn::new(options).unwrap())
    }

    fn options(&self, user: &str) -> OptsBuilder {
        OptsBuilder::new()
            .socket(Some(self.0.socket().to_string_lossy().into_owned()))
            .user(Some(user))
            .prefer_socket(true)
    }

    /// Two connections to a database with an empty queue `t` that has an integer `v`.
    pub(crate) fn queue(&self, database: &str) -> (Client, Client) {
        let mut one = self.connect(database);
        one.run("CREATE TABLE t (v INT NOT NULL) ENGINE=QUEUE");
        (one, self.connect(database))
    }

    /// A connection, with a database of its own if `database` is not empty.
    pub(crate) fn connect(&self, database: &str) -> Client {
        let mut client = self.connect_as("root");
        if !database.is_empty() {
            client.run(&format!("CREATE DATABASE IF NOT EXISTS `{database}`"));
            client.run(&format!("USE `{database}`"));
        }
        client
    }
}

/// A connection.
pub(crate) struct Client(Conn);

impl std::ops::Deref for Client {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.0
    }
}

impl std::ops::DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.0
    }
}

impl Client {
    /// A statement without a result.
    pub(crate) fn run(&mut self, sql: &str) {
        self.0.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub(crate) fn rows<T: FromRow>(&mut self, sql: &str) -> Vec<T> {
        self.0.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The one value of a statement, `None` when it is NULL.
    pub(crate) fn value(&mut self, sql: &str) -> Option<i64> {
        let mut rows: Vec<Option<i64>> = self.rows(sql);
        assert_eq!(rows.len(), 1, "{sql}");
        rows.remove(0)
    }

    /// The error of a statement that must fail.
    pub(crate) fn error(&mut self, sql: &str) -> String {
        // Not query_drop, which misses errors that come after the column names.
        self.0.query::<mysql::Row, _>(sql).expect_err(sql).to_string()
    }

    /// The first warning of the previous statement.
    pub(crate) fn warning(&mut self) -> String {
        let warnings: Vec<(String, u32, String)> = self.rows("SHOW WARNINGS");
        warnings.into_iter().next().expect("a warning").2
    }

    /// The values of a column of integers.
    pub(crate) fn column(&mut self, sql: &str) -> Vec<i64> {
        self.rows(sql)
    }

    /// Waits until this many sessions wait for a row.
    pub(crate) fn until_waiting(&mut self, count: usize) {
        let started = Instant::now();
        while self.waiting() != count {
            assert!(started.elapsed() < Duration::from_secs(60), "nobody waits");
        }
    }

    /// How many sessions wait for a row.
    pub(crate) fn waiting(&mut self) -> usize {
        let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting in queue_wait'";
        usize::try_from(self.value(sql).unwrap()).unwrap()
    }
}

/// Stops a server with commits that are not in their queues: it ends as in a crash, and says so.
pub(crate) fn end_as_in_a_crash(server: &mut Sandbox) -> Result<(), sandbox::Error> {
    let told = server.stop().unwrap_err().to_string();
    assert!(told.contains("The server exits now as in a crash"), "{told}");
    Ok(())
}
