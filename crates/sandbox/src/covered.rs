//! Which servers tests run on.

use std::ffi::OsString;
use std::io::Write;

use crate::member::Member;
use crate::{Ability, Error, Installation, Places, Product, find};

/// The file that what was skipped is noted in.
const SKIPS: &str = "REMORA_TEST_SKIPS";
/// With this set, every server must be here.
const ALL: &str = "REMORA_TEST_ALL_SERVERS";
/// Names of servers, separated by commas: tests run on these only, and they must be here.
const CHOSEN: &str = "REMORA_TEST_SERVERS";

/// The servers that tests run on, as the environment says: those named in `REMORA_TEST_SERVERS`, all of them
/// with `REMORA_TEST_ALL_SERVERS`, otherwise those that are here, the system's first.
///
/// # Errors
///
/// [`Error::Product`] for a name that no server has, [`Error::Missing`] for a server that must be here: one
/// that was named, the system's, or any where all are demanded.
pub fn covered(
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

/// The MariaDB that tests of Galera clusters run on; `None`, and noted as [`skipped`], where there can be
/// none.
///
/// # Errors
///
/// [`Error::Missing`] where all servers are demanded and this is not here.
pub fn covered_cluster(
    test: &str,
    places: &Places,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Installation>, Error> {
    let found = Product::that_can(Ability::Galera).next().map(|product| {
        let installation = find(places, product)?;
        Member::check(&installation).map(|()| installation)
    });
    match found {
        Some(Ok(installation)) => Ok(Some(installation)),
        Some(Err(error)) if environment(ALL).is_none() => {
            skipped(test, &error.to_string(), environment);
            Ok(None)
        }
        other => other.transpose(),
    }
}

/// Tells that a test, or a part of it, is not made here, so that it does not count as passed in silence: on
/// standard error, past what catches the output of tests, and in the file that `REMORA_TEST_SKIPS` names.
pub fn skipped(test: &str, why: &str, environment: impl Fn(&str) -> Option<OsString>) {
    let line = format!("skipped: {test}: {why}\n");
    let told = std::io::stderr().write_all(line.as_bytes());
    let noted = environment(SKIPS).map(|file| {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file)?;
        file.write_all(line.as_bytes())
    });
    // A test that says so nowhere must not look as if it had been made.
    assert!(told.is_ok() && noted.is_none_or(|noted| noted.is_ok()), "{line}");
}
