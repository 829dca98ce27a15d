//! The package for Ruby in clients/ruby: its own tests, in which workers are killed, and what every client
//! relies on, step by step through its drivers.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::client_package::{Killed, run, serve_restarts, until};
use crate::server::Server;

/// Whether there is a Ruby with a driver and minitest for a test. If there is none, that is reported.
fn has_ruby(test: &str, driver: &str) -> bool {
    let needed = format!("exit 1 if RUBY_VERSION < '3.1'; require 'minitest'; require '{driver}'");
    let Err(error) = run(Command::new("ruby").args(["-e", &needed])) else { return true };
    let why = format!("there is no Ruby 3.1 with {driver} and minitest: {error}");
    // Debian has no trilogy, so a machine without it is no mistake.
    let may_be_missing = driver != "mysql2" || std::env::var_os("REMORA_TEST_ALL_SERVERS").is_none();
    assert!(may_be_missing, "{why}");
    sandbox::skipped(test, &why, |name| std::env::var_os(name));
    false
}

/// One of the programs in the package's tests, for a server.
fn program(name: &str, server: &Server, driver: &str) -> Command {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/ruby/tests");
    let mut command = Command::new("ruby");
    command.current_dir(tests).arg(name);
    command.env("REMORA_QUEUE_SOCKET", server.0.socket()).env("REMORA_QUEUE_DRIVER", driver);
    command
}

fn tests_of_the_package(test: &str, driver: &str) {
    if !has_ruby(test, driver) {
        return;
    }
    let server = Server::start_with(&["--log-bin"]);
    let output = program("all.rb", &server, driver).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains(", 0 failures, 0 errors, 0 skips"), "{told}{wrong}");
    // Active Job, Active Record or Rails may be missing here.
    for line in told.lines() {
        if let Some(why) = line.strip_prefix("left out: ") {
            sandbox::skipped(test, why, |name| std::env::var_os(name));
        }
    }
}

#[test]
fn the_package_for_ruby_passes_its_tests() {
    tests_of_the_package("the_package_for_ruby_passes_its_tests", "mysql2");
}

#[test]
fn the_package_for_ruby_passes_its_tests_with_trilogy() {
    tests_of_the_package("the_package_for_ruby_passes_its_tests_with_trilogy", "trilogy");
}

fn steps_of_conformance(test: &str, driver: &str) {
    if !has_ruby(test, driver) {
        return;
    }
    let mut server = Server::start_with(&["--log-bin"]);
    let mut steps = program("conformance.rb", &server, driver);
    steps.env("REMORA_QUEUE_RESTARTS", "1");
    let piped = steps.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = piped.spawn().unwrap();
    serve_restarts(&mut server, &mut program);
    let output = program.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("left out"), "{told}");
}

#[test]
fn the_driver_mysql2_for_ruby_passes_the_steps_of_conformance() {
    steps_of_conformance("the_driver_mysql2_for_ruby_passes_the_steps_of_conformance", "mysql2");
}

#[test]
fn the_driver_trilogy_for_ruby_passes_the_steps_of_conformance() {
    steps_of_conformance("the_driver_trilogy_for_ruby_passes_the_steps_of_conformance", "trilogy");
}

#[test]
fn a_worker_in_ruby_does_each_job_once_though_the_server_is_killed() {
    if !has_ruby("a_worker_in_ruby_does_each_job_once_though_the_server_is_killed", "mysql2") {
        return;
    }
    let mut server = Server::start_with(&["--log-bin"]);
    let mut client = server.connect("ruby_killed");
    client.run("CREATE TABLE done (n INT) ENGINE=InnoDB");
    client.run(
        "CREATE TABLE jobs (id CHAR(32) NOT NULL, payload LONGTEXT NOT NULL) ENGINE=QUEUE TRANSACTIONAL=1 \
         TRIES=50",
    );
    client.run("INSERT INTO jobs SELECT MD5(seq), seq FROM seq_1_to_300");
    let mut worker = program("work.rb", &server, "mysql2");
    worker.args(["ruby_killed", "jobs", "transaction", "2"]);
    let worker = Killed(worker.spawn().unwrap());
    for least in [60, 150] {
        until(&mut client, &format!("SELECT COUNT(*) >= {least} FROM done"));
        server.0.kill().unwrap();
        server.0.restart().unwrap();
        client = server.connect("ruby_killed");
    }
    until(&mut client, "SELECT COUNT(*) = 0 FROM jobs");
    drop(worker);
    assert_eq!(client.column("SELECT n FROM done ORDER BY n"), (1..=300).collect::<Vec<i64>>());
}
