//! `remora restore --until` and transactions in XA PREPARE.

use std::fs;

use sandbox::{Product, Sandbox, Settings};

use crate::extract::{execute, session};
use crate::recovery_scene::Scene;
use crate::support::{places, until};

/// A restore does what its plan says.
#[test]
fn the_log_ends_transactions_that_the_generation_has_prepared() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    let prepare = |scene: &Scene, name: &str, id: u32| {
        let mut session = session(&scene.server);
        let xa = |what: &str| format!("XA {what} '{name}'");
        let insert = format!("INSERT INTO app.t VALUES ({id}, '{name}')");
        execute(&mut session, &[&xa("START"), &insert, &xa("END"), &xa("PREPARE")]);
    };
    for (name, id) in [("a", 5), ("b", 6), ("c", 7)] {
        prepare(&scene, name, id);
    }
    scene.backup();
    for end in ["XA COMMIT 'a'", "XA ROLLBACK 'b'"] {
        until(end, || scene.session.execute(end).is_ok());
    }
    scene.does(&["INSERT INTO app.t VALUES (6, 'again'), (8, 'after')"]);
    let moment = scene.moment();
    scene.archive();
    scene.run(&["restore", "repo/db", "--until", "end", "--plan"]).exits(0).says(&["would be restored"]);
    let (found, ended) = scene.restored(&["--until", "end"]);
    assert_eq!(found, moment.sums, "{}", ended.err);
    assert!(ended.err.contains("holding locks: 'c' (before the backup)."), "{}", ended.err);
}

#[test]
fn transactions_that_stay_prepared_are_named() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.backup();
    let name = "X'00ff','b',7";
    let prepare = |scene: &Scene, name: &str, row: &str| {
        let mut session = session(&scene.server);
        let xa = |what: &str| format!("XA {what} {name}");
        let insert = format!("INSERT INTO app.t VALUES {row}");
        execute(&mut session, &[&xa("START"), &insert, &xa("END"), &xa("PREPARE")]);
        session
    };
    let first = prepare(&scene, "'a'", "(5, 'xa')");
    let one = scene.moment();
    let second = prepare(&scene, name, "(6, 'xb')");
    let both = scene.moment();
    // Another session can end what it has prepared once it is gone.
    drop((first, second));
    until("it can be committed", || scene.session.execute("XA COMMIT 'a'").is_ok());
    scene.archive();
    let plan = scene.run(&["restore", "repo/db", "--until", &both.gtid, "--plan"]).exits(0);
    plan.says(&[
        "in XA PREPARE at that point in time",
        &format!("'a' ({}); {name} ({})", one.gtid, both.gtid),
    ]);
    let prepared = |until: &str| {
        let ended = scene.restore(&["--until", until, "--json"]).exits(0);
        let line = ended
            .out
            .lines()
            .find(|line| line.contains("\"prepared\""))
            .unwrap_or_else(|| panic!("{}", ended.out));
        let told: serde_json::Value = serde_json::from_str(line).unwrap();
        let back = scene.folder.path().join("back");
        let options = vec!["--skip-grant-tables".to_owned()];
        let settings = Settings { data: Some(back.clone()), options, ..Settings::default() };
        let found = sandbox::find(&places(), Product::MariaDb1011).unwrap();
        let server = Sandbox::start(&found, &places(), &settings).unwrap();
        let mut session = session(&server);
        let rows = session.strings("XA RECOVER FORMAT='SQL'").unwrap();
        // What was named ends them.
        for xa in told["prepared"].as_array().unwrap() {
            session.execute(&format!("XA ROLLBACK {}", xa.as_str().unwrap())).unwrap();
        }
        assert!(session.strings("XA RECOVER").unwrap().is_empty());
        drop((session, server));
        fs::remove_dir_all(back).unwrap();
        (rows.len(), told["prepared"].clone(), ended.out)
    };
    let (rows, told, said) = prepared(&both.gtid);
    assert_eq!((rows, told), (2, serde_json::json!(["'a'", name])), "{said}");
    let (rows, told, said) = prepared("end");
    assert_eq!((rows, told), (1, serde_json::json!([name])), "{said}");
    assert!(said.contains("in XA PREPARE at that point in time"), "{said}");
    let (rows, told, said) = prepared(&one.gtid);
    assert_eq!((rows, told), (1, serde_json::json!(["'a'"])), "{said}");
    let ended = scene.restore(&["--before", &one.gtid, "--plan"]).exits(0);
    assert!(!ended.err.contains("XA PREPARE"), "{}", ended.err);
}
