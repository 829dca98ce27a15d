//! The package for Go in clients/go: its own tests, in which workers are killed, and what every client relies
//! on, step by step through its driver.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::client_package::{Killed, run, serve_restarts, until};
use crate::server::Server;

/// The package needs Go 1.22.
const OLDEST: u32 = 22;

/// A folder for the copies and for what Go builds, or why there is no Go.
static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Go in a folder. What it builds is kept for the next run of the tests.
fn go(folder: &Path) -> Command {
    // Compilers reserve much more address space than they use.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v unlimited && exec go \"$@\"", "go"]).current_dir(folder);
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-client/cache");
    command.env("GOCACHE", cache).env("GOFLAGS", "-buildvcs=false").env("GOTOOLCHAIN", "local");
    command
}

/// Fetches the driver. An error if Go is too old.
fn prepare() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-client");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let told = Command::new("go").args(["env", "GOVERSION"]).output().map_err(|error| error.to_string())?;
    let version = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let digits = version.strip_prefix("go1.").unwrap_or_default();
    let minor: String = digits.chars().take_while(char::is_ascii_digit).collect();
    let is_new = minor.parse::<u32>().is_ok_and(|minor| minor >= OLDEST);
    if !is_new {
        return Err(format!("Go is older than 1.{OLDEST}: {version}"));
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/go/tests");
    run(go(&tests).args(["mod", "download"]))?;
    Ok(folder)
}

/// A copy of the package for a test. `None`, and reported, if there is no Go.
fn package(test: &str) -> Option<PathBuf> {
    match FOLDER.get_or_init(prepare) {
        Ok(folder) => {
            let copy = folder.join(test);
            std::fs::remove_dir_all(&copy).ok();
            std::fs::create_dir(&copy).unwrap();
            let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
            let from = ["go", "conformance"].map(|name| clients.join(name));
            run(Command::new("cp").arg("-r").args(from).arg(&copy)).unwrap();
            Some(copy.join("go"))
        }
        Err(why) => {
            // Debian 12 has an older Go, so a machine without it is no mistake.
            let why = format!("no Go with go-sql-driver could be made: {why}");
            sandbox::skipped(test, &why, |name| std::env::var_os(name));
            None
        }
    }
}

/// One of the programs in the package's tests, for a server.
fn program(package: &Path, name: &str, server: &Server) -> Command {
    let tests = package.join("tests");
    let built = tests.join(name).join("built");
    run(go(&tests).args(["build", "-o"]).arg(&built).arg(format!("./{name}"))).unwrap();
    let mut command = Command::new(built);
    command.current_dir(tests).env("REMORA_QUEUE_SOCKET", server.0.socket());
    command
}

#[test]
fn the_package_for_go_passes_its_tests() {
    let Some(package) = package("the_package_for_go_passes_its_tests") else { return };
    let server = Server::start_with(&["--log-bin"]);
    for folder in [package.clone(), package.join("tests")] {
        let mut tests = go(&folder);
        tests.args(["test", "-v", "-count=1", "-timeout=20m", "."]);
        let output = tests.env("REMORA_QUEUE_SOCKET", server.0.socket()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.contains("--- PASS: Test"), "{told}{wrong}");
    }
}

#[test]
fn the_driver_for_go_passes_the_steps_of_conformance() {
    let Some(package) = package("the_driver_for_go_passes_the_steps_of_conformance") else { return };
    let mut server = Server::start_with(&["--log-bin"]);
    let mut steps = program(&package, "conformance", &server);
    steps.env("REMORA_QUEUE_RESTARTS", "1");
    let piped = steps.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = piped.spawn().unwrap();
    serve_restarts(&mut server, &mut program);
    let output = program.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("left out"), "{told}");
}

#[test]
fn a_worker_in_go_does_each_job_once_though_the_server_is_killed() {
    let test = "a_worker_in_go_does_each_job_once_though_the_server_is_killed";
    let Some(package) = package(test) else { return };
    let mut server = Server::start_with(&["--log-bin"]);
    let mut client = server.connect("go_killed");
    client.run("CREATE TABLE done (n INT) ENGINE=InnoDB");
    client.run(
        "CREATE TABLE jobs (id CHAR(32) NOT NULL, payload LONGTEXT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1 \
         TRIES=50",
    );
    client.run("INSERT INTO jobs SELECT MD5(seq), seq FROM seq_1_to_300");
    let mut worker = program(&package, "work", &server);
    worker.args(["go_killed", "jobs", "transaction", "2"]);
    let worker = Killed(worker.spawn().unwrap());
    for least in [60, 150] {
        until(&mut client, &format!("SELECT COUNT(*) >= {least} FROM done"));
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        client = server.connect("go_killed");
    }
    until(&mut client, "SELECT COUNT(*) = 0 FROM jobs");
    drop(worker);
    assert_eq!(client.column("SELECT n FROM done ORDER BY n"), (1..=300).collect::<Vec<i64>>());
}
