//! Galera clusters: all members have the same rows, whatever happens to one of them.

use sandbox::{Ability, Places, Product, Sandbox, Settings, list, start_cluster};

use crate::{mariadb, sql};

/// Whether clusters can be started here; if not, the test is noted as skipped.
fn covered(test: &str) -> bool {
    let places = Places::customary(|name| std::env::var_os(name)).unwrap();
    sandbox::galera_test_server(test, &places, |name| std::env::var_os(name)).unwrap().is_some()
}

/// The rows of a table on a member, once it has everything that was committed before.
fn rows(member: &Sandbox) -> String {
    sql(member, "SET wsrep_sync_wait = 1; SELECT x FROM a.t ORDER BY x")
}

fn start(places: &Places) -> Vec<Sandbox> {
    let settings = Settings { name: Some("three".to_owned()), ..Settings::default() };
    start_cluster(&mariadb(), places, &settings, 3).unwrap()
}

#[test]
fn members_have_the_same_rows_after_a_kill_and_after_a_stop() {
    if !covered("members_have_the_same_rows_after_a_kill_and_after_a_stop") {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let places = Places { cache: cache.path().to_owned() };
    let mut members = start(&places);
    for member in &members {
        assert_eq!(sql(member, "SHOW STATUS LIKE 'wsrep_cluster_size'"), "wsrep_cluster_size\t3\n");
    }
    sql(&members[0], "CREATE DATABASE a; CREATE TABLE a.t (x INT PRIMARY KEY) ENGINE=InnoDB");
    sql(&members[1], "INSERT INTO a.t VALUES (1)");
    // A killed member gets what it missed.
    members[2].kill().unwrap();
    sql(&members[0], "INSERT INTO a.t VALUES (2)");
    members[2].restart().unwrap();
    members.iter().for_each(|member| assert_eq!(rows(member), "1\n2\n"));
    let names: Vec<_> = list(&places).into_iter().map(|listed| (listed.name, listed.cluster)).collect();
    let of = |name: &str| (name.to_owned(), Some("three".to_owned()));
    assert_eq!(names, [of("three-1"), of("three-2"), of("three-3")]);
    // Stopped in any order, one of them before the last row.
    members[0].stop().unwrap();
    sql(&members[1], "INSERT INTO a.t VALUES (3)");
    members.iter_mut().rev().for_each(|member| member.stop().unwrap());
    drop(members);
    let members = start(&places);
    members.iter().for_each(|member| assert_eq!(rows(member), "1\n2\n3\n"));
    // All of them killed at once.
    drop(members.into_iter().map(|mut member| member.kill().unwrap()).collect::<Vec<_>>());
    let members = start(&places);
    members.iter().for_each(|member| assert_eq!(rows(member), "1\n2\n3\n"));
}

#[test]
fn what_is_no_cluster_here_says_what_is() {
    let cache = tempfile::tempdir().unwrap();
    let places = Places { cache: cache.path().to_owned() };
    let others = Product::ALL.into_iter().filter(|product| !product.can(Ability::Galera));
    for found in others.filter_map(|product| sandbox::find(&crate::places(), product).ok()) {
        let told = start_cluster(&found, &places, &Settings::default(), 3).unwrap_err().to_string();
        assert!(told.contains("--galera --server mariadb-10.11"), "{told}");
    }
}
