//! A private MariaDB for these tests.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sandbox::{Places, Product, Sandbox, Settings};
use server::{Environment, Overrides, Session, Target};

pub(crate) struct Server {
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
    sandbox: Sandbox,
}

impl Server {
    pub(crate) fn start(options: &[String]) -> Server {
        let places = Places::customary(|name| std::env::var_os(name)).unwrap();
        let installation = sandbox::find(&places, Product::MariaDb1011).expect("MariaDB 10.11 is needed");
        // The accounts of these tests are for localhost, and are used over TCP too.
        let ours = ["--skip-name-resolve=0", "--max-allowed-packet=64M"].map(str::to_owned);
        let options = ours.into_iter().chain(options.iter().cloned()).collect();
        let settings = Settings { options, port: Some(0), ..Settings::default() };
        let sandbox = Sandbox::start(&installation, &places, &settings).unwrap();
        Server { dir: sandbox.folder().to_owned(), port: sandbox.port().unwrap(), sandbox }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.sandbox.socket().to_owned()
    }

    pub(crate) fn by_socket(&self, user: &str) -> Overrides {
        Overrides {
            socket: Some(self.socket()),
            user: Some(user.into()),
            no_defaults: true,
            ..Overrides::default()
        }
    }

    pub(crate) fn by_tcp(&self, user: &str) -> Overrides {
        Overrides {
            host: Some("127.0.0.1".into()),
            port: Some(self.port),
            user: Some(user.into()),
            no_defaults: true,
            ..Overrides::default()
        }
    }

    pub(crate) fn root(&self) -> Session {
        open(&self.by_socket("root"))
    }

    /// A new empty schema, and its name.
    pub(crate) fn schema(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("db{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.root().execute(&format!("CREATE DATABASE {name}")).unwrap();
        name
    }

    /// A new account without privileges, for the socket and for TCP; its name is also its password.
    pub(crate) fn account(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("user{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut root = self.root();
        root.execute(&format!("CREATE USER {name}@'localhost' IDENTIFIED BY '{name}'")).unwrap();
        name
    }

    pub(crate) fn as_account(&self, name: &str) -> Overrides {
        Overrides { password: Some(name.into()), ..self.by_socket(name) }
    }
}

pub(crate) fn open(overrides: &Overrides) -> Session {
    resolve(overrides).connect().unwrap()
}

/// Asks until the answer is `expected`; the bound only keeps a broken test from running for ever.
pub(crate) fn until(session: &mut Session, question: &str, expected: &str) {
    for _ in 0..1_000_000 {
        if session.value(question).unwrap().as_deref() == Some(expected) {
            return;
        }
    }
    panic!("{question} never became {expected}");
}

pub(crate) fn resolve(overrides: &Overrides) -> Target {
    Target::resolve(overrides, &Environment::default()).unwrap()
}

/// The server that most tests share; each test has its own schema and account.
pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["--skip-ssl".into()]))
}

pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// A source for LOAD that writes `bytes` at once.
pub(crate) fn all_of(bytes: impl Into<Vec<u8>>) -> server::Source {
    let bytes = bytes.into();
    Box::new(move |wire: &mut dyn Write| wire.write_all(&bytes))
}
