//! Dumps of a private server become tables of Iceberg, and engines read what the server has.
//!
//! Tests that need engines are left out of a plain `cargo test`. `cargo xtask iceberg` installs the engines,
//! and runs all tests; `REMORA` names the program that dumps.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test damages files, and nothing of it must survive a crash"
)]

mod engines;
mod run;
mod store;
mod support;
