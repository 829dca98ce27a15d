//! Dumps and tables in an object store that others wrote: SeaweedFS.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::Places;

use crate::engines::{QUESTIONS, ask_of, orders};
use crate::support::{Ended, Shop, ended};

/// Its services, each with a port for HTTP and one for gRPC. The first is what clients use.
const SERVICES: [&str; 5] = ["s3", "master", "volume", "filer", "admin"];
const KEYS: &str = r#"{"identities": [{"name": "all", "credentials": [{"accessKey": "id", "secretKey": "secret"}],
    "actions": ["Admin", "Read", "List", "Write"]}]}"#;
const STARTS_IN: Duration = Duration::from_secs(120);

/// A store with the bucket `bucket`. It ends with its test, also if that is killed.
struct Store {
    port: u16,
    keeper: Child,
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        drop(self.keeper.wait());
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Store {
    fn start(shop: &Shop) -> Store {
        std::fs::create_dir(shop.path("store")).unwrap();
        std::fs::write(shop.path("keys.json"), KEYS).unwrap();
        let places = Places::customary(|name| std::env::var_os(name)).unwrap();
        let ports: Vec<u16> = (0..SERVICES.len() * 2).map(|_| free_port()).collect();
        let script = "\"$@\" >> log 2>&1 & daemon=$!; read line; kill -9 $daemon; wait $daemon";
        let mut keeper = Command::new("sh");
        keeper.args(["-c", script, "store"]).arg(places.cache.join("store/weed"));
        keeper.args(["mini", "-dir=store", "-bucket=bucket", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
        keeper.args(["-webdav=false", "-admin.ui=false", "-s3.iam=false", "-s3.config=keys.json"]);
        keeper.args(["-s3.port.iceberg=0", "-s3.port.lance=0"]);
        for (service, ports) in SERVICES.iter().zip(ports.chunks(2)) {
            keeper.arg(format!("-{service}.port={}", ports[0]));
            keeper.arg(format!("-{service}.port.grpc={}", ports[1]));
        }
        keeper.current_dir(shop.folder.path()).stdin(Stdio::piped()).stderr(Stdio::null());
        let store = Store { port: ports[0], keeper: keeper.spawn().unwrap() };
        let began = Instant::now();
        while !store.has_bucket(shop) {
            assert!(began.elapsed() < STARTS_IN, "the store does not start");
        }
        store
    }

    fn has_bucket(&self, shop: &Shop) -> bool {
        let program = std::env::var_os("REMORA").unwrap_or_else(|| "remora".into());
        let mut list = Command::new(program);
        self.name_to(list.args(["list", "s3://bucket/none"]).current_dir(shop.folder.path()));
        ended(&mut list).err.contains("no backup")
    }

    fn name_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port));
        command
            .env("AWS_ACCESS_KEY_ID", "id")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "us-east-1")
    }

    fn register(&self, shop: &Shop, dump: &str, options: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remora-iceberg"));
        command.args([dump, "--warehouse", "s3://bucket/lake"]).args(options);
        ended(self.name_to(command.current_dir(shop.folder.path())))
    }
}

#[test]
#[ignore = "cargo xtask iceberg runs it: it needs a store and PyIceberg"]
fn tables_in_a_store_are_read_there() {
    let shop = Shop::open(&orders(3000));
    let store = Store::start(&shop);
    shop.dump("monday");
    store.register(&shop, "monday", &[]).exits(2).says("give --copy");
    store.register(&shop, "monday", &["--copy"]).exits(0).says("3000 rows");
    store.register(&shop, "monday", &["--copy"]).exits(0).says("unchanged");
    let read = |shop: &Shop| {
        let (mut command, count) = ask_of(shop, "pyiceberg", &[("shop.orders", &QUESTIONS)]);
        let said = ended(store.name_to(command.arg("s3://bucket/lake"))).exits(0).out;
        assert!(said.contains(&format!("{count} answers, 0 wrong")), "{said}");
    };
    read(&shop);
    // A dump in the store stays where it is.
    shop.sql("DELETE FROM shop.orders WHERE id % 3 = 0");
    let url = format!("unix://root@{}", shop.server.socket().display());
    let program = std::env::var_os("REMORA").unwrap_or_else(|| "remora".into());
    let mut dump = Command::new(program);
    dump.args(["dump", "shop", "--format", "parquet", "--url", &url, "-o", "s3://bucket/tuesday"]);
    ended(store.name_to(&mut dump)).exits(0);
    store.register(&shop, "s3://bucket/tuesday", &[]).exits(0).says("2000 rows");
    read(&shop);
}
