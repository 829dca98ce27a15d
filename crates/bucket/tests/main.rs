//! Tests of the store, against a small one in this process that can misbehave.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

#[path = "main/disk.rs"]
mod disk_files;
#[path = "main/fake.rs"]
mod fake;
#[path = "main/lease.rs"]
mod lease;
#[path = "main/mirror.rs"]
mod mirror;
#[path = "main/read.rs"]
mod read;
#[path = "main/real.rs"]
mod real;
#[path = "main/retain.rs"]
mod retain;
#[path = "main/store.rs"]
mod store;
#[path = "../../block/tests/main/store_contract.rs"]
mod store_contract;
