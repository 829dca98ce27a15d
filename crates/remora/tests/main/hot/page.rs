//! Pages of other sizes than 16 KiB, and redo logs that are small or elsewhere.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use sandbox::{Product, Sandbox};

use super::{OPTIONS, Scene, Stops, server, servers, under_load, write};
use crate::ssh;
use crate::support::{Ended, connect, part_of_today, remora, skipped, tell, until};
use crate::tmpfs::Mounted;

/// Copies a data folder of a server that has ended.
pub(super) fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Makes the data folder of a server that has ended, with nothing in it.
pub(super) fn fresh(product: Product, data: &Path) {
    let mut server = server(product, &[], &[], None);
    server.stop().unwrap();
    copy(server.data(), data);
}

/// A server whose InnoDB files were made with pages of this size.
fn of_page_size(product: Product, page_size: &str, folder: &Path) -> Sandbox {
    let mut first = server(product, &[], &[], None);
    let mut session = connect(first.socket());
    let query =
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'mysql' AND engine = 'InnoDB'";
    let mut made = Vec::new();
    session.execute("USE mysql").unwrap();
    for row in session.strings(query).unwrap() {
        let table = row[0].clone().unwrap();
        made.push(session.strings(&format!("SHOW CREATE TABLE {table}")).unwrap()[0][1].clone().unwrap());
        session.execute(&format!("DROP TABLE {table}")).unwrap();
    }
    drop(session);
    first.stop().unwrap();
    let data = folder.join("data");
    copy(first.data(), &data);
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if ["ib", "undo"].iter().any(|prefix| name.starts_with(prefix)) {
            std::fs::remove_file(path).unwrap();
        }
    }
    let page_size = format!("--innodb-page-size={page_size}");
    let server = server(product, &[&OPTIONS[..], &[&page_size]].concat(), &[], Some(data));
    let mut session = connect(server.socket());
    session.execute("USE mysql").unwrap();
    made.iter().for_each(|sql| drop(session.execute(sql).unwrap()));
    session.execute("SET GLOBAL innodb_log_checkpoint_now = 1").unwrap();
    server
}

#[test]
fn pages_of_every_size_are_copied() {
    let product = Product::MariaDb1011;
    // Pages that share a block of the backup, and pages that are several; another size each day.
    let all = vec![("4k", 6000), ("64k", 20_000), ("8k", 6000), ("32k", 10_000)];
    let parts = all.len();
    for (page_size, rows) in part_of_today(all, parts) {
        tell(page_size);
        let folder = tempfile::tempdir().unwrap();
        let mut scene = Scene::of(product, of_page_size(product, page_size, folder.path()), Vec::new());
        scene.options.push(format!("--innodb-page-size={page_size}"));
        scene.fill(rows);
        let mut session = connect(scene.server.socket());
        session.execute("CREATE TABLE app.packed PAGE_COMPRESSED=1 SELECT * FROM app.big").unwrap();
        if page_size.len() == 2 {
            let form = "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=2";
            session
                .execute(&format!("CREATE TABLE app.zip (KEY (pad(20))) {form} SELECT * FROM app.big"))
                .unwrap();
        }
        for generation in 1..=2 {
            under_load(&scene, |_| {
                let name = format!("@{generation} (");
                scene.backup(&["--rate", "20M"]).exits(0).says(&[&name]);
            });
            scene.is_exact();
        }
        let there = ssh::Server::start();
        let source = format!("mysql:{}", there.machine());
        let (socket, to) = (scene.server.socket().display().to_string(), scene.folder.path().join("repo"));
        let line = ["backup", &source, "--socket", &socket, "--no-defaults", "-uroot", "--to"];
        let line = [&line[..], &[to.to_str().unwrap(), "--way", "copy", "--name", "mysql"]].concat();
        there.run(&line).exits(0).says(&["mysql@3 (changes to 2)"]);
        scene.is_exact();
        // What is damaged is seen in pages of every size.
        session.execute("FLUSH TABLES app.big FOR EXPORT").unwrap();
        let path = scene.server.data().join("app/big.ibd");
        let mut bytes = std::fs::read(&path).unwrap();
        let page_bytes = page_size.trim_end_matches('k').parse::<usize>().unwrap() << 10;
        bytes[5 * page_bytes + page_bytes / 2 + 77] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        session.execute("UNLOCK TABLES").unwrap();
        scene.backup(&[]).exits(1).says(&["app/big.ibd: page 5,", "no backup was made"]);
    }
}

/// The LSNs between which the newest generation has its log.
pub(super) fn log_of(scene: &Scene) -> (u64, u64) {
    let listed = scene.run(&["list", "repo", "--json"]).exits(0).out;
    let (_, log) = listed.rsplit_once("\"log\":").unwrap();
    let number = |name: &str| {
        let (_, rest) = log.split_once(&format!("\"{name}\":")).unwrap();
        rest.split([',', '}']).next().unwrap().parse().unwrap()
    };
    (number("from"), number("to"))
}

#[test]
fn a_small_log_that_comes_round_while_it_is_copied_is_copied_whole() {
    for product in servers() {
        let scene = Scene::new(product, &["--innodb-log-file-size=8M"]);
        scene.fill(20_000);
        let mut running = scene.begin(&["--rate", "8M"]);
        until("the server knows of a backup", || {
            running.must_run();
            scene.server.data().join("ddl.log").exists()
        });
        let mut session = connect(scene.server.socket());
        let mut lsn = || -> u64 {
            let rows = session.strings("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'").unwrap();
            rows[0][1].as_ref().unwrap().parse().unwrap()
        };
        let (began, over) = (lsn(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for number in 0..3 {
                let (scene, over) = (&scene, &over);
                scope.spawn(move || write(&scene.server, number, over));
            }
            let stops = Stops(&over);
            let mut writer = connect(scene.server.socket());
            for from in (0..).map(|turn| turn * 200 % 20_000) {
                if lsn() - began > 20 << 20 {
                    break;
                }
                let rows = format!("id BETWEEN {from} AND {from} + 199");
                writer.execute(&format!("UPDATE app.big SET pad = REVERSE(pad) WHERE {rows}")).unwrap();
            }
            running.end().exits(0).says(&["@1 (full)"]);
            drop(stops);
        });
        let (from, to) = log_of(&scene);
        assert!(to - from > 8 << 20, "{product:?}: it wrote {} bytes only", to - from);
        scene.is_exact();
    }
}

/// A server with its redo log in this folder, which was copied while it worked.
fn log_in(product: Product, place: &Path) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fresh(product, &data);
    std::fs::copy(data.join("ib_logfile0"), place.join("ib_logfile0")).unwrap();
    std::fs::remove_file(data.join("ib_logfile0")).unwrap();
    // Where nothing waits for a disk, a log of 16 MiB may come round before a busy machine has read it.
    let elsewhere = format!("--innodb-log-group-home-dir={}", place.display());
    let more = [&elsewhere, "--innodb-log-file-size=96M"];
    let server = server(product, &[&OPTIONS[..], &more].concat(), &[], Some(data));
    let scene = Scene { data: Some(folder), ..Scene::of(product, server, Vec::new()) };
    scene.fill(2000);
    under_load(&scene, |_| drop(scene.backup(&["--way", "copy", "--rate", "30M"]).exits(0)));
    scene
}

/// They would be read while nobody commits, and written meanwhile.
#[test]
fn the_redo_log_in_a_folder_of_the_data_and_temporary_tables_are_left_out() {
    for product in servers() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fresh(product, &data);
        std::fs::create_dir(data.join("redo")).unwrap();
        std::fs::rename(data.join("ib_logfile0"), data.join("redo/ib_logfile0")).unwrap();
        let more =
            ["--innodb-log-group-home-dir=redo", "--innodb-temp-data-file-path=temporary:12M:autoextend"];
        let server = server(product, &[&OPTIONS[..], &more].concat(), &[], Some(data.clone()));
        assert!(data.join("temporary").exists());
        let scene = Scene { data: Some(folder), ..Scene::of(product, server, Vec::new()) };
        under_load(&scene, |_| drop(scene.backup(&["--way", "copy"]).exits(0)));
        scene.is_exact();
        let back = scene.folder.path().join("back");
        assert!(back.join("redo").is_dir() && !back.join("redo/ib_logfile0").exists(), "{product}");
        assert!(back.join("ib_logfile0").exists() && !back.join("temporary").exists(), "{product}");
    }
}

#[test]
fn a_redo_log_in_another_folder_comes_into_the_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let scene = log_in(Product::MariaDb1011, folder.path());
    let said = scene.run(&["restore", "repo", "--to", "told"]).exits(0);
    said.says(&["innodb_log_group_home_dir", &folder.path().display().to_string()]);
    scene.is_exact();
}

/// A server writes a redo log in /dev/shm through its memory, several threads at once, and not in blocks.
#[test]
fn a_redo_log_in_memory_is_followed() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("hot::page::a_redo_log_in_memory_is_followed", "there is no /dev/shm");
    };
    for product in servers() {
        let scene = log_in(product, memory.path());
        let errors = std::fs::read_to_string(scene.server.error_log()).unwrap();
        assert!(errors.contains("(memory-mapped)"), "{errors}");
        scene.is_exact();
    }
}

/// Facts: `lsn_alarm`. A write that the disk has lost: the page is whole, and old.
#[test]
fn lsn_alarm_tells_a_page_that_goes_back() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    scene.fill(2000);
    let mut session = connect(scene.server.socket());
    let path = scene.server.data().join("app/big.ibd");
    let mut file = |change: &mut dyn FnMut(&Path)| {
        session.execute("FLUSH TABLES app.big FOR EXPORT").unwrap();
        change(&path);
        session.execute("UNLOCK TABLES").unwrap();
    };
    let mut old = Vec::new();
    file(&mut |path| old = std::fs::read(path).unwrap());
    let mut other = connect(scene.server.socket());
    other.execute("UPDATE app.big SET pad = REVERSE(pad)").unwrap();
    file(&mut |_| {});
    other.execute("SET GLOBAL innodb_log_checkpoint_now = 1").unwrap();
    scene.backup(&[]).exits(0);
    other.execute("UPDATE app.big SET pad = REVERSE(pad) WHERE id > 1000").unwrap();
    scene.backup(&[]).exits(0).says(&["mysql@2 (changes to 1)"]);
    let page = 6;
    file(&mut |path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[page * 16_384..][..16_384].copy_from_slice(&old[page * 16_384..][..16_384]);
        std::fs::write(path, bytes).unwrap();
    });
    scene.backup(&[]).exits(4).says(&[
        "app/big.ibd, at page 6, is not what it was in mysql@2",
        "by its LSN",
        "mysql@3 is stored but not sound: 1 problem",
    ]);
    // It is told once: from now on it is what it was. Such a generation is not built upon without reading.
    let said = "everything is read: mysql@3 has pages that can't be right";
    scene.backup(&["--track"]).exits(0).says(&[said]);
    let said = scene.backup(&["--track"]).exits(0).err;
    assert!(said.contains(super::since::KNOWN), "{said}");
}

#[test]
fn a_run_whose_disk_is_full_holds_nobody_and_leaves_the_rest() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    scene.fill(20_000);
    // What is staged while nobody commits is larger than what is stored of the pages.
    let mut session = connect(scene.server.socket());
    session.execute("CREATE TABLE app.staged (pad LONGTEXT) ENGINE=Aria").unwrap();
    for seed in 0..24 {
        let noise =
            format!("SELECT GROUP_CONCAT(SHA2(seq + {seed}000000, 512) SEPARATOR '') FROM seq_1_to_8000");
        session
            .execute("SET SESSION group_concat_max_len = 10000000, SESSION tmp_table_size = 100000000")
            .unwrap();
        session.execute(&format!("INSERT INTO app.staged {}", noise.replace("seq_1", "app.seq_1"))).unwrap();
    }
    let small = scene.folder.path().join("repo");
    std::fs::create_dir(&small).unwrap();
    for megabytes in [2, 4, 8, 16, 24, 32] {
        let mounted = Mounted::new(&small, megabytes);
        let mut command = remora(scene.folder.path());
        let ended = Ended::of(&command.args(scene.arguments(&["--way", "copy"])).output().unwrap());
        tell(format!("{megabytes}: {}", ended.err));
        ended.exits(1).says(&["No space left", "no backup was made"]);
        assert!(!small.join("mysql/000001.blk").exists());
        drop(mounted);
        session.execute("SET SESSION lock_wait_timeout = 20").unwrap();
        until("the server knows that it is over", || session.execute("BACKUP STAGE START").is_ok());
        session.execute("BACKUP STAGE END").unwrap();
    }
    scene.backup(&[]).exits(0).says(&["mysql@1 (full)"]);
    scene.is_exact();
}

/// InnoDB still tells a position of the older log, which the new one does not reach.
#[test]
fn a_copy_made_soon_after_reset_master_is_proven() {
    let scene = Scene::new(Product::MariaDb1011, &[]);
    scene.fill(10);
    let mut session = connect(scene.server.socket());
    session.execute("FLUSH BINARY LOGS").unwrap();
    for id in 11..80 {
        session.execute(&format!("INSERT INTO app.big VALUES ({id}, REPEAT('x', 200))")).unwrap();
    }
    for sql in ["RESET MASTER", "FLUSH BINARY LOGS", "INSERT INTO app.big VALUES (80, 'the last one')"] {
        session.execute(sql).unwrap();
    }
    // Behind it the server may have noted, whenever it got to that, that no older file is needed.
    let events = session.strings("SHOW BINLOG EVENTS IN 'binlog.000002'").unwrap();
    let last = events.into_iter().rfind(|event| event[2].as_deref() == Some("Xid")).unwrap();
    let end = last[4].clone().unwrap();
    scene.backup(&["--way", "copy"]).exits(0);
    let place = format!("binary log position binlog.000002 {end}");
    scene.run(&["verify", "repo", "--boot", "--work", "."]).exits(0).says(&["all sound", &place]);
}
