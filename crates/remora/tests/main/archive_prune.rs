//! An archived log beside its backups: what `remora list` says of it, and what `remora prune` leaves of it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::recovery_scene::{Scene, on_mariadb};

/// The names of the files of the archive's timeline. Each has its notes beside it, and there are no others.
fn files(scene: &Scene) -> Vec<String> {
    let timeline = scene.folder.path().join("repo/db/log/000001");
    let names =
        fs::read_dir(timeline).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("binlog.")).collect();
    names.sort();
    let (notes, logs): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| name.ends_with(".arrived"));
    assert_eq!(notes, logs.iter().map(|name| format!("{name}.arrived")).collect::<Vec<_>>());
    logs
}

fn lines(out: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    out.lines().map(parse).filter(|message| message["message_type"] == "log").collect()
}

#[test]
fn an_archive_is_listed_and_pruned_with_its_backups() {
    on_mariadb(|product| {
        let mut scene = Scene::new(product, &[]);
        // An archive without a backup.
        scene.archive();
        scene.run(&["list", "repo", "--log-older-than", "1h"]).exits(0);
        scene.run(&["list", "repo", "--older-than", "1h"]).exits(3).says(&["there is no backup in repo"]);
        for id in 10..13 {
            scene.does(&[&format!("INSERT INTO app.t VALUES ({id}, 'x')"), "FLUSH BINARY LOGS"]);
            scene.backup();
            scene.archive();
        }
        scene.does(&[
            "INSERT INTO app.t VALUES (20, 'y')",
            "FLUSH BINARY LOGS",
            "DELETE FROM app.t WHERE id = 10",
        ]);
        scene.archive();
        let names = files(&scene);
        assert_eq!(names.len(), 5);
        let shown = scene.run(&["list", "repo/db", "--log-older-than", "1h"]).exits(0).out;
        let last = shown.lines().last().unwrap();
        let expected = ["db log, timeline 1", "binlog.000001 to binlog.000005", "caught up 2"];
        assert!(expected.iter().all(|part| last.contains(part)), "{shown}");
        let told = lines(&scene.run(&["list", "repo", "--json"]).exits(0).out).remove(0);
        assert_eq!((&told["files"], &told["reason"]), (&5.into(), &"first".into()), "{told}");
        // Nobody has archived for a day.
        fs::write(scene.folder.path().join("repo/db/log/caught-up"), "1700000000\n").unwrap();
        scene
            .run(&["list", "repo", "--log-older-than", "1d"])
            .exits(3)
            .says(&["db: the archive of the log last had everything at 2023-11-14"]);

        scene.run(&["prune", "repo", "--keep-last", "2", "--dry-run"]).exits(0).says(&["would be freed"]);
        assert_eq!(files(&scene), names);
        scene
            .run(&["prune", "repo", "--keep-last", "2"])
            .exits(0)
            .says(&["freed in the archived log: 2 files"]);
        assert_eq!(files(&scene), names[2..]);
        scene.run(&["log", "repo/db"]).exits(0).says(&[]);
        scene.run(&["prune", "repo/db", "--keep-within", "1h"]).exits(0);
        assert_eq!(files(&scene), names[2..]);
        // The archiver continues in the same timeline, and the log leads from the oldest backup to its end.
        scene.does(&["INSERT INTO app.t VALUES (30, 'z')", "FLUSH BINARY LOGS"]);
        scene.archive();
        scene.run(&["list", "repo", "--log-older-than", "1h"]).exits(0);
        assert_eq!(lines(&scene.run(&["list", "repo", "--json"]).exits(0).out).len(), 1);
        let now = scene.moment();
        let oldest = scene.restored(&["--until", "end"]).0;
        assert_eq!(oldest, now.sums);
        // A backup that does not say where it is in the log may need all of it.
        let path = |name: &str| scene.folder.path().join(name);
        fs::write(path("a"), "a").unwrap();
        scene.run(&["backup", "file:a", "--name", "plain", "--to", "repo"]).exits(0);
        assert!(
            Command::new("cp")
                .arg("-a")
                .arg(path("repo/db/log"))
                .arg(path("repo/plain/log"))
                .status()
                .unwrap()
                .success()
        );
        let stays = "plain: the archived log stays as it is: plain@1 does not say its position in the log";
        scene.run(&["prune", "repo/plain", "--keep-last", "1"]).exits(0).says(&[stays]);
        assert_eq!(
            fs::read_dir(path("repo/plain/log/000001")).unwrap().count(),
            2 + 1 + 2 * files(&scene).len()
        );
    });
}
