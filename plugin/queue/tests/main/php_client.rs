//! The package for PHP in clients/php: its own tests, in which workers are killed, and what every client
//! relies on, step by step through its driver.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::client_package::{Killed, run, serve_restarts, until};
use crate::server::Server;

/// Exits with 0 if PHP is what the package and its tests need.
const NEEDED: &str =
    "exit(PHP_VERSION_ID >= 80100 && extension_loaded('pdo_mysql') && extension_loaded('pcntl') ? 0 : 1);";

/// Whether there is a PHP for a test. If there is none, that is reported.
fn has_php(test: &str) -> bool {
    let Err(error) = run(Command::new("php").args(["-r", NEEDED])) else { return true };
    let why = format!("there is no PHP 8.1 with pdo_mysql and pcntl: {error}");
    assert!(std::env::var_os("REMORA_TEST_ALL_SERVERS").is_none(), "{why}");
    sandbox::skipped(test, &why, |name| std::env::var_os(name));
    false
}

/// One of the programs in the package's tests, for a server.
fn program(name: &str, server: &Server) -> Command {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/php/tests");
    let mut command = Command::new("php");
    command.current_dir(tests).arg(name).env("REMORA_QUEUE_SOCKET", server.0.socket());
    command
}

#[test]
fn the_package_for_php_passes_its_tests() {
    let test = "the_package_for_php_passes_its_tests";
    if !has_php(test) {
        return;
    }
    let server = Server::start_with(&["--log-bin"]);
    let output = program("run.php", &server).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains(" tests, 0 failed"), "{told}{wrong}");
    // Messenger or Laravel may be missing here.
    for line in told.lines() {
        if let Some(why) = line.strip_prefix("left out: ") {
            sandbox::skipped(test, why, |name| std::env::var_os(name));
        }
    }
}

fn steps_of_conformance(test: &str, prepares: &str) {
    if !has_php(test) {
        return;
    }
    let mut server = Server::start_with(&["--log-bin"]);
    let mut steps = program("conformance.php", &server);
    steps.arg(prepares).env("REMORA_QUEUE_RESTARTS", "1");
    let piped = steps.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = piped.spawn().unwrap();
    serve_restarts(&mut server, &mut program);
    let output = program.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("left out"), "{told}");
}

#[test]
fn the_driver_for_php_passes_the_steps_of_conformance() {
    steps_of_conformance("the_driver_for_php_passes_the_steps_of_conformance", "emulated");
}

#[test]
fn the_driver_for_php_passes_the_steps_of_conformance_with_parameters_in_the_server() {
    let test = "the_driver_for_php_passes_the_steps_of_conformance_with_parameters_in_the_server";
    steps_of_conformance(test, "native");
}

#[test]
fn a_worker_in_php_does_each_job_once_though_the_server_is_killed() {
    if !has_php("a_worker_in_php_does_each_job_once_though_the_server_is_killed") {
        return;
    }
    let mut server = Server::start_with(&["--log-bin"]);
    let mut client = server.connect("php_killed");
    client.run("CREATE TABLE done (n INT) ENGINE=InnoDB");
    client.run(
        "CREATE TABLE jobs (id CHAR(32) NOT NULL, payload LONGTEXT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1 \
         TRIES=50",
    );
    client.run("INSERT INTO jobs SELECT MD5(seq), seq FROM seq_1_to_300");
    let mut worker = program("work.php", &server);
    worker.args(["php_killed", "jobs", "transaction", "2"]);
    let worker = Killed(worker.spawn().unwrap());
    for least in [60, 150] {
        until(&mut client, &format!("SELECT COUNT(*) >= {least} FROM done"));
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        client = server.connect("php_killed");
    }
    until(&mut client, "SELECT COUNT(*) = 0 FROM jobs");
    drop(worker);
    assert_eq!(client.column("SELECT n FROM done ORDER BY n"), (1..=300).collect::<Vec<i64>>());
}
