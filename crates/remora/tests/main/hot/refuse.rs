//! What can't be copied rightly while a server works.

use std::os::unix::fs::FileExt;
use std::path::Path;

use sandbox::Product;

use super::ddl::exported;
use super::since::pass_checkpoint;
use super::step::Behind;
use super::{Scene, server};
use crate::gate::Way;
use crate::support::{Ended, connect, on_products, products, remora, tell, until};

#[test]
fn what_can_not_be_copied_rightly_is_refused() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    scene.backup(&["--way", "copy", "--lock", "true"]).exits(2).says(&["--lock"]);
    scene.backup(&["--way", "copy"]).exits(0);
    if products().contains(&Product::MySql56) {
        tell(Product::MySql56);
        let server = server(Product::MySql56, &[], &[], None);
        let folder = tempfile::tempdir().unwrap();
        let socket = server.socket().to_str().unwrap();
        let line = [
            "backup",
            "mysql:",
            "--socket",
            socket,
            "--no-defaults",
            "-uroot",
            "--to",
            "repo",
            "--way",
            "copy",
        ];
        let ended = Ended::of(&remora(folder.path()).args(line).output().unwrap());
        ended.exits(1).says(&["MariaDB 10.8 and later", "5.6"]);
        assert!(!Path::new("repo").exists());
    }
}

#[test]
fn damaged_refused_and_nothing_is_stored() {
    let scene = Scene::new(Product::MariaDb1011, &["--innodb-fast-shutdown=0"]);
    scene.fill(2000);
    let Scene { server, folder, .. } = &scene;
    let mut session = connect(server.socket());
    session.execute("FLUSH TABLES app.big FOR EXPORT").unwrap();
    let path = server.data().join("app/big.ibd");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5 * 16384 + 1000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    session.execute("UNLOCK TABLES").unwrap();
    scene.backup(&[]).exits(1).says(&[
        "app/big.ibd: page 5",
        "does not match its checksum",
        "no backup was made",
    ]);
    assert!(!folder.path().join("repo/mysql/000001.blk").exists());
}

/// Facts: `zero_page0_old_refused`, `zero_page0_new`. A new table's first page is zeros too.
#[test]
fn zero_page0_old_refused() {
    let products: Vec<Product> = crate::extract::mariadb().collect();
    on_products(&products, |product| {
        let mut scene = Scene::new(product, &[]);
        let mut session = connect(scene.server.socket());
        for sql in [
            "CREATE DATABASE `a-b`",
            "CREATE TABLE `a-b`.old (id INT PRIMARY KEY) SELECT seq AS id FROM app.seq_1_to_100",
        ] {
            session.execute(sql).unwrap();
        }
        drop(session);
        scene.server.stop().unwrap();
        scene.server.restart().unwrap();
        let mut session = connect(scene.server.socket());
        session.execute("SELECT * FROM `a-b`.old").unwrap();
        for sql in [
            "CREATE TABLE `a-b`.new (id INT PRIMARY KEY)",
            "CREATE TABLE `a-b`.made (id INT PRIMARY KEY)",
            "INSERT INTO `a-b`.new VALUES (1)",
            "RENAME TABLE `a-b`.made TO `a-b`.`re named`",
            "CREATE TABLE `a-b`.parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
        ] {
            session.execute(sql).unwrap();
        }
        let first = |name: &str| {
            let path = scene.server.data().join("a@002db").join(name);
            let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
            let mut page = vec![0; 16_384];
            file.read_exact_at(&mut page, 0).unwrap();
            (file, page)
        };
        let new = ["new.ibd", "re@0020named.ibd", "parts#P#p1.ibd"].map(|name| first(name).1);
        assert!(new.iter().flatten().all(|byte| *byte == 0), "{product}: they were written");
        scene.backup(&[]).exits(0);
        // Also if the server writes to the table, and so names it in the log.
        for sql in ["DO 0", "INSERT INTO `a-b`.old VALUES (1000)"] {
            session.execute(sql).unwrap();
            let (old, page) = first("old.ibd");
            old.write_all_at(&[0; 16_384], 0).unwrap();
            let ended = scene.backup(&[]);
            old.write_all_at(&page, 0).unwrap();
            ended.exits(1).says(&["a@002db/old.ibd is lost", "no backup was made"]);
        }
        scene.backup(&[]).exits(0);
    });
}

#[test]
fn a_system_tablespace_whose_first_page_is_only_in_the_log_is_refused() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    // As in new data before the first checkpoint.
    let path = scene.server.data().join("ibdata1");
    let system = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut first = [0; 16_384];
    system.read_exact_at(&mut first, 0).unwrap();
    system.write_all_at(&[0; 16_384], 0).unwrap();
    let ended = scene.backup(&[]);
    system.write_all_at(&first, 0).unwrap();
    ended.exits(1).says(&["ibdata1", "has not been written yet", "checkpoint_now", "no backup was made"]);
    scene.backup(&[]).exits(0);
}

#[test]
fn a_server_that_encrypts_is_refused_before_anything_is_read() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    // Without a key it says so, and encrypts nothing.
    connect(scene.server.socket()).execute("SET GLOBAL aria_encrypt_tables = ON").unwrap();
    scene.backup(&[]).exits(1).says(&["aria_encrypt_tables=ON", "no backup was made"]);
    assert!(!scene.folder.path().join("repo/mysql/000001.blk").exists());
}

#[test]
fn rights_that_are_missing_are_named() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    let mut session = connect(scene.server.socket());
    session.execute("CREATE USER low@localhost").unwrap();
    session.execute("GRANT SELECT ON *.* TO low@localhost").unwrap();
    // All at once, and then what is still missing.
    for (missing, given) in
        [("RELOAD, PROCESS, BINLOG MONITOR", "PROCESS"), ("RELOAD, BINLOG MONITOR", "RELOAD")]
    {
        let grant = format!("GRANT {missing} ON *.* TO `low`@`localhost`");
        let ended = scene.backup(&["--way", "copy", "-ulow"]).exits(10);
        ended.says(&["remora: mysql: low", &grant, "no backup was made"]);
        session.execute(&format!("GRANT {given} ON *.* TO low@localhost")).unwrap();
    }
    session.execute("GRANT BINLOG MONITOR ON *.* TO low@localhost").unwrap();
    // Nothing was read by those that were refused.
    let ended = scene.backup(&["--way", "copy", "-ulow"]).exits(0);
    assert!(!ended.err.contains("interrupted"), "{}", ended.err);
}

#[test]
fn resize_refused_while_it_is_copied() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    scene.fill(20_000);
    // The redo log is followed from before the first page on, and until nobody commits.
    let (gate, mut running) =
        Behind { scene: &scene, there: None }.begin([("BACKUP STAGE FLUSH".to_owned(), 0)]);
    let way = gate.wait(&mut running);
    connect(scene.server.socket()).execute("SET GLOBAL innodb_log_file_size = 33554432").unwrap();
    way.send(Way::On).unwrap();
    running.end().exits(1).says(&["replaced its redo log", "no backup was made"]);
}

/// The server says nothing of an IMPORT to a backup, and recovery does nothing to a table whose discarding is
/// in the log.
#[test]
fn import_refused_where_recovery_would_lose_it() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    let mut session = connect(scene.server.socket());
    session.execute("USE app").unwrap();
    for table in ["a_old", "z_new"] {
        let columns = "(id INT PRIMARY KEY, text VARCHAR(100)) STATS_PERSISTENT=0";
        session.execute(&format!("CREATE TABLE {table} {columns}")).unwrap();
        session.execute(&format!("INSERT INTO {table} SELECT seq, '{table}' FROM seq_1_to_500")).unwrap();
    }
    scene.fill(20_000);
    let mut running = scene.begin(&["--rate", "2M"]);
    until("the server knows of a backup", || {
        running.must_run();
        scene.server.data().join("ddl.log").exists()
    });
    let data = scene.server.data().join("app");
    let copy = scene.folder.path().join("z_new.ibd");
    session.execute("FLUSH TABLES z_new FOR EXPORT").unwrap();
    std::fs::copy(data.join("z_new.ibd"), &copy).unwrap();
    session.execute("UNLOCK TABLES").unwrap();
    session.execute("ALTER TABLE a_old DISCARD TABLESPACE").unwrap();
    std::fs::copy(copy, data.join("a_old.ibd")).unwrap();
    session.strings("ALTER TABLE a_old IMPORT TABLESPACE").unwrap();
    session.execute("INSERT INTO a_old VALUES (1000, 'later')").unwrap();
    running.end().exits(1).says(&["app/a_old.ibd was put in place by", "no backup was made"]);
    // From the next checkpoint on it is a table like any other.
    session.execute("SET GLOBAL innodb_log_checkpoint_now = 1").unwrap();
    scene.backup(&[]).exits(0);
    let back = scene.back();
    let rows = "SELECT CONCAT_WS(' ', COUNT(*), SUM(text = 'z_new'), MAX(id)) FROM app.a_old";
    assert_eq!(connect(back.socket()).value(rows).unwrap().unwrap(), "501 500 1000");
}

/// It would be copied with them each time.
#[test]
fn a_repository_among_the_data_is_refused() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    for inside in ["repo", "app/a/b"] {
        let to = scene.server.data().join(inside);
        let socket = scene.server.socket().to_str().unwrap();
        let line = ["backup", "mysql:", "--socket", socket, "--no-defaults", "-uroot", "--to"];
        scene
            .run(&[&line[..], &[to.to_str().unwrap()]].concat())
            .exits(1)
            .says(&["is inside the server's data folder"]);
        assert!(!to.exists());
    }
    // Nor one that a link in them leads to; one that leads to nothing keeps nobody from it.
    let data = scene.server.data();
    std::fs::create_dir(scene.folder.path().join("repo")).unwrap();
    std::os::unix::fs::symlink(scene.folder.path().join("repo"), data.join("linked")).unwrap();
    scene.backup(&[]).exits(1).says(&["a link in that leads to it", "remove the link"]);
    std::fs::remove_file(data.join("linked")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", data.join("dangling")).unwrap();
    scene.backup(&[]).exits(3).says(&["dangling leads to nothing, and is left out", "mysql@1 (full)"]);
    assert!(!scene.run(&["list", "repo", "--files"]).exits(0).out.contains("dangling"));
    // Two servers never share a name.
    let other = server(Product::MariaDb1011, &[], &[], None);
    let socket = other.socket().to_str().unwrap();
    let line = [
        "backup",
        "mysql:",
        "--socket",
        socket,
        "--no-defaults",
        "-uroot",
        "--to",
        "repo",
        "--name",
        "mysql",
    ];
    scene.run(&line).exits(1).says(&["has backups of another source: mysql:", "--adopt"]);
    scene.run(&[&line[..], &["--adopt"]].concat()).exits(0).says(&["mysql@2 (changes to 1)"]);
    scene.backup(&[]).exits(1).says(&["has backups of another source"]);
}

/// An old file of a table waits under a name that the table had, and has its number. Recovery takes it for
/// the table only if the log has that name.
#[test]
fn two_files_of_one_tablespace_are_refused_where_the_log_names_both() {
    for product in super::servers() {
        let scene = Scene::new(product, &[]);
        let stray = scene.folder.path().join("stray.ibd");
        exported(&scene, "a_table", &stray);
        let mut session = connect(scene.server.socket());
        pass_checkpoint(&mut session);
        let put = |name: &str| {
            std::fs::copy(&stray, scene.server.data().join(name)).unwrap();
        };
        put("app/a_stray.ibd");
        put("app/z_stray.ibd");
        put("mysql/a_table.ibd");
        session.execute("USE app").unwrap();
        for sql in [
            "RENAME TABLE a_table TO b_table",
            "CREATE TABLE a_table LIKE b_table",
            "ALTER TABLE a_table DISCARD TABLESPACE",
        ] {
            session.execute(sql).unwrap();
        }
        put("app/a_table.ibd");
        scene.backup(&[]).exits(1).says(&[
            "app/a_table.ibd and ",
            "app/b_table.ibd are files of tablespace",
            "no backup was made",
        ]);
        pass_checkpoint(&mut session);
        // It has one name from here on, and the others are no trouble.
        session.execute("UPDATE b_table SET text = 'new' WHERE id < 101").unwrap();
        scene.backup(&[]).exits(0);
        let back = scene.back();
        let sum = "SELECT CONCAT_WS(' ', COUNT(*), SUM(text = 'new')) FROM app.b_table";
        assert_eq!(connect(back.socket()).value(sum).unwrap().unwrap(), "500 100", "{product}");
    }
}
