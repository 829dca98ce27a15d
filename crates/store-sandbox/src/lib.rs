//! An object store that others wrote, in a folder of this machine: for tests, and for measuring.
#![expect(
    clippy::disallowed_methods,
    reason = "what is written here is thrown away, and a store is waited for"
)]

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The key that may do everything.
pub const ACCESS_KEY: &str = "identity";
/// The secret of all keys. MinIO wants eight characters.
pub const SECRET_KEY: &str = "long-secret";
/// The key of SeaweedFS that may only read and list.
pub const READER: &str = "reader";

const STARTS_IN: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SeaweedFS, a program of its package on PyPI.
    SeaweedFs,
    /// MinIO, which Go builds.
    MinIo,
    /// moto, in Python: it keeps all in memory, and asks for no key.
    Moto,
}

impl Kind {
    /// All.
    pub const ALL: [Kind; 3] = [Kind::SeaweedFs, Kind::MinIo, Kind::Moto];

    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::SeaweedFs => "SeaweedFS",
            Kind::MinIo => "MinIO",
            Kind::Moto => "moto",
        }
    }

    /// The path of its program in the cache, where `cargo xtask setup --all-servers` puts it.
    #[must_use]
    pub fn program(self, cache: &Path) -> PathBuf {
        cache.join(match self {
            Kind::SeaweedFs => "store/weed",
            Kind::MinIo => "store/minio",
            Kind::Moto => "store/moto/bin/moto_server",
        })
    }

    /// On which of some stores a test of this name runs: on the first one, and on all of them before a
    /// release. The run names those that are not here.
    pub fn for_test(name: &str, of: &[Kind], cache: &Path) -> Vec<Kind> {
        let some = if sandbox::is_everywhere() { of } else { of.get(..1).unwrap_or_default() };
        let mut here = Vec::new();
        for kind in some {
            if kind.program(cache).is_file() {
                here.push(*kind);
            } else {
                let why = format!("no {}: cargo xtask setup --all-servers fetches it", kind.name());
                sandbox::skipped(name, &why, |variable| std::env::var_os(variable));
            }
        }
        here
    }

    fn arguments(self, ports: &[u16]) -> Vec<String> {
        let address = format!("127.0.0.1:{}", ports[0]);
        let port = ports[0].to_string();
        let words: &[&str] = match self {
            Kind::SeaweedFs => &SEAWEEDFS,
            Kind::MinIo => &["server", "data", "--certs-dir", "certificates", "--address", &address],
            Kind::Moto => &["-H", "127.0.0.1", "-p", &port],
        };
        let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        if self == Kind::SeaweedFs {
            for (service, ports) in SERVICES.iter().zip(ports.chunks(2)) {
                all.push(format!("-{service}.port={}", ports[0]));
                all.push(format!("-{service}.port.grpc={}", ports[1]));
            }
        }
        all
    }
}

const SEAWEEDFS: [&str; 10] = [
    "mini",
    "-dir=data",
    "-ip=127.0.0.1",
    "-ip.bind=127.0.0.1",
    "-webdav=false",
    "-admin.ui=false",
    "-s3.iam=false",
    "-s3.config=keys.json",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
];

/// The services of SeaweedFS, each with a port for HTTP and one for gRPC. The first is what clients use.
const SERVICES: [&str; 5] = ["s3", "master", "volume", "filer", "admin"];

/// Who may do what in SeaweedFS.
const KEYS: &str = r#"{"identities": [
    {"name": "all", "credentials": [{"accessKey": "identity", "secretKey": "long-secret"}],
     "actions": ["Admin", "Read", "List", "Write"]},
    {"name": "reader", "credentials": [{"accessKey": "reader", "secretKey": "long-secret"}],
     "actions": ["Read", "List"]}]}"#;

/// A store that runs. It ends with this process, also if that is killed.
pub struct Store {
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    ports: Vec<u16>,
    /// Its end of input ends the store.
    keeper: Option<Child>,
}

impl Store {
    /// Starts one whose data go into this folder, and makes its bucket `bucket`.
    ///
    /// # Errors
    /// Those of starting its program, or curl; `TimedOut` if it does not answer.
    pub fn start(kind: Kind, cache: &Path, folder: &Path) -> io::Result<Store> {
        std::fs::create_dir_all(folder.join("data"))?;
        std::fs::write(folder.join("keys.json"), KEYS)?;
        let ports = (0..SERVICES.len() * 2).map(|_| free_port()).collect::<io::Result<_>>()?;
        let (program, folder) = (kind.program(cache), folder.to_owned());
        let mut store = Store { kind, program, folder, ports, keeper: None };
        store.run()?;
        Ok(store)
    }

    fn run(&mut self) -> io::Result<()> {
        let script = "\"$@\" >> log 2>&1 & daemon=$!; read line; kill -9 $daemon; wait $daemon";
        let mut keeper = Command::new("sh");
        keeper.args(["-c", script, "store"]).arg(&self.program).args(self.kind.arguments(&self.ports));
        keeper.env("MINIO_ROOT_USER", ACCESS_KEY).env("MINIO_ROOT_PASSWORD", SECRET_KEY);
        keeper.env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
        keeper.current_dir(&self.folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.keeper = Some(keeper.spawn()?);
        let began = Instant::now();
        while !self.make_bucket("bucket", false)? {
            if began.elapsed() > STARTS_IN {
                let what = format!("{} does not answer: {}", self.kind.name(), self.folder.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Kills the store and starts it again.
    ///
    /// # Errors
    /// As [`Store::start`].
    pub fn kill(&mut self) -> io::Result<()> {
        self.end();
        self.run()
    }

    fn end(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            keeper.wait().ok();
        }
    }

    /// Makes a bucket, with object lock or without. Returns whether it is there now.
    ///
    /// # Errors
    /// If curl is not here.
    pub fn make_bucket(&self, name: &str, has_lock: bool) -> io::Result<bool> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--output", "answer", "--write-out", "%{http_code}", "--request", "PUT"]);
        curl.args(["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &format!("{ACCESS_KEY}:{SECRET_KEY}")]);
        if has_lock {
            curl.args(["--header", "x-amz-bucket-object-lock-enabled: true"]);
        }
        curl.arg(format!("{}/{name}", self.endpoint())).current_dir(&self.folder);
        let answer = curl.output()?.stdout;
        // 409: it was there.
        Ok(answer == b"200" || answer == b"409")
    }

    /// Where clients find it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// The folder with its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.end();
    }
}

/// A port that the system gives to no connection. With one that it gives, who waits for the store may be
/// connected with himself.
fn free_port() -> io::Result<u16> {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests run in processes with neighbouring numbers.
    let first = u16::try_from(std::process::id() * 89 % 20_000).unwrap_or(0);
    for _ in 0..20_000 {
        let port = 10_000 + (first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
