//! MySQL 9.7, which makes its system tables by itself.

use sandbox::{Installation, Product, Settings};

use crate::{ask, places, sql, start};

/// The server; `None`, which the run names, if it is not here.
fn mysql(test: &str) -> Option<Installation> {
    let environment = |name: &str| std::env::var_os(name);
    sandbox::named_test_server(test, Product::MySql97, &places(), environment).unwrap()
}

#[test]
fn it_starts_answers_stops_and_starts_again() {
    let Some(installation) = mysql("it_starts_answers_stops_and_starts_again") else { return };
    let mut server = start(&installation, &Settings { port: Some(0), ..Settings::default() });
    // What looks at processes must know it.
    let process = format!("/proc/{}", server.pid());
    assert_eq!(std::fs::read_to_string(format!("{process}/comm")).unwrap(), "mysqld\n");
    assert_eq!(std::fs::read_link(format!("{process}/exe")).unwrap(), installation.daemon);
    let users = "SELECT User, Host FROM mysql.user WHERE User NOT LIKE 'mysql.%' ORDER BY Host";
    assert_eq!(sql(&server, users), "root\t127.0.0.1\nroot\t::1\nroot\tlocalhost\n");
    assert_eq!(sql(&server, "SELECT @@log_bin, @@performance_schema, @@secure_file_priv"), "0\t1\t\n");
    sql(&server, "CREATE DATABASE app; CREATE TABLE app.t SELECT 7 AS id");
    server.stop().unwrap();
    server.restart().unwrap();
    let port = format!("--port={}", server.port().unwrap());
    assert_eq!(ask(&["--host=127.0.0.1", &port], "SELECT id FROM app.t"), "7\n");
}

#[test]
fn two_have_different_ids() {
    let Some(installation) = mysql("two_have_different_ids") else { return };
    let options = ["--innodb-buffer-pool-size=32M", "--performance-schema=off"].map(str::to_owned).to_vec();
    let id = || {
        let server = start(&installation, &Settings { options: options.clone(), ..Settings::default() });
        sql(&server, "SELECT @@server_uuid")
    };
    assert_ne!(id(), id());
}
