//! A member of a Galera cluster.

use sandbox::{Places, Settings, start_cluster};

use crate::server::{Server, library, product};

#[test]
fn a_queue_is_refused_in_a_galera_cluster() {
    const NAME: &str = "a_queue_is_refused_in_a_galera_cluster";
    let environment = |name: &str| std::env::var_os(name);
    let places = Places::customary(environment).unwrap();
    let Some(installation) = sandbox::galera_test_server(NAME, &places, environment).unwrap() else { return };
    if product() != installation.product {
        return sandbox::skipped(NAME, &format!("{} is no member of clusters here", product()), environment);
    }
    let settings = Settings { plugins: vec![library()], ..Settings::default() };
    let member = start_cluster(&installation, &places, &settings, 1).unwrap().remove(0);
    let server = Server::with_engine(member);
    let mut one = server.connect("d");
    let refused = one.error("CREATE TABLE q (v INT) ENGINE=QUEUE");
    assert!(refused.contains("wsrep_on=OFF"), "{refused}");
    one.run("CREATE TABLE i (v INT) ENGINE=InnoDB");
    let refused = one.error("ALTER TABLE i ENGINE=QUEUE");
    assert!(refused.contains("wsrep_on=OFF"), "{refused}");
    one.run("INSERT INTO i VALUES (1)");
    assert_eq!(one.value("SELECT COUNT(*) FROM i"), Some(1));
    // As one says, it is this member's alone, and whoever takes a row needs to say nothing.
    one.run("SET SESSION wsrep_on = OFF");
    one.run("CREATE TABLE q (v INT) ENGINE=QUEUE");
    one.run("INSERT INTO q VALUES (1), (2)");
    let mut two = server.connect("d");
    assert_eq!(two.column("SELECT v FROM q"), [1, 2]);
}
