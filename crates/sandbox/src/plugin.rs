//! The plugin folder of a sandbox: the server's own plugins, and additional ones.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::At;
use crate::{Error, Installation, folder};

/// The plugin folder of the sandbox in `folder`; it exists once the sandbox was started with plugins of its
/// own.
pub(crate) fn folder(folder: &Path) -> PathBuf {
    folder.join("plugin")
}

/// Fills the plugin folder: links to the server's plugins, copies of `libraries`.
///
/// They are copies, so that rebuilding a library does not replace the old one under a running server.
pub(crate) fn lay_out(
    folder: &Path,
    installation: &Installation,
    libraries: &[PathBuf],
) -> Result<(), Error> {
    let own = self::folder(folder);
    if libraries.is_empty() && !own.is_dir() {
        return Ok(());
    }
    folder::create(&own)?;
    if installation.plugin_dir.is_dir() {
        let brought = &installation.plugin_dir;
        for entry in std::fs::read_dir(brought).at("cannot read folder", brought)? {
            let entry = entry.at("cannot read folder", brought)?;
            let link = own.join(entry.file_name());
            if !link.exists() {
                // Its target is gone.
                folder::remove_file(&link)?;
                symlink(entry.path(), &link).at("cannot link", &link)?;
            }
        }
    }
    for library in libraries {
        let name = library.file_name().unwrap_or(library.as_os_str());
        folder::copy_file(library, &own.join(name))?;
    }
    Ok(())
}
