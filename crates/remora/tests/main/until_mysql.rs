//! `remora restore --until` with data and logs of MySQL.

use std::fs;

use sandbox::{Family, Product};
use server::Session;

use crate::extract::session;
use crate::recovery_scene::Scene;
use crate::support::{Ended, newest, of_today, on_products, part_of_today, products, tell, until};
use crate::until::zoo;

fn on_mysql(test: impl Fn(Product)) {
    let all = products().into_iter().filter(|product| product.family() == Family::MySql);
    on_products(&of_today(all.collect()), test);
}

/// How a server may log: with and without GTIDs, whole transactions compressed or not.
fn settings(product: Product) -> &'static [&'static [&'static str]] {
    match product {
        Product::MySql56 => {
            &[&[], &["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-slave-updates"]]
        }
        _ => &[&["--binlog-transaction-compression=ON"], &["--gtid-mode=OFF"]],
    }
}

#[test]
fn every_transaction_of_mysql_can_be_a_recovery_target() {
    on_mysql(|product| {
        let all = settings(product).to_vec();
        let parts = all.len();
        for settings in part_of_today(all, parts) {
            tell(format!("{product} {settings:?}"));
            has_every_transaction(product, settings);
        }
    });
}

fn has_every_transaction(product: Product, settings: &[&str]) {
    let mut scene = Scene::new(product, settings);
    let has_gtids = scene.moment().gtid != ":";
    let file = scene.folder.path().join("rows.txt");
    fs::write(&file, "5\tfive\n6\tsix\n").unwrap();
    scene.backup();
    let mut moments = vec![scene.moment()];
    for step in zoo(&format!("LOAD DATA INFILE '{}' INTO TABLE app.m (id, text)", file.display())) {
        let step: Vec<&str> = step.iter().map(String::as_str).collect();
        // With GTIDs, 5.6 makes no table of a SELECT.
        let is_possible =
            |sql: &&&str| !(has_gtids && product == Product::MySql56 && sql.contains(" AS SELECT"));
        let step: Vec<&str> = step.iter().filter(is_possible).copied().collect();
        if has_gtids && product == Product::MySql56 && step.iter().any(|sql| sql.contains("app2.u")) {
            continue;
        }
        scene.does(&step);
        moments.push(scene.moment());
    }
    scene.does(&["INSERT INTO app.p VALUES (77)"]);
    moments.push(scene.moment());
    scene.archive();
    let (half, last) = (moments.len() / 2, moments.len() - 1);
    for number in [0, half] {
        let moment = &moments[number];
        let until = if has_gtids && number > 0 { &moment.gtid } else { &moment.position };
        let (found, ended) = scene.restored(&["--until", until]);
        assert_eq!(found, moment.sums, "{until}: {}", ended.err);
    }
    let (found, ended) = scene.restored(&["--until", "end"]);
    assert_eq!(found, moments[last].sums);
    assert!(ended.err.contains("the end of the archived log"), "{}", ended.err);
    if has_gtids {
        let gtid = &moments[last].gtid;
        let (found, ended) = scene.restored(&["--before", gtid]);
        assert_eq!(found, moments[last - 1].sums);
        assert!(ended.err.contains(&format!("next would be {gtid}")), "{}", ended.err);
    }
}

/// The events of the user, without what ALTER EVENT changes in any case: when that was, and by which server.
fn events(session: &mut Session) -> Vec<Vec<Option<String>>> {
    let columns = "event_schema, event_name, definer, time_zone, event_definition, event_type, execute_at, interval_value, \
                   sql_mode, starts, ends, status, on_completion, event_comment, character_set_client, \
                   collation_connection, database_collation";
    session.strings(&format!("SELECT {columns} FROM information_schema.events ORDER BY 1, 2")).unwrap()
}

/// A replica disables all events; what is replayed is none. MySQL keeps a transaction in XA PREPARE too.
#[test]
fn events_and_prepared_transactions_of_mysql_are_as_they_were() {
    let found = newest("events_and_prepared_transactions_of_mysql_are_as_they_were");
    on_products(&found, |product| {
        let mut scene = Scene::new(product, &[]);
        let every = "ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00'";
        scene.does(&[
            &format!("CREATE EVENT app.before {every} DO SET @a = 1"),
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'nowhere', SOURCE_USER = 'x' FOR CHANNEL 'one'",
        ]);
        scene.backup();
        scene.does(&[
            "CREATE USER 'an@odd'@localhost",
            "SET sql_mode = 'ANSI_QUOTES', time_zone = '+03:00', collation_connection = utf8mb4_bin",
            &format!("CREATE DEFINER = 'an@odd'@localhost EVENT app.\"odd \"\"`name\" {every} DO SET @a = \"b\""),
            "SET sql_mode = DEFAULT, time_zone = DEFAULT",
            &format!("CREATE EVENT app.off {every} DISABLE DO SET @a = 1"),
            "CREATE EVENT app.over ON SCHEDULE AT NOW() + INTERVAL 3 SECOND ON COMPLETION PRESERVE DO SET @a = 1",
            "ALTER EVENT app.before COMMENT 'altered'",
            "XA START 'it', X'00ff', 7",
            "INSERT INTO app.t VALUES (7, 'prepared')",
            "XA END 'it', X'00ff', 7",
            "XA PREPARE 'it', X'00ff', 7",
        ]);
        let mut wanted = events(&mut scene.session);
        scene.archive();
        until("the event is over", || {
            scene
                .session
                .value("SELECT COUNT(*) FROM information_schema.events WHERE execute_at < NOW()")
                .unwrap()
                == Some("1".to_owned())
        });
        let ended = scene.restore(&["--until", "end"]).exits(0);
        ended.says(&["in XA PREPARE at that point in time", "'it',X'00ff',7", "`app`.`over` was to run"]);
        let back = scene.served("back");
        let mut session = session(&back);
        let found = events(&mut session);
        let status = 11;
        for event in wanted.iter_mut().filter(|event| event[1].as_deref() == Some("over")) {
            event[status] = Some("DISABLED".to_owned());
        }
        assert_eq!(found, wanted);
        let prepared = session.strings("XA RECOVER CONVERT XID").unwrap();
        assert_eq!(prepared.len(), 1, "{prepared:?}");
        session.execute("XA ROLLBACK 'it', X'00ff', 7").unwrap();
        // It was a replica, and nothing leads to its source any more.
        assert_eq!(session.strings("SHOW REPLICA STATUS").unwrap().len(), 0);
        let left = fs::read_dir(back.data()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.filter(|name| name.to_string_lossy().contains("relay")).count(), 0);
        let own = session.value("SELECT COUNT(*) FROM mysql.user WHERE user LIKE 'remora%'").unwrap();
        assert_eq!(own.as_deref(), Some("0"));
    });
}

/// The last transaction that a generation has may be named, and no earlier one.
#[test]
fn a_generation_of_mysql_is_chosen_by_gtid() {
    let found = newest("a_generation_of_mysql_is_chosen_by_gtid");
    on_products(&found, |product| {
        let mut scene = Scene::new(product, &[]);
        scene.backup();
        let insert = |scene: &mut Scene, id: u32| {
            scene.session.execute(&format!("INSERT INTO app.t VALUES ({id}, 'x')")).unwrap();
            scene.moment().gtid
        };
        let (third, fourth) = (insert(&mut scene, 3), insert(&mut scene, 4));
        scene.backup();
        scene.session.execute("SET sql_log_bin = 0").unwrap();
        scene.session.execute("INSERT INTO app.t VALUES (99, 'not logged')").unwrap();
        scene.session.execute("SET sql_log_bin = 1").unwrap();
        let fifth = insert(&mut scene, 5);
        // Nothing is behind this one.
        scene.backup();
        scene.archive();
        let plan = |more: &[&str]| scene.run(&[&["restore", "repo/db", "--plan"], more].concat());
        let from = |ended: Ended, generation: u32| ended.exits(0).says(&[&format!("db@{generation} at ")]);
        from(plan(&["--until", &third]), 1);
        from(plan(&["--until", &fourth]), 2).says(&["0 transactions", &format!("next would be {fifth}")]);
        from(plan(&["--until", &fifth]), 3).says(&["0 transactions"]);
        scene.run(&["restore", "repo/db@3", "--plan", "--until", &fourth]).exits(1);
        from(plan(&["--before", &fourth]), 1);
        let named = scene.run(&["restore", "repo/db@2", "--plan", "--until", &third]);
        named.exits(1).says(&[&format!("has {third} already, and later ones")]);
        plan(&["--until", &fifth.replacen(':', ":1-", 1)]).exits(2);
        // The log has all that was changed, and the row that it lacks is found.
        scene.run(&["verify", "repo/db@2", "--replay"]).exits(0).says(&["all equal"]);
        scene.run(&["verify", "repo/db@3", "--replay"]).exits(4).says(&["1 difference", "sql_log_bin=0"]);
        // One table of a moment.
        let line = ["restore", "repo/db", "--until", &third, "--tables", "app.t", "--to", "dump"];
        scene.run(&line).exits(0).says(&["3 rows"]);
    });
}
