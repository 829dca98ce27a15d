//! Dumps of a private server become tables of Iceberg, and engines read what the server has.
//!
//! Tests that need engines are left out of a plain `cargo test`. `cargo xtask iceberg` installs the engines,
//! and runs all tests; `REMORA` names the program that dumps.

mod engines;
mod run;
mod store;
mod support;
