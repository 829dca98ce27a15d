//! A command that is run for the user: started, passed signals, ended with everything that it has started,
//! and reported to whoever wants to know how it ended.

mod child;
mod hook;

pub use child::{Child, Signals, Stopped, adopt, code};
pub use hook::{Hook, JobEnd};
