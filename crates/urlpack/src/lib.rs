//! URLs in a quarter of their bytes, in order, each by itself.
mod coder;
mod error;
mod file;
mod measure;
mod model;
mod node;
mod pack;
mod train;
mod unpack;

pub use error::Error;
pub use measure::{Measured, measure};
pub use model::{Info, Model, number_of};
pub use train::{Options, Progress, train};
