//! What a server says about itself: status counters as true changes per second, and variables compared.

pub mod counter;
pub mod variable;
