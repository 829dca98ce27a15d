//! A server dies, and everybody continues with a replica of it: backups of the one and the archived log of
//! the other. The replica's log has other files, and the same transactions at other offsets.

use std::collections::BTreeMap;

use sandbox::{Product, Sandbox, Settings};
use server::Session;

use crate::extract::{execute, session};
use crate::recovery_scene::{Moment, Scene, on_mariadb, sums};
use crate::support::{connect, places, start, until};

/// Options of a server that others replicate. Its log is ROW, so that all have the same rows.
const OWN: [&str; 3] = ["--log-bin=binlog", "--server-id=7", "--binlog-format=ROW"];

/// A server and a replica.
struct Pair {
    scene: Scene,
    replica: Sandbox,
    copy: Session,
}

impl Pair {
    /// `name` is the name of the replica's log.
    fn new(product: Product, name: &str) -> Pair {
        let mut pair = Pair::alike(product, name);
        // From here on the offsets differ, whatever the names are.
        execute(&mut pair.copy, &["FLUSH BINARY LOGS"]);
        pair
    }

    /// The replica's log is as long as the server's.
    fn alike(product: Product, name: &str) -> Pair {
        let options = OWN.map(str::to_owned).to_vec();
        let settings = Settings { options, port: Some(0), ..Settings::default() };
        let source =
            Sandbox::start(&sandbox::find(&places(), product).unwrap(), &places(), &settings).unwrap();
        let mut scene = Scene::of(source);
        scene.does(&[
            "CREATE USER copy@'127.0.0.1' IDENTIFIED BY 'x'",
            "GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'",
            "CREATE TABLE app.twice (a INT)",
            "CREATE TABLE app.u (a INT)",
        ]);
        let log = format!("--log-bin={name}");
        let options = [
            &log,
            "--server-id=8",
            "--log-slave-updates=1",
            "--binlog-format=ROW",
            "--slave-parallel-threads=4",
        ];
        let replica = start(product, &options);
        let mut copy = connect(replica.socket());
        let change = format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'copy', MASTER_PASSWORD = 'x', \
             MASTER_SSL = 0, MASTER_USE_GTID = slave_pos",
            scene.server.port().unwrap()
        );
        execute(&mut copy, &[&change, "START SLAVE"]);
        let mut pair = Pair { scene, replica, copy };
        pair.same();
        pair
    }

    fn does(&mut self, statements: &[&str]) {
        self.scene.does(statements);
    }

    /// Waits until the replica has everything.
    fn same(&mut self) {
        let all = self.scene.session.value("SELECT @@gtid_binlog_pos").unwrap().unwrap();
        let copy = &mut self.copy;
        until("the replica has everything", || {
            copy.value("SELECT @@gtid_slave_pos").unwrap().as_deref() == Some(&*all)
        });
    }

    /// The server dies, and its replica is the server from now on.
    fn fails(mut self) -> Scene {
        self.scene.server.kill().unwrap();
        execute(&mut self.copy, &["STOP SLAVE"]);
        self.scene.session = connect(self.replica.socket());
        self.scene.server = self.replica;
        self.scene
    }
}

/// A point in time, and later ones, on the server that everybody continues with.
fn goes_on(scene: &mut Scene) -> (Moment, BTreeMap<String, String>) {
    scene.does(&["INSERT INTO app.twice VALUES (3)", "UPDATE app.t SET text = CONCAT(text, '!')"]);
    let moment = scene.moment();
    scene.does(&["DELETE FROM app.t WHERE id = 1", "FLUSH BINARY LOGS", "INSERT INTO app.twice VALUES (4)"]);
    scene.archive();
    (moment, sums(&mut scene.session))
}

#[test]
fn failover_by_gtid() {
    on_mariadb(|product| {
        let names: &[&str] =
            if product == Product::MariaDb1011 { &["replog", "binlog"] } else { &["binlog"] };
        for name in names {
            let mut pair = Pair::new(product, name);
            pair.does(&[
                "INSERT INTO app.twice VALUES (1)",
                "FLUSH BINARY LOGS",
                "INSERT INTO app.twice VALUES (1)",
            ]);
            pair.scene.backup();
            pair.does(&["INSERT INTO app.twice VALUES (2)", "CREATE TABLE app.v AS SELECT * FROM app.t"]);
            let before = pair.scene.moment();
            pair.does(&["INSERT INTO app.t VALUES (3, 'three')"]);
            pair.scene.archive();
            pair.same();
            let mut scene = pair.fails();
            let (moment, end) = goes_on(&mut scene);
            let (found, ended) = scene.restored(&["--until", "end"]);
            assert_eq!(found, end, "{}", ended.err);
            ended.says(&[
                "another server, timeline 1: timeline 2 has the same transactions up to",
                &format!("{name}.00000"),
            ]);
            for (until, sums) in
                [(&moment.gtid, &moment.sums), (&moment.position, &moment.sums), (&before.gtid, &before.sums)]
            {
                let (found, ended) = scene.restored(&["--until", until]);
                assert_eq!(found, *sums, "{until}: {}", ended.err);
            }
            let told =
                scene.run(&["restore", "repo/db@1", "--until", "end", "--plan", "--json"]).exits(0).out;
            // If it takes longer than a second, there are lines of progress, too.
            let plan = told.lines().find(|line| line.contains("backup_timeline")).unwrap();
            let plan: serde_json::Value = serde_json::from_str(plan).unwrap();
            assert_eq!((&plan["backup_timeline"], &plan["transactions"]), (&"1".into(), &7.into()), "{plan}");
            assert!(plan["missing_transactions"].as_array().unwrap().is_empty(), "{plan}");
            let (found, _) = scene.restored(&["--timeline", "1", "--until", &before.gtid]);
            assert_eq!(found, before.sums);
        }
    });
}

/// Both have files of one name, in which the same transactions end at the same offsets: only bytes tell them
/// apart.
#[test]
fn failover_by_gtid_to_a_replica_with_a_log_that_is_as_long() {
    let mut pair = Pair::alike(Product::MariaDb1011, "binlog");
    pair.scene.backup();
    let place = |session: &mut Session| session.strings("SHOW MASTER STATUS").unwrap().remove(0);
    let own = place(&mut pair.scene.session);
    pair.same();
    assert_eq!(own, place(&mut pair.copy), "what the test is about");
    pair.does(&["INSERT INTO app.twice VALUES (2)"]);
    pair.scene.archive();
    pair.same();
    let mut scene = pair.fails();
    let (_, end) = goes_on(&mut scene);
    let (found, ended) = scene.restored(&["--until", "end"]);
    assert_eq!(found, end, "{}", ended.err);
    ended.says(&["another server, timeline 1: timeline 2 has the same transactions up to"]);
}

/// Transactions that the replica has not logged, although it continued.
#[test]
fn failover_by_gtid_names_transactions_that_the_replica_lacks_between_others() {
    let mut pair = Pair::new(Product::MariaDb1011, "replog");
    pair.scene.backup();
    pair.same();
    execute(&mut pair.copy, &["STOP SLAVE"]);
    pair.does(&["INSERT INTO app.twice VALUES (6)"]);
    let lost = pair.scene.moment().gtid;
    execute(&mut pair.copy, &[&format!("SET GLOBAL gtid_slave_pos = '{lost}'"), "START SLAVE"]);
    pair.does(&["INSERT INTO app.twice VALUES (7)"]);
    pair.same();
    pair.scene.archive();
    let mut scene = pair.fails();
    let (_, end) = goes_on(&mut scene);
    let (found, ended) = scene.restored(&["--until", "end"]);
    assert_eq!(found, end, "{}", ended.err);
    ended.says(&[&format!(": {lost}. That server has not logged them")]);
}

/// Both wrote at the same time: what the generation has comes later there than what it lacks.
#[test]
fn failover_to_a_server_that_wrote_too_and_logged_in_another_order() {
    let mut pair = Pair::new(Product::MariaDb1011, "replog");
    pair.same();
    execute(&mut pair.copy, &["STOP SLAVE"]);
    let domain = "SET gtid_domain_id = 5";
    let both = [
        "SET timestamp = 1900000000",
        "SET gtid_seq_no = 1",
        "INSERT INTO app.twice VALUES (7)",
        "SET timestamp = 0",
    ];
    pair.does(&[domain, "INSERT INTO app.twice VALUES (6)", "SET server_id = 8"]);
    pair.does(&both);
    pair.does(&["SET server_id = 7"]);
    pair.scene.backup();
    pair.scene.archive();
    execute(&mut pair.copy, &[domain]);
    execute(&mut pair.copy, &both);
    execute(&mut pair.copy, &["INSERT INTO app.twice VALUES (8)", "START SLAVE"]);
    until("the replica has the other one", || {
        pair.copy.value("SELECT COUNT(*) FROM app.twice WHERE a = 6").unwrap().as_deref() == Some("1")
    });
    let mut scene = pair.fails();
    goes_on(&mut scene);
    scene.does_not_restore(&["--until", "end"], 1, "which the generation has, behind others that it lacks");
}

/// Two domains, which the replica applies at the same time.
#[test]
fn failover_with_two_domains() {
    let mut pair = Pair::new(Product::MariaDb1011, "replog");
    pair.does(&["SET gtid_domain_id = 1", "INSERT INTO app.u VALUES (1)", "SET gtid_domain_id = 0"]);
    pair.same();
    pair.scene.backup();
    pair.does(&["INSERT INTO app.twice VALUES (1)"]);
    pair.same();
    pair.scene.backup();
    // Here domain 0 waits, and domain 1 continues.
    let mut locks = connect(pair.replica.socket());
    execute(&mut locks, &["LOCK TABLES app.twice READ"]);
    pair.does(&["INSERT INTO app.twice VALUES (2)"]);
    pair.scene.backup();
    pair.does(&["SET gtid_domain_id = 1", "INSERT INTO app.u VALUES (2)", "SET gtid_domain_id = 0"]);
    until("the second domain is there", || {
        pair.copy.value("SELECT COUNT(*) FROM app.u").unwrap().as_deref() == Some("2")
    });
    execute(&mut locks, &["UNLOCK TABLES"]);
    pair.same();
    pair.scene.archive();
    let mut scene = pair.fails();
    let (_, end) = goes_on(&mut scene);
    for generation in ["repo/db@1", "repo/db@2"] {
        scene.run(&["restore", generation, "--to", "back", "--until", "end"]).exits(0);
        assert_eq!(scene.found(), end, "{generation}");
    }
    let third = scene.run(&["restore", "repo/db@3", "--until", "end", "--plan"]).exits(1);
    third.says(&["in another order with those of other domains", "--timeline 1"]);
    // Without a number another generation is taken.
    scene.restore(&["--until", "end", "--plan"]).exits(0).says(&["db@2 at"]);
}

/// The archive has what the replica never got.
#[test]
fn failover_to_a_replica_that_is_behind() {
    let mut pair = Pair::new(Product::MariaDb1011, "replog");
    pair.does(&["INSERT INTO app.twice VALUES (1)"]);
    pair.scene.backup();
    pair.same();
    execute(&mut pair.copy, &["STOP SLAVE"]);
    pair.does(&["INSERT INTO app.twice VALUES (7)"]);
    let lost = pair.scene.moment();
    pair.scene.backup();
    pair.scene.archive();
    let mut scene = pair.fails();
    let (_, end) = goes_on(&mut scene);
    let (found, ended) = scene.restored(&["--until", "end"]);
    assert_eq!(found, end, "{}", ended.err);
    let lacks = format!(": {}. That server has not logged them", lost.gtid);
    ended.says(&["db@1 at", &lacks]);
    let ended = scene.run(&["restore", "repo/db@2", "--to", "back", "--until", "end"]).exits(1);
    ended.says(&[&format!("the generation has {}, which that server has not logged", lost.gtid)]);
    let (found, _) = scene.restored(&["--timeline", "1", "--until", "end"]);
    assert_eq!(found, lost.sums);
}

#[test]
fn failover_to_a_replica_that_has_purged_its_log() {
    let mut pair = Pair::new(Product::MariaDb1011, "replog");
    pair.scene.backup();
    pair.does(&["INSERT INTO app.twice VALUES (1)"]);
    let moment = pair.scene.moment();
    pair.scene.archive();
    pair.same();
    execute(&mut pair.copy, &["FLUSH BINARY LOGS"]);
    until("the files are purged", || {
        execute(&mut pair.copy, &["PURGE BINARY LOGS TO 'replog.000003'"]);
        pair.copy.strings("SHOW BINARY LOGS").unwrap().len() == 1
    });
    let mut scene = pair.fails();
    goes_on(&mut scene);
    let ended = scene.run(&["restore", "repo/db", "--to", "back", "--until", "end"]).exits(1);
    ended.says(&["timeline 2 begins behind the generation", "'--timeline 1' replays timeline 1 to its end"]);
    let (found, _) = scene.restored(&["--timeline", "1", "--until", "end"]);
    assert_eq!(found, moment.sums);
}

/// The same GTIDs, but nobody's replica.
#[test]
fn a_server_with_the_same_gtids_and_other_rows_is_no_replica() {
    let product = Product::MariaDb1011;
    let mut scene = Scene::new(product, &["--binlog-format=ROW"]);
    scene.backup();
    scene.archive();
    scene.server = start(product, &["--log-bin=other", "--server-id=7", "--binlog-format=ROW"]);
    scene.session = session(&scene.server);
    scene.does(&["CREATE TABLE app.t (id INT PRIMARY KEY, text VARCHAR(50))"]);
    scene.does(&["INSERT INTO app.t VALUES (1, 'eno'), (2, 'owt')", "INSERT INTO app.t VALUES (3, 'three')"]);
    scene.archive();
    let ended = scene.run(&["restore", "repo/db", "--to", "back", "--until", "end"]).exits(1);
    ended.says(&["another history with the same GTIDs"]);
}
