//! What a sandbox is to be like.

use std::path::PathBuf;

/// What a sandbox is to be like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it lives: a folder that is absent, empty, or a stopped sandbox, which is started again with its
    /// data. None: a folder in the cache for a sandbox with a name, else a temporary one, which goes with the
    /// sandbox when that is tied to this process.
    pub folder: Option<PathBuf>,
    /// A data folder that is there already, for the server to work on. None: a new one.
    pub data: Option<PathBuf>,
    /// Further options for the server, such as `--innodb-buffer-pool-size=1G`; they override the default
    /// ones.
    pub options: Vec<String>,
    /// Libraries of plugins, copied into a plugin folder of the sandbox's own beside links to the server's
    /// plugins. They stay there for later starts. What SQL makes of them is the caller's to run.
    pub plugins: Vec<PathBuf>,
    /// The port on 127.0.0.1, 0 for any free one; none for a server without network.
    pub port: Option<u16>,
    /// Whether the server is stopped when the [`Sandbox`](crate::Sandbox) is dropped or this process ends,
    /// even by SIGKILL.
    pub tie_to_parent: bool,
    /// The name under which [`crate::list`] shows it.
    pub name: Option<String>,
}

impl Default for Settings {
    /// What a test wants: a temporary folder, a socket only, and an end with the test.
    fn default() -> Settings {
        Settings {
            folder: None,
            data: None,
            options: Vec::new(),
            plugins: Vec::new(),
            port: None,
            tie_to_parent: true,
            name: None,
        }
    }
}
