//! Backups over a disk that crashes and over the real one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

#[path = "main/support.rs"]
mod support;

#[path = "main/contract.rs"]
mod contract;
#[path = "main/crash.rs"]
mod crash;
#[path = "main/damage.rs"]
mod damage;
#[path = "main/fault.rs"]
mod fault;
#[path = "main/forged.rs"]
mod forged;
#[path = "main/format.rs"]
mod format;
#[path = "main/heal.rs"]
mod heal;
#[path = "main/layout_builder.rs"]
mod layout_builder;
#[path = "main/mirror.rs"]
mod mirror;
#[path = "main/model.rs"]
mod model;
#[path = "main/pages.rs"]
mod pages;
#[path = "main/real.rs"]
mod real;
#[path = "main/restore_paths.rs"]
mod restore_paths;
#[path = "main/scan.rs"]
mod scan;
#[path = "main/sealed.rs"]
mod sealed;
#[path = "main/suite.rs"]
mod suite;
#[path = "main/tree.rs"]
mod tree;
