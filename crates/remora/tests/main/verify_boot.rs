//! `remora verify --boot`: volumes with the data folder of a killed server.

use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::{Product, Sandbox};
use tempfile::TempDir;

use crate::mount::is_mounted_in;
use crate::support::{Ended, connect, of_today, products, remora, start, tell};

/// Makes a file system that holds this folder as it is on disk.
pub(crate) fn volume(folder: &Path, image: &Path) {
    let made = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-d"])
        .args([folder, image])
        .arg("300M")
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

fn run(folder: &TempDir, arguments: &[&str]) -> Ended {
    Ended::of(&remora(folder.path()).args(arguments).stdin(Stdio::null()).output().unwrap())
}

/// A server with rows in tables of two engines, in the middle of a transaction.
fn filled(product: Product) -> Sandbox {
    let server = start(product, &["--log-bin=binlog", "--server-id=1"]);
    let mut session = connect(server.socket());
    for statement in [
        "CREATE DATABASE app",
        "CREATE TABLE app.safe (id INT PRIMARY KEY, text VARCHAR(100)) ENGINE=InnoDB",
        "CREATE TABLE app.plain (id INT PRIMARY KEY) ENGINE=MyISAM",
        "INSERT INTO app.safe VALUES (1, 'needle in the haystack'), (2, 'x'), (3, 'y')",
        "INSERT INTO app.plain VALUES (1), (2)",
        "START TRANSACTION",
        "INSERT INTO app.safe VALUES (4, 'never committed')",
    ] {
        session.execute(statement).unwrap();
    }
    server
}

#[test]
fn a_booted_generation_has_all_committed_rows() {
    for product in of_today(products()) {
        tell(product);
        let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
        let mut server = filled(product);
        let end = connect(server.socket()).binary_log_status().unwrap().remove(0).remove(1).unwrap();
        server.kill().unwrap();
        let image = folder.path().join("volume");
        // The data folder is not at the top.
        volume(server.folder(), &image);
        run(&folder, &["backup", "file:volume", "--to", "repo"]).exits(0);
        run(&folder, &["verify", "repo", "--boot", "--work", ".", "--server", product.id()]).exits(0).says(
            &["volume@1 has been booted", "all sound", &format!("binary log position binlog.000001 {end}")],
        );
        assert!(!is_mounted_in(folder.path()));
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}

/// The blocks are as they were backed up, but a page in them does not match its checksum.
#[test]
fn a_table_that_was_damaged_before_the_backup_is_found() {
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
    let mut server = filled(Product::MariaDb1011);
    server.stop().unwrap();
    let table = server.data().join("app/safe.ibd");
    let mut bytes = std::fs::read(&table).unwrap();
    let needle = b"needle in the haystack";
    let at = bytes.windows(needle.len()).position(|found| found == needle).unwrap();
    bytes[at] = b'N';
    std::fs::write(table, bytes).unwrap();
    volume(server.folder(), &folder.path().join("volume"));
    run(&folder, &["backup", "file:volume", "--to", "repo"]).exits(0);
    run(&folder, &["verify", "repo"]).exits(0);
    let found = run(&folder, &["verify", "repo", "--boot"]).exits(4);
    assert!(found.out.contains("`app`.`safe`"), "{found:?}");
}

/// Pages newer than the end of the redo log: a copy whose files come from different points in time.
#[test]
fn errors_in_the_servers_log_make_a_generation_unsound() {
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
    let mut server = filled(Product::MariaDb1011);
    server.stop().unwrap();
    let early = folder.path().join("early");
    let copied = Command::new("cp").arg("--archive").args([server.data(), &early]).status();
    assert!(copied.unwrap().success());
    volume(&early, &folder.path().join("volume"));
    run(&folder, &["backup", "file:volume", "--to", "repo"]).exits(0);
    run(&folder, &["verify", "repo", "--boot"]).exits(0).says(&["all sound"]);
    // The tables are sound, but the server lacks something.
    let option = "--server-option=--plugin-load-add=none";
    let found = run(&folder, &["verify", "repo", "--boot", option]).exits(4);
    assert!(found.out.contains("the server says: ") && !found.out.contains("`app`"), "{found:?}");

    server.restart().unwrap();
    let mut session = connect(server.socket());
    session.execute("USE app").unwrap();
    session.execute("INSERT INTO safe SELECT seq, REPEAT('x', 50) FROM seq_10_to_100").unwrap();
    drop(session);
    server.stop().unwrap();
    std::fs::copy(server.data().join("app/safe.ibd"), early.join("app/safe.ibd")).unwrap();
    volume(&early, &folder.path().join("volume"));
    run(&folder, &["backup", "file:volume", "--to", "repo"]).exits(0);
    let found = run(&folder, &["verify", "repo", "--boot"]).exits(4);
    assert!(found.out.contains("in the future"), "{found:?}");
}

/// A server that does not start at all.
#[test]
fn errors_of_a_server_that_does_not_start_are_reported() {
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
    let mut server = filled(Product::MariaDb1011);
    server.kill().unwrap();
    let log = std::fs::OpenOptions::new().write(true).open(server.data().join("ib_logfile0")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&log, &[7; 16 << 10], 0).unwrap();
    volume(server.folder(), &folder.path().join("volume"));
    run(&folder, &["backup", "file:volume", "--to", "repo"]).exits(0);
    let found = run(&folder, &["verify", "repo", "--boot"]).exits(4);
    assert!(found.out.contains("a server does not start on it\nthe server says: InnoDB: "), "{found:?}");
    found.says(&["volume@1 could not be booted"]);
}

#[test]
fn a_volume_without_a_servers_data_is_reported() {
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    volume(&folder.path().join("empty"), &folder.path().join("nothing"));
    std::fs::write(folder.path().join("text"), "no file system").unwrap();
    let linked = folder.path().join("linked");
    std::fs::create_dir(&linked).unwrap();
    std::fs::write(linked.join("ibdata1"), [0; 16 << 10]).unwrap();
    std::os::unix::fs::symlink("/var/lib/mysql/app", linked.join("app")).unwrap();
    volume(&linked, &folder.path().join("link"));
    run(&folder, &["backup", "file:nothing", "file:text", "file:link", "--to", "repo"]).exits(0);
    run(&folder, &["verify", "repo/nothing", "--boot"]).exits(1).says(&["no ibdata1", "--data-folder"]);
    run(&folder, &["verify", "repo/link", "--boot"]).exits(1).says(&["app leads out of the volume"]);
    run(&folder, &["verify", "repo/text", "--boot"]).exits(1).says(&["no file system in the volume"]);
}

/// What was proven once is not proven any more when a server does not find all of it.
#[test]
fn damage_that_a_server_meets_takes_the_proof_back() {
    if !mount::is_possible() {
        return;
    }
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
    let server = filled(Product::MariaDb1011);
    let source = format!("mysql:{}", server.socket().display());
    let copy = ["backup", &source, "--no-defaults", "-u", "root", "--to", "repo", "--name", "v"];
    run(&folder, &[&copy[..], &["--way", "copy", "--prove"]].concat()).exits(0);
    let listed = |state: &str| {
        let ended = run(&folder, &["list", "repo"]);
        assert!(ended.out.contains(state), "{state}: {}", ended.out);
    };
    listed("proven");
    let path = folder.path().join("repo/v/000001.blk");
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    let range = good.len() / 10..good.len() / 10 * 8;
    range.step_by(8 << 10).for_each(|at| bad[at] ^= 1);
    std::fs::write(&path, bad).unwrap();
    run(&folder, &["verify", "repo", "--boot"])
        .exits(4)
        .says(&["verifying all of v, to find and note all damage"]);
    listed("DAMAGED");
    std::fs::write(&path, good).unwrap();
    run(&folder, &["verify", "repo"]).exits(0);
    listed("proven");
}
