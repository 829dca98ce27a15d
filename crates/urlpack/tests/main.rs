//! Tests of the whole crate through its public interface.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]

#[path = "main/golden.rs"]
mod golden;
#[path = "main/hostile.rs"]
mod hostile;
#[path = "main/model.rs"]
mod model;
#[path = "main/properties.rs"]
mod properties;
