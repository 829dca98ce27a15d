//! Properties that hold for any bytes, and whole files as cases.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test itself")]

#[path = "main/case.rs"]
mod case;
#[path = "main/dialect_check.rs"]
mod dialect_check;
#[path = "main/encoding.rs"]
mod encoding;
#[path = "main/field.rs"]
mod field;
#[path = "main/format.rs"]
mod format;
#[path = "main/infer.rs"]
mod infer;
#[path = "main/rewrite.rs"]
mod rewrite;
#[path = "main/sniff.rs"]
mod sniff;
#[path = "main/split.rs"]
mod split;
#[path = "main/text.rs"]
mod text;
