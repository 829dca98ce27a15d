//! A private server, started and ended in every way.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

use std::path::Path;
use std::process::Command;

use sandbox::{Places, Product, Sandbox, Settings};

fn places() -> Places {
    Places { cache: Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache") }
}

fn sql(server: &Sandbox, text: &str) -> String {
    let output = Command::new(sandbox::client().unwrap())
        .args(["--no-defaults", "-u", "root", "-N", "-B", "-S"])
        .arg(server.socket())
        .args(["-e", text])
        .output()
        .unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_server_starts_keeps_its_data_over_restart_and_kill_and_vanishes() {
    let installation = sandbox::find(&places(), Product::MariaDb1011).unwrap();
    let begin = std::time::Instant::now();
    let mut server = Sandbox::start(&installation, &places(), &Settings::default()).unwrap();
    println!("start {:?}", begin.elapsed());
    sql(&server, "CREATE DATABASE a; CREATE TABLE a.t (x INT) ENGINE=InnoDB; INSERT INTO a.t VALUES (1)");
    server.restart().unwrap();
    sql(&server, "INSERT INTO a.t VALUES (2)");
    server.kill().unwrap();
    assert!(!server.is_running());
    server.restart().unwrap();
    assert_eq!(sql(&server, "SELECT x FROM a.t ORDER BY x"), "1\n2\n");
    let folder = server.folder().to_owned();
    let begin = std::time::Instant::now();
    drop(server);
    println!("drop {:?}", begin.elapsed());
    assert!(!folder.exists());
}
