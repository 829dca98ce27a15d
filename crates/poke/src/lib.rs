//! Stores one value in the memory of a running MariaDB, where SQL can't.
//!
//! [`Access`](access::Access) finds the server's process and opens SQL or its memory. [`image`] finds a
//! variable by its symbol in the program that runs, [`process`] reads and writes its memory, and
//! [`variables`] are those that may be changed. Nothing is stored unless the program, its build, the place
//! and the present value fit.

pub mod access;
pub mod image;
pub mod process;
pub mod variables;
