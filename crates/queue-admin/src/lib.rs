//! The queues of a server as its SQL shows them: what waits where, how fast it comes and goes, which queue
//! has the dead letters of which, and dead letters that are tried again.
//!
//! The queues themselves are in `queue`, which the server loads; rows are moved by `relay`.

pub mod bench;
pub mod overview;
pub mod retry;
pub mod rows;
pub mod schedules;
pub mod sources;
pub mod tries;
pub mod watch;
