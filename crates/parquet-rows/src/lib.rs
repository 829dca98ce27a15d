//! Rows as Parquet, and Parquet as rows: bytes in, bytes out.

pub mod foreign;
