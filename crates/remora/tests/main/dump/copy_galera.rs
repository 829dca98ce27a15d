//! A copy into a member of a Galera cluster, and out of one.

use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::{Product, Sandbox, Settings, start_cluster};

use super::copy_follow::{LOG, Random, assert_same, execute, make, once, transact};
use super::{OWN, Pair, start};
use crate::support::{connect, places, until};

/// Members that log what other members write, too, and a server of its own.
fn cluster(test: &str) -> Option<(Vec<Sandbox>, Sandbox)> {
    let installation =
        sandbox::galera_test_server(test, &places(), |name| std::env::var_os(name)).unwrap()?;
    let own = ["--innodb-buffer-pool-size=64M", "--log-slave-updates=1"];
    let options = own.iter().chain(&LOG).map(|option| (*option).to_owned()).collect();
    let settings = Settings { options, ..Settings::default() };
    let members = start_cluster(&installation, &places(), &settings, 2).unwrap();
    Some((members, start(Product::MariaDb1011, &[&OWN[..], &LOG].concat())))
}

/// How many transactions of others a member has ended for those of its cluster.
fn conflicts(member: &Sandbox) -> u64 {
    let sql = "SELECT CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM information_schema.GLOBAL_STATUS \
               WHERE VARIABLE_NAME IN ('wsrep_local_cert_failures', 'wsrep_local_bf_aborts')";
    connect(member.socket()).value(sql).unwrap().unwrap().parse().unwrap()
}

#[test]
fn a_copy_goes_out_of_a_cluster_and_into_it_while_all_members_write() {
    let test = "a_copy_goes_out_of_a_cluster_and_into_it_while_all_members_write";
    let Some((mut members, own)) = cluster(test) else { return };
    let (other, member) = (members.remove(1), members.remove(0));
    let folder = tempfile::Builder::new().prefix("remora-test-").tempdir().unwrap();
    let mut pair = Pair { from: member, to: own, folder };
    // What any member writes is in the log of each.
    make(&pair);
    once(&pair, &[]).exits(0);
    let mut random = Random(3);
    for _ in 0..3 {
        let mut both = [pair.source(), connect(other.socket())];
        // Each statement waits for what the other member has committed.
        both.iter_mut().for_each(|session| execute(session, &["SET wsrep_sync_wait = 7"]));
        (0..60).for_each(|at| transact(&mut both[at % 2], &mut random));
        execute(&mut both[0], &["SELECT COUNT(*) FROM d.one"]);
        once(&pair, &["--resume"]).exits(0);
        assert_same(&pair);
    }
    // The other way round, into a cluster in which others write, too.
    execute(&mut pair.source(), &["DROP DATABASE d", "DROP DATABASE IF EXISTS _remora"]);
    std::mem::swap(&mut pair.from, &mut pair.to);
    once(&pair, &[]).exits(0);
    let before = conflicts(&pair.to);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It takes back what it changes: no row differs, but transactions conflict all the time.
        scope.spawn(|| {
            let mut session = connect(other.socket());
            while !is_over.load(Ordering::Relaxed) {
                for sql in ["BEGIN", "UPDATE d.two SET n = n + 100", "UPDATE d.two SET n = n - 100", "COMMIT"]
                {
                    session.execute(sql).ok();
                }
            }
        });
        let mut source = pair.source();
        until("transactions conflict", || {
            (0..20).for_each(|_| transact(&mut source, &mut random));
            execute(&mut source, &["REPLACE INTO d.two VALUES ('a', 1, UUID()), ('b c', 2, UUID())"]);
            once(&pair, &["--resume"]).exits(0);
            conflicts(&pair.to) > before
        });
        is_over.store(true, Ordering::Relaxed);
    });
    once(&pair, &["--resume"]).exits(0);
    execute(&mut pair.target(), &["SET GLOBAL wsrep_sync_wait = 1"]);
    assert_same(&pair);
    execute(&mut connect(other.socket()), &["SET GLOBAL wsrep_sync_wait = 1"]);
    // The member stays: the other one alone would be no cluster.
    let _member = std::mem::replace(&mut pair.to, other);
    assert_same(&pair);
}
