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
#[path = "main/encryption.rs"]
mod encryption;
#[path = "main/fault.rs"]
mod fault;
#[path = "main/forged.rs"]
mod forged;
#[path = "main/format.rs"]
mod format;
#[path = "main/format_rules.rs"]
mod format_rules;
#[path = "main/layout_builder.rs"]
mod layout_builder;
#[path = "main/mirror.rs"]
mod mirror;
#[path = "main/model.rs"]
mod model;
#[path = "main/pages.rs"]
mod pages;
#[path = "main/real_files.rs"]
mod real_files;
#[path = "main/repair.rs"]
mod repair;
#[path = "main/restore_paths.rs"]
mod restore_paths;
#[path = "main/rules.rs"]
mod rules;
#[path = "main/scan.rs"]
mod scan;
#[path = "main/store_contract.rs"]
mod store_contract;
#[path = "main/tree.rs"]
mod tree;
