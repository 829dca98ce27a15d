//! Recovery targets at the end of a generation and at the end of the archive.

use sandbox::Product;

use crate::recovery_scene::{Scene, sums};

/// A generation that is at the target, or after it in one domain, has nothing or less to replay.
#[test]
fn a_gtid_that_the_generation_has_needs_no_replay() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.does(&["SET gtid_domain_id = 1", "CREATE TABLE app.u (i INT)", "SET gtid_domain_id = 0"]);
    let earlier = scene.moment();
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    let begin = scene.moment();
    scene.backup();
    scene.does(&["INSERT INTO app.t VALUES (4, 'four')"]);
    let moment = scene.moment();
    scene.does(&["INSERT INTO app.t VALUES (5, 'five')"]);
    scene.archive();
    assert!(moment.gtid.contains(','), "{}", moment.gtid);
    let newest = |gtid: &str| gtid.split(',').find(|it| it.starts_with("0-")).unwrap().to_owned();
    for (goal, wanted) in [
        (&moment.gtid, &moment),
        (&begin.gtid, &begin),
        (&newest(&begin.gtid), &begin),
        (&begin.position, &begin),
    ] {
        let (found, ended) = scene.restored(&["--until", goal]);
        assert_eq!(found, wanted.sums, "{goal}: {}", ended.err);
    }
    scene.does_not_restore(&["--until", &earlier.gtid], 1, "the generation has");
}

/// A file may continue after its last transaction, with events that belong to none.
#[test]
fn a_target_position_must_be_archived() {
    let mut scene = Scene::new(Product::MariaDb1011, &["--binlog-format=ROW"]);
    scene.backup();
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')", "FLUSH BINARY LOGS"]);
    let moment = scene.moment();
    scene.archive();
    let (found, ended) = scene.restored(&["--until", &moment.position]);
    assert_eq!(found, moment.sums, "{}", ended.err);
    scene.does(&["INSERT INTO app.t VALUES (4, 'four')"]);
    scene.archive();
    let (found, ended) = scene.restored(&["--until", &moment.position]);
    assert_eq!(found, moment.sums, "{}", ended.err);
    scene.does_not_restore(&["--until", "binlog.000001:99999999"], 1, "binlog.000001 ends at ");
}

/// What the generation has is not replayed once more if its last statement is compressed.
#[test]
fn a_compressed_statement_at_the_end_is_in_the_generation() {
    let options = ["--log-bin-compress=1", "--log-bin-compress-min-len=10"];
    let mut scene = Scene::new(Product::MariaDb1011, &options);
    scene.does(&[
        "CREATE TABLE app.a (of_a INT)",
        "CREATE TABLE app.b (of_b INT)",
        "RENAME TABLE app.a TO app.x, app.b TO app.a, app.x TO app.b",
    ]);
    scene.backup();
    scene.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
    scene.archive();
    let end = sums(&mut scene.session);
    let (found, ended) = scene.restored(&["--until", "end"]);
    assert_eq!(found, end, "{}", ended.err);
}
