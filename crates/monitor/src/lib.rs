//! Several servers sampled at the same time, what is asked of them in an incident, recordings of what they
//! said, and numbers in few characters.
//!
//! What a sample is, and what is made of it, is in `status`.

pub mod fleet;
pub mod incident;
pub mod machine;
pub mod number;
pub mod recording;
