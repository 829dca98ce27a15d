//! Data files outside of the data folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::{Product, Sandbox};
use tempfile::TempDir;

use super::page::fresh;
use super::step::Behind;
use super::{ENGINES, OPTIONS, Scene, Stops, server, servers, sound, under_load};
use crate::ssh;
use crate::support::{connect, tell};
use crate::tree::Volume;

/// A scene with everything outside that can be: by settings, by definitions, by links.
struct Outside {
    scene: Scene,
    folder: TempDir,
}

impl Outside {
    fn new(product: Product) -> Outside {
        tell(product);
        let folder = tempfile::Builder::new().prefix("remora-outside-").tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for name in ["system", "more", "undo", "aria", "tables", "linked"] {
            fs::create_dir(place(name)).unwrap();
        }
        let data = place("data");
        fresh(product, &data);
        for entry in fs::read_dir(&data).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let to = match &*name {
                "ibdata1" => "system",
                name if name.starts_with("undo0") => "undo",
                name if name.starts_with("aria_log") => "aria",
                _ => continue,
            };
            fs::rename(data.join(&name), place(to).join(&name)).unwrap();
            // What is left in the data folder of an earlier time is no part of it.
            fs::write(data.join(&name), "old").unwrap();
        }
        let (system, more) = (place("system").display().to_string(), place("more").display().to_string());
        let options = [
            format!("--innodb-data-file-path={system}/ibdata1:12M;{more}/ibdata2:8M:autoextend"),
            "--innodb-data-home-dir=".to_owned(),
            format!("--innodb-undo-directory={}", place("undo").display()),
            format!("--aria-log-dir-path={}", place("aria").display()),
            // A slow machine must not lose what the writers log.
            "--innodb-log-file-size=96M".to_owned(),
        ];
        let options: Vec<&str> = OPTIONS.into_iter().chain(options.iter().map(String::as_str)).collect();
        let server = server(product, &options, &[], Some(data));
        let mut scene = Scene::of(product, server, Vec::new());
        scene.options = vec!["--innodb-data-file-path=ibdata1:12M;ibdata2:8M:autoextend".to_owned()];
        let outside = Outside { scene, folder };
        outside.fill();
        outside
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `DATA DIRECTORY` of a table.
    fn directory(&self) -> String {
        format!("DATA DIRECTORY='{}'", self.place("tables").display())
    }

    /// The tables that writers fill are outside, and so is a database.
    fn fill(&self) {
        let (data, linked) = (self.scene.server.data(), self.place("linked"));
        fs::create_dir(linked.join("far")).unwrap();
        symlink(linked.join("far"), data.join("far")).unwrap();
        let mut session = connect(self.scene.server.socket());
        session.execute("USE app").unwrap();
        let (directory, columns) =
            (self.directory(), "(id INT PRIMARY KEY, pad VARCHAR(2000) NOT NULL)".to_owned());
        for (number, engine) in ENGINES.iter().enumerate() {
            let index = directory.replace("DATA", if *engine == "InnoDB" { "DATA" } else { "INDEX" });
            let index = if *engine == "InnoDB" { "" } else { &index };
            let sql =
                format!("CREATE OR REPLACE TABLE w{number} {columns} ENGINE={engine} {directory} {index}");
            session.execute(&sql).unwrap();
        }
        for sql in [
            format!(
                "CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (50) \
                 {directory}, PARTITION p1 VALUES LESS THAN MAXVALUE)"
            ),
            "INSERT INTO parts SELECT seq FROM seq_1_to_100".to_owned(),
            "CREATE TABLE far.one (id INT PRIMARY KEY)".to_owned(),
            "CREATE TABLE far.two (id INT PRIMARY KEY) ENGINE=MyISAM".to_owned(),
            "INSERT INTO far.one SELECT seq FROM seq_1_to_300".to_owned(),
            "INSERT INTO far.two SELECT seq FROM seq_1_to_200".to_owned(),
            format!("CREATE TABLE still (id INT PRIMARY KEY) {directory}"),
            "INSERT INTO still SELECT seq FROM seq_1_to_700".to_owned(),
        ] {
            session.execute(&sql).unwrap();
        }
        // Others may have their tables there.
        fs::write(self.place("tables/app/stray.ibd"), [7; 16_384]).unwrap();
        fs::write(self.place("tables/stray.MYD"), "x").unwrap();
    }

    /// All files outside of the data folder, with what is in them.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.folder.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.symlink_metadata().unwrap() {
                    about if about.is_dir() => folders.push(path),
                    about if about.is_file() => drop(files.insert(path.clone(), fs::read(path).unwrap())),
                    _ => {}
                }
            }
        }
        files
    }
}

/// What a server on a copy has of the tables that nobody writes to.
fn has_all(back: &Sandbox) {
    let mut session = connect(back.socket());
    for (table, count) in [("app.parts", 100), ("far.one", 300), ("far.two", 200), ("app.still", 700)] {
        let found = session.value(&format!("SELECT CONCAT(COUNT(*), ' ', SUM(id)) FROM {table}"));
        assert_eq!(found.unwrap().unwrap(), format!("{count} {}", count * (count + 1) / 2), "{table}");
    }
    sound(&mut session);
}

/// Changes definitions of tables outside, until it is over.
fn define(server: &Sandbox, directory: &str, over: &AtomicBool) {
    let mut session = connect(server.socket());
    session.execute("USE app").unwrap();
    let rows = "SELECT seq, REPEAT('x', 200) FROM seq_1_to_100";
    while !over.load(Ordering::Relaxed) {
        for sql in [
            "DROP TABLE IF EXISTS o1, o2".to_owned(),
            format!("CREATE TABLE o1 (id INT PRIMARY KEY, pad VARCHAR(255)) {directory}"),
            format!("INSERT INTO o1 {rows}"),
            "ALTER TABLE o1 FORCE".to_owned(),
            "RENAME TABLE o1 TO o2".to_owned(),
            "ALTER TABLE o2 ADD COLUMN more INT, ALGORITHM=COPY".to_owned(),
            "TRUNCATE TABLE o2".to_owned(),
        ] {
            session.strings(&sql).unwrap();
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

#[test]
fn what_is_outside_is_in_the_copy_and_nothing_outside_is_touched() {
    for product in servers() {
        let mut outside = Outside::new(product);
        outside.scene.fill(20_000);
        for number in 1..=2 {
            let (scene, over) = (&outside.scene, AtomicBool::new(false));
            under_load(scene, |_| {
                std::thread::scope(|scope| {
                    scope.spawn(|| define(&scene.server, &outside.directory(), &over));
                    let stops = Stops(&over);
                    scene.backup(&["--rate", "30M"]).exits(0).says(&[&format!("mysql@{number} (")]);
                    drop(stops);
                });
            });
        }
        // A server on the copy would use these files of the original if it used any.
        outside.scene.server.stop().unwrap();
        let before = outside.files();
        outside.scene.is_exact();
        has_all(&outside.scene.back());
        let files = outside.scene.run(&["list", "repo", "--files"]).exits(0).out;
        assert!(files.contains("/tables/app/still.ibd") && !files.contains("stray"), "{files}");
        let told = outside.place("told").display().to_string();
        let said = outside.scene.run(&["restore", "repo", "--to", &told]).exits(0);
        for name in ["system", "more", "undo", "aria", "tables", "tables/app", "linked/far"] {
            let place = outside.place(name).display().to_string();
            assert!(
                said.err.contains(&format!("{place},")) || said.err.contains(&format!("{place} ")),
                "{place}: {}",
                said.err
            );
        }
        said.says(&[
            "without innodb_data_home_dir",
            "='ibdata1:12M;ibdata2:8M:autoextend'",
            "DATA DIRECTORY",
        ]);
        fs::remove_dir_all(told).unwrap();
        assert!(before == outside.files(), "{product}: it was touched");
    }
}

#[test]
fn over_ssh_what_is_outside_is_copied_too() {
    let outside = Outside::new(Product::MariaDb1011);
    let (scene, there) = (&outside.scene, ssh::Server::start());
    let (source, socket) =
        (format!("mysql:{}", there.machine()), scene.server.socket().display().to_string());
    let repository = scene.folder.path().join("repo").display().to_string();
    let line = ["backup", &source, "--socket", &socket, "--no-defaults", "-uroot", "--to", &repository];
    under_load(scene, |_| {
        there.run(&[&line[..], &["--way", "copy", "--name", "mysql"]].concat()).exits(0);
    });
    scene.is_exact();
    has_all(&scene.back());
}

#[test]
fn tables_outside_may_change_after_the_pages_were_read() {
    for product in servers() {
        let outside = Outside::new(product);
        let (scene, directory) = (&outside.scene, outside.directory());
        let mut session = connect(scene.server.socket());
        session.execute("USE app").unwrap();
        for sql in [
            format!("CREATE TABLE gone (id INT PRIMARY KEY) {directory} SELECT seq AS id FROM seq_1_to_100"),
            format!(
                "CREATE TABLE emptied (id INT PRIMARY KEY) {directory} SELECT seq AS id FROM seq_1_to_100"
            ),
            format!("CREATE TABLE named (id INT PRIMARY KEY) {directory} SELECT seq AS id FROM seq_1_to_90"),
            format!("CREATE TABLE made (id INT PRIMARY KEY) {directory} SELECT seq AS id FROM seq_1_to_80"),
            format!("CREATE TABLE gone_my (id INT PRIMARY KEY) ENGINE=MyISAM {directory}"),
        ] {
            session.execute(&sql).unwrap();
        }
        session.execute("SET GLOBAL innodb_log_checkpoint_now = 1").ok();
        let behind = Behind { scene, there: None };
        let (gate, mut running) = behind.begin(Some(("BACKUP STAGE FLUSH".to_owned(), 0)));
        let way = gate.wait(&mut running);
        for sql in [
            "DROP TABLE gone, gone_my",
            "TRUNCATE TABLE emptied",
            "INSERT INTO emptied VALUES (1), (2)",
            "RENAME TABLE named TO far.renamed",
            "DROP TABLE made",
        ] {
            session.execute(sql).unwrap();
        }
        for sql in [
            format!(
                "CREATE TABLE made (id INT PRIMARY KEY, more INT) {directory} SELECT seq AS id, 5 AS more FROM seq_1_to_7"
            ),
            format!("CREATE TABLE fresh (id INT PRIMARY KEY) {directory} SELECT seq AS id FROM seq_1_to_40"),
            format!(
                "CREATE TABLE fresh_my (id INT PRIMARY KEY) ENGINE=MyISAM {directory} SELECT seq AS id FROM seq_1_to_30"
            ),
        ] {
            session.execute(&sql).unwrap();
        }
        way.send(crate::gate::Way::On).unwrap();
        running.end().exits(0).says(&["mysql@1 (full)"]);
        let back = scene.back();
        has_all(&back);
        let mut session = connect(back.socket());
        for (query, wanted) in [
            ("SELECT GROUP_CONCAT(id) FROM app.emptied", "1,2"),
            ("SELECT COUNT(*) FROM far.renamed", "90"),
            ("SELECT CONCAT(COUNT(*), ' ', SUM(more)) FROM app.made", "7 35"),
            ("SELECT COUNT(*) FROM app.fresh", "40"),
            ("SELECT COUNT(*) FROM app.fresh_my", "30"),
            ("SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE 'gone%'", "0"),
        ] {
            assert_eq!(session.value(query).unwrap().unwrap(), wanted, "{product}: {query}");
        }
    }
}

/// What a user does with a restored table that was outside, as restore says it.
#[test]
fn a_table_from_outside_is_brought_in_or_goes_back() {
    for product in servers() {
        let mut outside = Outside::new(product);
        outside.scene.backup(&[]).exits(0);
        let scene = &mut outside.scene;
        let back = scene.back();
        let mut session = connect(back.socket());
        let refused = session.execute("ALTER TABLE app.still FORCE").unwrap_err();
        assert!(refused.to_string().contains("DATA DIRECTORY"), "{product}: {refused}");
        for sql in [
            "INSERT INTO app.w0 VALUES (1, 'x')",
            "TRUNCATE TABLE app.w0",
            "RENAME TABLE app.w0 TO far.w0",
            "INSERT INTO far.w0 VALUES (2, 'x')",
            "DROP TABLE app.w1",
            "SET sql_mode = 'NO_DIR_IN_CREATE'",
        ] {
            session.execute(sql).unwrap();
        }
        for table in ["app.still", "app.parts", "far.w0"] {
            session.execute(&format!("ALTER TABLE {table} FORCE, ALGORITHM=COPY")).unwrap();
        }
        assert_eq!(session.value("SELECT GROUP_CONCAT(id) FROM far.w0").unwrap().unwrap(), "2");
        has_all(&back);
        for name in ["still.isl", "parts#P#p0.isl"] {
            assert!(!back.data().join("app").join(name).exists(), "{product}: {name}");
        }
        assert!(back.data().join("app/still.ibd").exists() && back.data().join("far/w0.ibd").exists());
        drop((session, back));
        // Back to where it was: the original is lost.
        scene.server.stop().unwrap();
        let tables = outside.folder.path().join("tables/app");
        fs::remove_dir_all(&tables).unwrap();
        let to = outside.scene.folder.path().join("moved");
        outside.scene.run(&["restore", "repo", "--to", "moved"]).exits(0);
        // A server brings it to one moment first.
        let options: Vec<&str> = outside.scene.options.iter().map(String::as_str).collect();
        let mut recovered = server(product, &options, &[], Some(to.clone()));
        recovered.stop().unwrap();
        let inside = to.join(format!(".{}", &tables.display().to_string()[1..]));
        fs::rename(inside, &tables).unwrap();
        for name in ["still.isl", "parts#P#p0.isl", "w0.isl", "w1.isl"] {
            let link = to.join("app").join(name);
            let said = fs::read_to_string(&link).unwrap();
            fs::write(link, said.replacen('.', "/", 1)).unwrap();
        }
        let again = server(product, &options, &[], Some(to));
        has_all(&again);
        let mut session = connect(again.socket());
        session.execute("ALTER TABLE app.still ADD COLUMN more INT, ALGORITHM=COPY").unwrap();
        assert!(tables.join("still.ibd").exists(), "{product}: it stays where it is");
    }
}

/// A dump of some tables, and rows that are read without a server.
#[test]
fn tables_from_outside_come_out_of_a_backup() {
    let outside = Outside::new(Product::MariaDb1011);
    let scene = &outside.scene;
    scene.backup(&["--prove"]).exits(0).says(&["mysql@1 has been booted", "all sound"]);
    scene
        .run(&["restore", "repo", "--tables", "app.still", "app.parts", "--to", "some"])
        .exits(0)
        .says(&["800 rows"]);
    let definitions = fs::read_to_string(scene.folder.path().join("some/schema/1-tables.sql")).unwrap();
    assert!(definitions.contains("CREATE TABLE") && !definitions.contains("DIRECTORY"), "{definitions}");
    let other = server(Product::MariaDb1011, &[], &[], None);
    let socket = other.socket().to_str().unwrap();
    scene.run(&["load", "some", "--socket", socket, "--no-defaults", "-uroot"]).exits(0);
    let count = connect(other.socket()).value("SELECT COUNT(*) FROM app.parts").unwrap();
    assert_eq!(count.unwrap(), "100");
    let ended = scene.run(&["extract", "repo", "app.still", "--output", "still.tsv"]);
    let rows = fs::read_to_string(scene.folder.path().join("still.tsv")).unwrap_or_default();
    assert!(ended.code == 0 && rows.lines().count() >= 700, "{}", ended.err);
}

/// Definitions in the log are replayed without their folders.
#[test]
fn a_replay_makes_no_table_outside() {
    let outside = Outside::new(Product::MariaDb1011);
    let (scene, directory) = (&outside.scene, outside.directory());
    scene.backup(&[]).exits(0);
    let mut session = connect(scene.server.socket());
    session.execute("USE app").unwrap();
    for sql in [
        format!("CREATE TABLE later (id INT PRIMARY KEY) {directory}"),
        format!("CREATE TABLE later_my (id INT PRIMARY KEY) ENGINE=MyISAM {directory}"),
        "INSERT INTO later VALUES (1), (2)".to_owned(),
        "ALTER TABLE still ADD COLUMN more INT, ALGORITHM=COPY".to_owned(),
        "ALTER TABLE parts ENGINE=InnoDB".to_owned(),
        "TRUNCATE TABLE w0".to_owned(),
    ] {
        session.execute(&sql).unwrap();
    }
    let socket = scene.server.socket().to_str().unwrap();
    scene.run(&["binlog", "repo/mysql", "--once", "--socket", socket, "--no-defaults", "-uroot"]);
    drop(session);
    let before = outside.place("tables");
    let names = || {
        let list = |name: &str| fs::read_dir(before.join(name)).unwrap().map(|entry| entry.unwrap().path());
        list("").chain(list("app")).collect::<std::collections::BTreeSet<_>>()
    };
    let then = names();
    scene.run(&["restore", "repo/mysql", "--until", "end", "--to", "then"]).exits(0);
    let line =
        ["restore", "repo/mysql", "--tables", "app.later", "app.still", "--until", "end", "--to", "some"];
    scene.run(&line).exits(0).says(&["702 rows"]);
    assert_eq!(then, names(), "nothing was made there");
    let options: Vec<&str> = scene.options.iter().map(String::as_str).collect();
    let back = server(Product::MariaDb1011, &options, &[], Some(scene.folder.path().join("then")));
    has_all(&back);
    assert_eq!(connect(back.socket()).value("SELECT COUNT(*) FROM app.later").unwrap().unwrap(), "2");
}

/// A database on a file system of its own.
#[test]
fn what_is_on_another_file_system_is_in_the_copy() {
    let Some(volume) = Volume::new("btrfs") else { return };
    let data = volume.top().join("data");
    fresh(Product::MariaDb1011, &data);
    let made = Command::new("btrfs").args(["--quiet", "subvolume", "create"]).arg(data.join("far")).status();
    assert!(made.unwrap().success());
    let server = server(Product::MariaDb1011, &OPTIONS, &[], Some(data));
    let scene = Scene::of(Product::MariaDb1011, server, Vec::new());
    let mut session = connect(scene.server.socket());
    session.execute("USE far").unwrap();
    session.execute("CREATE TABLE far.t (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_60").unwrap();
    scene.backup(&["--way", "copy"]).exits(0);
    let back = scene.back();
    assert_eq!(connect(back.socket()).value("SELECT COUNT(*) FROM far.t").unwrap().unwrap(), "60");
}

#[test]
fn files_that_would_have_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    for name in ["one", "two"] {
        fs::create_dir(place(name)).unwrap();
    }
    fresh(Product::MariaDb1011, &place("data"));
    fs::rename(place("data/ibdata1"), place("one/ibdata1")).unwrap();
    let folder = folder.path().display();
    let files =
        format!("--innodb-data-file-path={folder}/one/ibdata1:12M;{folder}/two/ibdata1:8M:autoextend");
    let options: Vec<&str> = OPTIONS.into_iter().chain([&*files, "--innodb-data-home-dir="]).collect();
    let server = server(Product::MariaDb1011, &options, &[], Some(place("data")));
    let scene = Scene::of(Product::MariaDb1011, server, Vec::new());
    scene.backup(&[]).exits(1).says(&["two files with the name ibdata1", "no backup was made"]);
}

#[test]
fn links_that_no_copy_can_have_are_refused() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    let data = scene.server.data().to_owned();
    let link = data.join("odd");
    let refused = |target: &Path, why: &[&str]| {
        symlink(target, &link).unwrap();
        scene.backup(&[]).exits(1).says(why).says(&["odd", "no backup was made"]);
        fs::remove_file(&link).unwrap();
    };
    refused(data.parent().unwrap(), &["above the data folder"]);
    refused(&data, &["above the data folder"]);
    refused(&data.join("app"), &["is in the copy already", "two names"]);
    refused(&data.join("app/w0.ibd"), &["is in the copy already", "two names"]);
    let elsewhere = scene.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut session = connect(scene.server.socket());
    let sql = format!("CREATE TABLE app.away (id INT) DATA DIRECTORY='{}'", elsewhere.display());
    session.execute(&sql).unwrap();
    fs::write(data.join("app/away.isl"), format!("{}/./app/away.ibd", elsewhere.display())).unwrap();
    scene.backup(&[]).exits(1).says(&["app/away.isl leads to", "no plain path", "no backup was made"]);
    fs::write(data.join("app/away.isl"), format!("{}/app/away.ibd", elsewhere.display())).unwrap();
    // The server has begun to make one, and not yet written where its table is.
    fs::write(data.join("app/begun.isl"), "").unwrap();
    scene.backup(&[]).exits(0);
}
