//! `remora extract` reads a generation of a backup as if it were the folder that was backed up.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::{Product, Sandbox};

use crate::extract::{TABLES, UNSETTLED, data, execute, filled, folder, mariadb, run, session, text};
use crate::support::{Ended, connect, remora, start};
use crate::tree::{self, Volume};
use crate::verify_boot::volume;

/// Rows that nobody has committed when the server ends: more than are rolled back in a moment.
const MANY: u32 = 300_000;

/// A volume on which folders can be backed up.
pub(crate) fn place() -> Option<Volume> {
    Volume::new("xfs").or_else(|| Volume::new("btrfs"))
}

/// Makes the folder on the volume a copy of the server's data, and a generation of it.
pub(crate) fn back_up(volume: &Volume, server: &Sandbox) {
    back_up_as(volume, server, "");
}

/// The same with the data in a folder below.
fn back_up_as(volume: &Volume, server: &Sandbox, below: &str) {
    let top = volume.top().join("data");
    if !top.exists() {
        volume.data();
    }
    for old in names(&top) {
        tree::run(Command::new("rm").arg("-rf").arg(old));
    }
    std::fs::create_dir_all(top.join(below)).unwrap();
    tree::run(Command::new("cp").arg("--archive").arg(server.data().join(".")).arg(top.join(below)));
    let source = format!("{}:{}", volume.kind, top.display());
    volume.remora(&["backup", &source, "--to", "repo", "--no-prove"]).exits(0);
}

/// The text of all tables in the output folder.
fn rows(volume: &Volume, output: &str) -> String {
    text(&volume.folder.path().join(output))
}

/// What is in a folder, by name.
fn names(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_generation_is_extracted_like_the_folder() {
    for product in mariadb() {
        let Some(volume) = place() else { return };
        let statements: Vec<&str> = TABLES.split(";\n").collect();
        let mut server = filled(product, &statements);
        server.stop().unwrap();
        back_up(&volume, &server);
        volume.remora(&["extract", &data(&server), "-o", "folder"]).exits(0);
        let read = volume.remora(&["extract", "repo", "-o", "backup"]).exits(0);
        read.says(&["reading data@1 of 20", "rows of 25 tables"]);
        assert!(rows(&volume, "backup") == rows(&volume, "folder"));

        server.restart().unwrap();
        let changes =
            ["UPDATE node SET name = 'changed' WHERE id % 30 = 0", "DELETE FROM split WHERE k < '3'"];
        execute(&mut session(&server), &changes);
        server.stop().unwrap();
        back_up(&volume, &server);
        volume.remora(&["extract", &data(&server), "-o", "folder2"]).exits(0);
        volume.remora(&["extract", "repo/data", "-o", "backup2"]).exits(0).says(&["data@2"]);
        assert!(rows(&volume, "backup2") == rows(&volume, "folder2"));
        volume.remora(&["extract", "repo@1", "-o", "again"]).exits(0);
        assert!(rows(&volume, "again") == rows(&volume, "folder"));

        let one = volume.remora(&["extract", "repo@2", "app.node", "-o", "-"]).exits(0);
        assert!(one.out.lines().filter(|line| line.ends_with("\tchanged")).count() == 10_000, "{}", one.err);
        let both = volume.remora(&["extract", "repo@2", "app.node", "-o", "-", "--json"]).exits(2);
        assert!(both.out.contains("standard output is for the data"), "{}", both.out);
        volume.remora(&["extract", "repo@2", "app.none", "-o", "-"]).exits(2).says(&["no such table"]);
        volume.remora(&["extract", "repo@7", "-o", "-"]).exits(1).says(&["no generation 7"]);
        volume.remora(&["extract", "mnt@1", "-o", "-"]).exits(1).says(&["there is no backup in mnt"]);
        volume.remora(&["extract", "repo/dat@1", "-o", "-"]).exits(1).says(&["it has those of data"]);
    }
}

#[test]
fn damage_outside_of_the_tables_does_not_disturb_an_extract() {
    let Some(volume) = place() else { return };
    // Values that can't be compressed are found in the repository as they are.
    let mut server = filled(
        Product::MariaDb1011,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, a VARBINARY(900))",
            "INSERT INTO t SELECT seq, RANDOM_BYTES(900) FROM seq_1_to_5000",
            "CREATE TABLE u (id INT PRIMARY KEY)",
            "INSERT INTO u VALUES (7)",
        ],
    );
    let needle = session(&server).value("SELECT HEX(a) FROM t WHERE id = 2500").unwrap().unwrap();
    let bytes = (0..100).map(|at| u8::from_str_radix(&needle[2 * at..2 * at + 2], 16).unwrap());
    let needle: Vec<u8> = bytes.collect();
    server.stop().unwrap();
    std::os::unix::fs::symlink("/nowhere", server.data().join("elsewhere")).unwrap();
    back_up(&volume, &server);
    let file = volume.folder.path().join("repo/data/000001.blk");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(needle.len()).position(|found| found == needle).expect("the row");
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(volume.remora(&["extract", "repo", "app.u", "-o", "-"]).exits(0).out, "7\n");
    let ended = volume.remora(&["extract", "repo", "-o", "rows"]).exits(4);
    ended.says(&["not extracted: `app`.`t`", "000001.blk at byte", "elsewhere: a symbolic link to /nowhere"]);
    assert_eq!(rows(&volume, "rows"), "7\n");
    let forced = volume.remora(&["extract", "repo", "app.t", "--force", "-o", "t.tsv"]).exits(4);
    forced.says(&["left out: data/app/t.ibd"]);
    let lines = std::fs::read(volume.folder.path().join("t.tsv")).unwrap();
    let lines = lines.split(|byte| *byte == b'\n').count();
    // Sixteen pages are one group of the backup.
    assert!((4_600..5_000).contains(&lines), "{lines}");
}

/// A server with a committed and a large open transaction, killed; and what it has after its own recovery.
fn killed(product: Product) -> (Sandbox, String) {
    let server = start(product, &["--innodb-log-file-size=256M"]);
    let mut one = session(&server);
    execute(
        &mut one,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100))",
            "INSERT INTO t VALUES (1, 'committed'), (2, 'too')",
            "CREATE TABLE u (id INT PRIMARY KEY, a CHAR(100))",
        ],
    );
    execute(&mut one, &[&format!("INSERT INTO u SELECT seq, 'old' FROM seq_1_to_{MANY}")]);
    let mut server = server;
    let mut other = connect(server.socket());
    execute(&mut other, &["USE app", "START TRANSACTION", "UPDATE u SET a = 'never committed'"]);
    execute(&mut one, &["INSERT INTO t VALUES (3, 'last')"]);
    server.kill().unwrap();
    (server, "1\tcommitted\n2\ttoo\n3\tlast\n".to_owned())
}

#[test]
fn a_generation_of_a_server_that_ran_is_recovered() {
    for product in mariadb() {
        let Some(volume) = place() else { return };
        let (server, expected) = killed(product);
        back_up(&volume, &server);
        let work = volume.folder.path().join("work");
        std::fs::create_dir(&work).unwrap();
        // The server that fits is found by the definitions, where nothing else tells its version.
        let choice = ["--work", "work"];
        let read = |arguments: &[&str]| volume.remora(&[&["extract", "repo"], arguments, &choice].concat());
        let ended = read(&["-o", "rows"]).exits(0);
        ended.says(&[
            "the redo log is ahead of the tables",
            &format!("a private {product} recovers a copy of it"),
        ]);
        let of = |name: &str| std::fs::read_to_string(volume.folder.path().join("rows").join(name)).unwrap();
        assert_eq!(of("app.t.tsv"), expected);
        let old = of("app.u.tsv").lines().filter(|line| line.ends_with("\told")).count();
        assert_eq!(old, usize::try_from(MANY).unwrap(), "the open transaction is rolled back, all of it");
        assert_eq!(names(&work), Vec::<PathBuf>::new(), "nothing stays");

        // The server does not start.
        let failed = read(&["-o", "failed", "--server-option=--no-such-option"]).exits(1);
        failed.says(&["has to be recovered by a server", "no-such-option", "--force"]);
        assert_eq!(names(&work), Vec::<PathBuf>::new(), "nothing stays after a failure either");
        assert!(!volume.folder.path().join("failed").exists());
        // Nothing is restored for an output or a definition that can't be.
        for (more, word) in [
            (&["-o", "rows"][..], "the folder is not empty"),
            (&["-o", "rows", "--format", "dump"], "rows exists already"),
            (&["-o", "rows/app.t.tsv", "app.t"], "the file exists already"),
            (&["-o", "-", "app.t", "--schema", "none.sql"], "--schema none.sql"),
        ] {
            let ended = read(more).exits(1).says(&[word]);
            assert!(!ended.err.contains("a private"), "{}", ended.err);
        }
        // As it is.
        read(&["app.t", "-o", "-", "--force"]).exits(0).says(&["the redo log is ahead of the tables"]);
    }
}

#[test]
fn the_server_that_recovers_must_be_installed() {
    let Some(volume) = place() else { return };
    let (server, _) = killed(Product::MariaDb1011);
    back_up(&volume, &server);
    std::fs::create_dir(volume.folder.path().join("empty")).unwrap();
    let mut command = remora(volume.folder.path());
    command.env("XDG_CACHE_HOME", volume.folder.path().join("empty"));
    command.args(["extract", "repo", "-o", "rows", "--server", "mariadb-11.4"]);
    let ended = Ended::of(&command.output().unwrap()).exits(1);
    let ended =
        ended.says(&["has to be recovered by a server", "11.4", "is not available", "run: ", "--force"]);
    assert!(!ended.err.contains("a private"), "it is said before anything is restored: {}", ended.err);
}

#[test]
fn a_backup_with_prepared_transactions_is_refused_after_recovery() {
    let Some(volume) = place() else { return };
    let mut server = filled(Product::MariaDb1011, &UNSETTLED);
    server.stop().unwrap();
    back_up_as(&volume, &server, "lib/mysql");
    let ended = volume.remora(&["extract", "repo", "-o", "rows"]).exits(1);
    ended.says(&["a server has recovered data@1, and still", "1 transaction", "--force"]);
    for place in ["lib/mysql", "/lib/mysql"] {
        let forced = ["extract", "repo", "app.t", "-o", "-", "--force", "--data-folder", place];
        assert_eq!(volume.remora(&forced).exits(0).out, "1\n");
    }
    let wrong = ["extract", "repo", "-o", "-", "--data-folder", "lib/none"];
    volume.remora(&wrong).exits(1).says(&["data/lib/none: there is no such file or folder"]);
    assert!(!volume.folder.path().join("rows").exists());
}

#[test]
fn a_volume_is_restored_and_read() {
    let folder = folder();
    let (server, expected) = killed(Product::MariaDb1011);
    volume(server.folder(), &folder.path().join("volume"));
    run(folder.path(), &["backup", "file:volume", "--to", "repo"]).exits(0);
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let ended = run(folder.path(), &["extract", "repo", "app.t", "-o", "-", "--work", "work"]).exits(0);
    assert_eq!(ended.out, expected);
    ended.says(&["repo is a volume", "recovers a copy of it first"]);
    assert_eq!(names(&folder.path().join("work")), Vec::<PathBuf>::new());
}

/// Its `.cfg` stays beside a table that was imported. This one even is of the same tablespace.
#[test]
fn a_cfg_file_in_a_backup_is_no_proof_of_an_export() {
    for product in mariadb() {
        let Some(volume) = place() else { return };
        let make = [
            "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))",
            "INSERT INTO t SELECT seq, 'old' FROM seq_1_to_100",
            "FLUSH TABLES t FOR EXPORT",
        ];
        let mut server = start(product, &[]);
        let mut one = session(&server);
        execute(&mut one, &make);
        let path = server.data().join("app/t.cfg");
        let cfg = std::fs::read(&path).unwrap();
        execute(&mut one, &["UNLOCK TABLES"]);
        std::fs::write(&path, cfg).unwrap();
        server.stop().unwrap();
        back_up(&volume, &server);
        server.restart().unwrap();
        execute(&mut session(&server), &["UPDATE t SET a = 'new' WHERE id <= 50"]);
        server.kill().unwrap();
        assert!(path.exists(), "what the test is about");
        back_up(&volume, &server);
        let read = |number: u32, more: &[&str]| {
            let generation = format!("repo@{number}");
            volume.remora(&[&["extract", &generation, "app.t", "-o", "-"], more].concat())
        };
        let first = read(1, &[]).exits(0);
        assert_eq!(first.out.matches("\told\n").count(), 100);
        assert!(!first.err.contains("redo log"), "{}", first.err);
        let second = read(2, &["--server", product.id()]).exits(0);
        let second = second.says(&["the redo log is ahead of the tables", "recovers a copy of it"]);
        assert_eq!(second.out.matches("\tnew\n").count(), 50);
        read(2, &["--force"]).exits(0).says(&["the redo log is ahead of the tables"]);
    }
}
