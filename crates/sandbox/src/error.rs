//! Errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use crate::Product;

/// Why a sandbox could not be started or used.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server is not on this machine; `command` installs or fetches it.
    #[error("{product} is not available: {why}; run: {command}")]
    Missing {
        /// The requested server.
        product: Product,
        /// Where it was looked for, or what was found instead.
        why: String,
        /// One line to type.
        command: String,
    },
    /// The server must come from the system's packages, which have brought one of another series.
    #[error("{product} is not available: the installed server is {version}; choose --server {}", other.id())]
    OtherSeries {
        /// The requested server.
        product: Product,
        /// The one that is installed.
        other: Product,
        /// Its exact version.
        version: String,
    },
    /// `mvn`, `npm` or `apt-get` failed.
    #[error("{product} could not be fetched with {command:?}: {why}")]
    Fetch {
        /// The requested server.
        product: Product,
        /// The command that was run.
        command: String,
        /// The last lines of its output.
        why: String,
    },
    /// No product has this name.
    #[error(transparent)]
    Product(#[from] crate::UnknownProduct),
    /// A sandbox's name is a single file name: letters, digits, `-`, `_` and `.`, not beginning with a `.`,
    /// and not too long.
    #[error(
        "{name:?} cannot name a sandbox; use letters, digits, '-', '_' and '.', begin with a letter or digit, and \
         use at most 200 of them"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// The program that the user named is no server, or does not run.
    #[error("{} is not the program of a server, such as mariadbd or mysqld: {why}", program.display())]
    NoServer {
        /// What was given.
        program: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The first start of this server, which creates its system tables, failed.
    #[error("{server} {version} could not create its system tables; it said:\n{log}")]
    Initialise {
        /// The server.
        server: String,
        /// Its exact version.
        version: String,
        /// The last lines of its output.
        log: String,
    },
    /// The server ended or did not answer while it was starting.
    #[error("{server} in {} did not start: {why}; its error log says:\n{log}", folder.display())]
    Start {
        /// The server.
        server: String,
        /// The sandbox.
        folder: PathBuf,
        /// Whether it ended, or was silent for too long.
        why: String,
        /// The relevant lines of the error log: from the first error on, or the last ones.
        log: String,
    },
    /// A server already runs in this folder.
    #[error("a server already runs in {} as process {pid}; stop it or choose another folder", folder.display())]
    Running {
        /// The sandbox.
        folder: PathBuf,
        /// The process id of its server.
        pid: u32,
    },
    /// The folder contains something else, which is not touched.
    #[error("{} is in use: {why}; choose another folder or empty this one", folder.display())]
    Occupied {
        /// The folder that was given.
        folder: PathBuf,
        /// What is there.
        why: String,
    },
    /// There is no sandbox in this folder.
    #[error("there is no sandbox in {}", folder.display())]
    NoSandbox {
        /// The folder that was given.
        folder: PathBuf,
    },
    /// The server did not shut down cleanly. Its next start does crash recovery.
    #[error("{server} in {} did not stop cleanly: {why}; its error log says:\n{log}", folder.display())]
    Stop {
        /// The server.
        server: String,
        /// The sandbox.
        folder: PathBuf,
        /// Whether it crashed, or was killed because it went on for too long.
        why: String,
        /// The relevant lines of the error log: from the first error on, or the last ones.
        log: String,
    },
    /// The server still exists although it was killed: it hangs inside the kernel.
    #[error("process {pid} does not end even after SIGKILL; look at /proc/{pid}/stack")]
    Unkillable {
        /// The process id of the server.
        pid: u32,
    },
    /// An operation on a file or a process failed.
    #[error("{what} {}", path.display())]
    Io {
        /// The operation, in words that precede the path.
        what: &'static str,
        /// The file, folder or program.
        path: PathBuf,
        /// The operating system's answer.
        #[source]
        source: io::Error,
    },
}

/// Adds the operation and the file to an error of the operating system.
pub(crate) trait At<T> {
    fn at(self, what: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, what: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io { what, path: path.to_owned(), source: source.into() })
    }
}
