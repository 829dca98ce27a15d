//! A Galera cluster: whatever is written through one member is on the others.

use sandbox::{Installation, Sandbox, Settings, start_cluster};

use crate::support::{Ended, connect, places, remora};

/// The value on a member once it has everything that was committed before.
fn value(member: &Sandbox, sql: &str) -> String {
    let mut session = connect(member.socket());
    session.execute("SET wsrep_sync_wait = 1").unwrap();
    session.value(sql).unwrap().unwrap_or_default()
}

/// The installation for members, if a cluster can run here.
fn cluster(test: &str) -> Option<Installation> {
    sandbox::galera_test_server(test, &places(), |name| std::env::var_os(name)).unwrap()
}

#[test]
fn rows_come_and_go_through_any_member() {
    let Some(installation) = cluster("rows_come_and_go_through_any_member") else { return };
    let folder = tempfile::tempdir().unwrap();
    let settings =
        Settings { options: vec!["--innodb-buffer-pool-size=64M".to_owned()], ..Settings::default() };
    let members = start_cluster(&installation, &places(), &settings, 3).unwrap();
    let url = |number: usize| format!("unix://{}", members[number].socket().display());
    let run = |arguments: &[&str]| {
        let mut command = remora(folder.path());
        Ended::of(&command.args(arguments).args(["--no-defaults", "--user=root"]).output().unwrap())
    };
    connect(members[0].socket()).execute("CREATE DATABASE shop").unwrap();
    let rows: String = (0..20_000).map(|id| format!("{id},name {id}\n")).collect();
    std::fs::write(folder.path().join("a.csv"), format!("id,name\n{rows}")).unwrap();
    run(&["import", "a.csv", "--into=shop.a", "--create", "--url", &url(0)]).exits(0);
    assert_eq!(value(&members[2], "SELECT COUNT(*) FROM shop.a"), "20000");
    // Again, over existing rows: the rename reaches the others too.
    std::fs::write(folder.path().join("a.csv"), "id,name\n1,one\n2,two\n").unwrap();
    run(&["import", "a.csv", "--into=shop.a", "--replace", "--url", &url(1)]).exits(0);
    assert_eq!(value(&members[2], "SELECT GROUP_CONCAT(name ORDER BY id) FROM shop.a"), "one,two");
    run(&["dump", "shop", "--output=d", "--url", &url(2)]).exits(0);
    let copied = ["backup", "mysql:", "--way", "copy", "--to", "repo", "--url", &url(2)];
    run(&copied).exits(1).says(&["a member of a Galera cluster", "no backup was made"]);
    run(&["diff", "d", &url(0), "--no-users"]).exits(0);
    connect(members[1].socket()).execute("DROP DATABASE shop").unwrap();
    run(&["load", "d", "--no-users", "--url", &url(1)]).exits(0);
    for member in &members {
        assert_eq!(value(member, "SELECT GROUP_CONCAT(name ORDER BY id) FROM shop.a"), "one,two");
    }
    run(&["diff", "d", &url(0), "--no-users"]).exits(0);
    // A locked member falls behind, and nobody waits for it; later it catches up.
    let client = |number: usize, sql: &str| {
        let client = sandbox::client().unwrap().display().to_string();
        let socket = members[number].socket().display().to_string();
        format!(
            "'{client}' --no-defaults --user=root --skip-column-names --socket='{socket}' --execute=\"{sql}\""
        )
    };
    let count = "SELECT CONCAT('rows ', COUNT(*)) FROM shop.a";
    let inside = [client(1, "INSERT INTO shop.a VALUES (3, 'three')"), client(1, count), client(0, count)];
    let mut command = remora(folder.path());
    let url = url(0);
    command.args(["lock", "--no-defaults", "--user=root", "--url", &url, "--", "sh", "-ec"]);
    let held = Ended::of(&command.arg(inside.join("\n")).output().unwrap()).exits(0).out;
    assert_eq!(held, "rows 3\nrows 2\n");
    assert_eq!(value(&members[0], count), "rows 3");
}
