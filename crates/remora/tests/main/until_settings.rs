//! `remora restore --until` and the original server: its settings, its events, its changes without the log.

use std::collections::BTreeMap;
use std::fs;

use sandbox::{Product, Sandbox, Settings};
use server::Session;

use crate::extract::session;
use crate::recovery_scene::{Scene, on_mariadb};
use crate::support::{connect, places, start};

/// The settings that a generation notes.
fn noted() -> Vec<&'static str> {
    let source = include_str!("../../../instance/src/settings.rs");
    let lines = source.lines().filter_map(|line| line.strip_prefix("    \"")?.strip_suffix("\","));
    lines
        .filter(|name| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        })
        .collect()
}

/// Settings, and beginnings of their names, that do not change the effect of a logged statement. They say how
/// fast it is, what a client sees or what is allowed, or the event has them, or they are files and keys of
/// one machine.
const OTHERS: &str = "allow_ alter_algorithm aria_checkpoint aria_force aria_group aria_log aria_max aria_pagecache aria_recover \
    aria_repair aria_sort aria_stats aria_sync aria_used auto_increment autocommit back_log basedir big_tables bind_address binlog \
    bulk_insert character_set_client character_set_connection character_set_database character_set_results character_set_server \
    character_set_system character_sets_dir check_constraint_checks collation_connection collation_database column_compression \
    completion_type concurrent connect_timeout core_file datadir date_format datetime_format deadlock debug delay_key_write delayed \
    disconnect_on encrypt_ eq_range error_count event_scheduler expensive expire extra_ external_user feedback flush foreign_key_checks \
    general_log gtid have_ host hostname identity idle ignore_ in_predicate in_transaction init_ innodb_adaptive innodb_alter \
    innodb_autoextend innodb_buf innodb_change innodb_checksum innodb_cmp innodb_compression_a innodb_compression_f \
    innodb_compression_l innodb_compression_p innodb_data innodb_deadlock innodb_defragment innodb_disable innodb_doublewrite \
    innodb_encrypt_log innodb_encrypt_temp innodb_encryption innodb_evict innodb_fast innodb_fatal innodb_fil innodb_flush innodb_force \
    innodb_ft_aux innodb_ft_cache innodb_ft_enable_diag innodb_ft_num innodb_ft_result innodb_ft_sort innodb_ft_total \
    innodb_immediate innodb_index innodb_instant innodb_io innodb_limit innodb_linux innodb_lock innodb_log innodb_lru innodb_max \
    innodb_merge innodb_monitor innodb_numa innodb_old innodb_online innodb_open innodb_optimize innodb_page innodb_prefix innodb_print \
    innodb_purge innodb_random innodb_read_ahead innodb_read_io innodb_read_only innodb_rollback innodb_saved innodb_scrub \
    innodb_snapshot innodb_sort innodb_spin innodb_stats innodb_status innodb_sync innodb_table innodb_temp innodb_thread innodb_tmpdir \
    innodb_trunc innodb_trx innodb_undo innodb_use innodb_version innodb_write insert_id interactive join keep_files key_ large last_ \
    lc_ license local_infile lock_wait locked log_ long_query low_priority lower_case_file_system master max_allowed max_binlog \
    max_connect max_delayed max_digest max_error max_insert max_join max_length max_password max_prepared max_relay max_rowid \
    max_seeks max_session max_statement max_tmp max_user max_write metadata mhnsw_ef mhnsw_max min_examined mrr myisam_max myisam_mmap \
    myisam_recover myisam_repair myisam_sort myisam_stats myisam_use net_ note old old_alter_table open_files optimizer performance_schema \
    pid_file plugin_dir port preload profiling progress protocol proxy pseudo query_ rand_seed range_ read_ redirect relay replicate \
    report require_secure rowid rpl_ secure_ server_id server_uid session_track shutdown skip slave slow socket sort_buffer sql_ ssl \
    storage_engine stored strict_password sync system_time_zone system_versioning table_ tcp thread threadpool time_format timed timestamp \
    tls tmp transaction tx_ unique_checks updatable userstat version wait_timeout warning_count wsrep";

/// Whoever adds a server adds its settings here, or to those that are noted.
#[test]
fn every_server_setting_is_noted_or_irrelevant() {
    let noted = noted();
    assert!(noted.len() > 50 && noted.contains(&"lower_case_table_names"), "{noted:?}");
    on_mariadb(|product| {
        let server = start(product, &[]);
        let rows = connect(server.socket()).strings("SHOW GLOBAL VARIABLES").unwrap();
        let names = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
        let new: Vec<String> = names
            .map(|name| name.to_lowercase())
            .filter(|name| !noted.contains(&name.as_str()))
            .filter(|name| !OTHERS.split_whitespace().any(|other| name.starts_with(other)))
            .collect();
        assert_eq!(new, Vec::<String>::new(), "does it change what a statement makes?");
    });
}

/// Settings that no server has by itself.
const HOSTILE: [&str; 35] = [
    "--lower-case-table-names=1",
    "--ft-min-word-len=2",
    "--ft-max-word-len=60",
    "--ft-query-expansion-limit=10",
    "--innodb-ft-min-token-size=2",
    "--innodb-ft-max-token-size=40",
    "--innodb-autoinc-lock-mode=2",
    "--myisam-block-size=2048",
    "--plugin-maturity=unknown",
    "--analyze-sample-percentage=50",
    "--aria-page-checksum=OFF",
    "--automatic-sp-privileges=OFF",
    "--character-set-filesystem=latin1",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_bin",
    "--default-regex-flags=DOTALL",
    "--default-storage-engine=MyISAM",
    "--default-week-format=3",
    "--default-time-zone=+03:00",
    "--div-precision-increment=9",
    "--explicit-defaults-for-timestamp=OFF",
    "--group-concat-max-len=100",
    "--histogram-size=10",
    "--histogram-type=SINGLE_PREC_HB",
    "--innodb-default-row-format=compact",
    "--innodb-ft-enable-stopword=OFF",
    "--innodb-strict-mode=OFF",
    "--max-heap-table-size=1M",
    "--max-recursive-iterations=77",
    "--max-sort-length=64",
    "--max-sp-recursion-depth=7",
    "--myisam-data-pointer-size=4",
    "--old-mode=",
    "--standard-compliant-cte=OFF",
    "--use-stat-tables=never",
];

/// What a server has that the sums of its tables do not show.
fn made(session: &mut Session) -> Vec<Vec<Vec<Option<String>>>> {
    let queries = [
        "SELECT table_schema, table_name, engine, row_format, table_collation FROM information_schema.tables \
         WHERE table_schema LIKE 'app%' ORDER BY 1, 2",
        "SELECT COUNT(*) FROM app.words WHERE MATCH (a) AGAINST ('ab' IN BOOLEAN MODE)",
        "SELECT name, value FROM app.v ORDER BY 1",
    ];
    queries.iter().map(|query| session.strings(query).unwrap()).collect()
}

#[test]
fn statements_are_replayed_under_the_original_settings() {
    let mut scene = Scene::new(Product::MariaDb1011, &HOSTILE);
    scene.backup();
    let have: BTreeMap<String, ()> = scene
        .session
        .strings("SHOW GLOBAL VARIABLES")
        .unwrap()
        .into_iter()
        .filter_map(|row| Some((row.into_iter().next()??.to_lowercase(), ())))
        .collect();
    // In the log are the statements, so they ask the server that replays them.
    scene.does(&[
        "SET binlog_format = STATEMENT",
        // A session of ours has its own, and the log does not say so.
        "SET group_concat_max_len = DEFAULT",
        "CREATE TABLE app.v (name VARCHAR(64), value VARCHAR(2000))",
    ]);
    for name in noted().into_iter().filter(|name| have.contains_key(*name)) {
        scene.does(&[&format!("INSERT INTO app.v SELECT '{name}', @@GLOBAL.{name}")]);
    }
    scene.does(&[
        "CREATE TABLE app.Mixed (a INT) ENGINE=InnoDB",
        "INSERT INTO APP.MIXED VALUES (1)",
        "CREATE TABLE app.loose (a INT) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=13",
        "CREATE TABLE app.engine (a INT)",
        "CREATE TABLE app.stamp (a TIMESTAMP, b TIMESTAMP NULL)",
        "CREATE TABLE app.words (a VARCHAR(20) CHARACTER SET utf8, FULLTEXT (a)) ENGINE=InnoDB",
        "INSERT INTO app.words VALUES ('ab cd')",
        "CREATE TABLE app.pages (a INT) ENGINE=Aria",
        "CREATE DATABASE app3",
        "CREATE TABLE app3.x (a TEXT)",
        "INSERT INTO app.v SELECT 'a third', 1 / 3",
        "INSERT IGNORE INTO app.v SELECT 'a list', GROUP_CONCAT(seq) FROM app.seq_1_to_90",
        "INSERT INTO app.v SELECT 'a week', WEEK('2026-01-01')",
    ]);
    let moment = scene.moment();
    let wanted = made(&mut scene.session);
    scene.archive();
    let ended = scene.restore(&["--until", "end"]).exits(0);
    let back = scene.folder.path().join("back");
    let options = ["--skip-grant-tables", "--innodb-ft-min-token-size=2", "--innodb-ft-enable-stopword=OFF"];
    let options = options.map(str::to_owned).to_vec();
    let settings = Settings { data: Some(back), options, ..Settings::default() };
    let found = sandbox::find(&places(), Product::MariaDb1011).unwrap();
    let server = Sandbox::start(&found, &places(), &settings).unwrap();
    assert_eq!(made(&mut session(&server)), wanted, "{}", ended.err);
    drop(server);
    assert_eq!(scene.found(), moment.sums);
}

/// All events of a server, and whether they run.
fn events(session: &mut Session) -> Vec<Vec<Option<String>>> {
    session.strings("SELECT db, name, status, originator, comment FROM mysql.event ORDER BY 1, 2").unwrap()
}

/// Logs of this server that it does not write any more.
fn add_dead_logs(scene: &Scene) {
    let data = scene.server.data();
    for name in ["a", "dead", "m", "z"] {
        fs::copy(data.join("binlog.000001"), data.join(format!("{name}.000001"))).unwrap();
        fs::write(data.join(format!("{name}.index")), format!("./{name}.000001\n")).unwrap();
    }
}

#[test]
fn events_are_restored_and_unlogged_changes_are_found() {
    let mut scene = Scene::new(Product::MariaDb1011, &[]);
    let on = "ON SCHEDULE EVERY 1 DAY";
    add_dead_logs(&scene);
    scene.does(&[
        "CREATE DATABASE app9",
        &format!("CREATE EVENT app.kept {on} DO SELECT 1"),
        &format!("CREATE EVENT app.off {on} DISABLE DO SELECT 1"),
        &format!("CREATE EVENT app9.gone {on} DO SELECT 1"),
    ]);
    scene.backup();
    scene.does(&[
        &format!("CREATE EVENT app.made {on} DO DELETE FROM app.t"),
        &format!("CREATE EVENT app.quiet {on} DISABLE DO SELECT 1"),
        &format!("CREATE EVENT app.away {on} DISABLE ON SLAVE DO SELECT 1"),
        "CREATE EVENT app.over ON SCHEDULE AT '2020-01-01 00:00:00' ON COMPLETION PRESERVE DO SELECT 1",
        "ALTER EVENT app.off COMMENT 'still off'",
        "ALTER EVENT app.made COMMENT 'still on'",
        "ALTER EVENT app.kept DISABLE",
        "DROP DATABASE app9",
        "CREATE DATABASE app9",
        "INSERT INTO app.t VALUES (3, 'three')",
    ]);
    let moment = scene.moment();
    let wanted = events(&mut scene.session);
    scene.archive();
    scene.restore(&["--until", "end"]).exits(0);
    let options = vec!["--skip-grant-tables".to_owned()];
    let data = Some(scene.folder.path().join("back"));
    let settings = Settings { data, options, ..Settings::default() };
    let found = sandbox::find(&places(), Product::MariaDb1011).unwrap();
    let server = Sandbox::start(&found, &places(), &settings).unwrap();
    assert_eq!(events(&mut session(&server)), wanted);
    drop(server);
    assert_eq!(scene.found(), moment.sums);
    scene.does_not_restore(
        &["--until", "end", "--server-option=--slave-skip-errors=all"],
        2,
        "would leave out",
    );
    // The second generation has what the log lacks, the third one has not more than the log.
    scene.does(&["SET sql_log_bin = 0", "INSERT INTO app.t VALUES (4, 'unlogged')", "SET sql_log_bin = 1"]);
    scene.backup();
    scene.does(&["INSERT INTO app.t VALUES (5, 'logged')"]);
    scene.backup();
    scene.archive();
    let differs =
        scene.run(&["verify", "repo/db@2", "--replay"]).exits(4).says(&["1 difference", "sql_log_bin=0"]);
    assert!(differs.out.contains("`app`.`t`") && differs.out.contains("db@1 and the log"), "{}", differs.out);
    scene
        .run(&["verify", "repo/db", "--replay"])
        .exits(0)
        .says(&["db@2 and the archived log up to db@3", "all equal"]);
    scene.run(&["verify", "repo/db@1", "--replay"]).exits(1).says(&["no generation before 1"]);
    // Somebody gives a number a second time.
    let number = moment.gtid.rsplit('-').next().unwrap();
    scene.does(&[&format!("SET gtid_seq_no = {number}"), "INSERT INTO app.t VALUES (6, 'again')"]);
    scene.archive();
    for option in ["--until", "--before"] {
        scene.does_not_restore(&[option, &moment.gtid], 2, "twice in the log");
    }
}
