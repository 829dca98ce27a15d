//! `remora extract` reads out of files what the server itself reports.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use sandbox::{Product, Sandbox};
use server::Session;
use tempfile::TempDir;

use crate::support::{Ended, connect, mariadbs, of_today, remora, start, tell, until};

/// Tables of every shape, one statement after the other.
pub(crate) const TABLES: &str = include_str!("../extract/tables.sql");

/// A page of a table's file.
const PAGE_BYTES: usize = 16_384;

pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Ended {
    Ended::of(&remora(folder).args(arguments).stdin(Stdio::null()).output().unwrap())
}

pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap()
}

/// The servers whose redo log tells whether they were stopped.
pub(crate) fn mariadb() -> impl Iterator<Item = Product> {
    of_today(mariadbs()).into_iter().inspect(|product| tell(*product))
}

pub(crate) fn session(server: &Sandbox) -> Session {
    let mut session = connect(server.socket());
    session.execute("CREATE DATABASE IF NOT EXISTS app CHARACTER SET utf8mb4 COLLATE utf8mb4_bin").unwrap();
    session.execute("USE app").unwrap();
    session
}

pub(crate) fn execute(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// A server that has these tables.
pub(crate) fn filled(product: Product, statements: &[&str]) -> Sandbox {
    let server = start(product, &[]);
    execute(&mut session(&server), statements);
    server
}

pub(crate) fn data(server: &Sandbox) -> String {
    server.data().to_str().unwrap().to_owned()
}

/// The lines of all files of a folder in order.
pub(crate) fn text(folder: &Path) -> String {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().map(|name| String::from_utf8_lossy(&std::fs::read(name).unwrap()).into_owned()).collect()
}

/// Every table's text must equal that of a dump of the same server, written by the server.
#[test]
fn every_extracted_table_equals_a_dump() {
    for product in mariadb() {
        let folder = folder();
        let statements: Vec<&str> = TABLES.split(";\n").collect();
        let mut server = filled(product, &statements);
        let socket = server.socket().to_str().unwrap();
        let connection = ["--no-defaults", "-u", "root", "-S", socket];
        let dump =
            [&["dump", "app", "-o", "dump", "--compress", "none", "--no-history"][..], &connection].concat();
        run(folder.path(), &dump).exits(0);
        server.stop().unwrap();
        run(folder.path(), &["extract", &data(&server), "-o", "rows"]).exits(0).says(&["rows of 25 tables"]);
        let mut tables = 0;
        for entry in std::fs::read_dir(folder.path().join("rows")).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap();
            let dumped = folder.path().join("dump").join(name);
            let expected = if dumped.exists() { text(&dumped) } else { String::new() };
            let found = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
            assert!(found == expected, "{name}: {found:.2000}\n--- the server says\n{expected:.2000}");
            tables += 1;
        }
        assert_eq!(tables, 25);
    }
}

#[test]
fn a_server_that_runs_or_was_killed_is_refused() {
    for product in mariadb() {
        let folder = folder();
        let mut server =
            filled(product, &["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]);
        let arguments = |output| ["extract", &data(&server), "app.t", "-o", output].map(ToOwned::to_owned);
        let running = arguments("running.tsv");
        let running: Vec<&str> = running.iter().map(String::as_str).collect();
        run(folder.path(), &running).exits(1).says(&["a server is running", "--force"]);
        server.kill().unwrap();
        run(folder.path(), &running).exits(1).says(&["not shut down cleanly", "--force"]);
        assert!(!folder.path().join("running.tsv").exists());
        server.restart().unwrap();
        server.stop().unwrap();
        run(folder.path(), &["extract", &data(&server), "app.t", "-o", "-"]).exits(0);
        run(folder.path(), &["extract", &data(&server), "app.x", "-o", "-"])
            .exits(2)
            .says(&["no such table"]);
    }
}

/// A server makes a checkpoint when it starts; what is committed right after it is in the log alone.
#[test]
fn a_server_killed_after_its_first_change_is_refused() {
    for product in mariadb() {
        let folder = folder();
        let table = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(2000), KEY (a(500)))";
        let mut server = filled(product, &[table, "INSERT INTO t (a) SELECT seq FROM seq_1_to_1000"]);
        for change in [
            "INSERT INTO t (a) VALUES (REPEAT('x', 2000))",
            "UPDATE t SET a = REPEAT('y', 1000) WHERE id = 500",
            "DELETE FROM t WHERE id < 900",
        ] {
            server.stop().unwrap();
            server.restart().unwrap();
            execute(&mut session(&server), &[change]);
            server.kill().unwrap();
            let ended = run(folder.path(), &["extract", &data(&server), "app.t", "-o", "-"]);
            assert!(
                ended.code == 1 && ended.err.contains("not shut down cleanly"),
                "{change}: {}",
                ended.err
            );
            server.restart().unwrap();
        }
    }
}

/// A row whose transaction is neither committed nor rolled back, and survives every recovery so.
pub(crate) const UNSETTLED: [&str; 5] = [
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "XA START 'x'",
    "INSERT INTO t VALUES (1)",
    "XA END 'x'",
    "XA PREPARE 'x'",
];

#[test]
fn uncommitted_changes_are_refused() {
    for product in mariadb() {
        let folder = folder();
        let mut server = filled(product, &UNSETTLED);
        server.stop().unwrap();
        let arguments = ["extract", &data(&server), "-o", "rows"];
        run(folder.path(), &arguments)
            .exits(1)
            .says(&["1 transaction that was neither committed nor rolled back"]);
        let forced = run(folder.path(), &[&arguments[..], &["--force"]].concat()).exits(0);
        assert!(forced.err.contains("1 transaction"), "{}", forced.err);
        assert_eq!(text(&folder.path().join("rows")), "1\n");
    }
}

#[test]
fn a_damaged_page_is_named_and_left_out_by_force() {
    for product in mariadb() {
        let folder = folder();
        let mut server = filled(
            product,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100))",
                "INSERT INTO t SELECT seq, REPEAT('a', 100) FROM seq_1_to_10000",
                "CREATE TABLE u (id INT PRIMARY KEY)",
                "INSERT INTO u VALUES (7)",
            ],
        );
        server.stop().unwrap();
        let file = server.data().join("app/t.ibd");
        let mut bytes = std::fs::read(&file).unwrap();
        // A page in the middle of the leaves, and a bit in the middle of it.
        bytes[20 * PAGE_BYTES + 5000] ^= 4;
        std::fs::write(&file, &bytes).unwrap();
        let ended = run(folder.path(), &["extract", &data(&server), "-o", "rows"]).exits(4);
        assert_eq!(ended.err.matches("wrong checksum").count(), 1, "{}", ended.err);
        ended.says(&["t.ibd", "page 20", "wrong checksum"]);
        run(folder.path(), &["extract", &data(&server), "app.t", "-o", "alone"]).exits(4);
        assert!(!folder.path().join("alone").exists(), "nothing came");
        assert_eq!(text(&folder.path().join("rows")), "7\n", "the other table is there, and only that");
        let forced = run(
            folder.path(),
            &["extract", &data(&server), "app.t", "--force", "-o", "t.csv", "--format", "csv"],
        );
        forced.exits(4).says(&["left out", "page 20"]);
        let lines = std::fs::read_to_string(folder.path().join("t.csv")).unwrap().lines().count();
        assert!((9_700..10_000).contains(&lines), "{lines}");
    }
}

/// Copies the files of FLUSH TABLES ... FOR EXPORT while it holds.
fn export(server: &Sandbox, session: &mut Session, to: &Path) {
    session.execute("FLUSH TABLES t FOR EXPORT").unwrap();
    std::fs::create_dir_all(to).unwrap();
    for end in ["ibd", "cfg", "frm"] {
        let name = format!("t.{end}");
        std::fs::copy(server.data().join("app").join(&name), to.join(&name)).unwrap();
    }
    session.execute("UNLOCK TABLES").unwrap();
}

#[test]
fn exported_files_are_enough() {
    for product in mariadb() {
        let folder = folder();
        let server = filled(
            product,
            &["CREATE TABLE t (id INT PRIMARY KEY, a TEXT)", "INSERT INTO t VALUES (1, 'x'), (2, NULL)"],
        );
        let mut session = session(&server);
        let definition = session.strings("SHOW CREATE TABLE t").unwrap().remove(0).remove(1).unwrap();
        let copy = folder.path().join("shop");
        export(&server, &mut session, &copy);
        let read = |arguments: &[&str]| run(folder.path(), &[&["extract"], arguments, &["-o", "-"]].concat());
        assert_eq!(read(&["shop"]).exits(0).out, "1\tx\n2\t\\N\n");
        assert_eq!(read(&["shop/t.ibd", "shop.t", "--format", "csv"]).exits(0).out, "1,x\n2,\n");
        std::fs::remove_file(copy.join("t.frm")).unwrap();
        read(&["shop/t.ibd"]).exits(1).says(&["t.frm", "--schema"]);
        read(&["shop/t.ibd", "--schema", "none.sql"]).exits(1).says(&["--schema none.sql: No such file"]);
        std::fs::write(folder.path().join("t.sql"), &definition).unwrap();
        assert_eq!(read(&["shop/t.ibd", "--schema", "t.sql"]).exits(0).out, "1\tx\n2\t\\N\n");
        // Another definition does not fit the records.
        std::fs::write(folder.path().join("t.sql"), definition.replace("int(11)", "bigint(20)")).unwrap();
        read(&["shop/t.ibd", "--schema", "t.sql"]).exits(4).says(&["page 3", "definition"]);
        std::fs::remove_file(copy.join("t.cfg")).unwrap();
        read(&["shop/t.ibd"]).exits(1).says(&["t.cfg", "FOR EXPORT", "--force"]);
    }
}

/// The tables of a server while FLUSH TABLES ... FOR EXPORT holds all of them.
#[test]
fn every_exported_table_is_trusted() {
    for product in mariadb() {
        let folder = folder();
        let statements: Vec<&str> = TABLES.split(";\n").collect();
        let server = filled(product, &statements);
        let mut session = session(&server);
        let tables = "SELECT GROUP_CONCAT('`', table_name, '`') FROM information_schema.tables \
                      WHERE table_schema = 'app' AND engine = 'InnoDB'";
        let tables = session.value(tables).unwrap().unwrap();
        session.execute(&format!("FLUSH TABLES {tables} FOR EXPORT")).unwrap();
        let app = folder.path().join("app");
        std::fs::create_dir(&app).unwrap();
        for entry in std::fs::read_dir(server.data().join("app")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), app.join(entry.file_name())).unwrap();
        }
        run(folder.path(), &["extract", &data(&server), "app", "-o", "held"])
            .exits(1)
            .says(&["a server is running", "copy the files while FLUSH TABLES ... FOR EXPORT holds"]);
        session.execute("UNLOCK TABLES").unwrap();
        run(folder.path(), &["extract", "app", "-o", "rows"]).exits(0).says(&["rows of 25 tables"]);
    }
}

/// IMPORT TABLESPACE leaves the `.cfg` that it was given where it is.
#[test]
fn a_cfg_file_left_by_an_import_is_no_proof_of_an_export() {
    for product in mariadb() {
        let folder = folder();
        let mut server = filled(
            product,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))",
                "INSERT INTO t SELECT seq, 'old' FROM seq_1_to_100",
                "CREATE TABLE u LIKE t",
                "ALTER TABLE u DISCARD TABLESPACE",
            ],
        );
        let mut session = session(&server);
        export(&server, &mut session, &folder.path().join("copy"));
        let own = server.data().join("app");
        for end in ["ibd", "cfg"] {
            let from = folder.path().join(format!("copy/t.{end}"));
            std::fs::copy(from, own.join(format!("u.{end}"))).unwrap();
        }
        let update = "UPDATE u SET a = 'new' WHERE id <= 50";
        execute(&mut session, &["ALTER TABLE u IMPORT TABLESPACE", update]);
        assert!(own.join("u.cfg").exists(), "what the test is about");
        let read = |source: &Path, table: &str| {
            run(folder.path(), &["extract", source.to_str().unwrap(), table, "-o", "-"])
        };
        read(server.data(), "app.u").exits(1).says(&["a server is running"]);
        read(&own.join("u.ibd"), "app.u").exits(1).says(&["a server is running"]);
        // A folder of its own, as with DATA DIRECTORY, where nothing shows that a server runs on it.
        let away = folder.path().join("app");
        std::fs::create_dir(&away).unwrap();
        for end in ["ibd", "cfg", "frm"] {
            std::fs::copy(own.join(format!("u.{end}")), away.join(format!("u.{end}"))).unwrap();
        }
        read(&away, "app.u").exits(1).says(&["u.cfg belongs to another tablespace", "FOR EXPORT"]);
        let open = std::fs::File::options().append(true).open(folder.path().join("copy/t.ibd")).unwrap();
        read(&folder.path().join("copy"), "copy.t").exits(1).says(&["a server has", "t.ibd open"]);
        drop(open);
        read(&folder.path().join("copy"), "copy.t").exits(0);
        server.stop().unwrap();
        let rows = read(server.data(), "app.u").exits(0).out;
        assert_eq!(rows.matches("new").count(), 50);
        server.restart().unwrap();
        execute(&mut connect(server.socket()), &["UPDATE app.u SET a = 'newer'"]);
        server.kill().unwrap();
        read(server.data(), "app.u").exits(1).says(&["not shut down cleanly"]);
    }
}

#[test]
fn deleted_rows_are_found() {
    for product in mariadb() {
        let folder = folder();
        let server = filled(
            product,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100))",
                "INSERT INTO t SELECT seq, CONCAT('row ', seq) FROM seq_1_to_20000",
            ],
        );
        let mut other = session(&server);
        // A session that still sees the rows keeps them from being purged.
        execute(&mut other, &["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM t"]);
        let mut session = session(&server);
        execute(&mut session, &["DELETE FROM t WHERE id % 100 = 0"]);
        export(&server, &mut session, &folder.path().join("marked"));
        let arguments = ["extract", "marked", "--deleted", "-o", "found"];
        run(folder.path(), &arguments).exits(0).says(&["rows left of deleted ones"]);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("found/marked.t.tsv").lines().count(), 19_800);
        let deleted = read("found/marked.t.deleted.tsv");
        assert_eq!(deleted.lines().filter(|line| line.starts_with("marked\t")).count(), 200);
        assert!(deleted.starts_with("marked\t") && deleted.contains("\t100\trow 100\n"), "{deleted:.500}");
        // After the purge, the pages of the rows are free and still there.
        execute(&mut other, &["COMMIT"]);
        execute(&mut session, &["DELETE FROM t WHERE id BETWEEN 5000 AND 15000"]);
        let mut round = 0;
        until("rows in free pages", || {
            let name = format!("free{round}");
            round += 1;
            export(&server, &mut session, &folder.path().join(&name));
            run(folder.path(), &["extract", &name, "--deleted", "-o", &format!("{name}.found")]).exits(0);
            let deleted = read(&format!("{name}.found/{name}.t.deleted.tsv"));
            let in_pages: Vec<&str> = deleted.lines().filter(|line| line.starts_with("page\t")).collect();
            in_pages.iter().filter(|line| line.contains("\trow 9")).count() > 900 && in_pages.len() > 8000
        });
    }
}

/// What a running server purges while its files are read would be lost.
#[test]
fn deleted_rows_are_read_in_copies() {
    for product in mariadb() {
        let folder = folder();
        let server = filled(
            product,
            &[
                "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100))",
                "INSERT INTO t SELECT seq, CONCAT('row ', seq) FROM seq_1_to_2000",
            ],
        );
        let mut other = session(&server);
        execute(&mut other, &["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM t"]);
        let mut session = session(&server);
        execute(&mut session, &["DELETE FROM t WHERE id % 10 = 0"]);
        export(&server, &mut session, &folder.path().join("app"));
        let work = folder.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let read = |source: &str, to: &str| {
            let more = ["--force", "--deleted", "--work", "work", "-o", to];
            run(folder.path(), &[&["extract", source, "app.t"], &more[..]].concat())
        };
        read(&data(&server), "live").exits(0).says(&["a server is running", "copied first"]);
        let deleted = std::fs::read_to_string(folder.path().join("live/app.t.deleted.tsv")).unwrap();
        assert_eq!(deleted.lines().filter(|line| line.starts_with("marked\t")).count(), 200);
        // The server names what it has; a damaged page shows which file was read.
        let file = folder.path().join("app/t.ibd");
        std::fs::remove_file(file.with_extension("cfg")).unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[4 * 16384 + 300] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        read("app/t.ibd", "found").exits(4).says(&["work/remora-boot-", "/t.ibd: wrong checksum"]);
        assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "no copy is left");
        std::fs::remove_dir(&work).unwrap();
        read("app/t.ibd", "none").exits(1).says(&["a folder to work in"]);
    }
}
