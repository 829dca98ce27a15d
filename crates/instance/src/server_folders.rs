//! Where sandboxes and downloaded servers are.

use anyhow::Context;
use sandbox::Places;

/// The places of this user.
pub fn server_folders() -> anyhow::Result<Places> {
    Places::customary(|name| std::env::var_os(name))
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no place for sandboxes")
}
