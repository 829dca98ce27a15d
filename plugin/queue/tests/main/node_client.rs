//! The package for Node in clients/node: its own tests, in which workers are killed, and what every client
//! relies on, step by step through two drivers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::client_package::{Killed, run, serve_restarts, until};
use crate::server::Server;

/// What the package and its tests are used with.
const PACKAGES: [&str; 4] = ["mysql2", "mariadb", "typescript", "@types/node"];

/// A folder whose `node_modules` has the packages, or why there is none.
static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Installs the packages. A folder that is there is taken, if it has them all.
fn prepare() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("node-client");
    let new = "process.exitCode = parseInt(process.versions.node) < 20 ? 1 : 0";
    run(Command::new("node").args(["-e", new])).map_err(|why| format!("Node is older than 20? {why}"))?;
    if PACKAGES.iter().all(|package| folder.join("node_modules").join(package).is_dir()) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).args(PACKAGES);
    run(&mut npm)?;
    Ok(folder)
}

/// A copy of the package for a test, where Node finds the others. `None`, and reported, if there is no Node.
fn package(test: &str) -> Option<PathBuf> {
    match FOLDER.get_or_init(prepare) {
        Ok(folder) => {
            let copy = folder.join(test);
            std::fs::remove_dir_all(&copy).ok();
            std::fs::create_dir(&copy).unwrap();
            let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
            let from = ["node", "conformance"].map(|name| clients.join(name));
            run(Command::new("cp").arg("-r").args(from).arg(&copy)).unwrap();
            // What somebody has installed there to work on the package.
            std::fs::remove_dir_all(copy.join("node/node_modules")).ok();
            Some(copy.join("node"))
        }
        Err(why) => {
            // Debian 12 has an older Node, so a machine without it is no mistake.
            let why = format!("no Node with {} could be made: {why}", PACKAGES.join(", "));
            sandbox::skipped(test, &why, |name| std::env::var_os(name));
            None
        }
    }
}

/// Node in the folder of the package, for a server.
fn command(package: &Path, server: &Server) -> Command {
    // It reserves much more address space than it uses.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v unlimited && exec node \"$@\"", "node"]);
    command.current_dir(package).env("REMORA_QUEUE_SOCKET", server.0.socket());
    command
}

#[test]
fn the_package_for_node_passes_its_tests() {
    let Some(package) = package("the_package_for_node_passes_its_tests") else { return };
    let server = Server::start_with(&["--log-bin"]);
    let output = command(&package, &server).args(["--test", "--test-reporter=tap"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !told.contains("# tests 0"), "{told}");
}

#[test]
fn drivers_for_node_pass_the_steps_of_conformance() {
    let Some(package) = package("drivers_for_node_pass_the_steps_of_conformance") else { return };
    let mut server = Server::start_with(&["--log-bin"]);
    for driver in ["mysql2", "mariadb"] {
        let mut steps = command(&package, &server);
        steps.args(["tests/conformance.js", driver]).env("REMORA_QUEUE_RESTARTS", "1");
        let piped = steps.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = piped.spawn().unwrap();
        serve_restarts(&mut server, &mut program);
        let output = program.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !told.contains("left out"), "{driver}: {told}");
    }
}

#[test]
fn a_worker_in_node_does_each_job_once_though_the_server_is_killed() {
    let test = "a_worker_in_node_does_each_job_once_though_the_server_is_killed";
    let Some(package) = package(test) else { return };
    let mut server = Server::start_with(&["--log-bin"]);
    for driver in ["mysql2", "mariadb"] {
        let mut client = server.connect(driver);
        client.run("CREATE TABLE done (n INT) ENGINE=InnoDB");
        client.run(
            "CREATE TABLE jobs (id CHAR(32) NOT NULL, payload LONGTEXT NOT NULL) ENGINE=QUEUE \
             TRANSACTIONAL=1 TRIES=50",
        );
        client.run("INSERT INTO jobs SELECT MD5(seq), seq FROM seq_1_to_300");
        let mut worker = command(&package, &server);
        worker.args(["tests/work.js", driver, "jobs", "transaction", driver, "2"]);
        let worker = Killed(worker.spawn().unwrap());
        for least in [60, 150] {
            until(&mut client, &format!("SELECT COUNT(*) >= {least} FROM done"));
            server.0.kill().unwrap();
            server.0.restart().unwrap();
            client = server.connect(driver);
        }
        until(&mut client, "SELECT COUNT(*) = 0 FROM jobs");
        drop(worker);
        assert_eq!(client.column("SELECT n FROM done ORDER BY n"), (1..=300).collect::<Vec<i64>>());
    }
}
