//! Compares ways to dump a large table and load it again, compressed with zstd or gzip, and durable when
//! finished.

pub(super) mod copy;
mod data;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox::{Family, Product, Sandbox, Settings};

use data::Data;

use super::import::done;
use super::measure::{Cost, alternately, as_f64, measure, median, median_ratio};
use crate::{places, release, setup};

const ROUNDS: usize = 3;

/// Programs of the peers.
const PEERS: [(&str, &str); 3] =
    [("mydumper", "mydumper"), ("zstd", "zstd"), ("mariadb-dump", "mariadb-client")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    RemoraDump,
    RemoraDumpPlain,
    RemoraDumpParquet,
    DumpZstd,
    MydumperGzip,
    MydumperPlain,
    RemoraLoad,
    RemoraLoadCounts,
    RemoraLoadPhysical,
    RemoraLoadParquet,
    Myloader,
    MyloaderDefault,
    Client,
    LoadData,
}

impl Method {
    const DUMPS: [Method; 6] = [
        Method::RemoraDump,
        Method::RemoraDumpParquet,
        Method::DumpZstd,
        Method::MydumperGzip,
        Method::RemoraDumpPlain,
        Method::MydumperPlain,
    ];
    const LOADS: [Method; 8] = [
        Method::RemoraLoad,
        Method::RemoraLoadCounts,
        Method::RemoraLoadPhysical,
        Method::RemoraLoadParquet,
        Method::Myloader,
        Method::MyloaderDefault,
        Method::Client,
        Method::LoadData,
    ];

    fn is_mydumper(self) -> bool {
        matches!(self, Method::MydumperGzip | Method::MydumperPlain)
    }

    fn name(self) -> &'static str {
        match self {
            Method::RemoraDump => "remora dump -j 2",
            Method::RemoraDumpPlain => "remora dump -j 2 --compress none",
            Method::RemoraDumpParquet => "remora dump -j 2 --format parquet",
            Method::DumpZstd => "mariadb-dump, piped to zstd -1",
            Method::MydumperGzip => "mydumper -t 2 -r 500000 -c",
            Method::MydumperPlain => "mydumper -t 2 -r 500000",
            Method::RemoraLoad => "remora load, every row read back",
            Method::RemoraLoadCounts => "remora load --no-verify",
            Method::RemoraLoadPhysical => "remora load --physical",
            Method::RemoraLoadParquet => "remora load of Parquet, every row read back",
            Method::Myloader => "myloader -t 2",
            Method::MyloaderDefault => "myloader",
            Method::Client => "zstd -dc, piped to mariadb",
            Method::LoadData => "LOAD DATA, one session",
        }
    }
}

/// `cargo xtask bench dump [--data nodes|rental|mixed] [--rows N] [--server NAME] [--only WORD,...]`
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let chosen = Chosen::read(arguments)?;
    for bench in chosen.benches() {
        let bench = bench?;
        bench.table(&Method::DUMPS, &chosen)?;
        // Creates the input of the loads.
        for method in [Method::RemoraDump, Method::RemoraDumpParquet, Method::DumpZstd, Method::MydumperPlain]
        {
            bench.measure(method)?;
        }
        bench.table(&Method::LOADS, &chosen)?;
    }
    Ok(())
}

/// What was chosen on the command line.
struct Chosen<'a> {
    remora: PathBuf,
    product: Product,
    data: Vec<Data>,
    rows: Option<u64>,
    only: &'a str,
}

impl<'a> Chosen<'a> {
    fn read(arguments: &'a [String]) -> Result<Chosen<'a>> {
        setup::run_quietly()?;
        setup::install(&PEERS)?;
        let value = |name: &str| super::value(arguments, name);
        let is_chosen = |data: &Data| value("--data").is_none_or(|name| name == data.name());
        Ok(Chosen {
            remora: release()?,
            product: value("--server").map_or(Ok(Product::MariaDb1011), str::parse)?,
            data: Data::ALL.into_iter().filter(is_chosen).collect(),
            rows: value("--rows").map(str::parse).transpose().context("--rows takes a number")?,
            only: value("--only").unwrap_or_default(),
        })
    }

    /// A server with each set of data.
    fn benches(&self) -> impl Iterator<Item = Result<Bench>> {
        let start =
            |data: &Data| Bench::start(self.product, &self.remora, *data, self.rows.unwrap_or(data.rows()));
        self.data.iter().map(start)
    }

    /// Whether a method has one of the words that were given.
    fn has(&self, name: &str) -> bool {
        self.only.split(',').any(|word| name.contains(word))
    }
}

/// Measures again if mydumper was asked: Debian's sometimes hangs at its end, and such a run does not count.
fn again(is_mydumper: bool, run: impl Fn() -> Result<Cost>) -> Result<Cost> {
    let mut tries = 0;
    loop {
        match run() {
            Err(error) if is_mydumper && tries < 5 => println!("{error}; once more"),
            measured => return measured,
        }
        tries += 1;
    }
}

struct Bench {
    server: Sandbox,
    folder: PathBuf,
    remora: PathBuf,
    data: Data,
    /// Rows of the largest table.
    rows: String,
}

impl Bench {
    fn start(product: Product, remora: &Path, data: Data, rows: u64) -> Result<Bench> {
        let (server, version) = server(product)?;
        let folder = server.folder().join("bench");
        std::fs::create_dir_all(&folder)?;
        let mut bench = Bench { server, folder, remora: remora.to_owned(), data, rows: String::new() };
        bench.query("CREATE DATABASE bench")?;
        data.make(&bench, rows)?;
        bench.rows = bench.count()?;
        println!("\n### {product} ({version}), {}, {} rows in {}\n", data.name(), bench.rows, data.table());
        Ok(bench)
    }

    fn count(&self) -> Result<String> {
        Ok(self.query(&self.count_rows())?.trim().to_owned())
    }

    /// The query for the rows of the largest table.
    fn count_rows(&self) -> String {
        format!("SELECT COUNT(*) FROM bench.{}", self.data.table())
    }

    /// Runs all methods alternately, and prints a table. The ratio compares runs of the same round.
    fn table(&self, methods: &[Method], chosen: &Chosen<'_>) -> Result<()> {
        let possible = |method: &&Method| **method != Method::LoadData || self.data.definition().is_some();
        let methods = methods.iter().filter(possible).filter(|method| chosen.has(method.name()));
        let methods: Vec<Method> = methods.copied().collect();
        let results = alternately(&methods, ROUNDS, |method| self.measure(method))?;
        let Some((_, ours)) = results.first().cloned() else { return Ok(()) };
        println!(
            "| method | wall s | server s | client s | MB | wall / the first |\n|---|--:|--:|--:|--:|--:|"
        );
        for (method, costs) in results {
            let ratio = median_ratio(&costs, &ours).unwrap_or(1.0);
            let Some(cost) = median(costs) else { continue };
            println!(
                "| {} | {:.2} | {:.2} | {:.2} | {:.0} | {ratio:.2} |",
                method.name(),
                cost.wall_s,
                cost.server_s,
                cost.client_s,
                as_f64(self.size(method)?) / 1e6,
            );
        }
        println!();
        Ok(())
    }

    fn path(&self, method: Method) -> PathBuf {
        self.folder.join(match method {
            Method::RemoraDump
            | Method::RemoraLoad
            | Method::RemoraLoadCounts
            | Method::RemoraLoadPhysical => "remora",
            Method::RemoraDumpPlain => "remora.plain",
            Method::RemoraDumpParquet | Method::RemoraLoadParquet => "remora.parquet",
            Method::DumpZstd | Method::Client => "dump.sql.zst",
            Method::MydumperGzip => "mydumper.gz",
            Method::MydumperPlain | Method::Myloader | Method::MyloaderDefault => "mydumper",
            Method::LoadData => return self.text(self.data),
        })
    }

    /// The text that LOAD DATA reads.
    fn text(&self, data: Data) -> PathBuf {
        self.folder.join(format!("{}.tsv", data.name()))
    }

    /// Bytes that a method reads or writes.
    fn size(&self, method: Method) -> Result<u64> {
        fn walk(path: &Path) -> Result<u64> {
            if path.is_file() {
                return Ok(path.metadata()?.len());
            }
            std::fs::read_dir(path)?.map(|entry| walk(&entry?.path())).sum()
        }
        walk(&self.path(method))
    }

    fn measure(&self, method: Method) -> Result<Cost> {
        again(method.is_mydumper(), || self.measure_once(method))
    }

    fn measure_once(&self, method: Method) -> Result<Cost> {
        let path = self.path(method);
        if Method::DUMPS.contains(&method) {
            if path.is_dir() {
                std::fs::remove_dir_all(&path)?;
            }
        } else {
            self.query("SET foreign_key_checks = 0; DROP DATABASE bench; CREATE DATABASE bench")?;
            if let (Method::LoadData, Some(definition)) = (method, self.data.definition()) {
                self.query(&definition)?;
            }
            if self.server.product().family() == Family::MariaDb {
                // The purge left by the previous run must not count for this one.
                self.query("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
            }
        }
        let cost = measure(self.server.pid(), || self.run(method, &path))?;
        let found = self.count()?;
        if found != self.rows {
            bail!("{}: {found} rows of {}", method.name(), self.rows);
        }
        Ok(cost)
    }

    fn run(&self, method: Method, path: &Path) -> Result<()> {
        let socket = self.server.socket().display().to_string();
        let tool = |program: &Path, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments);
            done(&mut command)
        };
        let folder = path.display().to_string();
        let own = ["--no-defaults", "--quiet", "--user=root", "-S", &socket];
        let ours = [&own[..], &["-j", "2"]].concat();
        match method {
            Method::RemoraDump => tool(&self.remora, &[&["dump", "bench", "-o", &folder][..], &ours].concat()),
            Method::RemoraDumpPlain => {
                tool(&self.remora, &[&["dump", "bench", "-o", &folder, "--compress", "none"][..], &ours].concat())
            }
            Method::RemoraDumpParquet => {
                tool(&self.remora, &[&["dump", "bench", "-o", &folder, "--format", "parquet"][..], &ours].concat())
            }
            Method::RemoraLoad | Method::RemoraLoadParquet => {
                tool(&self.remora, &[&["load", &folder][..], &own].concat())
            }
            Method::RemoraLoadCounts => {
                tool(&self.remora, &[&["load", &folder, "--no-verify"][..], &own].concat())
            }
            Method::RemoraLoadPhysical => {
                tool(&self.remora, &[&["load", &folder, "--physical"][..], &own].concat())
            }
            Method::MydumperGzip | Method::MydumperPlain => {
                let mut all = vec!["-u", "root", "-S", &socket, "-B", "bench", "-t", "2", "-r", "500000", "-G", "-E", "-R", "-o", &folder];
                all.extend((method == Method::MydumperGzip).then_some("-c"));
                tool(Path::new("timeout"), &[&["300", "mydumper"][..], &all].concat())
            }
            Method::Myloader => {
                tool(Path::new("myloader"), &["-u", "root", "-S", &socket, "-t", "2", "-d", &folder])
            }
            Method::MyloaderDefault => {
                tool(Path::new("myloader"), &["-u", "root", "-S", &socket, "-d", &folder])
            }
            Method::DumpZstd => self.shell(&format!(
                "set -o pipefail; mariadb-dump --no-defaults -u root -S '{socket}' --single-transaction --quick --routines --events \
                 --databases bench | zstd -1 -q -f -o '{folder}'"
            )),
            Method::Client => {
                self.shell(&format!("set -o pipefail; zstd -dcq '{folder}' | mariadb --no-defaults -u root -S '{socket}'"))
            }
            Method::LoadData => self.query(&self.load_data(self.data)).map(drop),
        }
    }

    fn shell(&self, line: &str) -> Result<()> {
        let log = File::create(self.folder.join("shell.log"))?;
        done(Command::new("bash").args(["-c", line]).stderr(Stdio::from(log)))
    }

    fn load_data(&self, data: Data) -> String {
        let file = self.text(data);
        format!(
            "LOAD DATA INFILE '{}' INTO TABLE bench.{} CHARACTER SET binary",
            file.display(),
            data.table()
        )
    }

    fn query(&self, sql: &str) -> Result<String> {
        query(&self.server, sql)
    }
}

/// A server with room for the data, and its version.
fn server(product: Product) -> Result<(Sandbox, String)> {
    let places = places()?;
    let installation = sandbox::find(&places, product)?;
    let options = [
        "--innodb-buffer-pool-size=6G",
        "--innodb-log-file-size=2G",
        "--max-allowed-packet=64M",
        "--local-infile=1",
    ];
    let settings = Settings { options: options.map(str::to_owned).to_vec(), ..Settings::default() };
    Ok((Sandbox::start(&installation, &places, &settings)?, installation.version.to_string()))
}

fn query(server: &Sandbox, sql: &str) -> Result<String> {
    let mut client = Command::new(sandbox::client().context("there is no SQL client")?);
    client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", "-e", sql]);
    client.arg(format!("--socket={}", server.socket().display()));
    let output = client.output()?;
    if !output.status.success() {
        bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
