//! Which servers tests run on.

use std::ffi::OsString;

use crate::{Error, Installation, Places, Product, find};

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
