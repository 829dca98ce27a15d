//! Start, stop, restart, kill, drop.

use std::path::PathBuf;

use sandbox::{Error, Product, Sandbox, Settings};

use crate::{ask, installations, mariadb, places, sql, start};

/// Whether a process is gone, or a zombie.
fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|fields| fields.is_empty() || fields.starts_with(" Z"))
}

#[test]
fn data_outlives_restart_and_kill_but_not_the_sandbox() {
    for installation in installations() {
        let mut server = start(&installation, &Settings::default());
        // Some versions are longer: `11.8.6-MariaDB-0+deb13u1 from Debian`.
        let version = sql(&server, "SELECT VERSION()");
        assert_eq!(version.split_whitespace().next(), Some(installation.version.as_str()));
        sql(&server, "CREATE DATABASE a; CREATE TABLE a.t (x INT) ENGINE=InnoDB; INSERT INTO a.t VALUES (1)");
        server.restart().unwrap();
        sql(&server, "INSERT INTO a.t VALUES (2)");
        server.kill().unwrap();
        assert!(!server.is_running());
        server.restart().unwrap();
        assert!(server.is_running());
        assert_eq!(sql(&server, "SELECT x FROM a.t ORDER BY x"), "1\n2\n");
        let log = std::fs::read_to_string(server.error_log()).unwrap();
        // The first restart has stopped it in order, and the kill has not.
        let ends =
            log.lines().filter(|line| line.contains("Shutdown complete") && !line.contains("completed"));
        assert_eq!(ends.count(), 1, "{log}");
        let (folder, pid) = (server.folder().to_owned(), server.pid());
        drop(server);
        assert!(is_gone(pid));
        assert!(!folder.exists());
    }
}

#[test]
fn a_server_is_stopped_in_order() {
    for installation in installations() {
        let mut server = start(&installation, &Settings::default());
        let pid = server.pid();
        server.stop().unwrap();
        server.stop().unwrap();
        assert!(is_gone(pid) && !server.is_running());
        assert!(server.data().is_dir(), "only drop clears away");
        let log = std::fs::read_to_string(server.error_log()).unwrap();
        assert!(log.contains("Shutdown complete"), "{log}");
    }
}

#[test]
fn a_fresh_server_has_one_user_and_no_database() {
    for installation in installations() {
        let server = start(&installation, &Settings::default());
        let users =
            sql(&server, "SELECT User, Host FROM mysql.user WHERE User NOT LIKE 'm%.%' ORDER BY Host");
        assert_eq!(users, "root\t127.0.0.1\nroot\t::1\nroot\tlocalhost\n");
        assert_eq!(sql(&server, "SELECT COUNT(*) FROM mysql.db WHERE User NOT LIKE 'm%.%'"), "0\n");
        let databases = sql(&server, "SHOW DATABASES");
        let known = ["information_schema", "mysql", "performance_schema", "sys"];
        assert!(databases.lines().all(|name| known.contains(&name)), "{databases}");
        // The dictionary of newer MySQL has its routines and events in tables that nobody sees.
        let shown = if installation.product == Product::MySql97 { 2 } else { 0 };
        for table in &["proc", "event", "innodb_table_stats", "func", "plugin", "time_zone"][shown..] {
            sql(&server, &format!("SELECT COUNT(*) FROM mysql.{table}"));
        }
        assert_eq!(sql(&server, "SELECT @@local_infile, @@skip_networking"), "1\t1\n");
        let file = server.folder().join("out.txt");
        sql(&server, &format!("SELECT 'anywhere' INTO OUTFILE '{}'", file.display()));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "anywhere\n");
    }
}

#[test]
fn servers_do_not_meet() {
    let installation = mariadb();
    let servers: Vec<Sandbox> = std::thread::scope(|scope| {
        let starts: Vec<_> =
            (0..4).map(|_| scope.spawn(|| start(&installation, &Settings::default()))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    for (number, server) in servers.iter().enumerate() {
        sql(server, &format!("CREATE DATABASE d{number}"));
    }
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(sql(server, "SHOW DATABASES LIKE 'd%'"), format!("d{number}\n"));
    }
}

#[test]
fn port_0_is_a_free_port_and_stays_the_same() {
    for installation in installations() {
        let settings = Settings { port: Some(0), ..Settings::default() };
        let mut server = start(&installation, &settings);
        let other = start(&installation, &settings);
        let port = server.port().unwrap();
        assert!(port > 0 && Some(port) != other.port());
        server.restart().unwrap();
        assert_eq!(server.port(), Some(port));
        let way = ["--protocol=tcp", "--host=127.0.0.1", &format!("--port={port}")];
        assert_eq!(ask(&way, "SELECT @@port, @@bind_address"), format!("{port}\t127.0.0.1\n"));
    }
}

#[test]
fn options_override_the_default_ones_and_stay() {
    for installation in installations() {
        let options = vec!["--innodb-buffer-pool-size=64M".to_owned(), "--max-connections=17".to_owned()];
        let mut server = start(&installation, &Settings { options, ..Settings::default() });
        let question = "SELECT @@innodb_buffer_pool_size DIV 1048576, @@max_connections";
        assert_eq!(sql(&server, question), "64\t17\n");
        server.restart().unwrap();
        assert_eq!(sql(&server, question), "64\t17\n");
    }
}

#[test]
fn a_failed_start_says_why_and_leaves_nothing() {
    for installation in installations() {
        let settings = Settings { options: vec!["--no-such-option=1".to_owned()], ..Settings::default() };
        match Sandbox::start(&installation, &places(), &settings) {
            Err(Error::Start { log, folder, .. }) => {
                assert!(log.contains("no-such-option"), "{log}");
                assert!(!folder.exists());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_failed_restart_tells_of_this_start_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings { folder: Some(folder.path().join("a")), ..Settings::default() };
    settings.options = vec!["--first-mistake=1".to_owned()];
    Sandbox::start(&mariadb(), &places(), &settings).unwrap_err();
    settings.options = vec!["--second-mistake=1".to_owned()];
    let told = Sandbox::start(&mariadb(), &places(), &settings).unwrap_err().to_string();
    assert!(told.contains("second-mistake") && !told.contains("first-mistake"), "{told}");
}

#[test]
fn a_daemon_that_is_not_there_is_a_failed_start() {
    // The initialised data folder must exist: this test is not about it.
    drop(start(&mariadb(), &Settings::default()));
    let installation = sandbox::Installation { daemon: PathBuf::from("/nowhere/mariadbd"), ..mariadb() };
    match Sandbox::start(&installation, &places(), &Settings::default()) {
        Err(Error::Start { log, .. }) => assert!(log.contains("/nowhere/mariadbd"), "{log}"),
        other => panic!("{other:?}"),
    }
}
