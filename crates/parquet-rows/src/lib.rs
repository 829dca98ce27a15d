//! Rows as Parquet, and Parquet as rows: bytes in, bytes out.
//!
//! [`Writer`] takes the lines of a table's rows, as a dump has them (docs/formats/dump.md), and makes columns
//! whose types every reader of Parquet takes exactly. [`Reader`] makes the same lines of such a file. A
//! value that its type can't hold, or that would be printed otherwise, is NULL in the file and handed to the
//! caller: an odd value. So the lines that come back are those that went in, byte by byte.
//!
//! [`foreign`] reads what other programs wrote.
//!
//! The format: <https://parquet.apache.org/docs/file-format/>.

mod column;
mod date;
mod encoding;
mod error;
pub mod foreign;
mod kind;
mod leaf;
mod line;
mod number;
mod path;
mod reader;
mod value;
mod writer;

pub use column::Column;
pub use encoding::{EncodingSet, Encodings};
pub use error::Error;
pub use line::OddValue;
pub use path::{PATH_NULL, folder_name, parse_folder_name};
pub use reader::{OddValues, OnLines, Reader};
pub use writer::{OnOdd, Options, Writer, Written};
