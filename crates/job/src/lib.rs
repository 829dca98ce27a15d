//! A command that is run for the user: started, passed signals, ended with everything that it has started,
//! logged, and reported to whoever wants to know how it ended.

mod attend;
mod child;
mod hook;
mod log;

pub use attend::{CommandEnd, attend};
pub use child::{Child, Signals, Stopped, adopt, code};
pub use hook::{Hook, JobEnd};
pub use log::JobLog;
