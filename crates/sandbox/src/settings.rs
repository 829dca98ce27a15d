//! The settings of a sandbox.

use std::path::PathBuf;

/// The settings of a sandbox.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its folder: absent, empty, or a stopped sandbox, which is started again with its data. `None`: for a
    /// named sandbox a folder in the cache, else a temporary one, which is removed with the sandbox if that
    /// is tied to this process.
    pub folder: Option<PathBuf>,
    /// An existing data folder for the server. `None`: a new one.
    pub data: Option<PathBuf>,
    /// Further options for the server, such as `--innodb-buffer-pool-size=1G`; they override the defaults.
    pub options: Vec<String>,
    /// Libraries of plugins, copied into the sandbox's own plugin folder beside links to the server's
    /// plugins. They stay there for later starts. The caller must run the SQL that installs them.
    pub plugins: Vec<PathBuf>,
    /// The port on 127.0.0.1, 0 for any free one; `None` for a server without network.
    pub port: Option<u16>,
    /// Whether the server is stopped when the [`Sandbox`](crate::Sandbox) is dropped or this process ends,
    /// even by SIGKILL.
    pub tie_to_parent: bool,
    /// Whether a new named sandbox in the cache that is tied to this process is removed as it ends, as a
    /// temporary one is.
    pub remove_at_end: bool,
    /// The name under which [`crate::list`] shows it.
    pub name: Option<String>,
}

impl Default for Settings {
    /// What a test needs: a temporary folder, only a socket, and an end together with the test.
    fn default() -> Settings {
        Settings {
            folder: None,
            data: None,
            options: Vec::new(),
            plugins: Vec::new(),
            port: None,
            tie_to_parent: true,
            remove_at_end: false,
            name: None,
        }
    }
}
