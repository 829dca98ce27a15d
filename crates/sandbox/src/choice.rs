//! A server as a user chooses it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::installation::installed_program;
use crate::{Error, Installation, Places, Product, UnknownProduct, find, own_program};

/// A server as a user chooses it on a command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerChoice {
    /// One of the servers that a sandbox can run.
    Product(Product),
    /// The user's own program, of any version. Its path has a `/`.
    Program(PathBuf),
}

impl ServerChoice {
    /// The server that is installed on this machine, of whatever series; without one, the product that the
    /// system's package manager has.
    #[must_use]
    pub fn default_here() -> ServerChoice {
        match installed_program() {
            Some((program, version)) => {
                Product::of(&version).map_or(ServerChoice::Program(program), ServerChoice::Product)
            }
            None => ServerChoice::Product(Product::ALL[0]),
        }
    }

    /// Finds its programs.
    ///
    /// # Errors
    ///
    /// Those of [`find`], and [`Error::NoServer`] for a program.
    pub fn find(&self, places: &Places) -> Result<Installation, Error> {
        match self {
            ServerChoice::Product(product) => find(places, *product),
            ServerChoice::Program(program) => own_program::find(places, program),
        }
    }
}

impl From<Product> for ServerChoice {
    fn from(product: Product) -> ServerChoice {
        ServerChoice::Product(product)
    }
}

/// How to choose a server again.
impl From<&Installation> for ServerChoice {
    fn from(installation: &Installation) -> ServerChoice {
        match installation.is_own {
            true => ServerChoice::Program(installation.daemon.clone()),
            false => ServerChoice::Product(installation.product),
        }
    }
}

impl fmt::Display for ServerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerChoice::Product(product) => f.write_str(product.id()),
            ServerChoice::Program(program) => write!(f, "{}", program.display()),
        }
    }
}

impl FromStr for ServerChoice {
    type Err = UnknownProduct;

    fn from_str(text: &str) -> Result<ServerChoice, UnknownProduct> {
        if text.contains('/') {
            return Ok(ServerChoice::Program(text.into()));
        }
        text.parse().map(ServerChoice::Product)
    }
}

impl Serialize for ServerChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
