//! What the tests of client packages share: programs in other languages, and a server that they stop or kill.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::server::{Client, Server};

/// Runs a command. An error with the end of what it said when it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr);
    let last = told.lines().last().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("{}: {last}", output.status)) }
}

/// Stops or kills the server and starts it again, whenever a program asks for it with a line.
pub(crate) fn serve_restarts(server: &mut Server, program: &mut Child) {
    let mut answers = program.stdin.take().unwrap();
    for line in BufReader::new(program.stdout.take().unwrap()).lines() {
        match line.unwrap().as_str() {
            "stop" => server.0.stop().unwrap(),
            "kill" => server.0.kill().unwrap(),
            other => panic!("{other}"),
        }
        server.0.restart().unwrap();
        answers.write_all(b"done\n").unwrap();
    }
}

/// Waits until a statement gives 1.
pub(crate) fn until(client: &mut Client, sql: &str) {
    let started = Instant::now();
    while client.value(sql) != Some(1) {
        assert!(started.elapsed() < Duration::from_secs(60), "{sql}");
    }
}

/// A program that ends with the test, also when that fails.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
