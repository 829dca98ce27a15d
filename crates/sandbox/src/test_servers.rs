//! Which servers the tests run on.

use std::ffi::OsString;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use crate::galera_node::GaleraNode;
use crate::{Ability, Error, Installation, Places, Product, find};

/// The file in which skipped tests are recorded.
const SKIPS: &str = "REMORA_TEST_SKIPS";
/// The file in which starts of servers are recorded, a line for each: milliseconds, server, test.
const STARTS: &str = "REMORA_TEST_STARTS";
/// If this is set, every server must be installed.
const ALL: &str = "REMORA_TEST_ALL_SERVERS";
/// Seconds of a day.
const DAY_S: u64 = 24 * 3600;
/// Names of servers, separated by commas: tests run only on these, and they must be here.
const CHOSEN: &str = "REMORA_TEST_SERVERS";

/// If this is set, each test runs on all of its servers.
const EVERYWHERE: &str = "REMORA_TEST_EVERYWHERE";

/// Of the servers that a test can run on, the one on which it runs today: another one for the next test, and
/// another one tomorrow. All of them if `REMORA_TEST_EVERYWHERE` is set. The test is known by the name of its
/// thread.
pub fn of_today<P>(all: Vec<P>, environment: impl Fn(&str) -> Option<OsString>) -> Vec<P> {
    let parts = all.len();
    part_of_today(all, parts, environment)
}

/// The same for other cases of a test: every `parts`-th case, beginning with another one each day.
pub fn part_of_today<P>(all: Vec<P>, parts: usize, environment: impl Fn(&str) -> Option<OsString>) -> Vec<P> {
    if parts < 2 || environment(EVERYWHERE).is_some() {
        return all;
    }
    let turn = turn();
    let is_today = |(at, _): &(usize, P)| at % parts == turn % parts;
    all.into_iter().enumerate().filter(is_today).map(|(_, case)| case).collect()
}

/// The number that the name of this test and today's date make.
fn turn() -> usize {
    let thread = std::thread::current();
    let name: usize = thread.name().unwrap_or_default().bytes().map(usize::from).sum();
    name + UNIX_EPOCH.elapsed().map_or(0, |since| usize::try_from(since.as_secs() / DAY_S).unwrap_or(0))
}

/// The same for cases that are numbered: whether one of them has its turn today, by the environment of this
/// process.
#[must_use]
pub fn is_turn(number: usize, parts: usize) -> bool {
    is_everywhere() || number % parts == turn() % parts
}

/// Whether each test of this process runs with all of its cases, as before a release.
#[must_use]
pub fn is_everywhere() -> bool {
    std::env::var_os(EVERYWHERE).is_some()
}

/// The servers for tests that name none, as the environment says: those named in `REMORA_TEST_SERVERS`, all
/// of them with `REMORA_TEST_ALL_SERVERS`, otherwise those that are here, the system's first.
///
/// # Errors
///
/// [`Error::Product`] for an unknown name, [`Error::Missing`] for a server that must be here: a named one,
/// the system's, or any if all are required.
pub fn test_servers(
    places: &Places,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Installation>, Error> {
    if let Some(chosen) = environment(CHOSEN) {
        let chosen = chosen.to_string_lossy().into_owned();
        return chosen.split(',').map(|name| find(places, name.trim().parse()?)).collect();
    }
    let all = environment(ALL).is_some();
    let demanded = |product: Product| all || product == Product::ALL[0];
    let found = Product::ALL.into_iter().map(|product| (product, find(places, product)));
    found
        .filter_map(|(product, found)| match found {
            Ok(found) => Some(Ok(found)),
            Err(error) if demanded(product) => Some(Err(error)),
            Err(_) => None,
        })
        .collect()
}

/// The server of a test that names it; `None`, recorded as [`skipped`], if it is not here.
///
/// # Errors
///
/// [`Error::Missing`] if all servers are required.
pub fn named_test_server(
    test: &str,
    product: Product,
    places: &Places,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Installation>, Error> {
    or_skipped(test, find(places, product), environment)
}

fn or_skipped(
    test: &str,
    found: Result<Installation, Error>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Installation>, Error> {
    match found {
        Err(error) if environment(ALL).is_none() => {
            skipped(test, &error.to_string(), environment);
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// The MariaDB for tests of Galera clusters; `None`, recorded as [`skipped`], if there can't be one.
///
/// # Errors
///
/// [`Error::Missing`] if all servers are required and this one is not here.
pub fn galera_test_server(
    test: &str,
    places: &Places,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Installation>, Error> {
    let found = Product::that_can(Ability::Galera).next().map(|product| {
        let installation = find(places, product)?;
        GaleraNode::check(&installation).map(|()| installation)
    });
    found.map_or(Ok(None), |found| or_skipped(test, found, environment))
}

/// Reports that a test, or a part of it, is not run here, so that it does not silently count as passed: on
/// standard error, bypassing the capture of test output, and in the file that `REMORA_TEST_SKIPS` names.
pub fn skipped(test: &str, why: &str, environment: impl Fn(&str) -> Option<OsString>) {
    let line = format!("skipped: {test}: {why}\n");
    let told = std::io::stderr().write_all(line.as_bytes());
    let noted = environment(SKIPS).map(|file| {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file)?;
        file.write_all(line.as_bytes())
    });
    // If this can't be reported anywhere, the test must not look as if it had run.
    assert!(told.is_ok() && noted.is_none_or(|noted| noted.is_ok()), "{line}");
}

/// Records how long a server took to start, and for which test, in the file that `REMORA_TEST_STARTS` names.
pub(crate) fn started(product: &str, took: Duration) {
    let Some(file) = std::env::var_os(STARTS) else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
    let thread = std::thread::current();
    let line = format!("{} {product} {}\n", took.as_millis(), thread.name().unwrap_or_default());
    // Only a sum is lost.
    drop(file.and_then(|mut file| file.write_all(line.as_bytes())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_runs_on_one_of_its_servers_and_on_all_where_that_is_asked_for() {
        let unset = |_: &str| None;
        let everywhere = |name: &str| (name == EVERYWHERE).then(OsString::new);
        let all = vec![1, 2, 3];
        let of = |name: &str| {
            let all = all.clone();
            let thread =
                std::thread::Builder::new().name(name.to_owned()).spawn(move || of_today(all, unset));
            thread.unwrap().join().unwrap()
        };
        // Names whose bytes add up to three numbers in a row: each server has its turn.
        let mut chosen: Vec<_> = ["a", "b", "c"].map(of).concat();
        chosen.sort_unstable();
        assert_eq!(chosen, all);
        assert_eq!(of_today(all.clone(), everywhere), all);
        assert_eq!(of_today(vec![7], unset), [7]);
        assert!(of_today(Vec::<u8>::new(), unset).is_empty());
    }
}
