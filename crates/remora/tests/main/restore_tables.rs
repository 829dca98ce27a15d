//! `remora restore --tables`: a table out of a backup, without restoring the rest.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::{Product, Sandbox};

use crate::extract::{execute, filled, folder, mariadb, run, session};
use crate::mount::{generation, is_mounted_in, is_possible};
use crate::support::{Ended, Running, remora, start, until};
use crate::verify_boot::volume;

/// A server that is killed: one table of some, one that is much larger, and some more things.
fn killed(product: Product) -> Sandbox {
    let mut server = filled(
        product,
        &[
            "CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(200), KEY (a))",
            "INSERT INTO orders SELECT seq, CONCAT('order ', seq, REPEAT('x', seq % 90)) FROM seq_1_to_20000",
            "CREATE TABLE large (id INT PRIMARY KEY, a VARBINARY(4000))",
            "INSERT INTO large SELECT seq, RANDOM_BYTES(1000) FROM seq_1_to_60000",
            "CREATE TABLE other (id INT PRIMARY KEY)",
            "INSERT INTO other VALUES (1), (2)",
            "CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW SET NEW.a = CONCAT(NEW.a, '!')",
        ],
    );
    // As in a server that has run for a while all pages are in their files, and a recovery will read few. A
    // slow shutdown, because the purge would change every row's transaction number afterwards.
    execute(&mut session(&server), &["SET GLOBAL innodb_fast_shutdown = 0"]);
    server.stop().unwrap();
    server.restart().unwrap();
    let mut one = session(&server);
    execute(&mut one, &["UPDATE orders SET a = 'last' WHERE id = 7"]);
    let mut open = session(&server);
    execute(&mut open, &["START TRANSACTION", "DELETE FROM orders WHERE id < 100"]);
    execute(&mut one, &["INSERT INTO other VALUES (3)"]);
    server.kill().unwrap();
    server
}

/// A number of a line of JSON.
fn number(line: &str, key: &str) -> u64 {
    let after = line.split(&format!("\"{key}\":")).nth(1).unwrap_or_else(|| panic!("no {key}: {line}"));
    after.split([',', '}']).next().unwrap().parse().unwrap()
}

/// What `remora load` makes of a dump, proven; and how many rows of the table there are.
fn loaded(folder: &Path, product: Product, dump: &str) -> (Sandbox, String) {
    let server = start(product, &["--local-infile=1"]);
    let url = format!("unix://root@{}", server.socket().display());
    run(folder, &["load", dump, "--url", &url, "--no-defaults"]).exits(0);
    let rows = session_of(&server);
    (server, rows)
}

fn session_of(server: &Sandbox) -> String {
    let mut session = crate::support::connect(server.socket());
    session.value("SELECT CONCAT(COUNT(*), ' ', SUM(a = 'last')) FROM app.orders").unwrap().unwrap()
}

#[test]
fn one_table_is_dumped_with_few_blocks_fetched() {
    if !is_possible() {
        return;
    }
    for product in mariadb() {
        let folder = folder();
        let folder = folder.path();
        let server = killed(product);
        generation(folder, server.data());
        let choice = ["--server", product.id()];
        let line = ["restore", "repo@1", "--tables", "app.orders", "--to", "dump", "--json"];
        let done = run(folder, &[&line[..], &choice].concat()).exits(0).out;
        let summary = done.lines().last().unwrap();
        assert_eq!((number(summary, "tables"), number(summary, "rows")), (1, 20_000), "{summary}");
        let stored = fs::metadata(folder.join("repo/data/000001.blk")).unwrap().len();
        let fetched = number(summary, "bytes_fetched");
        assert!(stored > 60_000_000 && fetched < stored / 4, "{fetched} of {stored} bytes");
        // The same as out of a restore.
        let (other, rows) = loaded(folder, product, "dump");
        assert_eq!(rows, "20000 1");
        run(folder, &["restore", "repo", "--to", "back"]).exits(0);
        let installation = sandbox::find(&crate::support::places(), product).unwrap();
        let settings = sandbox::Settings { data: Some(folder.join("back")), ..sandbox::Settings::default() };
        let whole = Sandbox::start(&installation, &crate::support::places(), &settings).unwrap();
        until("the open transaction is rolled back", || session_of(&whole) == "20000 1");
        let url = format!("unix://root@{}", whole.socket().display());
        run(folder, &["diff", "dump", &url, "--no-defaults"]).exits(0);
        drop((whole, other));
        // Nothing is left.
        assert!(!is_mounted_in(folder));
        let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 3, "{left:?}");
        run(folder, &["verify", "repo"]).exits(0);
    }
}

#[test]
fn wrong_names_and_impossible_options_are_explained() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    let mut server =
        filled(Product::MariaDb1011, &["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]);
    server.stop().unwrap();
    generation(folder, server.data());
    let restore = |more: &[&str]| run(folder, &[&["restore", "repo", "--tables"], more].concat());
    restore(&["app.none", "--to", "x"]).exits(1).says(&["app.none: there is no such database or table"]);
    restore(&["app.t", "--to", "repo"]).exits(2).says(&["exists already"]);
    restore(&["app.t", "--to", "x", "--until", "end"]).exits(2).says(&["no log is archived"]);
    restore(&["app.t", "--to", "x", "--path", "app"]).exits(2).says(&["cannot be used with"]);
    restore(&["app.t", "--to", "x", "--plan"]).exits(2).says(&["--plan need"]);
    restore(&["app.t", "--to", "ssh://root@none/x"]).exits(2).says(&["on this machine"]);
    restore(&["app.t", "--to", "x", "--server-option=--no-such-option"]).exits(1).says(&["no-such-option"]);
    run(folder, &["restore", "repo@9", "--tables", "app.t", "--to", "x"]).exits(1).says(&["generation 9"]);
    run(folder, &["restore", "repo", "--to", "x", "--server", "mariadb-10.11"]).exits(2).says(&["--tables"]);
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let ended = restore(&["app", "--to", "x"]).exits(0);
    // The private server's own log says nothing of the one that was backed up.
    assert!(!ended.err.contains("binary log"), "{}", ended.err);
    ended.says(&["1 table of data@1 in x: 1 row", "fetched from the repository"]);
}

#[test]
fn a_damaged_block_makes_no_dump() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
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
    generation(folder, server.data());
    let file = folder.join("repo/data/000001.blk");
    let mut stored = fs::read(&file).unwrap();
    let at = stored.windows(needle.len()).position(|found| found == needle).expect("the row");
    stored[at] ^= 1;
    fs::write(&file, stored).unwrap();
    let failed = run(folder, &["restore", "repo", "--tables", "app.t", "--to", "t"]).exits(4);
    failed.says(&["data/1/app/t.ibd: ", "000001.blk at byte", "no dump was made"]);
    assert!(!folder.join("t").exists());
    run(folder, &["restore", "repo", "--tables", "app.u", "--to", "u"]).exits(0);
}

#[test]
fn a_volume_too() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    let mut server = filled(
        Product::MariaDb1011,
        &["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)"],
    );
    server.kill().unwrap();
    volume(server.folder(), &folder.join("volume"));
    run(folder, &["backup", "file:volume", "--to", "repo"]).exits(0);
    run(folder, &["restore", "repo", "--tables", "app.t", "--to", "x"]).exits(0).says(&["2 rows"]);
}

#[test]
fn the_next_run_removes_the_leftovers_of_a_killed_one() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    let server = killed(Product::MariaDb1011);
    generation(folder, server.data());
    let line = ["restore", "repo", "--tables", "app.large", "--to", "dump", "--jobs", "1"];
    let mut command: Command = remora(folder);
    command.args(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::new(command.spawn().unwrap());
    let work = folder.join(".dump.remora");
    until("it dumps", || work.join("dump").exists());
    let refused: Ended = run(folder, &line).exits(11);
    refused.says(&["another run is making"]);
    running.kill();
    assert!(work.exists() && !folder.join("dump").exists());
    run(folder, &line).exits(0);
    assert!(folder.join("dump").exists() && !work.exists());
}
