//! Copies that read only what the redo log has changed (`--track`).

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use super::ddl::{BEFORE, THEN, WANTED};
use super::{Scene, sound};
use crate::support::{connect, mariadbs, until};

pub(super) const KNOWN: &str = "of the tablespaces may have changed";

/// The checksums of all tables of `app`.
fn sums(socket: &std::path::Path) -> BTreeMap<String, String> {
    let mut session = connect(socket);
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'app' AND table_type = 'BASE TABLE'";
    let mut sums = BTreeMap::new();
    for row in session.strings(tables).unwrap() {
        let table = row[0].clone().unwrap();
        let sum = session.strings(&format!("CHECKSUM TABLE app.`{table}` EXTENDED")).unwrap()[0][1].clone();
        sums.insert(table, sum.unwrap());
    }
    sums
}

impl Scene {
    fn execute(&self, statements: &[&str]) {
        let mut session = connect(self.server.socket());
        session.execute("USE app").unwrap();
        statements.iter().for_each(|sql| drop(session.strings(sql).unwrap()));
    }

    /// A generation with `--track` whose pages were read because of this.
    fn tracks(&self, says: &str) -> crate::support::Ended {
        let ended = self.backup(&["--track", "--no-prove"]).exits(0).says(&[says]);
        assert!(says != KNOWN || !ended.err.contains("everything is read"), "{}", ended.err);
        ended
    }

    /// The newest generation has what the server has.
    fn has_all(&self) {
        let wanted = sums(self.server.socket());
        let back = self.back();
        assert_eq!(sums(back.socket()), wanted);
        sound(&mut connect(back.socket()));
    }
}

/// Waits until recovery need not read what was before. Not every server makes a checkpoint when it is told
/// to.
pub(super) fn pass_checkpoint(session: &mut ::server::Session) {
    // Purging changes rows, too.
    let history = "SELECT variable_value FROM information_schema.global_status \
                   WHERE variable_name = 'innodb_history_list_length'";
    until("nothing is to be purged", || session.value(history).unwrap().as_deref() == Some("0"));
    session.execute("SET GLOBAL innodb_log_checkpoint_now = 1").ok();
    session
        .execute("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0, GLOBAL innodb_max_dirty_pages_pct = 0")
        .unwrap();
    let lsn = |name: &str, session: &mut ::server::Session| -> u64 {
        session.strings(&format!("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_{name}'")).unwrap()[0][1]
            .as_deref()
            .unwrap()
            .parse()
            .unwrap()
    };
    let now = lsn("current", session);
    // The last record is that of a checkpoint.
    until("a checkpoint", || lsn("last_checkpoint", session) + 16 >= now);
}

/// How many megabytes may have changed.
fn megabytes(said: &str) -> f64 {
    let line = said.lines().find(|line| line.contains(KNOWN)).unwrap();
    let (_, rest) = line.split_once("; ").unwrap();
    let mut words = rest.split(' ');
    let number: f64 = words.next().unwrap().parse().unwrap();
    match words.next().unwrap() {
        "MB" => number,
        "kB" => number / 1000.0,
        unit => panic!("{unit}: {line}"),
    }
}

/// Megabytes of the largest table, and of all tablespaces.
fn sizes(scene: &Scene) -> (f64, f64) {
    let data = scene.server.data();
    let files = ["", "app", "mysql", "sys"].map(|folder| std::fs::read_dir(data.join(folder)).unwrap());
    let (mut big, mut all) = (0, 0);
    for file in files.into_iter().flatten().map(Result::unwrap) {
        let (name, len) = (file.file_name().into_string().unwrap(), file.metadata().unwrap().len());
        if name.ends_with(".ibd") || name.starts_with("ibdata") || name.starts_with("undo") {
            all += len;
            big = if name == "big.ibd" { len } else { big };
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    [big, all].map(|bytes| bytes as f64 / 1e6).into()
}

#[test]
fn only_what_the_log_has_changed_is_read() {
    for product in super::servers() {
        let scene = Scene::new(product, &["--innodb-log-file-size=64M"]);
        scene.fill(40_000);
        scene.execute(&[
            "CREATE TABLE zip (id INT PRIMARY KEY, pad VARCHAR(255)) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8 SELECT * FROM big",
        ]);
        pass_checkpoint(&mut connect(scene.server.socket()));
        // There is nothing to begin with.
        let first = scene.backup(&["--track"]).exits(0);
        assert!(!first.err.contains("everything is read"), "{}", first.err);
        for turn in 0..3 {
            scene.execute(&[
                &format!("UPDATE big SET pad = REVERSE(pad) WHERE id BETWEEN {turn}5000 AND {turn}5100"),
                &format!("DELETE FROM big WHERE id BETWEEN {turn}7000 AND {turn}7400"),
                &format!("INSERT INTO big SELECT seq, 'new' FROM seq_5{turn}0000_to_5{turn}0900"),
                &format!("UPDATE zip SET pad = '{turn}' WHERE id > 39100"),
                &format!("INSERT INTO w0 SELECT seq, REPEAT('w', 1500) FROM seq_{turn}000_to_{turn}300"),
            ]);
            pass_checkpoint(&mut connect(scene.server.socket()));
            let said = scene.tracks(KNOWN).err;
            assert!(said.contains(&format!("goes back to mysql@{}", turn + 1)), "{said}");
            // Most of the largest table is not read.
            let (big, all) = sizes(&scene);
            assert!(megabytes(&said) < all - big * 0.6, "{product}: {big} of {all} MB: {said}");
        }
        // A page that was missed would still be missing.
        scene.has_all();
    }
}

/// What IMPORT changes in a file that was in its place before is not in the log, and nothing else than the
/// dictionary is.
#[test]
fn a_file_that_waited_for_its_import_is_read() {
    for product in super::servers() {
        let scene = Scene::new(product, &["--innodb-log-file-size=64M"]);
        let file = scene.folder.path().join("waits");
        super::ddl::exported(&scene, "waits", &file);
        scene.execute(&[
            // Its index becomes another one, so that the file is not the table's any more.
            "ALTER TABLE waits DROP KEY text, ADD KEY text (text), ALGORITHM=INPLACE",
            "ALTER TABLE waits DISCARD TABLESPACE",
        ]);
        for end in ["ibd", "cfg"] {
            let to = scene.server.data().join(format!("app/waits.{end}"));
            std::fs::copy(file.with_extension(end), to).unwrap();
        }
        let mut session = connect(scene.server.socket());
        pass_checkpoint(&mut session);
        scene.backup(&["--track"]).exits(0);
        scene.execute(&["ALTER TABLE waits IMPORT TABLESPACE", "INSERT INTO waits VALUES (1000, 'later')"]);
        pass_checkpoint(&mut session);
        scene.tracks(KNOWN);
        scene.has_all();
    }
}

/// Files that are others than before, by every way in which a statement makes them.
#[test]
fn what_was_made_anew_is_read() {
    for product in super::servers() {
        let scene = Scene::new(product, &["--innodb-log-file-size=64M"]);
        scene.execute(&BEFORE);
        scene.execute(&[
            "CREATE TABLE imported (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1_to_900",
            "CREATE TABLE other (id INT PRIMARY KEY) SELECT seq AS id FROM seq_1000_to_4000",
            "CREATE TABLE part (id INT PRIMARY KEY) PARTITION BY HASH(id) PARTITIONS 2",
            "INSERT INTO part SELECT seq FROM seq_1_to_9",
            "CREATE TABLE one_part (id INT PRIMARY KEY) SELECT seq * 2 AS id FROM seq_50_to_900",
        ]);
        scene.backup(&["--track"]).exits(0);
        scene.execute(&THEN);
        scene.execute(&["ALTER TABLE part EXCHANGE PARTITION p0 WITH TABLE one_part"]);
        // The same name and the same number of the tablespace, and another file.
        let mut session = connect(scene.server.socket());
        session.execute("FLUSH TABLES app.other FOR EXPORT").unwrap();
        let data = scene.server.data().join("app");
        let aside = scene.folder.path().join("aside");
        std::fs::create_dir(&aside).unwrap();
        for end in ["ibd", "cfg"] {
            std::fs::copy(data.join(format!("other.{end}")), aside.join(end)).unwrap();
        }
        session.execute("UNLOCK TABLES").unwrap();
        session.execute("ALTER TABLE app.imported DISCARD TABLESPACE").unwrap();
        for end in ["ibd", "cfg"] {
            super::page::copy(&aside.join(end), &data.join(format!("imported.{end}")));
        }
        session.execute("ALTER TABLE app.imported IMPORT TABLESPACE").unwrap();
        pass_checkpoint(&mut session);
        scene.tracks(KNOWN);
        let back = scene.back();
        let mut session = connect(back.socket());
        session.execute("USE app").unwrap();
        for (query, wanted) in WANTED {
            assert_eq!(session.value(query).unwrap().unwrap(), wanted, "{product}: {query}");
        }
        let imported = session.value("SELECT CONCAT(COUNT(*), ' ', MIN(id)) FROM imported").unwrap().unwrap();
        assert_eq!(imported, "3001 1000", "{product}");
        drop(session);
        drop(back);
        scene.has_all();
    }
}

#[test]
fn where_the_log_does_not_tell_everything_is_read() {
    let product = mariadbs()[0];
    let mut scene = Scene::new(product, &["--innodb-log-file-size=16M"]);
    scene.fill(2000);
    scene.backup(&[]).exits(0);
    scene.tracks(KNOWN);
    // More than the log keeps.
    for _ in 0..4 {
        scene.execute(&["CREATE OR REPLACE TABLE more SELECT REPEAT(MD5(seq), 7) FROM seq_1_to_30000"]);
    }
    scene.tracks("a larger innodb_log_file_size reaches further back");
    scene.execute(&["INSERT INTO more VALUES ('one')"]);
    scene.tracks(KNOWN);
    // While it does not run, anything may be done to its files.
    scene.server.stop().unwrap();
    scene.server.restart().unwrap();
    scene.tracks("everything is read: the server was started since");
    scene.tracks(KNOWN);
    scene.execute(&["SET GLOBAL innodb_log_file_size = 32 << 20"]);
    pass_checkpoint(&mut connect(scene.server.socket()));
    scene.tracks("everything is read:");
    scene.tracks(KNOWN);
    scene.execute(&["INSERT INTO more VALUES ('two')"]);
    // Without the option, as ever.
    let said = scene.backup(&[]).exits(0).err;
    assert!(!said.contains(KNOWN), "{said}");
    scene.has_all();
}

/// What the server writes after its log was read is no proof that the log did not name it.
#[test]
fn pages_that_change_meanwhile_are_no_change_that_the_log_missed() {
    let scene = Scene::new(mariadbs()[0], &["--innodb-log-file-size=64M"]);
    // Samples are likely to be in this table.
    scene.fill(100_000);
    let mut session = connect(scene.server.socket());
    session.execute("SET GLOBAL innodb_io_capacity_max = 40000, GLOBAL innodb_io_capacity = 20000").unwrap();
    scene.execute(&[
        "CREATE TABLE a (id INT PRIMARY KEY, pad VARCHAR(255)) SELECT * FROM big WHERE id < 50000",
    ]);
    pass_checkpoint(&mut session);
    scene.backup(&[]).exits(0);
    // That one is read first, and takes some seconds.
    scene.execute(&["UPDATE a SET pad = REVERSE(pad)"]);
    pass_checkpoint(&mut session);
    let mut running = scene.begin(&["--track", "--no-prove", "--rate", "4M"]);
    running.until_says(KNOWN);
    // They go to the disk at once.
    session.execute("UPDATE app.big SET pad = ''").unwrap();
    let said = running.end().exits(0).err;
    assert!(!said.contains("everything is read"), "{said}");
    scene.has_all();
}

/// As after a virtual machine went back to an earlier state together with its memory: the LSNs are the same,
/// and the log is another one.
#[test]
fn a_log_of_another_history_is_noticed() {
    let scene = Scene::new(mariadbs()[0], &[]);
    scene.fill(2000);
    pass_checkpoint(&mut connect(scene.server.socket()));
    scene.backup(&[]).exits(0);
    scene.tracks(KNOWN);
    let (from, _) = super::page::log_of(&scene);
    let log = std::fs::File::options().read(true).write(true).open(scene.server.data().join("ib_logfile0"));
    let (log, mut first, mut byte) = (log.unwrap(), [0; 8], [0]);
    log.read_exact_at(&mut first, 8).unwrap();
    let at = 12_288 + (from - 100 - u64::from_be_bytes(first)) % (log.metadata().unwrap().len() - 12_288);
    log.read_exact_at(&mut byte, at).unwrap();
    log.write_all_at(&[byte[0] ^ 1], at).unwrap();
    log.sync_data().unwrap();
    scene.tracks("everything is read: the redo log has another history");
}
