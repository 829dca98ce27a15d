//! The project's chores: see [`HELP`].
#![expect(clippy::print_stdout, reason = "a chore talks to whoever runs it")]
#![expect(
    clippy::disallowed_methods,
    reason = "chores read and write the tree; nothing here must survive a crash"
)]

mod audit;
mod bench;
mod corpora;
mod demo;
mod dist;
mod engines;
mod fuzz;
mod guest;
mod header;
mod layout;
mod matrix;
mod mutate;
mod plugin;
mod setup;
mod site;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

const HELP: &str = "cargo xtask CHORE

  setup [--all-servers] [--all-stores]
                                  install what is missing, or print the line that does
  plugin [--server NAME]...       build the server's plugins, release, beside remora; ENGINE=QUEUE for each server that is
                                  here and takes it, or for those that are named
  install [--root FOLDER]         install remora as cargo install does, and the plugins in lib/remora beside its folder, where
                                  remora sandbox start --plugins finds them
  sanitize [ARGS]                 the tests of ENGINE=QUEUE, its C++ under AddressSanitizer; ARGS go to cargo test
  demo [ARGS]                     build remora with its plugins, then remora demo ARGS
  record FILE PROGRAM [ARGS]      run a program, and record what it prints for asciinema: docs/demo.cast is remora demo
  dist [--key FILE] [--programs FOLDER] [--check] | --twice
                                  the files of a release: programs, packages, wheels, image, sums, signed with FILE.
                                  --programs: of programs built before, FOLDER/x86_64/remora and aarch64/remora;
                                  --check: install and use them in bare systems, build them again elsewhere;
                                  --twice: only build this machine's program in two folders, and compare
  test [--all-servers] [ARGS]     set up, then run all tests; ARGS go to cargo test
  guest [--install] [TEST...]     tests in a virtual machine: logical volumes, servers under load
  tidy                            check what the compiler does not: edges, lengths, words
  header                          rewrite plugin/queue/queue_abi.h from the functions that it declares
  matrix                          rewrite the tables of servers in documents
  ci [--full] [--since REV]       what a change must pass: format, tidy, lints, documents, tests. --full, before a release:
                                  also every server, dependencies, remora-iceberg, fuzzing, virtual machine, packages, size, and
                                  as root it installs what these need; --since: also mutants of what has changed since then
  fuzz TARGET|all [SECONDS]       feed a decoder what nobody thought of, for that long; all of them share the time
  site                            the manual as a site, with mdBook, each link followed
  size                            build the release program, and say how large it is without symbols
  corpora [FOLDER...]             files of other projects through remora import, beside what other readers make of them
  iceberg                         lints and tests of remora-iceberg, with Spark, Trino, DuckDB, ClickHouse and PyIceberg, which
                                  are fetched: 1.6 GB. REMORA names the program that dumps, if it is not to be built
  mutate [CRATE...] [--shard K/N] [--file GLOB]... [--in-diff REV]
                                  change the code in small ways: which change does no test notice? K of N parts, from 0
  bench before PROGRAM [--rows N] [--only WORD]
                                  an earlier remora beside this one
  bench block [--tracked]         remora beside the tools people use, on an image of 1.5 GiB
  bench block --server [--rows N] [--rounds N] [--track] [--only WORD,...]
                                  a server that runs, copied beside mariadb-backup, idle and under load; WORD: idle, load,
                                  or a part of a method's name
  bench columns [--rows N] [--rounds N] [--only WORD,...] [--program FILE]
                                  Parquet out of a server, out of its files and in again, beside text, a store and other tools
  bench copy [--data nodes|rental|mixed] [--rows N] [--server NAME] [--to NAME] [--only WORD,...]
  bench dump [--data nodes|rental|mixed] [--rows N] [--server NAME] [--only WORD,...]
  bench engines [--rows N] [--rounds N]
                                  one query of sums: the server, and DuckDB, polars, ClickHouse, Spark and Trino on a dump of it
  bench follow [--server NAME] [--transactions N] [--cut-overs N] [--connections N]
                                  applying a binary log beside the server's own SQL thread, comparing all rows, and
                                  cut-overs while many connections write
  bench import [--rows N | --full] [--server NAME] [--only WORD,...]
                                  the same for loading a file, in one run
  bench pack [--rows N] [--only NAMES]
                                  remora pack beside pigz, zstd, xz, Parquet and Vortex
  bench physical [--rows N | --full] [--server NAME] [--only WORD]
                                  importing by writing the table's file, beside LOAD DATA, and reading it without a server
  bench queue [--seconds N] [--rounds N] [--only WORD,...] [--peers] [--binlog] [--backlog ROWS] [--later ROWS] [--keys N]
              [--leases N]
                                  ENGINE=QUEUE, a bare SELECT and InnoDB with SKIP LOCKED; WORD: part of a method's name.
                                  --peers: also PGMQ's and River's statements on PostgreSQL, RabbitMQ and NATS, all durable.
                                  --backlog, --later, --keys, --leases: what taking costs with so many rows waiting, rows due
                                  later, keys, leases out. --binlog: the server has a binary log that is synced, too
  bench queue --clients [--seconds N] [--rounds N] [--only WORD,...]
                                  our packages for Python, Node, Go, PHP and Ruby beside Celery, BullMQ, PGMQ, River, Laravel's
                                  database driver and Solid Queue's statements, all durable; WORD: part of a name
  bench recovery [--server NAME] [--size GiB] [--rounds N] [--transactions N] [--only WORD,...] | --store s3://BUCKET/PREFIX
                                  what an archive costs, --ack beside a replica, how late it is (with strace), how fast a log
                                  is replayed, one table and the first row of a generation of 16 GiB (archive, ack, lag,
                                  replay, table, mount); or backups to a store
  bench stat                      what a sample costs a server, and what watching twenty costs
  bench url [--corpora FOLDER]    lists of URLs: files urls_*.txt [default: demo]
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let result = match arguments.first().map(String::as_str) {
        Some("setup") => setup::run(rest),
        Some("plugin") => plugins().and_then(|built| plugin::build_beside(rest, &built)),
        Some("install") => install(rest),
        Some("sanitize") => plugin::sanitize(rest),
        Some("demo") => demo::show(rest),
        Some("record") => demo::record(rest),
        Some("dist") => dist::run_chore(rest),
        Some("test") => test::run(rest),
        Some("guest") => guest::run_tests(rest),
        Some("tidy") => tidy::run(),
        Some("header") => header::write(),
        Some("matrix") => matrix::write(),
        Some("mutate") => mutate::run(rest),
        Some("iceberg") => {
            engines::check_iceberg().map(|left_out| left_out.iter().for_each(|line| println!("{line}")))
        }
        Some("ci") => ci(rest),
        Some("fuzz") => fuzz::fuzz(rest),
        Some("size") => audit::size().map(|size| println!("{size}")),
        Some("site") => site::build(),
        Some("corpora") => corpora::run(rest),
        Some("help" | "--help") => help(),
        // A bench takes minutes.
        Some("bench") if rest.iter().any(|argument| argument == "--help") => help(),
        Some("bench") => bench::run(rest),
        _ => Err(anyhow::anyhow!("no such chore\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> Result<()> {
    print!("{HELP}");
    Ok(())
}

/// How long all decoders together are fuzzed in a full check.
const FUZZ_S: &str = "120";

/// What a change must pass, and with `--full` also what takes too long for each change. The tests come last,
/// and their counts at the end of the output.
fn ci(arguments: &[String]) -> Result<()> {
    let (mut full, mut since) = (false, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--full" => full = true,
            "--since" => since = Some(rest.next().context("--since REV")?.clone()),
            _ => bail!("cargo xtask ci [--full] [--since REV]"),
        }
    }
    let mut phases = Phases::default();
    phases.take("format and tidy", || {
        run(cargo().args(["fmt", "--all", "--check"]))?;
        tidy::run()
    })?;
    phases.take("set-up", || {
        setup::run(&[])?;
        // Whoever may not install them is told what was left out.
        if full && setup::is_root() && std::env::consts::ARCH == "x86_64" {
            guest::prepare()?;
            dist::tree::prepare()?;
        }
        Ok(())
    })?;
    let servers = if full { test::Servers::All } else { test::Servers::EachChange };
    phases.take("servers and build", || {
        std::thread::scope(|scope| {
            // While the compiler is at work, servers are fetched, and the engine is built on one core.
            let prepared = scope.spawn(|| test::prepare(servers));
            run(cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
            prepared.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    if !clippy_compiles() {
        phases.take("clippy", || {
            run(cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))
        })?;
    }
    let told = if full { before_a_release(&mut phases) } else { Vec::new() };
    if let Some(since) = since {
        phases.attempt("mutants", || mutate::run(&["--in-diff".to_owned(), since]));
    }
    let mut counts = phases.take("tests", || test::tests(servers, &[]))?;
    told.iter().for_each(|line| println!("{line}"));
    println!("{phases}");
    phases.failed.iter().for_each(|failed| println!("{failed}"));
    counts.tell();
    test::ended(&counts)?;
    if phases.failed.is_empty() { Ok(()) } else { bail!("{} failed beside the tests", phases.failed.len()) }
}

/// What a full check does besides. Returns what is told at its end.
fn before_a_release(phases: &mut Phases) -> Vec<String> {
    let mut told = Vec::new();
    phases.attempt("documents", || {
        run(cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))
    });
    phases.attempt("site", site::build);
    phases.attempt("dependencies", audit::dependencies);
    phases.attempt("virtual machine", || {
        told.push(match guest::missing() {
            None => guest::tests(&[])?,
            Some(why) => format!("guest tests left out: {why}"),
        });
        Ok(())
    });
    phases.attempt("iceberg", || engines::check_iceberg().map(|left_out| told.extend(left_out)));
    phases.attempt("fuzzing", || fuzz::fuzz(&["all".to_owned(), FUZZ_S.to_owned()]));
    phases.attempt("packages", || {
        match dist::tree::missing() {
            None => dist::run_chore(&["--check".to_owned()])?,
            Some(why) => told.push(format!("checks of packages left out: {why}")),
        }
        Ok(())
    });
    phases.attempt("release program", || audit::size().map(|size| told.push(size)));
    told
}

/// Whether clippy is the compiler of this workspace, so that a build has its lints. `.ci/run` says so.
fn clippy_compiles() -> bool {
    std::env::var("RUSTC_WORKSPACE_WRAPPER").is_ok_and(|wrapper| wrapper == "clippy-driver")
}

/// The parts of a check so far.
#[derive(Default)]
struct Phases {
    /// How long each took, in seconds.
    took: Vec<(&'static str, u64)>,
    /// Those that failed, and why.
    failed: Vec<String>,
}

impl Phases {
    /// Runs one and notes its time.
    fn take<T>(&mut self, name: &'static str, part: impl FnOnce() -> Result<T>) -> Result<T> {
        let begin = std::time::Instant::now();
        let result = part();
        self.took.push((name, begin.elapsed().as_secs()));
        result
    }

    /// The same for one that no later part needs: a full check takes hours, and tells all that is wrong.
    fn attempt(&mut self, name: &'static str, part: impl FnOnce() -> Result<()>) {
        if let Err(error) = self.take(name, part) {
            let failed = format!("failed: {name}: {error:#}");
            println!("{failed}");
            self.failed.push(failed);
        }
    }
}

impl std::fmt::Display for Phases {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<_> = self.took.iter().map(|(name, seconds)| format!("{name} {seconds} s")).collect();
        write!(to, "the time went to: {}", parts.join(", "))
    }
}

/// The cargo that runs this program.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Runs a command and shows it.
fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    println!("$ {line}");
    let status = command.status().with_context(|| line.clone())?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// A command as a shell takes it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// The root folder of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Builds the release program and returns its path.
fn release() -> Result<PathBuf> {
    release_with(&[])
}

/// The same, with further options of cargo.
fn release_with(options: &[&str]) -> Result<PathBuf> {
    // Not quiet: the first time it takes minutes.
    run(cargo().args(["build", "--release", "--package", "remora"]).args(options))?;
    Ok(target().join("release/remora"))
}

/// The folder for build results.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the release libraries of the plugins, beside the release program, and returns their paths.
fn plugins() -> Result<Vec<PathBuf>> {
    let remora = release()?;
    run(cargo().args(["build", "--release", "--quiet", "--package", "urlpack-plugin"]))?;
    Ok(vec![remora.with_file_name("liburlpack_udf.so")])
}

/// Installs the program, and the plugins where it looks for them.
fn install(arguments: &[String]) -> Result<()> {
    let folder = match arguments {
        [] => {
            let variable = |name| std::env::var_os(name).map(PathBuf::from);
            let cargo = || variable("CARGO_HOME").or_else(|| Some(variable("HOME")?.join(".cargo")));
            variable("CARGO_INSTALL_ROOT")
                .or_else(cargo)
                .context("HOME is not set; name a folder with --root")?
        }
        [option, folder] if option == "--root" => std::path::absolute(folder)?,
        _ => bail!("cargo xtask install [--root FOLDER]"),
    };
    run(cargo().args(["install", "--locked", "--force", "--path", "crates/remora", "--root"]).arg(&folder))?;
    let libraries = folder.join("lib/remora");
    std::fs::create_dir_all(&libraries)?;
    let mut placed = Vec::new();
    for built in plugins()? {
        let place = libraries.join(built.file_name().context("a library without a name")?);
        std::fs::copy(&built, &place).with_context(|| place.display().to_string())?;
        placed.push(place);
    }
    plugin::build_beside(&[], &placed)?;
    println!("remora is in {}, the plugins are in {}", folder.join("bin").display(), libraries.display());
    Ok(())
}

/// Where sandboxes and fetched servers are.
fn places() -> Result<sandbox::Places> {
    sandbox::Places::customary(|name| std::env::var_os(name))
        .context("neither XDG_CACHE_HOME nor HOME is set")
}

#[cfg(test)]
mod tests {
    use super::Phases;

    #[test]
    fn a_part_that_fails_does_not_end_a_full_check() {
        let mut phases = Phases::default();
        phases.attempt("site", || anyhow::bail!("a link leads nowhere"));
        phases.attempt("documents", || Ok(()));
        assert_eq!(phases.failed, ["failed: site: a link leads nowhere"]);
        assert_eq!(phases.to_string(), "the time went to: site 0 s, documents 0 s");
    }
}
