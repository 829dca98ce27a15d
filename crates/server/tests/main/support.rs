//! A private MariaDB for these tests. It stops when the test process ends, however it ends: a shell holds
//! the other end of a pipe from us and kills the server when the pipe closes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use server::{Environment, Overrides, Session, Target};

pub(crate) struct Server {
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
    keeper: Child,
}

/// Runs the server with the rest of the arguments, kills it at the end of standard input, cleans up.
const KEEPER: &str = r#"dir=$1; shift; "$@" 2>"$dir/error.log" </dev/null & pid=$!
trap '' INT TERM; cat >/dev/null; kill -9 $pid; wait $pid 2>/dev/null; rm -rf "$dir""#;

impl Server {
    pub(crate) fn start(options: &[String]) -> Server {
        let dir = tempfile::Builder::new().prefix("server-test-").tempdir().unwrap().keep();
        run(Command::new("cp").arg("-a").arg(template()).arg(dir.join("data")));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "keeper"]).arg(&dir).arg("mariadbd").arg("--no-defaults");
        command.arg(format!("--datadir={}", dir.join("data").display()));
        command.arg(format!("--socket={}", dir.join("sock").display()));
        command.arg(format!("--port={port}"));
        command.args(["--user=root", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=32M"]);
        command.args(["--max-allowed-packet=64M", "--innodb-flush-log-at-trx-commit=0"]).args(options);
        let keeper = command.stdin(Stdio::piped()).spawn().unwrap();
        let server = Server { dir, port, keeper };
        server.wait();
        server
    }

    /// The server writes "ready for connections" when it is; its log is watched for that.
    fn wait(&self) {
        let mut log = Command::new("tail")
            .args(["-n", "+1", "-F", "--pid", &self.keeper.id().to_string()])
            .arg(self.dir.join("error.log"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut seen = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let count = log.stdout.as_mut().unwrap().read(&mut chunk).unwrap();
            seen.extend_from_slice(&chunk[..count]);
            let text = String::from_utf8_lossy(&seen);
            if text.contains("ready for connections") && text.contains(&format!("port: {}", self.port)) {
                break;
            }
            assert!(count > 0 && !text.contains("Aborting"), "the server did not start: {text}");
        }
        log.kill().unwrap();
        log.wait().unwrap();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("sock")
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

    /// A new account without privileges, for the socket and for TCP; the same word is its password.
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

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
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

/// The server most tests share; they keep apart by schema and account.
pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["--skip-ssl".into()]))
}

/// A freshly initialised data folder, made once per installed version.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let version = Command::new("mariadbd").arg("--version").output().expect("mariadbd is not installed");
        let version: String = String::from_utf8_lossy(&version.stdout)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
            .collect();
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let ready = root.join(version.trim_end_matches('-'));
        if !ready.exists() {
            let fresh = tempfile::tempdir_in(root).unwrap().keep();
            run(Command::new("mariadb-install-db")
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--user=root"])
                .args(["--skip-test-db", &format!("--datadir={}", fresh.display())]));
            // Another process may have been faster.
            if Command::new("mv").arg("-T").arg(&fresh).arg(&ready).status().is_err() {
                assert!(ready.exists());
            }
        }
        ready
    })
}

pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// A source of a LOAD that writes `bytes` at once.
pub(crate) fn all_of(bytes: impl Into<Vec<u8>>) -> server::Source {
    let bytes = bytes.into();
    Box::new(move |wire: &mut dyn Write| wire.write_all(&bytes))
}
