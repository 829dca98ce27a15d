//! A transaction of more than 4 GiB: what is in its file has positions of more than 32 bits.

use std::fs;
use std::process::Command;

use sandbox::Product;

use crate::recovery_scene::Scene;
use crate::support::{Ended, connect, skipped, until};

/// Where positions of 32 bits wrap around.
const AROUND: u64 = 1 << 32;
/// What one UPDATE of all rows logs: each of them before and after.
const UPDATE_BYTES: u64 = 200 << 20;

/// `REMORA_HUGE=1`: it takes minutes, and 20 GB of disk in the place of temporary files.
#[test]
fn huge_group() {
    if std::env::var_os("REMORA_HUGE").is_none() {
        skipped("a transaction of more than 4 GiB", "REMORA_HUGE=1 asks for it");
        return;
    }
    let options =
        ["--binlog-format=ROW", "--max-allowed-packet=64M", "--sync-binlog=0", "--innodb-doublewrite=0"];
    let mut scene = Scene::new(Product::MariaDb1011, &options);
    scene.does(&[
        "CREATE TABLE app.big (id INT PRIMARY KEY, v LONGBLOB)",
        "INSERT INTO app.big SELECT seq, REPEAT(CHAR(seq), 1 << 20) FROM seq_1_to_100",
    ]);
    scene.backup();
    let mut running = scene.archiver();
    running.until_says("caught up");
    // A second transaction gets its place in the same file: the server commits both together.
    scene.does(&[
        "SET GLOBAL binlog_commit_wait_count = 2",
        "SET GLOBAL binlog_commit_wait_usec = 600000000",
        "BEGIN",
    ]);
    for _ in 0..=AROUND / UPDATE_BYTES {
        scene.does(&["UPDATE app.big SET v = CONCAT(SUBSTR(v, 2), LEFT(v, 1), IF(id % 2, 'x', 'y'))"]);
    }
    let socket = scene.server.socket().to_owned();
    let huge = std::thread::spawn({
        let mut own = std::mem::replace(&mut scene.session, connect(scene.server.socket()));
        move || own.execute("COMMIT").unwrap()
    });
    until("the first one waits", || {
        let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'COMMIT'";
        scene.session.value(waits).unwrap().as_deref() == Some("1")
    });
    connect(&socket).execute("INSERT INTO app.t VALUES (3, 'three')").unwrap();
    huge.join().unwrap();
    // In the middle of the large one.
    let line = scene.folder.path().join("repo/db/log/000001");
    let archived = |file: &str| fs::metadata(line.join(file)).map_or(0, |found| found.len());
    until("some of it is archived", || archived("binlog.000001") > AROUND / 4);
    running.kill();
    scene.does(&["SET GLOBAL binlog_commit_wait_count = 0", "INSERT INTO app.t VALUES (4, 'four')"]);
    let last = scene.moment();
    scene.archive();
    let own = |file: &str| fs::metadata(scene.server.data().join(file)).unwrap().len();
    assert!(own("binlog.000001") > AROUND && archived("binlog.000001") == own("binlog.000001"));
    let json = scene.run(&["log", "repo/db", "--json"]).exits(0).out;
    let groups: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let small = &groups[groups.len() - 2];
    let (begin, end) = (small["position"].as_u64().unwrap(), small["end_position"].as_u64().unwrap());
    assert!(begin > AROUND && small["tables"][0]["inserted"] == 1, "{small}");
    // A run that was killed after the second one continues from the beginning of the file: requests have 32
    // bits.
    let cut = |to: u64| {
        let file = fs::File::options().write(true).open(line.join("binlog.000001")).unwrap();
        file.set_len(to).unwrap();
        fs::write(line.join("log.index"), "./binlog.000001\n").unwrap();
        fs::remove_file(line.join("binlog.000002")).unwrap();
    };
    cut(end + 5);
    scene.archive();
    let mut compare = Command::new("cmp");
    // Behind the byte that says whether the file is in use.
    compare.arg("--ignore-initial=22").arg(scene.server.data().join("binlog.000001"));
    Ended::of(&compare.arg(line.join("binlog.000001")).output().unwrap()).exits(0);
    assert!(!scene.folder.path().join("repo/db/log/000002").exists());
    let (found, ended) = scene.restored(&["--until", &last.position]);
    assert_eq!(found, last.sums, "{}", ended.err);
    // Between the two.
    let (found, ended) = scene.restored(&["--until", &format!("binlog.000001:{begin}")]);
    scene.does(&["DELETE FROM app.t WHERE id > 2"]);
    assert_eq!(found, scene.moment().sums, "{}", ended.err);
}
