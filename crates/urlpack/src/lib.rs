//! URLs in about a quarter of their bytes, each on its own, in order, and found by prefix without unpacking.
//!
//! A model is a file that is trained once, on URLs like those to be packed. It turns any string of bytes into
//! a packed value and back. memcmp of packed values is memcmp of the strings, and the strings that begin with
//! a prefix are exactly the values of one half-open range. `docs/formats/urlpack.md` describes the bytes.
//!
//! This crate does no I/O, starts no thread and reads no clock: models and strings come in as bytes.
//!
//! ```
//! use urlpack::{Family, Model};
//!
//! let model = Model::from_bytes(Family::Url.built_in())?;
//! let (mut packed, mut url) = (Vec::new(), Vec::new());
//! model.pack(b"https://www.example.com/index.html", &mut packed);
//! assert!(packed.len() < 20);
//! model.unpack(&packed, &mut url, 1_000)?;
//! assert_eq!(url, b"https://www.example.com/index.html");
//!
//! let (mut min, mut max) = (Vec::new(), Vec::new());
//! model.prefix_min(b"https://www.exa", &mut min);
//! model.prefix_max(b"https://www.exa", &mut max);
//! assert!(min <= packed && packed < max);
//! # Ok::<(), urlpack::Error>(())
//! ```

mod check;
mod coder;
mod error;
mod file;
mod measure;
mod model;
mod model_memory;
mod node;
mod pack;
mod random;
mod registry;
mod search;
mod train;
mod unpack;

pub use error::Error;
pub use file::number_in_head;
pub use measure::{Measured, measure};
pub use model::{Info, Model, number_of};
pub use model_memory::ModelMemory;
pub use registry::{Family, Key, Pin, Registry};
pub use train::{Options, Progress, train};

/// Longest string, in bytes, that the SQL functions and the command line pack, because they can't return a
/// longer one.
pub const STRING_MAX: usize = 1 << 20;
