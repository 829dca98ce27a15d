//! Building the queue engine: the core as a static library, the handler in C++ against the server's private headers.
//!
//! Debian ships a server's public headers and no private ones, so those come from its source package. A server takes an
//! engine only when it was built for the very same patch release: the version is declared by the public headers, which
//! come from the server's own -dev package. Where the archive has no source of that patch release, another of the
//! same series serves, as long as the class that the engine derives from is the same in the server's binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use sandbox::Product;

use crate::{cargo, layout, places, root, run, setup};

/// The public headers, of the -dev package.
const PUBLIC: &str = "/usr/include/mariadb/server";

/// What of the source package is needed.
const PARTS: [&str; 4] = ["*/include/*", "*/sql/*.h", "*/wsrep-lib/*", "*/VERSION"];

/// The C++ sources.
const SOURCES: [&str; 6] = [
    "ha_queue.cc",
    "queue_connection.cc",
    "queue_function.cc",
    "queue_plugin.cc",
    "queue_row.cc",
    "queue_schema.cc",
];

/// Builds the engine and returns the library, which a server can load.
pub(crate) fn build() -> Result<PathBuf> {
    compile("plugin", &[])
}

/// Where the tests of the engine look for a library that was built with AddressSanitizer.
const SANITIZED: &str = "REMORA_QUEUE_SANITIZED";

/// Runs the engine's tests with its C++ under AddressSanitizer, in a server that has its runtime loaded.
pub(crate) fn sanitize(arguments: &[String]) -> Result<()> {
    let library = compile("plugin-asan", &["-fsanitize=address", "-fno-omit-frame-pointer"])?;
    let output = Command::new("c++").arg("-print-file-name=libasan.so").output()?;
    let runtime = String::from_utf8(output.stdout)?.trim().to_owned();
    // The server's own memory is none of our business, and what it keeps at its end no leak.
    let options = "ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0:halt_on_error=1";
    let runner = format!("env LD_PRELOAD={runtime} {options} {SANITIZED}={}", library.display());
    let mut tests = cargo();
    tests.args(["test", "--package", "queue-plugin", "--test", "main"]).args(arguments);
    run(tests.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner))
}

/// Builds the engine in a folder of the target's.
fn compile(folder: &str, more: &[&str]) -> Result<PathBuf> {
    setup::run_for_plugin()?;
    let version = public_version()?;
    let source = source(&version)?;
    run(cargo().args(["build", "--release", "--quiet", "--package", "queue-plugin"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let core = target.join("release/libha_queue_core.a");
    let library = target.join(folder).join("ha_queue.so");
    let generated = target.join(folder).join("include");
    std::fs::create_dir_all(&generated)?;
    let probes = source.join("include/probes_mysql_nodtrace.h.in");
    std::fs::copy(&probes, generated.join("probes_mysql_nodtrace.h")).context("probes_mysql_nodtrace.h")?;
    let folder = root().join("plugin/queue");
    let mut compiler = Command::new("c++");
    compiler.args([
        "-std=c++17",
        "-O2",
        "-g",
        "-fPIC",
        "-shared",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
    ]);
    compiler.args(["-DMYSQL_DYNAMIC_PLUGIN", "-DDBUG_OFF", "-DHAVE_CONFIG_H"]).args(more);
    // As system headers: their warnings are the server's.
    for include in [Path::new(PUBLIC), &Path::new(PUBLIC).join("mysql"), &generated] {
        compiler.arg("-isystem").arg(include);
    }
    for include in ["sql", "include", "", "wsrep-lib/include", "wsrep-lib/wsrep-API/v26"] {
        compiler.arg("-isystem").arg(source.join(include));
    }
    compiler.arg("-o").arg(&library);
    compiler.args(SOURCES.map(|file| folder.join(file)));
    // The services must stay visible: the server fills them in. The core need not be.
    compiler.arg(core).args(["-lmysqlservices", "-Wl,--exclude-libs,libha_queue_core.a"]);
    run(&mut compiler)?;
    check(&library, &version)?;
    println!("{} for MariaDB {version}", library.display());
    Ok(library)
}

/// Builds the engine and puts it beside the other plugins, where `remora sandbox start --plugins` looks.
pub(crate) fn build_beside(others: &[PathBuf]) -> Result<()> {
    let library = build()?;
    for other in others {
        let beside = other.with_file_name("ha_queue.so");
        std::fs::copy(&library, &beside).with_context(|| beside.display().to_string())?;
    }
    Ok(())
}

/// Whether the library fits the server that is installed.
fn check(library: &Path, version: &str) -> Result<()> {
    let server = sandbox::find(&places()?, Product::MariaDb1011)?;
    if !server.version.starts_with(&format!("{version}-")) {
        bail!(
            "{} is {}, but {PUBLIC} is of {version}: install libmariadbd-dev of the server's version",
            server.daemon.display(),
            server.version
        );
    }
    layout::compare(library, "ha_queue", &server.daemon, "handler")
}

/// The version that the public headers declare.
fn public_version() -> Result<String> {
    let header = Path::new(PUBLIC).join("mysql_version.h");
    let text = std::fs::read_to_string(&header).with_context(|| header.display().to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("#define MYSQL_SERVER_VERSION"));
    let version = line.and_then(|rest| rest.split('"').nth(1)).context("no MYSQL_SERVER_VERSION")?;
    Ok(version.trim_end_matches("-MariaDB").to_owned())
}

fn series(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(series, _)| series)
}

/// The unpacked source of this version, or of another of its series; fetched once.
fn source(version: &str) -> Result<PathBuf> {
    let cache = places()?.cache.join("server-source");
    let found = |version: &str| {
        let folder = cache.join(format!("mariadb-{version}"));
        folder.join("sql/handler.h").is_file().then_some(folder)
    };
    if let Some(folder) = found(version) {
        return Ok(folder);
    }
    let kept = std::fs::read_dir(&cache).into_iter().flatten().flatten();
    let mut kept: Vec<_> = kept.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    kept.sort();
    let kept = kept.iter().rev().filter_map(|name| name.strip_prefix("mariadb-"));
    if let Some(folder) = kept.filter(|kept| series(kept) == series(version)).find_map(found) {
        return Ok(folder);
    }
    fetch(&cache, version)
}

/// apt with the archive's sources in a list of our own: the system's stays as it is.
fn apt(program: &str, folder: &Path) -> Command {
    let mut apt = Command::new(program);
    apt.current_dir(folder).args(["-o", "Dir::Etc::sourceparts=-", "-o", "APT::Sandbox::User=root"]);
    apt.arg("-o").arg(format!("Dir::Etc::sourcelist={}", folder.join("source.sources").display()));
    apt.arg("-o").arg(format!("Dir::State::lists={}", folder.join("lists").display()));
    apt
}

fn fetch(cache: &Path, version: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(cache.join("lists/partial"))?;
    let system = Path::new("/etc/apt/sources.list.d/debian.sources");
    let sources = std::fs::read_to_string(system).with_context(|| {
        format!("{}: unpack the source of MariaDB {version} into {}", system.display(), cache.display())
    })?;
    let types =
        |line: &str| if line.starts_with("Types:") { "Types: deb-src".to_owned() } else { line.to_owned() };
    let sources: Vec<String> = sources.lines().map(types).collect();
    std::fs::write(cache.join("source.sources"), sources.join("\n"))?;
    run(apt("apt-get", cache).args(["update", "-qq"]))?;
    let listed = apt("apt-cache", cache).args(["showsrc", "mariadb"]).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut packages: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("Version: ")).collect();
    packages.dedup();
    packages.sort_by_key(|package| upstream(package) != version);
    for package in packages.into_iter().filter(|package| series(upstream(package)) == series(version)) {
        let named = format!("mariadb={package}");
        // The archive lists sources that it does not have: the next will do.
        let fetched = apt("apt-get", cache).args(["source", "--download-only", "-qq", &named]).status()?;
        if fetched.success() {
            return unpack(cache, upstream(package));
        }
    }
    bail!("no source of MariaDB {} in the archive; unpack one into {}", series(version), cache.display())
}

/// `10.11.18` of `1:10.11.18-0+deb12u1`.
fn upstream(package: &str) -> &str {
    let package = package.split_once(':').map_or(package, |(_, rest)| rest);
    package.split('-').next().unwrap_or(package)
}

fn unpack(cache: &Path, version: &str) -> Result<PathBuf> {
    let archive = format!("mariadb_{version}.orig.tar.gz");
    let mut tar = Command::new("tar");
    run(tar.current_dir(cache).args(["xzf", &archive, "--wildcards"]).args(PARTS))?;
    for file in std::fs::read_dir(cache)?.flatten() {
        if file.file_name().to_string_lossy().starts_with("mariadb_") {
            std::fs::remove_file(file.path())?;
        }
    }
    Ok(cache.join(format!("mariadb-{version}")))
}
