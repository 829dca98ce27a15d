//! `remora extract` on files of MySQL, whose definitions are in the tablespaces themselves.

use std::path::Path;

use sandbox::{Product, Sandbox};

use crate::extract::{UNSETTLED, data, execute, filled, folder, run, session, text};
use crate::extract_backup::{back_up, place};
use crate::support::{mysql97, start};

/// Tables of every shape, one statement after the other.
const TABLES: &str = include_str!("../extract/mysql.sql");
const COUNT: usize = 18;

/// The statements that make the tables. The file has umlauts by other names.
fn statements() -> Vec<String> {
    let umlauts = [("<a>", "\u{e4}"), ("<o>", "\u{f6}"), ("<u>", "\u{fc}")];
    let text = umlauts.iter().fold(TABLES.to_owned(), |text, (name, letter)| text.replace(name, letter));
    text.split(";\n").map(str::to_owned).collect()
}

fn url(server: &Sandbox) -> String {
    format!("unix://root@{}", server.socket().display())
}

/// The rows of each table in the folder equal those of a dump by the server. Returns the number of tables.
fn equal_a_dump(rows: &Path, dump: &Path) -> usize {
    let names: Vec<_> = std::fs::read_dir(rows).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in &names {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let dumped = dump.join(name);
        let expected = if dumped.exists() { text(&dumped) } else { String::new() };
        let found = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
        assert!(found == expected, "{name}: {found:.2000}\n--- the server says\n{expected:.2000}");
    }
    names.len()
}

#[test]
fn every_table_of_mysql_equals_a_dump() {
    let Some(_) = mysql97("every_table_of_mysql_equals_a_dump") else { return };
    let folder = folder();
    let at = folder.path();
    let statements = statements();
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    let mut server = filled(Product::MySql97, &statements);
    let dump = ["dump", "app", "-o", "dump", "--compress", "none", "--no-history", "--url", &url(&server)];
    run(at, &dump).exits(0);
    run(at, &["extract", &data(&server), "-o", "rows"]).exits(1).says(&["a server is running"]);
    server.kill().unwrap();
    run(at, &["extract", &data(&server), "-o", "rows"]).exits(1).says(&["not shut down cleanly"]);
    server.restart().unwrap();
    server.stop().unwrap();
    run(at, &["extract", &data(&server), "-o", "rows"]).exits(0).says(&[&format!("rows of {COUNT} tables")]);
    assert_eq!(equal_a_dump(&at.join("rows"), &at.join("dump")), COUNT);

    // The definitions are complete, so that a server makes the same tables of them.
    run(at, &["extract", &data(&server), "-o", "made", "--format", "dump"])
        .exits(3)
        .says(&["views, routines, triggers and events"]);
    let target = start(Product::MySql97, &["--local-infile=1"]);
    run(at, &["load", "made", "--no-users", "--url", &url(&target)]).exits(0);
    let lines = |dump: &str| {
        let schema = std::fs::read_to_string(at.join(dump).join("schema/1-tables.sql")).unwrap();
        let is_of_table = |line: &&str| !line.starts_with("CREATE DATABASE");
        let lines: Vec<String> = schema.lines().filter(is_of_table).map(without_counter).collect();
        lines.join("\n")
    };
    let (made, expected) = (lines("made"), lines("dump"));
    for (made, expected) in made.lines().zip(expected.lines()) {
        assert_eq!(made, expected);
    }
    server.restart().unwrap();
    // A server shows another text of a collation that was said.
    let ended = run(at, &["diff", &url(&server), &url(&target), "--no-users"]);
    let mut lines = ended.out.lines().filter(|line| !line.contains("rows compared"));
    assert!(lines.all(|line| line.contains(": defined otherwise: ")), "{}", ended.out);
}

/// The counter is in no file.
fn without_counter(line: &str) -> String {
    let Some((before, after)) = line.split_once(" AUTO_INCREMENT=") else { return line.to_owned() };
    let end = after.find(' ').unwrap_or(after.len());
    format!("{before}{}", &after[end..])
}

#[test]
fn tables_of_other_places_are_read_or_named() {
    let Some(_) = mysql97("tables_of_other_places_are_read_or_named") else { return };
    let folder = folder();
    let at = folder.path();
    let mut server = filled(
        Product::MySql97,
        &[
            "CREATE TABLESPACE many ADD DATAFILE 'many.ibd'",
            "CREATE TABLE one (a INT PRIMARY KEY, b TEXT) TABLESPACE many",
            "CREATE TABLE two (a INT PRIMARY KEY) TABLESPACE many",
            "INSERT INTO one VALUES (1, REPEAT('x', 30000))",
            "INSERT INTO two VALUES (2)",
            "CREATE TABLE three (a INT PRIMARY KEY) TABLESPACE innodb_system",
            "INSERT INTO three VALUES (3)",
            "CREATE TABLE zip (a INT PRIMARY KEY) ROW_FORMAT=COMPRESSED",
            "CREATE TABLE redundant (a INT PRIMARY KEY) ROW_FORMAT=REDUNDANT",
            "CREATE TABLE pages (a INT PRIMARY KEY) COMPRESSION='zlib'",
            "CREATE TABLE old (a INT) ENGINE=MyISAM",
        ],
    );
    server.stop().unwrap();
    let data = data(&server);
    run(at, &["extract", &data, "-o", "rows"]).exits(3).says(&[
        "`app`.`zip`",
        "compressed",
        "`app`.`redundant`: the table has ROW_FORMAT=REDUNDANT",
        "`app`.`pages`",
        "its pages are compressed (COMPRESSION)",
        "`app`.`old`: it has only an .sdi file: its engine is another one",
        "of 3 tables",
    ]);
    let row = |name: &str| std::fs::read_to_string(at.join("rows").join(name)).unwrap();
    assert_eq!((row("app.two.tsv"), row("app.three.tsv")), ("2\n".to_owned(), "3\n".to_owned()));
    assert_eq!(row("app.one.tsv").len(), 30_003);
    let own = run(at, &["extract", &format!("{data}/many.ibd"), "app.two", "-o", "-"]).exits(0);
    assert_eq!(own.out, "2\n");
    let users = run(at, &["extract", &data, "mysql.user", "-o", "-"]).exits(0);
    assert!(users.out.contains("localhost\troot\tY"), "{}", users.out);
    // A file of a partition that is missing is not rows that are missing.
    server.restart().unwrap();
    execute(&mut session(&server), &["CREATE TABLE p (a INT) PARTITION BY HASH(a) PARTITIONS 2"]);
    server.stop().unwrap();
    std::fs::remove_file(server.data().join("app/p#p#p1.ibd")).unwrap();
    run(at, &["extract", &data, "app.p", "-o", "-"]).exits(1).says(&["tablespace", "is not beside"]);
    run(at, &["extract", &format!("{data}/app/p#p#p0.ibd"), "-o", "-"]).exits(0);
}

#[test]
fn exported_and_unsettled_files_of_mysql() {
    let Some(_) = mysql97("exported_and_unsettled_files_of_mysql") else { return };
    let folder = folder();
    let at = folder.path();
    let mut server = filled(
        Product::MySql97,
        &["CREATE TABLE x (id INT PRIMARY KEY, a TEXT)", "INSERT INTO x VALUES (1, 'x'), (2, NULL)"],
    );
    let mut session = session(&server);
    session.execute("FLUSH TABLES x FOR EXPORT").unwrap();
    std::fs::create_dir(at.join("shop")).unwrap();
    for name in ["x.ibd", "x.cfg"] {
        std::fs::copy(server.data().join("app").join(name), at.join("shop").join(name)).unwrap();
    }
    session.execute("UNLOCK TABLES").unwrap();
    assert_eq!(run(at, &["extract", "shop", "-o", "-"]).exits(0).out, "1\tx\n2\t\\N\n");
    // As IMPORT TABLESPACE leaves it beside a table with another number.
    let cfg = std::fs::read(at.join("shop/x.cfg")).unwrap();
    execute(&mut session, &["CREATE TABLE y LIKE x", "FLUSH TABLES y FOR EXPORT"]);
    std::fs::copy(server.data().join("app/y.cfg"), at.join("shop/x.cfg")).unwrap();
    session.execute("UNLOCK TABLES").unwrap();
    run(at, &["extract", "shop", "-o", "-"]).exits(1).says(&["x.cfg belongs to another tablespace"]);
    std::fs::write(at.join("shop/x.cfg"), &cfg[..60]).unwrap();
    run(at, &["extract", "shop", "-o", "-"]).exits(1).says(&["x.cfg does not say which tablespace"]);
    std::fs::write(at.join("shop/x.cfg"), cfg).unwrap();
    std::fs::rename(at.join("shop/x.ibd"), at.join("shop/copy.ibd")).unwrap();
    run(at, &["extract", "shop/copy.ibd", "-o", "-"]).exits(1).says(&["there is no copy.cfg"]);
    assert_eq!(run(at, &["extract", "shop/copy.ibd", "--force", "-o", "-"]).exits(0).out, "1\tx\n2\t\\N\n");

    execute(&mut session, &UNSETTLED);
    server.stop().unwrap();
    run(at, &["extract", &data(&server), "-o", "rows"])
        .exits(1)
        .says(&["1 transaction that was neither committed nor rolled back"]);
    server.restart().unwrap();
    execute(&mut crate::extract::session(&server), &["XA ROLLBACK 'x'"]);
    server.stop().unwrap();
    // Undo tablespaces that can't be read could have anything.
    let undo = server.data().join("undo_001");
    let sound = std::fs::read(&undo).unwrap();
    let mut damaged = sound.clone();
    damaged[3 * 16_384 + 100] ^= 1;
    std::fs::write(&undo, damaged).unwrap();
    run(at, &["extract", &data(&server), "-o", "rows"]).exits(1).says(&["undo_001"]);
    for name in ["undo_001", "undo_002"] {
        std::fs::rename(server.data().join(name), at.join(name)).unwrap();
    }
    run(at, &["extract", &data(&server), "-o", "rows"]).exits(1).says(&["the undo tablespaces are missing"]);
    std::fs::rename(at.join("undo_002"), server.data().join("undo_002")).unwrap();
    std::fs::write(&undo, sound).unwrap();
    run(at, &["extract", &data(&server), "-o", "rows"]).exits(0);
}

#[test]
fn deleted_rows_and_damaged_pages_of_mysql() {
    let Some(_) = mysql97("deleted_rows_and_damaged_pages_of_mysql") else { return };
    let folder = folder();
    let at = folder.path();
    let mut server = filled(
        Product::MySql97,
        &[
            "SET SESSION cte_max_recursion_depth = 100000",
            "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100), j JSON)",
            "INSERT INTO t WITH RECURSIVE s AS (SELECT 1 i UNION ALL SELECT i + 1 FROM s WHERE i < 10000) \
             SELECT i, REPEAT('a', 100), JSON_ARRAY(i) FROM s",
            "ALTER TABLE t ADD COLUMN n INT DEFAULT 5, ALGORITHM=INSTANT",
            "DELETE FROM t WHERE id BETWEEN 2000 AND 3000",
        ],
    );
    execute(&mut session(&server), &["SET GLOBAL innodb_fast_shutdown = 0"]);
    server.stop().unwrap();
    run(at, &["extract", &data(&server), "app.t", "--deleted", "-o", "rows"]).exits(0);
    let found = std::fs::read_to_string(at.join("rows/app.t.deleted.tsv")).unwrap();
    // Purge takes single rows, and what a page has then is a few copies.
    let (mut rows, mut pages) = (0, 0);
    for line in found.lines() {
        let values: Vec<&str> = line.split('\t').collect();
        assert!(values.len() == 6 && values[4] == format!("[{}]", values[2]) && values[5] == "5", "{line}");
        assert!((2000..=3000).contains(&values[2].parse().unwrap()), "{line}");
        (rows, pages) = (rows + 1, pages + usize::from(values[0] == "page"));
    }
    assert!(rows > 20 && pages > 10, "{rows} {pages}");

    let file = server.data().join("app/t.ibd");
    let sound = std::fs::read(&file).unwrap();
    let damage = |page: usize| {
        let mut bytes = sound.clone();
        bytes[page * 16_384 + 5000] ^= 4;
        std::fs::write(&file, &bytes).unwrap();
    };
    // The page of the definition, and a leaf.
    damage(3);
    run(at, &["extract", &data(&server), "app.t", "-o", "-"]).exits(4).says(&["t.ibd", "page 3"]);
    damage(20);
    run(at, &["extract", &data(&server), "app.t", "-o", "-"]).exits(4).says(&["t.ibd", "page 20"]);
    let ended = run(at, &["extract", &data(&server), "app.t", "--force", "-o", "left.tsv"]);
    ended.exits(4).says(&["left out", "page 20"]);
    let left = std::fs::read_to_string(at.join("left.tsv")).unwrap().lines().count();
    assert!((8_500..8_999).contains(&left), "{left}");
}

#[test]
fn generations_of_mysql_are_extracted() {
    let Some(_) = mysql97("generations_of_mysql_are_extracted") else { return };
    let Some(volume) = place() else { return };
    let mut server = filled(
        Product::MySql97,
        &["CREATE TABLE x (id INT PRIMARY KEY, a JSON)", "INSERT INTO x VALUES (1, '[1]'), (2, NULL)"],
    );
    server.kill().unwrap();
    back_up(&volume, &server);
    let read = volume.remora(&["extract", "repo", "app.x", "-o", "-"]).exits(0);
    assert_eq!(read.out, "1\t[1]\n2\t\\N\n");
    read.says(&["a private MySQL 9.7", "recovers a copy of it first"]);
    server.restart().unwrap();
    server.stop().unwrap();
    back_up(&volume, &server);
    let read = volume.remora(&["extract", "repo", "app.x", "-o", "-"]).exits(0);
    assert!(read.out == "1\t[1]\n2\t\\N\n" && !read.err.contains("private"), "{}", read.err);
}
