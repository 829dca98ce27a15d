//! A server with a shop, what it is asked, and programs that are run.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::{Places, Product, Sandbox, Settings};
use serde_json::Value;

/// Settings of a server whose log says what columns are.
const OPTIONS: [&str; 4] =
    ["--log-bin=binlog", "--server-id=1", "--binlog-format=ROW", "--binlog-row-metadata=FULL"];

/// A server, and a folder for dumps and the warehouse.
pub(crate) struct Shop {
    pub(crate) server: Sandbox,
    pub(crate) folder: tempfile::TempDir,
}

/// How a program ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Ended {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Ended {
        assert!(self.out.contains(text) || self.err.contains(text), "{}{}", self.out, self.err);
        self
    }

    /// The lines of JSON that it printed.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(crate) fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A path that the environment names.
pub(crate) fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

impl Shop {
    pub(crate) fn open(statements: &[&str]) -> Shop {
        let places = Places::customary(|name| std::env::var_os(name)).unwrap();
        let installation = sandbox::find(&places, Product::MariaDb1011).unwrap();
        let options = OPTIONS.map(str::to_owned).to_vec();
        let settings = Settings { options, ..Settings::default() };
        let server = Sandbox::start(&installation, &places, &settings).unwrap();
        let shop = Shop { server, folder: tempfile::tempdir().unwrap() };
        shop.sql("CREATE DATABASE shop CHARACTER SET utf8mb4");
        statements.iter().for_each(|statement| drop(shop.sql(statement)));
        shop
    }

    /// What the server answers, a line for each row.
    pub(crate) fn sql(&self, text: &str) -> String {
        let mut client = Command::new(sandbox::client().unwrap());
        client.args(["--no-defaults", "--user=root", "-N", "--batch", "--default-character-set=utf8mb4"]);
        client.arg(format!("--socket={}", self.server.socket().display()));
        let init = "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'; ";
        let ended = ended(client.args(["-e", &format!("{init}{text}")])).exits(0);
        ended.out.trim_end().to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `remora`.
    pub(crate) fn remora(&self, arguments: &[&str]) -> Ended {
        let program = named("REMORA").unwrap_or_else(|| "remora".into());
        ended(Command::new(program).args(arguments).current_dir(self.folder.path()))
    }

    /// Dumps the shop into a folder of files of a few hundred kilobytes.
    pub(crate) fn dump(&self, name: &str) {
        assert_eq!(self.dump_with(name, &[]).code, 0);
    }

    pub(crate) fn dump_with(&self, name: &str, options: &[&str]) -> Ended {
        let url = format!("unix://root@{}", self.server.socket().display());
        let fixed = ["dump", "shop", "--format", "parquet", "--chunk", "256K", "--url", &url, "-o", name];
        self.remora(&[&fixed, options].concat())
    }

    /// Runs `remora-iceberg` for a dump.
    pub(crate) fn register(&self, dump: &str, options: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remora-iceberg"));
        command.args([dump, "--warehouse", "lake"]).args(options);
        ended(command.current_dir(self.folder.path()))
    }

    /// The newest metadata of a table.
    pub(crate) fn metadata(&self, table: &str) -> Value {
        let folder = self.path("lake").join(table.replace('.', "/")).join("metadata");
        let version = std::fs::read_to_string(folder.join("version-hint.text")).unwrap();
        json(&folder.join(format!("v{version}.metadata.json")))
    }
}

/// The snapshots of a table, the oldest first.
pub(crate) fn snapshots(metadata: &Value) -> Vec<Value> {
    let mut snapshots = metadata["snapshots"].as_array().unwrap().clone();
    snapshots.sort_by_key(|snapshot| snapshot["sequence-number"].as_i64());
    snapshots
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
