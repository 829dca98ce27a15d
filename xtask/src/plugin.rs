//! Builds the queue engine: the core as a static library, and the handler in C++ against the server's private
//! headers.
//!
//! A server accepts an engine only if it was built for exactly the same patch release. Debian's development
//! packages contain the public headers, which declare that release, and its source packages contain the
//! private ones. If the archive has no source of that patch release, another one of the same series will do,
//! as long as the class that the engine derives from is the same in the server's binary. All of it is
//! unpacked into the cache: nothing is installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use sandbox::{Ability, Archive, Installation, Product};

use crate::{cargo, header, layout, places, root, run, setup, target};

/// The required parts of the source package.
const PARTS: [&str; 5] = ["--no-wildcards-match-slash", "*/include", "*/sql/*.h", "*/wsrep-lib", "*/VERSION"];

/// A header that the server's build generates, in its own folder within the public ones.
const PROBES: &str = "generated/probes_mysql_nodtrace.h";

/// The library.
const LIBRARY: &str = "ha_queue.so";
/// The core.
pub(crate) const CORE: &str = "libha_queue_core.a";
/// The folder of the libraries in the target folder.
const FOLDER: &str = "plugin";

/// The server's headers that all sources begin with. The compiler reads them once: they take it much longer
/// than a source does.
const SERVER_HEADERS: &str = "queue_server.h";

/// The C++ sources.
const SOURCES: [&str; 17] = [
    "ha_queue.cc",
    "queue_call.cc",
    "queue_connection.cc",
    "queue_definition.cc",
    "queue_error.cc",
    "queue_function.cc",
    "queue_info_columns.cc",
    "queue_lease.cc",
    "queue_opened.cc",
    "queue_order.cc",
    "queue_plugin.cc",
    "queue_recovery.cc",
    "queue_row.cc",
    "queue_scan.cc",
    "queue_schedule.cc",
    "queue_schema.cc",
    "queue_transaction.cc",
];

/// The servers to build the engine for: those named after `--server`, else all that are here.
fn chosen(arguments: &[String]) -> Result<Vec<Installation>> {
    let places = places()?;
    let mut rest = arguments.iter();
    let mut named = Vec::new();
    while let Some(argument) = rest.next() {
        let name = match argument.split_once('=') {
            Some(("--server", name)) => name,
            None if argument == "--server" => rest.next().context("--server NAME")?,
            _ => bail!("{argument}: cargo xtask plugin [--server NAME]..."),
        };
        let product: Product = name.parse()?;
        if !product.can(Ability::Queue) {
            let able: Vec<_> = Product::that_can(Ability::Queue).map(Product::id).collect();
            bail!("there is no ENGINE=QUEUE for {product}; there is for {}", able.join(", "));
        }
        named.push(sandbox::find(&places, product)?);
    }
    if named.is_empty() {
        let found = |product| sandbox::find(&places, product).ok();
        named.extend(Product::that_can(Ability::Queue).filter_map(found));
    }
    Ok(named)
}

/// Builds the engine for the server that tests and benchmarks take first, and returns the library.
pub(crate) fn build() -> Result<PathBuf> {
    let product = Product::that_can(Ability::Queue).next().context("no server takes the engine")?;
    compile(&sandbox::find(&places()?, product)?, FOLDER, &[])
}

/// Builds the engine for every server here that can load it.
pub(crate) fn build_all() -> Result<()> {
    compile_all(chosen(&[])?, false).map(drop)
}

/// Where the engine's tests look for a library built with AddressSanitizer.
const SANITIZED: &str = "REMORA_QUEUE_SANITIZED";

/// Runs the engine's tests with its C++ under AddressSanitizer, in a server with its runtime loaded.
pub(crate) fn sanitize(arguments: &[String]) -> Result<()> {
    let product = Product::that_can(Ability::Queue).next().context("no server takes the engine")?;
    let server = sandbox::find(&places()?, product)?;
    let library = compile(&server, "plugin-asan", &["-fsanitize=address", "-fno-omit-frame-pointer"])?;
    let output = Command::new("c++").arg("-print-file-name=libasan.so").output()?;
    let runtime = String::from_utf8(output.stdout)?.trim().to_owned();
    // The server's own memory is not checked, and memory that it still holds at its end is not a leak.
    let options = "ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0:halt_on_error=1";
    let runner = format!("env LD_PRELOAD={runtime} {options} {SANITIZED}={}", library.display());
    let mut tests = cargo();
    tests.args(["test", "--package", "queue-plugin", "--test", "main"]).args(arguments);
    run(tests.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner))
}

/// Builds the engine and puts it beside the other plugins, where `remora sandbox start --plugins` looks: in a
/// folder named after its server.
pub(crate) fn build_beside(arguments: &[String], others: &[PathBuf]) -> Result<()> {
    for (product, library) in compile_all(chosen(arguments)?, !arguments.is_empty())? {
        for other in others {
            let folder = other.with_file_name(product.id());
            std::fs::create_dir_all(&folder)?;
            let beside = folder.join(LIBRARY);
            std::fs::copy(&library, &beside).with_context(|| beside.display().to_string())?;
        }
    }
    Ok(())
}

/// Builds the engine for several servers in parallel: for each the compiler takes a minute and one processor.
/// Unless `all` are wanted, a server is left out if the archive does not have its source; the first one must
/// have it.
fn compile_all(servers: Vec<Installation>, all: bool) -> Result<Vec<(Product, PathBuf)>> {
    // Installing and fetching happen one after the other.
    setup::run_for_plugin()?;
    let mut able = Vec::new();
    for server in servers {
        match Headers::of(&server) {
            Ok(_) => able.push(server),
            Err(error) if error.is::<NoSource>() && !all && !able.is_empty() => {
                println!("no ENGINE=QUEUE for {}: {error}", server.product);
                // One for an earlier release would not be loaded.
                drop(std::fs::remove_file(library(server.product)));
            }
            Err(error) => return Err(error),
        }
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = able
            .iter()
            .map(|server| (server.product, scope.spawn(|| compile(server, FOLDER, &[]))))
            .collect();
        let end = |(product, one): (_, std::thread::ScopedJoinHandle<'_, _>)| {
            Ok((product, one.join().map_err(|_| anyhow!("the build panicked"))??))
        };
        running.into_iter().map(end).collect()
    })
}

/// Where the engine for a server is, if it could be built.
pub(crate) fn library(product: Product) -> PathBuf {
    in_folder(FOLDER, product)
}

fn in_folder(folder: &str, product: Product) -> PathBuf {
    target().join(folder).join(product.id()).join(LIBRARY)
}

/// Builds the engine for a server, in a folder of the target folder.
fn compile(server: &Installation, folder: &str, more: &[&str]) -> Result<PathBuf> {
    setup::run_for_plugin()?;
    run(cargo().args(["build", "--release", "--quiet", "--package", "queue-plugin"]))?;
    link(server, target().join("release").join(CORE), folder, more)
}

/// Compiles the C++ for a server and links it with a core.
fn link(server: &Installation, core: PathBuf, folder: &str, more: &[&str]) -> Result<PathBuf> {
    // The C++ is linked with the library whose header it is compiled against.
    if let Some(stale) = header::stale(&root())? {
        bail!(stale);
    }
    let headers = Headers::of(server)?;
    let library = in_folder(folder, server.product);
    let folder = library.parent().context("the library has a folder")?;
    std::fs::create_dir_all(folder)?;
    let ours = root().join("plugin/queue");
    let prepared = folder.join(SERVER_HEADERS);
    let mut prepare = compiler(&headers, more);
    prepare.args(["-x", "c++-header"]).arg(ours.join(SERVER_HEADERS));
    prepare.arg("-o").arg(prepared.with_added_extension("gch"));
    let mut compiler = compiler(&headers, more);
    compiler.args(["-shared", "-Winvalid-pch", "-include"]).arg(&prepared);
    compiler.arg("-o").arg(&library);
    compiler.args(SOURCES.map(|file| ours.join(file)));
    // The services must stay visible, because the server fills them in. The core need not be.
    compiler.arg(&core).arg(headers.services()).arg("-Wl,--exclude-libs,libha_queue_core.a");
    // The command line matters too, so it is kept beside the library.
    let (line, kept) = (crate::shown(&compiler), folder.join("command"));
    let inputs = [core, headers.services()];
    if std::fs::read_to_string(&kept).is_ok_and(|kept| kept == line) && is_newer(&library, &ours, &inputs)? {
        return Ok(library);
    }
    run(&mut prepare)?;
    run(&mut compiler)?;
    layout::compare(&library, "ha_queue", &server.daemon, "handler")?;
    std::fs::write(&kept, line)?;
    println!("{} for {} ({})", library.display(), server.product, server.version);
    Ok(library)
}

/// Builds the engine, around this core, for every patch release of a server that Debian's archive has.
/// Returns the numbers of these releases, with the libraries; none if the archive lacks the source of the
/// series.
pub(crate) fn for_releases(product: Product, core: &Path, more: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut built = Vec::new();
    for server in releases(product)? {
        let number = server.version.split('-').next().unwrap_or_default().to_owned();
        match link(&server, core.to_owned(), &format!("plugin-releases/{number}"), more) {
            Ok(library) => built.push((number, library)),
            Err(error) if error.is::<NoSource>() => {
                println!("no ENGINE=QUEUE for {product} {number}: {error}")
            }
            Err(error) => return Err(error),
        }
    }
    Ok(built)
}

/// The programs of all patch releases of a server in Debian's archive, unpacked into the cache.
fn releases(product: Product) -> Result<Vec<Installation>> {
    const PACKAGE: &str = "mariadb-server-core";
    let state = tempfile::Builder::new().prefix("remora-apt-").tempdir()?;
    let archive = Archive::open(product, state.path(), product.debian_release(), &["deb"])?;
    let cache = places()?.cache.join("server-source");
    let mut servers = Vec::new();
    for package in archive.versions(PACKAGE)? {
        let (number, revision) = (upstream(&package), package.rsplit_once('-').map_or("", |(_, last)| last));
        let base = cache.join(format!("server-{number}-{revision}"));
        let daemon = base.join("usr/sbin/mariadbd");
        if !daemon.is_file() {
            archive.unpack(&[&format!("{PACKAGE}={package}")], &base)?;
        }
        let share = base.join("usr/share/mysql");
        let version = format!("{number}-MariaDB-{revision}");
        let plugin_dir = base.join("usr/lib/mysql/plugin");
        servers.push(Installation {
            product,
            is_own: false,
            version,
            daemon,
            base,
            share,
            libraries: None,
            loader: None,
            plugin_dir,
        });
    }
    Ok(servers)
}

/// The compiler with what the headers and the sources are both compiled with.
fn compiler(headers: &Headers, more: &[&str]) -> Command {
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O2", "-g", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter"]);
    compiler.args(["-DMYSQL_DYNAMIC_PLUGIN", "-DDBUG_OFF", "-DHAVE_CONFIG_H"]).args(more);
    // As system headers, because their warnings are the server's.
    for include in headers.folders() {
        compiler.arg("-isystem").arg(include);
    }
    compiler
}

/// Whether the library is newer than all its inputs.
fn is_newer(library: &Path, sources: &Path, inputs: &[PathBuf]) -> Result<bool> {
    let changed = |path: &Path| -> Result<SystemTime> { Ok(std::fs::metadata(path)?.modified()?) };
    if !library.is_file() {
        return Ok(false);
    }
    let built = changed(library)?;
    let listed = std::fs::read_dir(sources)?.map(|entry| Ok(entry?.path()));
    let listed: Vec<PathBuf> = listed.collect::<Result<_>>()?;
    for input in listed.iter().filter(|path| path.is_file()).chain(inputs) {
        if changed(input)? >= built {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The headers for the engine: two folders in the cache.
struct Headers {
    /// The unpacked development packages of exactly this server.
    public: PathBuf,
    /// The source of the same patch release, or of another one in the series.
    private: PathBuf,
}

impl Headers {
    /// The headers for a server; they are fetched once.
    fn of(server: &Installation) -> Result<Headers> {
        let cache = places()?.cache.join("server-source");
        // `11.8.9-MariaDB-0+deb13u1` is in Debian's package 1:11.8.9+ds-0+deb13u1.
        let (version, build) = server.version.split_once("-MariaDB-").with_context(|| {
            format!("{} is {}, which is not of Debian", server.daemon.display(), server.version)
        })?;
        let public = cache.join(format!("headers-{version}-{build}"));
        let (there, private) = (public.join(PROBES).is_file(), source(&cache, version));
        if let (true, Some(private)) = (there, &private) {
            return Ok(Headers { public, private: private.clone() });
        }
        let state = tempfile::Builder::new().prefix("remora-apt-").tempdir()?;
        let archive = Archive::open(
            server.product,
            state.path(),
            server.product.debian_release(),
            &["deb", "deb-src"],
        )?;
        let private = match private {
            Some(private) => private,
            None => fetch(&archive, &cache, version)?,
        };
        if !there {
            let new = public.with_added_extension("new");
            drop(std::fs::remove_dir_all(&new));
            for name in ["libmariadbd-dev", "libmariadb-dev"] {
                let known = archive.versions(name)?;
                let same = |package: &&String| {
                    let (_, revision) = package.rsplit_once('-').unwrap_or_default();
                    (upstream(package), revision) == (version, build)
                };
                let package = known.iter().find(same);
                let package =
                    package.with_context(|| format!("the archive has no {name} {version}-{build}"))?;
                archive.unpack(&[&format!("{name}={package}")], &new)?;
            }
            let probes = private.join("include/probes_mysql_nodtrace.h.in");
            std::fs::create_dir_all(new.join("generated"))?;
            std::fs::copy(&probes, new.join(PROBES)).with_context(|| probes.display().to_string())?;
            std::fs::rename(&new, &public)?;
        }
        Ok(Headers { public, private })
    }

    /// The public headers come first, because they say which server it is.
    fn folders(&self) -> Vec<PathBuf> {
        let public = self.public.join("usr/include/mariadb/server");
        let generated = self.public.join(PROBES);
        let generated = generated.parent().unwrap_or(&self.public).to_owned();
        let private = ["sql", "include", "", "wsrep-lib/include", "wsrep-lib/wsrep-API/v26"];
        let private = private.map(|folder| self.private.join(folder));
        [public.clone(), public.join("mysql"), generated].into_iter().chain(private).collect()
    }

    /// The library that the server fills in when it loads the plugin.
    fn services(&self) -> PathBuf {
        self.public.join("usr/lib/x86_64-linux-gnu/libmysqlservices.a")
    }
}

fn series(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(series, _)| series)
}

/// The unpacked source of this version, or of another one in its series.
fn source(cache: &Path, version: &str) -> Option<PathBuf> {
    let found = |version: &str| {
        let folder = cache.join(format!("mariadb-{version}"));
        folder.join("sql/handler.h").is_file().then_some(folder)
    };
    let kept = std::fs::read_dir(cache).into_iter().flatten().flatten();
    let mut kept: Vec<_> = kept.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    kept.sort();
    let kept = kept.iter().rev().filter_map(|name| name.strip_prefix("mariadb-"));
    found(version).or_else(|| kept.filter(|kept| series(kept) == series(version)).find_map(found))
}

fn fetch(archive: &Archive, cache: &Path, version: &str) -> Result<PathBuf> {
    let mut packages = archive.source_versions("mariadb")?;
    packages.sort_by_key(|package| upstream(package) != version);
    for package in packages.iter().filter(|package| series(upstream(package)) == series(version)) {
        // The archive may list a source that it does not have: then try the next one.
        match archive.unpack_source("mariadb", package, &PARTS, cache) {
            Ok(()) => break,
            Err(error) => println!("{package}: {error}"),
        }
    }
    source(cache, version)
        .ok_or_else(|| NoSource { series: series(version).to_owned(), cache: cache.to_owned() }.into())
}

/// The archive lists no source of a series, or lists one that it does not have.
#[derive(Debug)]
struct NoSource {
    series: String,
    cache: PathBuf,
}

impl std::fmt::Display for NoSource {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NoSource { series, cache } = self;
        write!(to, "no source of MariaDB {series} in the archive; unpack one into {}", cache.display())
    }
}

impl std::error::Error for NoSource {}

/// `11.8.9` from `1:11.8.9+ds-0+deb13u1`: what Debian has left out of a source makes it no other version.
fn upstream(package: &str) -> &str {
    let package = package.split_once(':').map_or(package, |(_, rest)| rest);
    package.split(['-', '+']).next().unwrap_or(package)
}
