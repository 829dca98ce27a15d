//! Engines that read Parquet and Iceberg, for tests and benchmarks: fetched once, into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, places, root, run, setup, target};

/// The newest release of DuckDB whose extensions are on PyPI: they fit no other.
const PACKAGES: [&str; 8] = [
    "chdb",
    "duckdb==1.5.5",
    "duckdb-extension-avro==1.5.5",
    "duckdb-extension-iceberg==1.5.5",
    "polars",
    "pyarrow",
    "pyiceberg==0.12.*",
    "pyspark==3.5.*",
];
/// Iceberg for that Spark.
const SPARK: (&str, &str, &str) = ("org.apache.iceberg", "iceberg-spark-runtime-3.5_2.12", "1.12.0");
/// The newest release of Trino on Maven Central, and the lowest version of Java that runs it.
const TRINO: &str = "476";
const TRINO_JAVA: u32 = 24;

/// What was fetched.
pub(crate) struct Engines {
    /// A Python with DuckDB, polars, chdb, PySpark and PyIceberg.
    pub(crate) python: PathBuf,
    pub(crate) spark_jar: PathBuf,
    /// `None`, with the reason, where Trino can't run.
    pub(crate) trino: std::result::Result<Trino, String>,
}

/// A node of Trino that has only the connector of Iceberg.
pub(crate) struct Trino {
    pub(crate) folder: PathBuf,
    pub(crate) java: PathBuf,
}

impl Engines {
    /// Fetches what is missing.
    pub(crate) fn bring() -> Result<Engines> {
        setup::install(&[
            ("python3", "python3-venv"),
            ("java", "openjdk-17-jre-headless"),
            ("mvn", "maven"),
        ])?;
        let folder = places()?.cache.join("engines");
        std::fs::create_dir_all(&folder)?;
        let trino = match java() {
            Some(java) => Ok(Trino { folder: bring_trino(&folder)?, java }),
            None => Err(format!("there is no Java {TRINO_JAVA} or later, in JAVA_HOME or /usr/lib/jvm")),
        };
        Ok(Engines { python: bring_python(&folder)?, spark_jar: bring_jar(&folder)?, trino })
    }

    /// Tells a program by its environment where they are.
    pub(crate) fn name_to(&self, command: &mut Command) {
        command.env("REMORA_ENGINES_PYTHON", &self.python).env("REMORA_SPARK_JAR", &self.spark_jar);
        if let Ok(trino) = &self.trino {
            command.env("REMORA_TRINO", &trino.folder).env("REMORA_TRINO_JAVA", &trino.java);
        }
    }
}

fn bring_python(folder: &Path) -> Result<PathBuf> {
    let (to, python) = (folder.join("python"), folder.join("python/bin/python"));
    // What was fetched for another list is not what is needed.
    let (complete, list) = (to.join("complete"), PACKAGES.join("\n"));
    if std::fs::read_to_string(&complete).is_ok_and(|had| had == list) {
        return Ok(python);
    }
    println!("engines: pip downloads 700 MB, unless it has them");
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&to))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    std::fs::write(&complete, list)?;
    Ok(python)
}

/// Fetches a file from Maven Central.
fn maven(artifact: &str, to: &Path, options: &[String]) -> Result<()> {
    let mut copy = Command::new("mvn");
    copy.args([
        "-q",
        "-B",
        "-Dstyle.color=never",
        "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
    ]);
    copy.arg(format!("-Dartifact={artifact}")).arg(format!("-DoutputDirectory={}", to.display()));
    run(copy.args(options))
}

fn bring_jar(folder: &Path) -> Result<PathBuf> {
    let (group, name, version) = SPARK;
    let jar = folder.join(format!("{name}-{version}.jar"));
    if !jar.is_file() {
        println!("Iceberg for Spark: mvn downloads 47 MB, unless it has them");
        let stage = folder.join("jar.new");
        maven(&format!("{group}:{name}:{version}"), &stage, &[])?;
        std::fs::rename(stage.join(format!("{name}-{version}.jar")), &jar)?;
        std::fs::remove_dir_all(&stage)?;
    }
    Ok(jar)
}

/// Of its 50 connectors only one is kept.
fn bring_trino(folder: &Path) -> Result<PathBuf> {
    let to = folder.join(format!("trino-{TRINO}"));
    if to.is_dir() {
        return Ok(to);
    }
    println!("Trino {TRINO}: mvn downloads 830 MB");
    let stage = tempfile::Builder::new().prefix("trino-").tempdir_in(folder)?;
    // Not into the repository of whoever runs this: the archive is of no use once it is unpacked.
    let own = format!("-Dmaven.repo.local={}", stage.path().join("repository").display());
    maven(&format!("io.trino:trino-server:{TRINO}:tar.gz"), stage.path(), &[own])?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(stage.path().join(format!("trino-server-{TRINO}.tar.gz")));
    run(unpack.arg("-C").arg(stage.path()))?;
    let (all, kept) = (stage.path().join(format!("trino-server-{TRINO}")), stage.path().join("kept"));
    std::fs::create_dir_all(kept.join("plugin"))?;
    // Files that several connectors have are links to one, so they can't be unpacked alone.
    for name in ["lib", "plugin/iceberg"] {
        std::fs::rename(all.join(name), kept.join(name)).context("the archive of Trino has other folders")?;
    }
    std::fs::rename(kept, &to)?;
    Ok(to)
}

/// A Java that runs Trino.
fn java() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten();
    let installed = installed.filter_map(|entry| Some(entry.ok()?.path()));
    let homes = std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().chain(installed);
    let fits = |home: &PathBuf| version(home).is_some_and(|version| version >= TRINO_JAVA);
    homes.filter(fits).map(|home| home.join("bin/java")).find(|java| java.is_file())
}

fn version(home: &Path) -> Option<u32> {
    let release = std::fs::read_to_string(home.join("release")).ok()?;
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    version.split(['.', '"', '-', '+']).next()?.parse().ok()
}

/// The manifest of the program that is built apart.
fn manifest() -> String {
    root().join("iceberg/Cargo.toml").display().to_string()
}

/// A command of cargo for that program, with its own folder for results.
pub(crate) fn iceberg_cargo(command: &str) -> Command {
    let mut cargo = cargo();
    cargo.args([command, "--locked", "--manifest-path", &manifest()]);
    cargo.env("CARGO_TARGET_DIR", target().join("iceberg"));
    cargo
}

/// A program that was built before.
pub(crate) fn remora() -> Option<PathBuf> {
    std::env::var_os("REMORA").map(PathBuf::from)
}

/// Format, lints and dependencies of `remora-iceberg`, and all its tests with all engines. Returns what was
/// left out.
pub(crate) fn check_iceberg() -> Result<Option<String>> {
    let engines = Engines::bring()?;
    setup::bring_store(&places()?.cache)?;
    let remora = match remora() {
        Some(remora) => remora,
        None => {
            run(cargo().args(["build", "--quiet", "--package", "remora"]))?;
            target().join("debug/remora")
        }
    };
    run(cargo().args(["fmt", "--check", "--manifest-path", &manifest()]))?;
    run(iceberg_cargo("clippy").args(["--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    crate::audit::iceberg(&manifest())?;
    let mut test = iceberg_cargo("test");
    engines.name_to(&mut test);
    test.args(["--quiet", "--", "--include-ignored"]).env("REMORA", remora);
    let left_out = engines.trino.as_ref().err().map(|why| format!("tests of Trino left out: {why}"));
    if left_out.is_some() {
        test.args(["--skip", "trino"]);
    }
    // Each engine takes gigabytes.
    run(test.arg("--test-threads=1"))?;
    Ok(left_out)
}
