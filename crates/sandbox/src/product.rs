//! Which servers there are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Error;

/// A server a sandbox can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Product {
    /// MariaDB 10.11, the one of the system's packages.
    MariaDb1011,
    /// MariaDB 11.4, fetched with `mvn`.
    MariaDb114,
    /// MySQL 5.6, fetched with `npm`.
    MySql56,
}

impl Product {
    /// Every product, the system's first.
    pub const ALL: [Product; 3] = [Product::MariaDb1011, Product::MariaDb114, Product::MySql56];

    /// The word for it on a command line and in file names: what [`FromStr`] reads.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Product::MariaDb1011 => "mariadb-10.11",
            Product::MariaDb114 => "mariadb-11.4",
            Product::MySql56 => "mysql-5.6",
        }
    }

    /// How the exact version of such a server begins.
    pub(crate) fn series(self) -> &'static str {
        match self {
            Product::MariaDb1011 => "10.11.",
            Product::MariaDb114 => "11.4.",
            Product::MySql56 => "5.6.",
        }
    }

    pub(crate) fn is_mariadb(self) -> bool {
        self != Product::MySql56
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Product::MariaDb1011 => "MariaDB 10.11",
            Product::MariaDb114 => "MariaDB 11.4",
            Product::MySql56 => "MySQL 5.6",
        })
    }
}

impl FromStr for Product {
    type Err = Error;

    fn from_str(text: &str) -> Result<Product, Error> {
        Product::ALL
            .into_iter()
            .find(|product| product.id() == text)
            .ok_or_else(|| Error::Product { text: text.to_owned() })
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
