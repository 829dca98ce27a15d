//! A store that speaks S3, beside the server: SeaweedFS.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Its services, each with a port for HTTP and one for gRPC. The first is what clients use.
const SERVICES: [&str; 5] = ["s3", "master", "volume", "filer", "admin"];
const STARTS_IN: Duration = Duration::from_secs(60);
pub(super) const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];

/// A store with the bucket `bucket`. It ends with the bench, also if that is killed.
pub(super) struct Store {
    /// Its end of input ends the store.
    keeper: Child,
    port: u16,
}

impl Store {
    /// Starts one whose data go into this folder.
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Store> {
        std::fs::create_dir(folder)?;
        let keys = r#"{"identities": [{"name": "all", "credentials": [{"accessKey": "id", "secretKey": "secret"}],
                      "actions": ["Admin", "Read", "List", "Write"]}]}"#;
        std::fs::write(folder.join("keys.json"), keys)?;
        let script = "\"$@\" > log 2>&1 & daemon=$!; read line; kill -9 $daemon; wait $daemon";
        let mut keeper = Command::new("sh");
        keeper.args(["-c", script, "store"]).arg(program);
        keeper.args(["mini", "-dir=.", "-bucket=bucket", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
        keeper.args(["-webdav=false", "-admin.ui=false", "-s3.iam=false", "-s3.config=keys.json"]);
        keeper.args(["-s3.port.iceberg=0", "-s3.port.lance=0"]);
        let ports = free_ports()?;
        for (service, ports) in SERVICES.iter().zip(ports.chunks(2)) {
            let [http, grpc] = ports else { bail!("two ports for each service") };
            keeper.arg(format!("-{service}.port={http}")).arg(format!("-{service}.port.grpc={grpc}"));
        }
        keeper.current_dir(folder).stdin(Stdio::piped()).stderr(Stdio::null());
        let port = *ports.first().context("a port")?;
        Ok(Store { keeper: keeper.spawn()?, port })
    }

    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits until a command finds the bucket.
    pub(super) fn wait(&self, mut finds: impl FnMut() -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        while !finds()? {
            if began.elapsed() > STARTS_IN {
                bail!("the store does not answer");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().ok();
    }
}

/// Ports that nobody has now.
fn free_ports() -> Result<Vec<u16>> {
    let free = |_| std::net::TcpListener::bind(("127.0.0.1", 0));
    let held = (0..SERVICES.len() * 2).map(free).collect::<std::io::Result<Vec<_>>>()?;
    Ok(held.iter().map(|one| Ok(one.local_addr()?.port())).collect::<std::io::Result<_>>()?)
}
